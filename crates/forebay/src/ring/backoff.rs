//! Decides how long to pause before loading the other side's position.
//!
//! A load ("look") transfers a cache line between two cores, so after a look that found little it is worth waiting for more.
//! Each end holds its [`Pauses`], two numbers. What the end has learned is
//! kept in a separate [`Backoff`], which is called only after looks that are worth learning from.
//!
//! ```text
//!   pause ─▶ look ─▶ found 0 or 1: the next look without a pause
//!     ▲       │      found more: learn ─▶ little: pause longer, or doubt that pausing helps
//!     └───────┘                           plenty: pause less
//! ```

use crate::sync::hint;
use std::mem;

/// The part of the state that an end holds from look to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pauses {
    /// Pause instructions before the next look.
    next: u32,
    /// This many looks teach nothing, and are made without a pause.
    untaught: u32,
}

impl Pauses {
    #[inline(always)]
    pub(super) fn pause(self) {
        /// Takes a number instead of a reference: see docs/performance-notes.md.
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

    /// Records that a look found `newly` items; calls `learn` if that is worth learning from. In one thread it usually is not.
    #[inline(always)]
    pub(super) fn found(&mut self, newly: usize, learn: impl FnOnce() -> Pauses) {
        if newly <= 1 {
            self.next = 0; // a caller that waits for single items must not wait longer
        } else if self.untaught > 0 {
            self.untaught -= 1;
        } else {
            *self = learn();
        }
    }
}

/// What an end has learned from its looks.
///
/// The pause doubles after a look that found less than the target, up to 64 pause instructions (about 1.6 µs on a Zen 5). It
/// halves after a look that found twice the target. After a look that found at most one item, looks are made without a pause
/// until one finds more.
///
/// A pause must gain something. If both ends run in one thread, nothing arrives during a pause, however much is pushed each
/// time. So at half the maximum pause, and now and then at the maximum, the end makes one look without a pause. If that look
/// finds more than two thirds as much, three times in a row, pauses are disabled for the next 100 looks. Each further time
/// that number doubles, up to 3200, until pauses help.
/// help.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    /// Pause instructions before looks, unless pauses are disabled at the moment.
    level: u32,
    /// The number of looks for which pauses are disabled next time.
    next_given_up: u32,
    /// The number of items found by the last look, with a pause, if the next look is a comparison without one; otherwise 0.
    with: u32,
    /// Looks at the maximum pause until the next comparison.
    doubt_in: u32,
    /// Number of consecutive pauses that gained nothing.
    in_vain: u32,
    /// Number of items that makes a look worth its cost.
    target: u32,
}

impl Backoff {
    const MAX_PAUSES: u32 = 64;
    /// Maximum target. A look takes the cache line of the other side's position away from that side, which then waits to get it
    /// back. That wait takes the time of some hundred small items, so a tenth of a large ring's time.
    const MAX_WANTED: usize = 2048;
    const HALF_WAY: u32 = Self::MAX_PAUSES / 2;
    /// Looks without another attempt: initially and at most.
    const GIVEN_UP: (u32, u32) = (100, 3200);
    /// Looks at the maximum pause until a look without one.
    const DOUBTED: u32 = 256;
    /// Number of consecutive pauses that may gain nothing: a look without a pause may have found much by chance.
    const IN_VAIN: u32 = 3;

    /// For a ring of `capacity` slots, with its end's initial state. With `latency` it never pauses.
    pub(super) fn new(capacity: usize, latency: bool) -> (Self, Pauses) {
        let never_pauses = latency || cfg!(loom);
        let target = match never_pauses {
            true => 0,
            false => (capacity / 4).min(Self::MAX_WANTED) as u32,
        };
        let backoff = Backoff {
            level: 0,
            next_given_up: Self::GIVEN_UP.0,
            with: 0,
            doubt_in: 0,
            in_vain: 0,
            target,
        };
        let untaught = if never_pauses { u32::MAX } else { 0 };
        (backoff, Pauses { next: 0, untaught })
    }

    /// Learns from a look that found `newly` items; returns the state for the next looks.
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
                Self::MAX_PAUSES if self.doubt_in == 0 => return self.doubting(newly),
                Self::MAX_PAUSES => self.doubt_in -= 1,
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

    /// Makes the next look without a pause, for comparison.
    fn doubting(&mut self, with: u32) -> Pauses {
        self.with = with;
        Pauses {
            next: 0,
            untaught: 0,
        }
    }

    /// Compares: a look without a pause found `newly` items.
    fn doubted(&mut self, newly: u32) -> Pauses {
        let with = mem::take(&mut self.with);
        if with >= newly.saturating_add(newly / 2) {
            self.level = Self::MAX_PAUSES;
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

    /// The state and the learning of an end, in a ring of 1024 slots.
    struct Looks {
        learned: Backoff,
        pauses: Pauses,
    }

    impl Looks {
        fn new(latency: bool) -> Self {
            let (learned, pauses) = Backoff::new(1024, latency);
            Looks { learned, pauses }
        }

        fn found(&mut self, newly: usize) {
            self.pauses.found(newly, || self.learned.learned(newly));
        }
    }

    /// Makes looks that each find `newly` items, whatever the pause, until the first comparison.
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
        // While it helps, the pause grows, up to 64, until a look finds plenty. The last look is the one without a pause.
        for found in [4, 8, 16, 32, 64, 64, 5] {
            looks.found(found);
        }
        assert_eq!((looks.pauses.next, looks.learned.next_given_up), (64, 100));
        looks.found(2000);
        assert_eq!(looks.pauses.next, 32);
        // No items: the next item must be found at once. Then it continues as before.
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
        // In one thread each look finds one message, whatever the pause: first three elements, and then eight.
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
        for _ in 0..Backoff::DOUBTED {
            assert_eq!(looks.pauses.next, Backoff::MAX_PAUSES);
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
            let (mut learned, _) = Backoff::new(capacity, false);
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
