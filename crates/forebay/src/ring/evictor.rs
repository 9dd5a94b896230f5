//! Whether the consumer evicts the lines that it has read: tried, measured, and tried again.
//!
//! A line of slots goes round between two caches: the producer writes it, the consumer reads it, and a lap later the producer
//! must take it away from the consumer before it can write again. While both run, that taking can be the slowest step of all.
//! If the consumer evicts what it has read, the producer, which asks for its lines some way ahead, gets them from memory.
//! Where the ring is small, or both ends are in one thread, it makes things worse; how far the cores are from each other matters
//! too, and nobody says when that changes. So the consumer goes by what it sees: the time that elements take to come.
//! It imports `memory`. Read `spsc::consumer` next.
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
    /// Where the first line begins, in the first view, that may be evicted next.
    from: usize,
    /// Elements until the part of a window ends, as far as they were seen.
    left: isize,
    /// Elements in a part of a window: a window is a lap at least, for the other way shows only a lap later.
    part: isize,
    /// Parts until the window ends.
    parts_left: u32,
    stage: Stage,
    /// Ticks when the part began; none before the first.
    began: Option<u64>,
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
    /// How many times as long as a trial takes nothing is tried after it.
    const REST: u64 = 64;

    /// For a ring of `capacity` slots of `slot_bytes`; `never` to evict nothing at all.
    pub(super) fn new(capacity: usize, slot_bytes: usize, never: bool) -> Self {
        let plain_memory = cfg!(any(loom, miri, forebay_one_view));
        let never = never || plain_memory || slot_bytes == 0 || !can_evict();
        let least = (Self::LEAST / slot_bytes.max(1)).max(1);
        let part = (capacity / Self::PARTS as usize).clamp(least, isize::MAX as usize);
        Evictor {
            evicts: false,
            from: 0,
            left: if never { isize::MAX } else { part as isize },
            part: part as isize,
            parts_left: Self::PARTS,
            stage: Stage::Resting(1), // the first window of a ring is nobody's usual pace
            began: None,
            pace: Pace::MAX,
            before: Pace::MAX,
        }
    }

    /// A look found `newly` elements, and all before the place where the end stands was read.
    ///
    /// It cannot panic: an end in a loop that may unwind would not live in registers.
    #[inline(never)]
    pub(super) fn found(&mut self, newly: usize, stand: Stand) {
        if self.evicts {
            self.from = stand.evict_since(self.from);
        }
        self.left = self.left.wrapping_sub(newly as isize);
        if self.left <= 0 {
            self.next_part(stand);
        }
    }

    fn next_part(&mut self, stand: Stand) {
        let now = ticks();
        let elements = (self.part - self.left).max(1) as u64; // at least a part's
        if !self.evicts {
            self.from = stand.at();
        }
        if let Some(began) = self.began {
            let took = now.wrapping_sub(began);
            self.part_took((took.saturating_mul(1024) / elements).max(1));
        }
        self.began = Some(now);
        self.left = self.part;
    }

    fn part_took(&mut self, pace: Pace) {
        self.pace = self.pace.min(pace);
        self.parts_left -= 1;
        if self.parts_left == 0 {
            self.stage = self.window_took(self.pace);
            self.parts_left = Self::PARTS;
            self.pace = Pace::MAX;
        }
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
                let trial = (pace.saturating_mul(2) / settled_for.max(1)).max(2);
                Stage::Resting(Self::REST.saturating_mul(trial).min(u32::MAX.into()) as u32)
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
    fn who_must_never_evict_never_begins_a_window() {
        let place = crate::ring::slots::Slots::<u64>::new(8, &crate::memory::MapConfig::default())
            .unwrap()
            .place(0);
        for mut evictor in [Evictor::new(1024, 8, true), Evictor::new(1024, 0, false)] {
            for _ in 0..1000 {
                evictor.found(1 << 40, place.stand());
            }
            assert!(evictor.began.is_none());
        }
    }
}
