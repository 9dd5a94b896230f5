//! Who takes buffers in one thread, and who returns them in another: ours, the C library's heap, a ring of free ones.
#![allow(unsafe_code)]

use super::{
    BURST,
    rivals::{Buffers, FreeRing, Glibc, PutBack, pool},
};
use anyhow::Result;
use forebay::packet::{Packet, PacketDesc, Pool};
use std::{ptr::NonNull, sync::Arc};

/// The thread that takes buffers and writes the first 64 bytes of each. They never run out here: at most 256 are on their way,
/// and a burst or two at either end.
pub trait Takes: Send {
    /// A buffer on its way.
    type Buffer: Send;

    fn take(&mut self, number: u64) -> Self::Buffer;

    /// So many, with the numbers from `first` on.
    #[inline(always)]
    fn take_burst(&mut self, n: usize, first: u64, target: &mut Vec<Self::Buffer>) {
        target.extend((first..first + n as u64).map(|number| self.take(number)));
    }
}

/// The thread that looks at each and returns it.
pub trait Returns: Send {
    /// A buffer on its way.
    type Buffer: Send;

    /// Says whether it was written with that number.
    fn put_back(&mut self, buffer: Self::Buffer, number: u64) -> bool;

    /// All in `burst`, with the numbers from `first` on; says whether all were written with theirs.
    #[inline(always)]
    fn put_back_burst(&mut self, burst: &mut Vec<Self::Buffer>, first: u64) -> bool {
        let each = burst.drain(..).zip(first..);
        each.fold(true, |right, (buffer, number)| {
            self.put_back(buffer, number) & right
        })
    }
}

/// A pool with its two ends.
pub trait Across {
    /// The end that takes.
    type Taker: Takes<Buffer = Self::Buffer>;
    /// The end that returns.
    type Returner: Returns<Buffer = Self::Buffer>;
    /// A buffer on its way.
    type Buffer: Send;

    /// Both ends of a new one.
    ///
    /// # Errors
    /// No memory for it.
    fn new() -> Result<(Self::Taker, Self::Returner)>;
}

/// Ours: packets in slots of so many bytes, whose descriptions travel.
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
    type Buffer = PacketDesc;

    fn new() -> Result<(Packing, Dropping)> {
        let packing = Packing {
            pool: pool(SLOT_BYTES)?,
            packets: Vec::with_capacity(BURST),
        };
        Ok((packing, Dropping))
    }
}

impl Takes for Packing {
    type Buffer = PacketDesc;

    #[inline(always)]
    fn take(&mut self, number: u64) -> PacketDesc {
        let mut packet = self.pool.take().expect("most are at home");
        PutBack::touch(&mut packet, number);
        described(packet)
    }

    #[inline(always)]
    fn take_burst(&mut self, n: usize, first: u64, target: &mut Vec<PacketDesc>) {
        self.pool.take_burst(n, &mut self.packets);
        for (packet, number) in self.packets.iter_mut().zip(first..) {
            PutBack::touch(packet, number);
        }
        target.extend(self.packets.drain(..).map(described));
    }
}

#[inline(always)]
fn described(packet: Packet) -> PacketDesc {
    packet.into_desc().expect("nobody shares it")
}

impl Returns for Dropping {
    type Buffer = PacketDesc;

    #[inline(always)]
    fn put_back(&mut self, buffer: PacketDesc, number: u64) -> bool {
        buffer.into_packet().as_slice()[0] == number as u8
    }
}

/// An address that is its owner's alone.
pub struct Loan(NonNull<u8>);

// SAFETY: a buffer belongs to whoever has its address, and to no thread.
unsafe impl Send for Loan {}

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
    type Buffer = Loan;

    fn new() -> Result<(Glibc, Glibc)> {
        Ok((Glibc, Glibc))
    }
}

impl Takes for Glibc {
    type Buffer = Loan;

    #[inline(always)]
    fn take(&mut self, number: u64) -> Loan {
        Loan::written(Buffers::take(self), number)
    }
}

impl Returns for Glibc {
    type Buffer = Loan;

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
    type Buffer = Loan;

    fn new() -> Result<(Arc<FreeRing>, Arc<FreeRing>)> {
        let ring = Arc::new(FreeRing::new());
        Ok((ring.clone(), ring))
    }
}

impl Takes for Arc<FreeRing> {
    type Buffer = Loan;

    #[inline(always)]
    fn take(&mut self, number: u64) -> Loan {
        Loan::written(self.dequeue().expect("most are at home"), number)
    }
}

impl Returns for Arc<FreeRing> {
    type Buffer = Loan;

    #[inline(always)]
    fn put_back(&mut self, buffer: Loan, number: u64) -> bool {
        let right = buffer.look(number);
        self.enqueue(buffer.0.as_ptr());
        right
    }
}

/// No buffers, only as many bytes as their descriptions have: what is sent is a number, `WORDS` times.
pub struct Bare<const WORDS: usize>;

impl<const WORDS: usize> Across for Bare<WORDS> {
    type Taker = Bare<WORDS>;
    type Returner = Bare<WORDS>;
    type Buffer = [u64; WORDS];

    fn new() -> Result<(Bare<WORDS>, Bare<WORDS>)> {
        Ok((Bare, Bare))
    }
}

impl<const WORDS: usize> Takes for Bare<WORDS> {
    type Buffer = [u64; WORDS];

    #[inline(always)]
    fn take(&mut self, number: u64) -> [u64; WORDS] {
        [number; WORDS]
    }
}

impl<const WORDS: usize> Returns for Bare<WORDS> {
    type Buffer = [u64; WORDS];

    #[inline(always)]
    fn put_back(&mut self, buffer: [u64; WORDS], number: u64) -> bool {
        buffer[WORDS - 1] == number
    }
}
