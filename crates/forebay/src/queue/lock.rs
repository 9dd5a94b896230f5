//! A lock of one word with a time limit, which survives the death of its holder.
//!
//! A queue has three: its tail, its head, and the turn of senders that wait for room.
//!
//! ```text
//!   0 free ──▶ owner, HELD ──▶ owner, HELD and WAITED ──▶ 0, wake one; it takes the lock as WAITED, since more may wait
//!                    └── the owner is dead: a waiter replaces it (CAS), and repairs what it left half done;
//!                        if it cannot, it puts the dead owner back, for the next waiter
//! ```
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | LOCK | `release`: the swap to 0; `hand_back`: the swap to the dead owner | `acquire`: the CAS from 0; the CAS from the dead owner | everything done under the lock before |
//! | INHERIT | death: the kernel drops the byte lock after the last store | `is_dead`: asks the kernel, before the CAS | everything the dead owner did |

use super::{frame::Owner, peers::Peers};
use crate::sync::{
    Deadline, SharedFutex,
    atomic::Ordering::{Acquire, Relaxed, Release},
    planted, spin_then_yield,
};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;
/// Number of flag bits above; the owner is stored in the bits over them.
const BITS: u32 = 2;
const _: () = assert!(BITS + Owner::BITS <= u32::BITS);

/// Yields before the first sleep. The locks of a queue are held for some tens of nanoseconds: a holder that takes longer has
/// been preempted, and may continue on this processor.
const YIELDS: u32 = 8;

/// How long a sleep may last before the waiter checks whether the owner is alive, if owners may die.
const SLICE: Duration = Duration::from_millis(2);

/// How a lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    /// It was free, or its owner released it.
    Free,
    /// Its owner, given here, died holding it: the data under the lock may be half written.
    Inherited(Owner),
}

/// The word of the lock. It owns no data: the protocol defines what it guards.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Written by threads that take, wait for or release the lock, and read by the kernel.
    word: SharedFutex,
}

impl Lock {
    /// Takes the lock within `deadline`, or within a moment if that is longer; `None` if it was not available.
    #[inline]
    #[must_use]
    pub(super) fn acquire(&self, peers: &Peers, deadline: &Deadline) -> Option<Acquired> {
        let mine = peers.me().bits() << BITS | HELD;
        // LOCK; Relaxed on failure: nothing is read then.
        match self.word.compare_exchange(FREE, mine, Acquire, Relaxed) {
            Ok(_) => Some(Acquired::Free),
            Err(_) => self.contend(mine, peers, deadline),
        }
    }

    #[cold]
    fn contend(&self, mine: u32, peers: &Peers, deadline: &Deadline) -> Option<Acquired> {
        let moment = deadline.for_lock();
        let taken = spin_then_yield(YIELDS, &moment, || {
            // Relaxed: a check that saves the CAS, which is the LOCK edge.
            let is_free = self.word.load(Relaxed) == FREE;
            let take = || self.word.compare_exchange(FREE, mine, Acquire, Relaxed);
            (is_free && take().is_ok()).then_some(Acquired::Free)
        });
        if taken.is_some() {
            return taken;
        }
        loop {
            // Relaxed: a guess, which each CAS checks.
            let seen = self.word.load(Relaxed);
            // After sleeping, or before it, this thread cannot know whether others sleep, so it sets WAITED from now on.
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
                return Some(Acquired::Free);
            }
            let left = moment.left();
            let owner = Owner::new(wanted >> BITS);
            if peers.is_dead(owner)
                && (self.word) // INHERIT
                    .compare_exchange(wanted, mine | WAITED, Acquire, Relaxed)
                    .is_ok()
            {
                return Some(Acquired::Inherited(owner));
            }
            if left == Some(Duration::ZERO) {
                return None;
            }
            self.word.sleep(wanted, peers.at_most(SLICE, left));
        }
    }

    /// Returns the lock to the `dead` owner from which the caller inherited it, so that the next caller inherits it, too.
    #[cold]
    pub(super) fn hand_back(&self, dead: Owner) {
        self.word.swap(dead.bits() << BITS | HELD | WAITED, Release); // LOCK
        self.word.wake_one();
    }

    /// Releases the lock; the caller holds it.
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
