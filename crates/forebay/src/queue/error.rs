//! The errors of a queue: why nothing was sent, received or counted.

use super::core::TryError;
use crate::error::coded;
use std::{error, fmt};

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

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => f.write_str("the queue is full"),
            SendError::TimedOut => f.write_str("the queue stayed full for the whole time limit"),
            SendError::Closed => f.write_str("the queue is closed"),
            SendError::Broken => f.write_str("the queue's memory was overwritten"),
            SendError::TooLong { largest } => {
                write!(f, "this queue holds messages of up to {largest} bytes")
            }
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("the queue is empty"),
            RecvError::TimedOut => f.write_str("no message arrived within the time limit"),
            RecvError::Closed => f.write_str("the queue is closed and empty"),
            RecvError::Broken => f.write_str("the queue's memory was overwritten"),
            RecvError::TooSmall { needed } => {
                write!(
                    f,
                    "the next message has {needed} bytes, more than the buffer"
                )
            }
        }
    }
}

impl fmt::Display for StatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsError::Held => f.write_str(
                "a stopped or very slow process held the queue's lock for the whole time limit",
            ),
            StatsError::Broken => f.write_str("the queue's memory was overwritten"),
        }
    }
}

impl error::Error for SendError {}
impl error::Error for StatsError {}
impl error::Error for RecvError {}

coded!([] SendError, "queue", |it| match it {
    SendError::Full => Code::Full,
    SendError::TimedOut => Code::TimedOut,
    SendError::Closed => Code::Closed,
    SendError::TooLong { .. } => Code::TooLong,
    SendError::Broken => Code::Damaged,
});
coded!([] RecvError, "queue", |it| match it {
    RecvError::Empty => Code::Empty,
    RecvError::TimedOut => Code::TimedOut,
    RecvError::Closed => Code::Closed,
    RecvError::TooSmall { .. } => Code::TooLong,
    RecvError::Broken => Code::Damaged,
});
coded!([] StatsError, "queue", |it| match it {
    StatsError::Held => Code::TimedOut,
    StatsError::Broken => Code::Damaged,
});
