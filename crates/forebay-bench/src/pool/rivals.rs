//! Pools of buffers of 2048 bytes, with one trait.
#![allow(unsafe_code)]

use anyhow::Result;
use forebay::packet::{Packet, Pool, PoolConfig, Slots};
use std::{
    arch::asm,
    ptr::NonNull,
    sync::atomic::{
        AtomicPtr, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Bytes of a buffer.
pub const BYTES: usize = 2048;

/// Buffers of a pool.
const BUFFERS: usize = 2048;

/// Buffers in a burst.
pub const BURST: usize = 32;

/// A pool of buffers. It never runs out here: at most 32 are taken.
pub trait Buffers {
    /// A buffer, owned.
    type Buffer;

    fn take(&mut self) -> Self::Buffer;
    fn put_back(&mut self, buffer: Self::Buffer);
    /// Writes the first 64 bytes.
    fn touch(buffer: &mut Self::Buffer, number: u64);

    #[inline(always)]
    fn take_burst(&mut self, n: usize, into: &mut Vec<Self::Buffer>) {
        into.extend((0..n).map(|_| self.take()));
    }

    #[inline(always)]
    fn put_back_burst(&mut self, from: &mut Vec<Self::Buffer>) {
        from.drain(..).for_each(|buffer| self.put_back(buffer));
    }
}

/// Writes a line, and makes the compiler assume that it is read: as `touch` in `harness.h`. It makes no other store,
/// which would have to wait while the line is still at another core.
#[inline(always)]
pub fn write_line(line: &mut [u8], number: u64) {
    let line: &mut [u8; 64] = line.try_into().expect("64 bytes were asked for");
    *line = [number as u8; 64];
    // SAFETY: there is no instruction in it.
    unsafe {
        asm!("/* {} */", in(reg) line.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Our pool. Packets are put back by its owner, or dropped (`DROPS`), as any thread may.
pub struct Packets<const DROPS: bool>(Pool);

/// One of ours, with slots of this size.
pub fn pool(slot_bytes: usize) -> Result<Pool> {
    Ok(Pool::new(&PoolConfig {
        slots: BUFFERS as u32,
        slot_bytes: slot_bytes as u32,
        ..PoolConfig::default()
    })?)
}

impl<const DROPS: bool> Packets<DROPS> {
    pub fn new() -> Result<Self> {
        pool(BYTES).map(Packets)
    }

    /// Whether all slots have returned.
    #[cfg(test)]
    pub fn end(self) -> bool {
        self.0.close().is_none()
    }
}

/// Writes to a new packet.
#[inline(always)]
pub fn touch(packet: &mut Packet, number: u64) {
    write_line(packet.put(64).expect("a new packet has room"), number);
}

impl<const DROPS: bool> Buffers for Packets<DROPS> {
    type Buffer = Packet;

    #[inline(always)]
    fn take(&mut self) -> Packet {
        self.0.take().expect("at most 64 are away")
    }

    #[inline(always)]
    fn put_back(&mut self, packet: Packet) {
        match DROPS {
            true => drop(packet),
            false => self.0.put_back(packet).expect("it is its own"),
        }
    }

    #[inline(always)]
    fn touch(packet: &mut Packet, number: u64) {
        touch(packet, number);
    }

    #[inline(always)]
    fn take_burst(&mut self, n: usize, into: &mut Vec<Packet>) {
        self.0.take_burst(n, into);
    }
}

/// Our pool, which hands slots over by the block: here a buffer is a block of them.
pub struct Blocks(Pool);

impl Blocks {
    pub fn new() -> Result<Blocks> {
        pool(BYTES).map(Blocks)
    }
}

impl Buffers for Blocks {
    type Buffer = Slots;

    #[inline(always)]
    fn take(&mut self) -> Slots {
        self.0.take_slots(1)
    }

    #[inline(always)]
    fn put_back(&mut self, slots: Slots) {
        self.0.put_back_slots(slots).expect("they are its own");
    }

    #[inline(always)]
    fn touch(slots: &mut Slots, number: u64) {
        for index in 0..slots.len() {
            let slot = slots.bytes_mut(index).expect("the slot exists");
            write_line(&mut slot[..64], number);
        }
    }

    #[inline(always)]
    fn take_burst(&mut self, n: usize, into: &mut Vec<Slots>) {
        into.push(self.0.take_slots(n));
    }
}

/// The C library's heap.
pub struct Glibc;

impl Buffers for Glibc {
    type Buffer = NonNull<u8>;

    #[inline(always)]
    fn take(&mut self) -> NonNull<u8> {
        // SAFETY: asking for memory is always allowed.
        let buffer = unsafe { libc::malloc(BYTES) };
        NonNull::new(buffer.cast()).expect("2048 bytes are there")
    }

    #[inline(always)]
    fn put_back(&mut self, buffer: NonNull<u8>) {
        // SAFETY: it came from `malloc`, and its owner gives it up.
        unsafe { libc::free(buffer.as_ptr().cast()) }
    }

    #[inline(always)]
    fn touch(buffer: &mut NonNull<u8>, number: u64) {
        // SAFETY: the buffer is its owner's, and longer than 64 bytes; what `malloc` left in them is overwritten.
        let line = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr(), 64) };
        write_line(line, number);
    }
}

/// The pool of *Device Driver Queues*: the free buffers' addresses in its ring, with the same loads and stores. Its ring of 1024 slots
/// loses 1025 of 2048 buffers; this one has room for all. One thread takes, one returns; they may be the same.
pub struct FreeRing {
    slots: Box<[AtomicPtr<u8>]>,
    /// Written by the taking thread, read by the returning thread: below the length.
    head: AtomicUsize,
    /// Written by the returning thread, read by the taking thread: below the length.
    tail: AtomicUsize,
    _buffers: Box<[u8]>,
}

impl FreeRing {
    pub fn new() -> FreeRing {
        let mut buffers = vec![0; BYTES * BUFFERS].into_boxed_slice();
        let mut ring = FreeRing {
            slots: (0..2 * BUFFERS).map(|_| AtomicPtr::default()).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            _buffers: Box::default(),
        };
        for buffer in buffers.chunks_exact_mut(BYTES) {
            ring.enqueue(buffer.as_mut_ptr());
        }
        ring._buffers = buffers;
        ring
    }

    #[inline(always)]
    pub fn enqueue(&self, buffer: *mut u8) {
        let tail = self.tail.load(Relaxed); // our own
        let next = (tail + 1) & (self.slots.len() - 1);
        if next != self.head.load(Acquire) {
            self.slots[tail].store(buffer, Relaxed); // published by the next line
            self.tail.store(next, Release);
        }
    }

    #[inline(always)]
    pub fn dequeue(&self) -> Option<NonNull<u8>> {
        let head = self.head.load(Relaxed); // our own
        if head == self.tail.load(Acquire) {
            return None;
        }
        let buffer = self.slots[head].load(Relaxed); // published before the tail
        self.head
            .store((head + 1) & (self.slots.len() - 1), Release);
        NonNull::new(buffer)
    }
}

impl Buffers for FreeRing {
    type Buffer = NonNull<u8>;

    #[inline(always)]
    fn take(&mut self) -> NonNull<u8> {
        self.dequeue().expect("at most 32 are away")
    }

    #[inline(always)]
    fn put_back(&mut self, buffer: NonNull<u8>) {
        self.enqueue(buffer.as_ptr());
    }

    #[inline(always)]
    fn touch(buffer: &mut NonNull<u8>, number: u64) {
        Glibc::touch(buffer, number);
    }
}
