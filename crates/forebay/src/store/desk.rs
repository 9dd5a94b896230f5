//! The filled half of the current buffer. From here the writer takes what is committed when the flush period ends.
//!
//! ```text
//!  Appender:  open ──────────── append, append, … ─────────────▶ close ──▶ full ring
//!  desk:      │ filled half, rest │            │ rest │ filled half │
//!  writer:                     take ─▶ write ─▶ put_back
//! ```
//! The desk always knows what the writer has not taken yet, even while the filled half is in the writer's hands. Therefore
//! closing a buffer never waits for a write. If the half comes back after its buffer was closed, the writer keeps it: the vacant
//! half of that buffer is on its way over the ring. No user code runs while the lock is held, and appending does not take the
//! lock. Without a writer thread, the appender keeps what would lie on the desk, and takes no lock at all.

use super::{
    buffer::{Buffer, Layout, Piece, Rest, skipped},
    loan::Loan,
};
use crate::{
    memory::{Filled, Vacant},
    sync::held,
};
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

#[derive(Default)]
pub(super) struct Desk {
    layout: Layout,
    /// Bytes of the current buffer that were taken. Written by both sides, under the lock. Relaxed, because the appender uses it
    /// only as a hint that there is something to hand over.
    taken: AtomicUsize,
    current: Mutex<Current>,
}

#[derive(Default)]
pub(super) struct Current {
    /// Counts openings and closings. A half that was taken may be put back only while the number is unchanged.
    serial: u64,
    filled: Option<Filled>,
    rest: Rest,
}

impl Current {
    /// Takes the piece that is complete, and the filled half if it is here.
    pub fn take(&mut self) -> Option<Buffer> {
        let bytes = self.filled.take()?;
        let piece = self.rest.take();
        Some(Buffer { bytes, piece })
    }

    /// Adds a loan after what is committed.
    pub fn carry(&mut self, vacant: &mut Vacant, loan: Loan, records: u64) {
        self.rest.carry(vacant.len(), loan);
        vacant.count(records);
    }

    /// Whether the current buffer holds something that was not taken.
    pub fn holds(&self, vacant: &Vacant) -> bool {
        !self.rest.is_empty(vacant.len())
    }
}

/// What the writer finds when the flush period ends.
pub(super) enum Due {
    /// A piece to write, and the number to put its half back with.
    Piece(Buffer, u64),
    /// Nothing to take.
    Nothing,
    /// A record is being committed: check again soon.
    Unsettled,
}

impl Desk {
    pub fn new(layout: Layout) -> Self {
        Desk {
            layout,
            ..Desk::default()
        }
    }

    /// What lies on the desk, locked.
    pub fn current(&self) -> MutexGuard<'_, Current> {
        held(&self.current)
    }

    /// Makes an empty buffer, given by its two halves, the current one. Its bytes go to offset `start`, and its first record has
    /// number `first`.
    #[inline]
    pub fn open(
        &self,
        current: &mut Current,
        vacant: &mut Vacant,
        filled: Filled,
        start: u64,
        first: u64,
    ) {
        current.serial += 1;
        current.filled = Some(filled);
        self.reopen(current, vacant, start, first);
    }

    /// As [`open`](Self::open), for the current buffer, whose filled half is here.
    #[inline]
    pub fn reopen(&self, current: &mut Current, vacant: &mut Vacant, start: u64, first: u64) {
        let begin = skipped(start) + self.layout.head;
        if let Some(filled) = &mut current.filled {
            filled.restart(vacant, begin);
        }
        current.rest.restart(begin, start, first);
        self.taken.store(begin, Relaxed);
    }

    /// What was not taken of the current buffer, to be written while it stays here. `None`: the filled half is not here.
    #[inline]
    pub fn complete<'a>(
        &self,
        current: &'a mut Current,
        vacant: &Vacant,
    ) -> Option<(&'a mut Filled, &'a mut Piece)> {
        let filled = current.filled.as_mut()?;
        let rest = &mut current.rest;
        let piece = rest.complete(vacant.fenced_len(), vacant.counted(), self.layout);
        Some((filled, piece))
    }

    /// Closes the current buffer. Returns what was not taken, and the filled half unless the writer has it.
    #[inline]
    pub fn close(&self, current: &mut Current, vacant: &Vacant) -> (Option<Filled>, Piece) {
        current.serial += 1;
        let rest = &mut current.rest;
        rest.complete(vacant.fenced_len(), vacant.counted(), self.layout);
        (current.filled.take(), rest.take())
    }

    /// Output offset of the byte after the last one of the current buffer.
    pub fn end(&self, current: &Current, vacant: &Vacant) -> u64 {
        current.rest.end(vacant.len(), self.layout)
    }

    /// Bytes of the current buffer that were taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// Takes what is committed, for the writer. Takes nothing if `is_overtaken` returns true: buffers closed earlier are still on
    /// their way. It is called once the current buffer is known, because those buffers were sent before this one was opened.
    pub fn take(&self, is_overtaken: impl FnOnce() -> bool) -> Due {
        let mut current = self.current();
        let Current {
            serial,
            filled,
            rest,
        } = &mut *current;
        let settled = match filled {
            Some(_) if is_overtaken() => return Due::Nothing,
            Some(filled) => filled.snapshot(),
            None => return Due::Nothing,
        };
        let Some((len, counted)) = settled else {
            return Due::Unsettled;
        };
        match filled.take_if(|_| !rest.is_empty(len)) {
            None => Due::Nothing,
            Some(bytes) => {
                self.taken.store(len, Relaxed);
                rest.complete(len, counted, self.layout);
                let piece = rest.take();
                Due::Piece(Buffer { bytes, piece }, *serial)
            }
        }
    }

    /// Puts back the half of a piece that was written. If its buffer was closed meanwhile, the half is returned.
    pub fn put_back(&self, filled: Filled, serial: u64) -> Option<Filled> {
        let mut current = self.current();
        if current.serial != serial {
            return Some(filled);
        }
        current.filled = Some(filled);
        None
    }
}
