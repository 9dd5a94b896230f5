//! Rings and channels of Rust crates, with our trait; and rigtorp's ring, which is published in C++, and in no registry. Nor is
//! drogalis' ring, which is not measured.

use super::ends::{Pops, Pushes, Ring};
use anyhow::Result;
use crossbeam_queue::ArrayQueue;
use forebay::sync::CachePadded;
use nexus_queue::spsc;
use ringbuf::{
    HeapCons, HeapProd, HeapRb,
    traits::{Consumer, Producer, Split},
};
use std::sync::{
    Arc,
    atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
    mpsc,
};

/// A crate's ring: its ends, how they are made, how one number goes in and out, and bursts where it has them.
macro_rules! ring {
    ($(#[$doc:meta])* $name:ident, $producer:ty, $consumer:ty, $make:expr, $push:expr, $pop:expr
     $(, $push_burst:expr, $pop_burst:expr)?) => {
        $(#[$doc])*
        pub struct $name;

        impl Ring for $name {
            type Producer = $producer;
            type Consumer = $consumer;

            fn new(capacity: usize) -> Result<($producer, $consumer)> {
                Ok($make(capacity))
            }
        }

        impl Pushes for $producer {
            #[inline(always)]
            fn push(&mut self, number: u64) -> bool {
                $push(self, number)
            }
            $(#[inline(always)]
            fn push_burst(&mut self, numbers: &[u64]) -> usize {
                $push_burst(self, numbers)
            })?
        }

        impl Pops for $consumer {
            #[inline(always)]
            fn pop(&mut self) -> Option<u64> {
                $pop(self)
            }
            $(#[inline(always)]
            fn pop_burst(&mut self, numbers: &mut [u64]) -> usize {
                $pop_burst(self, numbers)
            })?
        }
    };
}

ring!(
    /// `rtrb`.
    Rtrb, rtrb::Producer<u64>, rtrb::Consumer<u64>, rtrb::RingBuffer::new,
    |end: &mut rtrb::Producer<u64>, number| end.push(number).is_ok(),
    |end: &mut rtrb::Consumer<u64>| end.pop().ok(),
    |end: &mut rtrb::Producer<u64>, numbers| end.push_partial_slice(numbers).0.len(),
    |end: &mut rtrb::Consumer<u64>, numbers| end.pop_partial_slice(numbers).0.len()
);
ring!(
    /// `ringbuf`.
    Ringbuf, HeapProd<u64>, HeapCons<u64>, |capacity| HeapRb::new(capacity).split(),
    |end: &mut HeapProd<u64>, number| end.try_push(number).is_ok(),
    |end: &mut HeapCons<u64>| end.try_pop(),
    |end: &mut HeapProd<u64>, numbers| end.push_slice(numbers),
    |end: &mut HeapCons<u64>, numbers| end.pop_slice(numbers)
);
ring!(
    /// `nexus-queue`'s ring. It has no bursts.
    Nexus, spsc::Producer<u64>, spsc::Consumer<u64>, spsc::ring_buffer,
    |end: &mut spsc::Producer<u64>, number| spsc::Producer::push(end, number).is_ok(),
    |end: &mut spsc::Consumer<u64>| spsc::Consumer::pop(end)
);
ring!(
    /// The standard library's bounded channel, asked without waiting.
    Std, mpsc::SyncSender<u64>, mpsc::Receiver<u64>, mpsc::sync_channel,
    |end: &mut mpsc::SyncSender<u64>, number| end.try_send(number).is_ok(),
    |end: &mut mpsc::Receiver<u64>| end.try_recv().ok()
);
ring!(
    /// kanal's bounded channel, asked without waiting.
    Kanal, kanal::Sender<u64>, kanal::Receiver<u64>, kanal::bounded,
    |end: &mut kanal::Sender<u64>, number| end.try_send(number).unwrap_or(false),
    |end: &mut kanal::Receiver<u64>| end.try_recv().ok().flatten()
);

/// crossbeam's queue between many threads.
pub struct Crossbeam;

impl Ring for Crossbeam {
    type Producer = Arc<ArrayQueue<u64>>;
    type Consumer = Arc<ArrayQueue<u64>>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        let queue = Arc::new(ArrayQueue::new(capacity));
        Ok((queue.clone(), queue))
    }
}

impl Pushes for Arc<ArrayQueue<u64>> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        ArrayQueue::push(self, number).is_ok()
    }
}

impl Pops for Arc<ArrayQueue<u64>> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        ArrayQueue::pop(self)
    }
}

/// rigtorp's `SPSCQueue`, as he describes it: positions below the number of slots, one slot more than the capacity, each
/// end's copy of the other's position on a separate line. It has no bursts.
pub struct Rigtorp;

/// The producer, and its copy of where the consumer is.
pub struct RigtorpProducer(Arc<Queue>, CachePadded<usize>);

/// The consumer, and its copy of where the producer is.
pub struct RigtorpConsumer(Arc<Queue>, CachePadded<usize>);

struct Queue {
    /// Written by the producer, read by the consumer.
    write: CachePadded<AtomicUsize>,
    /// Written by the consumer, read by the producer.
    read: CachePadded<AtomicUsize>,
    slots: Box<[AtomicU64]>,
}

impl Queue {
    #[inline(always)]
    fn behind(&self, position: usize) -> usize {
        let next = position + 1;
        if next == self.slots.len() { 0 } else { next }
    }
}

impl Ring for Rigtorp {
    type Producer = RigtorpProducer;
    type Consumer = RigtorpConsumer;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        let queue = Arc::new(Queue {
            write: CachePadded::default(),
            read: CachePadded::default(),
            slots: (0..=capacity).map(|_| AtomicU64::default()).collect(),
        });
        Ok((
            RigtorpProducer(queue.clone(), CachePadded(0)),
            RigtorpConsumer(queue, CachePadded(0)),
        ))
    }
}

impl Pushes for RigtorpProducer {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        let RigtorpProducer(queue, CachePadded(read)) = self;
        let position = queue.write.load(Relaxed); // our own
        let next = queue.behind(position);
        if next == *read {
            *read = queue.read.load(Acquire);
            if next == *read {
                return false;
            }
        }
        queue.slots[position].store(number, Relaxed); // published by the next line
        queue.write.store(next, Release);
        true
    }
}

impl Pops for RigtorpConsumer {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        let RigtorpConsumer(queue, CachePadded(write)) = self;
        let position = queue.read.load(Relaxed); // our own
        if position == *write {
            *write = queue.write.load(Acquire);
            if position == *write {
                return None;
            }
        }
        let number = queue.slots[position].load(Relaxed); // published before the position that was acquired
        queue.read.store(queue.behind(position), Release);
        Some(number)
    }
}
