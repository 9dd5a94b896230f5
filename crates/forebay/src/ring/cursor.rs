//! Free-running positions, and their memory orderings.
//!
//! A [`Cursor`] holds one end's own position and a limit: the position up to which the end may go. The limit is a private
//! copy, which is refreshed only when it does not suffice. A cursor knows no memory and no elements, so it can drive any ring
//! with two positions, including one shared with the kernel (`u32` positions exist for that).
//!
//! ```text
//!            head                    tail
//!  consumer:  position ──── known ───▶ limit = tail when last loaded
//!  producer:                          position ──── known ───▶ limit = head when last loaded + capacity
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | PUBLISH | producer stores tail | consumer loads tail | the elements before tail |
//! | CREDIT | consumer stores head | producer loads head | that the consumer is done with the slots before head |
//! | END | `ring::state` | `ring::state` | the last position stored before |
//! | WAKE | `sync::bell` | `sync::bell` | that a sleeper needs waking |

use crate::sync::{
    atomic::{
        AtomicU32, AtomicUsize,
        Ordering::{self, Acquire, Relaxed, Release},
    },
    planted,
};

/// The edges of the table above that positions take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Publish,
    Credit,
}

impl Edge {
    #[inline(always)]
    fn release(self) -> Ordering {
        let bug = match self {
            Edge::Publish => "publish-relaxed",
            Edge::Credit => "credit-relaxed",
        };
        if planted(bug) { Relaxed } else { Release }
    }
}

/// A position of the other side; it wraps at its own width. Implemented for `AtomicU32`, `AtomicUsize` and
/// [`ReadOnly`](super::kernel::ReadOnly).
pub trait Position {
    /// How far the other side has advanced since `known`, at most 2³¹: the acquire half of its edge.
    fn since(&self, known: usize) -> usize;
}

/// A position that this side stores. Implemented for `AtomicU32` and `AtomicUsize`.
pub trait OwnPosition {
    /// Stores `position`: the release half of `edge`.
    fn store(&self, position: usize, edge: Edge);
}

impl OwnPosition for AtomicUsize {
    #[inline(always)]
    fn store(&self, position: usize, edge: Edge) {
        self.store(position, edge.release()); // PUBLISH or CREDIT
    }
}

impl OwnPosition for AtomicU32 {
    #[inline(always)]
    fn store(&self, position: usize, edge: Edge) {
        self.store(position as u32, edge.release()); // PUBLISH or CREDIT
    }
}

impl Position for AtomicUsize {
    #[inline(always)]
    fn since(&self, known: usize) -> usize {
        self.load(Acquire).wrapping_sub(known) // PUBLISH or CREDIT
    }
}

impl Position for AtomicU32 {
    #[inline(always)]
    fn since(&self, known: usize) -> usize {
        self.load(Acquire).wrapping_sub(known as u32) as usize // PUBLISH or CREDIT
    }
}

/// One end's own position and limit.
#[derive(Debug)]
pub(super) struct Cursor {
    /// Used by this end only; the shared position is a copy of it.
    position: usize,
    /// The first position that this end may not use, as far as it knows: never too large, often too small.
    limit: usize,
}

impl Cursor {
    /// A cursor at `position` that may advance by `known`.
    pub(super) fn new(position: usize, known: usize) -> Self {
        Cursor {
            position,
            limit: position.wrapping_add(known),
        }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// How far this end may certainly go, without loading the other side's position.
    #[inline(always)]
    pub(super) fn cached_available(&self) -> usize {
        self.limit.wrapping_sub(self.position)
    }

    /// The first position that this end may not use, as far as it knows.
    #[inline(always)]
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Loads the other side's position, adds `ahead` (the capacity for a producer), and returns how far this end may go.
    #[inline]
    pub(super) fn refresh(&mut self, theirs: &impl Position, ahead: usize) -> usize {
        let newly = theirs.since(self.limit.wrapping_sub(ahead));
        self.limit = self.limit.wrapping_add(newly);
        self.cached_available()
    }

    /// How far this end may go now; does not change the limit.
    pub(super) fn peer_distance(&self, theirs: &impl Position, ahead: usize) -> usize {
        theirs.since(self.position.wrapping_sub(ahead))
    }

    /// Advances by `n` without publishing. `n` is at most [`cached_available`](Cursor::cached_available).
    #[inline(always)]
    pub(super) fn advance(&mut self, n: usize) {
        self.position = self.position.wrapping_add(n);
    }

    /// Publishes our position to the other side.
    #[inline(always)]
    pub(super) fn publish(&self, mine: &impl OwnPosition, edge: Edge) {
        if planted("publish-late") && edge == Edge::Publish {
            return mine.store(self.position.wrapping_sub(1), edge); // the last element waits for the next one
        }
        mine.store(self.position, edge);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Both ends of a ring whose positions start at `start`, driven until they have wrapped.
    fn wraps<P: Position + OwnPosition>(mine: P, theirs: P, start: usize) {
        let capacity = 6;
        mine.store(start, Edge::Publish);
        theirs.store(start, Edge::Credit);
        let mut producer = Cursor::new(start, capacity);
        let mut consumer = Cursor::new(start, 0);
        for _ in 0..10 {
            assert_eq!(producer.refresh(&theirs, capacity), capacity);
            producer.advance(4);
            producer.publish(&mine, Edge::Publish);
            assert_eq!(
                (producer.cached_available(), consumer.cached_available()),
                (2, 0)
            );
            assert_eq!(consumer.refresh(&mine, 0), 4);
            consumer.advance(4);
            consumer.publish(&theirs, Edge::Credit);
            assert_eq!(producer.refresh(&theirs, capacity), capacity);
        }
        assert!(producer.position() < start);
    }

    #[test]
    fn positions_wrap_at_their_own_width() {
        wraps(
            AtomicUsize::default(),
            AtomicUsize::default(),
            usize::MAX - 10,
        );
        // A kernel ring: our own position has 64 bits, the shared one wraps at 32.
        let (mine, theirs) = (AtomicU32::default(), AtomicU32::default());
        let mut producer = Cursor::new(u32::MAX as usize - 1, 4);
        OwnPosition::store(&theirs, producer.position(), Edge::Credit);
        producer.advance(4);
        producer.publish(&mine, Edge::Publish);
        assert_eq!(mine.load(Relaxed), 2);
        assert_eq!(producer.refresh(&theirs, 4), 0);
        OwnPosition::store(&theirs, 1, Edge::Credit);
        assert_eq!(producer.refresh(&theirs, 4), 3);
    }
}
