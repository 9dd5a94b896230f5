//! Decides when to let bytes gather in the input's pipe before reading them. Pure: times are arguments.
//!
//! ```text
//!   in the pipe   ▁ take ▁ take        ▁ take   ▂ take   ▁ pause ▅ take ▁ pause ▅ take
//!                 └ now and then ┘     └ soon after another, and pages at a time: a flow ┘
//! ```
//!
//! A producer that writes one page at a time wakes its reader for each page, and the reader wakes the next process. On few cores
//! that costs more than moving the bytes. While bytes flow, a short pause collects many pages; a single page is never held back.

use forebay::time::Clock;
use rustix::event::Timespec;
use std::time::Duration;

/// How long bytes gather. A pipe of 1 MiB has room for the bytes of that time, up to 4 GB/s.
pub(super) const PAUSE: Duration = Duration::from_micros(200);

/// At this many bytes there is no pause.
const ENOUGH: usize = 1 << 18;

/// Smaller amounts are treated as messages, not as a flow.
const PAGE: usize = 4096;

/// Records each read, to detect whether bytes flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The time of the last read in nanoseconds, and its number of bytes.
    last: u64,
    taken: usize,
}

impl Pace {
    /// Whether to pause before `waiting` bytes are read.
    pub fn is_ahead(&self, waiting: usize, now: u64) -> bool {
        let is_soon = now.saturating_sub(self.last) < 2 * PAUSE.as_nanos() as u64;
        is_soon && self.taken >= PAGE && (1..ENOUGH).contains(&waiting)
    }

    pub fn took(&mut self, bytes: usize, now: u64) {
        (self.last, self.taken) = (now, bytes);
    }
}

/// The time from now until `time` on `clock`.
pub(super) fn until(time: u64, clock: &Clock) -> Timespec {
    let ns = time.saturating_sub(clock.now());
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn pages_that_arrive_soon_after_one_another_gather() {
        let mut pace = Pace::default();
        pace.took(PAGE, 10_000 * US);
        assert!(pace.is_ahead(PAGE, 10_003 * US));
        assert!(!pace.is_ahead(ENOUGH, 10_003 * US), "enough bytes wait");
        assert!(!pace.is_ahead(0, 10_003 * US), "the end is not delayed");
    }

    #[test]
    fn bytes_after_an_idle_time_and_small_amounts_are_read_at_once() {
        let mut pace = Pace::default();
        assert!(!pace.is_ahead(PAGE, 10_000 * US));
        pace.took(PAGE, 10_000 * US);
        assert!(!pace.is_ahead(PAGE, 10_400 * US));
        pace.took(100, 10_400 * US);
        assert!(!pace.is_ahead(PAGE, 10_401 * US), "a message before it");
    }
}
