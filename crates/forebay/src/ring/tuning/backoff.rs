//! Decides how long to pause before loading the other side's position.
//!
//! Such a load, a *refresh*, transfers a cache line between two cores, so after a refresh that found little it is worth waiting for
//! more. Each end holds its [`NextPause`], two numbers. What the end has learned is kept in a separate [`Backoff`], which is called only after refreshes that are worth learning from.
//!
//! ```text
//!   pause ─▶ refresh ─▶ found 0 or 1: the next refresh without a pause
//!     ▲       │         found more: adapt ─▶ little: pause longer, or test whether pausing helps
//!     └───────┘                              plenty: pause less
//! ```

use crate::sync::hint;
use std::mem;

/// The part of the state that an end holds from refresh to refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) struct NextPause {
    /// Pause instructions before the next refresh.
    spins: u32,
    /// This many refreshes are made without a pause and are not learned from.
    ignored: u32,
}

impl NextPause {
    #[inline(always)]
    pub(in crate::ring) fn pause(self) {
        /// Takes a number instead of a reference: see docs/performance-notes.md.
        #[cold]
        #[inline(never)]
        fn spin(spins: u32) {
            for _ in 0..spins {
                hint::spin_loop();
            }
        }
        if self.spins > 0 {
            spin(self.spins);
        }
    }

    /// Records that a refresh found `newly` items; calls `several` if there are more than one, and `adapt` if that is worth learning
    /// from. In one thread it usually is not.
    #[inline(always)]
    pub(in crate::ring) fn record(
        &mut self,
        newly: usize,
        several: impl FnOnce(),
        adapt: impl FnOnce() -> NextPause,
    ) {
        if newly <= 1 {
            self.spins = 0; // a caller that waits for single items must not wait longer
            return;
        }
        several();
        if self.ignored > 0 {
            self.ignored -= 1;
        } else {
            *self = adapt();
        }
    }
}

/// What an end has learned from its refreshes.
///
/// The pause doubles after a refresh that found less than the target, up to 64 pause instructions (about 1.6 µs on a Zen 5). It
/// halves after a refresh that found twice the target. After a refresh that found at most one item, refreshes are made without a
/// pause until one finds more.
///
/// A pause must gain something. If both ends run in one thread, nothing arrives during a pause, however much is pushed each
/// time. So at half the maximum pause, and now and then at the maximum, the end makes one refresh without a pause. If that
/// finds more than two thirds as much, three times in a row, pauses are disabled for the next 100 refreshes. Each further time
/// that number doubles, up to 3200, until pauses help.
#[derive(Clone, Debug)]
pub(in crate::ring) struct Backoff {
    /// Pause instructions before refreshes, unless pauses are disabled at the moment.
    spins: u32,
    /// The number of refreshes for which pauses are disabled next time.
    disabled_for: u32,
    /// The number of items found by the last refresh, with a pause, if the next refresh is a comparison without one; otherwise 0.
    paused_gain: u32,
    /// Refreshes at the maximum pause until the next comparison.
    compare_in: u32,
    /// Number of consecutive pauses that gained nothing.
    useless: u32,
    /// Number of items that makes a refresh worth its cost.
    target: u32,
}

impl Backoff {
    const MAX_SPINS: u32 = 64;
    /// Maximum target. A refresh takes the cache line of the other side's position away from that side, which then waits to get it
    /// back. That wait takes the time of some hundred small items, so a tenth of a large ring's time.
    const MAX_TARGET: usize = 2048;
    const HALF_SPINS: u32 = Self::MAX_SPINS / 2;
    /// Refreshes without another attempt: initially and at most.
    const DISABLED_FOR: (u32, u32) = (100, 3200);
    /// Refreshes at the maximum pause until a refresh without one.
    const COMPARE_EVERY: u32 = 256;
    /// Number of consecutive pauses that may gain nothing: a refresh without a pause may have found much by chance.
    const MAX_USELESS: u32 = 3;

    /// For a ring of `capacity` slots, with its end's initial state.
    pub(in crate::ring) fn new(capacity: usize, never_pauses: bool) -> (Self, NextPause) {
        let never_pauses = never_pauses || cfg!(loom);
        let target = match never_pauses {
            true => 0,
            false => (capacity / 4).min(Self::MAX_TARGET) as u32,
        };
        let backoff = Backoff {
            spins: 0,
            disabled_for: Self::DISABLED_FOR.0,
            paused_gain: 0,
            compare_in: 0,
            useless: 0,
            target,
        };
        let ignored = if never_pauses { u32::MAX } else { 0 };
        (backoff, NextPause { spins: 0, ignored })
    }

    /// Learns from a refresh that found `newly` items; returns the state for the next refreshes.
    #[inline(never)]
    pub(in crate::ring) fn adapt(&mut self, newly: usize) -> NextPause {
        let newly = newly.min(u32::MAX as usize) as u32;
        if self.paused_gain > 0 {
            return self.compare(newly);
        }
        if newly >= self.target.saturating_mul(2) {
            self.spins /= 2;
        } else if newly < self.target {
            match self.spins {
                Self::HALF_SPINS => return self.begin_comparison(newly),
                Self::MAX_SPINS if self.compare_in == 0 => return self.begin_comparison(newly),
                Self::MAX_SPINS => self.compare_in -= 1,
                spins => self.spins = (spins * 2).max(1),
            }
        }
        self.next_pause()
    }

    fn next_pause(&self) -> NextPause {
        NextPause {
            spins: self.spins,
            ignored: 0,
        }
    }

    /// Makes the next refresh without a pause, for comparison.
    fn begin_comparison(&mut self, paused_gain: u32) -> NextPause {
        self.paused_gain = paused_gain;
        NextPause {
            spins: 0,
            ignored: 0,
        }
    }

    /// Compares: a refresh without a pause found `newly` items.
    fn compare(&mut self, newly: u32) -> NextPause {
        let with = mem::take(&mut self.paused_gain);
        if with >= newly.saturating_add(newly / 2) {
            self.spins = Self::MAX_SPINS;
            self.compare_in = Self::COMPARE_EVERY;
            self.disabled_for = Self::DISABLED_FOR.0;
            self.useless = 0;
            return self.next_pause();
        }
        self.spins = Self::HALF_SPINS;
        self.useless += 1;
        if self.useless < Self::MAX_USELESS {
            return self.next_pause();
        }
        let ignored = self.disabled_for;
        self.disabled_for = (2 * ignored).min(Self::DISABLED_FOR.1);
        self.useless = 0;
        self.spins = 0;
        NextPause { spins: 0, ignored }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The state and the learning of an end, in a ring of 1024 slots.
    struct Refreshes {
        learned: Backoff,
        pause: NextPause,
    }

    impl Refreshes {
        fn new(latency: bool) -> Self {
            let (learned, pause) = Backoff::new(1024, latency);
            Refreshes { learned, pause }
        }

        fn found(&mut self, newly: usize) {
            self.pause
                .record(newly, || (), || self.learned.adapt(newly));
        }
    }

    /// Makes refreshes that each find `newly` items, whatever the pause, until the first comparison.
    fn climbed(refreshes: &mut Refreshes, newly: usize) {
        for pauses in [1, 2, 4, 8, 16, 32, 0] {
            refreshes.found(newly);
            assert_eq!(refreshes.pause.spins, pauses);
        }
    }

    #[test]
    fn the_pause_grows_while_refreshes_find_little_and_is_given_up_where_it_does_not_help() {
        let mut refreshes = Refreshes::new(false);
        for given_up in [100, 200, 400, 800, 1600, 3200, 3200] {
            climbed(&mut refreshes, 3);
            for pauses in [32, 0, 32, 0, 0] {
                refreshes.found(3);
                assert_eq!(refreshes.pause.spins, pauses);
            }
            for _ in 0..given_up {
                assert!(refreshes.pause.ignored > 0);
                refreshes.found(3);
                assert_eq!(refreshes.pause.spins, 0);
            }
        }
        refreshes.found(3);
        assert_eq!((refreshes.pause.spins, refreshes.pause.ignored), (1, 0));
        // While it helps, the pause grows, up to 64, until a refresh finds plenty. The last refresh is the one without a pause.
        for found in [4, 8, 16, 32, 64, 64, 5] {
            refreshes.found(found);
        }
        assert_eq!(
            (refreshes.pause.spins, refreshes.learned.disabled_for),
            (64, 100)
        );
        refreshes.found(2000);
        assert_eq!(refreshes.pause.spins, 32);
        // No items: the next item must be found at once. Then it continues as before.
        refreshes.found(0);
        assert_eq!(refreshes.pause.spins, 0);
        refreshes.found(300);
        assert_eq!(refreshes.pause.spins, 32);
        refreshes.found(1);
        assert_eq!(refreshes.pause.spins, 0);
        refreshes.found(300);
        assert_eq!(refreshes.pause.spins, 32);
    }

    #[test]
    fn one_look_that_finds_much_by_chance_does_not_end_the_pauses() {
        let mut refreshes = Refreshes::new(false);
        for found in [3, 4, 8, 16, 32, 64, 64, 200, 64, 190, 64, 5] {
            refreshes.found(found);
        }
        assert_eq!((refreshes.pause.spins, refreshes.learned.useless), (64, 0));
    }

    #[test]
    fn messages_that_grow_are_not_taken_for_pauses_that_help() {
        // In one thread each look finds one message, whatever the pause: first three elements, and then eight.
        let mut refreshes = Refreshes::new(false);
        for found in [3, 3, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8] {
            refreshes.found(found);
        }
        assert_eq!((refreshes.pause.spins, refreshes.pause.ignored), (0, 100));
    }

    #[test]
    fn at_the_top_it_refreshes_without_a_pause_now_and_then() {
        let mut refreshes = Refreshes::new(false);
        for found in [3, 4, 8, 16, 32, 64, 64, 3] {
            refreshes.found(found);
        }
        for _ in 0..Backoff::COMPARE_EVERY {
            assert_eq!(refreshes.pause.spins, Backoff::MAX_SPINS);
            refreshes.found(64);
        }
        refreshes.found(64);
        assert_eq!(
            (refreshes.pause.spins, refreshes.learned.paused_gain),
            (0, 64)
        );
        for pauses in [32, 0, 32, 0, 0] {
            refreshes.found(50);
            assert_eq!(refreshes.pause.spins, pauses);
        }
        assert_eq!(refreshes.pause.ignored, 100);
    }

    #[test]
    fn a_look_is_to_find_a_quarter_of_the_ring_and_2048_items_at_most() {
        for (capacity, target) in [(1, 0), (1024, 256), (8192, 2048), (1 << 20, 2048)] {
            let (mut learned, _) = Backoff::new(capacity, false);
            assert_eq!(learned.target, target);
            if target > 0 {
                assert_eq!(learned.adapt(target as usize - 1).spins, 1);
            }
            assert_eq!(learned.adapt(2 * target as usize).spins, 0);
        }
    }

    #[test]
    fn a_latency_ring_never_pauses() {
        let mut refreshes = Refreshes::new(true);
        for found in 0..100 {
            refreshes.found(found);
            assert_eq!(refreshes.pause.spins, 0);
        }
    }
}
