//! A stack of blocks of slot numbers: any thread pushes returned slots, and the pool's owner takes them all at once.
//!
//! Every slot has a cache line beside it that can name up to 16 slots. Nothing here touches the slots' bytes. Threads gather
//! what they return in `local_cache`; the owner is in `pool`.
//!
//! ```text
//!   a thread's chain of blocks                     the stack
//!   newest            oldest
//!   │ 7: 3 9 │ ─────▶ │ 4: 1 8 … 6 │ ─ ─ CAS ─ ─▶  top ──▶ │ 5: 2 … 11 │ ──▶ │ … │ ──▶ none
//!                                                    └─ swap ─▶ all of it, to the owner, block by block
//! ```
//!
//! What is slow between two cores is moving a cache line, and a list makes its reader wait for each line before it knows the
//! next. So a line names 16 slots, in any order, and the next line is prefetched when this one is started. The block is that of
//! the first slot named in it: the owner of a slot owns its line, so a returning slot always has a line.
//!
//! Nothing is popped. A push does not care whether the top that it links to left and came back, and a swap compares
//! nothing, so there is no ABA. When the pool ends, the top becomes CLOSED for good, and the call that returns the last
//! slot reports that.
//!
//! An owner without free slots can sleep until the next push: `sync::bell` has the protocol, and its edge WAKE.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | RETURN | `push`: the CAS on `top` | `take_all`, `close`: the swap | the blocks of the chain and of all below it (each CAS and swap continues the release sequence of those before), and that their holders have finished with the slots' bytes |
//! | HOME | `push` on a closed pool, `expect`: adding to `out` | whichever of them makes it 0 | that everybody has finished with all slots: the pool's memory may be freed |
#![allow(unsafe_code)]

use crate::{
    memory::{fetch_to_read, fetch_to_write},
    sync::{
        CachePadded, Park, Wait,
        atomic::{
            AtomicIsize, AtomicU32,
            Ordering::{self, AcqRel, Acquire, Relaxed, Release},
        },
        planted,
    },
};
use std::{
    ptr,
    time::{Duration, Instant},
};

/// The end of a chain: no slot has this number.
pub(super) const NONE: u32 = u32::MAX;
/// The top of a pool that has ended.
const CLOSED: u32 = u32::MAX - 1;

/// Slots that a block names besides the one that it belongs to.
const OTHERS: usize = if cfg!(loom) { 1 } else { 15 };

/// Returning slots, in blocks; not `Clone`, since they would return twice.
#[derive(Debug)]
pub(super) struct Chain {
    /// The block of `newest`; null in an empty chain.
    block: *const SlotBlock,
    /// Slots named in it besides `newest`.
    named: u32,
    /// While fewer are named, adding a slot only means naming it: neither the block nor the chain becomes full.
    simple: u32,
    /// All other slots of the chain.
    before: u32,
    /// The slot whose block is first, and perhaps not full, or NONE.
    newest: u32,
    /// The slot whose block is last.
    oldest: u32,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain {
        block: ptr::null(),
        named: 0,
        simple: 0,
        before: 0,
        newest: NONE,
        oldest: NONE,
    };

    /// Number of slots.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.before + self.named
    }

    /// Adds a slot, which the caller owns, if naming it is enough. Returns false otherwise; call [`Returns::link`] then.
    ///
    /// Nearly every dropped packet ends here, so it takes few instructions, and needs neither the pool nor the place of its blocks.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: u32) -> bool {
        if self.named >= self.simple {
            return false;
        }
        // SAFETY: there is a block, as `simple` is not 0. The slots in the chain are not back, so their pool still has it.
        let others = unsafe { &(*self.block).others };
        // SAFETY: `simple` is less than OTHERS.
        let other = unsafe { others.get_unchecked(self.named as usize) };
        other.store(slot, Relaxed); // see `SlotBlock`
        self.named += 1;
        true
    }
}

/// A cache line that names slots: its own one, and others. Written and read by the owner of its slot only, so all accesses are
/// Relaxed; RETURN publishes it.
#[derive(Debug)]
#[repr(align(64))]
struct SlotBlock {
    /// The slot whose block is next, or NONE.
    next: AtomicU32,
    /// In a block that is not full, NONE follows the last slot.
    others: [AtomicU32; OTHERS],
}

const _: () = assert!(size_of::<SlotBlock>() == 64 || cfg!(loom));

impl SlotBlock {
    fn new() -> SlotBlock {
        SlotBlock {
            next: AtomicU32::new(NONE),
            others: std::array::from_fn(|_| AtomicU32::new(NONE)),
        }
    }
}

/// The stack of a pool, and the blocks of its slots.
#[derive(Debug)]
pub(super) struct Returns {
    /// Written by all threads that return slots and by the owner: the number of a slot, NONE or CLOSED.
    top: CachePadded<AtomicU32>,
    /// Slots of an ended pool that are not back yet; below 0 until the owner has counted them. Written once by the owner, and by all
    /// threads that return slots after that.
    out: CachePadded<AtomicIsize>,
    /// Where the owner waits for slots. Loaded by all threads that return slots.
    waits: CachePadded<Park>,
    /// One for each slot.
    blocks: Box<[SlotBlock]>,
}

impl Returns {
    pub(super) fn new(slots: u32) -> Returns {
        Returns {
            top: CachePadded(AtomicU32::new(NONE)),
            out: CachePadded(AtomicIsize::new(0)),
            waits: CachePadded(Park::default()),
            blocks: (0..slots).map(|_| SlotBlock::new()).collect(),
        }
    }

    /// Adds a slot, which the caller owns, to a chain that is full at `max`.
    pub(super) fn link(&self, chain: &mut Chain, slot: u32, max: u32) {
        let others = self.first(chain).map_or(&[][..], |block| &block.others);
        if let Some(other) = others.get(chain.named as usize) {
            other.store(slot, Relaxed); // see `SlotBlock`
            chain.named += 1;
            return;
        }
        let block = &self.blocks[slot as usize];
        block.next.store(chain.newest, Relaxed); // see `SlotBlock`
        let before = chain.len() + 1;
        let takes = max.saturating_sub(before).min(OTHERS as u32);
        *chain = Chain {
            block,
            named: 0,
            simple: takes.saturating_sub(1),
            before,
            newest: slot,
            oldest: if before == 1 { slot } else { chain.oldest },
        };
    }

    /// Starts a chain with a block, if it is empty.
    fn first(&self, chain: &Chain) -> Option<&SlotBlock> {
        self.blocks.get(chain.newest as usize)
    }

    /// Ends a chain's first block.
    #[inline]
    fn seal(&self, chain: &Chain) {
        let others = self.first(chain).map(|block| &block.others[..]);
        if let Some(end) = others.and_then(|others| others.get(chain.named as usize)) {
            end.store(NONE, Relaxed); // see `SlotBlock`
        }
    }

    /// Calls `each` for each slot of a chain that the owner itself has gathered.
    pub(super) fn unlink(&self, chain: Chain, each: impl FnMut(u32)) {
        self.seal(&chain);
        self.walk(chain.newest, each);
    }

    /// Returns a chain to the pool. True if the pool has ended and these were its last slots: its memory is then the caller's
    /// to free. Otherwise the memory may be freed as soon as this returns, unless the caller keeps it. Wakes the owner if it waits.
    #[must_use]
    pub(super) fn push(&self, chain: Chain) -> bool {
        if chain.len() == 0 {
            return false;
        }
        self.seal(&chain);
        // Relaxed: a guess, which the CAS checks. CLOSED never changes again.
        let mut top = self.top.load(Relaxed);
        loop {
            if top == CLOSED {
                let len = chain.len() as isize;
                return self.out.fetch_sub(len, home()) == len; // HOME
            }
            let oldest = &self.blocks[chain.oldest as usize];
            oldest.next.store(top, Relaxed); // see `SlotBlock`
            if planted("return-without-cas") {
                self.top.store(chain.newest, Release);
                return false;
            }
            let success = if planted("return-relaxed") {
                Relaxed
            } else {
                Release
            };
            // RETURN; Relaxed on failure: as the load above.
            match (self.top).compare_exchange_weak(top, chain.newest, success, Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        if !planted("return-without-wake") {
            self.waits.wake(); // WAKE
        }
        false
    }

    /// The owner waits until `has_slot` returns true, or until `limit` expires (`None`: never). `has_slot` is called again after
    /// every push. Returns its last result.
    pub(super) fn wait(&self, limit: Option<Duration>, has_slot: &mut dyn FnMut() -> bool) -> bool {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        self.waits.wait(deadline, has_slot)
    }

    /// The owner takes all returned slots, in one step. Returns the slot of the first block, which is prefetched, or NONE.
    #[inline]
    pub(super) fn take_all(&self) -> u32 {
        let order = if planted("collect-relaxed") {
            Relaxed
        } else {
            Acquire
        };
        // Relaxed: saves the swap if nothing has returned; the next call finds what this one misses. After WAKE it misses nothing.
        if self.top.load(Relaxed) == NONE {
            return NONE;
        }
        let first = self.top.swap(NONE, order); // RETURN
        self.fetch(first);
        first
    }

    /// The owner ends the pool and takes what has returned. Slots that return later are only counted.
    pub(super) fn close(&self, each: impl FnMut(u32)) {
        self.walk(self.top.swap(CLOSED, Acquire), each); // RETURN
    }

    /// After [`close`](Returns::close): `out` slots are still in use. True if all of them have returned in the meantime:
    /// the pool's memory is then the caller's to free.
    #[must_use]
    pub(super) fn expect(&self, out: usize) -> bool {
        let out = out as isize;
        self.out.fetch_add(out, home()) + out == 0 // HOME
    }

    /// Calls `each` for the slots in the block of `slot`, which [`take_all`](Returns::take_all) or this function returned to the
    /// owner. Returns the slot of the next block, which is prefetched, or NONE.
    #[inline]
    pub(super) fn unroll(&self, slot: u32, mut each: impl FnMut(u32)) -> u32 {
        let block = &self.blocks[slot as usize];
        let next = block.next.load(Relaxed); // see `SlotBlock`
        self.fetch(next);
        each(slot);
        for other in &block.others {
            match other.load(Relaxed) {
                NONE => break,
                other => each(other), // see `SlotBlock`
            }
        }
        next
    }

    /// Calls `each` for the slots in the blocks from that of `slot` on; none from NONE on.
    pub(super) fn walk(&self, mut slot: u32, mut each: impl FnMut(u32)) {
        while slot != NONE {
            slot = self.unroll(slot, &mut each);
        }
    }

    /// Prefetches the block of a slot. For NONE, prefetches the top, which the owner reads next.
    #[inline(always)]
    fn fetch(&self, slot: u32) {
        match self.blocks.get(slot as usize) {
            Some(block) => fetch_to_read(block),
            None => fetch_to_write(&raw const self.top),
        }
    }
}

fn home() -> Ordering {
    if planted("home-relaxed") {
        Relaxed
    } else {
        AcqRel
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chains_of_any_length_return_whole_however_their_slots_returned_before() {
        let returns = Returns::new(100);
        let mut free: Vec<u32> = (0..100).collect();
        // 7 and 100 have no common divisor, so each round puts other slots into a block.
        for round in 0..if cfg!(miri) { 3 } else { 300 } {
            free.rotate_left(7);
            let out = free.split_off(round % 100);
            for chained in out.chunks(1 + round % 35) {
                let (mut chain, max) = (Chain::EMPTY, chained.len() as u32);
                for (&slot, number) in chained.iter().zip(1..) {
                    // The last slot is never simple: the gathering thread must see that the chain is full.
                    let added = chain.add(slot);
                    assert!(!added || number < max);
                    if !added {
                        returns.link(&mut chain, slot, max);
                    }
                    assert_eq!(chain.len(), number);
                }
                assert!(!returns.push(chain), "the pool has not ended");
            }
            returns.walk(returns.take_all(), |slot| free.push(slot));
            let mut home = free.clone();
            home.sort_unstable();
            assert!(home.into_iter().eq(0..100), "round {round}");
        }
    }
}
