//! A run of whole records on its way to the output, and the rest of the buffer that it was taken from.
//!
//! ```text
//!  memory   │ skipped │ head │ rec │ rec │ rec │ … │ rec │ padding │
//!           0                    capacity + skipped             len      capacity + overhang
//!
//!  pieces   │ head │ rec │ rec │                              taken by the writer when the flush period ended
//!                 │ head │ rec │ … │ rec │ padding │          the rest, handed over
//! ```
//! A record may begin at any byte below the capacity and extend into the overhang, so no record is ever split between two
//! buffers. Most buffers are one piece. If the writer takes committed records before the buffer is handed over, the rest is
//! another piece. The head of that piece occupies the last bytes of the piece before it, which is written by then.

use super::{framing::Framing, loan::Loan};
use crate::memory::{Filled, Vacant};
use std::ops::Range;

/// Alignment of writes that bypass the page cache.
pub(super) const BLOCK: usize = 4096;

/// Bytes that stay unused at the beginning of a buffer's memory if its content goes to offset `start` of the output: the memory
/// and the file are then equally aligned.
///
/// Whole pages of the file are then whole pages of memory, which can bypass the page cache.
///
/// It also makes writes through the page cache faster. The kernel copies with `rep movsb`. On AMD's Zen 4 this takes up to eight times
/// as long if the destination begins a few bytes after the source, by their addresses modulo 4096. Records stay as aligned as they were: their alignment also
/// divides the length of everything before them.
pub(super) fn skipped(start: u64) -> usize {
    (start % BLOCK as u64) as usize
}

/// A request to carry out once everything up to here is written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Then {
    /// Make it durable.
    pub sync: bool,
    /// Send what follows to the next output.
    pub next_output: bool,
}

/// Both halves of a buffer's memory, with nothing to write in it.
pub(super) type Empty = (Vacant, Filled);

/// A run of whole records in the memory of a buffer, with loans between them.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Its own bytes: the head, the records and the padding. Empty: nothing to write.
    pub range: Range<usize>,
    /// Output offset of the first byte.
    pub start: u64,
    /// The number of the first record.
    pub first: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of padding after the records.
    pub padding: usize,
    /// The request to carry out once it is written.
    pub then: Then,
    /// The loans written between its own bytes, each with its position in the buffer.
    loans: Vec<(usize, Loan)>,
    /// Bytes of the loans.
    lent: usize,
}

impl Piece {
    /// Its own bytes plus those of its loans.
    pub fn all(&self) -> usize {
        self.range.len() + self.lent
    }

    /// Adds `gap` bytes of padding after the last record, which readers skip.
    pub fn pad(&mut self, gap: usize, framing: &dyn Framing, vacant: &mut Vacant) {
        let Some(mut slot) = vacant.reserve(gap) else {
            return; // the overhang has room for it
        };
        framing.pad(&mut slot);
        slot.commit_uncounted();
        self.range.end += gap;
        self.padding = gap;
    }

    /// Output offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.all() as u64
    }

    /// The number of the record after its last one.
    pub fn next(&self) -> u64 {
        self.first + self.records
    }

    /// Everything in it in order: own bytes up to a loan, the loan, and so on. Each part ends with a whole record. `bytes` is the
    /// memory that holds the piece, also below.
    pub fn parts<'a>(&'a self, bytes: &'a Filled) -> impl Iterator<Item = &'a [u8]> {
        let before = move |number: usize| match number.checked_sub(1) {
            None => self.range.start,
            Some(last) => self.loans[last].0,
        };
        let lent = self.loans.iter().enumerate();
        let lent = lent
            .flat_map(move |(number, (at, loan))| [bytes.part(before(number)..*at), loan.bytes()]);
        let rest = bytes.part(before(self.loans.len())..self.range.end);
        lent.chain([rest]).filter(|part| !part.is_empty())
    }

    /// Everything in it, if it has no loans.
    pub fn only_part<'a>(&self, bytes: &'a Filled) -> Option<&'a [u8]> {
        self.loans
            .is_empty()
            .then(|| bytes.part(self.range.clone()))
    }

    /// Its own bytes, without the loans.
    #[inline]
    pub fn own_mut<'a>(&self, bytes: &'a mut Filled) -> &'a mut [u8] {
        bytes.part_mut(self.range.clone())
    }

    /// Drops the loans once they are written, or never will be. This returns the memory to the lenders.
    #[inline]
    pub fn give_back(&mut self) {
        if self.lent > 0 {
            self.loans.clear();
            self.lent = 0;
        }
    }
}

/// The part of the current buffer that was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Where its records begin in the buffer's memory.
    from: usize,
    /// The record count of the buffer before it.
    counted: u64,
    /// Its first byte, first record and loans. The other fields are set when it is complete.
    piece: Piece,
}

/// How a store's records are laid out in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Bytes that the framing reserves at the front of each piece.
    pub head: usize,
    /// Bytes of each record; 0 if records are counted one by one.
    pub each: usize,
}

impl Rest {
    /// Makes it all of an empty buffer with records from `from` on, whose bytes go to offset `start` and whose first record has
    /// number `first`. Everything of the buffer before it was taken.
    #[inline]
    pub fn restart(&mut self, from: usize, start: u64, first: u64) {
        debug_assert!(self.piece.loans.is_empty() && self.piece.lent == 0);
        (self.from, self.counted) = (from, 0);
        (self.piece.start, self.piece.first) = (start, first);
    }

    /// Adds a loan after `len` of the buffer's own bytes.
    pub fn carry(&mut self, len: usize, loan: Loan) {
        self.piece.lent += loan.len();
        self.piece.loans.push((len, loan));
    }

    /// Whether everything in a buffer with `len` committed bytes was taken.
    pub fn is_empty(&self, len: usize) -> bool {
        len == self.from && self.piece.lent == 0
    }

    /// Output offset after the last byte of a buffer with `len` committed bytes.
    pub fn end(&self, len: usize, layout: Layout) -> u64 {
        match self.is_empty(len) {
            true => self.piece.start,
            false => self.piece.start + (layout.head + len - self.from + self.piece.lent) as u64,
        }
    }

    /// Completes the piece with everything in a buffer with `len` committed bytes that count for `counted` records.
    #[inline]
    pub fn complete(&mut self, len: usize, counted: u64, layout: Layout) -> &mut Piece {
        self.piece.range = match self.is_empty(len) {
            true => len..len,
            false => self.from - layout.head..len,
        };
        self.piece.records = match layout.each {
            0 => counted.wrapping_sub(self.counted),
            each => ((len - self.from) / each) as u64,
        };
        &mut self.piece
    }

    /// Takes the piece, which is complete. The next one begins where it ends.
    pub fn take(&mut self) -> Piece {
        self.from = self.piece.range.end;
        self.counted = self.counted.wrapping_add(self.piece.records);
        let next = Piece {
            start: self.piece.end(),
            first: self.piece.next(),
            ..Piece::default()
        };
        std::mem::replace(&mut self.piece, next)
    }
}

/// A piece together with the memory that holds it.
pub(super) struct Buffer {
    pub bytes: Filled,
    pub piece: Piece,
}
