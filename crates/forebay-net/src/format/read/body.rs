//! The body of a record: numbers in the byte order of the file, and a head of fixed length.

use super::step::Fault;

/// The byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    #[inline(always)]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The word at `at`.
    #[inline(always)]
    pub fn word<const N: usize>(self, head: &[u8; N], at: usize) -> u32 {
        self.u32([head[at], head[at + 1], head[at + 2], head[at + 3]])
    }

    /// The half word at `at`.
    #[inline(always)]
    pub fn half<const N: usize>(self, head: &[u8; N], at: usize) -> u16 {
        self.u16([head[at], head[at + 1]])
    }
}

/// Splits a block's body into its fixed part and the rest.
pub(super) fn split_head<const N: usize>(body: &[u8]) -> Result<(&[u8; N], &[u8]), Fault> {
    let len = body.len();
    body.split_first_chunk().ok_or_else(|| {
        Fault::new(
            "block",
            format!("has {len} bytes, which is too few for its kind"),
        )
    })
}
