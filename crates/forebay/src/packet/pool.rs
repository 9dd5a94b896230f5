//! The pool's owner: it hands out slots, and collects the ones that return.
//!
//! One thread at a time owns it; packets may be dropped on any thread. Free slots are a stack, so the slot that returned
//! last, which is still in the cache, goes out first.
//!
//! ```text
//!   take ◀── │ last │ ◀── put_back
//!            │ free: a stack of numbers │
//!                 ▲ every 16th: this thread's own chain, and a block of what has
//!                 │
//!            arrived ──▶ │ block │ ──▶ │ block │ ◀── all that returned, taken with one swap when no block is left
//! ```
//!
//! The top of the stack is a separate field, `last`: see docs/performance-notes.md.
#![allow(unsafe_code)]

use super::{
    Packet, PoolConfig, local_cache,
    remote_free::NONE,
    shared::{PoolMemory, PoolRef},
    slots::Slots,
};
use crate::{Result, error::coded, memory::HugePages, sync::Arc};
use std::{fmt, mem, ptr::NonNull, time::Duration};

/// Slots to take between two collections of returned slots: the slots of a block.
const COLLECT_EVERY: usize = 16;

/// Counts of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// All slots.
    pub slots: u32,
    /// Slots that can be taken now.
    pub free: u32,
    /// Slots elsewhere: in packets, in rings, or on their way back.
    pub away: u32,
    /// The largest value that `away` has had.
    pub max_away: u32,
    /// Packets that were asked for while no slot was free.
    pub exhausted: u64,
}

/// Slots that had not returned when their pool ended: leaked ([`std::mem::forget`]), or still in use.
///
/// Packets still in use stay valid until they are dropped; the memory stays until the last one is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaks {
    /// Their numbers, in ascending order; not empty.
    pub slots: Vec<u32>,
}

coded!([] Leaks, "packet pool", {
    Leaks { slots } => Code::Busy, "{} packets were still in use when their pool ended, the first in slot {}",
        slots.len(), slots.first().copied().unwrap_or(0);
});

/// A packet that was given to a pool other than its own. It is unharmed.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongPool<T>(pub T);

coded!([T: fmt::Debug] WrongPool<T>, "packet pool", {
    WrongPool(_) => Code::Invalid, "a packet of another pool";
});

/// A bounded number of slots for packets, in one piece of memory.
///
/// The pool has one owner at a time: it is `Send`, and taking needs `&mut`. Several allocating threads have a pool
/// each, or one in a `Mutex`. Packets may be dropped on any thread, also after the pool. A thread that drops them
/// keeps a few slots until it calls [`return_idle`](super::return_idle), whose documentation states how many.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig};
/// let mut pool = Pool::new(&PoolConfig { slots: 100, ..PoolConfig::default() })?;
/// let mut burst = Vec::new();
/// assert_eq!(pool.take_burst(64, &mut burst), 64);
/// assert_eq!(pool.take_burst(64, &mut burst), 36); // up to as many
/// assert!(pool.take().is_none()); // an answer
/// assert_eq!(pool.counts().exhausted, 29);
/// burst.clear();
/// assert_eq!(pool.refill(), 100);
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Pool {
    pub(super) shared: Arc<PoolMemory>,
    /// The slot put back last, above the stack, or NONE.
    last: u32,
    /// Slots that we own: the first `free` entries, and `last`; there is room for all slots.
    stack: Box<[u32]>,
    free: usize,
    /// The slot of the first returned block that is not read yet, or NONE.
    arrived: u32,
    /// Returned slots are collected when this many or fewer are free.
    collect_at: usize,
    /// Number of free slots after the last collection that found enough.
    free_after: usize,
    /// The smallest value that `free` has had while `last` was empty.
    min_free: usize,
    exhausted: u64,
    ended: bool,
}

impl Pool {
    /// Makes a pool.
    ///
    /// # Errors
    /// A number outside its range; no memory, see [`Region::new`](crate::memory::Region::new); or 256 pools exist already,
    /// ended ones with packets still in use included.
    pub fn new(config: &PoolConfig) -> Result<Pool> {
        Ok(Pool {
            shared: PoolMemory::begin(config)?,
            last: NONE,
            // The lowest number is on top.
            stack: (0..config.slots).rev().collect(),
            free: config.slots as usize,
            arrived: NONE,
            collect_at: config.slots as usize - 1,
            free_after: config.slots as usize,
            min_free: config.slots as usize,
            exhausted: 0,
            ended: false,
        })
    }

    /// An empty packet with the pool's headroom; `None` if no slot is free, which is counted.
    #[inline(always)] // see docs/performance-notes.md
    pub fn take(&mut self) -> Option<Packet> {
        let slot = match mem::replace(&mut self.last, NONE) {
            NONE => self.pop()?,
            last => last,
        };
        // SAFETY: the slot that left the stack belongs to the packet.
        let pool = unsafe { PoolRef::new(&self.shared) };
        // SAFETY: a slot on the stack belongs to the pool alone, and it left the stack.
        Some(unsafe { Packet::fresh(pool, slot) })
    }

    /// Like [`take`](Pool::take), but if no slot is free, waits until another thread returns one.
    ///
    /// It wakes up when a thread returns what it has gathered: after up to 32 drops, in [`return_idle`](super::return_idle), and
    /// at its end. So a thread that drops packets and then waits for something else should call `return_idle` first. If the
    /// calling thread itself holds all packets, this waits forever. The wait counts once as [`exhausted`](PoolCounts::exhausted).
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig { slots: 1, ..PoolConfig::default() })?;
    /// let packet = pool.take().unwrap();
    /// std::thread::spawn(move || drop(packet));
    /// assert!(pool.take_wait().is_empty());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn take_wait(&mut self) -> Packet {
        loop {
            if let Some(packet) = self.take().or_else(|| self.wait(None)) {
                return packet;
            }
        }
    }

    /// Like [`take_wait`](Pool::take_wait), for at most `timeout`; `None` if no slot was returned in that time.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// use std::time::Duration;
    /// let mut pool = Pool::new(&PoolConfig { slots: 1, ..PoolConfig::default() })?;
    /// let _packet = pool.take().unwrap();
    /// assert!(pool.take_timeout(Duration::from_millis(1)).is_none());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn take_timeout(&mut self, timeout: Duration) -> Option<Packet> {
        self.take().or_else(|| self.wait(Some(timeout)))
    }

    #[cold]
    fn wait(&mut self, limit: Option<Duration>) -> Option<Packet> {
        let shared = self.shared.clone();
        let has_slot = shared.returns.wait(limit, &mut || self.refill() > 0);
        has_slot.then(|| self.take()).flatten()
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<u32> {
        if self.free <= self.collect_at {
            self.collect(1);
            if self.free == 0 {
                self.exhausted = self.exhausted.saturating_add(1);
                return None;
            }
        }
        self.free -= 1;
        if self.free < self.min_free {
            self.min_free = self.free;
        }
        Some(self.stack[self.free])
    }

    #[inline(always)]
    fn push(&mut self, slot: u32) {
        self.stack[self.free] = slot; // there is room for all slots
        self.free += 1;
    }

    /// Moves the slot that was put back last onto the stack.
    #[inline(always)]
    fn push_last(&mut self) {
        let last = mem::replace(&mut self.last, NONE);
        if last != NONE {
            self.push(last);
        }
    }

    /// Collects returned slots, a block at a time, until `wanted` slots are free, and more than after the last collection. So
    /// returned slots are used again before others, and few are in use. It runs long before the stack is empty: a block
    /// is prefetched at one call and read at the next, when its cache line has arrived from the other core.
    #[cold]
    #[inline(never)]
    pub(super) fn collect(&mut self, wanted: usize) {
        let returns = &self.shared.returns;
        let own = local_cache::take_own(&self.shared);
        returns.unlink(own, |slot| {
            take_back(&self.shared, &mut self.stack, &mut self.free, slot);
        });
        loop {
            if self.arrived == NONE {
                self.arrived = returns.take_all();
                if self.arrived == NONE {
                    self.free_after = self.free; // all returned slots have been collected
                    break;
                }
                if self.free >= wanted {
                    break; // the next call reads it
                }
            }
            self.arrived = returns.unroll(self.arrived, |slot| {
                take_back(&self.shared, &mut self.stack, &mut self.free, slot);
            });
            if self.free >= wanted && self.free > self.free_after {
                self.free_after = self.free;
                break;
            }
        }
        self.collect_at = self.free.saturating_sub(COLLECT_EVERY);
    }

    /// Takes up to `n` empty packets into a `Vec` or anything else that can be extended; returns how many.
    #[inline]
    pub fn take_burst(&mut self, n: usize, target: &mut impl Extend<Packet>) -> usize {
        self.push_last();
        if self.free < n.saturating_add(self.collect_at) {
            self.collect(n);
        }
        let before = self.free;
        self.exhausted = self
            .exhausted
            .saturating_add(n.saturating_sub(before) as u64);
        let leaving = Leaving {
            free: &mut self.free,
            min_free: &mut self.min_free,
        };
        let stack = &self.stack;
        // SAFETY: used only for slots that left the stack.
        let pool = unsafe { PoolRef::new(&self.shared) };
        // A slot leaves the stack only when the target takes its packet, so none is lost in between.
        target.extend((0..n.min(before)).map(|_| {
            *leaving.free -= 1;
            // SAFETY: a slot on the stack belongs to the pool alone, and it left the stack.
            unsafe { Packet::fresh(pool, stack[*leaving.free]) }
        }));
        drop(leaving);
        before - self.free
    }

    /// Takes up to `n` free slots as a block, at most [`Slots::MAX`], for code that fills slots and does not need packets yet. Their
    /// numbers are copied at once.
    #[inline]
    pub fn take_slots(&mut self, n: usize) -> Slots {
        let n = n.min(Slots::MAX);
        self.push_last();
        if self.free < n.saturating_add(self.collect_at) {
            self.collect(n);
        }
        let taken = n.min(self.free);
        self.exhausted = self.exhausted.saturating_add((n - taken) as u64);
        let before = self.free;
        self.free -= taken;
        self.min_free = self.min_free.min(self.free);
        // SAFETY: used as long as the block has slots, which left the stack.
        let pool = unsafe { PoolRef::new(&self.shared) };
        // SAFETY: slots on the stack belong to the pool alone, and these left the stack.
        unsafe { Slots::owning(pool, &self.stack[self.free..before]) }
    }

    /// Puts a block of slots onto the stack.
    ///
    /// # Errors
    /// The slots are of another pool; they are returned.
    #[inline]
    #[allow(clippy::result_large_err)] // the error returns the slots
    pub fn put_back_slots(&mut self, slots: Slots) -> std::result::Result<(), WrongPool<Slots>> {
        if !slots.are_of(&self.shared) {
            return Err(WrongPool(slots));
        }
        self.push_last();
        let (numbers, len) = slots.into_numbers();
        let above = &mut self.stack[self.free..]; // there is room for all slots
        match above.first_chunk_mut() {
            // A copy of known length, without a call. What is beyond `len` lies above the top of the stack and is not used.
            Some(block) => *block = numbers,
            None => above[..len].copy_from_slice(&numbers[..len]),
        }
        self.free += len;
        Ok(())
    }

    /// Puts a packet's slot onto the stack at once: faster than dropping the packet.
    ///
    /// # Errors
    /// The packet is of another pool; it is returned.
    #[inline(always)] // see docs/performance-notes.md
    pub fn put_back(&mut self, mut packet: Packet) -> std::result::Result<(), WrongPool<Packet>> {
        if !packet.pool.is(&self.shared) {
            return Err(WrongPool(packet));
        }
        // A shared or chained packet is dropped in the ordinary way.
        if packet.is_one_slot() {
            let before = mem::replace(&mut self.last, packet.into_slot());
            if before != NONE {
                self.push(before);
            }
        }
        Ok(())
    }

    /// Collects all returned slots, and those that this thread has gathered; returns how many slots are free now.
    ///
    /// [`take`](Pool::take) does that when needed.
    pub fn refill(&mut self) -> usize {
        self.push_last();
        let mut put = |slot| take_back(&self.shared, &mut self.stack, &mut self.free, slot);
        let returns = &self.shared.returns;
        returns.unlink(local_cache::take_own(&self.shared), &mut put);
        returns.walk(mem::replace(&mut self.arrived, NONE), &mut put);
        returns.walk(returns.take_all(), put);
        self.free
    }

    /// Counts of the pool.
    pub fn counts(&self) -> PoolCounts {
        let slots = self.shared.slots;
        let free = self.free as u32 + u32::from(self.last != NONE);
        PoolCounts {
            slots,
            free,
            away: slots - free,
            max_away: slots - self.min_free as u32,
            exhausted: self.exhausted,
        }
    }

    /// The pool's number, 0 to 255, which its descriptors carry.
    pub fn number(&self) -> u8 {
        self.shared.number
    }

    /// The address and length of the memory of all slots, for a kernel interface that reads packets there, such as AF_XDP. Slot 0
    /// is at the beginning, which is the beginning of a page. The memory lives as long as the pool or a packet of it.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig::default())?;
    /// let (start, len) = pool.memory();
    /// let packet = pool.take().unwrap();
    /// let at = packet.as_slice().as_ptr().addr() - start.addr().get();
    /// assert!(at < len && at % 2048 == 128); // after the headroom
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        let shared = &self.shared;
        (
            shared.region.base(),
            shared.slots as usize * shared.slot_bytes as usize,
        )
    }

    /// The huge pages that it has now. Reads `/proc/self/smaps`: not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        self.shared.region.huge_pages()
    }

    /// Ends the pool, and returns the slots that are still in use: `None` is normal if all packets were dropped, and the threads
    /// that dropped them have ended or called [`return_idle`](super::return_idle).
    ///
    /// Dropping the pool does the same and reports nothing.
    ///
    /// ```
    /// use forebay::packet::{Pool, PoolConfig};
    /// let mut pool = Pool::new(&PoolConfig::default())?;
    /// let packet = pool.take().unwrap();
    /// assert_eq!(pool.close().unwrap().slots, [0]);
    /// assert!(packet.is_empty()); // it is still good
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn close(mut self) -> Option<Leaks> {
        let out = self.end();
        if out == 0 {
            return None;
        }
        let free = &mut self.stack[..self.free];
        free.sort_unstable();
        // The gaps in a row of ascending numbers.
        let mut free = free.iter().copied().peekable();
        let mut slots = Vec::with_capacity(out);
        slots.extend((0..self.shared.slots).filter(|slot| free.next_if_eq(slot).is_none()));
        Some(Leaks { slots })
    }

    /// Ends the pool. Free slots stay on the stack. Returns the number of slots still in use.
    fn end(&mut self) -> usize {
        self.ended = true;
        self.refill();
        self.shared.returns.close(|slot| {
            take_back(&self.shared, &mut self.stack, &mut self.free, slot);
        });
        let out = self.shared.slots as usize - self.free;
        if self.shared.returns.expect(out) {
            // SAFETY: `expect` returns it to one caller only.
            unsafe { self.shared.end() };
        }
        out
    }
}

/// Puts a slot that another thread may have used onto the stack, and prefetches the line where its next packet begins: it will
/// probably be written soon, and the line takes long to come from another core.
#[inline(always)]
fn take_back(shared: &PoolMemory, stack: &mut [u32], free: &mut usize, slot: u32) {
    stack[*free] = slot; // there is room for all slots
    *free += 1;
    shared.fetch(slot);
}

/// A burst of slots that leave the stack. Its `Drop` records how few slots are left, also if the target panics.
struct Leaving<'a> {
    free: &'a mut usize,
    min_free: &'a mut usize,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.min_free = (*self.min_free).min(*self.free);
    }
}

debug!([] Pool, |this| number: this.number(), slot_bytes: this.shared.slot_bytes, headroom: this.shared.headroom, counts: this.counts());

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}
