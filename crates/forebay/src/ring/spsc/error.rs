//! Why an end did not push or pop.

use crate::error::coded;
use std::fmt;

/// The other end is gone. Contains the element that was not pushed, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T = ()>(pub T);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

/// Why a push returned the element.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError<T> {
    /// No slot was vacant, and the call does not wait.
    Full(T),
    /// No slot became vacant within the time limit.
    TimedOut(T),
    /// The consumer is gone.
    Closed(T),
}

impl<T> PushError<T> {
    /// The element that was not pushed.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(value) | PushError::TimedOut(value) | PushError::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::TimedOut(_) => "TimedOut(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

/// Why no element was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PopError {
    /// There was no element, and the call does not wait.
    Empty,
    /// No element arrived within the time limit.
    TimedOut,
    /// The ring is empty and the producer is gone: no element will ever arrive.
    Closed,
}

/// Why a wait for a number of elements or slots ended without them. There may be fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The time limit has passed.
    TimedOut,
    /// The other end is gone, or the stream has ended: no more will follow.
    Closed,
}

coded!([T] Closed<T>, "ring", {
    Closed(_) => Code::Closed, "the other end of the ring is gone";
});
coded!([T] PushError<T>, "ring", {
    PushError::Full(_) => Code::Full, "the ring is full";
    PushError::TimedOut(_) => Code::TimedOut, "the ring stayed full for the whole time limit";
    PushError::Closed(_) => Code::Closed, "the consumer of the ring is gone";
});
coded!([] PopError, "ring", {
    PopError::Empty => Code::Empty, "the ring is empty";
    PopError::TimedOut => Code::TimedOut, "the ring stayed empty for the whole time limit";
    PopError::Closed => Code::Closed, "the ring is empty and its producer is gone";
});
coded!([] WaitError, "ring", {
    WaitError::TimedOut => Code::TimedOut, "the time limit has passed";
    WaitError::Closed => Code::Closed, "the other end has closed or is gone";
});
