//! Slots that a thread has released, gathered into one chain for each pool, so that 32 return in one step.
//!
//! A chain belongs to its thread alone. It returns to the pool when it is full, when the thread calls `return_idle`, when the
//! pool's owner collects slots in this very thread, and when the thread ends. In a pool of fewer than 1024 slots a chain is
//! full at 1/32 of them, so that the slots that threads keep never add up to all.
//!
//! ```text
//!   drop, drop, drop ──▶ │ chain of pool 0 │ chain of pool 1 │ …   this thread's
//!                              │ 32, idle, or the thread's end
//!                              └──▶ returns
//! ```
#![allow(unsafe_code)]

use super::{
    remote_free::{Chain, NONE},
    shared::{MAX_POOLS, PoolMemory, PoolRef},
};
use std::cell::Cell;

thread_local! {
    // Not loom's: models drive `remote_free` with their own chains. Nothing here has a `Drop`, so that no access has to check whether
    // it has run; starting a chain registers its end.
    static CHAINS: Chains = const { Chains([const { Cell::new(Chain::EMPTY) }; MAX_POOLS]) };
    static AT_END: AtEnd = const { AtEnd };
}

/// One chain for each pool number. A chain that is not empty keeps its pool's number and memory alive.
struct Chains([Cell<Chain>; MAX_POOLS]);

/// Returns the thread's chains when the thread ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        return_idle();
    }
}

/// Takes a slot from its last user. The caller owned it, and its pool may be gone when this returns.
#[inline(always)]
pub(super) fn free(pool: PoolRef, slot: u32) {
    if !with(pool, |chain| chain.add(slot)) {
        link(pool, slot);
    }
}

/// Returns slots to the pool, from `next` to the end of their chain. The caller owned them, and owns one more slot of that pool.
#[inline]
pub(super) fn free_parts(pool: PoolRef, mut next: u32) {
    while next != NONE {
        let part = next;
        next = pool.facts(part).load().next;
        free(pool, part);
    }
}

/// Returns a slot, and those chained from `next` on. The caller owned them all; `pool` must not be used afterwards.
#[inline]
pub(super) fn release_slots(pool: PoolRef, slot: u32, next: u32) {
    free_parts(pool, next);
    free(pool, slot);
}

/// Calls `use_chain` with this thread's chain of a pool; `use_chain` must not call this function.
#[inline(always)]
fn with<R>(pool: PoolRef, use_chain: impl FnOnce(&mut Chain) -> R) -> R {
    CHAINS.with(|chains| {
        let chain = chains.0[pool.number as usize].as_ptr();
        // SAFETY: the chain is this thread's, and `use_chain` does not call this function again.
        use_chain(unsafe { &mut *chain })
    })
}

/// Adds a slot that begins or fills a block or a chain.
#[inline(never)]
fn link(pool: PoolRef, slot: u32) {
    if with(pool, |chain| chain.len() == 0) && !register_end() {
        return return_slot(pool, slot);
    }
    let gathered = with(pool, |chain| {
        pool.returns.link(chain, slot, pool.batch);
        chain.len()
    });
    if gathered >= pool.batch {
        return_chain(pool);
    }
}

/// Registers the return of the chains at the thread's end; false if the thread is past that.
#[cold]
#[inline(never)]
fn register_end() -> bool {
    AT_END.try_with(|_| ()).is_ok()
}

#[cold]
#[inline(never)]
fn return_chain(pool: PoolRef) {
    pool.return_chain(take_own(&pool));
}

/// Returns a slot from a thread that is past its end, where it may keep none.
#[cold]
#[inline(never)]
fn return_slot(pool: PoolRef, slot: u32) {
    let mut chain = Chain::EMPTY;
    pool.returns.link(&mut chain, slot, 1);
    pool.return_chain(chain);
}

/// This thread's gathered slots of a pool, for the pool's owner.
pub(super) fn take_own(shared: &PoolMemory) -> Chain {
    CHAINS.with(|chains| chains.0[shared.number as usize].replace(Chain::EMPTY))
}

/// Returns all slots that this thread has gathered to their pools.
///
/// Call it before a thread sleeps or turns to something else. A thread that ends does it; `join` waits for that, the end of a
/// [`std::thread::scope`] does not.
///
/// A thread that never calls it keeps fewer than 1/32 of a pool's slots: at most 31, and none of a pool of fewer than 64. So
/// when up to 32 such threads have dropped all packets, at least 32 slots are back in the pool (all, where there are fewer). With
/// more such threads, a pool needs 32 slots for each of them.
/// ```
/// use forebay::packet::{Pool, PoolConfig, return_idle};
/// use std::sync::mpsc::channel;
/// let mut pool = Pool::new(&PoolConfig { slots: 256, ..PoolConfig::default() })?;
/// let (idle, is_idle) = channel();
/// let (end, ended) = channel::<()>();
/// let packet = pool.take().unwrap();
/// let thread = std::thread::spawn(move || {
///     drop(packet); // gathered
///     return_idle(); // returned
///     idle.send(()).unwrap();
///     ended.recv().ok()
/// });
/// is_idle.recv().unwrap();
/// assert_eq!(pool.refill(), 256);
/// drop(end);
/// # thread.join().unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn return_idle() {
    CHAINS.with(|chains| {
        for (number, chain) in chains.0.iter().enumerate() {
            let chain = chain.replace(Chain::EMPTY);
            if chain.len() > 0 {
                // SAFETY: the chain's slots are out, and ours.
                unsafe { PoolRef::of(number as u8) }.return_chain(chain);
            }
        }
    });
}
