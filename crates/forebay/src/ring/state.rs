//! How a ring ends: one word in which both ends set bits. Bits are never cleared.
//!
//! The two bits here report that an end is gone. The other bits belong to the module that builds on the ring, such as `stream`.
//!
//! ```text
//!   producer:  publish the last element ─▶ set a bit ─▶ wake       until then no end writes the word,
//!   consumer:  see a bit ─▶ load once more ─▶ nothing: the end     so loading it is cheap, also on a hot path
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | END | an end sets a bit | the other end loads the word | the last position stored before: load the position again after the bit |

use crate::{
    Error,
    sync::{
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
        planted,
    },
};
use std::sync::OnceLock;

/// The producer was dropped.
pub(crate) const PRODUCER_GONE: u32 = 1;
/// The consumer was dropped.
pub(crate) const CONSUMER_GONE: u32 = 2;
/// The first bit that is not the ring's.
pub(crate) const FIRST_FREE: u32 = 4;

/// What has ended. An end never sees its own `GONE` bit.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Written by both ends, one bit at a time, and read by both.
    bits: AtomicU32,
    /// Set by either end, at most once, before it sets the bit of a stream's error.
    reason: OnceLock<Error>,
}

impl State {
    /// Sets `bit`; the caller must then wake the other end.
    pub(crate) fn set(&self, bit: u32) {
        let order = if planted("end-relaxed") {
            Relaxed
        } else {
            Release // END
        };
        self.bits.fetch_or(bit, order);
    }

    /// Sets the reason of an error, unless there is one. The caller then sets the bit.
    pub(crate) fn set_reason(&self, reason: Error) {
        let _first_stays = self.reason.set(reason);
    }

    /// The reason of an error, if one was given.
    pub(crate) fn reason(&self) -> Option<&Error> {
        self.reason.get()
    }

    /// The word, for code in another language: 0 until an end has ended the ring.
    #[cfg(not(any(loom, miri, forebay_one_view)))]
    pub(crate) fn word(&self) -> *const AtomicU32 {
        &raw const self.bits
    }

    #[inline(always)]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.bits() & bit != 0
    }

    /// Whether any bit may be set, without ordering anything: the caller then looks at [`bits`](State::bits).
    #[inline(always)]
    pub(crate) fn may_be_over(&self) -> bool {
        self.bits.load(Relaxed) != 0 // Relaxed: so that an end may keep its fields in registers
    }

    #[inline(always)]
    pub(crate) fn bits(&self) -> u32 {
        self.bits.load(Acquire) // END
    }
}
