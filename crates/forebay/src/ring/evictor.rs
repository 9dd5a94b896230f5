//! Whether the consumer evicts the lines that it has read: tried, measured, and tried again.
//!
//! A line of slots goes round between two caches: the producer writes it, the consumer reads it, and a lap later the producer
//! must take it away from the consumer before it can write again. While both run, that taking can be the slowest step of all.
//! If the consumer evicts what it has read, the producer, which asks for its lines some way ahead, gets them from memory.
//! Where the ring is small, or both ends are in one thread, it makes things worse; how far the cores are from each other matters
//! too, and nobody says when that changes. So the consumer goes by what it sees: the time that elements take to come.
//! It imports `memory`, and `slots` for where an end stands. Read `spsc::consumer` next.
//!
//! ```text
//!  windows:  │ as it was │ other way │ other way │ the better way of both … │ as it was │ other way │ other way │ …
//!             measured     settling    measured    64 times as long as that   measured
//! ```

use super::slots::Stand;
use crate::memory::{can_evict, ticks};

/// What a consumer knows about evicting.
#[derive(Debug)]
pub(super) struct Evictor {
    /// Whether lines that were read are evicted.
    evicts: bool,
    /// Where the first line begins, in the first view, that may be evicted next: set before anything is.
    from: usize,
    /// Elements in a part of a window: a window is a lap at least, for the other way shows only a lap later.
    part: usize,
    /// Parts until the window ends.
    parts_left: u32,
    stage: Stage,
    /// Ticks when the part began; none before the first.
    began: Option<u64>,
    /// How many elements had come when the part began.
    first: usize,
    /// How many elements must have come until there is something to do.
    due: usize,
    /// Elements that may come before lines are evicted again.
    step: usize,
    /// Of this window, the part whose elements took the least time.
    pace: Pace,
    /// The pace before the other way was tried.
    before: Pace,
}

/// Ticks for 1024 elements.
type Pace = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It stays as it is for so many windows more.
    Resting(u32),
    /// The other way has begun, and lines from before are still under way.
    Settling,
    Measuring,
}

impl Evictor {
    /// Parts of a window. The fastest counts: an interrupt or another process makes some of them slow, and not all.
    const PARTS: u32 = 4;
    /// Bytes of a part, at least: asking the time costs as much as copying some hundreds.
    const LEAST: usize = 1 << 16;
    /// Bytes that come before lines are evicted again.
    const STEP: usize = 4096;
    /// More elements than come between two calls; in 64 bits more than ever come.
    const NEVER: usize = isize::MAX as usize;
    /// How many times as long as a trial takes nothing is tried after it.
    const REST: u64 = 64;

    /// For a ring of `capacity` slots of `slot_bytes`; `never` to evict nothing at all.
    pub(super) fn new(capacity: usize, slot_bytes: usize, never: bool) -> Self {
        let plain_memory = cfg!(any(loom, miri, forebay_one_view));
        let never = never || plain_memory || slot_bytes == 0 || !can_evict();
        let least = (Self::LEAST / slot_bytes.max(1)).max(1);
        let part = (capacity / Self::PARTS as usize).max(least);
        Evictor {
            evicts: false,
            from: 0,
            part: if never { Self::NEVER } else { part },
            parts_left: Self::PARTS,
            stage: Stage::Resting(1), // the first window of a ring is nobody's usual pace
            began: None,
            first: 0,
            due: if never { Self::NEVER } else { part },
            step: (Self::STEP / slot_bytes.max(1)).min(capacity / 8).max(1),
            pace: Pace::MAX,
            before: Pace::MAX,
        }
    }

    /// Whether [`reached`](Evictor::reached) has something to do when so many elements have come.
    #[inline(always)]
    pub(super) fn is_due(&self, come: usize) -> bool {
        come.wrapping_sub(self.due) as isize >= 0
    }

    /// So many elements have come that it is due, and all before the place where the end stands were read.
    ///
    /// It cannot panic: an end in a loop that may unwind would not live in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn reached(&mut self, come: usize, stand: Stand) {
        if self.evicts {
            self.from = stand.evict_since(self.from);
        } else {
            self.from = stand.at();
        }
        let elements = come.wrapping_sub(self.first);
        if elements >= self.part && self.part != Self::NEVER {
            let now = ticks();
            if let Some(began) = self.began {
                let took = now.wrapping_sub(began).saturating_mul(1024);
                self.part_took((took / elements.max(1) as u64).max(1));
            }
            self.began = Some(now);
            self.first = come;
        }
        self.due = come.wrapping_add(if self.evicts { self.step } else { self.part });
    }

    fn part_took(&mut self, pace: Pace) {
        self.pace = self.pace.min(pace);
        self.parts_left -= 1;
        let tries = !matches!(self.stage, Stage::Resting(_));
        let is_bad = tries && self.parts_left + 2 <= Self::PARTS && self.pace / 2 > self.before;
        if is_bad {
            // Nobody is to wait for the end of a trial that speaks for itself.
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

    /// To rest after a trial of up to two windows with this pace, where one at the better pace is the measure.
    fn rest(trial: Pace, better: Pace) -> Stage {
        let windows = (trial.saturating_mul(2) / better.max(1)).clamp(2, 64);
        Stage::Resting((Self::REST * windows) as u32)
    }

    /// The stage that follows.
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
                // It takes the memory's time, which others want too: so it has to be worth it.
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

    /// How many of so many windows evict, where an element takes `with` or `without`, and whether the last one does.
    fn windows(with: Pace, without: Pace) -> (usize, bool) {
        let mut evictor = Evictor::new(1024, 8, false);
        let mut evicting = 0;
        for window in 0..1000 {
            evicting += usize::from(evictor.evicts);
            let pace = if evictor.evicts { with } else { without };
            for part in 0..Evictor::PARTS {
                // One part in a window always suffers from something.
                let late = if window % 4 == part { 100 * pace } else { 0 };
                evictor.part_took(pace + late);
            }
        }
        (evicting, evictor.evicts)
    }

    #[test]
    fn the_better_way_is_found_and_trials_of_the_other_take_little_time() {
        let (evicting, at_last) = windows(2_000, 16_000);
        assert!(evicting > 950 && at_last);
        let (evicting, at_last) = windows(20_000, 1_000);
        assert!(evicting < 10 && !at_last);
        // Level, or nearly: no reason to trouble the memory.
        let (evicting, at_last) = windows(900, 1_000);
        assert!(evicting < 30 && !at_last);
    }

    #[test]
    fn a_trial_that_was_slow_is_not_repeated_before_64_times_its_time() {
        let mut evictor = Evictor::new(1 << 20, 8, false);
        let (mut usual, mut trials) = (0, 0);
        for _ in 0..100_000 {
            let pace = if evictor.evicts { 50_000 } else { 1_000 };
            *(if evictor.evicts {
                &mut trials
            } else {
                &mut usual
            }) += pace;
            for _ in 0..Evictor::PARTS {
                evictor.part_took(pace);
            }
        }
        assert!(usual / 50 > trials, "{usual} and {trials}");
    }

    #[test]
    fn a_trial_that_speaks_for_itself_ends_before_its_window() {
        let mut evictor = Evictor::new(1024, 8, false);
        let mut evicting = 0;
        for _ in 0..1000 {
            evicting += usize::from(evictor.evicts);
            evictor.part_took(if evictor.evicts { 40_000 } else { 1_000 });
        }
        assert_eq!(evicting, 2);
    }

    #[test]
    fn who_must_never_evict_is_never_asked() {
        for evictor in [Evictor::new(1024, 8, true), Evictor::new(1024, 0, false)] {
            assert_eq!(evictor.due, isize::MAX as usize);
        }
    }
}
