//! How a stream ends: two more bits in the word by which its ring ends.
//!
//! `ring::state` defines the word and its edge, END: an end that sees a bit, and then loads the position, sees all bytes
//! published before the bit was set. A word of 0 means open to either end, since an end never sees its own `GONE`.
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

/// Why no more bytes follow those in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The writer closed it: the content is complete.
    Closed,
    /// Either end called `set_error` or `fail`.
    Failed,
    /// The writer was dropped without closing, for example by a panic: data may be missing.
    WriterGone,
}

impl End {
    /// The reader's interpretation of the word. An error takes precedence over a close, and a close over a dropped writer.
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
