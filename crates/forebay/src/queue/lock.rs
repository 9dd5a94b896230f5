//! A lock that waits no longer than it may, and that survives the death of its holder: one word.
//!
//! A queue has three (its tail, its head, the turn of senders that wait for room). It imports `sync`. Read `event` next.
//!
//! ```text
//!   0 free ──▶ owner, HELD ──▶ owner, HELD and WAITED ──▶ 0, wake one; the woken one takes it as WAITED, for there may be more
//!                    └── the owner is dead: a waiter puts itself in its place (CAS), and repairs what it was doing;
//!                        where it cannot, it puts the dead one back, for the next waiter
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | LOCK | `release`: the swap to 0; `hand_back`: the swap to the dead owner | `acquire`: the CAS from 0; the CAS from the dead owner | everything done under the lock before |
//! | INHERIT | death: the kernel drops the byte lock after the last store | `is_dead`: the kernel is asked, before the CAS | everything the dead owner did |

use super::{frame::Owner, futex::Futex, limit::Limit, peers::Peers};
use crate::sync::{
    atomic::Ordering::{Acquire, Relaxed, Release},
    hint, planted, thread,
};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;
/// Bits of the two above; the owner's are behind them.
const BITS: u32 = 2;
const _: () = assert!(BITS + Owner::BITS <= u32::BITS);

/// Looks before the first sleep, behind pauses: the locks of a queue are held for some tens of nanoseconds. Then some behind
/// giving the processor away: a holder that takes longer has lost its own, and may get this one.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 40 };
const YIELDS: u32 = if cfg!(loom) { 0 } else { 8 };

/// How long a sleep may last before the owner's life is looked into, where owners may die.
const SLICE: Duration = Duration::from_millis(2);

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// From nobody, or from an owner that gave it back.
    Free,
    /// From this one, which died with it: what the lock guards may be half done.
    Inherited(Owner),
}

/// The word of the lock. It guards nothing by itself: who holds it is a matter of the protocol.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Written by whoever takes, waits for or gives back the lock, and read by the kernel.
    word: Futex,
}

impl Lock {
    /// Takes the lock if that is possible within `limit` or a moment; `None` if it is not.
    #[inline]
    #[must_use]
    pub(super) fn acquire(&self, peers: &Peers, limit: &Limit) -> Option<Got> {
        let mine = peers.me().bits() << BITS | HELD;
        // LOCK; Relaxed on failure: nothing is read then.
        match self.word.compare_exchange(FREE, mine, Acquire, Relaxed) {
            Ok(_) => Some(Got::Free),
            Err(_) => self.contend(mine, peers, limit),
        }
    }

    #[cold]
    fn contend(&self, mine: u32, peers: &Peers, limit: &Limit) -> Option<Got> {
        let moment = limit.or_a_moment();
        for look in 0..LOOKS + YIELDS {
            if look < LOOKS {
                hint::spin_loop();
            } else if moment.is_over() {
                break; // whoever got the processor may have kept it for long
            } else {
                thread::yield_now();
            }
            // Relaxed: a look that saves the CAS, which is the LOCK edge.
            if self.word.load(Relaxed) == FREE
                && (self.word)
                    .compare_exchange(FREE, mine, Acquire, Relaxed)
                    .is_ok()
            {
                return Some(Got::Free);
            }
        }
        loop {
            // Relaxed: a guess, which each CAS checks.
            let seen = self.word.load(Relaxed);
            // Having slept, or being about to, we cannot know that nobody else sleeps: so WAITED from now on.
            let wanted = match seen {
                FREE => mine | WAITED,
                seen => seen | WAITED,
            };
            // LOCK; Relaxed on failure: nothing is read then.
            let swapped = self.word.compare_exchange(seen, wanted, Acquire, Relaxed);
            if swapped.is_err() {
                continue;
            }
            if seen == FREE {
                return Some(Got::Free);
            }
            let left = moment.left();
            let owner = Owner::new(wanted >> BITS);
            if peers.is_dead(owner)
                && (self.word) // INHERIT
                    .compare_exchange(wanted, mine | WAITED, Acquire, Relaxed)
                    .is_ok()
            {
                return Some(Got::Inherited(owner));
            }
            if left == Some(Duration::ZERO) {
                return None;
            }
            self.word.sleep(wanted, peers.at_most(SLICE, left));
        }
    }

    /// Gives the lock back to the `dead` owner from whom the caller inherited it, so that the next one inherits it as well.
    #[cold]
    pub(super) fn hand_back(&self, dead: Owner) {
        self.word.swap(dead.bits() << BITS | HELD | WAITED, Release); // LOCK
        self.word.wake_one();
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
        if self.word.swap(FREE, order) & WAITED != 0 {
            self.word.wake_one();
        }
    }
}
