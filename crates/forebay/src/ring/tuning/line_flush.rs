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
//!  windows:  │ as it was │ other way │ other way │ as it was │ as it was │ the better of the two …        │ as it was │ …
//!             measured     settling    measured    settling    measured    at first about as long as a      measured
//!                                                                          trial, later 64 times as long
//! ```
//!
//! The way in use is measured before the trial and after it, and the slower of the two counts: a consumer that takes out a backlog
//! is fast whichever way it uses. In a young ring the trials of eviction follow each other soon, so that a wrong decision does not
//! cost a short-lived ring much.

use crate::{
    memory::{can_evict, ticks},
    ring::slots::Address,
};

/// The consumer's state of eviction.
#[derive(Debug)]
pub(in crate::ring) struct LineFlush {
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
    /// The pace of the trial.
    trial: Pace,
    /// After the next decision against eviction, no trial starts for this many times the duration of one.
    rest: u64,
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
    /// The trial has ended, but the ring still has lines from it.
    Returning,
    MeasuringAgain,
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
    /// The longest rest, in durations of a trial.
    const REST: u64 = 64;

    /// For a ring of `capacity` slots of `slot_bytes`; with `never`, nothing is evicted.
    pub(in crate::ring) fn new(capacity: usize, slot_bytes: usize, never: bool) -> Self {
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
            trial: Pace::MAX,
            rest: 1,
        }
    }

    /// Whether [`step`](LineFlush::step) is due after `received` elements.
    #[inline(always)]
    pub(in crate::ring) fn is_due(&self, received: usize) -> bool {
        received.wrapping_sub(self.due) as isize >= 0
    }

    /// Performs the step that is due after `received` elements. All elements before `address` were read.
    ///
    /// It cannot panic: see docs/performance-notes.md.
    #[cold]
    #[inline(never)]
    pub(in crate::ring) fn step(&mut self, received: usize, address: Address) {
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
        let tries = matches!(self.stage, Stage::Settling | Stage::Measuring);
        let is_bad = tries && self.parts_left + 2 <= Self::PARTS && self.pace / 2 > self.before;
        if is_bad {
            // End a trial early when it is clearly losing.
            self.end_trial(self.pace);
        } else if self.parts_left == 0 {
            self.window_took(self.pace);
        } else {
            return;
        }
        self.parts_left = Self::PARTS;
        self.pace = Pace::MAX;
    }

    /// Returns to the way before the trial, which took this pace.
    fn end_trial(&mut self, trial: Pace) {
        self.trial = trial;
        self.evicts = !self.evicts;
        self.stage = Stage::Returning;
    }

    fn window_took(&mut self, pace: Pace) {
        self.stage = match self.stage {
            Stage::Resting(0) => {
                self.before = pace;
                self.evicts = !self.evicts;
                Stage::Settling
            }
            Stage::Resting(windows) => Stage::Resting(windows - 1),
            Stage::Settling => Stage::Measuring,
            Stage::Measuring => return self.end_trial(pace),
            Stage::Returning => Stage::MeasuringAgain,
            Stage::MeasuringAgain => self.decide(self.before.max(pace)),
        }
    }

    /// Chooses between the way in use, at this pace, and the one that was tried. Returns the rest that follows.
    fn decide(&mut self, usual: Pace) -> Stage {
        let (with, without) = match self.evicts {
            true => (usual, self.trial),
            false => (self.trial, usual),
        };
        // Eviction uses memory bandwidth that others need too, so it must save more than a fifth of the time.
        let evicts = with < without / 5 * 4;
        // That eviction is better has now been measured three times. That it is not may be chance: between cores that are far
        // apart it helps in some laps only. So it is tried again soon, and then less and less often.
        self.rest = match (evicts, self.evicts) {
            (true, _) => Self::REST,
            (false, true) => 1,
            (false, false) => (2 * self.rest).min(Self::REST),
        };
        self.evicts = evicts;
        let settled_for = if evicts { with } else { without };
        // A trial takes up to two windows at its pace, and two more to return.
        let windows = (self.trial.saturating_mul(2) / settled_for.max(1)).clamp(2, 64) + 2;
        Stage::Resting((self.rest * windows) as u32)
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

    /// Parts until the better way is in use for good, if each part takes `with` or `without` eviction, except for the windows
    /// `outliers`, which are as fast as if a backlog was taken out. `None`: it is not in use in the end.
    fn settles(with: Pace, without: Pace, outliers: std::ops::Range<usize>) -> Option<usize> {
        let mut line_flush = LineFlush::new(1024, 8, false);
        let better = with < without;
        let mut last_wrong = 0;
        for part in 0..40_000 {
            let usual = if line_flush.evicts { with } else { without };
            let is_outlier = outliers.contains(&(part / LineFlush::PARTS as usize));
            line_flush.part_took(if is_outlier { usual.min(500) } else { usual });
            let is_resting = matches!(line_flush.stage, Stage::Resting(_));
            if is_resting && line_flush.evicts != better {
                last_wrong = part + 1;
            }
        }
        (last_wrong < 30_000).then_some(last_wrong)
    }

    #[test]
    fn windows_that_were_fast_by_chance_do_not_keep_a_young_ring_slow() {
        for (first, count) in (0..12).flat_map(|first| [(first, 1), (first, 2), (first, 3)]) {
            let parts = settles(1_450, 20_000, first..first + count).expect("it settles");
            assert!(parts <= 80, "{parts} parts, outliers {first}+{count}");
        }
    }

    #[test]
    fn trials_of_a_young_ring_follow_each_other_soon_and_later_ones_rarely() {
        let mut line_flush = LineFlush::new(1024, 8, false);
        let mut began = Vec::new();
        for window in 0..20_000 {
            for _ in 0..LineFlush::PARTS {
                let was_trying = line_flush.evicts;
                line_flush.part_took(1_000);
                if line_flush.evicts && !was_trying {
                    began.push(window);
                }
            }
        }
        let gaps: Vec<_> = began.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps[0] < 20, "{gaps:?}");
        assert!(gaps.windows(2).all(|two| two[0] <= two[1] + 1), "{gaps:?}");
        assert!(*gaps.last().unwrap() >= 64 * 4, "{gaps:?}");
    }

    #[test]
    fn a_trial_that_is_clearly_slower_ends_before_its_window() {
        let mut line_flush = LineFlush::new(1024, 8, false);
        let (mut evicting, mut trials) = (0, 0);
        for _ in 0..1000 {
            let was_evicting = line_flush.evicts;
            evicting += usize::from(was_evicting);
            line_flush.part_took(if was_evicting { 40_000 } else { 1_000 });
            trials += usize::from(line_flush.evicts && !was_evicting);
        }
        assert!(
            trials > 0 && evicting <= 2 * trials,
            "{evicting} in {trials}"
        );
    }

    #[test]
    fn a_ring_that_never_evicts_takes_no_step() {
        for line_flush in [
            LineFlush::new(1024, 8, true),
            LineFlush::new(1024, 0, false),
        ] {
            assert_eq!(line_flush.due, isize::MAX as usize);
        }
    }
}
