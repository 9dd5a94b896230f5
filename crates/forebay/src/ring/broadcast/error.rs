//! Why nothing was published or received.

use crate::error::coded;

/// A message that is longer than the ring can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Length in bytes of the longest message that fits.
    pub largest: usize,
}

/// A note for which there is no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotesFull {
    /// Bytes that are left for one more note.
    pub left: usize,
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// There is no message now, and the call does not wait.
    Empty,
    /// No message arrived within the time limit.
    TimedOut,
    /// The producer has overwritten messages that this reader had not received. While the ring is open, the reader also skips an
    /// eighth of the intact ones, because they are overwritten next. The next call continues after them.
    Overrun {
        /// How many messages this reader has lost with this overrun, those that it skipped included: at least 1.
        lost: u64,
    },
    /// The next message is longer than the buffer. It is not lost: a call with a longer buffer receives it.
    TooSmall {
        /// Length of the message in bytes.
        needed: usize,
    },
    /// The producer has closed the ring, and all its messages were received or lost.
    Closed,
    /// The memory holds values that a producer does not write. Calls keep failing until the owner corrects the values.
    Broken,
}

coded!([] TooLong, "broadcast ring", {
    TooLong { largest } => Code::TooLong, "this ring holds messages of up to {largest} bytes";
});
coded!([] NotesFull, "broadcast ring", {
    NotesFull { left } => Code::Full, "{left} bytes are left for notes";
});
coded!([] RecvError, "broadcast ring", {
    RecvError::Empty => Code::Empty, "there is no message";
    RecvError::TimedOut => Code::TimedOut, "no message arrived within the time limit";
    RecvError::Overrun { lost } => Code::Overrun, "{lost} messages were overwritten or skipped before they were received";
    RecvError::TooSmall { needed } => Code::TooLong, "the next message has {needed} bytes, more than the buffer";
    RecvError::Closed => Code::Closed, "the producer has closed the ring";
    RecvError::Broken => Code::Damaged, "the memory holds values that no producer writes";
});
