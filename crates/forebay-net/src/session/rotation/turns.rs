//! When the next file begins, as far as times say so. Pure: it is told what time it is.

use super::Rotation;
use std::time::Duration;

/// Two clocks, and each does what it is good at: how long a file may last is told by the one that never jumps, and
/// what the wall clock shows, by that one. Where it is set back, a file lasts longer, and none is made twice.
pub(super) struct Turns {
    every: Option<u64>,
    steady: bool,
    next: u64,
    interval: Option<u64>,
    next_wall: u64,
}

impl Turns {
    /// The first file begins now: `now` on the clock that goes on, `wall` on the one on the wall, both in nanoseconds.
    pub fn new(rotation: &Rotation, now: u64, wall: u64) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut turns = Turns {
            every: rotation.every.map(ns),
            steady: rotation.steady,
            next: u64::MAX,
            interval: rotation.interval.map(ns),
            next_wall: u64::MAX,
        };
        turns.begin(now, wall);
        turns
    }

    fn begin(&mut self, now: u64, wall: u64) {
        if let Some(every) = self.every {
            self.next = now.saturating_add(every);
        }
        self.set_wall(wall);
    }

    fn set_wall(&mut self, wall: u64) {
        if let Some(interval) = self.interval {
            self.next_wall = (wall / interval + 1).saturating_mul(interval);
        }
    }

    /// Whether the wall clock matters at all: asking it costs something.
    pub fn look_at_the_wall(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether it is time for the next file.
    pub fn is_due(&mut self, now: u64, wall: u64) -> bool {
        if let Some(interval) = self.interval
            && self.next_wall.saturating_sub(wall) > interval.saturating_mul(2)
        {
            // It was set back by more than a trifle: what it shows next is what counts.
            self.set_wall(wall);
        }
        now >= self.next || self.interval.is_some() && wall >= self.next_wall
    }

    /// How long [`is_due`](Self::is_due) can wait.
    pub fn due_in(&self, now: u64, wall: u64) -> u64 {
        let by_wall = self.next_wall.saturating_sub(wall);
        self.next.saturating_sub(now).min(by_wall)
    }

    /// The next file begins, because it was time or for another reason.
    pub fn turned(&mut self, now: u64, wall: u64, by_time: bool) {
        let Some(every) = self.every else {
            return self.set_wall(wall);
        };
        if now >= self.next {
            // On from when it was due, not from when somebody looked; what was slept through is left out.
            let late = (now - self.next) / every;
            self.next = self.next.saturating_add((late + 1).saturating_mul(every));
        } else if !self.steady || by_time {
            self.next = now.saturating_add(every);
        }
        self.set_wall(wall);
    }
}
