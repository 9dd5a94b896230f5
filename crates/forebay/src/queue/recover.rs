//! Repair after a process died: takes over its locks and finds its frames.
//!
//! It works on the words of `core`, under the locks that guard them.
//!
//! ```text
//!  died while                              what is left                         what the next process does
//!  it held the tail's lock, and had
//!    written a header, not moved the tail  nothing that is visible              nothing
//!    moved the tail, not counted           a Busy frame; `next` is too small    counts on from the last frame
//!  it held the head's lock, and had
//!    marked the frame, not counted         Taken or Dropped at the head         counts it, moves the head
//!    counted, not moved the head           counts ahead of the head's number    moves the head
//!    abandoned a frame, not counted        `abandoning`, `abandoned_then`       counts it, if it is abandoned
//!  it was filling                          Busy, owner dead                     Torn: passed over and counted
//!  it was reading                          Taken, owner dead                    Returned: delivered again, marked;
//!                                                                               or Abandoned: counted
//!  it had reserved or committed, not rung  sleepers that sleep on               they check every 50 ms by themselves
//!
//! The stores that such a repair reads are Release, so that the words are always in one of these states. Because of the last
//! line, every sleep has a time limit where peers may die.

use super::{
    core::{Answer, Core, Frame, add_one},
    frame::{self, Kind, span},
};
use crate::sync::{
    Deadline,
    atomic::Ordering::{Acquire, Relaxed, Release},
    planted,
};
impl Core {
    /// Completes what the last holder of the tail's lock began. Under that lock.
    #[cold]
    pub(super) fn repair_tail(&self) -> Answer<()> {
        let tail = &self.control.tail;
        // Relaxed: LOCK, or INHERIT.
        let (free, end) = (tail.free.load(Relaxed), tail.position.load(Relaxed));
        let mut last = None;
        self.walk(free, end, |position, _| last = Some(position))?;
        if let Some(last) = last {
            let sequence = self.header(last).sequence.load(Relaxed); // RESERVE
            tail.next.store(sequence.wrapping_add(1), Relaxed); // LOCK
        }
        Ok(())
    }

    /// Completes what the last holder of the head's lock began. Under that lock.
    #[cold]
    pub(super) fn repair_head(&self, deadline: &Deadline) -> Answer<()> {
        let head = &self.control.head;
        let _tail = self.hold_tail(deadline)?;
        // Relaxed: LOCK, or INHERIT.
        let (free, end) = (
            self.control.tail.free.load(Relaxed),
            self.control.tail.position.load(Relaxed),
        );
        let position = head.position.load(Relaxed);
        head.cached_tail.store(end, Relaxed); // LOCK
        if position != end {
            let counts = [&head.received, &head.dropped, &head.aborted, &head.torn];
            let counted = counts.iter().fold(0_u64, |sum, count| {
                sum.wrapping_add(count.load(Relaxed)) // LOCK, or INHERIT
            });
            let is_counted = counted > self.header(position).sequence.load(Relaxed); // RESERVE
            let begun = match self.kind(position) {
                Kind::Taken => Some(&head.received),
                Kind::Dropped => Some(&head.dropped),
                _ => None,
            };
            if let Some(count) = begun
                && !is_counted
            {
                add_one(count);
            }
            if begun.is_some() || is_counted {
                let beyond = position.wrapping_add(span(self.len_at(position)?));
                head.position.store(beyond, Release); // PASS
            }
        }
        if let Some(frame) = head.abandoning.load(Relaxed).checked_sub(1) {
            // Only a finished frame can have been freed.
            let is_freed = end.wrapping_sub(frame) > end.wrapping_sub(free);
            if is_freed || self.kind(frame) == Kind::Abandoned {
                let then = head.abandoned_then.load(Relaxed); // LOCK, or INHERIT
                head.abandoned.store(then, Release);
            }
            head.abandoning.store(0, Release);
        }
        let mut returned = 0;
        self.walk(free, head.position.load(Relaxed), |frame, _| {
            returned += u64::from(self.kind(frame) == Kind::Returned);
        })?;
        head.returned.store(returned, Relaxed); // LOCK
        Ok(())
    }

    /// Takes up to `max` frames that dead receivers held and that fit; returns how many. Under the head's lock.
    #[cold]
    pub(super) fn take_returned(
        &self,
        max: usize,
        fits: usize,
        deadline: &Deadline,
        each: &mut dyn FnMut(Frame),
    ) -> Answer<usize> {
        let (head, tail) = (&self.control.head, &self.control.tail);
        let _tail = self.hold_tail(deadline)?;
        let mut taken = 0;
        // Relaxed: LOCK, both.
        let (free, beyond) = (tail.free.load(Relaxed), head.position.load(Relaxed));
        self.walk(free, beyond, |position, len| {
            if taken < max && len <= fits && self.kind(position) == Kind::Returned {
                each(self.take_again(position, len));
                taken += 1;
            }
        })?;
        Ok(taken)
    }

    /// Marks a frame as abandoned and counts it exactly once, even if this process dies on the way. Under both locks.
    fn abandon(&self, position: u64) {
        let head = &self.control.head;
        let then = head.abandoned.load(Relaxed).wrapping_add(1); // LOCK
        // All Release: a repair after this process dies sees the stores in this order.
        if !planted("queue-abandon-without-a-note") {
            head.abandoned_then.store(then, Release);
            head.abandoning.store(position.wrapping_add(1), Release);
        }
        let state = &self.header(position).state;
        state.store(Kind::Abandoned.word(), Release); // OVER
        head.abandoned.store(then, Release);
        head.abandoning.store(0, Release);
    }

    /// Finds the frames of dead owners: those being filled become Torn, those being read become Returned or Abandoned.
    #[cold]
    pub(super) fn recover(&self, deadline: &Deadline) -> Answer<()> {
        let (head, tail) = (&self.control.head, &self.control.tail);
        let mut found = false;
        {
            let _head = self.hold_head(deadline)?;
            let _tail = self.hold_tail(deadline)?;
            let mut alive = None;
            // Relaxed: LOCK, both.
            let (free, end) = (tail.free.load(Relaxed), tail.position.load(Relaxed));
            self.walk(free, end, |position, _| {
                let state = &self.header(position).state;
                let word = state.load(Acquire); // READY, or OVER
                let owner = frame::owner(word);
                let kind = Kind::of(word);
                if !matches!(kind, Kind::Busy | Kind::Taken) || alive == Some(owner) {
                    return;
                }
                if !self.peers.is_dead(owner) {
                    alive = Some(owner);
                    return;
                }
                // The owner may have continued before it died.
                if state.load(Acquire) != word && !planted("queue-recovery-at-first-sight") {
                    return;
                }
                found = true;
                match kind {
                    Kind::Busy => state.store(Kind::Torn.word(), Release), // READY
                    _ if self.redelivers => {
                        state.store(Kind::Returned.word(), Release);
                        add_one(&head.returned);
                    }
                    _ => self.abandon(position),
                }
            })?;
        }
        if found {
            self.ring_arrived();
            self.ring_room();
        }
        Ok(())
    }
}
