//! What the store has to know of the bytes it carries: where records end, and what belongs around them.

use std::num::NonZeroUsize;

/// How a record format is cut, padded and sealed.
///
/// ```
/// use forebay::store::{Framing, Whole};
/// struct Lines;
/// impl Framing for Lines {
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         let end = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
///         Whole { bytes: end, records: bytes[..end].iter().filter(|&&b| b == b'\n').count() as u64 }
///     }
/// }
/// assert_eq!(Lines.last_whole(b"one\ntwo\nthr"), Whole { bytes: 8, records: 2 });
/// assert_eq!((Lines.least_padding(), Lines.head_bytes()), (None, 0));
/// ```
pub trait Framing: Send + Sync {
    /// Of `bytes`, a run that begins with a record: how many are whole records, and how many records.
    fn last_whole(&self, bytes: &[u8]) -> Whole;

    /// The fewest bytes that padding can have; `None` where the format cannot be padded, and files
    /// are then written through the page cache.
    fn least_padding(&self) -> Option<usize> {
        None
    }

    /// Fills `gap`, at least [`least_padding`](Framing::least_padding) bytes, with what readers
    /// skip. Where all records have a multiple of 4 bytes, so has the gap.
    fn pad(&self, _gap: &mut [u8]) {}

    /// Bytes of every record, where all have as many: then the store counts them by their length, which costs less than one
    /// by one. Every reservation is then for a multiple of it, and what [`commit`](super::Reserved::commit) is told is not heard.
    fn record_bytes(&self) -> Option<NonZeroUsize> {
        None
    }

    /// Whether records may be written from where somebody else composed them ([`Loan`](super::Loan)): [`seal`](Framing::seal) does not see
    /// those.
    fn takes_loans(&self) -> bool {
        false
    }

    /// Bytes in front of the first record of each buffer, less than 4096, for [`seal`](Framing::seal).
    fn head_bytes(&self) -> usize {
        0
    }

    /// Completes a buffer before it is written: `block` is its head, its records and its padding.
    /// The draining side calls it, and may do so again for the same bytes.
    fn seal(&self, _block: &mut [u8], _seal: &Seal) {}
}

/// A run of whole records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Bytes of the run.
    pub bytes: usize,
    /// Records in it; blocks that are no records count as bytes only.
    pub records: u64,
}

/// What is known of a buffer when it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// How many records the store accepted before the first one in it.
    pub first: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of padding at its end.
    pub padding: usize,
}
