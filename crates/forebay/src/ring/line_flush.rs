//! Decides whether the consumer evicts the cache lines that it has read, by trying both ways and measuring.
//!
//! A cache line of slots moves between two caches: the producer writes it, and the consumer reads it. One lap later the producer
//! must fetch it from the consumer's cache before it can write again. While both ends are running, that transfer can be the
//! slowest step. If the consumer evicts the lines that it has read, the producer, which prefetches its lines some way ahead,
//! gets them from memory. Eviction is slower if the ring is small, or if both ends run in one thread. The distance between the
//! cores matters too, and it can change at any time without notice. The consumer therefore measures the time per element with
//! and without eviction.
//!
//! ```text
//!  windows:  │ as it was │ other way │ other way │ the better of the two …  │ as it was │ other way │ other way │ …
//!             measured     settling    measured    for 64 times that duration measured
//! ```

use super::slots::Address;
use crate::memory::{can_evict, ticks};

/// The consumer's state of eviction.
#[derive(Debug)]
pub(super) struct LineFlush {
    /// Whether lines that were read are evicted now.
    evicts: bool,
    /// Start of the first line that may be evicted next, in the first view. Set before anything is evicted.
    from: usize,
    /// Elements in a part of a window. A window is at least one lap, because eviction takes effect one lap later.
    part: usize,
    /// Parts until the window ends.
    parts_left: u32,
    stage: Stage,
    /// Ticks at the start of the part; `None` before the first part.
    began: Option<u64>,
    /// Elements received up to the start of the part.
    first: usize,
    /// The number of received elements at which the next step is due.
    due: usize,
    /// Elements between two evictions.
    stride: usize,
    /// The fastest part of this window: ticks for 1024 elements.
    pace: Pace,
    /// The pace before the trial.
    before: Pace,
}

/// Ticks for 1024 elements.
type Pace = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No trial for this many more windows.
    Resting(u32),
    /// The trial has begun, but the ring still has lines from before it.
    Settling,
    Measuring,
}

impl LineFlush {
    /// Parts of a window. The fastest part counts: an interrupt or another process slows some parts, but not all.
    const PARTS: u32 = 4;
    /// Minimum bytes of a part: reading the clock costs as much as copying some hundred bytes.
    const MIN_PART_BYTES: usize = 1 << 16;
    /// Bytes between two evictions.
    const STRIDE: usize = 4096;
    /// More elements than arrive between two calls; in 64 bits, more than ever arrive.
    const NEVER: usize = isize::MAX as usize;
    /// After a trial, no other trial starts for this many times its duration.
    const REST: u64 = 64;

    /// For a ring of `capacity` slots of `slot_bytes`; with `never`, nothing is evicted.
    pub(super) fn new(capacity: usize, slot_bytes: usize, never: bool) -> Self {
        let plain_memory = cfg!(any(loom, miri, forebay_one_view));
        let never = never || plain_memory || slot_bytes == 0 || !can_evict();
        let min_part = (Self::MIN_PART_BYTES / slot_bytes.max(1)).max(1);
        let part = (capacity / Self::PARTS as usize).max(min_part);
        LineFlush {
            evicts: false,
            from: 0,
            part: if never { Self::NEVER } else { part },
            parts_left: Self::PARTS,
            stage: Stage::Resting(1), // the first window of a ring is not representative
            began: None,
            first: 0,
            due: if never { Self::NEVER } else { part },
            stride: (Self::STRIDE / slot_bytes.max(1)).min(capacity / 8).max(1),
            pace: Pace::MAX,
            before: Pace::MAX,
        }
    }

    /// Whether [`step`](LineFlush::step) is due after `received` elements.
    #[inline(always)]
    pub(super) fn is_due(&self, received: usize) -> bool {
        received.wrapping_sub(self.due) as isize >= 0
    }

    /// Performs the step that is due after `received` elements. All elements before `address` were read.
    ///
    /// It cannot panic: see docs/performance-notes.md.
    #[cold]
    #[inline(never)]
    pub(super) fn step(&mut self, received: usize, address: Address) {
        if self.evicts {
            self.from = address.evict_since(self.from);
        } else {
            self.from = address.at();
        }
        let elements = received.wrapping_sub(self.first);
        if elements >= self.part && self.part != Self::NEVER {
            let now = ticks();
            if let Some(began) = self.began {
                let took = now.wrapping_sub(began).saturating_mul(1024);
                self.part_took((took / elements.max(1) as u64).max(1));
            }
            self.began = Some(now);
            self.first = received;
        }
        self.due = received.wrapping_add(if self.evicts { self.stride } else { self.part });
    }

    fn part_took(&mut self, pace: Pace) {
        self.pace = self.pace.min(pace);
        self.parts_left -= 1;
        let tries = !matches!(self.stage, Stage::Resting(_));
        let is_bad = tries && self.parts_left + 2 <= Self::PARTS && self.pace / 2 > self.before;
        if is_bad {
            // End a trial early when it is clearly losing.
            self.evicts = !self.evicts;
            self.stage = Self::rest(self.pace, self.before);
        } else if self.parts_left == 0 {
            self.stage = self.window_took(self.pace);
        } else {
            return;
        }
        self.parts_left = Self::PARTS;
        self.pace = Pace::MAX;
    }

    /// The rest after a trial of up to two windows at the pace `trial`, in windows at the pace `better`.
    fn rest(trial: Pace, better: Pace) -> Stage {
        let windows = (trial.saturating_mul(2) / better.max(1)).clamp(2, 64);
        Stage::Resting((Self::REST * windows) as u32)
    }

    /// Returns the next stage after a window at this pace.
    fn window_took(&mut self, pace: Pace) -> Stage {
        match self.stage {
            Stage::Resting(0) => {
                self.before = pace;
                self.evicts = !self.evicts;
                Stage::Settling
            }
            Stage::Resting(windows) => Stage::Resting(windows - 1),
            Stage::Settling => Stage::Measuring,
            Stage::Measuring => {
                let (with, without) = match self.evicts {
                    true => (pace, self.before),
                    false => (self.before, pace),
                };
                // Eviction uses memory bandwidth that others need too, so it must save more than a fifth of the time.
                self.evicts = with < without / 5 * 4;
                let settled_for = if self.evicts { with } else { without };
                Self::rest(pace, settled_for)
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs many windows in which an element takes `with` or `without` eviction; returns how many evict, and whether the last
    /// does.
    fn windows(with: Pace, without: Pace) -> (usize, bool) {
        let mut line_flush = LineFlush::new(1024, 8, false);
        let mut evicting = 0;
        for window in 0..1000 {
            evicting += usize::from(line_flush.evicts);
            let pace = if line_flush.evicts { with } else { without };
            for part in 0..LineFlush::PARTS {
                // One part of each window is slow for some other reason.
                let late = if window % 4 == part { 100 * pace } else { 0 };
                line_flush.part_took(pace + late);
            }
        }
        (evicting, line_flush.evicts)
    }

    #[test]
    fn the_better_way_is_found_and_trials_of_the_other_take_little_time() {
        let (evicting, at_last) = windows(2_000, 16_000);
        assert!(evicting > 950 && at_last);
        let (evicting, at_last) = windows(20_000, 1_000);
        assert!(evicting < 10 && !at_last);
        // Equal, or nearly: no reason to use memory bandwidth.
        let (evicting, at_last) = windows(900, 1_000);
        assert!(evicting < 30 && !at_last);
    }

    #[test]
    fn a_trial_that_was_slow_is_not_repeated_before_64_times_its_time() {
        let mut line_flush = LineFlush::new(1 << 20, 8, false);
        let (mut usual, mut trials) = (0, 0);
        for _ in 0..100_000 {
            let pace = if line_flush.evicts { 50_000 } else { 1_000 };
            *(if line_flush.evicts {
                &mut trials
            } else {
                &mut usual
            }) += pace;
            for _ in 0..LineFlush::PARTS {
                line_flush.part_took(pace);
            }
        }
        assert!(usual / 50 > trials, "{usual} and {trials}");
    }

    #[test]
    fn a_trial_that_speaks_for_itself_ends_before_its_window() {
        let mut line_flush = LineFlush::new(1024, 8, false);
        let mut evicting = 0;
        for _ in 0..1000 {
            evicting += usize::from(line_flush.evicts);
            line_flush.part_took(if line_flush.evicts { 40_000 } else { 1_000 });
        }
        assert_eq!(evicting, 2);
    }

    #[test]
    fn who_must_never_evict_is_never_asked() {
        for line_flush in [
            LineFlush::new(1024, 8, true),
            LineFlush::new(1024, 0, false),
        ] {
            assert_eq!(line_flush.due, isize::MAX as usize);
        }
    }
}
