//! The way home: a stack of blocks of slots' numbers that any thread pushes onto, and that the owner takes whole.
//!
//! Every slot has a line of memory beside it, in which up to 16 slots are named; nothing here touches the slots' bytes. It imports
//! `memory` and `sync`. Read `chains` next, where threads gather what they return, then `pool`, the owner.
//!
//! ```text
//!   a thread's chain of blocks                     the stack
//!   newest            oldest
//!   │ 7: 3 9 │ ─────▶ │ 4: 1 8 … 6 │ ─ ─ CAS ─ ─▶  top ──▶ │ 5: 2 … 11 │ ──▶ │ … │ ──▶ none
//!                                                    └─ swap ─▶ all of it, to the owner, who reads a block at a time
//! ```
//!
//! What is slow between two cores is a line's way from one to the other, and who follows a list waits for each before it knows
//! the next. So a line brings 16 numbers, whatever their order, and the one behind it is asked for when it is begun. The block is
//! that of the first slot named in it: whoever owns a slot owns its line, and there is always a line for a slot that returns.
//!
//! Nobody pops one: a push does not care whether the top it links to went away and came back, and a swap looks at
//! nothing. So there is no ABA. When the pool ends, the top becomes CLOSED for good, and whoever brings home the last
//! slot is told so.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | RETURN | `push`: the CAS on `top` | `take_all`, `close`: the swap | the blocks of the chain and of all below it (each CAS and swap continues the release sequence of those before), and that their holders are done with the slots' bytes |
//! | HOME | `push` on a closed pool, `expect`: adding to `out` | whichever of them makes it 0 | that everybody is done with all slots: the pool's memory may go |
#![allow(unsafe_code)]

use crate::{
    memory::{fetch_to_read, fetch_to_write},
    sync::{
        CachePadded,
        atomic::{
            AtomicIsize, AtomicU32,
            Ordering::{self, AcqRel, Acquire, Relaxed, Release},
        },
        planted,
    },
};
use std::ptr;

/// The end of a chain: no slot has this number.
pub(super) const NONE: u32 = u32::MAX;
/// The top of a pool that has ended.
const CLOSED: u32 = u32::MAX - 1;

/// Slots that a block names beside its own.
const OTHERS: usize = if cfg!(loom) { 1 } else { 15 };

/// Slots on their way home, in blocks; not `Clone`, since they would come home twice.
#[derive(Debug)]
pub(super) struct Chain {
    /// The block of `newest`; null in a chain that is empty.
    block: *const Block,
    /// Slots named in it beside its own.
    named: u32,
    /// While fewer are, naming another one is all there is to do: neither the block nor the chain becomes full by it.
    simple: u32,
    /// All other slots of the chain.
    before: u32,
    /// The slot whose block is the first, and perhaps not full, or NONE.
    newest: u32,
    /// The slot whose block is the last.
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

    /// Slots in it.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.before + self.named
    }

    /// Adds a slot, which the caller owns, if there is nothing else to do; false if there is: [`Returns::link`] does it.
    ///
    /// It is what nearly all packets that are dropped end with, and so in few instructions: it needs neither the pool nor
    /// the place of its blocks.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: u32) -> bool {
        if self.named >= self.simple {
            return false;
        }
        // SAFETY: there is a block, as `simple` is not 0, and the slots in the chain are out, so its pool has it still.
        let others = unsafe { &(*self.block).others };
        // SAFETY: `simple` is less than OTHERS.
        let other = unsafe { others.get_unchecked(self.named as usize) };
        other.store(slot, Relaxed); // see `Block`
        self.named += 1;
        true
    }
}

/// A line that names slots: the one that it lies beside, and others. Written and read by whoever holds that slot, so Relaxed,
/// all: RETURN publishes it.
#[derive(Debug)]
#[repr(align(64))]
struct Block {
    /// The slot whose block is behind this one, or NONE.
    next: AtomicU32,
    /// In a block that is not full, NONE is behind the last of them.
    others: [AtomicU32; OTHERS],
}

const _: () = assert!(size_of::<Block>() == 64 || cfg!(loom));

impl Block {
    fn new() -> Block {
        Block {
            next: AtomicU32::new(NONE),
            others: std::array::from_fn(|_| AtomicU32::new(NONE)),
        }
    }
}

/// The stack of a pool, and the blocks of its slots.
#[derive(Debug)]
pub(super) struct Returns {
    /// Written by all who return slots and by the owner: the number of a slot, NONE or CLOSED.
    top: CachePadded<AtomicU32>,
    /// Slots that are not home yet, of a pool that has ended; below 0 while the owner has not counted them.
    /// Written by the owner once and by all who return slots after that.
    out: CachePadded<AtomicIsize>,
    /// One for each slot.
    blocks: Box<[Block]>,
}

impl Returns {
    pub(super) fn new(slots: u32) -> Returns {
        Returns {
            top: CachePadded(AtomicU32::new(NONE)),
            out: CachePadded(AtomicIsize::new(0)),
            blocks: (0..slots).map(|_| Block::new()).collect(),
        }
    }

    /// Adds a slot, which the caller owns, to a chain that is to go home with `most`.
    pub(super) fn link(&self, chain: &mut Chain, slot: u32, most: u32) {
        let others = self.first(chain).map_or(&[][..], |block| &block.others);
        if let Some(other) = others.get(chain.named as usize) {
            other.store(slot, Relaxed); // see `Block`
            chain.named += 1;
            return;
        }
        let block = &self.blocks[slot as usize];
        block.next.store(chain.newest, Relaxed); // see `Block`
        let before = chain.len() + 1;
        let takes = most.saturating_sub(before).min(OTHERS as u32);
        *chain = Chain {
            block,
            named: 0,
            simple: takes.saturating_sub(1),
            before,
            newest: slot,
            oldest: if before == 1 { slot } else { chain.oldest },
        };
    }

    /// The block that a chain begins with, unless it is empty.
    fn first(&self, chain: &Chain) -> Option<&Block> {
        self.blocks.get(chain.newest as usize)
    }

    /// Notes where a chain's first block ends.
    #[inline]
    fn seal(&self, chain: &Chain) {
        let others = self.first(chain).map(|block| &block.others[..]);
        if let Some(end) = others.and_then(|others| others.get(chain.named as usize)) {
            end.store(NONE, Relaxed); // see `Block`
        }
    }

    /// Sees each slot of a chain that the owner itself has gathered.
    pub(super) fn unlink(&self, chain: Chain, each: impl FnMut(u32)) {
        self.seal(&chain);
        self.walk(chain.newest, each);
    }

    /// Brings a chain home. True if the pool has ended and these were its last slots: its memory is then the caller's
    /// to free. Else it may be gone as soon as this returns.
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
            oldest.next.store(top, Relaxed); // see `Block`
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
                Ok(_) => return false,
                Err(now) => top = now,
            }
        }
    }

    /// The owner takes all that came home, in one step: the slot of the first block, which is asked for, or NONE.
    #[inline]
    pub(super) fn take_all(&self) -> u32 {
        let order = if planted("collect-relaxed") {
            Relaxed
        } else {
            Acquire
        };
        // Relaxed: a look that saves the swap where nothing came; what is missed now is found next time.
        if self.top.load(Relaxed) == NONE {
            return NONE;
        }
        let first = self.top.swap(NONE, order); // RETURN
        self.fetch(first);
        first
    }

    /// The owner ends the pool and takes what is home; whatever returns from now on is only counted.
    pub(super) fn close(&self, each: impl FnMut(u32)) {
        self.walk(self.top.swap(CLOSED, Acquire), each); // RETURN
    }

    /// After [`close`](Returns::close): so many slots are still out. True if all of them have come home meanwhile:
    /// the pool's memory is then the caller's to free.
    #[must_use]
    pub(super) fn expect(&self, out: usize) -> bool {
        let out = out as isize;
        self.out.fetch_add(out, home()) + out == 0 // HOME
    }

    /// Sees each slot of the block of `slot`, which [`take_all`](Returns::take_all) or this gave to the owner; gives the slot of
    /// the next, which is asked for, or NONE.
    #[inline]
    pub(super) fn unroll(&self, slot: u32, mut each: impl FnMut(u32)) -> u32 {
        let block = &self.blocks[slot as usize];
        let next = block.next.load(Relaxed); // see `Block`
        self.fetch(next);
        each(slot);
        for other in &block.others {
            match other.load(Relaxed) {
                NONE => break,
                other => each(other), // see `Block`
            }
        }
        next
    }

    /// Sees each slot of the blocks from that of `slot` on; none from NONE on.
    pub(super) fn walk(&self, mut slot: u32, mut each: impl FnMut(u32)) {
        while slot != NONE {
            slot = self.unroll(slot, &mut each);
        }
    }

    /// Asks for the block of a slot. Of NONE, for the top: it is what the owner looks at next.
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
    fn chains_of_any_length_come_home_whole_however_their_slots_came_home_before() {
        let returns = Returns::new(100);
        let mut free: Vec<u32> = (0..100).collect();
        // 7 and 100 have no divisor in common, so the blocks' slots are others each time.
        for round in 0..300 {
            free.rotate_left(7);
            let out = free.split_off(round % 100);
            for chained in out.chunks(1 + round % 35) {
                let (mut chain, most) = (Chain::EMPTY, chained.len() as u32);
                for (&slot, number) in chained.iter().zip(1..) {
                    // The last one is never simple: whoever gathers is to see that the chain is full.
                    let added = chain.add(slot);
                    assert!(!added || number < most);
                    if !added {
                        returns.link(&mut chain, slot, most);
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
