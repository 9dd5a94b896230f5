//! The shared part of a pool: the slots' memory, the facts beside the slots, and the table by which pools are found.
//!
//! It owns the memory and hands out addresses in it; `packet` decides who may touch which byte.
//!
//! ```text
//!  Region     │ slot 0        │ slot 1        │ slot 2        │ …      page-aligned, in one piece: fit to be a UMEM
//!  SlotFacts  │ offset, len, next, wire_more, references │ …            cold: touched when a packet becomes a desc
//!  POOLS      │ 0 ─▶ PoolMemory │ 1 ─▶ PoolMemory │ none │ …                  a desc says a number, this says where
//! ```
//!
//! **Lifetime.** All slots in use share one count of the `Arc`, which the table of pools holds. It is dropped when the pool has
//! ended and its last slot has returned (edge HOME in `remote_free`). So the owner of a slot may follow the pool's address.
#![allow(unsafe_code)]

use super::{
    Desc, PoolConfig,
    references::References,
    remote_free::{Chain, NONE, Returns},
};
use crate::{
    Error, Result,
    error::Code,
    memory::{MapConfig, Region, fetch_to_write},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};
use std::{
    ops::Deref,
    ptr::{self, NonNull},
    // A static cannot hold loom's atomics. No model comes here: models drive `remote_free` and `references`.
    sync::atomic::AtomicPtr,
};

/// Slots that a thread returns or takes together, unless the pool is small.
const MAX_IN_BATCH: u32 = 32;

/// This many threads may each keep part of a batch, and a pool still has slots for the next packets.
const KEEPING_THREADS: u32 = 32;

/// Pools that can exist at the same time: a descriptor has 8 bits for the number.
pub(super) const MAX_POOLS: usize = 256;

/// The address of each pool; null if no pool has that number. Written when a pool is made, and when the last slot of an ended
/// pool returns; read by owners of slots. Relaxed, all: an owner got its slot after the pool was entered and gives it up before
/// the pool leaves, so it sees this entry and no other.
static POOLS: [AtomicPtr<PoolMemory>; MAX_POOLS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_POOLS];

/// A reserved pool number, before the pool is entered; released if making the pool fails.
struct Number(u8);

impl Number {
    fn find() -> Option<Number> {
        let taken = NonNull::dangling().as_ptr();
        // Relaxed: see `POOLS`.
        let find = |entry: &AtomicPtr<PoolMemory>| {
            entry
                .compare_exchange(ptr::null_mut(), taken, Relaxed, Relaxed)
                .is_ok()
        };
        let number = POOLS.iter().position(find)?;
        Some(Number(number as u8))
    }

    fn enter(self, pool: &Arc<PoolMemory>) {
        let entered = Arc::into_raw(pool.clone()).cast_mut();
        POOLS[self.0 as usize].store(entered, Relaxed); // Relaxed: see `POOLS`
        std::mem::forget(self);
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        POOLS[self.0 as usize].store(ptr::null_mut(), Relaxed); // Relaxed: see `POOLS`
    }
}

/// The memory of a pool, and the data beside it.
pub(super) struct PoolMemory {
    base: NonNull<u8>,
    pub(super) number: u8,
    pub(super) slots: u32,
    pub(super) slot_bytes: u32,
    pub(super) headroom: u32,
    /// The place of most packets' data: after the headroom, in one slot.
    pub(super) plain: DataPlace,
    /// Slots that a thread moves at once: 1 to 32, at most 1/32 of all. A thread keeps at most one fewer, so that 32 threads leave
    /// at least 32 slots (or all, in a pool that has fewer).
    pub(super) batch: u32,
    pub(super) returns: Returns,
    facts: Box<[SlotFacts]>,
    pub(super) region: Region,
}

debug!([] PoolMemory, |this| number: this.number, slots: this.slots, slot_bytes: this.slot_bytes);

// SAFETY: the address is of memory that the region owns; the owner of a slot decides about its bytes.
unsafe impl Send for PoolMemory {}
// SAFETY: as above; everything else that changes is atomic.
unsafe impl Sync for PoolMemory {}

/// The rarely used fields of the packet in a slot, 16 bytes. All but `references` are written only by the single owner of the
/// slot, when the packet becomes a descriptor or is shared, and read by the next owner. Relaxed: the descriptor's transfer orders
/// them; between packets that share a slot the edge SHARED does (see `references`).
///
/// Most packets have the same values, and an unchanged value is not stored again. So the line stays in the caches of both sides
/// and does not move for every packet.
///
/// ```text
///  place   │ 0 3 │ next + 1 : 21 │ len : 20 │ offset : 20 │
/// ```
#[derive(Debug)]
pub(super) struct SlotFacts {
    /// Beginning and length of the data in the slot, and the next slot (0: none): a [`DataPlace`].
    place: AtomicU64,
    /// Length on the wire less the length of the data, modulo 2³²: 0 for most packets. In the first further slot of a packet, the
    /// number of the last one.
    wire_more: AtomicU32,
    pub(super) references: References,
}

const _: () = assert!(size_of::<SlotFacts>() == 16 || cfg!(loom));

/// The rarely used fields of one slot, loaded at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cold {
    /// Bytes from the slot's start: 0 to the slot's size, at most 2¹⁹.
    pub(super) offset: u32,
    /// 0 to the slot's size less `offset`; 0 in the only slot of a packet, whose descriptor has it.
    pub(super) len: u32,
    /// Length on the wire less the length of the data, modulo 2³²; for a further slot see `chain`.
    pub(super) wire_more: u32,
    /// The number of a slot, or NONE.
    pub(super) next: u32,
}

/// The place of a packet's data, as one number: see [`SlotFacts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DataPlace(u64);

impl DataPlace {
    #[inline(always)]
    fn of(cold: Cold) -> DataPlace {
        // NONE is all ones, so it becomes 0.
        let next = u64::from(cold.next.wrapping_add(1));
        DataPlace(u64::from(cold.offset) | u64::from(cold.len) << LEN_AT | next << NEXT_AT)
    }

    /// See [`Cold`], like the others.
    #[inline(always)]
    pub(super) fn offset(self) -> u32 {
        (self.0 & PLACE_MASK) as u32
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        (self.0 >> LEN_AT & PLACE_MASK) as u32
    }

    #[inline(always)]
    pub(super) fn next(self) -> u32 {
        ((self.0 >> NEXT_AT) as u32).wrapping_sub(1)
    }
}

const LEN_AT: u32 = 20;
const NEXT_AT: u32 = 40;
const PLACE_MASK: u64 = (1 << 20) - 1;

#[cfg(test)]
thread_local! {
    /// How often this thread has loaded facts: tests use it to check a packet's cost.
    pub(super) static LOADS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl SlotFacts {
    pub(super) fn new() -> SlotFacts {
        SlotFacts {
            place: AtomicU64::new(0),
            wire_more: AtomicU32::new(0),
            references: References::new(),
        }
    }

    #[inline(always)]
    pub(super) fn load(&self) -> Cold {
        let place = self.place();
        Cold {
            offset: place.offset(),
            len: place.len(),
            wire_more: self.wire_more(),
            next: place.next(),
        }
    }

    /// The place of the data.
    #[inline(always)]
    pub(super) fn place(&self) -> DataPlace {
        #[cfg(test)]
        LOADS.set(LOADS.get() + 1);
        DataPlace(self.place.load(Relaxed)) // Relaxed: see `SlotFacts`
    }

    /// See [`Cold`].
    #[inline(always)]
    pub(super) fn wire_more(&self) -> u32 {
        self.wire_more.load(Relaxed) // Relaxed: see `SlotFacts`
    }

    #[inline(always)]
    pub(super) fn store(&self, cold: Cold) {
        let DataPlace(place) = DataPlace::of(cold);
        // Relaxed, all: see `SlotFacts`.
        if self.place.load(Relaxed) != place {
            self.place.store(place, Relaxed);
        }
        if self.wire_more.load(Relaxed) != cold.wire_more {
            self.wire_more.store(cold.wire_more, Relaxed);
        }
    }

    /// Stores the facts of a packet that is about to travel. Returns false, and stores nothing, if other packets share the slot with
    /// other facts.
    #[inline(always)]
    pub(super) fn settle(&self, cold: Cold) -> bool {
        if self.references.is_alone() {
            self.store(cold);
            return true;
        }
        self.load() == cold // SHARED
    }

    /// Adds a reference; the caller holds one to the packet with these facts. Several threads may do so at once for a packet that
    /// they borrow.
    pub(super) fn share(&self, cold: Cold) {
        if self.references.is_alone() {
            self.store(cold);
        }
        self.references.share(); // SHARED
    }
}

impl PoolMemory {
    /// Maps the memory, finds a number, and enters the pool in the table.
    pub(super) fn begin(config: &PoolConfig) -> Result<Arc<PoolMemory>> {
        config.validate()?;
        let bytes = config.slots as usize * config.slot_bytes as usize;
        let region = Region::new(
            bytes,
            &MapConfig {
                populate: config.populate,
                huge_pages: config.huge_pages,
            },
        )?;
        let number = Number::find().ok_or_else(|| {
            Error::coded(
                Code::NoMemory,
                "packet pool",
                format!("making pool {MAX_POOLS} + 1"),
            )
            .advise("Drop a pool and all its packets, or share one between threads")
        })?;
        let shared = Arc::new(PoolMemory {
            base: region.base(),
            number: number.0,
            slots: config.slots,
            slot_bytes: config.slot_bytes,
            headroom: config.headroom,
            plain: DataPlace::of(Cold {
                offset: config.headroom,
                len: 0,
                wire_more: 0,
                next: NONE,
            }),
            batch: (config.slots / KEEPING_THREADS).clamp(1, MAX_IN_BATCH),
            returns: Returns::new(config.slots),
            facts: (0..config.slots).map(|_| SlotFacts::new()).collect(),
            region,
        });
        number.enter(&shared);
        Ok(shared)
    }

    /// Takes the pool out of the table and drops the slots' count.
    ///
    /// # Safety
    /// The pool has ended and all slots have returned (HOME); called once.
    pub(super) unsafe fn end(&self) {
        // Relaxed: see `POOLS`.
        let entered = POOLS[self.number as usize].swap(ptr::null_mut(), Relaxed);
        // SAFETY: entered by `begin`, with `into_raw`, and taken out of the table just now.
        drop(unsafe { Arc::from_raw(entered.cast_const()) });
    }

    #[inline(always)]
    pub(super) fn facts(&self, slot: u32) -> &SlotFacts {
        &self.facts[slot as usize]
    }

    /// The same without checking the number.
    ///
    /// # Safety
    /// `slot` is a slot of this pool, as [`start`](PoolMemory::start) has checked.
    #[inline(always)]
    pub(super) unsafe fn facts_of(&self, slot: u32) -> &SlotFacts {
        // SAFETY: there are facts for every slot.
        unsafe { self.facts.get_unchecked(slot as usize) }
    }

    /// Prefetches, for writing, the line where a new packet of this slot begins.
    #[inline(always)]
    pub(super) fn fetch(&self, slot: u32) {
        let offset = slot as usize * self.slot_bytes as usize + self.headroom as usize;
        fetch_to_write(self.base.as_ptr().wrapping_add(offset));
    }

    /// The first byte of a slot.
    #[inline(always)]
    pub(super) fn start(&self, slot: u32) -> NonNull<u8> {
        assert!(slot < self.slots);
        let offset = slot as usize * self.slot_bytes as usize;
        // SAFETY: the slot is one of ours (asserted), so the sum stays inside the region.
        unsafe { self.base.add(offset) }
    }
}

/// Access from the owner of a slot to its pool. Its holder owns a slot in use, or acts for the pool's owner: see
/// [`PoolRef::new`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolRef(NonNull<PoolMemory>);

// SAFETY: `PoolMemory` is Sync.
unsafe impl Send for PoolRef {}
// SAFETY: `PoolMemory` is Sync.
unsafe impl Sync for PoolRef {}

impl PoolRef {
    /// # Safety
    /// The caller owns a slot in use of this pool, and uses this no longer than that.
    #[inline(always)]
    pub(super) unsafe fn new(shared: &Arc<PoolMemory>) -> PoolRef {
        // The Arc's own pointer, which also covers the count before it.
        let address = Arc::as_ptr(shared).cast_mut();
        PoolRef(NonNull::new(address).expect("an Arc is somewhere"))
    }

    /// The pool of this number.
    ///
    /// # Safety
    /// As [`new`](PoolRef::new).
    #[inline(always)]
    pub(super) unsafe fn of(number: u8) -> PoolRef {
        // Relaxed: see `POOLS`.
        let shared = POOLS[number as usize].load(Relaxed);
        PoolRef(NonNull::new(shared).expect("a packet outlived its pool"))
    }

    /// Returns slots, and ends the pool if it waited for these only. The reference must not be used afterwards.
    #[cold]
    #[inline(never)]
    pub(super) fn return_chain(self, chain: Chain) {
        if chain.len() == 0 {
            return;
        }
        let address = self.0.as_ptr().cast_const();
        // SAFETY: the slots in the chain are in use, so their common count exists: the address is that of a live Arc.
        unsafe { Arc::increment_strong_count(address) };
        // SAFETY: the count just added. It keeps the memory while `push` uses it, even if another thread ends the pool.
        let shared = unsafe { Arc::from_raw(address) };
        if shared.returns.push(chain) {
            // SAFETY: `push` returns true to one caller only.
            unsafe { shared.end() };
        }
    }

    /// Whether this is that pool.
    #[inline(always)]
    pub(super) fn is(self, shared: &PoolMemory) -> bool {
        ptr::eq(self.0.as_ptr(), shared)
    }
}

impl Deref for PoolRef {
    type Target = PoolMemory;
    #[inline(always)]
    fn deref(&self) -> &PoolMemory {
        // SAFETY: the holder owns a slot in use (the promise of `new`), so the pool exists.
        unsafe { self.0.as_ref() }
    }
}

const _: () = assert!(Desc::MAX_SLOTS < NONE - 1 && NONE.wrapping_add(1) == 0);
