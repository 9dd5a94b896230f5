//! Computes when the next file begins, as far as times decide. Pure: the current times are arguments.

use super::config::Rotation;
use std::{ops::Range, time::Duration};

/// Two clocks: durations use the monotonic clock, and intervals of the time of day use the wall clock. If the wall clock is set
/// back, a file lasts longer, and no interval gets two files. If files are read, both clocks show the time of the last packet.
pub(super) struct Schedule {
    every: Option<u64>,
    steady: bool,
    next: u64,
    interval: Option<u64>,
    next_wall: u64,
}

impl Schedule {
    /// Starts with the first file: `now` on the monotonic clock, `wall` on the wall clock, both in nanoseconds.
    pub fn new(rotation: &Rotation, now: u64, wall: u64) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut schedule = Schedule {
            every: rotation.every.map(ns),
            steady: rotation.steady,
            next: u64::MAX,
            interval: rotation.interval.map(ns),
            next_wall: u64::MAX,
        };
        schedule.begin(now, wall);
        schedule
    }

    /// Begins again, with another time of the first file.
    pub fn begin(&mut self, now: u64, wall: u64) {
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

    /// Whether the wall clock is needed at all: reading it has a cost.
    pub fn look_at_the_wall(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether the next file is due.
    pub fn is_due(&mut self, now: u64, wall: u64) -> bool {
        if let Some(interval) = self.interval
            && self.next_wall.saturating_sub(wall) > interval.saturating_mul(2)
        {
            // The clock was set back considerably: use the times that it will show next.
            self.set_wall(wall);
        }
        if let Some(every) = self.every
            && self.next.saturating_sub(now) > every.saturating_mul(2)
        {
            // Packets of a file went back considerably.
            self.next = now.saturating_add(every);
        }
        self.every.is_some() && now >= self.next
            || self.interval.is_some() && wall >= self.next_wall
    }

    /// The times of packets for which [`is_due`](Self::is_due) changes nothing.
    pub fn lasts(&self) -> Range<u64> {
        let of = |next: u64, period: Option<u64>| {
            let back = period?.saturating_mul(2);
            Some((next.saturating_sub(back), next))
        };
        let spans = [of(self.next, self.every), of(self.next_wall, self.interval)];
        let both = |(a, b): (u64, u64), (c, d): (u64, u64)| (a.max(c), b.min(d));
        let (begin, end) = spans.into_iter().flatten().fold((0, u64::MAX), both);
        begin..end
    }

    /// The time until [`is_due`](Self::is_due) can become true.
    pub fn due_in(&self, now: u64, wall: u64) -> u64 {
        let by_wall = self.next_wall.saturating_sub(wall);
        self.next.saturating_sub(now).min(by_wall)
    }

    /// Records that the next file begins, because it was due or for another reason.
    pub fn began_next(&mut self, now: u64, wall: u64, by_time: bool) {
        let Some(every) = self.every else {
            return self.set_wall(wall);
        };
        if now >= self.next {
            // Counted from the due time, not from the time of the check; periods that passed during sleep are skipped.
            let late = (now - self.next) / every;
            self.next = self.next.saturating_add((late + 1).saturating_mul(every));
        } else if !self.steady || by_time {
            self.next = now.saturating_add(every);
        }
        self.set_wall(wall);
    }
}
