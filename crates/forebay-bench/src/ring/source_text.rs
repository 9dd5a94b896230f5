//! The queues of *Device Driver Queues*, with the same loads and stores: its list under a spinlock, and its ring.
//!
//! Its list has no bound; here it holds as many as it has nodes. The nodes are used in rotation, each on a separate line, as the
//! text's buffers are.
//!
//! ```text
//!   list:  first ─▶ │ number, next │ ─▶ │ number, next │ ◀─ last      the holder of the lock moves both
//!   ring:  │ . . │ numbers │ . . │   head: the consumer's, tail: the producer's; one slot stays empty
//! ```

use super::ends::{Pops, Pushes, Ring};
use anyhow::Result;
use forebay::sync::CachePadded;
use std::{
    hint,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// The list under a spinlock.
pub struct Listed;

/// The thread that has set `locked` owns everything else, which is therefore loaded and stored `Relaxed`.
struct List {
    locked: AtomicBool,
    first: AtomicUsize,
    last: AtomicUsize,
    len: AtomicUsize,
    nodes: Box<[CachePadded<Node>]>,
}

#[derive(Default)]
struct Node {
    number: AtomicU64,
    next: AtomicUsize,
}

/// Where a list ends.
const NONE: usize = usize::MAX;

impl List {
    /// Does something with the lock held.
    fn locked<T>(&self, what: impl FnOnce() -> T) -> T {
        while self.locked.swap(true, Acquire) {
            hint::spin_loop();
        }
        let done = what();
        self.locked.store(false, Release);
        done
    }
}

/// The list's producing end, and the node that is used next.
pub struct ListProducer(Arc<List>, usize);

/// The list's consuming end.
pub struct ListConsumer(Arc<List>);

impl Ring for Listed {
    type Producer = ListProducer;
    type Consumer = ListConsumer;

    fn new(capacity: usize) -> Result<(ListProducer, ListConsumer)> {
        let list = Arc::new(List {
            locked: AtomicBool::new(false),
            first: AtomicUsize::new(NONE),
            last: AtomicUsize::new(NONE),
            len: AtomicUsize::new(0),
            nodes: (0..capacity).map(|_| CachePadded::default()).collect(),
        });
        Ok((ListProducer(list.clone(), 0), ListConsumer(list)))
    }
}

impl Pushes for ListProducer {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        let ListProducer(list, free) = self;
        list.locked(|| {
            let len = list.len.load(Relaxed);
            if len == list.nodes.len() {
                return false;
            }
            let node = &list.nodes[*free];
            node.number.store(number, Relaxed);
            node.next.store(NONE, Relaxed);
            match list.last.load(Relaxed) {
                NONE => list.first.store(*free, Relaxed),
                last => list.nodes[last].next.store(*free, Relaxed),
            }
            list.last.store(*free, Relaxed);
            list.len.store(len + 1, Relaxed);
            *free = if *free + 1 < list.nodes.len() {
                *free + 1
            } else {
                0
            };
            true
        })
    }
}

impl Pops for ListConsumer {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        let list = &self.0;
        list.locked(|| {
            let node = list.nodes.get(list.first.load(Relaxed))?; // NONE is no node
            let next = node.next.load(Relaxed);
            list.first.store(next, Relaxed);
            if next == NONE {
                list.last.store(NONE, Relaxed);
            }
            list.len.store(list.len.load(Relaxed) - 1, Relaxed);
            Some(node.number.load(Relaxed))
        })
    }
}

/// The ring, whose positions lie on one line as the text has them.
pub struct Textbook;

/// Either end of the ring: in the source text both are the same.
pub struct TextbookEnd(Arc<TextbookRing>);

struct TextbookRing {
    slots: Box<[AtomicU64]>,
    /// Written by the consumer, read by the producer: below the length.
    head: AtomicU32,
    /// Written by the producer, read by the consumer: below the length.
    tail: AtomicU32,
}

impl Ring for Textbook {
    type Producer = TextbookEnd;
    type Consumer = TextbookEnd;

    fn new(capacity: usize) -> Result<(TextbookEnd, TextbookEnd)> {
        let ring = Arc::new(TextbookRing {
            slots: (0..capacity).map(|_| AtomicU64::default()).collect(),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
        });
        Ok((TextbookEnd(ring.clone()), TextbookEnd(ring)))
    }
}

impl Pushes for TextbookEnd {
    #[inline(always)]
    fn push(&mut self, number: u64) -> bool {
        let TextbookRing { slots, head, tail } = &*self.0;
        let position = tail.load(Relaxed); // our own
        let next = (position + 1) & (slots.len() as u32 - 1);
        if next == head.load(Acquire) {
            return false;
        }
        slots[position as usize].store(number, Relaxed); // published by the next line
        tail.store(next, Release);
        true
    }
}

impl Pops for TextbookEnd {
    #[inline(always)]
    fn pop(&mut self) -> Option<u64> {
        let TextbookRing { slots, head, tail } = &*self.0;
        let position = head.load(Relaxed); // our own
        if position == tail.load(Acquire) {
            return None;
        }
        let number = slots[position as usize].load(Relaxed); // published before the tail
        head.store((position + 1) & (slots.len() as u32 - 1), Release);
        Some(number)
    }
}
