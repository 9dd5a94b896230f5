//! When each packet is due.

use super::config::{ReplayConfig, Speed};

pub(super) struct Schedule {
    speed: Speed,
    max_gap_ns: i128,
    /// Packets and bits that are scheduled.
    pub packets: u64,
    bits: u64,
    /// When the last packet was due.
    last: u64,
    /// The time of the packet from which those after it are counted, and when that one was due.
    first_time: u64,
    first_due: u64,
}

impl Schedule {
    pub fn new(config: &ReplayConfig) -> Schedule {
        let max_gap = config.max_gap.map(|gap| gap.as_nanos());
        Schedule {
            speed: config.speed,
            max_gap_ns: max_gap.map_or(i128::MAX, |ns| ns as i128),
            packets: 0,
            bits: 0,
            last: 0,
            first_time: 0,
            first_due: 0,
        }
    }

    /// When the next packet is due, in nanoseconds since the start.
    pub fn due(&mut self, len: u32, time_ns: u64, is_first: bool) -> u64 {
        let due = match self.speed {
            Speed::Recorded(factor) => {
                if is_first {
                    (self.first_time, self.first_due) = (time_ns, self.last);
                }
                self.recorded(factor, time_ns)
            }
            Speed::Packets(rate) => rate.due_ns(self.packets),
            Speed::Bits(rate) => rate.due_ns(self.bits),
            Speed::Top => 0,
        };
        self.packets += 1;
        self.bits += u64::from(len) * 8;
        self.last = due;
        due
    }

    fn recorded(&mut self, factor: f64, time_ns: u64) -> u64 {
        let since = i128::from(time_ns) - i128::from(self.first_time);
        // As i64, which saturates: the sums below cannot overflow.
        let since = i128::from((since as f64 / factor) as i64);
        let gap = i128::from(self.first_due) + since - i128::from(self.last);
        let due = i128::from(self.last) + gap.clamp(0, self.max_gap_ns);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        if gap.abs() > self.max_gap_ns {
            (self.first_time, self.first_due) = (time_ns, due);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    /// When packets with these times, in tenths of a second, are due, in the same unit.
    fn due(factor: f64, max_gap: Option<Duration>, times: &[u64]) -> Vec<u64> {
        let mut schedule = Schedule::new(&ReplayConfig {
            speed: Speed::Recorded(factor),
            max_gap,
            ..ReplayConfig::default()
        });
        let mut is_first = true;
        let mut due = |&time: &u64| {
            let is_first = std::mem::take(&mut is_first);
            schedule.due(60, time * SECOND / 10, is_first) / (SECOND / 10)
        };
        times.iter().map(&mut due).collect()
    }

    #[test]
    fn a_limit_shortens_gaps_and_keeps_those_after_them() {
        let times = [100, 101, 5000, 5003, 5002, 5005];
        assert_eq!(due(1.0, None, &times), [0, 1, 4900, 4903, 4903, 4905]);
        let max = Some(Duration::from_secs(2));
        assert_eq!(due(1.0, max, &times), [0, 1, 21, 24, 24, 26]);
        // The limit applies to what is left of a gap after the factor.
        assert_eq!(due(100.0, max, &[0, 1900, 9900]), [0, 19, 39]);
        assert_eq!(due(0.5, max, &[0, 9, 20]), [0, 18, 38]);
    }

    #[test]
    fn with_a_limit_one_wrong_time_does_not_take_the_gaps_of_the_others() {
        let max = Some(Duration::from_secs(2));
        assert_eq!(due(1.0, max, &[100, 90_000, 101, 102]), [0, 20, 20, 21]);
        assert_eq!(due(1.0, max, &[90_000, 100, 101, 103]), [0, 0, 1, 3]);
    }

    #[test]
    fn the_largest_times_and_factors_do_not_overflow() {
        for factor in [f64::MIN_POSITIVE, f64::MAX] {
            for max_gap in [None, Some(Duration::MAX), Some(Duration::from_nanos(1))] {
                let mut schedule = Schedule::new(&ReplayConfig {
                    speed: Speed::Recorded(factor),
                    max_gap,
                    ..ReplayConfig::default()
                });
                let mut last = 0;
                for round in 0..6 {
                    for (number, time) in [0, u64::MAX, 0, u64::MAX].into_iter().enumerate() {
                        let due = schedule.due(60, time, number == 0 && round % 2 == 0);
                        assert!(due >= last);
                        last = due;
                    }
                }
            }
        }
    }
}
