//! A bell that a sleeper arms and another thread rings: the only protocol by which this crate sleeps.
//!
//! The sleeper sleeps on a [`Futex`](super::futex::Futex).
//!
//! ```text
//!   sleeper:  arm ─▶ (fence) ─▶ check again ─▶ sleep while armed
//!   ringer:   publish ─▶ (fence) ─▶ armed? ─▶ disarm, wake
//! ```
//!
//! | Edge | One side | Other side | Guarantee |
//! |---|---|---|---|
//! | WAKE | `arm`: store `ARMED`, SeqCst fence, then the second check | `ring`: after the publishing store, SeqCst fence, load | At least one side sees the other: the ringer sees `ARMED` and wakes, or the second check sees the published value. |
//!
//! Rings are frequent and sleeps are rare. So if the kernel can make every thread execute a fence (`membarrier`), the sleeper
//! requests that, about 0.5 µs before a sleep, and the ringer only keeps the compiler from moving its load. `membarrier`
//! interrupts every thread of the process that is running on another processor, including threads that do not use this bell.
//! On other kernels, and in models, both sides fence. The word itself records which way applies, so a ringer checks only the
//! word.
//!
//! A ringer that wakes a sleeper also records the processor that it runs on. If the sleeper runs on the same processor at its
//! next wait, the ringer cannot publish anything until the sleeper yields the processor, so checking repeatedly is useless.

use super::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Relaxed, SeqCst},
    fence,
};
use super::{OwnFutex, planted};
#[cfg(not(any(loom, miri)))]
use crate::sys::membarrier;
use std::{sync::atomic::compiler_fence, time::Duration};

/// No thread is to be woken, and ringers need no fence to know that.
const QUIET: u32 = 0;
/// A thread sleeps, or is about to.
const ARMED: u32 = 1;
/// Ringers must fence before they check whether the bell is armed. This bit never changes.
const RINGERS_FENCE: u32 = 2;

/// Whether all bells have `RINGERS_FENCE`, known at compile time: for models, which have no kernel.
const BOTH_FENCE: bool = cfg!(any(loom, miri));

/// One sleeper, any number of ringers.
///
/// The sleeper arms, **checks its condition once more**, and only then sleeps. Everything published after that check rings
/// the bell. Without the second check, a wake-up between the first check and the arming would be lost.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Armed by the sleeper, disarmed by both, loaded by both and by the kernel: `idle`, with or without `ARMED`.
    word: OwnFutex,
    /// The word while no thread sleeps: `QUIET` or `RINGERS_FENCE`.
    idle: u32,
    /// The processor of the ringer that last woke the sleeper, or `NOWHERE`. Written by ringers, read by the sleeper.
    #[cfg(not(any(loom, miri)))]
    ringer_cpu: AtomicU32,
}

/// No ringer has woken a sleeper yet.
#[cfg(not(any(loom, miri)))]
const NOWHERE: u32 = u32::MAX;

impl Default for Bell {
    fn default() -> Bell {
        #[cfg(not(any(loom, miri)))]
        let idle = match membarrier::fences_all_threads() {
            true => QUIET,
            false => RINGERS_FENCE,
        };
        #[cfg(any(loom, miri))]
        let idle = RINGERS_FENCE;
        Bell::idling(idle)
    }
}

impl Bell {
    fn idling(idle: u32) -> Bell {
        Bell {
            word: OwnFutex::new(idle),
            idle,
            #[cfg(not(any(loom, miri)))]
            ringer_cpu: AtomicU32::new(NOWHERE),
        }
    }

    /// Whether the ringer of our last wake-up ran on our current processor. Then it is probably waiting for that processor.
    pub(crate) fn ringer_is_here(&self) -> bool {
        #[cfg(not(any(loom, miri)))]
        // Relaxed: the value only decides how to wait.
        return self.ringer_cpu.load(Relaxed) == crate::sys::current_cpu();
        #[cfg(any(loom, miri))]
        false
    }

    /// The word: not `QUIET` (0) if [`ring_by`](Bell::ring_by) has work to do.
    #[cfg(not(any(loom, miri, forebay_one_view)))]
    pub(crate) fn word(&self) -> *const AtomicU32 {
        &raw const *self.word
    }

    /// Arms the bell; the caller checks its condition again before it sleeps.
    pub(crate) fn arm(&self) {
        // AcqRel, as below. The word publishes nothing, and on hardware its values are totally ordered. But loom assumes an order
        // of two values only if the thread that stores one has seen the other.
        self.word.swap(self.idle | ARMED, AcqRel);
        if planted("bell-arm-without-fence") {
            return;
        }
        #[cfg(not(any(loom, miri)))]
        if self.idle == QUIET {
            return membarrier::fence_all_threads(); // WAKE, for both sides
        }
        fence(SeqCst); // WAKE, the sleeper's side
    }

    /// Disarms the bell: the second check found something, or the limit expired. A ringer that still sees the bell armed wakes no
    /// thread, which is harmless.
    pub(crate) fn disarm(&self) {
        self.take_down();
    }

    /// Like [`disarm`](Bell::disarm); returns whether the bell was armed. Either this call or one ringer disarms it.
    pub(crate) fn take_down(&self) -> bool {
        self.word.swap(self.idle, AcqRel) != self.idle // AcqRel: as in `arm`
    }

    /// Sleeps until the bell rings or `limit` expires; false if it expired. May return early: check the condition again.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> bool {
        if cfg!(loom) && limit.is_some() {
            return false; // a model has no clock: every limit expires at once, before other threads have a turn
        }
        self.word.sleep(self.idle | ARMED, limit)
    }

    /// Wakes the sleeper if there is one. Call it after publishing.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        self.ring_by(|| self.wake());
    }

    /// Like [`ring`](Bell::ring), for a sleeper that does not sleep in [`sleep`](Bell::sleep): `wake` wakes it.
    #[inline(always)]
    pub(crate) fn ring_by(&self, wake: impl FnOnce()) {
        compiler_fence(SeqCst); // WAKE: keeps the publishing store before the load
        // Relaxed: ordered by the sleeper's fence, unless the word requires the ringer to fence.
        if BOTH_FENCE || self.word.load(Relaxed) != QUIET {
            self.ring_if_armed(wake);
        }
    }

    #[cold]
    fn ring_if_armed(&self, wake: impl FnOnce()) {
        if self.idle == RINGERS_FENCE && !planted("bell-ring-without-fence") {
            fence(SeqCst); // WAKE, the ringer's side
        }
        // Relaxed: ordered by the fence above, or by the sleeper's.
        if self.word.load(Relaxed) == self.idle {
            return;
        }
        // AcqRel is not for the sleeper, which loads the published value with Acquire. Of two ringers, one wakes.
        if self.word.swap(self.idle, AcqRel) != self.idle {
            #[cfg(not(any(loom, miri)))]
            self.ringer_cpu.store(crate::sys::current_cpu(), Relaxed); // Relaxed: as for the load
            wake();
        }
    }

    /// Wakes the thread in [`sleep`](Bell::sleep).
    pub(crate) fn wake(&self) {
        self.word.wake_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, model, thread};
    #[cfg(not(loom))]
    use crate::sync::{
        CachePadded,
        atomic::Ordering::{Acquire, Release},
    };

    #[test]
    fn whoever_looks_again_after_arming_is_never_left_asleep() {
        model(|| {
            let shared = Arc::new((Bell::default(), AtomicU32::new(0)));
            let ringer = shared.clone();
            let thread = thread::spawn(move || {
                ringer.1.store(1, Relaxed);
                ringer.0.ring();
            });
            let (bell, published) = &*shared;
            loop {
                bell.arm();
                if !planted("poll-without-second-look") && published.load(Relaxed) == 1 {
                    bell.disarm();
                    break;
                }
                bell.sleep(None);
                if published.load(Relaxed) == 1 {
                    break;
                }
            }
            thread.join().unwrap();
        });
    }

    /// Runs this binary again with each planted bug, and requires the model above to fail.
    #[cfg(loom)]
    #[test]
    fn planted_bugs_are_found() {
        for bug in [
            "poll-without-second-look",
            "bell-arm-without-fence",
            "bell-ring-without-fence",
        ] {
            let test = "sync::bell::tests::whoever_looks_again_after_arming_is_never_left_asleep";
            crate::sync::planted_bug_is_found(bug, test);
        }
    }

    /// Models fence on both sides. This tests the way used on the machine, where only the sleeper does.
    #[test]
    #[cfg(not(loom))]
    fn on_the_machine_too_one_of_the_two_sees_the_other() {
        const ROUNDS: u32 = if cfg!(miri) { 10 } else { 10_000 };
        for bell in both_kinds() {
            let missed = missed_by_both(&bell, ROUNDS);
            assert_eq!(missed, 0, "neither side saw the other: {bell:?}");
        }
    }

    /// Bells as this machine has them, and as other machines have them.
    #[cfg(not(loom))]
    fn both_kinds() -> [Bell; 2] {
        [Bell::default(), Bell::idling(RINGERS_FENCE)]
    }

    /// How often neither side saw the other.
    #[cfg(not(loom))]
    fn missed_by_both(bell: &Bell, rounds: u32) -> u32 {
        let round = CachePadded(AtomicU32::new(0));
        let (published, rung) = (CachePadded(AtomicU32::new(0)), AtomicU32::new(0));
        let mut missed = 0;
        let until = |done: &dyn Fn() -> bool| {
            for look in 0_u32.. {
                if done() {
                    return;
                }
                match look % 1000 {
                    999 => thread::yield_now(),
                    _ => std::hint::spin_loop(),
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=rounds {
                    until(&|| round.load(Acquire) == number);
                    let mut woke = false;
                    published.store(number, Relaxed);
                    bell.ring_by(|| woke = true);
                    rung.store(2 * number + u32::from(woke), Release);
                }
            });
            for number in 1..=rounds {
                round.store(number, Release);
                (0..number % 64).for_each(|_| std::hint::spin_loop());
                bell.arm();
                let seen = published.load(Relaxed) == number;
                until(&|| rung.load(Acquire) / 2 == number);
                let woken = rung.load(Acquire) % 2 == 1;
                missed += u32::from(!seen && !woken);
                bell.disarm();
            }
        });
        missed
    }

    #[test]
    #[cfg(not(loom))]
    fn of_the_sleeper_and_a_ringer_one_takes_the_bell_down() {
        for bell in both_kinds() {
            let rings = || {
                let mut rings = false;
                bell.ring_by(|| rings = true);
                rings
            };
            bell.arm();
            assert!(bell.take_down());
            assert!(!bell.take_down() && !rings(), "it was not armed: {bell:?}");
            bell.arm();
            assert!(rings());
            assert!(!bell.take_down() && !rings(), "it was not armed: {bell:?}");
            assert_eq!(bell.word.load(Relaxed), bell.idle);
        }
    }

    #[test]
    #[cfg(not(loom))]
    fn a_bell_that_nobody_rings_lets_the_time_pass() {
        for bell in both_kinds() {
            bell.arm();
            assert!(!bell.sleep(Some(Duration::from_millis(1))));
            bell.ring();
            assert!(
                bell.sleep(None),
                "sleep returns at once if the bell is not armed"
            );
        }
    }
}
