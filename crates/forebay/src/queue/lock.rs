//! A lock that waits no longer than it may: one word, a few looks, then a sleep in the kernel.
//!
//! A queue has three (its tail, its head, the turn of senders that wait for room). It imports `sync`. Read
//! `event` next.
//!
//! ```text
//!   0 free ──▶ 1 held ──▶ 2 held, and somebody sleeps ──▶ 0, wake one; the woken one takes it as 2, since there may be more
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | LOCK | `release`: the swap to 0 | `acquire`: the CAS from 0 | everything done under the lock before |

use super::{futex::Futex, limit::Limit};
use crate::sync::{
    atomic::Ordering::{Acquire, Relaxed, Release},
    hint, planted,
};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;

/// Looks before the first sleep; the locks of a queue are held for some tens of nanoseconds.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 100 };

/// The word of the lock. It guards nothing by itself: who holds it is a matter of the protocol.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Written by whoever takes, waits for or gives back the lock, and read by the kernel.
    word: Futex,
}

impl Lock {
    /// Takes the lock if that is possible within `limit` or a moment; says whether it is ours now.
    #[inline]
    #[must_use]
    pub(super) fn acquire(&self, limit: &Limit) -> bool {
        // LOCK; Relaxed on failure: nothing is read then.
        self.word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
            || self.contend(limit)
    }

    #[cold]
    fn contend(&self, limit: &Limit) -> bool {
        for _ in 0..LOOKS {
            hint::spin_loop();
            // Relaxed: a look that saves the CAS, which is the LOCK edge.
            if self.word.load(Relaxed) == FREE
                && (self.word)
                    .compare_exchange(FREE, HELD, Acquire, Relaxed)
                    .is_ok()
            {
                return true;
            }
        }
        let moment = limit.or_a_moment();
        loop {
            // Having slept, or being about to, we cannot know that nobody else sleeps: so WAITED from now on.
            if self.word.swap(WAITED, Acquire) == FREE {
                return true; // LOCK
            }
            let left = moment.left();
            if left == Some(Duration::ZERO) {
                return false;
            }
            self.word.sleep(WAITED, left);
        }
    }

    /// Gives the lock back; the caller holds it.
    #[inline]
    pub(super) fn release(&self) {
        let order = if planted("queue-lock-relaxed") {
            Relaxed
        } else {
            Release
        };
        // LOCK
        if self.word.swap(FREE, order) == WAITED {
            self.word.wake_one();
        }
    }
}
