//! The part of a ring that both ends use, and how the last end drops it.

use super::{RingStats, drop_run::DropRun, stats::Counts};
use crate::{
    Result,
    ring::{
        cursor::{Cursor, Edge, OwnPosition},
        slots::Slots,
        state::{PRODUCER_GONE, State},
        tuning::{Backoff, ConsumerTuning},
    },
    sync::{
        Arc, CachePadded, Wait,
        atomic::{AtomicUsize, Ordering::Relaxed},
        planted,
    },
};
use std::{cell::UnsafeCell, panic::RefUnwindSafe, ptr};

/// The data that one end shares with the other: its position.
///
/// The other end's `W`, on which it waits for this position, is on the same cache lines. After storing a position an end
/// checks whether the other end waits for it, so a publication touches one line beside the slots.
#[derive(Debug)]
pub(super) struct Side<W> {
    /// Written by this end, read by the other: free-running.
    pub(super) position: AtomicUsize,
    /// Written by this end when it is dropped, read by the end that drops the ring: the byte offset of its place.
    pub(super) offset: AtomicUsize,
    /// Here the other end waits; this end wakes it.
    pub(super) waits: W,
}

impl<W: Wait> Side<W> {
    pub(super) fn new() -> Result<CachePadded<Self>> {
        Ok(CachePadded(Side {
            position: AtomicUsize::default(),
            offset: AtomicUsize::default(),
            waits: W::new()?,
        }))
    }
}

/// The data that both ends own. The end that is dropped last drops it, and with it the remaining elements.
#[derive(Debug)]
pub(super) struct Shared<T, W> {
    /// The producer's side: edge PUBLISH. The consumer waits here.
    pub(super) tail: CachePadded<Side<W>>,
    /// The consumer's side: edge CREDIT. The producer waits here.
    pub(super) head: CachePadded<Side<W>>,
    /// Written by an end that ends the ring, read by the other: edge END.
    pub(super) state: CachePadded<State>,
    /// The producer's tuning; used by the producer only. It is kept here so that an end is small.
    pub(super) producers: CachePadded<Own<Backoff>>,
    /// The consumer's tuning; used by the consumer only.
    pub(super) consumers: CachePadded<Own<ConsumerTuning>>,
    pub(super) capacity: usize,
    pub(super) slots: Slots<T>,
}

/// The tuning of one end, and the counts that it writes.
#[derive(Debug)]
pub(super) struct Own<L> {
    pub(super) tuning: UnsafeCell<L>,
    pub(super) counts: Counts,
}

impl<L> Own<L> {
    pub(super) fn new(tuning: L) -> Self {
        Own {
            tuning: tuning.into(),
            counts: Counts::default(),
        }
    }
}

// The cells only decide when to load a position. Whatever they contain, the ring is intact after a caught panic.
impl<T, W: RefUnwindSafe> RefUnwindSafe for Shared<T, W> where Slots<T>: RefUnwindSafe {}

impl<T, W> Shared<T, W> {
    /// Refreshes the producer's `cursor`. Whether `n` slots are vacant, or the ring has ended.
    #[inline]
    pub(super) fn is_vacant_or_over(&self, cursor: &mut Cursor, n: usize) -> bool {
        // END; loaded first, so that the load of the position below sees a head stored before it.
        let is_over = self.state.bits() != 0;
        cursor.refresh(&self.head.position, self.capacity) >= n || is_over // CREDIT
    }

    /// The consumer, at `position`, cannot continue with the 0 elements that it `found`, or has found more than ever before.
    ///
    /// Takes values instead of the end: see docs/performance-notes.md.
    #[cold]
    #[inline(never)]
    pub(super) fn found(&self, found: usize, position: usize)
    where
        W: Wait,
    {
        if found > 0 {
            return self.consumers.counts.record_len(found);
        }
        self.consumers.counts.record_stop(position);
        // Slots that a forgotten `Drain` emptied: the producer might otherwise wait for them forever.
        // Relaxed: only the consumer stores it.
        if !planted("drain-forgotten-for-good") && self.head.position.load(Relaxed) != position {
            self.slots.settle();
            OwnPosition::store(&self.head.position, position, Edge::Credit);
            self.head.waits.wake();
        }
    }

    pub(super) fn stats(&self) -> RingStats {
        // Relaxed: counts order nothing. The head first, so that it is not past the tail.
        let popped = self.head.position.load(Relaxed);
        let pushed = self.tail.position.load(Relaxed);
        let times_full = self.producers.counts.stops();
        let len = pushed.wrapping_sub(popped).min(self.capacity);
        RingStats {
            pushed: pushed as u64,
            popped: popped as u64,
            max_len: len
                .max(self.consumers.counts.max_len())
                .max(usize::from(popped > 0)),
            times_full,
            times_empty: self.consumers.counts.stops(),
        }
    }

    /// Refreshes the consumer's `cursor`. Whether there are `n` elements, or the ring has ended.
    #[inline]
    pub(super) fn is_filled_or_over(&self, cursor: &mut Cursor, n: usize) -> bool {
        // END; loaded first, so that the load of the position below sees the elements published before it.
        let is_over = self.state.bits() != 0;
        cursor.refresh(&self.tail.position, 0) >= n || is_over // PUBLISH
    }
}

/// The last step of an end whose bit is `gone` and whose place is at `offset`.
///
/// A separate function that takes values: see docs/performance-notes.md.
#[inline(never)]
pub(super) fn leave<T, W: Wait>(shared: Arc<Shared<T, W>>, gone: u32, offset: usize) {
    let side = match gone {
        PRODUCER_GONE => &shared.tail,
        _ => &shared.head,
    };
    side.offset.store(offset, Relaxed); // ordered by the reference count
    shared.state.set(gone);
    side.waits.wake();
}

impl<T, W> Drop for Shared<T, W> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and the reference count has ordered their accesses before ours.
        let head = self.head.position.load(Relaxed);
        let left = self.tail.position.load(Relaxed).wrapping_sub(head);
        let mut place = self.slots.place(self.head.offset.load(Relaxed));
        place.settle();
        self.slots.will_write(head, left);
        let run = place.run(left);
        let first = ptr::slice_from_raw_parts_mut(place.slot(), run);
        place.advance(run);
        // The rest is dropped even if a Drop in the first run panics. With a mirror it is empty.
        let _rest = DropRun(ptr::slice_from_raw_parts_mut(place.slot(), left - run));
        drop(DropRun(first));
    }
}
