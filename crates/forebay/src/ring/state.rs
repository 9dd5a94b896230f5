//! How a ring ends: one word in which both ends set bits, and none is ever taken back.
//!
//! The two bits here say that an end is gone; the others belong to whoever builds on a ring. It imports `sync`. Read
//! `cursor` for the other edges, `stream` for more bits.
//!
//! ```text
//!   producer:  publish the last element ─▶ set a bit ─▶ wake       while nothing ends it is a word that nobody writes:
//!   consumer:  see a bit ─▶ look once more ─▶ nothing: the end     to load it costs nothing, also on a hot path
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | END | an end sets a bit | the other end loads the word | the last position stored before: look once more after seeing it |

use crate::sync::{
    atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    planted,
};

/// The producer was dropped.
pub(crate) const PRODUCER_GONE: u32 = 1;
/// The consumer was dropped.
pub(crate) const CONSUMER_GONE: u32 = 2;
/// The first bit that is not the ring's.
pub(crate) const FIRST_FREE: u32 = 4;

/// What has ended. An end never sees its own `GONE`.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Written by both ends, a bit at a time, and read by both.
    bits: AtomicU32,
}

impl State {
    /// Adds `bit`; who set it then wakes the other end.
    pub(crate) fn set(&self, bit: u32) {
        let order = if planted("end-relaxed") {
            Relaxed
        } else {
            Release // END
        };
        self.bits.fetch_or(bit, order);
    }

    #[inline(always)]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.bits() & bit != 0
    }

    #[inline(always)]
    pub(crate) fn bits(&self) -> u32 {
        self.bits.load(Acquire) // END
    }
}
