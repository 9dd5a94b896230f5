//! Both ends of each pool: one thread takes buffers, another returns them. Ours, the C library's heap, and a ring of free buffers.
#![allow(unsafe_code)]

use super::{
    link::Travels,
    rivals::{BURST, Buffers, FreeRing, Glibc, pool, touch, write_line},
};
use anyhow::Result;
use forebay::packet::{Packet, PacketDesc, Pool, Slots};
use std::{ptr::NonNull, sync::Arc};

/// The thread that takes buffers and writes the first 64 bytes of each. They never run out here: at most 256 are on their way,
/// and a burst or two at either end.
pub trait Takes: Send {
    /// What it sends.
    type Item: Travels;

    /// A burst, with the numbers from `first` on.
    fn take_burst(&mut self, first: u64, target: &mut Vec<Self::Item>);
}

/// One that also takes buffers one by one.
pub trait TakesOne: Takes {
    fn take(&mut self, number: u64) -> Self::Item;

    /// A burst, one by one.
    #[inline(always)]
    fn take_each(&mut self, first: u64, target: &mut Vec<Self::Item>) {
        target.extend((first..first + BURST as u64).map(|number| self.take(number)));
    }
}

/// The thread that looks at each and returns it.
pub trait Returns: Send {
    /// What it receives.
    type Item: Travels;

    /// Says whether it was written with that number, or its buffers with the numbers from there on.
    fn put_back(&mut self, item: Self::Item, number: u64) -> bool;

    /// All in `burst`, with the numbers from `first` on; says whether all were written with theirs.
    #[inline(always)]
    fn put_back_burst(&mut self, burst: &mut Vec<Self::Item>, first: u64) -> bool {
        let each = burst.drain(..).zip((first..).step_by(Self::Item::BUFFERS));
        each.fold(true, |right, (item, number)| {
            self.put_back(item, number) & right
        })
    }
}

/// A pool with its two ends.
pub trait Across {
    /// The end that takes.
    type Taker: Takes<Item = Self::Item>;
    /// The end that returns.
    type Returner: Returns<Item = Self::Item>;
    /// What goes from one to the other.
    type Item: Travels;

    /// Both ends of a new one.
    fn new() -> Result<(Self::Taker, Self::Returner)>;
}

/// Ours: packets in slots of this size, whose descriptions travel.
pub struct Packets<const SLOT_BYTES: usize>;

/// Drops packets.
pub struct Dropping;

/// Takes packets. In bursts it does as `harness.h` does: all are taken, then written, then sent.
pub struct Packing {
    pool: Pool,
    /// Empty between two bursts.
    packets: Vec<Packet>,
}

impl<const SLOT_BYTES: usize> Across for Packets<SLOT_BYTES> {
    type Taker = Packing;
    type Returner = Dropping;
    type Item = PacketDesc;

    fn new() -> Result<(Packing, Dropping)> {
        let packing = Packing {
            pool: pool(SLOT_BYTES)?,
            packets: Vec::with_capacity(BURST),
        };
        Ok((packing, Dropping))
    }
}

impl Travels for PacketDesc {}

impl Takes for Packing {
    type Item = PacketDesc;

    #[inline(always)]
    fn take_burst(&mut self, first: u64, target: &mut Vec<PacketDesc>) {
        self.pool.take_burst(BURST, &mut self.packets);
        for (packet, number) in self.packets.iter_mut().zip(first..) {
            touch(packet, number);
        }
        target.extend(self.packets.drain(..).map(described));
    }
}

impl TakesOne for Packing {
    #[inline(always)]
    fn take(&mut self, number: u64) -> PacketDesc {
        let mut packet = self.pool.take().expect("most are at home");
        touch(&mut packet, number);
        described(packet)
    }
}

#[inline(always)]
fn described(packet: Packet) -> PacketDesc {
    packet.into_desc().expect("nobody shares it")
}

impl Returns for Dropping {
    type Item = PacketDesc;

    #[inline(always)]
    fn put_back(&mut self, packet: PacketDesc, number: u64) -> bool {
        packet.into_packet().as_slice()[0] == number as u8
    }
}

/// Ours: free slots of this size by the block, not packets.
pub struct ByTheBlock<const SLOT_BYTES: usize>;

/// Takes blocks.
pub struct BlockTaker(Pool);

/// Drops blocks.
pub struct BlockDropper;

impl<const SLOT_BYTES: usize> Across for ByTheBlock<SLOT_BYTES> {
    type Taker = BlockTaker;
    type Returner = BlockDropper;
    type Item = Slots;

    fn new() -> Result<(BlockTaker, BlockDropper)> {
        Ok((BlockTaker(pool(SLOT_BYTES)?), BlockDropper))
    }
}

impl Travels for Slots {
    const BUFFERS: usize = BURST;
}

impl Takes for BlockTaker {
    type Item = Slots;

    #[inline(always)]
    fn take_burst(&mut self, first: u64, target: &mut Vec<Slots>) {
        let mut slots = self.0.take_slots(BURST); // the other end would report fewer
        for (index, number) in (0..slots.len()).zip(first..) {
            let slot = slots.bytes_mut(index).expect("the slot exists");
            write_line(&mut slot[..64], number);
        }
        target.push(slots);
    }
}

impl Returns for BlockDropper {
    type Item = Slots;

    #[inline(always)]
    fn put_back(&mut self, slots: Slots, number: u64) -> bool {
        let each = (0..BURST).zip(number..);
        each.fold(true, |right, (index, number)| {
            let is_right = |slot: &[u8]| slot[0] == number as u8;
            slots.bytes(index).is_some_and(is_right) & right
        })
    }
}

/// An address that is its owner's alone.
pub struct Loan(NonNull<u8>);

// SAFETY: a buffer belongs to the holder of its address, not to a thread.
unsafe impl Send for Loan {}

impl Travels for Loan {}

impl Loan {
    #[inline(always)]
    fn written(mut buffer: NonNull<u8>, number: u64) -> Loan {
        Glibc::touch(&mut buffer, number);
        Loan(buffer)
    }

    #[inline(always)]
    fn look(&self, number: u64) -> bool {
        // SAFETY: the buffer is ours, and `written` wrote its first byte.
        let first = unsafe { self.0.read() };
        first == number as u8
    }
}

impl Across for Glibc {
    type Taker = Glibc;
    type Returner = Glibc;
    type Item = Loan;

    fn new() -> Result<(Glibc, Glibc)> {
        Ok((Glibc, Glibc))
    }
}

impl Takes for Glibc {
    type Item = Loan;

    #[inline(always)]
    fn take_burst(&mut self, first: u64, target: &mut Vec<Loan>) {
        self.take_each(first, target);
    }
}

impl TakesOne for Glibc {
    #[inline(always)]
    fn take(&mut self, number: u64) -> Loan {
        Loan::written(Buffers::take(self), number)
    }
}

impl Returns for Glibc {
    type Item = Loan;

    #[inline(always)]
    fn put_back(&mut self, buffer: Loan, number: u64) -> bool {
        let right = buffer.look(number);
        Buffers::put_back(self, buffer.0);
        right
    }
}

impl Across for FreeRing {
    type Taker = Arc<FreeRing>;
    type Returner = Arc<FreeRing>;
    type Item = Loan;

    fn new() -> Result<(Arc<FreeRing>, Arc<FreeRing>)> {
        let ring = Arc::new(FreeRing::new());
        Ok((ring.clone(), ring))
    }
}

impl Takes for Arc<FreeRing> {
    type Item = Loan;

    #[inline(always)]
    fn take_burst(&mut self, first: u64, target: &mut Vec<Loan>) {
        self.take_each(first, target);
    }
}

impl TakesOne for Arc<FreeRing> {
    #[inline(always)]
    fn take(&mut self, number: u64) -> Loan {
        Loan::written(self.dequeue().expect("most are at home"), number)
    }
}

impl Returns for Arc<FreeRing> {
    type Item = Loan;

    #[inline(always)]
    fn put_back(&mut self, buffer: Loan, number: u64) -> bool {
        let right = buffer.look(number);
        self.enqueue(buffer.0.as_ptr());
        right
    }
}

/// No buffers, only as many bytes as their descriptions have: what is sent is a number, `WORDS` times.
pub struct Bare<const WORDS: usize>;

impl<const WORDS: usize> Travels for [u64; WORDS] {}

impl<const WORDS: usize> Across for Bare<WORDS> {
    type Taker = Bare<WORDS>;
    type Returner = Bare<WORDS>;
    type Item = [u64; WORDS];

    fn new() -> Result<(Bare<WORDS>, Bare<WORDS>)> {
        Ok((Bare, Bare))
    }
}

impl<const WORDS: usize> Takes for Bare<WORDS> {
    type Item = [u64; WORDS];

    #[inline(always)]
    fn take_burst(&mut self, first: u64, target: &mut Vec<[u64; WORDS]>) {
        self.take_each(first, target);
    }
}

impl<const WORDS: usize> TakesOne for Bare<WORDS> {
    #[inline(always)]
    fn take(&mut self, number: u64) -> [u64; WORDS] {
        [number; WORDS]
    }
}

impl<const WORDS: usize> Returns for Bare<WORDS> {
    type Item = [u64; WORDS];

    #[inline(always)]
    fn put_back(&mut self, item: [u64; WORDS], number: u64) -> bool {
        item[WORDS - 1] == number
    }
}
