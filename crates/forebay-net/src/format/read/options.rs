//! The options of a pcapng block: `code │ length │ value, padded to four`, up to an end mark.

use super::body::Order;
use crate::format::sizes::padded;

pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: Order,
    /// An option did not fit in the block, and the walk ended there.
    pub is_broken: bool,
}

pub(super) struct Opt<'a> {
    pub code: u16,
    pub value: &'a [u8],
    order: Order,
}

impl<'a> Options<'a> {
    pub fn new(bytes: &'a [u8], order: Order) -> Self {
        Options {
            bytes,
            order,
            is_broken: false,
        }
    }

    /// The next option; `None` at the end mark, at the end of the block, and if an option does not fit. In the last case reading
    /// continues after the block, whose lengths are valid.
    pub fn next(&mut self) -> Option<Opt<'a>> {
        let Some((head, rest)) = self.bytes.split_first_chunk::<4>() else {
            self.is_broken |= !self.bytes.is_empty();
            return None;
        };
        let (code, len) = (self.order.half(head, 0), self.order.half(head, 2) as usize);
        if code == 0 {
            self.bytes = &[];
            return None;
        }
        let Some(value) = rest.get(..len) else {
            (self.bytes, self.is_broken) = (&[], true);
            return None;
        };
        // The padding of the last value may be missing.
        self.bytes = &rest[padded(len).min(rest.len())..];
        let order = self.order;
        Some(Opt { code, value, order })
    }
}

impl Opt<'_> {
    /// The value as a 32-bit number, if it has that size.
    pub fn u32(&self) -> Option<u32> {
        Some(self.order.u32(self.value.try_into().ok()?))
    }

    /// The value as a 64-bit number, if it has that size.
    pub fn u64(&self) -> Option<u64> {
        Some(self.order.u64(self.value.try_into().ok()?))
    }

    /// The value as a time in ticks: two words, the high one first in either byte order.
    pub fn ticks(&self) -> Option<u64> {
        let (high, low) = self.value.split_first_chunk::<4>()?;
        let low = self.order.u32(low.try_into().ok()?);
        Some((self.order.u32(*high) as u64) << 32 | low as u64)
    }

    /// The value as text, without the zero that some programs append.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(self.value);
        text.trim_end_matches('\0').to_owned()
    }
}
