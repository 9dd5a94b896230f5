//! What a pool's packets share: the slots' memory, the facts beside them, and the numbers by which pools are found.
//!
//! It owns the memory and hands out addresses in it; who may touch which byte is decided by `packet`. It imports
//! `memory` and `sync`. Read `packet_desc` next.
//!
//! ```text
//!  Region     │ slot 0        │ slot 1        │ slot 2        │ …      page-aligned, in one piece: fit to be a UMEM
//!  SlotFacts  │ offset, len, next, wire_more, references │ …            cold: touched when a packet becomes a desc
//!  POOLS      │ 0 ─▶ Shared │ 1 ─▶ Shared │ none │ …                  a desc says a number, this says where
//! ```
//!
//! **How long it lives.** The slots that are out own one count of the `Arc` together, which the table of numbers
//! holds. It is dropped when the pool has ended and the last of them is home (edge HOME in `returns`). So whoever owns
//! a slot may follow the pool's address.
#![allow(unsafe_code)]

use super::{
    Desc,
    pool::PoolConfig,
    references::References,
    returns::{Chain, NONE, Returns},
};
use crate::{
    Error, Result,
    memory::{MapConfig, Region, fetch_to_write},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};
use std::{
    fmt,
    ops::Deref,
    ptr::{self, NonNull},
    // A static cannot hold loom's. No model comes here: models drive `returns` and `references`.
    sync::atomic::AtomicPtr,
};

/// Slots that a thread brings home together, or takes together, in a pool that is not small.
const MOST_IN_BATCH: u32 = 32;

/// So many threads may each keep part of a batch, and a pool still has slots for the next packets.
const KEEPING_THREADS: u32 = 32;

/// Pools that can be there at the same time: a desc has 8 bits for the number.
pub(super) const MOST_POOLS: usize = 256;

/// Where each pool is, null where no pool has that number. Written by whoever makes a pool, and by whoever brings the
/// last slot of an ended one home; read by whoever owns a slot. Relaxed, all: an owner got its slot after the pool was
/// entered and gives it up before the pool leaves, so it sees this entry and no other.
static POOLS: [AtomicPtr<Shared>; MOST_POOLS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_POOLS];

/// A number that is this pool's from here on, though the pool is not entered yet; given back where making it fails.
struct Number(u8);

impl Number {
    fn find() -> Option<Number> {
        let taken = NonNull::dangling().as_ptr();
        // Relaxed: see `POOLS`.
        let find = |entry: &AtomicPtr<Shared>| {
            entry
                .compare_exchange(ptr::null_mut(), taken, Relaxed, Relaxed)
                .is_ok()
        };
        let number = POOLS.iter().position(find)?;
        Some(Number(number as u8))
    }

    fn enter(self, pool: &Arc<Shared>) {
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

/// The memory of a pool and what lies beside it.
pub(super) struct Shared {
    base: NonNull<u8>,
    pub(super) number: u8,
    pub(super) slots: u32,
    pub(super) slot_bytes: u32,
    pub(super) headroom: u32,
    /// What the facts say of where the data of most packets is: behind the headroom, in one slot.
    pub(super) plain: Place,
    /// Slots that a thread moves at once: 1 to 32, and no more than a 32nd of all. A thread keeps one fewer at most, so
    /// that 32 threads leave 32 slots at least (or all, of a pool that has fewer).
    pub(super) batch: u32,
    pub(super) returns: Returns,
    facts: Box<[SlotFacts]>,
    pub(super) region: Region,
}

impl fmt::Debug for Shared {
    /// Without the slots: there may be a million of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("number", &self.number)
            .field("slots", &self.slots)
            .field("slot_bytes", &self.slot_bytes)
            .finish_non_exhaustive()
    }
}

// SAFETY: the address is of memory that the region owns; who touches its bytes is decided by who owns a slot.
unsafe impl Send for Shared {}
// SAFETY: as above; all else that changes is atomic.
unsafe impl Sync for Shared {}

/// What is cold about the packet in a slot, 16 bytes. All but `references` are written by whoever owns the slot alone,
/// when the packet becomes a desc or is shared, and read by whoever gets it then: Relaxed, the desc's way there orders
/// them, and between those who share a slot the edge SHARED does (see `references`).
///
/// What most packets have in common is the same number for all of them, and what is there already is not written again:
/// so the line stays in the caches of both sides, and is not sent to and fro for every packet.
///
/// ```text
///  place   │ 0 3 │ next + 1 : 21 │ len : 20 │ offset : 20 │
/// ```
#[derive(Debug)]
pub(super) struct SlotFacts {
    /// Where the data begins in the slot, how much of it there is, and which slot holds what follows (0: none): a [`Place`].
    place: AtomicU64,
    /// Bytes that the packet had on the wire, less those it has, modulo 2³²: 0 for most. With the first slot that follows
    /// a packet's own, the number of the last one.
    wire_more: AtomicU32,
    pub(super) references: References,
}

const _: () = assert!(size_of::<SlotFacts>() == 16 || cfg!(loom));

/// The cold facts of one slot, read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cold {
    /// In bytes from the slot's start: 0 to the slot's size, at most 2¹⁹.
    pub(super) offset: u32,
    /// 0 to the slot's size less `offset`; 0 in the only slot of a packet, whose desc says it.
    pub(super) len: u32,
    /// Bytes on the wire less those it has, modulo 2³²; in a further slot see `chain`.
    pub(super) wire_more: u32,
    /// The number of a slot, or NONE.
    pub(super) next: u32,
}

/// Where a packet's data is, as one number: see [`SlotFacts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    #[inline(always)]
    fn of(cold: Cold) -> Place {
        // NONE is all ones, so it becomes 0.
        let next = u64::from(cold.next.wrapping_add(1));
        Place(u64::from(cold.offset) | u64::from(cold.len) << LEN_AT | next << NEXT_AT)
    }

    /// See [`Cold`], as of the others.
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
    /// How often this thread has looked at facts: tests hold a packet's cost by it, as no clock can.
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

    /// Where the data is.
    #[inline(always)]
    pub(super) fn place(&self) -> Place {
        #[cfg(test)]
        LOADS.set(LOADS.get() + 1);
        Place(self.place.load(Relaxed)) // Relaxed: see `SlotFacts`
    }

    /// See [`Cold`].
    #[inline(always)]
    pub(super) fn wire_more(&self) -> u32 {
        self.wire_more.load(Relaxed) // Relaxed: see `SlotFacts`
    }

    #[inline(always)]
    pub(super) fn store(&self, cold: Cold) {
        let Place(place) = Place::of(cold);
        // Relaxed, all: see `SlotFacts`.
        if self.place.load(Relaxed) != place {
            self.place.store(place, Relaxed);
        }
        if self.wire_more.load(Relaxed) != cold.wire_more {
            self.wire_more.store(cold.wire_more, Relaxed);
        }
    }

    /// Writes down what a packet that is about to travel says of itself. False where others share the slot and these
    /// are not the facts that they shared: then nothing is written.
    #[inline(always)]
    pub(super) fn settle(&self, cold: Cold) -> bool {
        if self.references.is_alone() {
            self.store(cold);
            return true;
        }
        self.load() == cold // SHARED
    }

    /// One more reference, by somebody who holds one, to the packet of which this is true. Several may do it at once,
    /// of a packet that they borrow.
    pub(super) fn share(&self, cold: Cold) {
        if self.references.is_alone() {
            self.store(cold);
        }
        self.references.share(); // SHARED
    }
}

impl Shared {
    /// Maps the memory, finds a number and enters the pool there.
    pub(super) fn begin(config: &PoolConfig) -> Result<Arc<Shared>> {
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
            Error::new("packet pool", format!("making pool {MOST_POOLS} + 1"))
                .advise("Drop a pool and all its packets, or share one between threads")
        })?;
        let shared = Arc::new(Shared {
            base: region.base(),
            number: number.0,
            slots: config.slots,
            slot_bytes: config.slot_bytes,
            headroom: config.headroom,
            plain: Place::of(Cold {
                offset: config.headroom,
                len: 0,
                wire_more: 0,
                next: NONE,
            }),
            batch: (config.slots / KEEPING_THREADS).clamp(1, MOST_IN_BATCH),
            returns: Returns::new(config.slots),
            facts: (0..config.slots).map(|_| SlotFacts::new()).collect(),
            region,
        });
        number.enter(&shared);
        Ok(shared)
    }

    /// Takes the pool out of the table of numbers and drops the slots' count.
    ///
    /// # Safety
    /// The pool has ended and all slots are home (HOME); called once.
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

    /// The same without looking at the number.
    ///
    /// # Safety
    /// `slot` is a slot of this pool, as [`start`](Shared::start) has found.
    #[inline(always)]
    pub(super) unsafe fn facts_of(&self, slot: u32) -> &SlotFacts {
        // SAFETY: there are facts for every slot.
        unsafe { self.facts.get_unchecked(slot as usize) }
    }

    /// Asks for the line in which a new packet of this slot begins, to write to it.
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

/// The way from an owner of a slot to its pool. Whoever has one owns a slot that is out, or looks through the pool's
/// owner: it is the promise of [`PoolRef::new`].
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolRef(NonNull<Shared>);

// SAFETY: `Shared` is Sync.
unsafe impl Send for PoolRef {}
// SAFETY: `Shared` is Sync.
unsafe impl Sync for PoolRef {}

impl PoolRef {
    /// # Safety
    /// The caller owns a slot of this pool that is out, and uses this no longer than that.
    #[inline(always)]
    pub(super) unsafe fn new(shared: &Arc<Shared>) -> PoolRef {
        // The Arc's own pointer, which reaches the count in front, too.
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

    /// Brings slots home, and ends the pool if it waited for these only. The reference is worth nothing after it.
    #[cold]
    #[inline(never)]
    pub(super) fn bring_home(self, chain: Chain) {
        if chain.len() == 0 {
            return;
        }
        let address = self.0.as_ptr().cast_const();
        // SAFETY: the slots in the chain are out, so their common count is there: the address is of an Arc that lives.
        unsafe { Arc::increment_strong_count(address) };
        // SAFETY: the count just added. It keeps the memory while `push` looks at it, whoever else ends the pool.
        let shared = unsafe { Arc::from_raw(address) };
        if shared.returns.push(chain) {
            // SAFETY: `push` says so, to one only.
            unsafe { shared.end() };
        }
    }

    /// Whether this is that pool.
    #[inline(always)]
    pub(super) fn is(self, shared: &Shared) -> bool {
        ptr::eq(self.0.as_ptr(), shared)
    }
}

impl Deref for PoolRef {
    type Target = Shared;
    #[inline(always)]
    fn deref(&self) -> &Shared {
        // SAFETY: whoever has one owns a slot that is out (the promise of `new`), and so the pool is there.
        unsafe { self.0.as_ref() }
    }
}

const _: () = assert!(Desc::MAX_SLOTS < NONE - 1 && NONE.wrapping_add(1) == 0);
