//! How a stream ends: one word that both ends set bits in, and none is ever taken back.
//!
//! It knows no bytes. It imports `sync`. Read `reader` next, which draws the conclusions.
//!
//! ```text
//!   writer:  publish the last bytes ─▶ set a bit ─▶ wake          as long as it is 0, the stream is open:
//!   reader:  see a bit ─▶ look for bytes once more ─▶ none: end    one load that stays in both ends' caches
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | END | an end sets a bit | the other end loads the word | what it published before, so: look once more after seeing it |
//! | WAKE | `sync::bell` | `sync::bell` | that a sleeper needs waking, after each bit too |

use crate::sync::{
    atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    planted,
};

/// The writer has closed the stream.
pub(super) const CLOSED: u32 = 1;
/// Either end has set an error.
pub(super) const FAILED: u32 = 2;
/// The writer was dropped.
pub(super) const WRITER_GONE: u32 = 4;
/// The reader was dropped.
pub(super) const READER_GONE: u32 = 8;

/// What has happened to a stream. An end never sees its own `GONE`, so to either of them 0 means open.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Written by both ends, a bit at a time, and read by both: see the constants.
    bits: AtomicU32,
}

impl State {
    /// Adds `bit`; who set it then wakes the other end.
    pub(super) fn set(&self, bit: u32) {
        let order = if planted("end-relaxed") {
            Relaxed
        } else {
            Release // END
        };
        self.bits.fetch_or(bit, order);
    }

    #[inline(always)]
    pub(super) fn has(&self, bit: u32) -> bool {
        self.bits() & bit != 0
    }

    /// Whether the writer will push, and the reader get, nothing any more.
    #[inline(always)]
    pub(super) fn is_over(&self) -> bool {
        self.bits() != 0
    }

    /// How it ended, to the reader.
    pub(super) fn end(&self) -> Option<End> {
        let bits = self.bits();
        let ends = [
            (FAILED, End::Failed),
            (CLOSED, End::Closed),
            (WRITER_GONE, End::WriterGone),
        ];
        let mut ends = ends.into_iter().filter(|(bit, _)| bits & bit != 0);
        ends.next().map(|(_, end)| end)
    }

    #[inline(always)]
    fn bits(&self) -> u32 {
        self.bits.load(Acquire) // END
    }
}

/// Why no byte comes after those in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The writer closed it: all is there.
    Closed,
    /// Either end called `set_error`.
    Failed,
    /// The writer was dropped without a word, as by a panic: something may be missing.
    WriterGone,
}
