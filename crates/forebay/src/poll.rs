//! The adaptive poller: asleep while nothing comes, polling with a budget while much does.
//!
//! ```text
//!            a look finds something
//!               ┌───────┐
//!               ▼       │              nothing
//!   wake ──▶  BUSY ─────┴────────────────────▶ arm ──▶ look once more
//!    ▲                                                   │        │ found: disarm
//!    │                                           nothing │        └──────▶ BUSY
//!    └────────────── ARMED, asleep in the kernel ◀───────┘
//! ```
//!
//! Where little comes, it is sleeping and waking that costs. So a poller may [rest](Poller::resting): nothing left to take, it
//! sleeps for a set time before it looks again, unarmed, and arms only behind a rest in which nothing came.
//!
//! Text 003 re-enables the interrupt and leaves; what arrives between its last look and that
//! moment waits for the next packet. So here **every arming is followed by a second look** before
//! anything sleeps, and the model below fails when that look is taken out.
//!
//! The poller knows no descriptors and no threads: a [`Source`] looks, arms and sleeps. It imports
//! `sync` and `time`. Read on in the source that matters, `forebay-net`'s session.

use crate::{sync::planted, time::Clock};
use std::time::Duration;

/// What a poller drives.
pub trait Source {
    /// What can go wrong while looking, arming or sleeping.
    type Error;

    /// Takes what is there, up to `budget` items; says how many it took. Never blocks.
    ///
    /// # Errors
    /// The source's own.
    fn look(&mut self, budget: usize) -> Result<usize, Self::Error>;

    /// Asks for a wake-up at the next item.
    ///
    /// # Errors
    /// The source's own.
    fn arm(&mut self) -> Result<(), Self::Error>;

    /// Sleeps until that wake-up, or for any other reason the source has; may return early.
    ///
    /// # Errors
    /// The source's own.
    fn sleep(&mut self) -> Result<(), Self::Error>;

    /// Wants no more wake-ups.
    fn disarm(&mut self);
}

/// How a poller spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Time polling, that is, all that was not slept.
    pub busy: Duration,
    /// Time armed and asleep.
    pub asleep: Duration,
    /// Looks at the source.
    pub looks: u64,
    /// Times it went to sleep, rests among them.
    pub sleeps: u64,
    /// Times it rested.
    pub rests: u64,
}

impl Modes {
    /// The part of the time spent polling, 0 to 1; 0 where no time has passed.
    pub fn busy_share(&self) -> f64 {
        let all = (self.busy + self.asleep).as_secs_f64();
        if all > 0.0 {
            self.busy.as_secs_f64() / all
        } else {
            0.0
        }
    }
}

/// Switches between polling and sleeping by load, and keeps the time of each.
///
/// ```
/// use forebay::{poll::{Poller, Source}, time::Clock};
/// use std::time::Duration;
///
/// struct Ticks { clock: Clock, next: u64 }
/// impl Source for Ticks {
///     type Error = std::convert::Infallible;
///     fn look(&mut self, _budget: usize) -> Result<usize, Self::Error> {
///         let due = self.clock.now() >= self.next;
///         if due { self.next += 1_000_000 }
///         Ok(due as usize)
///     }
///     fn arm(&mut self) -> Result<(), Self::Error> { Ok(()) }
///     fn sleep(&mut self) -> Result<(), Self::Error> { Ok(self.clock.sleep_until(self.next)) }
///     fn disarm(&mut self) {}
/// }
///
/// let clock = Clock::virtual_time();
/// let mut poller = Poller::new(64, clock.clone());
/// let mut ticks = Ticks { clock, next: 1_000_000 };
/// let mut seen = 0;
/// while seen < 10 { seen += poller.turn(&mut ticks).unwrap() }
/// assert_eq!(poller.modes().asleep, Duration::from_millis(10)); // virtual work costs nothing
/// assert_eq!(poller.modes().sleeps, 10);
/// ```
#[derive(Debug)]
pub struct Poller {
    budget: usize,
    clock: Clock,
    began: u64,
    asleep_ns: u64,
    looks: u64,
    sleeps: u64,
    rests: u64,
    /// How long a rest is; none where it is 0.
    rest: Duration,
    /// Items found since it last slept.
    since: usize,
}

impl Poller {
    /// A poller whose every look takes at most `budget` items (at least 1).
    pub fn new(budget: usize, clock: Clock) -> Self {
        Poller {
            budget: budget.max(1),
            began: clock.now(),
            clock,
            asleep_ns: 0,
            looks: 0,
            sleeps: 0,
            rests: 0,
            rest: Duration::ZERO,
            since: 0,
        }
    }

    /// Has it rest for so long behind the last of a few items, less than a budget since it last slept, before it arms: fewer
    /// wake-ups where little comes, for a wait of up to that time. What comes first after a pause wakes at once, as ever, and
    /// where much comes it does not rest. The source must have room for what can come in a rest.
    ///
    /// ```
    /// use forebay::{poll::{Poller, Source}, time::Clock};
    /// use std::time::Duration;
    ///
    /// /// An item each 100 µs; how many there are, and how many were taken.
    /// struct Steady { clock: Clock, taken: u64 }
    /// impl Source for Steady {
    ///     type Error = std::convert::Infallible;
    ///     fn look(&mut self, budget: usize) -> Result<usize, Self::Error> {
    ///         let found = (self.clock.now() / 100_000 - self.taken).min(budget as u64);
    ///         self.taken += found;
    ///         Ok(found as usize)
    ///     }
    ///     fn arm(&mut self) -> Result<(), Self::Error> { Ok(()) }
    ///     fn sleep(&mut self) -> Result<(), Self::Error> {
    ///         Ok(self.clock.sleep_until((self.taken + 1) * 100_000))
    ///     }
    ///     fn disarm(&mut self) {}
    /// }
    ///
    /// let clock = Clock::virtual_time();
    /// let mut poller = Poller::new(64, clock.clone()).resting(Duration::from_millis(1));
    /// let mut steady = Steady { clock, taken: 0 };
    /// while steady.taken < 1001 { poller.turn(&mut steady).unwrap(); }
    /// assert_eq!(poller.modes().sleeps, 101); // not 1001
    /// assert_eq!(poller.modes().rests, 100);
    /// ```
    pub fn resting(self, rest: Duration) -> Self {
        Poller { rest, ..self }
    }

    /// One turn: a look; if it found nothing, rests, or arms, looks again, and sleeps if there is still
    /// nothing. Says how many items were taken; a turn that took some has not slept.
    ///
    /// # Errors
    /// The source's own, as they come.
    #[inline]
    pub fn turn<S: Source>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        self.looks += 1;
        let found = source.look(self.budget)?;
        if found > 0 {
            self.since = self.since.saturating_add(found);
            return Ok(found);
        }
        let few = (1..self.budget).contains(&self.since);
        if few && !self.rest.is_zero() {
            self.rests += 1;
            self.asleep(|clock, rest| clock.sleep(rest));
            return Ok(0);
        }
        source.arm()?;
        let found = self.second_look(source)?;
        self.since = self.since.saturating_add(found);
        let slept = match found {
            0 => self.asleep(|_, _| source.sleep()),
            _ => Ok(()),
        };
        slept?;
        source.disarm();
        Ok(found)
    }

    /// Sleeps, and accounts for it.
    fn asleep<R>(&mut self, sleep: impl FnOnce(&Clock, Duration) -> R) -> R {
        let from = self.clock.now();
        let slept = sleep(&self.clock, self.rest);
        self.asleep_ns += self.clock.now() - from;
        self.sleeps += 1;
        self.since = 0;
        slept
    }

    fn second_look<S: Source>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        if planted("poller-without-second-look") {
            return Ok(0);
        }
        self.looks += 1;
        source.look(self.budget)
    }

    /// Time in each mode since the poller was made.
    pub fn modes(&self) -> Modes {
        let all = self.clock.now() - self.began;
        Modes {
            busy: Duration::from_nanos(all - self.asleep_ns),
            asleep: Duration::from_nanos(self.asleep_ns),
            looks: self.looks,
            sleeps: self.sleeps,
            rests: self.rests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{
        Arc, Bell,
        atomic::{AtomicU32, Ordering::Relaxed},
        model, thread,
    };

    /// A producer's items and the bell that it rings behind each: a card and its interrupt.
    #[derive(Default)]
    struct Card {
        /// Written by the producer, read by the poller; Relaxed: the bell's fences order it.
        items: AtomicU32,
        bell: Bell,
    }

    struct Queue {
        card: Arc<Card>,
        taken: u32,
    }

    impl Source for Queue {
        type Error = ();
        fn look(&mut self, budget: usize) -> Result<usize, ()> {
            let found = (self.card.items.load(Relaxed) - self.taken).min(budget as u32);
            self.taken += found;
            Ok(found as usize)
        }
        fn arm(&mut self) -> Result<(), ()> {
            self.card.bell.arm();
            Ok(())
        }
        fn sleep(&mut self) -> Result<(), ()> {
            self.card.bell.sleep(None);
            Ok(())
        }
        fn disarm(&mut self) {
            self.card.bell.disarm();
        }
    }

    /// An item that comes between the last look and the arming is not slept over: if it were, the
    /// poller would sleep for ever, which loom reports as a deadlock.
    fn every_item_wakes() {
        model(|| {
            let card = Arc::new(Card::default());
            let theirs = card.clone();
            let producer = thread::spawn(move || {
                for _ in 0..2 {
                    theirs.items.fetch_add(1, Relaxed);
                    theirs.bell.ring();
                }
            });
            let mut poller = Poller::new(64, Clock::virtual_time());
            let mut queue = Queue { card, taken: 0 };
            while queue.taken < 2 {
                poller.turn(&mut queue).unwrap();
            }
            producer.join().unwrap();
        });
    }

    #[test]
    fn no_item_is_slept_over() {
        every_item_wakes();
    }

    #[cfg(loom)]
    #[test]
    fn the_model_finds_a_poller_without_its_second_look() {
        crate::sync::planted_bug_is_found(
            "poller-without-second-look",
            "poll::tests::no_item_is_slept_over",
        );
    }

    /// A source of which a look finds what stands first in `finds`; and what it was told to do.
    #[cfg(not(loom))]
    struct Scripted {
        finds: Vec<usize>,
        told: Vec<&'static str>,
    }

    #[cfg(not(loom))]
    impl Source for Scripted {
        type Error = ();
        fn look(&mut self, budget: usize) -> Result<usize, ()> {
            self.told.push("look");
            match self.finds.is_empty() {
                true => Ok(0),
                false => Ok(self.finds.remove(0).min(budget)),
            }
        }
        fn arm(&mut self) -> Result<(), ()> {
            self.told.push("arm");
            Ok(())
        }
        fn sleep(&mut self) -> Result<(), ()> {
            self.told.push("sleep");
            Ok(())
        }
        fn disarm(&mut self) {
            self.told.push("disarm");
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn it_rests_behind_a_few_items_and_arms_behind_none_and_behind_many() {
        let clock = Clock::virtual_time();
        let rest = Duration::from_micros(500);
        let mut poller = Poller::new(8, clock.clone()).resting(rest);
        let turns = |poller: &mut Poller, finds: &[usize], turns| {
            let (finds, told) = (finds.to_vec(), Vec::new());
            let mut source = Scripted { finds, told };
            let taken: usize = (0..turns).map(|_| poller.turn(&mut source).unwrap()).sum();
            (taken, source.told.join(" "))
        };
        // Nothing yet: asleep until something wakes it.
        let armed = "look arm look sleep disarm";
        assert_eq!(turns(&mut poller, &[], 1), (0, armed.into()));
        assert_eq!((clock.now(), poller.modes().rests), (0, 0));
        // Two, a rest, one more, a rest; nothing in that one, so it arms.
        let told = format!("look look look look {armed}");
        assert_eq!(turns(&mut poller, &[2, 0, 1, 0], 5), (3, told));
        assert_eq!((clock.now(), poller.modes().rests), (1_000_000, 2));
        assert_eq!(
            (poller.modes().sleeps, poller.modes().asleep),
            (4, 2 * rest)
        );
        // A budget of them, though by two looks: no rest.
        let told = format!("look look {armed}");
        assert_eq!(turns(&mut poller, &[5, 3], 3), (8, told));
        // What the look behind the arming finds counts as well.
        let told = "look arm look disarm look";
        assert_eq!(turns(&mut poller, &[0, 3], 2), (3, told.into()));
        assert_eq!((clock.now(), poller.modes().rests), (1_500_000, 3));
    }

    #[cfg(not(loom))]
    #[test]
    fn a_turn_takes_its_budget_and_does_not_sleep_on_it() {
        let card = Arc::new(Card::default());
        card.items.store(100, Relaxed);
        let clock = Clock::virtual_time();
        let mut poller = Poller::new(64, clock.clone());
        let mut queue = Queue { card, taken: 0 };
        assert_eq!(poller.turn(&mut queue), Ok(64));
        clock.sleep(Duration::from_secs(3));
        assert_eq!(poller.turn(&mut queue), Ok(36));
        let modes = poller.modes();
        assert_eq!((modes.looks, modes.sleeps), (2, 0));
        assert_eq!(
            (modes.busy, modes.asleep),
            (Duration::from_secs(3), Duration::ZERO)
        );
        assert_eq!(modes.busy_share(), 1.0);
    }
}
