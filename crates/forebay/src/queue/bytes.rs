//! The memory in which frames lie: where a frame's header and its message are, whatever the position.
//!
//! It owns a mirror and knows no protocol: `core` says who may touch what. It imports `memory`, `sync` and `sys`. Read `core`
//! next.
//!
//! ```text
//!  mirror:      │ 6 7 │ 3 . . │ 4 5 6 │ 6 7 │ 3 . . │ 4 5 6 │   frame 6…7 begins in the first view and ends in the second
//!  for checkers:│ 7 . │ 3 . . │ 4 5 6 │ 6 7 │ . . . │ . . . │   plain memory of twice the capacity
//! ```
//!
//! Checkers (loom, miri, ThreadSanitizer) cannot see that two addresses are one byte. Since every access to a frame
//! starts at its header, and that lies below the capacity, plain memory of twice the capacity does for them: a frame
//! that begins in the first half and ends in the second is found again there.
#![allow(unsafe_code)]

use super::frame::{ALIGN, HEADER, largest};
use crate::{
    Result,
    memory::{MapConfig, settle_views},
    sync::mortal::{AtomicU32, AtomicU64},
};
use std::{ptr::NonNull, slice};

/// What stands in front of a message. All three are written by the frame's sender before the tail passes the frame;
/// after that only the state changes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Header {
    /// A [`Kind`](super::frame::Kind); who writes it next is said in `core`.
    pub(super) state: AtomicU32,
    /// Bytes of the message.
    pub(super) len: AtomicU32,
    /// Number of the message among all that were reserved, from 0.
    pub(super) sequence: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == HEADER && align_of::<Header>() == ALIGN);

/// The memory of a queue.
#[derive(Debug)]
pub(super) struct Bytes {
    base: NonNull<u8>,
    capacity: usize,
    /// Bytes of the longest message.
    largest: usize,
    /// Masks a position to an aligned offset, where the capacity is a power of two; else 0.
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
    /// Seen twice, and by other processes.
    #[cfg(not(loom))]
    Shared(crate::sys::Mapping),
}

#[cfg(not(any(loom, miri, forebay_one_view)))]
type OwnMemory = crate::memory::Mirror;
#[cfg(any(loom, miri, forebay_one_view))]
type OwnMemory = Box<[std::cell::UnsafeCell<u64>]>;

/// See [`Bytes::mask`].
fn mask(capacity: usize) -> u64 {
    match capacity.is_power_of_two() {
        true => (capacity - ALIGN) as u64,
        false => 0,
    }
}

// SAFETY: it is memory; who touches which bytes is `core`'s to say, which every unsafe method here asks for.
unsafe impl Send for Bytes {}
// SAFETY: as above; headers are atomics.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Memory of `capacity` bytes, rounded up to whole pages (not for checkers, whose models are small).
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

    /// Memory of `capacity` bytes that `mapping` shows twice.
    ///
    /// # Panics
    /// If it is not twice as long.
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

    /// Bytes of the longest message.
    #[inline(always)]
    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    /// Bytes in all.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// A multiple of [`ALIGN`] below the capacity, whatever the position: it may come from memory that another process
    /// writes.
    #[inline(always)]
    fn offset(&self, position: u64) -> usize {
        // A division takes as long as much of the rest of taking a message.
        match self.mask {
            0 => (position % self.capacity as u64) as usize & !(ALIGN - 1),
            mask => (position & mask) as usize,
        }
    }

    /// The header of the frame at `position`.
    ///
    /// # Safety
    /// A frame begins there, or the caller may begin one there: nobody uses these bytes for a message.
    #[inline(always)]
    pub(super) unsafe fn header(&self, position: u64) -> &Header {
        let offset = self.offset(position);
        #[cfg(loom)]
        return &self.shadow[offset / ALIGN].0;
        #[cfg(not(loom))]
        {
            let at = self.base.as_ptr().wrapping_add(offset).cast::<Header>();
            // SAFETY: below the capacity, so with its header inside the two views; 8-aligned, as `offset` and the base are,
            // for every position; zeroed memory and whatever was written are valid atomics; the caller keeps messages out.
            unsafe { &*at }
        }
    }

    /// The message of `len` bytes in the frame at `position`, to read.
    ///
    /// # Safety
    /// `len` is at most [`largest`](Bytes::largest). A frame of that length begins there, and nobody
    /// writes to its message while the slice lives.
    #[inline(always)]
    pub(super) unsafe fn message(&self, position: u64, len: usize) -> &[u8] {
        #[cfg(loom)]
        self.frame_cells(position, len)
            .for_each(|cell| cell.with(|_| ()));
        let at = self.at(position);
        // SAFETY: inside the two views: it begins in the first one, and the caller promises a length that makes the frame
        // no longer than one view; initialised (zeroed when made); the caller keeps writers out.
        unsafe { slice::from_raw_parts(at, len) }
    }

    /// The message of `len` bytes in the frame at `position`, to write.
    ///
    /// # Safety
    /// `len` is at most [`largest`](Bytes::largest). A frame of that length begins there, and nobody
    /// else touches its message while the slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // the caller's promise stands for the borrow
    pub(super) unsafe fn message_mut(&self, position: u64, len: usize) -> &mut [u8] {
        #[cfg(loom)]
        self.frame_cells(position, len)
            .for_each(|cell| cell.with_mut(|_| ()));
        let at = self.at(position);
        // SAFETY: as in `message`, and the caller keeps everybody else out.
        unsafe { slice::from_raw_parts_mut(at, len) }
    }

    #[inline(always)]
    fn at(&self, position: u64) -> *mut u8 {
        let offset = self.offset(position) + HEADER;
        self.base.as_ptr().wrapping_add(offset)
    }

    /// What loom watches for the message of the frame at `position`: a cell for each 8 bytes of its frame.
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

    /// The point at which writes through one view show in the other.
    #[inline(always)]
    pub(super) fn settle(&self) {
        if !cfg!(any(loom, miri)) {
            settle_views(self.base.as_ptr());
        }
    }
}
