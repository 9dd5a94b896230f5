//! What sends and receives answer when there is nothing to do: full, empty, over. It imports nothing. Read `sender` next.

use super::core::No;
use std::{error, fmt};

/// Why a message was not sent. The queue is as if nobody had tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no room now, and the call or the queue's policy does not wait.
    Full,
    /// There was no room within the time limit.
    TimedOut,
    /// The queue is closed.
    Closed,
    /// No message is that long in this queue.
    TooLong {
        /// Bytes of the longest message that it can hold.
        largest: usize,
    },
    /// The shared memory holds no queue any more: a process has overwritten it.
    Broken,
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// There is no message now, and the call does not wait.
    Empty,
    /// No message came within the time limit.
    TimedOut,
    /// The queue is closed, and nothing is left in it.
    Closed,
    /// The next message is longer than the buffer. It stays where it is, for whoever takes it.
    TooSmall {
        /// Bytes of that message.
        needed: usize,
    },
    /// The shared memory holds no queue any more: a process has overwritten it.
    Broken,
}

/// Why there are no counts of a queue between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsError {
    /// A process that is stopped, or very slow, held a lock of the queue for the whole time limit.
    Held,
    /// The shared memory holds no queue any more: a process has overwritten it.
    Broken,
}

impl StatsError {
    pub(super) fn from_no(no: No) -> StatsError {
        match no {
            No::Broken => StatsError::Broken,
            _ => StatsError::Held,
        }
    }
}

impl SendError {
    /// `waited`: whether the call was allowed to.
    pub(super) fn from_no(no: No, waited: bool) -> SendError {
        match no {
            No::Broken => SendError::Broken,
            No::Closed => SendError::Closed,
            No::Room { .. } if !waited => SendError::Full,
            _ => SendError::TimedOut,
        }
    }
}

impl RecvError {
    /// `waited`: whether the call was allowed to.
    pub(super) fn from_no(no: No, waited: bool) -> RecvError {
        match no {
            No::Broken => RecvError::Broken,
            No::Closed => RecvError::Closed,
            No::Fit(needed) => RecvError::TooSmall { needed },
            No::Message if !waited => RecvError::Empty,
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
            RecvError::TimedOut => f.write_str("no message came within the time limit"),
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
                "a process that is stopped or very slow held the queue's lock for the whole time limit",
            ),
            StatsError::Broken => f.write_str("the queue's memory was overwritten"),
        }
    }
}

impl error::Error for SendError {}
impl error::Error for StatsError {}
impl error::Error for RecvError {}
