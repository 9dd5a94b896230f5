//! A region that one thread fills from its beginning, while another thread may use what is committed.
//!
//! ```text
//!  │ committed: Filled │ Vacant: reserve ─▶ fill ─▶ commit │
//!  0                  len ──▶                             size
//! ```
//! The two halves own disjoint bytes of one region, and the length divides them. Only [`Vacant`] moves it, and only upwards:
//! a byte below it belongs to [`Filled`] until both halves are in one hand again and [`Filled::restart`] is called.
//! A commit is two or three plain stores on x86-64, so filling costs nothing for being observed.
//!
//! Edges:
//!
//! | edge | release | acquire | what is visible |
//! |---|---|---|---|
//! | COMMITTED | `Reservation::publish` | `Filled::committed`, `Filled::snapshot` | the bytes below the length; the count that was begun with it |
//! | COUNTED | `Reservation::commit`, `Vacant::count` | `Filled::snapshot` | a length at least as new as the count |
#![allow(unsafe_code)]

use super::{HugePages, MapConfig, Region};
use crate::{
    Result,
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
        planted,
    },
};
use std::{
    ops::{Deref, DerefMut, Range},
    slice,
};

struct Shared {
    region: Region,
    size: usize,
    /// Bytes below belong to `Filled`, the others to `Vacant`. Written by `Vacant`.
    len: AtomicUsize,
    /// The count that a commit leads to, stored before the length. Written by `Vacant`.
    begun: AtomicU64,
    /// The same, stored after the length. Written by `Vacant`.
    counted: AtomicU64,
    /// Loom cannot see the region, so the models access these in the place of its first bytes.
    #[cfg(loom)]
    shadow: Vec<loom::cell::UnsafeCell<()>>,
}

// SAFETY: the shadow is accessed where the region's bytes are, which the halves divide; loom checks that.
#[cfg(loom)]
unsafe impl Sync for Shared {}

impl Shared {
    /// Loom's view of an access to these bytes.
    #[cfg(loom)]
    fn touch(&self, range: Range<usize>, writes: bool) {
        for cell in self.shadow.iter().take(range.end).skip(range.start) {
            match writes {
                true => cell.with_mut(|_| ()),
                false => cell.with(|_| ()),
            }
        }
    }
    #[cfg(not(loom))]
    #[inline(always)]
    fn touch(&self, _range: Range<usize>, _writes: bool) {}
}

/// Maps `size` bytes and divides them: all of them are vacant. The caller has checked that there is memory for them.
pub(crate) fn halves(size: usize, config: &MapConfig) -> Result<(Vacant, Filled)> {
    let region = Region::part(size, config)?;
    let shared = Arc::new(Shared {
        region,
        size,
        len: AtomicUsize::new(0),
        begun: AtomicU64::new(0),
        counted: AtomicU64::new(0),
        #[cfg(loom)]
        shadow: (0..16).map(|_| loom::cell::UnsafeCell::new(())).collect(),
    });
    let filled = Filled {
        shared: shared.clone(),
    };
    Ok((Vacant { shared }, filled))
}

/// The half that is being filled: all bytes from the length on.
pub(crate) struct Vacant {
    shared: Arc<Shared>,
}

impl Vacant {
    /// Bytes committed.
    #[inline]
    pub fn len(&self) -> usize {
        // Relaxed: only this half writes it.
        self.shared.len.load(Relaxed)
    }

    /// The sum of what the commits counted.
    #[inline]
    pub fn counted(&self) -> u64 {
        // Relaxed: only this half writes it.
        self.shared.counted.load(Relaxed)
    }

    /// The next `len` bytes; `None` where the region ends before.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Option<Reservation<'_>> {
        let shared = &*self.shared;
        // Relaxed: only this half writes them.
        let at = shared.len.load(Relaxed);
        let counted = shared.counted.load(Relaxed);
        // The length never passes the size: only commits of reservations, and restarts, move it.
        (len <= shared.size - at).then_some(Reservation {
            shared,
            at,
            len,
            counted,
        })
    }

    /// Counts something that has no bytes here. `Filled` must not be asked for a snapshot meanwhile.
    pub fn count(&mut self, more: u64) {
        let count = self.counted() + more;
        self.shared.begun.store(count, Relaxed); // before COUNTED
        self.shared.counted.store(count, Release); // COUNTED
    }
}

/// Bytes behind the committed ones. Dropping it, or forgetting it, leaves everything as it was.
///
/// It remembers the length and the count: the compiler has to assume that filling the bytes may change any memory, and would
/// load both again at the commit, each time waiting for its own last store.
pub(crate) struct Reservation<'a> {
    shared: &'a Shared,
    at: usize,
    len: usize,
    counted: u64,
}

impl Reservation<'_> {
    /// Gives the bytes to `Filled`, which count for `more`.
    #[inline]
    pub fn commit(self, more: u64) {
        let count = self.counted + more;
        self.shared.begun.store(count, Relaxed); // before COMMITTED
        self.publish();
        self.shared.counted.store(count, Release); // COUNTED
    }

    /// Gives the bytes to `Filled`, and counts nothing.
    #[inline]
    pub fn commit_uncounted(self) {
        self.publish();
    }

    #[inline]
    fn publish(&self) {
        let order = if planted("fill-commit-relaxed") {
            Relaxed
        } else {
            Release
        };
        self.shared.len.store(self.at + self.len, order); // COMMITTED
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.shared.touch(self.at..self.at + self.len, false);
        // SAFETY: `reserve` checked that `at + len` bytes are in the region.
        let start = unsafe { self.shared.region.base().add(self.at) };
        // SAFETY: the bytes are mapped and zeroed or written before; they are at or above the length, so `Vacant` owns them,
        // which is borrowed mutably for as long as the reservation lives.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.len) }
    }
}

impl DerefMut for Reservation<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.shared.touch(self.at..self.at + self.len, true);
        // SAFETY: `reserve` checked that `at + len` bytes are in the region.
        let start = unsafe { self.shared.region.base().add(self.at) };
        // SAFETY: as in `deref`, and the exclusive borrow of the reservation makes the slice the only one.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len) }
    }
}

/// The half that is filled: all bytes below the length.
pub(crate) struct Filled {
    shared: Arc<Shared>,
}

impl Filled {
    /// Bytes committed so far; there may be more at once.
    fn committed(&self) -> usize {
        self.shared.len.load(Acquire) // COMMITTED
    }

    /// A length, and what was counted up to exactly there. `None`: a commit is under way, ask again.
    pub fn snapshot(&self) -> Option<(usize, u64)> {
        // The count of commit `k` is seen: the length is that of `k` or a later commit `j` (COUNTED). The length of `j` is
        // seen: the count that `j` began with is (COMMITTED). Where both counts are the same, they are that of `j`.
        let counted = self.shared.counted.load(Acquire); // COUNTED
        let len = self.committed();
        let begun = self.shared.begun.load(Relaxed); // after COMMITTED
        let is_settled = begun == counted || planted("fill-snapshot-unsettled");
        is_settled.then_some((len, counted))
    }

    /// Committed bytes.
    ///
    /// # Panics
    /// Not all of `range` is committed.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.committed());
        self.shared.touch(range.clone(), false);
        // SAFETY: the length is at most the size of the region, and `range` ends at or before it.
        let start = unsafe { self.shared.region.base().add(range.start) };
        // SAFETY: the bytes are initialised, below the length, and so ours; `Vacant` never goes back below it, except in
        // `restart`, which borrows this half mutably.
        unsafe { slice::from_raw_parts(start.as_ptr(), range.len()) }
    }

    /// Committed bytes, to be changed.
    ///
    /// # Panics
    /// Not all of `range` is committed.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.committed());
        self.shared.touch(range.clone(), true);
        // SAFETY: the length is at most the size of the region, and `range` ends at or before it.
        let start = unsafe { self.shared.region.base().add(range.start) };
        // SAFETY: as in `part`, and the exclusive borrow of this half makes the slice the only one.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), range.len()) }
    }

    /// Begins anew: `len` bytes are committed, whatever they hold, and nothing is counted.
    ///
    /// # Panics
    /// `vacant` is another region's half, or the region is shorter than `len`.
    pub fn restart(&mut self, vacant: &mut Vacant, len: usize) {
        assert!(Arc::ptr_eq(&self.shared, &vacant.shared) && len <= self.shared.size);
        // Relaxed: both halves are here, and whatever hands one to another thread publishes these.
        self.shared.len.store(len, Relaxed);
        self.shared.begun.store(0, Relaxed);
        self.shared.counted.store(0, Relaxed);
    }

    /// Touches the first `len` bytes now, at most as much as one huge page.
    pub fn populate_beginning(&self, len: usize) -> Result<()> {
        self.shared.region.populate_beginning(len)
    }

    /// Which huge pages the region has now.
    pub fn huge_pages(&self) -> HugePages {
        self.shared.region.huge_pages()
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{model, thread};

    /// Two threads: one commits records of growing length, each counting for one; the other sees whole ones only, with
    /// the count that belongs to the length, and changes them while the next is being filled.
    #[test]
    fn what_is_committed_can_be_used_while_the_next_record_is_filled() {
        model(|| {
            let config = MapConfig {
                populate: false,
                huge_pages: false,
            };
            let (mut vacant, mut filled) = halves(4096, &config).unwrap();
            filled.restart(&mut vacant, 1);
            let using = thread::spawn(move || {
                if let Some((len, counted)) = filled.snapshot() {
                    assert_eq!(len, [1, 2, 4][counted as usize]);
                    assert_eq!(filled.part(1..len), &[1, 2, 2][..len - 1]);
                    filled.part_mut(0..len).fill(9);
                }
                filled
            });
            for record in 1..=2u8 {
                let mut slot = vacant.reserve(record.into()).unwrap();
                slot.fill(record);
                slot.commit(1);
            }
            let filled = using.join().unwrap();
            assert_eq!(filled.snapshot(), Some((4, 2)));
            let last = filled.part(2..4);
            assert!(last == [2, 2] || last == [9, 9]);
        });
    }

    #[cfg(loom)]
    #[test]
    fn planted_bugs_are_found() {
        let model =
            "memory::fill::models::what_is_committed_can_be_used_while_the_next_record_is_filled";
        for bug in ["fill-commit-relaxed", "fill-snapshot-unsettled"] {
            crate::sync::planted_bug_is_found(bug, model);
        }
    }
}
