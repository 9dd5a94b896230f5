//! The layout of a record file: the head of a block, and how records are stored in it.
//!
//! ```text
//!   0  magic            8   "fbrecs", version 1, and a byte that never occurs in text
//!   8  head check       4   CRC-32C of bytes 12 to 63
//!  12  content check    4   CRC-32C of what follows the head
//!  16  file             8   the same in all blocks of one store, and random
//!  24  first            8   the number of the first record
//!  32  records          4   at least 1
//!  36  record bytes     4   0: each record follows its length (4 bytes)
//!  40  content bytes    4
//!  44  padding bytes    4   zeros after the content, up to the next 4 KiB, so that files can be written past the page cache
//!  48  zeros           16   so that records begin on a cache line
//! ```
//! Numbers are little-endian. The file has no head: each block is complete in itself. Nothing has to be rewritten, and the second
//! file of a series is read like the first. The head has a separate check sum, so a length is used only if it is the one that was
//! written.

use crate::{
    Error, Result,
    store::{Framing, Seal, StoreConfig, Whole},
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    num::NonZeroUsize,
};

pub(super) use crate::store::MAGIC_OF_RECORDS as MAGIC;

/// Bytes of a block's head.
pub(super) const HEAD: usize = 64;

/// Upper bound, exclusive, for the bytes of a block's content and padding.
const MOST: usize = 1 << 30;

/// Upper bound, exclusive, for the bytes of a record whose length all records have.
pub(super) const MAX_RECORD: usize = 1 << 28;

/// The length of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All records have this many bytes.
    Fixed(u32),
    /// Each record has its own length.
    Varying,
}

/// The contents of a block's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub file: u64,
    pub first: u64,
    pub records: u32,
    pub shape: Shape,
    pub content: u32,
    pub padding: u32,
    pub content_check: u32,
}

impl Head {
    pub fn put(&self, to: &mut [u8; HEAD]) {
        to.fill(0);
        to[..8].copy_from_slice(&MAGIC);
        let record = match self.shape {
            Shape::Fixed(bytes) => bytes,
            Shape::Varying => 0,
        };
        to[12..16].copy_from_slice(&self.content_check.to_le_bytes());
        to[16..24].copy_from_slice(&self.file.to_le_bytes());
        to[24..32].copy_from_slice(&self.first.to_le_bytes());
        for (at, word) in [
            (32, self.records),
            (36, record),
            (40, self.content),
            (44, self.padding),
        ] {
            to[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let check = crc32c::crc32c(&to[12..]);
        to[8..12].copy_from_slice(&check.to_le_bytes());
    }

    /// `None`: not a head, or its values are impossible.
    pub fn parse(from: &[u8; HEAD]) -> Option<Head> {
        let word =
            |at: usize| u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if from[..8] != MAGIC || word(8) != crc32c::crc32c(&from[12..]) {
            return None;
        }
        let head = Head {
            file: long(16),
            first: long(24),
            records: word(32),
            shape: match word(36) {
                0 => Shape::Varying,
                bytes => Shape::Fixed(bytes),
            },
            content: word(40),
            padding: word(44),
            content_check: word(12),
        };
        let content = u64::from(head.content);
        let records = u64::from(head.records);
        let fits = match head.shape {
            Shape::Fixed(bytes) => records * u64::from(bytes) == content,
            Shape::Varying => records * 4 <= content,
        };
        let is_short = content + u64::from(head.padding) < MOST as u64;
        let has_next = head.first.checked_add(records).is_some();
        (fits && is_short && has_next && records > 0).then_some(head)
    }

    /// Bytes after the head.
    pub fn body(&self) -> usize {
        self.content as usize + self.padding as usize
    }

    /// The number of the record after the last one.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.records)
    }
}

/// The ranges of the records in `content`, in order; `None` for the first that is not whole.
pub(super) fn spans(shape: Shape, content: &[u8]) -> Spans<'_> {
    Spans { shape, content }
}

pub(super) struct Spans<'a> {
    shape: Shape,
    content: &'a [u8],
}

impl<'a> Iterator for Spans<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.content.is_empty() {
            return None;
        }
        let (len, rest) = match self.shape {
            Shape::Fixed(bytes) => (bytes as usize, self.content),
            Shape::Varying => match self.content.split_first_chunk() {
                Some((len, rest)) => (u32::from_le_bytes(*len) as usize, rest),
                None => (1, &[][..]), // part of a length
            },
        };
        let (record, rest) = match rest.split_at_checked(len) {
            Some((record, rest)) => (Some(record), rest),
            None => (None, &[][..]),
        };
        self.content = rest;
        Some(record)
    }
}

/// Turns buffers into blocks.
pub(super) struct Blocks {
    shape: Shape,
    file: u64,
}

impl Blocks {
    /// Blocks of the file with this number, or of a new file.
    pub fn new(
        shape: Shape,
        longest: usize,
        config: &StoreConfig,
        file: Option<u64>,
    ) -> Result<Self> {
        let most = config.buffer_bytes.saturating_add(longest);
        if most.saturating_add(2 * 4096) >= MOST {
            let what = format!("blocks of {most} bytes cannot be written");
            return Err(Error::invalid("store", what)
                .advise("Use buffers and records below a GiB together, or a plain file"));
        }
        // Random keys from the system are enough: two files must not get the same number by chance.
        let file = file.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Ok(Blocks { shape, file })
    }
}

impl Framing for Blocks {
    /// A part of a block does not show which records it holds.
    fn last_whole(&self, _bytes: &[u8]) -> Whole {
        Whole::default()
    }

    fn least_padding(&self) -> Option<usize> {
        Some(1)
    }

    fn pad(&self, gap: &mut [u8]) {
        gap.fill(0);
    }

    fn record_bytes(&self) -> Option<NonZeroUsize> {
        match self.shape {
            Shape::Fixed(bytes) => NonZeroUsize::new(bytes as usize),
            Shape::Varying => None,
        }
    }

    fn head_bytes(&self) -> usize {
        HEAD
    }

    fn seal(&self, block: &mut [u8], seal: &Seal) {
        let Some((head, body)) = block.split_first_chunk_mut() else {
            return;
        };
        // Both fit in 32 bits: a buffer is below a GiB.
        let content = (body.len() - seal.padding) as u32;
        Head {
            file: self.file,
            first: seal.first,
            records: seal.records as u32,
            shape: self.shape,
            content,
            padding: seal.padding as u32,
            content_check: crc32c::crc32c(body),
        }
        .put(head);
    }
}

/// Only records: all of one length, or of lengths that are known only to the application.
pub(super) struct Plain(pub Option<NonZeroUsize>);

impl Framing for Plain {
    fn record_bytes(&self) -> Option<NonZeroUsize> {
        self.0
    }

    fn last_whole(&self, bytes: &[u8]) -> Whole {
        // The ends of byte records within a buffer are unknown here, but each buffer ends with one.
        let Some(each) = self.0 else {
            return Whole::default();
        };
        let records = bytes.len() / each;
        Whole {
            bytes: records * each.get(),
            records: records as u64,
        }
    }
}
