//! Why an end did not push or pop.

use crate::error::coded;
use std::{error, fmt};

/// The other end is gone. Contains the element that was not pushed, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T = ()>(pub T);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the ring is gone")
    }
}

impl<T> error::Error for Closed<T> {}

/// Why a push returned the element.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError<T> {
    /// No slot was vacant, or none became vacant in time.
    Full(T),
    /// The ring is full and the consumer is gone.
    Closed(T),
}

impl<T> PushError<T> {
    /// The element that was not pushed.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(value) | PushError::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "the ring is full",
            PushError::Closed(_) => "the ring is full and its consumer is gone",
        })
    }
}

impl<T> error::Error for PushError<T> {}

/// Why no element was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PopError {
    /// There was no element, or none arrived in time.
    Empty,
    /// The ring is empty and the producer is gone: no element will ever arrive.
    Closed,
}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PopError::Empty => "the ring is empty",
            PopError::Closed => "the ring is empty and its producer is gone",
        })
    }
}

impl error::Error for PopError {}

coded!([T] Closed<T>, "ring", |_it| Code::Closed);
coded!([T] PushError<T>, "ring", |it| match it {
    PushError::Full(_) => Code::Full,
    PushError::Closed(_) => Code::Closed,
});
coded!([] PopError, "ring", |it| match it {
    PopError::Empty => Code::Empty,
    PopError::Closed => Code::Closed,
});
