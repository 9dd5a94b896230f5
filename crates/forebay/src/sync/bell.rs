//! A bell that a sleeper hangs up and another thread rings: the one protocol by which this crate sleeps.
//!
//! It sleeps on a futex word through `sys`. Read `wait` next, which uses it.
//!
//! ```text
//!   sleeper:  arm ─▶ (fence) ─▶ look again ─▶ sleep while armed
//!   ringer:   publish ─▶ (fence) ─▶ armed? ─▶ quiet it, wake
//! ```
//!
//! | Edge | One side | Other side | What it gives |
//! |---|---|---|---|
//! | WAKE | `arm`: store `ARMED`, SeqCst fence, then the second look | `ring`: after the publishing store, SeqCst fence, load | One of the two sees the other: the ringer sees `ARMED` and wakes, or the second look sees what was published. Never neither |
//!
//! Ringers pass often and sleepers seldom. So where the kernel can make every thread fence (`membarrier`), the sleeper
//! has it done, some 0.5 µs before a sleep, and the ringer has only to keep the compiler from moving its load. It
//! interrupts every thread of the process that runs on another processor then, also those that have nothing to do with
//! this bell. Elsewhere, and in models, both fence; the word says so itself, so that a ringer asks one question.
//!
//! A ringer that wakes a sleeper also records the processor that it runs on. If the sleeper runs on the same one when it next
//! waits, the ringer cannot publish anything until the sleeper gives the processor away, so looking again is in vain.

use super::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Relaxed, SeqCst},
    fence,
};
use super::planted;
#[cfg(not(any(loom, miri)))]
use crate::sys::membarrier;
use std::{sync::atomic::compiler_fence, time::Duration};

/// Nobody is to be woken, and no ringer need fence to know that.
const QUIET: u32 = 0;
/// Somebody sleeps, or is about to.
const ARMED: u32 = 1;
/// Ringers fence before they ask whether the bell is armed. Never changes.
const RINGERS_FENCE: u32 = 2;

/// Whether all bells are such, known to the compiler: for models, which have no kernel.
const BOTH_FENCE: bool = cfg!(any(loom, miri));

/// One sleeper, any number of ringers.
///
/// The sleeper arms, **looks once more at what it waits for**, and only then sleeps; whatever is published after
/// that look rings. Without the second look the wake-up that came between look and arming would be lost.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Armed by the sleeper, disarmed by both, read by both and by the kernel: `idle`, with or without `ARMED`.
    word: AtomicU32,
    /// The word while nobody sleeps: `QUIET` or `RINGERS_FENCE`.
    idle: u32,
    /// The processor of the ringer that last woke the sleeper, or `NOWHERE`. Written by ringers, read by the sleeper.
    #[cfg(not(any(loom, miri)))]
    ringer_cpu: AtomicU32,
}

/// No ringer has woken anybody yet.
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
            word: AtomicU32::new(idle),
            idle,
            #[cfg(not(any(loom, miri)))]
            ringer_cpu: AtomicU32::new(NOWHERE),
        }
    }

    /// Whether the ringer that last woke us ran on the processor that we run on now. Then it probably waits for it.
    pub(crate) fn ringer_is_here(&self) -> bool {
        #[cfg(not(any(loom, miri)))]
        // Relaxed: it only decides how to wait.
        return self.ringer_cpu.load(Relaxed) == crate::sys::current_cpu();
        #[cfg(any(loom, miri))]
        false
    }

    /// Hangs the bell up; the caller looks again before it sleeps.
    pub(crate) fn arm(&self) {
        // AcqRel, as below: the word publishes nothing, and on hardware each of its values follows the last. But loom takes
        // that for granted only where one is known to the other.
        self.word.swap(self.idle | ARMED, AcqRel);
        if planted("bell-arm-without-fence") {
            return;
        }
        #[cfg(not(any(loom, miri)))]
        if self.idle == QUIET {
            return membarrier::fence_all_threads(); // WAKE, both sides
        }
        fence(SeqCst); // WAKE, the sleeper's side
    }

    /// Takes the bell down: the second look found something, or the time is up.
    pub(crate) fn disarm(&self) {
        // Relaxed: a ringer that still sees it armed wakes nobody, which harms nobody.
        self.word.store(self.idle, Relaxed);
    }

    /// As [`disarm`](Bell::disarm); says whether it was up: of this and a ringer, one takes it down.
    pub(crate) fn take_down(&self) -> bool {
        self.word.swap(self.idle, AcqRel) != self.idle // AcqRel: as in `arm`
    }

    /// Sleeps until the bell rings or `limit` is over; true unless the time was up. It may return early: look again.
    pub(crate) fn sleep(&self, limit: Option<Duration>) -> bool {
        #[cfg(not(loom))]
        return crate::sys::futex_wait(&self.word, self.idle | ARMED, limit);
        #[cfg(loom)]
        {
            // A model has no clock: every limit is over at once. Who is never woken stays in this loop, and loom
            // reports that the model does not end.
            while limit.is_none() && self.word.load(Relaxed) != self.idle {
                super::thread::yield_now();
            }
            limit.is_none()
        }
    }

    /// Wakes the sleeper if there is one; call it after what was published.
    #[inline(always)]
    pub(crate) fn ring(&self) {
        self.ring_by(|| self.wake());
    }

    /// As [`ring`](Bell::ring), for a sleeper who sleeps elsewhere than in [`sleep`](Bell::sleep): `wake` wakes it.
    #[inline(always)]
    pub(crate) fn ring_by(&self, wake: impl FnOnce()) {
        compiler_fence(SeqCst); // WAKE: the publishing store stays before the load
        // Relaxed: ordered by the sleeper's fence; or it says that the sleeper has none for us.
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
        // Not for the sleeper, who looks at what was published with that value's own Acquire; of two ringers one wakes.
        if self.word.swap(self.idle, AcqRel) != self.idle {
            #[cfg(not(any(loom, miri)))]
            self.ringer_cpu.store(crate::sys::current_cpu(), Relaxed); // Relaxed: as where it is read
            wake();
        }
    }

    /// Wakes who is in [`sleep`](Bell::sleep); a model's sleeper sees the quiet bell instead.
    pub(crate) fn wake(&self) {
        #[cfg(not(loom))]
        crate::sys::futex_wake(&self.word);
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

    /// Runs this binary again with each bug planted and requires the model above to fail.
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

    /// Models fence on both sides: this is for the way that is taken on the machine, where only the sleeper does.
    #[test]
    #[cfg(not(loom))]
    fn on_the_machine_too_one_of_the_two_sees_the_other() {
        const ROUNDS: u32 = if cfg!(miri) { 10 } else { 10_000 };
        for bell in both_kinds() {
            let missed = missed_by_both(&bell, ROUNDS);
            assert_eq!(missed, 0, "neither saw the other: {bell:?}");
        }
    }

    /// What this machine has, and what others have.
    #[cfg(not(loom))]
    fn both_kinds() -> [Bell; 2] {
        [Bell::default(), Bell::idling(RINGERS_FENCE)]
    }

    /// How often neither saw the other.
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
            assert!(!bell.take_down() && !rings(), "it was down: {bell:?}");
            bell.arm();
            assert!(rings());
            assert!(!bell.take_down() && !rings(), "it was down: {bell:?}");
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
            assert!(bell.sleep(None), "a quiet bell does not let anyone sleep");
        }
    }
}
