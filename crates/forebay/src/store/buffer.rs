//! One buffer: aligned bytes that begin and end with whole records.
//!
//! ```text
//!  start, its offset in the output
//!  │ head │ rec │ rec │ rec │ … │ rec │ padding │
//!  0                            capacity       len      capacity + overhang
//! ```
//! The head is the framing's, filled in when the buffer leaves; most have none.
//! A record may begin at any byte below the capacity and run over into the overhang, so no record
//! is ever split between two buffers.

use crate::{
    Result,
    memory::{HugePages, MapConfig, Region},
};

/// What files are aligned to when they are written past the page cache.
pub(super) const BLOCK: usize = 4096;

/// What is to happen once all up to here is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Then {
    /// It is made durable.
    pub sync: bool,
    /// What follows goes to the next output.
    pub next_output: bool,
}

pub(super) struct Buffer {
    bytes: Region,
    /// Bytes up to here are filled.
    pub len: usize,
    head: usize,
    /// Bytes of padding behind the records.
    pub padding: usize,
    /// The number of the first record in it.
    pub first: u64,
    /// What is to happen once it is written.
    pub then: Then,
    /// Where the first byte goes in the output.
    pub start: u64,
    /// Records in it.
    pub records: u64,
}

impl Buffer {
    /// One of those that the appender has checked. Its memory is touched when it is first filled, unless `populate` asks for it now.
    pub fn new(size: usize, huge_pages: bool, populate: bool) -> Result<Self> {
        let config = MapConfig {
            populate,
            huge_pages,
        };
        Ok(Buffer {
            bytes: Region::part(size, &config)?,
            len: 0,
            head: 0,
            padding: 0,
            first: 0,
            then: Then::default(),
            start: 0,
            records: 0,
        })
    }

    /// Empty again, for bytes that will go to `start`, behind a head of `head` bytes.
    pub fn restart(&mut self, start: u64, head: usize) {
        self.len = head;
        self.head = head;
        self.padding = 0;
        self.then = Then::default();
        self.start = start;
        self.records = 0;
    }

    /// Whether nothing was accepted into it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == self.head
    }

    /// Without its head: it carries nothing but what is to happen behind the buffers before it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Where the byte after the last filled one goes.
    pub fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    pub fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// The `len` bytes behind what is filled.
    #[inline]
    pub fn vacant(&self, len: usize) -> &[u8] {
        &self.bytes[self.len..self.len + len]
    }

    #[inline]
    pub fn vacant_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.len..self.len + len]
    }

    /// The next `len` bytes are a whole run of `records` records.
    #[inline]
    pub fn accept(&mut self, len: usize, records: u64) {
        self.len += len;
        self.records += records;
    }

    pub fn huge_pages(&self) -> HugePages {
        self.bytes.huge_pages()
    }
}
