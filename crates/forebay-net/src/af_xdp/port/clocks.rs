//! The time of day of a frame, from the clock of the XDP program.

use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};

/// The program's clock has no leap seconds, so it is ahead of the time of day by whole seconds.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    tai_ahead_ns: u64,
    now_ns: u64,
}

impl Clocks {
    /// Reads both clocks.
    pub(super) fn read(&mut self) {
        let ns = |now: Timespec| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let real = ns(clock_gettime(ClockId::Realtime));
        let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_or(real, ns);
        // Whole seconds, and the clocks were read one after the other.
        let seconds = (tai.saturating_sub(real) + 500_000_000) / 1_000_000_000;
        (self.tai_ahead_ns, self.now_ns) = (seconds * 1_000_000_000, real);
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

/// Where the program could not stamp a frame, other bytes may be before it, such as data of the hardware. The clock may have been set.
fn plausible(stamp_ns: u64, now_ns: u64) -> u64 {
    const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;
    match stamp_ns.abs_diff(now_ns) < DAY_NS {
        true => stamp_ns,
        false => now_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_time_of_today_are_not_taken_for_a_stamp() {
        const NOW: u64 = 1_800_000_000_000_000_000;
        assert_eq!(plausible(NOW - 5_000_000_000, NOW), NOW - 5_000_000_000);
        for other in [1, 0xdead_beef, NOW / 2, NOW * 2, u64::MAX] {
            assert_eq!(plausible(other, NOW), NOW);
        }
    }
}
