//! A region that one thread fills from its beginning, while another thread may use the committed bytes.
//!
//! ```text
//!  │ committed: Filled │ Vacant: reserve ─▶ fill ─▶ commit │
//!  0                  len ──▶                             size
//! ```
//! The two halves own disjoint bytes of one region; the length is the boundary. Only [`Vacant`] changes it, and only upwards.
//! A byte below the length belongs to [`Filled`], until one caller has both halves and calls [`Filled::restart`]. If the halves are frozen,
//! nothing changes such a byte until then, and both halves may read it.
//! A commit is one or three plain stores on x86-64, so concurrent readers add no cost to filling.
//!
//! Long records may be copied past the caches ([`Vacant::go_past_caches`]). These stores are not ordered with the commit, and a fence after
//! each of them would take longer than the copy. So `Filled` is used up to a length from [`Filled::snapshot`] or [`Vacant::fenced_len`], where
//! the kernel makes every thread execute a fence.
//!
//! Edges:
//!
//! | edge | release | acquire | what becomes visible |
//! |---|---|---|---|
//! | COMMITTED | `Reservation::publish` | `Filled::committed`, `Filled::snapshot` | the bytes below the length; the count that was stored in `begun` before it |
//! | COUNTED | `Reservation::commit`, `Vacant::count` | `Filled::snapshot` | a length at least as new as the count |
#![allow(unsafe_code)]

#[cfg(all(feature = "shared", not(loom)))]
use super::Part;
use super::{HugePages, MapConfig, Region, copy_lines, past_caches};
use crate::{
    Result,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
        planted,
    },
};
use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut, Range},
    slice,
};

struct Halves {
    memory: Memory,
    base: Address,
    size: usize,
    /// Committed bytes never change, so both halves may read them.
    is_frozen: bool,
    /// The length, as an address: bytes below it belong to `Filled`, the others to `Vacant`. Written by `Vacant`. With an address,
    /// appending need not also load where the region begins.
    end: AtomicPtr<u8>,
    /// The count after a commit, stored before the length. Written by `Vacant`.
    begun: AtomicU64,
    /// The same count, stored after the length. Written by `Vacant`.
    counted: AtomicU64,
    /// Long records are to be copied past the caches. Only `Vacant` uses it.
    goes_past_caches: AtomicBool,
    /// One was, since the last restart. Written by `Vacant`; the COMMITTED of that record shows it to `Filled`.
    went_past_caches: AtomicBool,
    /// Loom cannot see the region, so the models access these instead of its first bytes.
    #[cfg(loom)]
    shadow: Vec<loom::cell::UnsafeCell<()>>,
}

/// Where the bytes lie.
enum Memory {
    /// Private memory.
    Own(Region),
    /// A part of memory that other processes can read.
    #[cfg(all(feature = "shared", not(loom)))]
    Part(Part),
}

// SAFETY: the shadow is accessed like the bytes, which the halves divide; loom checks that.
#[cfg(loom)]
unsafe impl Sync for Halves {}

impl Halves {
    /// The address of the byte at `len`.
    fn place(&self, len: usize) -> *mut u8 {
        self.base.0.wrapping_add(len)
    }

    /// The bytes of `range`, which the caller knows to be committed.
    ///
    /// # Safety
    /// The length is at least `range.end`, and as long as the slice lives, nothing changes these bytes.
    unsafe fn committed(&self, range: Range<usize>) -> &[u8] {
        self.touch(range.clone(), false);
        // SAFETY: the length is at most the size of the memory, and `range` ends at or before it. The bytes are initialised, and
        // the caller promises that nothing changes them.
        unsafe { slice::from_raw_parts(self.place(range.start), range.len()) }
    }

    /// Makes the bytes below a length that was read before visible to every thread.
    fn fence(&self) {
        if self.went_past_caches.load(Relaxed) {
            past_caches::fence();
        }
    }

    /// The length at an address in the region, or at its end.
    #[inline]
    fn len_at(&self, place: *mut u8) -> usize {
        place.addr() - self.place(0).addr()
    }

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

/// The address of a byte of a region, or of its end.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: it is only an address. Each use of the bytes there has its own reason.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// At least this many bytes follow the mark of a [`Vacant`].
const AFTER_MARK: usize = 4096;

/// Maps `size` bytes and divides them: all of them are vacant. Of frozen halves, committed bytes cannot be changed. The caller has
/// checked that there is enough memory.
pub(crate) fn halves(size: usize, config: &MapConfig, is_frozen: bool) -> Result<(Vacant, Filled)> {
    let region = Region::part(size, config)?;
    Ok(divide(Memory::Own(region), size, is_frozen))
}

/// As [`halves`], frozen, of memory that other processes can read.
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) fn halves_of(part: Part) -> (Vacant, Filled) {
    let size = part.len();
    divide(Memory::Part(part), size, true)
}

fn divide(memory: Memory, size: usize, is_frozen: bool) -> (Vacant, Filled) {
    let base = match &memory {
        Memory::Own(region) => region.base(),
        #[cfg(all(feature = "shared", not(loom)))]
        Memory::Part(part) => part.base(),
    };
    let begin = Address(base.as_ptr());
    let shared = Arc::new(Halves {
        memory,
        base: begin,
        size,
        is_frozen,
        end: AtomicPtr::new(begin.0),
        begun: AtomicU64::new(0),
        counted: AtomicU64::new(0),
        goes_past_caches: AtomicBool::new(false),
        went_past_caches: AtomicBool::new(false),
        #[cfg(loom)]
        shadow: (0..16).map(|_| loom::cell::UnsafeCell::new(())).collect(),
    });
    let filled = Filled {
        shared: shared.clone(),
    };
    let vacant = Vacant {
        shared,
        mark: begin,
    };
    (vacant, filled)
}

/// The half that is being filled: all bytes at or above the length.
pub(crate) struct Vacant {
    /// Only this half changes the length and the count in it, so Relaxed loads return them. It keeps no copies: appending short
    /// records takes as long as its stores, and each copy would be another one.
    shared: Arc<Halves>,
    /// See [`set_mark`](Vacant::set_mark). At least `AFTER_MARK` bytes of the region follow it.
    mark: Address,
}

impl Vacant {
    /// Number of committed bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.shared.len_at(self.end())
    }

    /// As [`len`](Vacant::len), after a fence on every thread: a thread that learns this length may use the bytes below it.
    pub fn fenced_len(&self) -> usize {
        self.shared.fence();
        self.len()
    }

    /// From here on, copies long records past the caches, which is for bytes that no processor reads soon. Without effect on frozen
    /// halves, and where the kernel cannot make threads execute a fence.
    pub fn go_past_caches(&mut self) {
        let goes = !self.shared.is_frozen && past_caches::is_possible();
        self.shared.goes_past_caches.store(goes, Relaxed);
    }

    #[inline]
    fn end(&self) -> *mut u8 {
        self.shared.end.load(Relaxed)
    }

    /// Number of bytes from `end` to the end of the region.
    #[inline]
    fn room(&self, end: *mut u8) -> usize {
        // The length never passes the size: only commits of reservations, and restarts, move it.
        self.shared.size - self.shared.len_at(end)
    }

    /// The sum of the commits' counts.
    #[inline]
    pub fn counted(&self) -> u64 {
        self.shared.begun.load(Relaxed)
    }

    /// Reserves the next `len` bytes; `None` if the region ends before.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Option<Reservation<'_>> {
        let end = self.end();
        (len <= self.room(end)).then(|| self.reserved(end, len))
    }

    /// Sets the length from which on [`reserve_below_mark`](Vacant::reserve_below_mark) reserves nothing.
    ///
    /// # Panics
    /// If fewer than 4096 bytes of the region follow the mark.
    pub fn set_mark(&mut self, mark: usize) {
        let last = self.shared.size.checked_sub(AFTER_MARK);
        assert!(last.is_some_and(|last| mark <= last));
        self.mark = Address(self.shared.place(mark));
    }

    /// Whether [`reserve_below_mark`](Vacant::reserve_below_mark) can succeed.
    #[inline]
    pub fn is_below_mark(&self) -> bool {
        self.end() < self.mark.0
    }

    /// As [`reserve`](Vacant::reserve), but also `None` if the committed bytes have reached the mark. For a short `len` that is
    /// known at compile time, the mark is the only check.
    #[inline]
    pub fn reserve_below_mark(&mut self, len: usize) -> Option<Reservation<'_>> {
        let end = self.end();
        // Below the mark, at least `AFTER_MARK` bytes are left.
        let fits = end < self.mark.0 && (len <= AFTER_MARK || len <= self.room(end));
        fits.then(|| self.reserved(end, len))
    }

    /// The `len` bytes from `end` on. The caller has checked that they are in the region.
    #[inline]
    fn reserved(&mut self, end: *mut u8, len: usize) -> Reservation<'_> {
        Reservation {
            shared: &self.shared,
            vacant: PhantomData,
            begin: Address(end),
            len,
        }
    }

    /// Whether other processes can read the bytes. Their memory cannot be freed one by one.
    pub fn is_shared(&self) -> bool {
        !matches!(self.shared.memory, Memory::Own(_))
    }

    /// The number of the part of shared memory that these bytes are; `None` if they are private.
    #[cfg(all(feature = "shared", not(loom)))]
    pub fn part_number(&self) -> Option<usize> {
        match &self.shared.memory {
            Memory::Own(_) => None,
            Memory::Part(part) => Some(part.number()),
        }
    }

    /// Committed bytes, of [frozen halves](halves).
    ///
    /// # Panics
    /// If they can be changed, or not all of `range` is committed.
    #[cfg(all(feature = "shared", not(loom)))]
    pub fn committed(&self, range: Range<usize>) -> &[u8] {
        assert!(self.shared.is_frozen && range.start <= range.end && range.end <= self.len());
        // SAFETY: the range is committed. Committed bytes of frozen halves change only after `restart`, which borrows this half
        // mutably.
        unsafe { self.shared.committed(range) }
    }

    /// Adds to the count without committing bytes. `Filled` must not take a snapshot meanwhile.
    pub fn count(&mut self, more: u64) {
        let count = self.counted() + more;
        self.shared.begun.store(count, Relaxed); // before COUNTED
        self.shared.counted.store(count, Release); // COUNTED
    }
}

/// Bytes after the committed ones. Dropping it, or forgetting it, changes nothing.
///
/// It keeps a copy of the address at the length. The compiler has to assume that filling the bytes may change any memory, and
/// would load the address again at the commit.
pub(crate) struct Reservation<'a> {
    shared: &'a Halves,
    /// [`Vacant`] has no other reservation meanwhile.
    vacant: PhantomData<&'a mut Vacant>,
    begin: Address,
    len: usize,
}

impl Reservation<'_> {
    /// Commits the bytes to `Filled`, and adds `more` to the count.
    #[inline]
    pub fn commit(self, more: u64) {
        let count = self.count(more);
        self.commit_at(count);
    }

    /// The count after a commit of `more`.
    #[inline]
    fn count(&self, more: u64) -> u64 {
        self.shared.begun.load(Relaxed) + more
    }

    #[inline]
    fn commit_at(self, count: u64) {
        self.shared.begun.store(count, Relaxed); // before COMMITTED
        self.publish();
        self.shared.counted.store(count, Release); // COUNTED
    }

    /// Copies `bytes` to those from `at` on, and commits all of them.
    ///
    /// # Panics
    /// They end after the reservation.
    #[inline(always)]
    pub fn commit_with(mut self, at: usize, bytes: &[u8], more: u64) {
        // Nothing may panic after the copy: the bytes could then be used without a fence.
        let (shared, count) = (self.shared, self.count(more));
        let to = &mut self[at..][..bytes.len()];
        if bytes.len() >= past_caches::LEAST && shared.goes_past_caches.load(Relaxed) {
            shared.went_past_caches.store(true, Relaxed); // before COMMITTED
            // SAFETY: these halves are not frozen, so `Vacant` does not read committed bytes. `Filled` is used up to a length from
            // `snapshot` or `fenced_len`, which fence all threads.
            unsafe { past_caches::copy(bytes, to) };
        } else {
            copy_lines(bytes, to);
        }
        self.commit_at(count);
    }

    /// Commits the bytes to `Filled` without changing the count.
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
        self.shared
            .end
            .store(self.begin.0.wrapping_add(self.len), order); // COMMITTED
    }

    /// Loom's view of an access to all bytes.
    #[inline(always)]
    fn touch(&self, writes: bool) {
        let at = self.shared.len_at(self.begin.0);
        self.shared.touch(at..at + self.len, writes);
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.touch(false);
        // SAFETY: `reserve` or `reserve_below_mark` checked that the `len` bytes from `begin` on are in the region. They are
        // mapped, and zeroed or written before. They are at or above the length, so `Vacant` owns them, which is borrowed
        // mutably as long as the reservation lives.
        unsafe { slice::from_raw_parts(self.begin.0, self.len) }
    }
}

impl DerefMut for Reservation<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.touch(true);
        // SAFETY: as in `deref`, and the exclusive borrow of the reservation makes the slice the only one.
        unsafe { slice::from_raw_parts_mut(self.begin.0, self.len) }
    }
}

/// The half that is filled: all bytes below the length.
pub(crate) struct Filled {
    shared: Arc<Halves>,
}

impl Filled {
    /// Bytes committed so far; there may be more at any time.
    fn committed(&self) -> usize {
        self.shared.len_at(self.shared.end.load(Acquire)) // COMMITTED
    }

    /// A length, and the count at exactly that length. `None`: a commit is in progress, try again.
    pub fn snapshot(&self) -> Option<(usize, u64)> {
        // If the count of commit `k` is visible, the length is that of `k` or of a later commit `j` (COUNTED). If the length of
        // `j` is visible, the count that `j` stored in `begun` is too (COMMITTED). If both counts are equal, they are that of
        // `j`.
        let counted = self.shared.counted.load(Acquire); // COUNTED
        let len = self.committed();
        let begun = self.shared.begun.load(Relaxed); // after COMMITTED
        let is_settled = begun == counted || planted("fill-snapshot-unsettled");
        if is_settled {
            self.shared.fence();
        }
        is_settled.then_some((len, counted))
    }

    /// Committed bytes, up to a length from [`snapshot`](Filled::snapshot) or [`Vacant::fenced_len`].
    ///
    /// # Panics
    /// If not all of `range` is committed.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.committed());
        // SAFETY: the bytes are below the length, so they are ours: only `part_mut` and, after `restart`, `Vacant` change them, and
        // both borrow this half mutably.
        unsafe { self.shared.committed(range) }
    }

    /// Whether committed bytes cannot be changed.
    pub fn is_frozen(&self) -> bool {
        self.shared.is_frozen
    }

    /// The same, mutable.
    ///
    /// # Panics
    /// If not all of `range` is committed, or the halves are frozen.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(!self.shared.is_frozen);
        assert!(range.start <= range.end && range.end <= self.committed());
        self.shared.touch(range.clone(), true);
        // SAFETY: as in `part`. The halves are not frozen, so `Vacant` does not read the bytes. And the exclusive borrow of this
        // half makes the slice the only one.
        unsafe { slice::from_raw_parts_mut(self.shared.place(range.start), range.len()) }
    }

    /// Starts again: `len` bytes are committed, with any contents, and the count is 0.
    ///
    /// # Panics
    /// If `vacant` is the half of another region, or the region is shorter than `len`.
    pub fn restart(&mut self, vacant: &mut Vacant, len: usize) {
        assert!(Arc::ptr_eq(&self.shared, &vacant.shared) && len <= self.shared.size);
        // Relaxed: both halves are here, and handing one to another thread publishes these stores.
        self.shared.end.store(self.shared.place(len), Relaxed);
        self.shared.begun.store(0, Relaxed);
        self.shared.counted.store(0, Relaxed);
        self.shared.went_past_caches.store(false, Relaxed);
    }

    /// Touches the first `len` bytes now: at most one huge page.
    pub fn populate_beginning(&self, len: usize) -> Result<()> {
        match &self.shared.memory {
            Memory::Own(region) => region.populate_beginning(len),
            #[cfg(all(feature = "shared", not(loom)))]
            Memory::Part(_) => Ok(()), // all of it is there
        }
    }

    /// Which huge pages the memory has now.
    pub fn huge_pages(&self) -> HugePages {
        match &self.shared.memory {
            Memory::Own(region) => region.huge_pages(),
            #[cfg(all(feature = "shared", not(loom)))]
            Memory::Part(part) => part.huge_pages(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn vacant(size: usize) -> Vacant {
        let config = MapConfig {
            populate: false,
            huge_pages: false,
        };
        halves(size, &config, false).unwrap().0
    }

    #[test]
    fn below_its_mark_any_length_is_reserved_that_the_region_holds() {
        let mut vacant = vacant(8192);
        assert!(vacant.reserve_below_mark(1).is_none(), "no mark yet");
        vacant.set_mark(4096);
        assert!(vacant.reserve_below_mark(8193).is_none());
        vacant.reserve_below_mark(4095).unwrap().commit(1);
        assert!(vacant.reserve_below_mark(4098).is_none());
        vacant.reserve_below_mark(4097).unwrap().commit(1);
        assert_eq!((vacant.len(), vacant.counted()), (8192, 2));
        assert!(!vacant.is_below_mark() && vacant.reserve_below_mark(0).is_none());
        assert!(vacant.reserve(1).is_none());
    }

    /// Without the fence in `snapshot`, this failed in 7 of 11 runs.
    #[test]
    #[cfg(not(miri))]
    fn records_copied_past_the_caches_are_whole_for_the_thread_that_uses_them() {
        const RECORD: usize = 1516;
        const RECORDS: usize = 2000;
        let config = MapConfig::default();
        let (mut vacant, mut filled) = halves(RECORD * RECORDS, &config, false).unwrap();
        vacant.go_past_caches();
        for round in 1..=20u8 {
            filled.restart(&mut vacant, 0);
            std::thread::scope(|scope| {
                let using = scope.spawn(|| {
                    let mut used = 0;
                    while used < RECORD * RECORDS {
                        let Some((len, _)) = filled.snapshot() else {
                            continue;
                        };
                        // At once, since the newest line is the last to arrive.
                        let new = filled.part(used..len);
                        assert!(new.is_empty() || new[new.len() - crate::memory::LINE] == round);
                        assert!(new.iter().all(|&byte| byte == round));
                        used = len;
                    }
                });
                for _ in 0..RECORDS {
                    let mut record = vacant.reserve(RECORD).unwrap();
                    record[..1].fill(round);
                    record[RECORD - 1] = round;
                    record.commit_with(1, &[round; RECORD - 2], 1);
                }
                using.join().unwrap();
            });
            assert_eq!(
                (vacant.fenced_len(), vacant.counted()),
                (RECORD * RECORDS, RECORDS as u64)
            );
        }
    }

    #[test]
    #[should_panic]
    fn a_mark_needs_room_after_it() {
        vacant(8192).set_mark(4097);
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{model, thread};

    /// Two threads: one commits records of growing length, each with a count of one. The other sees only whole records, with
    /// the count that belongs to the length, and changes them while the next is being filled.
    #[test]
    fn what_is_committed_can_be_used_while_the_next_record_is_filled() {
        model(|| {
            let config = MapConfig {
                populate: false,
                huge_pages: false,
            };
            let (mut vacant, mut filled) = halves(4096, &config, false).unwrap();
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
