//! How long to pause before looking at the other side's position.
//!
//! A look costs a cache line's way between two cores, so one that finds little is worth waiting for more. An end has
//! [`Pauses`] at hand, two numbers that stay in registers while it is used in a loop; what it has learned lies apart, in a
//! [`Looker`], and is asked only when a look has found something to learn from. It imports `sync`. Read `evictor` next.
//!
//! ```text
//!   pause ─▶ look ─▶ found 0 or 1: the next look without a pause
//!     ▲       │      found more: learn ─▶ little: pause longer, or doubt that pausing helps
//!     └───────┘                           plenty: pause less
//! ```

use crate::sync::hint;
use std::mem;

/// What an end has at hand from look to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pauses {
    /// Pause instructions before the next look.
    next: u32,
    /// So many looks will teach nothing, and are made without a pause.
    untaught: u32,
}

impl Pauses {
    #[inline(always)]
    pub(super) fn pause(self) {
        /// Takes a number, so that an end in a loop can live in registers.
        #[cold]
        #[inline(never)]
        fn spin(pauses: u32) {
            for _ in 0..pauses {
                hint::spin_loop();
            }
        }
        if self.next > 0 {
            spin(self.next);
        }
    }

    /// A look has found `newly`; `learn` is asked if that can teach something. In one thread it does not, as a rule.
    #[inline(always)]
    pub(super) fn found(&mut self, newly: usize, learn: impl FnOnce() -> Pauses) {
        if newly <= 1 {
            self.next = 0; // whoever waits for a single item is not to wait longer for it
        } else if self.untaught > 0 {
            self.untaught -= 1;
        } else {
            *self = learn();
        }
    }
}

/// What an end has learned from its looks.
///
/// The pause doubles when a look finds less than the target, up to 64 pause instructions (about 1.6 µs on a Zen 5), halves when
/// it finds twice the target. A look that found nothing, or one item, is followed by looks without a pause until more comes
/// at once.
///
/// A pause must bring something. Where both ends are in one thread nothing comes while it pauses, however much is put in each
/// time. So half the way up, and now and then at the top, it looks once without a pause; if that finds more than two
/// thirds as much, three times in turn, pauses are given up for the next 100 looks, then for 200, and up to 3200 until they do
/// help.
#[derive(Clone, Debug)]
pub(super) struct Looker {
    /// Pause instructions before looks, unless something speaks against them just now.
    level: u32,
    /// For how many looks pauses will be given up next time.
    next_given_up: u32,
    /// What the last look found, with a pause, if the next one is to be without; else 0.
    with: u32,
    /// Looks at the top until one is to be without a pause.
    doubt_in: u32,
    /// How many times in turn a pause brought nothing.
    in_vain: u32,
    /// Items that make a look worth its price.
    target: u32,
}

impl Looker {
    const MOST_PAUSES: u32 = 64;
    /// The most items that a look is to find. It takes the line with the other side's position away from that side, which then waits
    /// to have it back, for the time of some hundred small items: so of a large ring's time that is a tenth.
    const MOST_WANTED: usize = 2048;
    const HALF_WAY: u32 = Self::MOST_PAUSES / 2;
    /// Looks without another try, at first and at most.
    const GIVEN_UP: (u32, u32) = (100, 3200);
    /// Looks with most pauses until one without.
    const DOUBTED: u32 = 256;
    /// How many times in turn a pause may bring nothing: a look without one may have found much by chance.
    const IN_VAIN: u32 = 3;

    /// For a ring of `capacity` slots, with what its end has at hand at first; `latency` = without pauses, ever.
    pub(super) fn new(capacity: usize, latency: bool) -> (Self, Pauses) {
        let never_pauses = latency || cfg!(loom);
        let target = match never_pauses {
            true => 0,
            false => (capacity / 4).min(Self::MOST_WANTED) as u32,
        };
        let looker = Looker {
            level: 0,
            next_given_up: Self::GIVEN_UP.0,
            with: 0,
            doubt_in: 0,
            in_vain: 0,
            target,
        };
        let untaught = if never_pauses { u32::MAX } else { 0 };
        (looker, Pauses { next: 0, untaught })
    }

    /// Learns from a look that found `newly`; says what to have at hand for the next ones.
    #[inline(never)]
    pub(super) fn learned(&mut self, newly: usize) -> Pauses {
        let newly = newly.min(u32::MAX as usize) as u32;
        if self.with > 0 {
            return self.doubted(newly);
        }
        if newly >= self.target.saturating_mul(2) {
            self.level /= 2;
        } else if newly < self.target {
            match self.level {
                Self::HALF_WAY => return self.doubting(newly),
                Self::MOST_PAUSES if self.doubt_in == 0 => return self.doubting(newly),
                Self::MOST_PAUSES => self.doubt_in -= 1,
                level => self.level = (level * 2).max(1),
            }
        }
        self.pausing()
    }

    fn pausing(&self) -> Pauses {
        Pauses {
            next: self.level,
            untaught: 0,
        }
    }

    /// The next look will be without a pause.
    fn doubting(&mut self, with: u32) -> Pauses {
        self.with = with;
        Pauses {
            next: 0,
            untaught: 0,
        }
    }

    /// A look without a pause found `newly`.
    fn doubted(&mut self, newly: u32) -> Pauses {
        let with = mem::take(&mut self.with);
        if with >= newly.saturating_add(newly / 2) {
            self.level = Self::MOST_PAUSES;
            self.doubt_in = Self::DOUBTED;
            self.next_given_up = Self::GIVEN_UP.0;
            self.in_vain = 0;
            return self.pausing();
        }
        self.level = Self::HALF_WAY;
        self.in_vain += 1;
        if self.in_vain < Self::IN_VAIN {
            return self.pausing();
        }
        let untaught = self.next_given_up;
        self.next_given_up = (2 * untaught).min(Self::GIVEN_UP.1);
        self.in_vain = 0;
        self.level = 0;
        Pauses { next: 0, untaught }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What an end of a ring of 1024 slots has at hand, and what it has learned.
    struct Looks {
        learned: Looker,
        pauses: Pauses,
    }

    impl Looks {
        fn new(latency: bool) -> Self {
            let (learned, pauses) = Looker::new(1024, latency);
            Looks { learned, pauses }
        }

        fn found(&mut self, newly: usize) {
            self.pauses.found(newly, || self.learned.learned(newly));
        }
    }

    /// Looks until the pause is doubted for the first time: each finds `newly`, whatever the pause.
    fn climbed(looks: &mut Looks, newly: usize) {
        for pauses in [1, 2, 4, 8, 16, 32, 0] {
            looks.found(newly);
            assert_eq!(looks.pauses.next, pauses);
        }
    }

    #[test]
    fn the_pause_grows_while_looks_find_little_and_is_given_up_where_it_does_not_help() {
        let mut looks = Looks::new(false);
        for given_up in [100, 200, 400, 800, 1600, 3200, 3200] {
            climbed(&mut looks, 3);
            for pauses in [32, 0, 32, 0, 0] {
                looks.found(3);
                assert_eq!(looks.pauses.next, pauses);
            }
            for _ in 0..given_up {
                assert!(looks.pauses.untaught > 0);
                looks.found(3);
                assert_eq!(looks.pauses.next, 0);
            }
        }
        looks.found(3);
        assert_eq!((looks.pauses.next, looks.pauses.untaught), (1, 0));
        // Where it helps it stays, up to 64, until a look finds plenty. The last of them is the look without.
        for found in [4, 8, 16, 32, 64, 64, 5] {
            looks.found(found);
        }
        assert_eq!((looks.pauses.next, looks.learned.next_given_up), (64, 100));
        looks.found(2000);
        assert_eq!(looks.pauses.next, 32);
        // Nothing: whatever comes next is to be seen at once. Then it goes on as before.
        looks.found(0);
        assert_eq!(looks.pauses.next, 0);
        looks.found(300);
        assert_eq!(looks.pauses.next, 32);
        looks.found(1);
        assert_eq!(looks.pauses.next, 0);
        looks.found(300);
        assert_eq!(looks.pauses.next, 32);
    }

    #[test]
    fn one_look_that_finds_much_by_chance_does_not_end_the_pauses() {
        let mut looks = Looks::new(false);
        for found in [3, 4, 8, 16, 32, 64, 64, 200, 64, 190, 64, 5] {
            looks.found(found);
        }
        assert_eq!((looks.pauses.next, looks.learned.in_vain), (64, 0));
    }

    #[test]
    fn messages_that_grow_are_not_taken_for_pauses_that_help() {
        // In one thread each look finds a message, whatever the pause: here three elements once, and then eight.
        let mut looks = Looks::new(false);
        for found in [3, 3, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8] {
            looks.found(found);
        }
        assert_eq!((looks.pauses.next, looks.pauses.untaught), (0, 100));
    }

    #[test]
    fn at_the_top_it_looks_without_a_pause_now_and_then() {
        let mut looks = Looks::new(false);
        for found in [3, 4, 8, 16, 32, 64, 64, 3] {
            looks.found(found);
        }
        for _ in 0..Looker::DOUBTED {
            assert_eq!(looks.pauses.next, Looker::MOST_PAUSES);
            looks.found(64);
        }
        looks.found(64);
        assert_eq!((looks.pauses.next, looks.learned.with), (0, 64));
        for pauses in [32, 0, 32, 0, 0] {
            looks.found(50);
            assert_eq!(looks.pauses.next, pauses);
        }
        assert_eq!(looks.pauses.untaught, 100);
    }

    #[test]
    fn a_look_is_to_find_a_quarter_of_the_ring_and_2048_items_at_most() {
        for (capacity, target) in [(1, 0), (1024, 256), (8192, 2048), (1 << 20, 2048)] {
            let (mut learned, _) = Looker::new(capacity, false);
            assert_eq!(learned.target, target);
            if target > 0 {
                assert_eq!(learned.learned(target as usize - 1).next, 1);
            }
            assert_eq!(learned.learned(2 * target as usize).next, 0);
        }
    }

    #[test]
    fn a_latency_ring_never_pauses() {
        let mut looks = Looks::new(true);
        for found in 0..100 {
            looks.found(found);
            assert_eq!(looks.pauses.next, 0);
        }
    }
}
