//! The memory of one ring that an AF_XDP socket shares with the kernel: two positions, flags, and slots.
//!
//! ```text
//!  │ producer │ … │ consumer │ flags │ … │ slot 0 │ slot 1 │ … │     offsets: XDP_MMAP_OFFSETS
//! ```
//!
//! The positions belong to an [`End`](forebay::ring::kernel::End), which has their orderings and does not trust the kernel's. Slots hold
//! integers only, so any value that the kernel writes is a valid one. The caller checks what it reads.
#![allow(unsafe_code)]

use crate::sys::{AnyBits, Mapping};
use rustix::net::xdp::XdpRingOffset;
use std::{
    io,
    marker::PhantomData,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// A ring with slots of this type.
#[derive(Debug)]
pub(super) struct Ring<T> {
    memory: Mapping,
    offsets: Offsets,
    capacity: u32,
    slots: PhantomData<T>,
}

/// Where the parts of a ring are in its mapping (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub producer: u64,
    pub consumer: u64,
    pub slots: u64,
    pub flags: u64,
}

impl From<XdpRingOffset> for Offsets {
    fn from(reported: XdpRingOffset) -> Self {
        Offsets {
            producer: reported.producer,
            consumer: reported.consumer,
            slots: reported.desc,
            flags: reported.flags.unwrap_or(u64::MAX), // before Linux 5.4, which `Ring::new` refuses
        }
    }
}

impl<T: AnyBits> Ring<T> {
    /// Maps a ring of this socket, which begins at `page_offset` of its descriptor.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        offsets: Offsets,
        capacity: u32,
        page_offset: u64,
    ) -> io::Result<Self> {
        let len = offsets.slots.saturating_add(Self::slots_bytes(capacity));
        let len = usize::try_from(len).map_err(io::Error::other)?;
        Ring::new(Mapping::at(socket, len, page_offset)?, offsets, capacity)
    }

    fn slots_bytes(capacity: u32) -> u64 {
        u64::from(capacity) * size_of::<T>() as u64
    }

    fn new(memory: Mapping, offsets: Offsets, capacity: u32) -> io::Result<Self> {
        let words = [offsets.producer, offsets.consumer, offsets.flags];
        let fits = |at: u64, bytes: u64, align: usize| {
            let end = at.checked_add(bytes);
            end.is_some_and(|end| end <= memory.len() as u64) && at.is_multiple_of(align as u64)
        };
        let is_whole = words.iter().all(|&at| fits(at, 4, align_of::<AtomicU32>()))
            && fits(offsets.slots, Self::slots_bytes(capacity), align_of::<T>());
        match is_whole {
            true => Ok(Ring {
                memory,
                offsets,
                capacity,
                slots: PhantomData,
            }),
            false => Err(io::Error::other("the kernel reports impossible offsets")),
        }
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        // SAFETY: `new` checked that the word lies within the mapping.
        let word = unsafe { self.memory.base().add(at as usize) };
        // SAFETY: aligned, as `new` checked (the mapping begins at a page); mapped as long as `self` lives. The kernel reads and
        // writes it whole, and we use it only through this atomic.
        unsafe { AtomicU32::from_ptr(word.as_ptr().cast()) }
    }

    /// The position of the side that fills slots.
    pub(super) fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    /// The position of the side that empties slots.
    pub(super) fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel does nothing more with this ring until it is called.
    pub(super) fn needs_wakeup(&self) -> bool {
        // Relaxed: a hint. It is read again at each poll, and no memory depends on it.
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    fn slot(&self, at: usize) -> NonNull<T> {
        assert!(at < self.capacity as usize);
        // SAFETY: `new` checked that the slots lie within the mapping.
        let slots = unsafe { self.memory.base().add(self.offsets.slots as usize) };
        // SAFETY: below the capacity.
        unsafe { slots.cast::<T>().add(at) }
    }

    /// Copies a slot out.
    pub(super) fn read(&self, at: usize) -> T {
        // SAFETY: mapped and aligned; any bytes are a value (AnyBits). Volatile: the other side is outside of this program.
        unsafe { self.slot(at).read_volatile() }
    }

    /// Copies a value into a slot.
    pub(super) fn write(&self, at: usize, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.slot(at).write_volatile(value) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A ring without a kernel.
    pub(in crate::af_xdp) fn ring<T: AnyBits>(capacity: u32) -> Ring<T> {
        let offsets = Offsets {
            producer: 0,
            consumer: 64,
            flags: 128,
            slots: 192,
        };
        Ring::new(Mapping::anonymous(4096).unwrap(), offsets, capacity).unwrap()
    }

    #[test]
    fn offsets_beyond_the_mapping_or_between_words_are_refused() {
        let fine = Offsets {
            producer: 0,
            consumer: 64,
            flags: 128,
            slots: 192,
        };
        let refused = |offsets: Offsets, capacity| {
            let memory = Mapping::anonymous(4096).unwrap();
            Ring::<u64>::new(memory, offsets, capacity).is_err()
        };
        assert!(!refused(fine, 488) && refused(fine, 489));
        for wrong in [2, 4094, u64::MAX] {
            let (mut one, mut two) = (fine, fine);
            one.producer = wrong;
            two.slots = wrong;
            assert!(refused(one, 1) && refused(two, 1));
        }
    }

    #[test]
    fn slots_and_words_are_where_the_offsets_say() {
        let ring = ring::<u64>(8);
        ring.write(7, 77);
        ring.producer().store(1, Ordering::Relaxed);
        assert_eq!((ring.read(7), ring.read(0)), (77, 0));
        assert_eq!(ring.consumer().load(Ordering::Relaxed), 0);
        assert!(!ring.needs_wakeup() && ring.capacity() == 8);
    }
}
