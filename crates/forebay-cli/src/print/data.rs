//! A layer: its captured bytes, which may end anywhere, and its length.

/// The captured bytes end in the middle of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

pub type Printed = Result<(), Cut>;

#[derive(Clone, Copy)]
pub struct Data<'a> {
    pub captured: &'a [u8],
    /// The length on the wire, or the one that a header states. It may be more or less than is captured.
    pub len: usize,
}

impl<'a> From<&'a [u8]> for Data<'a> {
    fn from(captured: &'a [u8]) -> Data<'a> {
        let len = captured.len();
        Data { captured, len }
    }
}

impl<'a> Data<'a> {
    pub fn u8(self, at: usize) -> Result<u8, Cut> {
        self.captured.get(at).copied().ok_or(Cut)
    }

    pub fn array<const N: usize>(self, at: usize) -> Result<[u8; N], Cut> {
        let bytes = self
            .captured
            .get(at..)
            .and_then(|rest| rest.first_chunk::<N>());
        bytes.copied().ok_or(Cut)
    }

    pub fn u16(self, at: usize) -> Result<u16, Cut> {
        self.array(at).map(u16::from_be_bytes)
    }

    pub fn u24(self, at: usize) -> Result<u32, Cut> {
        let [a, b, c] = self.array(at)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub fn u32(self, at: usize) -> Result<u32, Cut> {
        self.array(at).map(u32::from_be_bytes)
    }

    pub fn slice(self, at: usize, len: usize) -> Result<&'a [u8], Cut> {
        self.captured
            .get(at..)
            .and_then(|rest| rest.get(..len))
            .ok_or(Cut)
    }

    /// What follows the first `at` bytes; empty if that is past the end.
    pub fn after(self, at: usize) -> Data<'a> {
        Data {
            captured: self.captured.get(at..).unwrap_or_default(),
            len: self.len.saturating_sub(at),
        }
    }

    /// The first `len` bytes, as far as they are captured.
    pub fn first(self, len: usize) -> Data<'a> {
        let captured = &self.captured[..len.min(self.captured.len())];
        Data { captured, len }
    }
}

/// The Internet checksum of these parts, all but the last of even length: 0 if a sum among them is right.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        let mut words = part.chunks_exact(2);
        for word in &mut words {
            sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [last] = words.remainder() {
            sum += u64::from(*last) << 8;
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The checksum that should be in the field, where `found` is there and `checksum` over everything is `computed`.
pub fn right_checksum(found: u16, computed: u16) -> u16 {
    let mut should = u32::from(found) + u32::from(computed);
    should = (should & 0xffff) + (should >> 16);
    should as u16
}
