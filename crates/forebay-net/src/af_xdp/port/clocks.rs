//! The time of day of a frame, from the clock of the XDP program.

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// The program's clock has no leap seconds, so it is ahead of the time of day by whole seconds.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    tai_ahead_ns: u64,
    now_ns: u64,
}

impl Clocks {
    /// Reads both clocks. If this process is held up each time it does, or the clock is set, the clocks stay as far apart as they were.
    pub(super) fn read(&mut self) {
        const TRIES: usize = 4;
        let ns = |now: Timespec| now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64;
        let read = || ns(clock_gettime(ClockId::Realtime));
        for _ in 0..TRIES {
            let before = read();
            let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_or(before, ns);
            self.now_ns = read();
            if let Some(seconds) = seconds_ahead(before, tai, self.now_ns) {
                self.tai_ahead_ns = seconds * SECOND_NS;
                return;
            }
        }
    }

    /// The time of day when the clocks were read.
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The time of day of a stamp.
    #[inline]
    pub(super) fn time_ns(&self, stamp: u64) -> u64 {
        plausible(stamp.saturating_sub(self.tai_ahead_ns), self.now_ns)
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// By how many seconds `tai` is ahead of the time of day, which was read before and after it. `None`: too much time has passed between.
fn seconds_ahead(before: u64, tai: u64, after: u64) -> Option<u64> {
    let is_exact = after.checked_sub(before)? < SECOND_NS / 4;
    is_exact.then_some((tai.saturating_sub(before) + SECOND_NS / 2) / SECOND_NS)
}

/// Where the program could not stamp a frame, other bytes may be before it, such as data of the hardware. The clock may have been set.
fn plausible(stamp_ns: u64, now_ns: u64) -> u64 {
    const DAY_NS: u64 = 24 * 3600 * SECOND_NS;
    match stamp_ns.abs_diff(now_ns) < DAY_NS {
        true => stamp_ns,
        false => now_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_between_two_looks_at_the_clocks_is_not_taken_for_leap_seconds() {
        const NOW: u64 = 1_800_000_000 * SECOND_NS;
        for (leap, passed, expected) in [
            (0, 0, Some(0)),
            (0, 200_000_000, Some(0)),
            (37, 100, Some(37)),
            (37, 249_999_999, Some(37)),
            (0, 600_000_000, None),
            (37, 5 * SECOND_NS, None),
        ] {
            for tai_at in [0, passed] {
                let tai = NOW + leap * SECOND_NS + tai_at;
                assert_eq!(seconds_ahead(NOW, tai, NOW + passed), expected);
            }
        }
        // The clock was set back between them.
        assert_eq!(seconds_ahead(NOW, NOW, NOW - 1), None);
    }

    #[test]
    fn bytes_that_are_no_time_of_today_are_not_taken_for_a_stamp() {
        const NOW: u64 = 1_800_000_000_000_000_000;
        assert_eq!(plausible(NOW - 5_000_000_000, NOW), NOW - 5_000_000_000);
        for other in [1, 0xdead_beef, NOW / 2, NOW * 2, u64::MAX] {
            assert_eq!(plausible(other, NOW), NOW);
        }
    }
}
