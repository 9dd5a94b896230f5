//! How many packets share a slot. Whoever is alone may write, and whoever goes last gives the slot back.
//!
//! It knows no memory; it imports `sync`. Read `packet` next, which asks it before every write.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | SHARED | `share` | `is_alone` that finds others (each count continues the release sequence of those before) | the facts that the first one to share wrote down: all who share read the same |
//! | ALONE | `release` by one who is not the last | `is_alone`, or `release` by the last | all reads that the others made of the slot are over: it may be written |

use crate::sync::{
    atomic::{
        AtomicU32,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    planted,
};

/// The count of one slot: 1 while it is free, too, so that taking it touches nothing.
#[derive(Debug)]
pub(super) struct References {
    /// Written by whoever holds a reference, read by the same: 1 to [`MOST`].
    count: AtomicU32,
}

/// Far below where the count would wrap, far above what any program shares.
const MOST: u32 = 1 << 30;

impl References {
    pub(super) fn new() -> References {
        References {
            count: AtomicU32::new(1),
        }
    }

    /// One more reference, by somebody who holds one.
    pub(super) fn share(&self) {
        // The new holder gets it from us, which hands over all that we see; but another may share at the same time,
        // and has what we wrote down from this number only.
        let order = if planted("share-relaxed") {
            Relaxed
        } else {
            Release
        };
        let before = self.count.fetch_add(1, order); // SHARED
        if before >= MOST {
            // Relaxed: takes back the line above. Forgotten shares would else wrap the count and free what is in use.
            self.count.fetch_sub(1, Relaxed);
            panic!("a packet is shared more than {MOST} times");
        }
    }

    /// Whether the caller's reference is the only one; nobody else can then make another.
    #[inline(always)]
    pub(super) fn is_alone(&self) -> bool {
        let order = if planted("alone-relaxed") {
            Relaxed
        } else {
            Acquire
        };
        self.count.load(order) == 1 // ALONE; SHARED where it is more
    }

    /// Gives the caller's reference back; true for the last one, who owns the slot now and finds the count at 1.
    #[inline(always)]
    pub(super) fn release(&self) -> bool {
        // Who is alone stays so: no need for the expensive instruction.
        self.is_alone() || self.release_shared()
    }

    #[cold]
    fn release_shared(&self) -> bool {
        let order = if planted("release-relaxed") {
            Relaxed
        } else {
            AcqRel
        };
        // ALONE: Release for what we read, Acquire in case we are the last.
        let last = self.count.fetch_sub(1, order) == 1;
        if last {
            // Relaxed: nobody else has the slot, and whoever gets it next gets it from us.
            self.count.store(1, Relaxed);
        }
        last
    }
}
