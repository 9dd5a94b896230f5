//! The memory that holds the frames: finds a frame's header and message from its position.
//!
//! It owns the mirrored mapping and knows nothing of the protocol: `core` defines which thread may touch which bytes.
//!
//! ```text
//!  mirror:      │ 6 7 │ 3 . . │ 4 5 6 │ 6 7 │ 3 . . │ 4 5 6 │   frame 6…7 begins in the first view and ends in the second
//!  for checkers:│ 7 . │ 3 . . │ 4 5 6 │ 6 7 │ . . . │ . . . │   plain memory of twice the capacity
//! ```
//!
//! Checkers (loom, Miri, ThreadSanitizer) cannot see that two addresses name the same byte. Each access to a frame starts at
//! its header, which lies below the capacity. Plain memory of twice the capacity therefore works for them: a frame that
//! begins in the first half and ends in the second is found at the same address again.
#![allow(unsafe_code)]

use super::frame::{ALIGN, HEADER, largest};
use crate::{
    Result,
    memory::{MapConfig, view_barrier},
    sync::mortal::{AtomicU32, AtomicU64},
};
use std::{ptr::NonNull, slice};

/// The header before a message. The frame's sender writes all three fields before the tail passes the frame. After that
/// only the state changes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Header {
    /// A [`Kind`](super::frame::Kind) and its owner; `core` defines which thread writes it next.
    pub(super) state: AtomicU32,
    /// Bytes of the message.
    pub(super) len: AtomicU32,
    /// Number of the message, counting all reserved messages from 0.
    pub(super) sequence: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == HEADER && align_of::<Header>() == ALIGN);

/// The memory of a queue.
#[derive(Debug)]
pub(super) struct Bytes {
    base: NonNull<u8>,
    capacity: usize,
    /// Length in bytes of the longest message.
    largest: usize,
    /// The mask that turns a position into an aligned offset if the capacity is a power of two; otherwise 0.
    mask: u64,
    #[allow(dead_code)] // held to be dropped
    memory: Memory,
    #[cfg(loom)]
    shadow: Vec<(Header, loom::cell::UnsafeCell<()>)>,
}

#[derive(Debug)]
#[allow(dead_code)] // held to be dropped
enum Memory {
    Own(OwnMemory),
    /// Mapped twice, and shared with other processes.
    #[cfg(not(loom))]
    Shared(crate::sys::Mapping),
}

#[cfg(not(any(loom, miri, forebay_one_view)))]
type OwnMemory = crate::memory::Mirror;
/// Not a `Box`: moving one ends the pointers into it.
#[cfg(any(loom, miri, forebay_one_view))]
type OwnMemory = Vec<std::cell::UnsafeCell<u64>>;

/// See [`Bytes::mask`].
fn mask(capacity: usize) -> u64 {
    match capacity.is_power_of_two() {
        true => (capacity - ALIGN) as u64,
        false => 0,
    }
}

// SAFETY: it is plain memory. Every unsafe method here requires that the caller follows `core` on which bytes it touches.
unsafe impl Send for Bytes {}
// SAFETY: as above; headers are atomics.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Allocates `capacity` bytes, rounded up to whole pages. Checkers get the exact size, because their models are small.
    pub(super) fn new(capacity: usize, config: &MapConfig) -> Result<Bytes> {
        #[cfg(not(any(loom, miri, forebay_one_view)))]
        let (memory, capacity) = {
            let mirror = crate::memory::Mirror::new(capacity, config)?;
            let len = mirror.len();
            (mirror, len)
        };
        #[cfg(any(loom, miri, forebay_one_view))]
        let (memory, capacity): (OwnMemory, usize) = {
            let _ = config;
            let capacity = match cfg!(loom) {
                true => capacity.next_multiple_of(ALIGN),
                false => capacity.next_multiple_of(4096),
            };
            let words = (0..2 * capacity / ALIGN).map(|_| 0.into());
            (words.collect(), capacity)
        };
        #[cfg(not(any(loom, miri, forebay_one_view)))]
        let base = memory.base();
        #[cfg(any(loom, miri, forebay_one_view))]
        let base = NonNull::from(&*memory).cast();
        Ok(Bytes {
            base,
            capacity,
            largest: largest(capacity),
            mask: mask(capacity),
            memory: Memory::Own(memory),
            #[cfg(loom)]
            shadow: (0..capacity / ALIGN).map(|_| Default::default()).collect(),
        })
    }

    /// Uses `capacity` bytes that `mapping` maps twice.
    ///
    /// # Panics
    /// If `mapping` is not twice as long as `capacity`.
    #[cfg(not(loom))]
    pub(super) fn shared(mapping: crate::sys::Mapping, capacity: usize) -> Bytes {
        assert_eq!(mapping.len(), 2 * capacity);
        Bytes {
            base: mapping.start(),
            capacity,
            largest: largest(capacity),
            mask: mask(capacity),
            memory: Memory::Shared(mapping),
        }
    }

    /// Length in bytes of the longest message.
    #[inline(always)]
    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    /// The capacity in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The offset of `position`: a multiple of [`ALIGN`] below the capacity for any `position`, since another process may
    /// have written it.
    #[inline(always)]
    fn offset(&self, position: u64) -> usize {
        // A division would take as long as a large part of the rest of taking a message.
        match self.mask {
            0 => (position % self.capacity as u64) as usize & !(ALIGN - 1),
            mask => (position & mask) as usize,
        }
    }

    /// The header of the frame at `position`.
    ///
    /// # Safety
    /// A frame begins there, or the caller may begin one there: no thread uses these bytes for a message.
    #[inline(always)]
    pub(super) unsafe fn header(&self, position: u64) -> &Header {
        let offset = self.offset(position);
        #[cfg(loom)]
        return &self.shadow[offset / ALIGN].0;
        #[cfg(not(loom))]
        {
            let at = self.base.as_ptr().wrapping_add(offset).cast::<Header>();
            // SAFETY: the address is below the capacity, so the header lies inside the two views. It is 8-aligned for every
            // position, as `offset` and the base are. Any bytes are valid atomics. The caller ensures that no message overlaps.
            unsafe { &*at }
        }
    }

    /// The message of `len` bytes in the frame at `position`, for reading.
    ///
    /// # Safety
    /// `len` is at most [`largest`](Bytes::largest). A frame of that length begins at `position`, and no thread
    /// writes to its message while the slice lives.
    #[inline(always)]
    pub(super) unsafe fn message(&self, position: u64, len: usize) -> &[u8] {
        #[cfg(loom)]
        self.frame_cells(position, len)
            .for_each(|cell| cell.with(|_| ()));
        let at = self.at(position);
        // SAFETY: the slice is inside the two views: it begins in the first one, and the caller promises a length that makes the
        // frame no longer than one view. The memory is initialised (zeroed when made). The caller ensures that no thread writes.
        unsafe { slice::from_raw_parts(at, len) }
    }

    /// The message of `len` bytes in the frame at `position`, for writing.
    ///
    /// # Safety
    /// `len` is at most [`largest`](Bytes::largest). A frame of that length begins at `position`, and no other thread
    /// touches its message while the slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // the caller's promise replaces the borrow
    pub(super) unsafe fn message_mut(&self, position: u64, len: usize) -> &mut [u8] {
        #[cfg(loom)]
        self.frame_cells(position, len)
            .for_each(|cell| cell.with_mut(|_| ()));
        let at = self.at(position);
        // SAFETY: as in `message`, and the caller ensures that no other thread accesses these bytes.
        unsafe { slice::from_raw_parts_mut(at, len) }
    }

    #[inline(always)]
    fn at(&self, position: u64) -> *mut u8 {
        let offset = self.offset(position) + HEADER;
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The loom cells that stand for the frame at `position`: one for each 8 bytes.
    #[cfg(loom)]
    fn frame_cells(
        &self,
        position: u64,
        len: usize,
    ) -> impl Iterator<Item = &loom::cell::UnsafeCell<()>> {
        let first = self.offset(position) / ALIGN;
        let cells = super::frame::span(len) as usize / ALIGN;
        (first..first + cells).map(|cell| &self.shadow[cell % self.shadow.len()].1)
    }

    /// Makes writes through one view visible in the other.
    #[inline(always)]
    pub(super) fn settle(&self) {
        if !cfg!(any(loom, miri)) {
            view_barrier(self.base.as_ptr());
        }
    }
}
