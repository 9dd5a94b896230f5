//! What the sleepers of a queue wait for. Any number may sleep; they are woken one at a time, and no second one is woken until
//! the first has arrived.
//!
//! A queue has two such events: a message may be there, and room may be there.
//!
//! ```text
//!   sleeper:  join ─▶ (fence) ─▶ check ─▶ sleep while quiet ─▶ quiet it ─▶ (fence) ─▶ check … leave ─▶ ring if there is more
//!   ringer:   publish ─▶ (fence) ─▶ sleepers, and quiet? ─▶ signal it, wake one
//! ```
//!
//! While one woken sleeper has not yet arrived, no other is woken, no matter how much is published: a system call for each
//! would cost more than all the rest. So **a thread that has slept, or was about to, passes the signal on if it leaves more
//! than it takes**. Invariant: if there is something to take and a thread is asleep, then some thread is awake that will
//! take it or pass the signal on.
//!
//! | Edge | One side | Other side | Guarantee |
//! |---|---|---|---|
//! | RING | `join` and `sleep`: adding to `sleepers`, quieting `signal`, SeqCst fence, then a check | `ring`: after the publishing store, SeqCst fence, load of both | At least one of the two sees the other: the ringer sees a sleeper and no signal, or the check sees what was published |

use crate::sync::{
    SharedFutex,
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

/// An event, and the threads that sleep until it happens.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// How many may be asleep. Written by threads that join and leave, read by ringers.
    sleepers: AtomicU32,
    /// Set to 1 by ringers and to 0 by the woken thread, read by the kernel: no thread falls asleep while it is 1.
    signal: SharedFutex,
}

impl Event {
    /// Announces that this thread is about to sleep. The caller must check once more before it does.
    pub(super) fn join(&self) {
        self.sleepers.fetch_add(1, Relaxed); // Relaxed: the fence orders it
        fence(SeqCst); // RING, the sleeper's side
    }

    /// Sleeps until a ring, or for up to `limit`. The caller must check afterwards, since the ring may have been for it. It may
    /// also return early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        self.signal.sleep(QUIET, limit);
        // Relaxed: the fence orders it. A swap instead of a store only because of loom: see the last test below.
        self.signal.swap(QUIET, Relaxed);
        if !planted("queue-sleep-without-fence") {
            fence(SeqCst); // RING, the sleeper's side
        }
    }

    /// Ends what [`join`](Event::join) began. The caller rings if it leaves anything for others.
    pub(super) fn leave(&self) {
        self.sleepers.fetch_sub(1, Relaxed); // Relaxed: a ringer that still counts this thread wakes none, or one too early
    }

    /// Wakes one sleeper, if there is one and no woken one is still to arrive, and runs `others` for sleepers that joined but
    /// sleep elsewhere. Call it after publishing.
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
        // Relaxed: ordered by the fence in `ring`; the published data has its own edges.
        if self.signal.load(Relaxed) == QUIET && self.signal.swap(SIGNALLED, Relaxed) == QUIET {
            self.signal.wake_one();
        }
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
    fn every_publication_wakes_a_sleeper_again() {
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

    /// Why `sleep` swaps: loom lets a store slip in between the two halves of another thread's swap (loom's issue 254), so that a
    /// ringer sees a signal that was quieted long before. No processor does that. Once this test fails, a store will do.
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
            // Correct orders are 0, 1, 2 (the swap returns 1) and 0, 2, 1. A swap that returns 0 while 2 stays missed the store.
            if thread.join().unwrap() == 0 && word.load(Relaxed) == 2 {
                SLIPPED.store(true, Relaxed);
            }
        });
        assert!(SLIPPED.load(Relaxed));
    }
}
