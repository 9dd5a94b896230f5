//! Where the filled half of the current buffer lies, so that the writer can take what is committed when the flush period ends.
//!
//! ```text
//!  Appender:  open ──────────── append, append, … ─────────────▶ close ──▶ full ring
//!  desk:      │ filled half, rest │            │ rest │ filled half │
//!  writer:                     take ─▶ write ─▶ put_back
//! ```
//! Whether the half lies here or is in the writer's hands, what is not taken yet is known here, so closing never waits for a
//! write. A half that comes back too late goes to the writer's hand: the vacant half of that buffer is on its way over the ring.
//! No user code runs while the lock is held, and appending does not use it.

use super::{
    buffer::{Buffer, Empty, Layout, Piece, Rest},
    loan::Loan,
};
use crate::{
    memory::{Filled, Vacant},
    sync::held,
};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

#[derive(Default)]
pub(super) struct Desk {
    layout: Layout,
    /// Bytes of the current buffer that were taken. Written by both sides, under the lock; Relaxed, since it is a hint to
    /// the appender that there is something to be handed over.
    taken: AtomicUsize,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    /// Counts openings and closings: a half belongs here while the number is the one it was taken with.
    serial: u64,
    filled: Option<Filled>,
    rest: Rest,
}

/// What the writer finds when the period ends.
pub(super) enum Due {
    /// This, and the number to put it back with.
    Piece(Buffer, u64),
    /// Nothing is there.
    Nothing,
    /// A record is being committed: it is worth another look soon.
    Unsettled,
}

impl Desk {
    pub fn new(layout: Layout) -> Self {
        Desk {
            layout,
            ..Desk::default()
        }
    }

    /// An empty buffer becomes the current one; its bytes go to `start`, and its first record is number `first`.
    pub fn open(&self, (mut vacant, mut filled): Empty, start: u64, first: u64) -> Vacant {
        filled.restart(&mut vacant, self.layout.head);
        let mut current = held(&self.current);
        current.serial += 1;
        current.filled = Some(filled);
        current.rest = Rest::of_empty(start, first, self.layout);
        self.taken.store(self.layout.head, Relaxed);
        vacant
    }

    /// The current buffer leaves: what of it was not taken, and its filled half, unless the writer has that.
    pub fn close(&self, vacant: &Vacant) -> (Option<Filled>, Piece) {
        let mut current = held(&self.current);
        current.serial += 1;
        let filled = current.filled.take();
        let rest = &mut current.rest;
        (
            filled,
            rest.take(vacant.len(), vacant.counted(), self.layout),
        )
    }

    /// Takes in a loan after what is committed.
    pub fn carry(&self, vacant: &mut Vacant, loan: Loan, records: u64) {
        let mut current = held(&self.current);
        current.rest.carry(vacant.len(), loan);
        vacant.count(records);
    }

    /// Whether something of the current buffer was not taken.
    pub fn holds(&self, vacant: &Vacant) -> bool {
        !held(&self.current).rest.is_empty(vacant.len())
    }

    /// Where the byte after the last one of the current buffer will go.
    pub fn end(&self, vacant: &Vacant) -> u64 {
        held(&self.current).rest.end(vacant.len(), self.layout)
    }

    /// Bytes of the current buffer that were taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// The writer takes what is committed, unless `is_overtaken`: buffers that were closed before are still on their way.
    /// That is asked once the current buffer is known, since those were sent before it was opened.
    pub fn take(&self, is_overtaken: impl FnOnce() -> bool) -> Due {
        let mut current = held(&self.current);
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
                let piece = rest.take(len, counted, self.layout);
                Due::Piece(Buffer { bytes, piece }, *serial)
            }
        }
    }

    /// The writer is done with what it took. A half whose buffer was closed meanwhile comes back.
    pub fn put_back(&self, filled: Filled, serial: u64) -> Option<Filled> {
        let mut current = held(&self.current);
        if current.serial != serial {
            return Some(filled);
        }
        current.filled = Some(filled);
        None
    }
}
