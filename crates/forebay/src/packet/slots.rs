//! Blocks of free slots: up to 32 numbers of slots that are not packets yet.
//!
//! Code that fills many slots, or hands them to a card, needs neither headroom nor lengths: numbers are enough, and 32 of
//! them are two cache lines. A slot becomes a packet when one is needed.
//!
//! ```text
//!  Pool   │ … free: a stack of numbers │ 7 │ 3 │ 9 │ ──take_slots──▶ Slots │ 7 │ 3 │ 9 │ ──pop──▶ Packet in slot 9
//!                                        ▲                               │
//!                                        └───────put_back_slots──────────┘
//! ```
#![allow(unsafe_code)]

use super::{
    Packet, local_cache,
    remote_free::NONE,
    shared::{PoolMemory, PoolRef},
};
use std::{fmt, mem, slice};

/// Up to [`MAX`](Slots::MAX) free slots of one pool, owned. Choose it over [`Packet`]s to fill slots, or to pass them to other
/// code, in blocks: it costs about half of a burst of packets. Slots that are left when it is dropped return to the pool.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig, Slots};
/// let mut pool = Pool::new(&PoolConfig::default())?;
/// let mut slots = pool.take_slots(Slots::MAX);
/// assert_eq!((slots.len(), pool.counts().away), (32, 32));
/// slots.bytes_mut(0).unwrap()[..4].copy_from_slice(b"data"); // all of its 2048 bytes
/// let packet = slots.pop().unwrap(); // one of them becomes a packet: empty, with headroom
/// assert_eq!((packet.len(), packet.headroom(), slots.len()), (0, 128, 31));
/// assert!(pool.put_back_slots(slots).is_ok());
/// assert_eq!(pool.counts().away, 1);
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Slots {
    pool: PoolRef,
    /// The first `len` entries are ours; the others are unused.
    numbers: [u32; Slots::MAX],
    /// 0 to 32.
    len: usize,
}

impl Slots {
    /// The largest number of slots in a block.
    pub const MAX: usize = 32;

    /// A block of these slots.
    ///
    /// # Safety
    /// The caller owns these slots of `pool`, at most 32, and hands them over to the block.
    #[inline(always)]
    pub(super) unsafe fn owning(pool: PoolRef, numbers: &[u32]) -> Slots {
        let len = numbers.len();
        let numbers = match numbers.try_into() {
            Ok(whole) => whole, // a copy of known length, without a call
            Err(_) => std::array::from_fn(|index| numbers.get(index).copied().unwrap_or(NONE)),
        };
        Slots { pool, numbers, len }
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the block is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Numbers of the slots, in no order.
    #[inline]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers[..self.len]
    }

    /// All bytes of a slot: what was there, or has been written; `None` beyond the last slot.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig::default())?;
    /// let mut slots = pool.take_slots(2);
    /// slots.bytes_mut(1).unwrap()[..5].copy_from_slice(b"hello");
    /// let reader = std::thread::spawn(move || slots.bytes(1).unwrap()[..5] == *b"hello"); // dropped there
    /// assert!(reader.join().unwrap());
    /// assert_eq!(pool.refill(), 2048);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        let slot = *self.numbers().get(index)?;
        let (start, len) = (self.pool.start(slot), self.pool.slot_bytes as usize);
        // SAFETY: as in `bytes_mut`; the shared borrow keeps everybody from writing.
        Some(unsafe { slice::from_raw_parts(start.as_ptr(), len) })
    }

    /// All bytes of a slot: what was there before; `None` beyond the last slot.
    #[inline(always)]
    pub fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let slot = *self.numbers().get(index)?;
        let (start, len) = (self.pool.start(slot), self.pool.slot_bytes as usize);
        // SAFETY: the slot is ours alone, since only packets can be shared. Its bytes are in the pool's memory, which exists as
        // long as we own a slot, and they are initialised. The borrow is exclusive.
        Some(unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// Makes the last slot an empty packet with the pool's headroom; `None` if no slot is left.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let slot = *self.numbers().last()?;
        self.len -= 1;
        // SAFETY: the slot was ours, and belongs to the packet now.
        Some(unsafe { Packet::fresh(self.pool, slot) })
    }

    /// Whether the slots are of that pool, or there are none; in that case their pool may have ended.
    #[inline(always)]
    pub(super) fn are_of(&self, shared: &PoolMemory) -> bool {
        self.is_empty() || self.pool.is(shared)
    }

    /// Gives the slots up without returning them.
    #[inline(always)]
    pub(super) fn into_numbers(self) -> ([u32; Slots::MAX], usize) {
        let numbers = (self.numbers, self.len);
        mem::forget(self);
        numbers
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // The last slot may have freed the pool.
        for &slot in self.numbers() {
            local_cache::free(self.pool, slot);
        }
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slots").field(&self.numbers()).finish()
    }
}
