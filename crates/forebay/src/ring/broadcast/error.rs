//! Why nothing was published or received.

use crate::error::coded;
use std::{error, fmt};

/// A message that is longer than the ring can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Length in bytes of the longest message that fits.
    pub largest: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this ring holds messages of up to {} bytes",
            self.largest
        )
    }
}

impl error::Error for TooLong {}

/// A note for which there is no room left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotesFull {
    /// Bytes that are left for one more note.
    pub left: usize,
}

impl fmt::Display for NotesFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are left for notes", self.left)
    }
}

impl error::Error for NotesFull {}

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

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("there is no message"),
            RecvError::TimedOut => f.write_str("no message arrived within the time limit"),
            RecvError::Overrun { lost } => {
                write!(
                    f,
                    "{lost} messages were overwritten or skipped before they were received"
                )
            }
            RecvError::TooSmall { needed } => {
                write!(
                    f,
                    "the next message has {needed} bytes, more than the buffer"
                )
            }
            RecvError::Closed => f.write_str("the producer has closed the ring"),
            RecvError::Broken => f.write_str("the memory holds values that no producer writes"),
        }
    }
}

impl error::Error for RecvError {}

coded!([] TooLong, "broadcast ring", |_it| Code::TooLong);
coded!([] NotesFull, "broadcast ring", |_it| Code::Full);
coded!([] RecvError, "broadcast ring", |it| match it {
    RecvError::Empty => Code::Empty,
    RecvError::TimedOut => Code::TimedOut,
    RecvError::Overrun { .. } => Code::Overrun,
    RecvError::TooSmall { .. } => Code::TooLong,
    RecvError::Closed => Code::Closed,
    RecvError::Broken => Code::Damaged,
});
