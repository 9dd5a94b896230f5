//! Free slots by the block: up to 32 numbers, which are copied at once, of slots that are not packets yet.
//!
//! Whoever fills many slots, or hands them to a card, needs neither headroom nor lengths for them: numbers do, and moving 32 of
//! them is two cache lines. A slot becomes a packet when it is wanted. Imports its parent's `shared` and `chains`. Read `pool`
//! next, which they are taken from.
//!
//! ```text
//!  Pool   │ … free: a stack of numbers │ 7 │ 3 │ 9 │ ──take_slots──▶ Slots │ 7 │ 3 │ 9 │ ──pop──▶ Packet in slot 9
//!                                        ▲                               │
//!                                        └───────put_back_slots──────────┘
//! ```
#![allow(unsafe_code)]

use super::{
    Packet, chains,
    returns::NONE,
    shared::{PoolRef, Shared},
};
use std::{fmt, mem, slice};

/// Up to [`MOST`](Slots::MOST) free slots of one pool, owned. Those that are left when it is dropped go home.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig, Slots};
/// let mut pool = Pool::new(&PoolConfig::default())?;
/// let mut slots = pool.take_slots(Slots::MOST);
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
    /// The first `len` of them are ours; the others mean nothing.
    numbers: [u32; Slots::MOST],
    /// 0 to 32.
    len: usize,
}

impl Slots {
    /// The most slots of a block.
    pub const MOST: usize = 32;

    /// So many slots.
    ///
    /// # Safety
    /// The caller owns the slots of `pool` that `numbers` are, at most 32, and from here on the block does.
    #[inline(always)]
    pub(super) unsafe fn owning(pool: PoolRef, numbers: &[u32]) -> Slots {
        let len = numbers.len();
        let numbers = match numbers.try_into() {
            Ok(whole) => whole, // a copy of known length, without a call
            Err(_) => std::array::from_fn(|index| numbers.get(index).copied().unwrap_or(NONE)),
        };
        Slots { pool, numbers, len }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Their numbers: 0 to those of the pool, in no order.
    #[inline]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers[..self.len]
    }

    /// All bytes of one of them, which hold whatever was there or has been written; `None` beyond the last one.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig::default())?;
    /// let mut slots = pool.take_slots(2);
    /// slots.bytes_mut(1).unwrap()[..5].copy_from_slice(b"hello");
    /// let reader = std::thread::spawn(move || slots.bytes(1).unwrap()[..5] == *b"hello"); // and they go home
    /// assert!(reader.join().unwrap());
    /// assert_eq!(pool.refill(), 2048);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        let slot = *self.numbers().get(index)?;
        let (start, len) = (self.pool.start(slot), self.pool.slot_bytes as usize);
        // SAFETY: as in `bytes_mut`, and we are borrowed, so nobody writes to them.
        Some(unsafe { slice::from_raw_parts(start.as_ptr(), len) })
    }

    /// All bytes of one of them, which hold whatever was there; `None` beyond the last one.
    #[inline(always)]
    pub fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let slot = *self.numbers().get(index)?;
        let (start, len) = (self.pool.start(slot), self.pool.slot_bytes as usize);
        // SAFETY: the slot is ours alone, since nobody shares what is no packet; its bytes are in the pool's memory, which is
        // there as long as we own a slot, and initialised; we are borrowed exclusively.
        Some(unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// Makes the last one a packet: empty, with the pool's headroom; `None` if none is left.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        let slot = *self.numbers().last()?;
        self.len -= 1;
        // SAFETY: the slot was ours, and is the packet's now.
        Some(unsafe { Packet::fresh(self.pool, slot) })
    }

    /// Whether they are of that pool, or there are none: then the pool that they were of may be gone.
    #[inline(always)]
    pub(super) fn are_of(&self, shared: &Shared) -> bool {
        self.is_empty() || self.pool.is(shared)
    }

    /// Gives them up without bringing them home.
    #[inline(always)]
    pub(super) fn into_numbers(self) -> ([u32; Slots::MOST], usize) {
        let numbers = (self.numbers, self.len);
        mem::forget(self);
        numbers
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // The pool may be gone with the last one.
        for &slot in self.numbers() {
            chains::give(self.pool, slot);
        }
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slots").field(&self.numbers()).finish()
    }
}
