//! How packets get from the thread that attends the card to the one that processes them: over forebay's ring, with
//! malloc, with a pool, and in batches.

use super::buffer::{BUFFER_BYTES, Buffer};
use anyhow::Result;
use forebay::{
    packet::{PacketDesc, Pool, PoolConfig, return_idle},
    ring::spsc::{self, Consumer, Producer},
    sync::{Park, Spin, Wait},
};
use forebay_net::{packets::copy_frame, port::Frame};
use std::time::Duration;

/// Packets that a path holds, as in the source text's ring.
pub const HELD: usize = 1024;

/// Packets that are processed together.
pub const BATCH: usize = 32;

/// A way from thread to thread.
pub trait Path {
    type Sender: Sender;
    type Receiver: Receiver;

    /// Both ends.
    fn new() -> Result<(Self::Sender, Self::Receiver)>;
}

/// Where frames go in.
pub trait Sender: Send {
    /// Takes a copy of a frame; false where there is no room.
    fn send(&mut self, frame: &Frame<'_>) -> bool;
    /// The packets sent until now are on their way.
    fn flush(&mut self) {}
}

/// Where they come out.
pub trait Receiver: Send {
    /// Shows packets to `process` and lets them go; says how many there were.
    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize;
    /// Whether it sleeps when there is nothing. Else it spins: a guest's processor that is let go of may be gone for
    /// milliseconds.
    const SLEEPS: bool = false;
    /// There was nothing: it may sleep for some milliseconds until something comes.
    fn idle(&mut self) {}
}

/// Buffers from malloc, their addresses over a ring.
pub struct Ringed;

impl Path for Ringed {
    type Sender = Producer<Buffer, Spin>;
    type Receiver = Consumer<Buffer, Spin>;

    fn new() -> Result<(Self::Sender, Self::Receiver)> {
        ring()
    }
}

impl Sender for Producer<Buffer, Spin> {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        self.try_push(Buffer::holding(frame.data)).is_ok()
    }
}

impl Receiver for Consumer<Buffer, Spin> {
    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize {
        let Ok(buffer) = self.try_pop() else { return 0 };
        process(buffer.frame());
        1
    }
}

/// Packets of a pool, one after another over a ring of their descriptors.
pub struct Pooled;

/// The end that owns the pool.
pub struct FromPool<W: Wait = Spin> {
    pool: Pool,
    producer: Producer<PacketDesc, W>,
}

/// The end that drops packets one by one.
pub struct OneByOne(Consumer<PacketDesc, Spin>);

pub fn ring<T: Send, W: Wait>() -> Result<(Producer<T, W>, Consumer<T, W>)> {
    Ok(spsc::ring_with(&spsc::RingConfig {
        capacity: HELD,
        ..spsc::RingConfig::default()
    })?)
}

fn ends<W: Wait>() -> Result<(FromPool<W>, Consumer<PacketDesc, W>)> {
    let (producer, consumer) = ring()?;
    let pool = pool()?;
    Ok((FromPool { pool, producer }, consumer))
}

/// A pool for twice the packets that are held.
pub fn pool() -> Result<Pool> {
    Ok(Pool::new(&PoolConfig {
        slots: 2 * HELD as u32,
        slot_bytes: BUFFER_BYTES as u32,
        ..PoolConfig::default()
    })?)
}

impl Path for Pooled {
    type Sender = FromPool;
    type Receiver = OneByOne;

    fn new() -> Result<(Self::Sender, Self::Receiver)> {
        ends().map(|(sender, consumer)| (sender, OneByOne(consumer)))
    }
}

impl Sender for FromPool {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        let Ok(packet) = copy_frame(&mut self.pool, frame) else {
            return false;
        };
        let Ok(desc) = packet.into_desc() else {
            return false;
        };
        self.producer.try_push(desc).is_ok()
    }
}

impl Receiver for OneByOne {
    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize {
        let Ok(desc) = self.0.try_pop() else { return 0 };
        process(desc.into_packet().as_slice());
        1
    }

    fn idle(&mut self) {
        return_idle();
    }
}

/// The same, processed in batches.
pub struct Batched;

/// The end that processes 32 at a time.
pub struct ManyAtOnce(pub Consumer<PacketDesc, Spin>);

impl Path for Batched {
    type Sender = FromPool;
    type Receiver = ManyAtOnce;

    fn new() -> Result<(Self::Sender, Self::Receiver)> {
        ends().map(|(sender, consumer)| (sender, ManyAtOnce(consumer)))
    }
}

/// The same, sent in batches, too.
pub struct Gathered;

/// The end that gathers what one look at the card gives.
pub struct Gathering<W: Wait = Spin> {
    to: FromPool<W>,
    batch: Vec<PacketDesc>,
}

fn gathering<W: Wait>() -> Result<(Gathering<W>, Consumer<PacketDesc, W>)> {
    ends().map(|(to, consumer)| {
        let batch = Vec::with_capacity(HELD);
        (Gathering { to, batch }, consumer)
    })
}

impl Path for Gathered {
    type Sender = Gathering;
    type Receiver = ManyAtOnce;

    fn new() -> Result<(Self::Sender, Self::Receiver)> {
        gathering().map(|(sender, consumer)| (sender, ManyAtOnce(consumer)))
    }
}

/// The same, and the processing thread sleeps while there are no packets.
pub struct Asleep;

/// The end that processes 32 at a time, and sleeps until there are some.
pub struct Sleeping(Consumer<PacketDesc, Park>);

impl Path for Asleep {
    type Sender = Gathering<Park>;
    type Receiver = Sleeping;

    fn new() -> Result<(Self::Sender, Self::Receiver)> {
        gathering().map(|(sender, consumer)| (sender, Sleeping(consumer)))
    }
}

impl Receiver for Sleeping {
    const SLEEPS: bool = true;

    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize {
        processed(&mut self.0, process)
    }

    fn idle(&mut self) {
        return_idle();
        // With a limit: the end of the run is signalled elsewhere.
        let _ = self.0.wait_filled_timeout(1, Duration::from_millis(5));
    }
}

impl<W: Wait> Sender for Gathering<W> {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        if self.batch.len() == self.to.producer.vacant() {
            return false;
        }
        let kept = copy_frame(&mut self.to.pool, frame).ok();
        let desc = kept.and_then(|packet| packet.into_desc().ok());
        self.batch.extend(desc);
        true
    }

    fn flush(&mut self) {
        // There is room: no more was gathered than was vacant.
        self.to.producer.push_burst(&mut self.batch.drain(..));
    }
}

impl Receiver for ManyAtOnce {
    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize {
        processed(&mut self.0, process)
    }

    fn idle(&mut self) {
        return_idle();
    }
}

/// Shows a batch and lets it go.
pub fn processed<W: Wait>(
    consumer: &mut Consumer<PacketDesc, W>,
    process: &mut impl FnMut(&[u8]),
) -> usize {
    let burst = consumer.peek(BATCH);
    let count = burst.len();
    for desc in burst {
        process(desc.into_packet().as_slice());
    }
    count
}
