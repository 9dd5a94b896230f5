//! Rings and channels of Rust crates, with our trait; and rigtorp's ring, which is published in C++.

use super::ends::{Pops, Pushes, Ring};
use anyhow::Result;
use crossbeam_queue::ArrayQueue;
use forebay::sync::CachePadded;
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

/// `rtrb`.
pub struct Rtrb;

impl Ring for Rtrb {
    type Producer = rtrb::Producer<u64>;
    type Consumer = rtrb::Consumer<u64>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        Ok(rtrb::RingBuffer::new(capacity))
    }
}

impl Pushes for rtrb::Producer<u64> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        self.push(number).is_ok()
    }

    #[inline(always)]
    fn push_burst(&mut self, numbers: &[u64]) -> usize {
        self.push_partial_slice(numbers).0.len()
    }
}

impl Pops for rtrb::Consumer<u64> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.pop().ok()
    }

    #[inline(always)]
    fn pop_burst(&mut self, numbers: &mut [u64]) -> usize {
        self.pop_partial_slice(numbers).0.len()
    }
}

/// `ringbuf`.
pub struct Ringbuf;

impl Ring for Ringbuf {
    type Producer = HeapProd<u64>;
    type Consumer = HeapCons<u64>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        Ok(HeapRb::new(capacity).split())
    }
}

impl Pushes for HeapProd<u64> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        self.try_push(number).is_ok()
    }

    #[inline(always)]
    fn push_burst(&mut self, numbers: &[u64]) -> usize {
        self.push_slice(numbers)
    }
}

impl Pops for HeapCons<u64> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.try_pop()
    }

    #[inline(always)]
    fn pop_burst(&mut self, numbers: &mut [u64]) -> usize {
        self.pop_slice(numbers)
    }
}

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

/// The standard library's bounded channel, asked without waiting.
pub struct Std;

impl Ring for Std {
    type Producer = mpsc::SyncSender<u64>;
    type Consumer = mpsc::Receiver<u64>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        Ok(mpsc::sync_channel(capacity))
    }
}

impl Pushes for mpsc::SyncSender<u64> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        self.try_send(number).is_ok()
    }
}

impl Pops for mpsc::Receiver<u64> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.try_recv().ok()
    }
}

/// kanal's bounded channel, asked without waiting.
pub struct Kanal;

impl Ring for Kanal {
    type Producer = kanal::Sender<u64>;
    type Consumer = kanal::Receiver<u64>;

    fn new(capacity: usize) -> Result<(Self::Producer, Self::Consumer)> {
        Ok(kanal::bounded(capacity))
    }
}

impl Pushes for kanal::Sender<u64> {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        self.try_send(number).unwrap_or(false)
    }
}

impl Pops for kanal::Receiver<u64> {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        self.try_recv().ok().flatten()
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
