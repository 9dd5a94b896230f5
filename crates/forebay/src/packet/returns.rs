//! The way home: a stack of chains of slots that any thread pushes onto, and that the owner takes whole.
//!
//! Slots are linked by number in a table beside them; nothing here touches their bytes. It imports `memory` and `sync`. Read
//! `chains` next, where threads gather their chains, then `pool`, the owner.
//!
//! ```text
//!   a thread's chain                     the stack
//!   first ──▶ … ──▶ last ─ ─ CAS ─ ─▶  top ──▶ slot ──▶ … ──▶ slot ──▶ none
//!                                        └─ swap ─▶ all of it, to the owner
//! ```
//!
//! Nobody pops one: a push does not care whether the top it links to went away and came back, and a swap looks at
//! nothing. So there is no ABA. When the pool ends, the top becomes CLOSED for good, and whoever brings home the last
//! slot is told so.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | RETURN | `push`: the CAS on `top` | `take_all`, `close`: the swap | the links of the chain and of all below it (each CAS and swap continues the release sequence of those before), and that their holders are done with the slots' bytes |
//! | HOME | `push` on a closed pool, `expect`: adding to `out` | whichever of them makes it 0 | that everybody is done with all slots: the pool's memory may go |

use crate::{
    memory::fetch_to_read,
    sync::{
        CachePadded,
        atomic::{
            AtomicIsize, AtomicU32,
            Ordering::{self, AcqRel, Acquire, Relaxed, Release},
        },
        planted,
    },
};

/// The end of a chain: no slot has this number.
pub(super) const NONE: u32 = u32::MAX;
/// The top of a pool that has ended.
const CLOSED: u32 = u32::MAX - 1;

/// Slots on their way home, linked in the table; not `Clone`, since they would come home twice.
#[derive(Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

impl Chain {
    pub(super) const EMPTY: Chain = Chain {
        first: NONE,
        last: NONE,
        len: 0,
    };

    /// Slots in it.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len
    }
}

/// The stack of a pool, and the table of links for its slots.
#[derive(Debug)]
pub(super) struct Returns {
    /// Written by all who return slots and by the owner: the number of a slot, NONE or CLOSED.
    top: CachePadded<AtomicU32>,
    /// Slots that are not home yet, of a pool that has ended; below 0 while the owner has not counted them.
    /// Written by the owner once and by all who return slots after that.
    out: CachePadded<AtomicIsize>,
    /// The slot behind each one in its chain. Written and read by whoever holds the chain.
    next: Box<[AtomicU32]>,
}

impl Returns {
    pub(super) fn new(slots: u32) -> Returns {
        Returns {
            top: CachePadded(AtomicU32::new(NONE)),
            out: CachePadded(AtomicIsize::new(0)),
            next: (0..slots).map(|_| AtomicU32::new(NONE)).collect(),
        }
    }

    /// Puts a slot, which the caller owns, in front of a chain.
    #[inline(always)]
    pub(super) fn link(&self, chain: &mut Chain, slot: u32) {
        // Relaxed: RETURN publishes it.
        self.next[slot as usize].store(chain.first, Relaxed);
        if chain.len == 0 {
            chain.last = slot;
        }
        chain.first = slot;
        chain.len += 1;
    }

    /// Sees each slot of a chain that the owner itself has gathered.
    pub(super) fn unlink(&self, chain: Chain, each: impl FnMut(u32)) {
        self.walk(chain.first, each);
    }

    /// Brings a chain home. True if the pool has ended and these were its last slots: its memory is then the caller's
    /// to free. Else it may be gone as soon as this returns.
    #[must_use]
    pub(super) fn push(&self, chain: Chain) -> bool {
        if chain.len == 0 {
            return false;
        }
        // Relaxed: a guess, which the CAS checks. CLOSED never changes again.
        let mut top = self.top.load(Relaxed);
        loop {
            if top == CLOSED {
                let len = chain.len as isize;
                return self.out.fetch_sub(len, home()) == len; // HOME
            }
            // Relaxed: RETURN publishes it.
            self.next[chain.last as usize].store(top, Relaxed);
            if planted("return-without-cas") {
                self.top.store(chain.first, Release);
                return false;
            }
            let success = if planted("return-relaxed") {
                Relaxed
            } else {
                Release
            };
            // RETURN; Relaxed on failure: as the load above.
            match (self.top).compare_exchange_weak(top, chain.first, success, Relaxed) {
                Ok(_) => return false,
                Err(now) => top = now,
            }
        }
    }

    /// The owner takes all that came home, in one step, and sees each slot once.
    #[inline]
    pub(super) fn take_all(&self, each: impl FnMut(u32)) {
        let order = if planted("collect-relaxed") {
            Relaxed
        } else {
            Acquire
        };
        // Relaxed: a look that saves the swap where nothing came; what is missed now is found next time.
        if self.top.load(Relaxed) != NONE {
            self.walk(self.top.swap(NONE, order), each); // RETURN
        }
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

    /// Asks for the links around a slot's: the next ones are likely to be among them, since slots that leave together come
    /// home together, and another core has written them.
    #[inline(always)]
    fn fetch_around(&self, slot: u32) {
        const LINKS_OF_LINE: usize = 64 / size_of::<u32>();
        let link = &raw const self.next[slot as usize];
        fetch_to_read(link.wrapping_sub(LINKS_OF_LINE));
        fetch_to_read(link.wrapping_add(LINKS_OF_LINE));
    }

    /// Sees each slot from `slot` to its chain's end.
    fn walk(&self, mut slot: u32, mut each: impl FnMut(u32)) {
        while slot < CLOSED {
            self.fetch_around(slot);
            each(slot);
            // Relaxed: RETURN made it visible.
            slot = self.next[slot as usize].load(Relaxed);
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
