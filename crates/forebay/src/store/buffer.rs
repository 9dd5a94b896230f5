//! A run of whole records on its way to the output, and what is left of the buffer that it was cut from.
//!
//! ```text
//!  memory   │ head │ rec │ rec │ rec │ … │ rec │ padding │
//!           0                          capacity         len      capacity + overhang
//!
//!  pieces   │ head │ rec │ rec │                              taken by the writer when the flush period ended
//!                 │ head │ rec │ … │ rec │ padding │          the rest, handed over
//! ```
//! A record may begin at any byte below the capacity and run over into the overhang, so no record is ever split between two
//! buffers. Most buffers are one piece. Where the writer takes what is committed before a buffer is handed over, the rest is
//! another piece. The head of that one lies in the last bytes of the piece before it, which is written by then.

use super::{framing::Framing, loan::Loan};
use crate::memory::{Filled, Vacant};
use std::ops::Range;

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

/// Both halves of a buffer's memory, with nothing in it to be written.
pub(super) type Empty = (Vacant, Filled);

/// A run of whole records in the memory of a buffer, and between them records that somebody else lent.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Its own bytes: the head, the records and the padding. Empty: there is nothing to be written.
    pub range: Range<usize>,
    /// Where the first byte goes in the output.
    pub start: u64,
    /// The number of the first record.
    pub first: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of padding after the records.
    pub padding: usize,
    /// What is to happen once it is written.
    pub then: Then,
    /// What is written between its own bytes, each with the place in memory where it belongs.
    loans: Vec<(usize, Loan)>,
    /// Bytes of these.
    lent: usize,
}

impl Piece {
    /// Bytes of its own and of loans.
    pub fn all(&self) -> usize {
        self.range.len() + self.lent
    }

    /// Pads `gap` bytes after the last record, which readers skip.
    pub fn pad(&mut self, gap: usize, framing: &dyn Framing, vacant: &mut Vacant) {
        let Some(mut slot) = vacant.reserve(gap) else {
            return; // the overhang has room for it
        };
        framing.pad(&mut slot);
        slot.commit_uncounted();
        self.range.end += gap;
        self.padding = gap;
    }

    /// Where the byte after the last one goes.
    pub fn end(&self) -> u64 {
        self.start + self.all() as u64
    }
}

/// What of the buffer that is being filled was not taken yet.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Where its records begin in memory.
    from: usize,
    /// Where its first byte goes in the output.
    start: u64,
    /// The number of its first record.
    first: u64,
    /// What was counted before it.
    counted: u64,
    loans: Vec<(usize, Loan)>,
    lent: usize,
}

/// How the records of a store are laid out in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// Bytes that the framing keeps in front of each piece.
    pub head: usize,
    /// Bytes of each record; 0 where they are counted one by one.
    pub each: usize,
}

impl Rest {
    /// All of an empty buffer whose bytes will go to `start`, from record `first` on.
    pub fn of_empty(start: u64, first: u64, layout: Layout) -> Rest {
        Rest {
            from: layout.head,
            start,
            first,
            ..Rest::default()
        }
    }

    /// Takes in what somebody else lent, after `len` bytes of the buffer's own.
    pub fn carry(&mut self, len: usize, loan: Loan) {
        self.lent += loan.len();
        self.loans.push((len, loan));
    }

    /// Whether a buffer with `len` bytes committed holds nothing that was not taken.
    pub fn is_empty(&self, len: usize) -> bool {
        len == self.from && self.lent == 0
    }

    /// Where the byte after the last one will go, of a buffer with `len` bytes committed.
    pub fn end(&self, len: usize, layout: Layout) -> u64 {
        match self.is_empty(len) {
            true => self.start,
            false => self.start + (layout.head + len - self.from + self.lent) as u64,
        }
    }

    /// Takes all, of a buffer with `len` bytes committed that count for `counted` records.
    pub fn take(&mut self, len: usize, counted: u64, layout: Layout) -> Piece {
        let is_empty = self.is_empty(len);
        let piece = Piece {
            range: match is_empty {
                true => len..len,
                false => self.from - layout.head..len,
            },
            start: self.start,
            first: self.first,
            records: match layout.each {
                0 => counted.wrapping_sub(self.counted),
                each => ((len - self.from) / each) as u64,
            },
            loans: std::mem::take(&mut self.loans),
            lent: std::mem::take(&mut self.lent),
            ..Piece::default()
        };
        self.from = len;
        self.start = piece.end();
        self.first += piece.records;
        self.counted = counted;
        piece
    }
}

/// A piece with the memory that it lies in.
pub(super) struct Buffer {
    pub bytes: Filled,
    pub piece: Piece,
}

impl Buffer {
    /// Its bytes in order: its own up to a loan, the loan, and so on. Each part ends with a whole record.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let piece = &self.piece;
        let before = move |number: usize| match number.checked_sub(1) {
            None => piece.range.start,
            Some(last) => piece.loans[last].0,
        };
        let lent = piece.loans.iter().enumerate();
        let lent = lent.flat_map(move |(number, (at, loan))| {
            [self.bytes.part(before(number)..*at), loan.bytes()]
        });
        let rest = self.bytes.part(before(piece.loans.len())..piece.range.end);
        lent.chain([rest]).filter(|part| !part.is_empty())
    }

    /// Its own bytes.
    pub fn own_mut(&mut self) -> &mut [u8] {
        self.bytes.part_mut(self.piece.range.clone())
    }

    /// What it carried is written, or will never be: whoever lent it gets it back.
    pub fn give_back(&mut self) {
        self.piece.loans.clear();
        self.piece.lent = 0;
    }
}
