//! How many bytes there were when, in memory of a fixed size.
//!
//! Bytes are counted in a row of equal spans of time. When a packet is later than the last one, each two spans become one.

use std::time::Duration;

/// Spans. An even number.
const SPANS: usize = 512;
/// The first width of a span.
const MIN_WIDTH_NS: u64 = 1_000;

#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The beginning of the first span; `None`: there was no packet.
    begin_ns: Option<u64>,
    width_ns: u64,
    bytes: Vec<u64>,
    /// Spans up to the latest packet.
    used: usize,
}

impl Timeline {
    pub fn new() -> Self {
        Timeline {
            begin_ns: None,
            width_ns: MIN_WIDTH_NS,
            bytes: vec![0; SPANS],
            used: 0,
        }
    }

    /// Counts a packet. One before the first packet counts in the first span.
    pub fn add(&mut self, time_ns: u64, bytes: u64) {
        let begin = *self.begin_ns.get_or_insert(time_ns);
        let since = time_ns.saturating_sub(begin);
        while since / self.width_ns >= SPANS as u64 {
            for at in 0..SPANS / 2 {
                self.bytes[at] = self.bytes[2 * at] + self.bytes[2 * at + 1];
            }
            self.bytes[SPANS / 2..].fill(0);
            self.width_ns *= 2;
            self.used = self.used.div_ceil(2);
        }
        let at = (since / self.width_ns) as usize;
        self.bytes[at] += bytes;
        self.used = self.used.max(at + 1);
    }

    /// The time from the first span to the last one.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.width_ns.saturating_mul(self.used as u64))
    }

    /// Bits per second in each of up to `columns` equal parts of the whole time.
    pub fn rates(&self, columns: usize) -> Vec<u64> {
        let spans = self.used.div_ceil(columns.max(1)).max(1);
        let seconds = self.width_ns as f64 * spans as f64 / 1e9;
        let parts = self.bytes[..self.used].chunks(spans);
        parts
            .map(|part| (part.iter().sum::<u64>() as f64 * 8.0 / seconds) as u64)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_is_lost_and_rates_follow_the_times() {
        let mut timeline = Timeline::new();
        assert!(timeline.rates(80).is_empty());
        // 1000 bytes each millisecond for ten seconds, and none in the fifth second.
        for ms in (0..4000_u64).chain(5000..10_000) {
            timeline.add(1_000_000_000_000 + ms * 1_000_000, 1000);
        }
        timeline.add(5, 0); // long before
        assert_eq!(timeline.bytes.iter().sum::<u64>(), 9_000_000);
        let rates = timeline.rates(50);
        assert!((40..=50).contains(&rates.len()), "{rates:?}");
        assert!(rates.contains(&0));
        assert!(rates.iter().all(|&rate| rate <= 8_400_000), "{rates:?}");
        assert!(
            rates[..10].iter().all(|&rate| rate > 7_600_000),
            "{rates:?}"
        );
    }

    #[test]
    fn any_time_fits() {
        let mut timeline = Timeline::new();
        for time in [0, u64::MAX, u64::MAX / 2, 1] {
            timeline.add(time, 7);
        }
        assert_eq!(timeline.bytes.iter().sum::<u64>(), 28);
        assert!(timeline.rates(1).len() == 1 && timeline.rates(0).len() == 1);
    }
}
