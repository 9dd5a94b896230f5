//! The adaptive poller: asleep while idle, polling with a budget under load.
//!
//! ```text
//!            a check finds items
//!               ┌───────┐
//!               ▼       │              nothing
//!   wake ──▶  BUSY ─────┴────────────────────▶ arm ──▶ check once more
//!    ▲                                                   │        │ found: disarm
//!    │                                           nothing │        └──────▶ BUSY
//!    └────────────── ARMED, asleep in the kernel ◀───────┘
//! ```
//!
//! *Arming* asks the source for a wake-up at the next item. The *budget* is the most items taken in one check.
//!
//! At low rates, sleeping and waking are the main cost. If the program allows it with [`Poller::resting`], a poller *rests*: it
//! sleeps for a set time without arming, and then checks again. It rests while it expects at least two items in that time, and
//! fewer than the budget.
//!
//! An item may arrive between the last check and the arming. So **every arming is followed by a second check** before the
//! poller sleeps. A test that tries every order of events (loom) fails if that check is removed.
//!
//! The poller decides only what to do next. A [`Source`], which the program implements, checks, arms and sleeps.

use crate::{
    sync::{Signal, planted},
    time::Clock,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fd::{AsFd, BorrowedFd},
    io::Errno,
};
use std::{io, ops::AddAssign, time::Duration};

/// The thing that a poller drives.
pub trait Source {
    /// The error of a failed look, arming or sleep.
    type Error;

    /// Takes up to `budget` available items and returns how many it took. Never blocks.
    ///
    /// # Errors
    /// An error of the source.
    fn look(&mut self, budget: usize) -> Result<usize, Self::Error>;

    /// Requests a wake-up at the next item.
    ///
    /// # Errors
    /// An error of the source.
    fn arm(&mut self) -> Result<(), Self::Error>;

    /// Sleeps until that wake-up, until another event of the source, or as long as `limit` allows; may return early.
    ///
    /// # Errors
    /// An error of the source.
    fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), Self::Error>;

    /// Cancels the request for a wake-up.
    fn disarm(&mut self);

    /// Whether no item will follow, so that [`Poller::run`] returns. The default is false.
    fn has_ended(&self) -> bool {
        false
    }
}

/// How long a source may sleep: up to a time, until a signal is raised, or neither.
///
/// A source that waits for descriptors calls [`poll`](Limit::poll), one that knows the time of its next item
/// [`sleep_until`](Limit::sleep_until). One that sleeps in another way sleeps at most the time [`left`](Limit::left).
#[derive(Debug)]
pub struct Limit<'a> {
    /// The time of this clock.
    end: Option<(Clock, u64)>,
    stop: Option<&'a Signal>,
}

/// The longest sleep of a source that does not see the signal.
const MAX_BLIND: Duration = Duration::from_millis(100);

impl Limit<'_> {
    /// Nothing limits the sleep: for callers that have no poller.
    pub const NONE: Limit<'static> = Limit {
        end: None,
        stop: None,
    };

    /// Whether the time has passed, or the signal is raised.
    pub fn is_over(&self) -> bool {
        self.stop.is_some_and(Signal::is_raised) || self.to_end() == Some(Duration::ZERO)
    }

    /// The time left until the end; `None` without one.
    fn to_end(&self) -> Option<Duration> {
        let (clock, end) = self.end.as_ref()?;
        Some(Duration::from_nanos(end.saturating_sub(clock.now())))
    }

    /// How long a source may sleep that does not see the signal: if there is a signal, at most 100 ms; `None`: as long as it likes.
    pub fn left(&self) -> Option<Duration> {
        let blind = self.stop.map(|_| MAX_BLIND);
        self.to_end().into_iter().chain(blind).min()
    }

    /// Sleeps until one of `fds` is readable, for up to `timeout` if there is one, and within this limit. May return early.
    ///
    /// # Errors
    /// The kernel has no memory for it.
    pub fn poll(&self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
        let fds = fds.iter().copied().chain(self.stop.map(AsFd::as_fd));
        let mut fds: Vec<_> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let left = self.to_end().into_iter().chain(timeout).min();
        // A time beyond the kernel's range is no limit.
        let until = left.and_then(|left| Timespec::try_from(left).ok());
        let ready = match rustix::event::poll(&mut fds, until.as_ref()) {
            Err(Errno::INTR) => 1, // an interrupted sleep is a short one
            ready => ready?,
        };
        if ready == 0
            && let (Some((clock, _)), Some(left)) = (&self.end, left)
            && clock.is_virtual()
        {
            clock.sleep(left); // it moves only when its user sleeps
        }
        Ok(())
    }

    /// Sleeps until `clock` reaches `then`, or within this limit. The clock may be another one than the poller's.
    pub fn sleep_until(&self, clock: &Clock, then: u64) {
        // Times of two clocks cannot be compared, but what is left until them can.
        let left = Duration::from_nanos(then.saturating_sub(clock.now()));
        let left = self.to_end().into_iter().fold(left, Duration::min);
        match self.stop {
            Some(stop) if !clock.is_virtual() => {
                stop.wait(Some(left));
            }
            _ => clock.sleep(left),
        }
    }
}

/// How a poller spent its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Modes {
    /// Time polling: all time that was not spent asleep.
    pub busy: Duration,
    /// Time asleep, armed or resting.
    pub asleep: Duration,
    /// Calls of [`Source::look`].
    pub looks: u64,
    /// Number of sleeps, including rests.
    pub sleeps: u64,
    /// Number of rests.
    pub rests: u64,
}

/// Adds the times and numbers of another poller.
impl AddAssign for Modes {
    fn add_assign(&mut self, other: Modes) {
        let Modes {
            busy,
            asleep,
            looks,
            sleeps,
            rests,
        } = other;
        self.busy += busy;
        self.asleep += asleep;
        self.looks += looks;
        self.sleeps += sleeps;
        self.rests += rests;
    }
}

impl Modes {
    /// The share of the time spent polling, 0 to 1; 0 if no time has passed.
    pub fn busy_share(&self) -> f64 {
        let all = (self.busy + self.asleep).as_secs_f64();
        if all > 0.0 {
            self.busy.as_secs_f64() / all
        } else {
            0.0
        }
    }
}

/// Switches between polling and sleeping by load, and measures the time of each.
///
/// ```
/// use forebay::{poll::{Limit, Poller, Source}, time::Clock};
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
///     fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), Self::Error> {
///         Ok(limit.sleep_until(&self.clock, self.next))
///     }
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
    /// Length of a rest; 0 disables rests.
    rest: Duration,
    /// Time of the last sleep.
    last_slept: u64,
    /// Items found since then.
    found_since: usize,
}

impl Poller {
    /// A poller that takes at most `budget` items (at least 1) per look.
    pub fn new(budget: usize, clock: Clock) -> Self {
        let began = clock.now();
        Poller {
            budget: budget.max(1),
            began,
            clock,
            asleep_ns: 0,
            looks: 0,
            sleeps: 0,
            rests: 0,
            rest: Duration::ZERO,
            last_slept: began,
            found_since: 0,
        }
    }

    /// Sleeps for `rest` instead of arming when it expects at least two items, but less than a budget, in that time. The
    /// expected number is the rate since the last sleep. Rests save wake-ups and delay an item by up to `rest`. After a pause in
    /// the flow the poller arms, so the next item wakes it at once.
    ///
    /// Only the time limit of [`run_timeout`](Poller::run_timeout) ends a rest early; an event that ends [`Source::sleep`] does not. The source must have room for everything that
    /// can arrive during a rest, because the rate may rise in any of them. With a budget of up to 2 the poller never rests.
    ///
    /// ```
    /// use forebay::{poll::{Limit, Poller, Source}, time::Clock};
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
    ///     fn sleep(&mut self, limit: &Limit<'_>) -> Result<(), Self::Error> {
    ///         Ok(limit.sleep_until(&self.clock, (self.taken + 1) * 100_000))
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
    #[must_use]
    pub fn resting(self, rest: Duration) -> Self {
        Poller { rest, ..self }
    }

    /// One turn: takes items from the source. If there are none, arms, checks again, and sleeps if there is still nothing; or
    /// [rests](Poller::resting) instead. Returns the number of items taken; a turn that took any has not slept.
    ///
    /// # Errors
    /// An error of the source, unchanged.
    #[inline]
    pub fn turn<S: Source>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        self.turn_within(source, &Limit::NONE)
    }

    /// Takes turns until the source [has ended](Source::has_ended) or `stop` is raised, which may happen in another thread or in a
    /// signal handler. Returns the number of items taken. Items that are still there when it returns stay with the source.
    ///
    /// # Errors
    /// An error of the source, unchanged.
    ///
    /// ```
    /// use forebay::{poll::{Limit, Poller, Source}, sync::Signal, time::Clock};
    /// use std::{io, net::UdpSocket, os::fd::AsFd};
    ///
    /// struct Datagrams<'a>(UdpSocket, &'a Signal);
    /// impl Source for Datagrams<'_> {
    ///     type Error = io::Error;
    ///     fn look(&mut self, budget: usize) -> io::Result<usize> {
    ///         let taken = (0..budget).take_while(|_| self.0.recv(&mut [0; 2048]).is_ok()).count();
    ///         if taken > 0 { self.1.raise(); } // enough for this example
    ///         Ok(taken)
    ///     }
    ///     fn arm(&mut self) -> io::Result<()> { Ok(()) }
    ///     fn sleep(&mut self, limit: &Limit<'_>) -> io::Result<()> { limit.poll(&[self.0.as_fd()], None) }
    ///     fn disarm(&mut self) {}
    /// }
    ///
    /// let stop = Signal::new()?;
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_nonblocking(true)?;
    /// let to = socket.local_addr()?;
    /// std::thread::spawn(move || UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", to));
    /// let mut poller = Poller::new(64, Clock::real());
    /// assert_eq!(poller.run(&mut Datagrams(socket, &stop), &stop)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<S: Source>(&mut self, source: &mut S, stop: &Signal) -> Result<u64, S::Error> {
        self.run_timeout(source, stop, Duration::MAX)
    }

    /// Like [`run`](Poller::run), for up to `timeout` of the poller's clock. It takes at least one turn: however short the time is, items
    /// that are there are found.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn run_timeout<S: Source>(
        &mut self,
        source: &mut S,
        stop: &Signal,
        timeout: Duration,
    ) -> Result<u64, S::Error> {
        let limit = self.limit(stop, timeout);
        let mut taken = 0;
        while !stop.is_raised() && !source.has_ended() {
            taken += self.turn_within(source, &limit)? as u64;
            if limit.is_over() {
                break;
            }
        }
        Ok(taken)
    }

    /// `stop`, and this long from now on.
    fn limit<'a>(&self, stop: &'a Signal, timeout: Duration) -> Limit<'a> {
        // A time beyond the clock's range is no limit.
        let timeout = u64::try_from(timeout.as_nanos()).ok();
        let end = timeout.and_then(|timeout| self.clock.now().checked_add(timeout));
        Limit {
            end: end.map(|end| (self.clock.clone(), end)),
            stop: Some(stop),
        }
    }

    /// One turn, which sleeps within `limit`.
    #[inline]
    fn turn_within<S: Source>(
        &mut self,
        source: &mut S,
        limit: &Limit<'_>,
    ) -> Result<usize, S::Error> {
        self.looks += 1;
        let found = source.look(self.budget)?;
        if found > 0 {
            self.found_since = self.found_since.saturating_add(found);
            return Ok(found);
        }
        if !self.rest.is_zero() && self.is_to_rest() {
            self.rests += 1;
            self.asleep(|clock, rest| {
                clock.sleep(limit.to_end().map_or(rest, |left| left.min(rest)))
            });
            return Ok(0);
        }
        source.arm()?;
        let found = self.armed(source, limit);
        source.disarm(); // also after an error of the source
        found
    }

    /// Checks a second time, and sleeps if there is still nothing.
    fn armed<S: Source>(&mut self, source: &mut S, limit: &Limit<'_>) -> Result<usize, S::Error> {
        let found = self.second_look(source)?;
        self.found_since = self.found_since.saturating_add(found);
        if found == 0 {
            self.asleep(|_, _| source.sleep(limit))?;
        }
        Ok(found)
    }

    /// Whether at least two items, and less than a budget, are expected in a rest.
    #[cold]
    fn is_to_rest(&self) -> bool {
        let passed = u128::from(self.clock.now() - self.last_slept);
        let brought = self.found_since as u128 * self.rest.as_nanos();
        brought >= 2 * passed && brought < self.budget as u128 * passed
    }

    /// Sleeps, and records the time.
    fn asleep<R>(&mut self, sleep: impl FnOnce(&Clock, Duration) -> R) -> R {
        self.last_slept = self.clock.now();
        let slept = sleep(&self.clock, self.rest);
        self.asleep_ns += self.clock.now() - self.last_slept;
        self.sleeps += 1;
        self.found_since = 0;
        slept
    }

    fn second_look<S: Source>(&mut self, source: &mut S) -> Result<usize, S::Error> {
        if planted("poller-without-second-look") {
            return Ok(0);
        }
        self.looks += 1;
        source.look(self.budget)
    }

    /// Leaves a time out of [`modes`](Poller::modes): in it, between two turns, the program did something else.
    ///
    /// ```
    /// use forebay::{poll::Poller, time::Clock};
    /// let clock = Clock::virtual_time();
    /// let mut poller = Poller::new(64, clock.clone());
    /// clock.sleep(std::time::Duration::from_secs(1)); // other work
    /// poller.leave_out(0, clock.now());
    /// assert!(poller.modes().busy.is_zero());
    /// ```
    pub fn leave_out(&mut self, from: u64, to: u64) {
        self.began = self.began.saturating_add(to.saturating_sub(from));
    }

    /// Time in each mode since the poller was made.
    pub fn modes(&self) -> Modes {
        let all = self.clock.now().saturating_sub(self.began);
        Modes {
            busy: Duration::from_nanos(all.saturating_sub(self.asleep_ns)),
            asleep: Duration::from_nanos(self.asleep_ns),
            looks: self.looks,
            sleeps: self.sleeps,
            rests: self.rests,
        }
    }
}

#[cfg(test)]
mod tests;
