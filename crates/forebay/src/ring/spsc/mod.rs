//! A bounded ring of elements from one producer to one consumer: bursts in one slice, every slot usable.
//!
//! [`ring`] makes the two ends; a [`Producer`] reserves and commits, a [`Consumer`] peeks and releases. This room
//! touches slots; orderings are in `ring::cursor`, memory in `ring::slots`. It imports `memory` and `sync`. Read
//! `producer` next, then `consumer`.
//!
//! ```text
//!  Producer                     slots (mirror)                       Consumer
//!  reserve(n) ─▶ Reserved ─▶ │ . . │ 4 5 6 7 │ . . . │ ─▶ Peeked ◀─ peek(n)
//!     fill / commit(k)               │         │             release(k) / into_iter
//!         └── PUBLISH: tail ─────────┼────────▶               │
//!         ◀──── CREDIT: head ────────┘◀───────────────────────┘
//! ```
//!
//! Every push and every burst is published at once: nothing waits for a flush. Each end keeps a private copy of the
//! other's position and looks again only when it seems full or empty; such a look may pause for up to 1.6 µs where
//! that lets more come together, and the consumer evicts the lines that it has read where that lets the producer write faster
//! (`latency: true` does neither).
//!
//! Who pushes or pops in a loop should have the end in a local variable of the function with the loop: the compiler keeps it in
//! registers there, where behind a reference, or among what a closure captured, it is loaded and stored for each element.
//!
//! ```
//! let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u32>(1024)?;
//! assert_eq!(producer.reserve(100).fill(0..100), 100);
//! producer.push(100).unwrap();
//! let burst = consumer.peek(usize::MAX);
//! assert_eq!(burst.iter().sum::<u32>(), 5050);
//! burst.release(101);
//! assert_eq!(consumer.pop(), None);
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): a forgotten [`Reserved`] or [`Peeked`] changes nothing. The elements that a forgotten [`Drain`]
//!   gave are taken, once; the producer gets their slots back later. A forgotten end leaks the ring and its elements, and the
//!   other end never learns that it is gone.
//! - **Panics**: [`Reserved::fill`] publishes what its source gave before it panicked. If the `Drop` of an element panics, the
//!   other elements of the burst are dropped all the same, each once. An end can be used after a caught panic.
//! - **Lies**: nothing relies on `size_hint` or `ExactSizeIterator::len` of a source, nor on what an own
//!   [`Wait`] reports: the ring looks at its positions.
//! - **`fork`**: the slots are not mapped in a forked child. A child that touches one gets `SIGSEGV`, and one that drops both ends
//!   may unmap what it mapped there since. Between `fork` and `exec` leave both ends alone.
//! - **Signal handlers**: no call here is async-signal-safe. A handler may have interrupted a call of the same end.
#![allow(unsafe_code)]

mod consumer;
mod producer;

#[cfg(test)]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use consumer::Taken;
pub use consumer::{Consumer, Drain, Peeked, PopError};
pub use producer::{Full, Producer, PushError, Reserved};

use super::{
    evictor::Evictor,
    looker::{Looker, Pauses},
    slots::{Slots, Stand},
    state::{PRODUCER_GONE, State},
};
use crate::{
    Error, Result,
    memory::MapConfig,
    sync::{
        Arc, CachePadded, Spin, Wait,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};
use std::{cell::UnsafeCell, panic::RefUnwindSafe, ptr};

/// What a ring is to be like.
///
/// ```
/// use forebay::{ring::spsc::{ring_with, Config}, sync::Spin};
/// let config = Config { capacity: 1000, latency: true, ..Config::default() };
/// let (producer, _consumer) = ring_with::<[u8; 3], Spin>(&config)?;
/// assert_eq!(producer.capacity(), 1000); // exactly
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Slots, all of them usable: 1 or more; 1024 by default.
    pub capacity: usize,
    /// Make the memory present when the ring is made (the default), so that no first touch stops a thread later, in either view.
    pub populate: bool,
    /// Ask for pages of 2 MiB where the ring is that large; [`Producer::huge_pages`] says what was got.
    pub huge_pages: bool,
    /// Never pause before looking at the other end's position, nor evict what was read: shortest way for a single item, fewer
    /// items a second.
    pub latency: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            capacity: 1024,
            populate: true,
            huge_pages: false,
            latency: false,
        }
    }
}

impl Config {
    /// Checks what can be checked without the kernel.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn validate(&self) -> Result<()> {
        match self.capacity {
            0 => Err(Error::new("ring", "making a ring of 0 slots")
                .advise("Ask for a capacity of at least 1")),
            _ => Ok(()),
        }
    }
}

/// Makes a ring of exactly `capacity` slots whose ends spin when they wait.
///
/// Elements may have any size; their alignment is at most 4096 bytes, which the compiler checks:
///
/// ```compile_fail
/// #[repr(align(8192))]
/// struct TooAligned;
/// let ring = forebay::ring::spsc::ring::<TooAligned>(1);
/// ```
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring(2)?;
/// producer.push("a").unwrap();
/// producer.push("b").unwrap();
/// assert_eq!(producer.push("c").unwrap_err().0, "c"); // full: it comes back
/// assert_eq!(consumer.pop(), Some("a"));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Capacity 0, or no memory or maps for it: see [`Mirror::new`](crate::memory::Mirror::new).
pub fn ring<T: Send>(capacity: usize) -> Result<(Producer<T>, Consumer<T>)> {
    ring_with::<T, Spin>(&Config {
        capacity,
        ..Config::default()
    })
}

/// Makes a ring as `config` says, whose ends wait by `W`.
///
/// ```
/// use forebay::{ring::spsc::{ring_with, Config}, sync::Park};
/// let (mut producer, mut consumer) = ring_with::<String, Park>(&Config::default())?;
/// let reader = std::thread::spawn(move || consumer.pop_wait(None));
/// producer.push("hello".to_string()).unwrap();
/// assert_eq!(reader.join().unwrap(), Ok("hello".to_string()));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// As [`ring`].
pub fn ring_with<T: Send, W: Wait>(config: &Config) -> Result<(Producer<T, W>, Consumer<T, W>)> {
    config.validate()?;
    let memory = MapConfig {
        populate: config.populate,
        huge_pages: config.huge_pages,
    };
    let (looker, pauses) = Looker::new(config.capacity, config.latency);
    let evictor = Evictor::new(config.capacity, size_of::<T>(), config.latency);
    let shared = Arc::new(Shared {
        tail: Side::new()?,
        head: Side::new()?,
        state: CachePadded::default(),
        producers: CachePadded(looker.clone().into()),
        consumers: CachePadded(Learned { looker, evictor }.into()),
        capacity: config.capacity,
        slots: Slots::new(config.capacity, &memory)?,
    });
    let producer = Producer::new(shared.clone(), pauses);
    let consumer = Consumer::new(shared, pauses);
    Ok((producer, consumer))
}

/// What one end tells the other: its position.
///
/// Where the other end waits for it lies on the same cache lines, since whoever stores a position then asks whether
/// anybody waits for that: a publication touches one line beside the slots.
#[derive(Debug)]
struct Side<W> {
    /// Written by this end, read by the other: free-running.
    position: AtomicUsize,
    /// Written by this end when it is dropped, read by whoever drops the ring: its place's offset, in bytes.
    offset: AtomicUsize,
    /// Where the other end waits; woken by this end.
    waits: W,
}

impl<W: Wait> Side<W> {
    fn new() -> Result<CachePadded<Self>> {
        Ok(CachePadded(Side {
            position: AtomicUsize::default(),
            offset: AtomicUsize::default(),
            waits: W::new()?,
        }))
    }
}

/// What both ends own; whoever goes last drops it, and with it the elements that are left.
#[derive(Debug)]
struct Shared<T, W> {
    /// The producer's side: edge PUBLISH. The consumer waits here.
    tail: CachePadded<Side<W>>,
    /// The consumer's side: edge CREDIT. The producer waits here.
    head: CachePadded<Side<W>>,
    /// Written by an end that ends something, read by the other: edge END.
    state: CachePadded<State>,
    /// What the producer has learned from its looks: touched by it alone. It lies here so that an end is small, and may live in
    /// registers.
    producers: CachePadded<UnsafeCell<Looker>>,
    /// What the consumer has learned: touched by it alone.
    consumers: CachePadded<UnsafeCell<Learned>>,
    capacity: usize,
    slots: Slots<T>,
}

// What is in the cells only tells when to look: whatever it is, a caught panic leaves the ring as whole as it was.
impl<T, W: RefUnwindSafe> RefUnwindSafe for Shared<T, W> where Slots<T>: RefUnwindSafe {}

/// What a consumer has learned from its looks.
#[derive(Debug)]
struct Learned {
    looker: Looker,
    evictor: Evictor,
}

impl Learned {
    /// A look found `newly`, so that `come` have come in all; those before where the consumer stands were read.
    #[inline(never)]
    fn found(&mut self, newly: usize, come: usize, stand: Stand) -> Pauses {
        if self.evictor.is_due(come) {
            self.evictor.reached(come, stand);
        }
        self.looker.learned(newly)
    }
}

/// The last word of an end, whose bit is `gone` and whose place stands at `offset`.
///
/// A call, and of values: an end of which no function is handed a pointer can live in registers, in a loop too.
#[inline(never)]
fn leave<T, W: Wait>(shared: Arc<Shared<T, W>>, gone: u32, offset: usize) {
    let side = match gone {
        PRODUCER_GONE => &shared.tail,
        _ => &shared.head,
    };
    side.offset.store(offset, Relaxed); // ordered by the reference count
    shared.state.set(gone);
    side.waits.wake();
}

impl<T, W> Drop for Shared<T, W> {
    fn drop(&mut self) {
        // Relaxed: both ends are gone, and the reference count has ordered what they did before us.
        let head = self.head.position.load(Relaxed);
        let left = self.tail.position.load(Relaxed).wrapping_sub(head);
        let mut place = self.slots.place(self.head.offset.load(Relaxed));
        place.settle();
        self.slots.will_write(head, left);
        let run = place.run(left);
        let first = ptr::slice_from_raw_parts_mut(place.slot(), run);
        place.advance(run);
        // The rest is dropped also when a Drop in the first run panics. It is empty with a mirror.
        let _rest = DropRun(ptr::slice_from_raw_parts_mut(place.slot(), left - run));
        drop(DropRun(first));
    }
}

/// Elements to drop in place, exactly once; those behind one whose Drop panics are dropped too.
struct DropRun<T>(*mut [T]);

impl<T> Drop for DropRun<T> {
    fn drop(&mut self) {
        // SAFETY: whoever makes one owns the elements and never touches them again.
        unsafe { ptr::drop_in_place(self.0) }
    }
}
