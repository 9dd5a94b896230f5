//! What sleepers of a queue wait for: any number of them, woken one at a time, and at most one on its way at once.
//!
//! A queue has two such events: a message may be there, and room may be there. It imports `sync`. Read `core` next.
//!
//! ```text
//!   sleeper:  join ─▶ (fence) ─▶ look ─▶ sleep while quiet ─▶ quiet it ─▶ (fence) ─▶ look … leave ─▶ ring if there is more
//!   ringer:   publish ─▶ (fence) ─▶ sleepers, and quiet? ─▶ signal it, wake one
//! ```
//!
//! While one sleeper is on its way nobody else is woken, however much is published: a system call each would cost
//! more than all the rest. So **whoever has slept, or was about to, passes the signal on if it leaves more behind than
//! it takes**. Then this holds: where there is something to take and somebody asleep, somebody is awake who will see
//! to it.
//!
//! | Edge | One side | Other side | What it gives |
//! |---|---|---|---|
//! | RING | `join` and `sleep`: adding to `sleepers`, quieting `signal`, SeqCst fence, then a look | `ring`: after the publishing store, SeqCst fence, load of both | One of the two sees the other: the ringer sees a sleeper and no signal, or the look sees what was published. Never neither |

use super::futex::Futex;
use crate::sync::{
    atomic::{
        Ordering::{Relaxed, SeqCst},
        fence,
    },
    mortal::AtomicU32,
    planted,
};
use std::time::Duration;

const QUIET: u32 = 0;
const SIGNALLED: u32 = 1;

/// Something that may happen, and those who sleep until it does.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// Written by those who join and leave, read by ringers: how many may be asleep.
    sleepers: AtomicU32,
    /// Written by ringers (1) and by the one that was woken (0), read by the kernel: nobody falls asleep while it is 1.
    signal: Futex,
}

impl Event {
    /// Says that we are about to sleep; the caller looks again before it does.
    pub(super) fn join(&self) {
        self.sleepers.fetch_add(1, Relaxed); // Relaxed: the fence orders it
        fence(SeqCst); // RING, the sleeper's side
    }

    /// Sleeps until a ring, or for `limit` at most, and then looks are due: what it was rung for may be ours.
    /// It may also return early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        self.signal.sleep(QUIET, limit);
        // Relaxed: the fence orders it. A swap and not a store, for models only: see the last test below.
        self.signal.swap(QUIET, Relaxed);
        if !planted("queue-sleep-without-fence") {
            fence(SeqCst); // RING, the sleeper's side
        }
    }

    /// Ends what [`join`](Event::join) began. The caller rings if it leaves anything behind for others.
    pub(super) fn leave(&self) {
        self.sleepers.fetch_sub(1, Relaxed); // Relaxed: a ringer that still counts us wakes nobody, or somebody early
    }

    /// Wakes one sleeper, if there is any and none is on its way, and `others`, who sleep elsewhere but have joined; call it
    /// after what was published.
    #[inline(always)]
    pub(super) fn ring(&self, others: impl FnOnce()) {
        if !planted("queue-ring-without-fence") {
            fence(SeqCst); // RING, the ringer's side
        }
        // Relaxed: ordered by the fence above.
        if self.sleepers.load(Relaxed) > 0 {
            others();
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: ordered by the fence in `ring`; what was published has edges of its own.
        if self.signal.load(Relaxed) == QUIET && self.signal.swap(SIGNALLED, Relaxed) == QUIET {
            self.signal.wake_one();
        }
    }
}

/// That the head has passed a message: all who wait for it are told at once, which is rare. No count of sleepers: the
/// head's lock orders both sides.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Written under the head's lock, read by the kernel: 1 while somebody waits.
    word: Futex,
}

impl Passing {
    /// Says that we wait; the caller holds the head's lock, and sleeps when it has given it back.
    pub(super) fn wait_for(&self) {
        self.word.store(1, Relaxed); // Relaxed: the head's lock orders it
    }

    /// Sleeps until told, or for `limit` at most; it may return early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        self.word.sleep(1, limit);
    }

    /// Whether anybody waits; the caller holds the head's lock.
    #[inline(always)]
    pub(super) fn has_waiters(&self) -> bool {
        self.word.load(Relaxed) == 1 // Relaxed: the head's lock orders it
    }

    /// Tells them; the caller holds the head's lock.
    #[cold]
    pub(super) fn tell(&self) {
        self.word.store(0, Relaxed); // Relaxed: the head's lock orders it
        self.word.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, atomic::AtomicU32, model_of, thread};

    /// Takes one of what `published` counts, sleeping until there is one, and passes the signal on.
    fn take(event: &Event, published: &AtomicU32) {
        event.join();
        // Relaxed: the event's fences order it.
        while (published.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1))).is_err() {
            event.sleep(None);
        }
        event.leave();
        if published.load(Relaxed) > 0 {
            event.ring(|| ());
        }
    }

    #[test]
    fn whatever_is_published_wakes_a_sleeper_that_comes_back() {
        model_of(3, || {
            let shared = Arc::new((Event::default(), AtomicU32::new(0)));
            let ringers = [0, 1].map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.1.fetch_add(1, Relaxed);
                    shared.0.ring(|| ());
                })
            });
            take(&shared.0, &shared.1);
            take(&shared.0, &shared.1);
            for ringer in ringers {
                ringer.join().unwrap();
            }
        });
    }

    /// Why `sleep` swaps: loom lets a store slip in between the two halves of another thread's swap (its issue 254), and so
    /// a ringer see a signal that was quieted long before. No processor does that. Once this fails, a store will do.
    #[cfg(loom)]
    #[test]
    fn loom_lets_a_store_slip_into_a_swap() {
        use std::sync::atomic::AtomicBool;
        static SLIPPED: AtomicBool = AtomicBool::new(false);
        model_of(3, || {
            let word = Arc::new(AtomicU32::new(0));
            let swapping = word.clone();
            let thread = thread::spawn(move || swapping.swap(2, Relaxed));
            word.store(1, Relaxed);
            // 0, then 1, then 2: or 0, then 2, then 1. But not what the swap did not see, and yet is gone behind it.
            if thread.join().unwrap() == 0 && word.load(Relaxed) == 2 {
                SLIPPED.store(true, Relaxed);
            }
        });
        assert!(SLIPPED.load(Relaxed));
    }
}
