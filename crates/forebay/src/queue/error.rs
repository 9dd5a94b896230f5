//! The errors of a queue: why nothing was sent, received or counted.

use super::core::TryError;
use crate::error::coded;

/// Why a message was not sent. A failed send does not change the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// There is no room now, and the call or the queue's policy does not wait.
    Full,
    /// There was no room within the time limit.
    TimedOut,
    /// The queue is closed.
    Closed,
    /// The message is longer than this queue can hold.
    TooLong {
        /// Length in bytes of the longest message that fits.
        largest: usize,
    },
    /// A process has overwritten the shared memory, which therefore no longer holds a queue.
    Broken,
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// There is no message now, and the call does not wait.
    Empty,
    /// No message arrived within the time limit.
    TimedOut,
    /// The queue is closed and empty.
    Closed,
    /// The next message is longer than the buffer. It stays in the queue for the next receive call.
    TooSmall {
        /// Length of that message in bytes.
        needed: usize,
    },
    /// A process has overwritten the shared memory, which therefore no longer holds a queue.
    Broken,
}

/// Why the counts of a shared queue are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsError {
    /// A stopped or very slow process held a lock of the queue for the whole time limit.
    Held,
    /// A process has overwritten the shared memory, which therefore no longer holds a queue.
    Broken,
}

impl From<TryError> for StatsError {
    fn from(error: TryError) -> StatsError {
        match error {
            TryError::Broken => StatsError::Broken,
            _ => StatsError::Held,
        }
    }
}

impl SendError {
    /// `may_wait`: whether the call was allowed to wait.
    pub(super) fn new(error: TryError, may_wait: bool) -> SendError {
        match error {
            TryError::Broken => SendError::Broken,
            TryError::Closed => SendError::Closed,
            TryError::Room { .. } if !may_wait => SendError::Full,
            _ => SendError::TimedOut,
        }
    }
}

impl RecvError {
    /// `may_wait`: whether the call was allowed to wait.
    pub(super) fn new(error: TryError, may_wait: bool) -> RecvError {
        match error {
            TryError::Broken => RecvError::Broken,
            TryError::Closed => RecvError::Closed,
            TryError::Fit(needed) => RecvError::TooSmall { needed },
            TryError::Message if !may_wait => RecvError::Empty,
            _ => RecvError::TimedOut,
        }
    }
}

coded!([] SendError, "queue", {
    SendError::Full => Code::Full, "the queue is full";
    SendError::TimedOut => Code::TimedOut, "the queue stayed full for the whole time limit";
    SendError::Closed => Code::Closed, "the queue is closed";
    SendError::TooLong { largest } => Code::TooLong, "this queue holds messages of up to {largest} bytes";
    SendError::Broken => Code::Damaged, "the queue's memory was overwritten";
});
coded!([] RecvError, "queue", {
    RecvError::Empty => Code::Empty, "the queue is empty";
    RecvError::TimedOut => Code::TimedOut, "no message arrived within the time limit";
    RecvError::Closed => Code::Closed, "the queue is closed and empty";
    RecvError::TooSmall { needed } => Code::TooLong, "the next message has {needed} bytes, more than the buffer";
    RecvError::Broken => Code::Damaged, "the queue's memory was overwritten";
});
coded!([] StatsError, "queue", {
    StatsError::Held => Code::TimedOut, "a stopped or very slow process held the queue's lock for the whole time limit";
    StatsError::Broken => Code::Damaged, "the queue's memory was overwritten";
});
