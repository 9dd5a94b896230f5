//! How a stream ends: two more bits in the word by which its ring ends.
//!
//! `ring::state` has the word and its edge, END: bytes published before a bit was set are seen by who looks after seeing
//! the bit. To either end, a word of 0 means open, since an end never sees its own `GONE`. Read `reader` next, which draws
//! the conclusions.
//!
//! ```text
//!   writer:  publish the last bytes ─▶ CLOSED, FAILED or PRODUCER_GONE ─▶ wake the reader
//!   reader:                            FAILED or CONSUMER_GONE         ─▶ wake the writer
//! ```

use crate::ring::state::{FIRST_FREE, PRODUCER_GONE, State};

/// The writer has closed the stream.
pub(super) const CLOSED: u32 = FIRST_FREE;
/// Either end has set an error.
pub(super) const FAILED: u32 = FIRST_FREE << 1;

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

impl End {
    /// What the reader makes of the word. An error outweighs a close, and that a writer gone.
    pub(super) fn of(state: &State) -> Option<End> {
        let bits = state.bits();
        let ends = [
            (FAILED, End::Failed),
            (CLOSED, End::Closed),
            (PRODUCER_GONE, End::WriterGone),
        ];
        let mut ends = ends.into_iter().filter(|(bit, _)| bits & bit != 0);
        ends.next().map(|(_, end)| end)
    }
}
