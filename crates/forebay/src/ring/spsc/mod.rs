//! A bounded ring of elements from one producer to one consumer. By default, waiting puts the thread to sleep.
//!
//! [`ring`] makes the two ends, and [`ring_with`] also chooses how they wait. All slots can be filled. A burst, that is, several
//! elements at once, is one slice.
//!
//! | Operation | Producer | Consumer |
//! |---|---|---|
//! | one element, does not block | [`try_push`](Producer::try_push) | [`try_pop`](Consumer::try_pop), [`try_iter`](Consumer::try_iter) |
//! | one element, blocks | [`push`](Producer::push), `push_timeout`, `push_deadline` | [`pop`](Consumer::pop), `pop_timeout`, `pop_deadline`, [`iter`](Consumer::iter) |
//! | one element, `async` (with [`Task`](crate::sync::Task)) | `push`, `until_vacant` | `pop`, `until_filled` |
//! | a burst of up to `n`, does not block | [`reserve`](Producer::reserve), `push_slice`, `push_burst` | [`peek`](Consumer::peek), `pop_slice` |
//! | a descriptor for poll loops (with [`Eventfd`](crate::sync::Eventfd)) | `arm`, `arm_for`, `disarm`, `as_fd` | `arm`, `arm_for`, `disarm`, `as_fd` |
//! | block until a burst is possible | [`wait_vacant`](Producer::wait_vacant), `…_timeout`, `…_deadline` | [`wait_filled`](Consumer::wait_filled), `…_timeout`, `…_deadline` |
//!
//! ```text
//!  Producer                     slots (mirror)                       Consumer
//!  reserve(n) ─▶ Reserved ─▶ │ . . │ 4 5 6 7 │ . . . │ ─▶ Peeked ◀─ peek(n)
//!     fill / commit(k)               │         │             release(k) / into_iter
//!         └── tail: what was pushed ─┼────────▶               │
//!         ◀── head: what was taken ──┘◀───────────────────────┘
//! ```
//!
//! Once the consumer is gone, bursts are empty, and `push` and `try_push` return [`Closed`](PushError::Closed) with the element. To cost
//! no more than a push, these two look at the consumer only when the producer has used the slots that it knows to be vacant. Once the producer is gone, the consumer gets the elements that are left, and then `Closed`.
//!
//! Every push and every burst is visible to the other end at once; there is no flush. Each end keeps a private copy of the other's
//! position, and loads this position again only when the ring seems full or empty. Two optimisations raise the throughput:
//!
//! - Before it loads the other's position, an end may pause for up to about 1.6 µs, also in calls that do not block. It stops
//!   pausing if it then does not find more elements at a time. The ends of a ring of bytes do not pause.
//! - The consumer evicts the cache lines that it has read, if that lets the producer write faster.
//!
//! [`RingConfig::latency`] disables both.
//!
//! In a tight loop, keep the end in a local variable of the function that contains the loop, so that the compiler keeps it in
//! registers. An end that is accessed through a reference or a closure is loaded and stored for each element.
//!
//! ```
//! let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u32>(1024)?;
//! assert_eq!(producer.reserve(100).fill(0..100), 100);
//! producer.try_push(100).unwrap();
//! let burst = consumer.peek(usize::MAX);
//! assert_eq!(burst.iter().sum::<u32>(), 5050);
//! burst.release(101);
//! assert!(consumer.try_pop().is_err());
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): a forgotten [`Reserved`] or [`Peeked`] changes nothing. Elements that a [`Drain`] (from
//!   [`Peeked::into_iter`]) returned before it was forgotten are gone; the producer gets their slots back with the next elements
//!   that the consumer takes, or when it is dropped. A forgotten end leaks the ring and its
//!   elements, and the other end waits for it as if it were still in use.
//! - **Panics**: [`Reserved::fill`] publishes the elements that its source returned before it panicked. If the `Drop` of an
//!   element panics, the other elements of the burst are still dropped, each once. An end can be used after a caught panic.
//! - **Wrong implementations**: the ring does not rely on `size_hint` or `ExactSizeIterator::len` of a source, nor on the result
//!   of a user-defined [`Wait`]. It always checks its positions.
//! - **`fork`**: the slots are not mapped in a forked child. A child that touches one gets `SIGSEGV`. If the child
//!   has mapped other memory at their addresses since, dropping both ends unmaps that memory. Do not use or drop either end between `fork` and `exec`.
//! - **Signal handlers**: no call here is async-signal-safe. The handler may have interrupted a call of the same end.

mod consumer;
mod drop_run;
mod error;
mod peeked;
mod producer;
#[cfg(not(any(loom, miri, forebay_one_view)))]
mod raw;
mod ready;
mod reserved;
mod shared;
mod stats;
mod task;
mod waiting;

#[cfg(all(test, not(loom)))]
mod drop_tests;
#[cfg(test)]
mod models;
#[cfg(all(test, not(loom)))]
mod oracle_tests;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod thread_tests;

pub use consumer::Consumer;
pub use error::{Closed, PopError, PushError, WaitError};
pub(crate) use peeked::Taken;
pub use peeked::{Drain, Peeked};
pub use producer::Producer;
#[cfg(not(any(loom, miri, forebay_one_view)))]
pub use raw::{CatchUp, ForeignEnd, RawEnd};
pub use reserved::Reserved;
pub use stats::RingStats;
pub use waiting::IntoIter;

use super::{slots::Slots, tuning};
use crate::{
    Error, Result,
    memory::MapConfig,
    sync::{Arc, CachePadded, Park, Wait},
};
use shared::{Own, Shared, Side};

/// Settings of a ring.
///
/// ```
/// use forebay::{ring::spsc::{ring_with, RingConfig}, sync::Spin};
/// let config = RingConfig { capacity: 1000, latency: true, ..RingConfig::default() };
/// let (producer, _consumer) = ring_with::<[u8; 3], Spin>(&config)?;
/// assert_eq!(producer.capacity(), 1000); // exactly
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Number of slots, all usable: 1 or more; 1024 by default.
    pub capacity: usize,
    /// Fault the memory in when the ring is made (the default), in both views, so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB if the ring is that large; [`Producer::huge_pages`] reports what it got.
    pub huge_pages: bool,
    /// Never pause before loading the other end's position, and never evict. This is the lowest latency for single items, but
    /// fewer items per second.
    pub latency: bool,
}

impl Default for RingConfig {
    fn default() -> Self {
        RingConfig {
            capacity: 1024,
            populate: true,
            huge_pages: false,
            latency: false,
        }
    }
}

impl RingConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn validate(&self) -> Result<()> {
        match self.capacity {
            0 => Err(Error::invalid("ring", "making a ring of 0 slots")
                .advise("Ask for a capacity of at least 1")),
            _ => Ok(()),
        }
    }
}

/// Makes a ring of exactly `capacity` slots. Its ends sleep while they wait ([`Park`]), like those of
/// [`stream`](crate::stream::stream).
///
/// [`Spin`](crate::sync::Spin) costs less per element and occupies a processor while it waits: see [`ring_with`].
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
/// assert_eq!(producer.try_push("c").unwrap_err().into_inner(), "c"); // full: the error returns it
/// assert_eq!(consumer.pop(), Ok("a"));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Capacity 0, or not enough memory or memory maps: see [`Mirror::new`](crate::memory::Mirror::new).
pub fn ring<T: Send>(capacity: usize) -> Result<(Producer<T>, Consumer<T>)> {
    ring_with::<T, Park>(&RingConfig {
        capacity,
        ..RingConfig::default()
    })
}

/// Makes a ring with the settings `config`. Its ends wait by `W`: [`Spin`](crate::sync::Spin) never sleeps, [`Park`] sleeps,
/// [`Eventfd`](crate::sync::Eventfd) sleeps in `poll(2)`, and [`Task`](crate::sync::Task) is for async runtimes.
///
/// ```
/// use forebay::{ring::spsc::{ring_with, RingConfig}, sync::Spin};
/// let (mut producer, mut consumer) = ring_with::<String, Spin>(&RingConfig::default())?;
/// let reader = std::thread::spawn(move || consumer.pop());
/// producer.push("hello".to_string()).unwrap();
/// assert_eq!(reader.join().unwrap(), Ok("hello".to_string()));
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Those of [`ring`].
pub fn ring_with<T: Send, W: Wait>(
    config: &RingConfig,
) -> Result<(Producer<T, W>, Consumer<T, W>)> {
    config.validate()?;
    let memory = MapConfig {
        populate: config.populate,
        huge_pages: config.huge_pages,
    };
    let (pause, producers, consumers) = tuning::start::<T>(config.capacity, config.latency);
    let shared = Arc::new(Shared {
        tail: Side::new()?,
        head: Side::new()?,
        state: CachePadded::default(),
        producers: CachePadded(Own::new(producers)),
        consumers: CachePadded(Own::new(consumers)),
        capacity: config.capacity,
        slots: Slots::new(config.capacity, &memory)?,
    });
    let producer = Producer::new(shared.clone(), pause);
    let consumer = Consumer::new(shared, pause);
    Ok((producer, consumer))
}
