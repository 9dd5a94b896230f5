//! Two clocks: the machine's, and a virtual one, which a program moves by sleeping on it or by [charging](Clock::charge) time to it.
//!
//! A program that takes all times from a virtual [`Clock`] runs in simulated time. In this way, a whole capture from a simulated card
//! has exact, repeatable counts. Times are nanoseconds as `u64`: since the clock was made ([`Clock::now`]), or since the Unix epoch
//! ([`Clock::wall`], until the year 2554).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where a virtual clock starts: 2020-01-01 00:00:00 UTC, in nanoseconds since the Unix epoch.
pub const VIRTUAL_EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// A source of time. Clones share one time line.
///
/// ```
/// use forebay::time::Clock;
/// use std::time::Duration;
/// let clock = Clock::virtual_time();
/// clock.sleep(Duration::from_secs(3600)); // returns at once
/// assert_eq!(clock.now(), 3_600_000_000_000);
/// assert!(clock == clock.clone() && clock != Clock::virtual_time());
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Line);

#[derive(Clone, Debug)]
enum Line {
    Real { start: Instant, epoch_ns: u64 },
    // Written by sleeps and by charged work, read by all clones. One thread drives a virtual capture, so Relaxed is
    // enough: the value publishes only itself.
    Virtual(Arc<AtomicU64>),
}

/// A clock equals its clones, and no other.
impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (
                Line::Real { start, epoch_ns },
                Line::Real {
                    start: s,
                    epoch_ns: e,
                },
            ) => (start, epoch_ns) == (s, e),
            (Line::Virtual(now), Line::Virtual(other)) => Arc::ptr_eq(now, other),
            _ => false,
        }
    }
}

impl Eq for Clock {}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

impl Clock {
    /// The machine's monotonic clock. The wall time is read once, in this call.
    pub fn real() -> Self {
        Clock(Line::Real {
            start: Instant::now(),
            epoch_ns: unix_now(),
        })
    }

    /// A clock that stands still until [`sleep`](Clock::sleep), [`sleep_until`](Clock::sleep_until) or [`charge`](Clock::charge)
    /// moves it.
    pub fn virtual_time() -> Self {
        Clock(Line::Virtual(Arc::default()))
    }

    /// Whether sleeping on this clock only moves a number.
    pub fn is_virtual(&self) -> bool {
        matches!(self.0, Line::Virtual(_))
    }

    /// Nanoseconds since the clock was made.
    pub fn now(&self) -> u64 {
        match &self.0 {
            Line::Real { start, .. } => start.elapsed().as_nanos() as u64,
            Line::Virtual(now) => now.load(Relaxed),
        }
    }

    /// Nanoseconds since the Unix epoch at the time `now` of this clock.
    pub fn wall(&self, now: u64) -> u64 {
        match &self.0 {
            Line::Real { epoch_ns, .. } => epoch_ns.saturating_add(now),
            Line::Virtual(_) => VIRTUAL_EPOCH_NS.saturating_add(now),
        }
    }

    /// The system's current wall time, in nanoseconds since the Unix epoch. It jumps when the system clock is set;
    /// [`wall`](Clock::wall) never does.
    ///
    /// ```
    /// use forebay::time::{Clock, VIRTUAL_EPOCH_NS};
    /// assert_eq!(Clock::virtual_time().wall_now(), VIRTUAL_EPOCH_NS);
    /// assert!(Clock::real().wall_now() > VIRTUAL_EPOCH_NS);
    /// ```
    pub fn wall_now(&self) -> u64 {
        match &self.0 {
            Line::Real { .. } => unix_now(),
            Line::Virtual(_) => self.wall(self.now()),
        }
    }

    /// Sleeps; a virtual clock only advances its time.
    pub fn sleep(&self, duration: Duration) {
        match &self.0 {
            Line::Real { .. } => std::thread::sleep(duration),
            Line::Virtual(now) => {
                now.fetch_add(duration.as_nanos() as u64, Relaxed);
            }
        }
    }

    /// Sleeps until the clock reaches `then`; returns at once if that time has passed.
    pub fn sleep_until(&self, then: u64) {
        let left = then.saturating_sub(self.now());
        if left > 0 {
            self.sleep(Duration::from_nanos(left));
        }
    }

    /// Adds the duration of work to a virtual clock. Does nothing to a real clock, on which work takes real time.
    pub fn charge(&self, ns: u64) {
        if let Line::Virtual(now) = &self.0 {
            now.fetch_add(ns, Relaxed);
        }
    }
}
