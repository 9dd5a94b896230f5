//! Slots that a thread has done with, gathered into chains, one for each pool, so that 32 go home by one step.
//!
//! A chain belongs to its thread alone. It goes home when it is full, when the thread says that it is idle, when its
//! owner looks for slots in this very thread, and when the thread ends. In a pool of fewer than 1024 slots a chain is
//! full at a 32nd of them, so that what threads keep never adds up to all. Imports its parent's `returns` and `shared`.
//! Read `pool` next.
//!
//! ```text
//!   drop, drop, drop ──▶ │ chain of pool 0 │ chain of pool 1 │ …   this thread's
//!                              │ 32, idle, or the thread's end
//!                              └──▶ returns
//! ```
#![allow(unsafe_code)]

use super::{
    returns::Chain,
    shared::{MOST_POOLS, PoolRef, Shared},
};
use std::{cell::Cell, mem};

thread_local! {
    // Not loom's: models drive `returns` with chains of their own.
    static CHAINS: Chains = const { Chains([const { Cell::new(Chain::EMPTY) }; MOST_POOLS]) };
}

/// One chain for each number of a pool. One that is not empty keeps its pool's number and memory alive.
struct Chains([Cell<Chain>; MOST_POOLS]);

impl Chains {
    fn bring_home(&self) {
        for (number, chain) in self.0.iter().enumerate() {
            let chain = chain.replace(Chain::EMPTY);
            if chain.len() > 0 {
                // SAFETY: the chain's slots are out, and ours.
                unsafe { PoolRef::of(number as u8) }.bring_home(chain);
            }
        }
    }
}

impl Drop for Chains {
    fn drop(&mut self) {
        self.bring_home();
    }
}

/// Takes a slot from its last user. The caller owned it, and its pool may be gone when this returns.
#[inline]
pub(super) fn give(pool: PoolRef, slot: u32) {
    let gathered = CHAINS.try_with(|chains| {
        let place = chains.0[pool.number as usize].as_ptr();
        // SAFETY: the chain is this thread's, and nothing that is called while we borrow it comes here again.
        let chain = unsafe { &mut *place };
        pool.returns.link(chain, slot);
        if chain.len() >= pool.batch {
            pool.bring_home(mem::replace(chain, Chain::EMPTY));
        }
    });
    if gathered.is_err() {
        // The thread is ending, and its chains are home already.
        let mut chain = Chain::EMPTY;
        pool.returns.link(&mut chain, slot);
        pool.bring_home(chain);
    }
}

/// This thread's own slots of a pool, for the pool's owner.
pub(super) fn take_own(shared: &Shared) -> Chain {
    let own = CHAINS.try_with(|chains| chains.0[shared.number as usize].replace(Chain::EMPTY));
    own.unwrap_or(Chain::EMPTY)
}

/// Brings home all slots that this thread has gathered and not yet returned.
///
/// Call it before a thread sleeps or turns to something else. Threads that end do it by themselves; `join` waits for
/// that, the end of a [`std::thread::scope`] does not.
///
/// A thread that never calls it keeps fewer than a 32nd of a pool's slots: at most 31, and none of a pool of fewer than
/// 64. So when all packets are dropped, by up to 32 such threads, at least 32 slots are home (all, where there are
/// fewer), and the next packets can be taken. With more such threads a pool needs 32 slots for each of them.
///
/// ```
/// use forebay::packet::{Pool, PoolConfig, return_idle};
/// use std::sync::mpsc::channel;
/// let mut pool = Pool::new(&PoolConfig { slots: 256, ..PoolConfig::default() })?;
/// let (idle, is_idle) = channel();
/// let (end, ended) = channel::<()>();
/// let packet = pool.take().unwrap();
/// let thread = std::thread::spawn(move || {
///     drop(packet); // gathered
///     return_idle(); // home
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
    let _ = CHAINS.try_with(Chains::bring_home);
}
