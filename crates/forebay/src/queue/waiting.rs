//! How the ends of a queue wait: senders for room, one at a time; receivers for a message, all together.
//!
//! It adds time limits, sleeping and the policies for a full queue to `core`.
//!
//! ```text
//!  sender:    reserve ─ no room ─▶ [drop the oldest] ─▶ spin ─▶ turn ─▶ sleep on `room`, first in line ─▶ reserve
//!  receiver:  take ─ nothing ────▶ spin ─▶ sleep on `arrived`, one woken for each signal ─▶ take
//! ```
//!
//! Senders wait in a line because their messages differ in length: if a ring woke any of them, it might wake one whose message
//! does not fit, while one with a shorter message sleeps on. Newcomers may overtake the line, which keeps queues fast. After
//! some wake-ups in vain, the first in line sets `starving`, and newcomers join the line.

use super::{
    WhenFull,
    core::{Answer, Core, Frame, TryError},
    event::Event,
    lock::Acquired,
};
use crate::sync::{Deadline, atomic::Ordering::Relaxed, planted, spin_then_yield};
use std::{iter, time::Duration};

/// Yields before the first sleep. If there are more threads than processors, the threads without a processor are the ones that
/// make room or messages. With one yield they can do so for all sleepers, which saves a system call for each of them.
const YIELDS: u32 = 16;

/// The longest sleep if peers may die, since a dead peer rings no more.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// Number of wake-ups in vain after which a sender is starving.
const PATIENCE: u32 = 16;

impl Core {
    /// Reserves frames for as many of `lens` as there is room for, at least one, waiting within `deadline`.
    #[inline]
    pub(super) fn reserve_within(
        &self,
        lens: impl Iterator<Item = usize> + Clone,
        when_full: WhenFull,
        deadline: &Deadline,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        // Relaxed: it affects only fairness, not correctness.
        let starving = self.control.rare.starving.load(Relaxed) != 0;
        if !starving || when_full != WhenFull::Wait {
            match self.reserve(lens.clone(), deadline, &mut each) {
                Err(TryError::Room { .. }) => {}
                answer => return answer,
            }
        }
        self.reserve_when_full(when_full, deadline, &mut |drops| {
            self.reserve_or_drop(lens.clone(), drops, deadline, &mut each)
        })
    }

    /// Reserves a frame for one message, waiting within `deadline`.
    ///
    /// Separate from [`reserve_within`](Core::reserve_within): see docs/performance-notes.md.
    #[inline]
    pub(super) fn reserve_one(
        &self,
        len: usize,
        when_full: WhenFull,
        deadline: &Deadline,
    ) -> Answer<Frame> {
        // Relaxed: as in `reserve_within`.
        if self.control.rare.starving.load(Relaxed) == 0 || when_full != WhenFull::Wait {
            let mut reserved = None;
            match self.reserve(iter::once(len), deadline, |frame| reserved = Some(frame)) {
                Err(TryError::Room { .. }) => {}
                answer => return answer.and(reserved.ok_or(TryError::Broken)),
            }
        }
        self.reserve_one_later(len, when_full, deadline)
    }

    #[cold]
    fn reserve_one_later(
        &self,
        len: usize,
        when_full: WhenFull,
        deadline: &Deadline,
    ) -> Answer<Frame> {
        let mut reserved = None;
        self.reserve_when_full(when_full, deadline, &mut |drops| {
            let each = &mut |frame| reserved = Some(frame);
            self.reserve_or_drop(iter::once(len), drops, deadline, each)
        })?;
        reserved.ok_or(TryError::Broken)
    }

    #[cold]
    fn reserve_when_full(
        &self,
        when_full: WhenFull,
        deadline: &Deadline,
        attempt: &mut dyn FnMut(bool) -> Answer<()>,
    ) -> Answer<()> {
        let drops = when_full == WhenFull::DropOldest;
        let mut attempt = || match attempt(drops) {
            Err(TryError::Room { .. }) => None,
            answer => Some(answer),
        };
        const FULL: TryError = TryError::Room {
            dropping_helps: false,
        };
        if drops && let Some(answer) = attempt() {
            return answer;
        }
        if when_full == WhenFull::Refuse || deadline.is_over() {
            self.recover_sometimes(deadline);
            return attempt().unwrap_or(Err(FULL));
        }
        // Relaxed: as above.
        let may_overtake = || self.control.rare.starving.load(Relaxed) == 0;
        if let Some(answer) = spin_then_yield(YIELDS, deadline, || {
            may_overtake().then(&mut attempt).flatten()
        }) {
            return answer;
        }
        match self.control.turn.acquire(&self.peers, deadline) {
            Some(Acquired::Free) => {}
            Some(Acquired::Inherited(_)) => self.control.rare.starving.store(0, Relaxed), // as above
            None => return Err(FULL),
        }
        let mut vain = 0;
        let answer = self.sleep_until(&self.control.room, deadline, &mut || {
            let answer = attempt();
            vain += 1;
            if answer.is_none() && vain == PATIENCE {
                self.control.rare.starving.store(1, Relaxed); // as above
            }
            answer
        });
        if vain >= PATIENCE {
            self.control.rare.starving.store(0, Relaxed); // as above
        }
        self.control.turn.release();
        answer.unwrap_or(Err(FULL))
    }

    /// Reserves. If there is no room and `drops` is set, drops the oldest messages until there is, or until that does not help.
    fn reserve_or_drop(
        &self,
        lens: impl Iterator<Item = usize> + Clone,
        drops: bool,
        deadline: &Deadline,
        each: &mut dyn FnMut(Frame),
    ) -> Answer<()> {
        loop {
            match self.reserve(lens.clone(), deadline, &mut *each) {
                Err(TryError::Room {
                    dropping_helps: true,
                }) if drops && self.drop_oldest(deadline)? => self.ring_if_closed(),
                answer => return answer,
            }
        }
    }

    /// Takes up to `max` messages of up to `fits` bytes, at least one, waiting within `deadline`.
    #[inline]
    pub(super) fn take_within(
        &self,
        max: usize,
        fits: usize,
        deadline: &Deadline,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let answer = match self.take(max, fits, deadline, &mut each) {
            Err(TryError::Message) if deadline.is_over() => {
                self.recover_sometimes(deadline);
                self.take(max, fits, deadline, &mut each)
            }
            Err(TryError::Message) => {
                self.take_when_empty(deadline, &mut || self.take(max, fits, deadline, &mut each))
            }
            answer => answer,
        };
        let answer = match answer {
            // Before the end is reported: has a receiver died with a message that is to be delivered again?
            Err(TryError::Closed) if self.peers.may_die() => self
                .recover(deadline)
                .and_then(|()| self.take(max, fits, deadline, &mut each)),
            answer => answer,
        };
        self.ring_if_closed();
        answer
    }

    /// Takes one message of up to `fits` bytes, waiting within `deadline`. Separate from [`take_within`](Core::take_within) for the
    /// same reason as [`reserve_one`](Core::reserve_one).
    #[inline]
    pub(super) fn take_one(&self, fits: usize, deadline: &Deadline) -> Answer<Frame> {
        match self.take_next(fits, deadline)? {
            Some(frame) => {
                self.ring_if_closed();
                Ok(frame)
            }
            None => self.take_one_later(fits, deadline),
        }
    }

    #[cold]
    fn take_one_later(&self, fits: usize, deadline: &Deadline) -> Answer<Frame> {
        let mut taken = None;
        self.take_within(1, fits, deadline, |frame| taken = Some(frame))?;
        taken.ok_or(TryError::Broken)
    }

    #[cold]
    fn take_when_empty(
        &self,
        deadline: &Deadline,
        attempt: &mut dyn FnMut() -> Answer<()>,
    ) -> Answer<()> {
        let mut attempt = || match attempt() {
            Err(TryError::Message) => None,
            answer => Some(answer),
        };
        let worth_it = || self.has_frames() || self.is_closed();
        if let Some(answer) =
            spin_then_yield(YIELDS, deadline, || worth_it().then(&mut attempt).flatten())
        {
            return answer;
        }
        let answer = self.sleep_until(&self.control.arrived, deadline, &mut attempt);
        // The signal that woke this thread may have stood for more than it took.
        if self.has_frames() && !planted("queue-signal-not-passed-on") {
            self.ring_arrived();
        }
        answer.unwrap_or(Err(TryError::Message))
    }

    /// Repeats `check` and sleeps until `event` rings, until `check` returns something, or until `deadline` expires. If peers may die,
    /// it sleeps for `SLICE` at a time and searches for dead peers in between.
    fn sleep_until<T>(
        &self,
        event: &Event,
        deadline: &Deadline,
        check: &mut dyn FnMut() -> Option<T>,
    ) -> Option<T> {
        event.join();
        let found = loop {
            let found = check();
            if found.is_some() || deadline.is_over() {
                break found;
            }
            event.sleep(self.peers.at_most(SLICE, deadline.left()));
            self.recover_sometimes(deadline);
        };
        event.leave();
        found
    }

    /// Searches for dead peers, if this process has not done so within the last `SLICE`.
    pub(super) fn recover_sometimes(&self, deadline: &Deadline) {
        if self.peers.may_die() && self.last_recovery.restart_after(SLICE) {
            // If a lock is not available, another process searches, or this one does next time.
            let _ = self.recover(deadline);
        }
    }

    /// Once the queue is closed, wakes the next sleeping receiver, so that each of them learns that it is empty.
    #[inline]
    fn ring_if_closed(&self) {
        if self.is_closed() {
            self.ring_arrived();
        }
    }
}
