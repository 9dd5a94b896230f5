//! When to let bytes gather in the input's pipe before they are taken; pure arithmetic on times it is told.
//!
//! ```text
//!   in the pipe   ▁ take ▁ take        ▁ take   ▂ take   ▁ pause ▅ take ▁ pause ▅ take
//!                 └ now and then ┘     └ soon after another, and pages at a time: a flow ┘
//! ```
//!
//! A producer that writes a page at a time wakes its reader for each page, and the reader wakes the next one. On few cores
//! that costs more than moving the bytes. Where they flow, a moment's rest brings many at once; a single one is never held.

use std::time::Duration;

/// For how long bytes gather: in a pipe of a MiB there is room for what comes meanwhile, up to 4 GB/s.
pub(super) const PAUSE: Duration = Duration::from_micros(200);

/// So many are taken at once.
const ENOUGH: usize = 1 << 18;

/// Less is no flow, but messages.
const PAGE: usize = 4096;

/// Looks at each take, and knows whether bytes flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// When bytes were taken last, in nanoseconds, and how many.
    last: u64,
    taken: usize,
}

impl Pace {
    /// Whether to pause before `waiting` bytes are taken.
    pub fn is_ahead(&self, waiting: usize, now: u64) -> bool {
        let is_soon = now.saturating_sub(self.last) < 2 * PAUSE.as_nanos() as u64;
        is_soon && self.taken >= PAGE && (1..ENOUGH).contains(&waiting)
    }

    /// `bytes` were taken.
    pub fn took(&mut self, bytes: usize, now: u64) {
        (self.last, self.taken) = (now, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn pages_that_come_soon_after_one_another_gather() {
        let mut pace = Pace::default();
        pace.took(PAGE, 10_000 * US);
        assert!(pace.is_ahead(PAGE, 10_003 * US));
        assert!(!pace.is_ahead(ENOUGH, 10_003 * US), "enough is there");
        assert!(!pace.is_ahead(0, 10_003 * US), "the end is not held");
    }

    #[test]
    fn what_comes_after_a_rest_and_what_is_small_goes_at_once() {
        let mut pace = Pace::default();
        assert!(!pace.is_ahead(PAGE, 10_000 * US));
        pace.took(PAGE, 10_000 * US);
        assert!(!pace.is_ahead(PAGE, 10_400 * US));
        pace.took(100, 10_400 * US);
        assert!(!pace.is_ahead(PAGE, 10_401 * US), "a message before it");
    }
}
