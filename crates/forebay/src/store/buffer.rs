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

use super::{framing::Framing, loan::Loan};
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
    /// Records counted in it.
    pub counted: u64,
    /// Bytes of each record; 0 where they are counted one by one.
    each: usize,
    /// What is written between its own bytes, each behind so many of them.
    loans: Vec<(usize, Loan)>,
    /// Bytes of these.
    lent: usize,
}

impl Buffer {
    /// One of those that the appender has checked. Its memory is touched when it is first filled.
    pub fn new(size: usize, huge_pages: bool) -> Result<Self> {
        let config = MapConfig {
            populate: false,
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
            counted: 0,
            each: 0,
            loans: Vec::new(),
            lent: 0,
        })
    }

    /// Touches its first `len` bytes now, within limits.
    pub fn populate_beginning(&self, len: usize) -> Result<()> {
        self.bytes.populate_beginning(len)
    }

    /// Empty again, for bytes that will go to `start`, behind a head of `head` bytes, of records with `each` bytes (0: any).
    pub fn restart(&mut self, start: u64, head: usize, each: usize) {
        self.len = head;
        self.head = head;
        self.padding = 0;
        self.then = Then::default();
        self.start = start;
        self.counted = 0;
        self.each = each;
        self.give_back();
    }

    /// Takes in `records` records that are somebody else's bytes, behind its own so far.
    pub fn carry(&mut self, loan: Loan, records: u64) {
        debug_assert!(!loan.bytes().is_empty());
        self.lent += loan.bytes().len();
        self.counted += records;
        self.loans.push((self.len, loan));
    }

    /// What it carried is written, or will never be: whoever lent it gets it back.
    pub fn give_back(&mut self) {
        self.loans.clear();
        self.lent = 0;
    }

    /// Records in it.
    pub fn records(&self) -> u64 {
        match self.each {
            0 => self.counted,
            each => ((self.len - self.head - self.padding) / each) as u64,
        }
    }

    /// Whether nothing was accepted into it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == self.head && self.lent == 0
    }

    /// Without its head: it carries nothing but what is to happen behind the buffers before it.
    pub fn clear(&mut self) {
        self.len = 0;
        self.head = 0;
    }

    /// Where the byte after the last filled one goes.
    pub fn end(&self) -> u64 {
        self.start + self.all() as u64
    }

    /// Bytes of its own and of loans.
    pub fn all(&self) -> usize {
        self.len + self.lent
    }

    /// Its bytes in order: its own up to a loan, the loan, and so on. Each part ends with a whole record.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let before = |number: usize| number.checked_sub(1).map_or(0, |last| self.loans[last].0);
        let lent = self.loans.iter().enumerate();
        let lent = lent
            .flat_map(move |(number, (at, loan))| [&self.bytes[before(number)..*at], loan.bytes()]);
        let rest = &self.bytes[before(self.loans.len())..self.len];
        lent.chain([rest]).filter(|part| !part.is_empty())
    }

    /// Its own bytes.
    pub fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// `len` bytes from `start` on.
    #[inline]
    pub fn part(&self, start: usize, len: usize) -> &[u8] {
        &self.bytes[start..start + len]
    }

    #[inline]
    pub fn part_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[start..start + len]
    }

    /// Puts `gap` bytes behind the records that readers skip.
    pub fn pad(&mut self, gap: usize, framing: &dyn Framing) {
        framing.pad(self.part_mut(self.len, gap));
        self.len += gap;
        self.padding = gap;
    }

    pub fn huge_pages(&self) -> HugePages {
        self.bytes.huge_pages()
    }
}
