//! What the store has to know about a record format: where records end, and what to put around them.

use std::num::NonZeroUsize;

/// How the records of a format are delimited, padded and sealed.
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
    /// `bytes` begins with a record. Returns the length of the whole records in it, and their number.
    fn last_whole(&self, bytes: &[u8]) -> Whole;

    /// The fewest bytes that padding can have. `None` if the format cannot be padded: the bytes before and after the whole pages of a buffer then
    /// go through the page cache, and so do buffers below 256 KiB.
    fn least_padding(&self) -> Option<usize> {
        None
    }

    /// Fills `gap`, at least [`least_padding`](Framing::least_padding) bytes, with padding that readers
    /// skip. If all records are multiples of 4 bytes long, so is the gap.
    fn pad(&self, _gap: &mut [u8]) {}

    /// Bytes of every record, if all have the same length. The store then counts records by length, which costs less than
    /// counting one by one. Every reservation must be a multiple of it, and the count passed to
    /// [`commit`](super::ReservedRecord::commit) is ignored.
    fn record_bytes(&self) -> Option<NonZeroUsize> {
        None
    }

    /// Whether records may be written from the caller's memory ([`Loan`](super::Loan)), or be read by others before they are written
    /// ([`Live`](super::Live)). [`seal`](Framing::seal) does not see such records.
    fn takes_loans(&self) -> bool {
        false
    }

    /// Bytes reserved before the first record of each buffer, less than 4096, for [`seal`](Framing::seal).
    fn head_bytes(&self) -> usize {
        0
    }

    /// Completes a buffer before it is written. `block` is its head, its records and its padding. Called on the writing side,
    /// possibly more than once for the same bytes.
    fn seal(&self, _block: &mut [u8], _seal: &Seal) {}
}

/// A run of whole records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Bytes of the run.
    pub bytes: usize,
    /// Records in it; blocks that are not records count as bytes only.
    pub records: u64,
}

/// What is known about a buffer when it is handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// Number of records that the store accepted before the first one in it.
    pub first: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of padding at its end.
    pub padding: usize,
}
