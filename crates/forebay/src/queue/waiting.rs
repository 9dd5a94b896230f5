//! How the ends of a queue wait: for room in turn, for a message all together.
//!
//! It adds time limits and sleeping to `core`, and policies for a full queue. It imports `sync`. Read `sender` next,
//! then `receiver`.
//!
//! ```text
//!  sender:    reserve ─ no room ─▶ [drop the oldest] ─▶ look a while ─▶ turn ─▶ sleep on `room`, first in line ─▶ reserve
//!  receiver:  take ─ nothing ────▶ look a while ─▶ sleep on `arrived`, one woken for each signal ─▶ take
//! ```
//!
//! Senders wait in turn because their messages differ in length: if any of them were woken for any room, a short one
//! might sleep on although it fits. Newcomers may overtake, which keeps queues fast; but after some wake-ups in vain
//! the first in line says so (`starving`), and they line up behind it.

use super::{
    WhenFull,
    core::{Answer, Core, Frame, No},
    event::Event,
    limit::Limit,
    lock::Got,
};
use crate::sync::{atomic::Ordering::Relaxed, hint, planted, thread};
use std::{iter, time::Duration};

/// Looks before the first sleep: some behind a pause, then some behind giving the processor away. Where there are more
/// threads than processors, it is those who have none that make room, or messages: given one, they do so for all, and a
/// system call for each who would sleep is saved.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 40 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 16 };

/// How long a sleep lasts at most where peers may die, who then ring no more.
const SLICE: Duration = Duration::from_millis(50);

/// Wake-ups in vain after which a sender is starving.
const PATIENCE: u32 = 16;

impl Core {
    /// Reserves a frame for each of `lens`, up to where room ends but at least one, waiting within `limit`.
    #[inline]
    pub(super) fn reserve_within(
        &self,
        lens: impl Iterator<Item = usize> + Clone,
        when_full: WhenFull,
        limit: &Limit,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        // Relaxed: a matter of manners, not of order.
        let starving = self.control.rare.starving.load(Relaxed) != 0;
        if !starving || when_full != WhenFull::Wait {
            match self.reserve(lens.clone(), limit, &mut each) {
                Err(No::Room { .. }) => {}
                answer => return answer,
            }
        }
        self.reserve_when_full(when_full, limit, &mut |drops| {
            self.reserve_or_drop(lens.clone(), drops, limit, &mut each)
        })
    }

    /// Reserves a frame for one message, waiting within `limit`.
    ///
    /// Apart from [`reserve_within`](Core::reserve_within), so that the frame need not pass through memory where there is
    /// room.
    #[inline]
    pub(super) fn reserve_one(
        &self,
        len: usize,
        when_full: WhenFull,
        limit: &Limit,
    ) -> Answer<Frame> {
        // Relaxed: as there.
        if self.control.rare.starving.load(Relaxed) == 0 || when_full != WhenFull::Wait {
            let mut reserved = None;
            match self.reserve(iter::once(len), limit, |frame| reserved = Some(frame)) {
                Err(No::Room { .. }) => {}
                answer => return answer.and(reserved.ok_or(No::Broken)),
            }
        }
        self.reserve_one_later(len, when_full, limit)
    }

    #[cold]
    fn reserve_one_later(&self, len: usize, when_full: WhenFull, limit: &Limit) -> Answer<Frame> {
        let mut reserved = None;
        self.reserve_when_full(when_full, limit, &mut |drops| {
            let each = &mut |frame| reserved = Some(frame);
            self.reserve_or_drop(iter::once(len), drops, limit, each)
        })?;
        reserved.ok_or(No::Broken)
    }

    #[cold]
    fn reserve_when_full(
        &self,
        when_full: WhenFull,
        limit: &Limit,
        attempt: &mut dyn FnMut(bool) -> Answer<()>,
    ) -> Answer<()> {
        let drops = when_full == WhenFull::DropOldest;
        let mut attempt = || match attempt(drops) {
            Err(No::Room { .. }) => None,
            answer => Some(answer),
        };
        const FULL: No = No::Room {
            dropping_helps: false,
        };
        if drops && let Some(answer) = attempt() {
            return answer;
        }
        if when_full == WhenFull::Refuse || limit.is_over() {
            self.bury_now_and_then(limit);
            return attempt().unwrap_or(Err(FULL));
        }
        // Relaxed: as above.
        let may_overtake = || self.control.rare.starving.load(Relaxed) == 0;
        if let Some(answer) = look_a_while(limit, may_overtake, &mut attempt) {
            return answer;
        }
        match self.control.turn.acquire(&self.peers, limit) {
            Some(Got::Free) => {}
            Some(Got::Inherited(_)) => self.control.rare.starving.store(0, Relaxed), // as above
            None => return Err(FULL),
        }
        let mut vain = 0;
        let answer = self.sleep_until(&self.control.room, limit, &mut || {
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

    /// Reserves; where there is no room and `drops`, drops the oldest until there is, or until that does not help.
    fn reserve_or_drop(
        &self,
        lens: impl Iterator<Item = usize> + Clone,
        drops: bool,
        limit: &Limit,
        each: &mut dyn FnMut(Frame),
    ) -> Answer<()> {
        loop {
            match self.reserve(lens.clone(), limit, &mut *each) {
                Err(No::Room {
                    dropping_helps: true,
                }) if drops && self.drop_oldest(limit)? => self.arrived_if_over(),
                answer => return answer,
            }
        }
    }

    /// Takes up to `most` messages of up to `fits` bytes, at least one, waiting within `limit`.
    #[inline]
    pub(super) fn take_within(
        &self,
        most: usize,
        fits: usize,
        limit: &Limit,
        mut each: impl FnMut(Frame),
    ) -> Answer<()> {
        let answer = match self.take(most, fits, limit, &mut each) {
            Err(No::Message) if limit.is_over() => {
                self.bury_now_and_then(limit);
                self.take(most, fits, limit, &mut each)
            }
            Err(No::Message) => {
                self.take_when_empty(limit, &mut || self.take(most, fits, limit, &mut each))
            }
            answer => answer,
        };
        let answer = match answer {
            // Before it is over: has anybody died with a message that is to come again?
            Err(No::Closed) if self.peers.may_die() => self
                .bury(limit)
                .and_then(|()| self.take(most, fits, limit, &mut each)),
            answer => answer,
        };
        self.arrived_if_over();
        answer
    }

    /// Takes one message of up to `fits` bytes, waiting within `limit`; apart from [`take_within`](Core::take_within) as
    /// [`reserve_one`](Core::reserve_one) is.
    #[inline]
    pub(super) fn take_one(&self, fits: usize, limit: &Limit) -> Answer<Frame> {
        match self.take_next(fits, limit)? {
            Some(frame) => {
                self.arrived_if_over();
                Ok(frame)
            }
            None => self.take_one_later(fits, limit),
        }
    }

    #[cold]
    fn take_one_later(&self, fits: usize, limit: &Limit) -> Answer<Frame> {
        let mut taken = None;
        self.take_within(1, fits, limit, |frame| taken = Some(frame))?;
        taken.ok_or(No::Broken)
    }

    #[cold]
    fn take_when_empty(
        &self,
        limit: &Limit,
        attempt: &mut dyn FnMut() -> Answer<()>,
    ) -> Answer<()> {
        let mut attempt = || match attempt() {
            Err(No::Message) => None,
            answer => Some(answer),
        };
        let worth_it = || self.has_frames() || self.is_closed();
        let found = look_a_while(limit, worth_it, &mut attempt);
        if let Some(answer) = found {
            return answer;
        }
        let answer = self.sleep_until(&self.control.arrived, limit, &mut attempt);
        // The signal that woke us may have stood for more than we took.
        if self.has_frames() && !planted("queue-signal-not-passed-on") {
            self.ring_arrived();
        }
        answer.unwrap_or(Err(No::Message))
    }

    /// Looks, and sleeps until `event` rings, until a look finds something or `limit` is over. Where peers may die, it
    /// sleeps a slice at a time and then looks after them.
    fn sleep_until<T>(
        &self,
        event: &Event,
        limit: &Limit,
        look: &mut dyn FnMut() -> Option<T>,
    ) -> Option<T> {
        event.join();
        let found = loop {
            let found = look();
            if found.is_some() || limit.is_over() {
                break found;
            }
            event.sleep(self.peers.at_most(SLICE, limit.left()));
            self.bury_now_and_then(limit);
        };
        event.leave();
        found
    }

    /// Looks after dead peers, if we have not done so for a slice of time.
    pub(super) fn bury_now_and_then(&self, limit: &Limit) {
        if self.peers.may_die() && self.last_burial.is_over_a(SLICE) {
            // Where a lock is not to be had, somebody else looks, or we do next time.
            let _ = self.bury(limit);
        }
    }

    /// Once the queue is closed, each receiver that sleeps has to hear that there is nothing left.
    #[inline]
    fn arrived_if_over(&self) {
        if self.is_closed() {
            self.ring_arrived();
        }
    }

    /// Sleeps until a receiver has taken the next message, if that is longer than `fits`, or until `limit` is over.
    pub(super) fn let_others_take(&self, fits: usize, limit: &Limit) -> Answer<()> {
        while self.wants_pass(fits, limit)? && !limit.is_over() {
            let left = limit.left();
            self.control
                .rare
                .passed
                .sleep(self.peers.at_most(SLICE, left));
            self.bury_now_and_then(limit);
        }
        Ok(())
    }
}

/// Looks for about a microsecond of pauses, then gives the processor away a few times, unless `limit` is over;
/// `worth_it` is cheaper than a look.
fn look_a_while<T>(
    limit: &Limit,
    worth_it: impl Fn() -> bool,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    for round in 0..LOOKS + YIELDS {
        if round < LOOKS {
            hint::spin_loop();
        } else if limit.is_over() {
            return None; // whoever got the processor may have kept it for long
        } else {
            thread::yield_now();
        }
        if worth_it()
            && let Some(found) = look()
        {
            return Some(found);
        }
    }
    None
}
