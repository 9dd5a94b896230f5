//! Two clocks: the machine's, and a virtual one that only moves when somebody sleeps.
//!
//! Every room that waits or stamps takes a [`Clock`], so a whole capture can run on one thread in
//! virtual time with exact, repeatable counts. Times are nanoseconds as `u64`: since the clock was
//! made ([`Clock::now`]), or since the Unix epoch ([`Clock::wall`], good until the year 2554).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where a virtual clock starts: 2020-01-01 00:00:00 UTC, in nanoseconds since the Unix epoch.
pub const VIRTUAL_EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// A source of time; clones share one time line.
///
/// ```
/// use forebay::time::Clock;
/// use std::time::Duration;
/// let clock = Clock::virtual_time();
/// clock.sleep(Duration::from_secs(3600)); // returns at once
/// assert_eq!(clock.now(), 3_600_000_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Line);

#[derive(Clone, Debug)]
enum Line {
    Real { start: Instant, epoch_ns: u64 },
    // Written by whoever sleeps or charges work, read by all clones. One thread drives a virtual
    // capture, so Relaxed is enough: the value publishes nothing but itself.
    Virtual(Arc<AtomicU64>),
}

fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

impl Clock {
    /// The machine's monotonic clock, with the wall time read once, now.
    pub fn real() -> Self {
        Clock(Line::Real {
            start: Instant::now(),
            epoch_ns: unix_now(),
        })
    }

    /// A clock that stands still until [`sleep`](Clock::sleep) or [`sleep_until`](Clock::sleep_until) moves it.
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

    /// Nanoseconds since the Unix epoch at the moment `now` of this clock.
    pub fn wall(&self, now: u64) -> u64 {
        match &self.0 {
            Line::Real { epoch_ns, .. } => epoch_ns.saturating_add(now),
            Line::Virtual(_) => VIRTUAL_EPOCH_NS.saturating_add(now),
        }
    }

    /// Nanoseconds since the Unix epoch as everybody else tells them just now: where somebody sets the machine's clock, this
    /// jumps with it, which [`wall`](Clock::wall) never does.
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

    /// Sleeps: really, or by moving the virtual time.
    pub fn sleep(&self, duration: Duration) {
        match &self.0 {
            Line::Real { .. } => std::thread::sleep(duration),
            Line::Virtual(now) => {
                now.fetch_add(duration.as_nanos() as u64, Relaxed);
            }
        }
    }

    /// Sleeps until the clock says `then`; returns at once if it is past.
    pub fn sleep_until(&self, then: u64) {
        let left = then.saturating_sub(self.now());
        if left > 0 {
            self.sleep(Duration::from_nanos(left));
        }
    }

    /// Charges work to a virtual clock; real work has charged itself already.
    pub fn charge(&self, ns: u64) {
        if let Line::Virtual(now) = &self.0 {
            now.fetch_add(ns, Relaxed);
        }
    }
}
