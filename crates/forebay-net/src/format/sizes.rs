//! Small functions that both formats share.

use crate::port::Frame;

/// `n` rounded up to a multiple of four.
#[inline]
pub(super) const fn padded(n: usize) -> usize {
    (n + 3) & !3
}

/// The bytes of `frame`, truncated at `snaplen`.
#[inline]
pub(super) fn captured<'a>(frame: &Frame<'a>, snaplen: u32) -> &'a [u8] {
    &frame.data[..frame.data.len().min(snaplen as usize)]
}

/// Writes `value` at `at`, little-endian. Assigning an array is one store; `copy_from_slice` may become a call.
#[inline(always)]
pub(super) fn put(slot: &mut [u8], at: usize, value: u32) {
    let word: &mut [u8; 4] = (&mut slot[at..at + 4]).try_into().expect("four bytes");
    *word = value.to_le_bytes();
}

/// Reads the little-endian word at `at`; `None` if there are too few bytes.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}
