//! Reference counts of slots. A packet with the only reference may write; the last one returns the slot.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | SHARED | `share` | `is_alone` that finds others (each count continues the release sequence of those before) | the facts that the first packet to share stored: all sharers read the same |
//! | ALONE | `release` of a reference that is not the last | `is_alone`, or `release` of the last | all reads of the slot by the others have ended: it may be written |

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
    /// Written and read by holders of a reference: 1 to [`MAX`].
    count: AtomicU32,
}

/// Far below the point where the count would wrap, far above what any program shares.
const MAX: u32 = 1 << 30;

impl References {
    pub(super) fn new() -> References {
        References {
            count: AtomicU32::new(1),
        }
    }

    /// Adds a reference; the caller holds one.
    pub(super) fn share(&self) {
        // The new holder gets the reference from us, which hands over everything that we see. Another thread may share at the
        // same time, and sees what we stored through this count only.
        let order = if planted("share-relaxed") {
            Relaxed
        } else {
            Release
        };
        let before = self.count.fetch_add(1, order); // SHARED
        if before >= MAX {
            // Relaxed: undoes the line above. Otherwise, forgotten references could wrap the count and free a slot in use.
            self.count.fetch_sub(1, Relaxed);
            panic!("a packet is shared more than {MAX} times");
        }
    }

    /// Whether the caller's reference is the only one. Then no other thread can make another.
    #[inline(always)]
    pub(super) fn is_alone(&self) -> bool {
        let order = if planted("alone-relaxed") {
            Relaxed
        } else {
            Acquire
        };
        self.count.load(order) == 1 // ALONE; SHARED where it is more
    }

    /// Releases the caller's reference. Returns true for the last one: the caller owns the slot now, and the count is 1.
    #[inline(always)]
    pub(super) fn release(&self) -> bool {
        // A single holder stays single: no need for the expensive instruction.
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
            // Relaxed: no other thread has the slot, and the next holder gets it from us.
            self.count.store(1, Relaxed);
        }
        last
    }
}
