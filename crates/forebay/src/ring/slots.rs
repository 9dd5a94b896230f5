//! The memory of a ring: where the slots are, and how many of them are contiguous.
//!
//! On the machine the memory is a mirror, so all slots are contiguous from any position. Checkers cannot see that two views
//! are one memory (loom, miri and ThreadSanitizer compare addresses). For them it is plain heap memory, in which a burst ends
//! at the seam.
//!
//! ```text
//!  mirror:    │ 3 4 5 . . 0 1 2 │ 3 4 5 . . 0 1 2 │   a slice of 0…5 from the first view into the second
//!                         └─────────────┘
//!  one view:  │ 3 4 5 . . 0 1 2 │                     0…2, and then 3…5 in the next burst
//! ```
//!
//! Each end keeps an address beside its free-running position. The address is moved back by the memory's size once it has
//! passed the seam. The capacity is therefore exact for any size of element, and with the mirror an element may even cross the
//! seam. A consumer moves back only when it loads the producer's position: the slots it knows of by then are at most one
//! capacity, so they end in the second view. A producer moves back as it advances. For single elements whose size divides a
//! cache line, it checks for the seam only at the end of a line, where it also prefetches.
#![allow(unsafe_code)]

use crate::{
    Result,
    memory::{HugePages, LINE, MapConfig, cold_path, evict, fetch_to_write, view_barrier},
};
use std::{marker::PhantomData, ops::Range, ptr::NonNull};

/// Whether bursts end at the seam, because there is no second view.
pub(crate) const ONE_VIEW: bool = cfg!(any(loom, miri, forebay_one_view));

/// Whether lines are prefetched for writing: on machines that have an instruction for it, but not for checkers.
const PREFETCHES: bool = cfg!(target_arch = "x86_64") && !ONE_VIEW;

/// The slots of a ring. Owns the memory, never the elements.
#[derive(Debug)]
pub(super) struct Slots<T> {
    base: NonNull<u8>,
    /// The offset at which the second view begins: a multiple of the alignment of `T`; 0 for zero-sized elements.
    seam_bytes: usize,
    #[cfg_attr(any(loom, miri, forebay_one_view), allow(dead_code))] // held only to be dropped
    memory: SlotMemory<T>,
    #[cfg(loom)]
    shadow: Vec<loom::cell::UnsafeCell<()>>,
}

#[cfg(not(any(loom, miri, forebay_one_view)))]
type SlotMemory<T> = (Option<crate::memory::Mirror>, PhantomData<T>);
#[cfg(any(loom, miri, forebay_one_view))]
type SlotMemory<T> = (Option<HeapMemory<T>>, PhantomData<T>);

impl<T> Slots<T> {
    pub(super) fn new(capacity: usize, config: &MapConfig) -> Result<Self> {
        const {
            assert!(
                align_of::<T>() <= 4096,
                "elements of a ring are aligned to at most 4096 bytes"
            )
        };
        let bytes = capacity
            .checked_mul(size_of::<T>())
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| {
                let tried = format!(
                    "making room for {capacity} elements of {} bytes",
                    size_of::<T>()
                );
                crate::Error::invalid("ring", tried)
                    .advise("Ask for a smaller capacity: no address space is that large")
            })?;
        let (base, seam_bytes, memory) = match bytes {
            0 => (NonNull::<T>::dangling().cast(), 0, None),
            bytes => Self::map(capacity, bytes, config)?,
        };
        Ok(Slots {
            base,
            seam_bytes,
            memory: (memory, PhantomData),
            #[cfg(loom)]
            shadow: (0..capacity)
                .map(|_| loom::cell::UnsafeCell::new(()))
                .collect(),
        })
    }

    #[cfg(not(any(loom, miri, forebay_one_view)))]
    #[allow(clippy::type_complexity)]
    fn map(
        _capacity: usize,
        bytes: usize,
        config: &MapConfig,
    ) -> Result<(NonNull<u8>, usize, Option<crate::memory::Mirror>)> {
        let mirror = crate::memory::Mirror::new(bytes, config)?;
        Ok((mirror.base(), mirror.len(), Some(mirror)))
    }

    #[cfg(any(loom, miri, forebay_one_view))]
    #[allow(clippy::type_complexity)]
    fn map(
        capacity: usize,
        bytes: usize,
        _config: &MapConfig,
    ) -> Result<(NonNull<u8>, usize, Option<HeapMemory<T>>)> {
        let heap = HeapMemory::new(capacity);
        Ok((heap.base.cast(), bytes, Some(heap)))
    }

    /// Faults in the pages of these bytes, if that was not done at creation.
    pub(super) fn populate(&self, _bytes: Range<usize>) -> Result<()> {
        #[cfg(not(any(loom, miri, forebay_one_view)))]
        if let Some(mirror) = &self.memory.0 {
            return mirror.populate(_bytes);
        }
        Ok(())
    }

    pub(super) fn huge_pages(&self) -> HugePages {
        #[cfg(not(any(loom, miri, forebay_one_view)))]
        return self
            .memory
            .0
            .as_ref()
            .map_or(HugePages::NotAsked, |mirror| mirror.huge_pages());
        #[cfg(any(loom, miri, forebay_one_view))]
        return HugePages::NotAsked;
    }

    /// The place of the slot at `offset` bytes (the offset of an earlier place, or 0), in the first view.
    pub(super) fn place(&self, offset: usize) -> Place<T> {
        let base = self.base.as_ptr();
        let mut place = Place {
            at: base.wrapping_add(offset),
            seam: base.wrapping_add(self.seam_bytes),
            seam_bytes: self.seam_bytes,
            element: PhantomData,
        };
        place.rewind_to_first_view();
        place
    }

    /// The place of the slot at `position`, in the first view.
    #[cfg(not(any(loom, miri, forebay_one_view)))]
    pub(super) fn place_of(&self, position: usize) -> Place<T> {
        let bytes = position.wrapping_mul(size_of::<T>());
        self.place(bytes.checked_rem(self.seam_bytes).unwrap_or(0))
    }

    /// The point at which accesses through one view are ordered before later ones through the other: see [`Place::settle`].
    pub(super) fn settle(&self) {
        if !ONE_VIEW {
            view_barrier(self.base.as_ptr());
        }
    }

    /// Reports to a checker that slots `position..position + n` are about to be written or moved out of.
    #[inline(always)]
    pub(super) fn will_write(&self, _position: usize, _n: usize) {
        #[cfg(loom)]
        for position in _position.._position + _n {
            self.shadow[position % self.shadow.len()].with_mut(|_| ());
        }
    }

    /// Reports to a checker that slots `position..position + n` are about to be read.
    #[inline(always)]
    pub(super) fn will_read(&self, _position: usize, _n: usize) {
        #[cfg(loom)]
        for position in _position.._position + _n {
            self.shadow[position % self.shadow.len()].with(|_| ());
        }
    }
}

/// The address at which an end stands. It borrows nothing: its owner keeps the [`Slots`] alive.
#[derive(Debug)]
pub(super) struct Place<T> {
    /// In the first view, below the seam (at the seam for zero-sized elements); in the second view only after
    /// [`advance_unwrapped`](Place::advance_unwrapped).
    at: *mut u8,
    /// Where the second view begins.
    seam: *mut u8,
    seam_bytes: usize,
    element: PhantomData<*mut T>,
}

impl<T> Place<T> {
    const BYTES: usize = size_of::<T>();

    /// The slot here. It is aligned: offsets are multiples of the element's size less multiples of the seam, and the seam is a
    /// multiple of the element's alignment.
    #[inline(always)]
    pub(super) fn slot(&self) -> *mut T {
        self.at.cast()
    }

    /// Bytes from the start of the memory (0 for zero-sized elements). Those of the second view follow those of the first.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.at.addr() - (self.seam.addr() - self.seam_bytes)
    }

    /// The address here, and where the second view begins, and their distance at the start of the memory.
    #[cfg(not(any(loom, miri, forebay_one_view)))]
    pub(super) fn bounds(&self) -> (*mut u8, *mut u8, usize) {
        (self.at, self.seam, self.seam_bytes)
    }

    #[inline(always)]
    fn before_seam(&self) -> usize {
        self.seam.addr() - self.at.addr()
    }

    /// The address as numbers; call it in the first view.
    #[inline]
    pub(super) fn address(&self) -> Address {
        let seam = self.seam.addr();
        debug_assert!(self.at.addr() < seam || Self::BYTES == 0);
        Address {
            at: self.at.addr(),
            base: seam - self.seam_bytes,
            seam,
        }
    }

    /// How many of the `n` slots from here are contiguous.
    #[inline(always)]
    pub(super) fn run(&self, n: usize) -> usize {
        if ONE_VIEW && Self::BYTES > 0 {
            n.min(self.before_seam() / Self::BYTES)
        } else {
            n
        }
    }

    /// Advances by `n` slots; `n` is at most the capacity.
    #[inline(always)]
    pub(super) fn advance(&mut self, n: usize) {
        self.at = self.at.wrapping_add(n * Self::BYTES);
        if self.at >= self.seam {
            cold_path();
            self.at = self.at.wrapping_sub(self.seam_bytes);
        }
    }

    /// Advances by `n` slots, into the second view if they extend there. With one view it is [`advance`](Place::advance).
    ///
    /// For an end that [comes back](Place::rewind_to_first_view) before it learns of more slots. The slots that it may pass are then never
    /// more than the capacity, counted from the first view, so all are within the memory.
    #[inline(always)]
    pub(super) fn advance_unwrapped(&mut self, n: usize) {
        if ONE_VIEW {
            return self.advance(n);
        }
        self.at = self.at.wrapping_add(n * Self::BYTES);
        debug_assert!(self.at.addr() <= self.seam.addr() + self.seam_bytes);
    }

    /// Returns to the first view.
    #[inline(always)]
    pub(super) fn rewind_to_first_view(&mut self) {
        self.advance(0);
    }

    /// The point at which writes through one view become visible in the other.
    #[inline(always)]
    pub(super) fn settle(&self) {
        if !ONE_VIEW {
            view_barrier(self.at);
        }
    }

    /// Prefetches for writing: for each line that the `n` slots from here enter, the line 16 cache lines after it.
    ///
    /// Those lines are in the cache of the other core, which has read them. Requested now, they have arrived when we get there.
    #[inline(always)]
    pub(super) fn prefetch(&self, n: usize) {
        // More would exceed the requests that a core can have in flight.
        const MAX_LINES: usize = 16;
        if !PREFETCHES || Self::BYTES <= 1 {
            return; // bytes come in long runs, which the processor itself recognises
        }
        let into_line = self.at.addr() % LINE;
        let lines = (into_line + n * Self::BYTES).div_ceil(LINE) - into_line.div_ceil(LINE);
        for line in 0..lines.min(MAX_LINES) {
            self.prefetch_ahead(line * LINE);
        }
    }

    /// Advances by one slot, and prefetches the line 16 cache lines ahead for writing if the new place is at the start of a line.
    /// (A burst that ends there does not: at worst a line is requested twice, or not at all.)
    #[inline(always)]
    pub(super) fn advance_one(&mut self) {
        if !PREFETCHES || Self::BYTES == 0 || !LINE.is_multiple_of(Self::BYTES) {
            self.prefetch(1);
            return self.advance(1);
        }
        // Elements of this size end where a line ends, and a mirror does too.
        self.at = self.at.wrapping_add(Self::BYTES);
        if self.at.addr().is_multiple_of(LINE) {
            if self.at == self.seam {
                cold_path();
                self.at = self.at.wrapping_sub(self.seam_bytes);
            }
            self.prefetch_ahead(0);
        }
    }

    #[inline(always)]
    fn prefetch_ahead(&self, bytes: usize) {
        const AHEAD: usize = 16 * LINE;
        let mut line = self.at.wrapping_add(AHEAD + bytes);
        if line >= self.seam {
            line = line.wrapping_sub(self.seam_bytes);
        }
        fetch_to_write(line);
    }
}

/// The address of an end's place as numbers: a value, see docs/performance-notes.md.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    at: usize,
    /// Start and end of the first view.
    base: usize,
    seam: usize,
}

impl Address {
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Evicts the lines from `from`, an address in the first view, up to the line where the end stands; returns the start of that
    /// line.
    pub(super) fn evict_since(self, mut from: usize) -> usize {
        if self.at < from {
            // SAFETY: the rest of the first view, which the end keeps mapped; it has checked `can_evict`.
            unsafe { evict(from, self.seam) };
            from = self.base;
        }
        // SAFETY: as above: the lines before the end's place.
        unsafe { evict(from, self.at) }
    }
}

/// Plain memory for `capacity` elements, for checkers; zeroed, as a mirror is.
#[cfg(any(loom, miri, forebay_one_view))]
#[derive(Debug)]
struct HeapMemory<T> {
    base: NonNull<T>,
    layout: std::alloc::Layout,
}

#[cfg(any(loom, miri, forebay_one_view))]
impl<T> HeapMemory<T> {
    fn new(capacity: usize) -> Self {
        let layout = std::alloc::Layout::array::<T>(capacity).expect("checked by the caller");
        // SAFETY: the caller asks for at least one byte.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base =
            NonNull::new(base.cast()).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        HeapMemory { base, layout }
    }
}

#[cfg(any(loom, miri, forebay_one_view))]
impl<T> Drop for HeapMemory<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and dropped once.
        unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), self.layout) }
    }
}

#[cfg(all(test, not(any(loom, miri, forebay_one_view))))]
mod tests {
    use super::*;

    #[test]
    fn lines_are_evicted_up_to_the_one_where_the_end_stands_and_around_the_seam() {
        if !crate::memory::can_evict() {
            return eprintln!("skipped: needs a processor with CLFLUSHOPT");
        }
        let slots = Slots::<u64>::new(512, &MapConfig::default()).unwrap();
        let mut place = slots.place(0);
        for number in 0..512 {
            // SAFETY: a slot that nothing else uses.
            unsafe { place.slot().write(number) };
            place.advance(1);
        }
        let base = place.address().base;
        let mut from = base;
        for (at, line) in [
            (0, 0),
            (56, 0),
            (64, 64),
            (304, 256),
            (4088, 4032),
            (8, 0),
            (4000, 3968),
            (136, 128),
        ] {
            from = slots.place(at).address().evict_since(from);
            assert_eq!(from - base, line);
        }
        for number in 0..512 {
            let slot = slots.place(8 * number).slot();
            // SAFETY: each slot was written.
            let written = unsafe { slot.read() };
            assert_eq!(written, number as u64);
        }
    }
}
