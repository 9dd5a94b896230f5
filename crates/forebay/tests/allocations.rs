//! A pool allocates all of its memory when it is made: no packet operation calls the allocator.
#![allow(unsafe_code)]

use forebay::packet::{Pool, PoolConfig, return_idle};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter per thread.
struct Counting;

// SAFETY: every call is forwarded to the system's allocator, which fulfils the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

fn small_slots() -> PoolConfig {
    PoolConfig {
        slot_bytes: 256,
        headroom: 64,
        ..PoolConfig::default()
    }
}

#[test]
fn a_pool_works_and_ends_without_allocating() {
    let mut pool = Pool::new(&small_slots()).unwrap();
    let mut burst = Vec::with_capacity(100);
    let work = allocations(|| {
        let mut packet = pool.take().unwrap();
        packet.append(&mut pool, &[1; 5000]).unwrap();
        let mut copy = packet.share();
        copy.unshare(&mut pool).unwrap();
        let desc = copy.into_desc().unwrap();
        pool.put_back(packet).unwrap();
        pool.take_burst(100, &mut burst);
        burst.clear();
        drop(desc.into_packet());
        return_idle();
        pool.refill();
    });
    assert_eq!((work, allocations(|| drop(pool))), (0, 0));
}

#[test]
fn a_pool_that_closes_allocates_for_a_list_of_leaks_only() {
    let pool = Pool::new(&small_slots()).unwrap();
    assert_eq!(allocations(|| assert!(pool.close().is_none())), 0);
    let mut pool = Pool::new(&small_slots()).unwrap();
    let packets = [(); 7].map(|()| pool.take());
    assert_eq!(
        allocations(|| assert_eq!(pool.close().unwrap().slots.len(), 7)),
        1
    );
    drop(packets);
}
