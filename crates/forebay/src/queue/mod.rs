//! A bounded queue of messages of any size, from many senders to many receivers. Each message goes to one receiver. Receivers take
//! messages in the order in which senders reserved room for them.
//!
//! [`queue`](queue()) makes such a queue between threads, with a [`Sender`] and a [`Receiver`] that can be cloned. Other modules
//! have other kinds:
//!
//! - [`spsc`]: faster, because it has no locks, but for exactly one sender and one receiver.
//! - [`shared`]: between processes that trust each other (cargo feature `shared`, on by default).
//! - [`lanes`]: from processes that are not trusted (cargo feature `lanes`, off by default).
//!
//! A poll loop can wait for a queue with a [`Watch`], and an async task with an [`AsyncSender`] or [`AsyncReceiver`]. [`spsc`] has
//! ends for tasks, too.
//!
//! ```text
//!  Sender ─┐ reserve(len) ─▶ fill ─▶ commit                           ┌─▶ recv(&mut buffer)      Receiver
//!  Sender ─┼─▶ │ vacant │ read │ being read │ 5 bytes │ being filled │ … ┼─▶ take() ─▶ borrowed,    Receiver
//!  Sender ─┘            free              head                       tail └─▶  released on drop      Receiver
//! ```
//!
//! Each call has up to four forms, named as in `std::sync::mpsc` and crossbeam-channel: `send` waits as long as necessary,
//! `try_send` does not wait, `send_timeout` waits for a [`Duration`](std::time::Duration), and `send_deadline` until an
//! [`Instant`](std::time::Instant).
//!
//! Every message is contiguous in [mirrored memory](crate::memory), after a header of 16 bytes, and can be filled and read in
//! place. Room is freed in order: while a receiver keeps a message, the room of this message and of all later ones is not reused.
//!
//! ```
//! let (sender, receiver) = forebay::queue::queue(4096)?;
//! let workers: Vec<_> = (0..3)
//!     .map(|_| {
//!         let receiver = receiver.clone();
//!         std::thread::spawn(move || {
//!             let mut bytes = 0;
//!             while let Ok(message) = receiver.take() {
//!                 bytes += message.len(); // read in place
//!             }
//!             bytes
//!         })
//!     })
//!     .collect();
//! for text in ["one", "two", "three"] {
//!     sender.send(text.as_bytes()).unwrap();
//! }
//! drop(sender); // the last one: receivers get what is left, and then the end
//! assert_eq!(workers.into_iter().map(|worker| worker.join().unwrap()).sum::<usize>(), 11);
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! # Misuse
//!
//! - **Forgetting** (`mem::forget`): a forgotten [`Reserved`] blocks the delivery of all later messages. A forgotten [`Message`] or
//!   [`Burst`] keeps its room, and no room after it can be used again: the queue fills up. A forgotten [`Sender`] or [`Receiver`] keeps the queue
//!   open. A forgotten [`Watch`] leaks its descriptor. In all these cases memory stays safe, and no message is delivered twice.
//! - **Panics** between a reservation and its commit abort the message; receivers skip it. A panic while a message is held
//!   releases its room. No lock is poisoned, because code of the caller does not run while a lock is held.
//! - **Inconsistent `AsRef`**: an `as_ref` that panics, uses the queue, or returns other bytes each time does no harm. A call that
//!   sends uses `as_ref` once for each message, before it takes a lock.
//! - **From a `Drop`** or another destructor, all calls work as elsewhere, also while the thread panics.
//! - **Wakers**: the waker of a task runs inside another thread's call to the queue. It may use the queue, but only by calls that
//!   do not wait.
//! - **From a signal handler**, no call may be made: the handler may have interrupted its own thread inside a lock, and a call
//!   without a time limit would then wait forever. Write to a pipe or an eventfd, and send from a thread that reads it.
//! - **In a forked child**, the memory of messages is missing: do not use or drop inherited values of this module. The child
//!   would die of `SIGSEGV`, or unmap memory that it has mapped at these addresses since. Let it call `exec` or
//!   `_exit`; if it needs queues itself, it can make them after the fork.

#[cfg_attr(not(feature = "shared"), allow(dead_code))]
mod bytes;
#[cfg_attr(not(feature = "shared"), allow(dead_code))]
mod control;
#[cfg_attr(not(feature = "shared"), allow(dead_code))]
mod control_memory;
mod copy;
mod core;
mod error;
mod event;
mod frame;
#[cfg_attr(not(feature = "shared"), allow(dead_code))]
mod handles;
#[cfg(feature = "lanes")]
pub mod lanes;
mod lock;
mod peers;
mod query;
mod receiver;
mod recover;
mod sender;
#[cfg(all(feature = "shared", not(loom)))]
pub mod shared;
pub mod spsc;
mod task;
mod waiting;
mod watch;

#[cfg(all(test, feature = "shared", not(any(loom, miri))))]
mod misuse_tests;
#[cfg(test)]
mod models;
#[cfg(all(test, loom))]
mod recovery_models;
#[cfg(all(test, feature = "shared", not(loom)))]
mod shared_tests;
#[cfg(all(test, not(loom)))]
mod task_tests;
#[cfg(all(test, not(loom)))]
mod tests;

pub use error::{RecvError, SendError, StatsError};
pub use receiver::{Burst, Message, Received, Receiver};
pub use sender::{Reserved, Sender};
pub use task::{AsyncReceiver, AsyncSender};
pub use watch::Watch;

use crate::{Error, Result, memory::MapConfig, sync::Arc};
use handles::Handles;

/// What a sender does when the queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits for room, within its time limit, in a line with other senders.
    #[default]
    Wait,
    /// It returns [`SendError::Full`] at once, whatever its time limit.
    Refuse,
    /// It drops the messages that would be received next, until there is room, and counts them: [`Stats::dropped`]. A message
    /// that is being read or filled cannot be dropped; for that it waits.
    DropOldest,
}

impl WhenFull {
    /// Whether a sender may wait at all.
    fn waits(self) -> bool {
        self != WhenFull::Refuse
    }
}

/// Settings of a queue.
///
/// ```
/// use forebay::queue::{QueueConfig, WhenFull, queue_with};
/// let (sender, receiver) = queue_with(&QueueConfig {
///     capacity_bytes: 4096,
///     when_full: WhenFull::DropOldest,
///     ..QueueConfig::default()
/// })?;
/// for number in 0..1000_u64 {
///     sender.send(number.to_ne_bytes()).unwrap(); // 24 bytes of the 4096 each
/// }
/// assert_eq!(receiver.take().unwrap().sequence(), 830);
/// assert_eq!(receiver.stats().unwrap().dropped, 830);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Bytes of memory, rounded up to whole pages: at least 1; 1 MiB by default. A message takes its length, rounded
    /// up to a multiple of 8, plus 16.
    pub capacity_bytes: usize,
    /// What senders do when the queue is full; they wait by default.
    pub when_full: WhenFull,
    /// Fault the memory in when the queue is made (the default), so that no thread pays for it later.
    pub populate: bool,
    /// Ask for pages of 2 MiB if the queue is that large.
    pub huge_pages: bool,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig {
            capacity_bytes: 1 << 20,
            when_full: WhenFull::default(),
            populate: true,
            huge_pages: false,
        }
    }
}

impl QueueConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// A capacity of 0.
    pub fn validate(&self) -> Result<()> {
        match self.capacity_bytes {
            0 => Err(Error::new("queue", "making a queue of 0 bytes")
                .advise("Ask for a capacity of at least 1; it is rounded up to a page")),
            _ => Ok(()),
        }
    }

    fn memory(&self) -> MapConfig {
        MapConfig {
            populate: self.populate,
            huge_pages: self.huge_pages,
        }
    }
}

/// Makes a queue of at least `capacity_bytes` whose senders wait when it is full.
///
/// It is closed when the last sender or the last receiver is dropped, or by [`Sender::close`] or [`Receiver::close`].
///
/// ```
/// let (sender, receiver) = forebay::queue::queue(1)?; // a page
/// sender.send(b"hello").unwrap();
/// let mut buffer = [0; 16];
/// let received = receiver.recv(&mut buffer).unwrap();
/// assert_eq!(&buffer[..received.len], b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// # Errors
/// Capacity 0, or not enough memory or mappings: see [`Mirror::new`](crate::memory::Mirror::new).
pub fn queue(capacity_bytes: usize) -> Result<(Sender, Receiver)> {
    queue_with(&QueueConfig {
        capacity_bytes,
        ..QueueConfig::default()
    })
}

/// Makes a queue with these settings.
///
/// # Errors
/// As [`queue`].
pub fn queue_with(config: &QueueConfig) -> Result<(Sender, Receiver)> {
    config.validate()?;
    let handles = Arc::new(Handles::new(config)?);
    Ok((Sender::new(handles.clone()), Receiver::new(handles)))
}

/// Counts of a queue since it was made. Each reserved message is counted in exactly one of `received`, `dropped`,
/// `aborted`, `torn` and `queued`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages that got a sequence number, whether they were committed or not.
    pub reserved: u64,
    /// Messages that receivers have taken.
    pub received: u64,
    /// Messages that senders dropped as the oldest, under the policy [`WhenFull::DropOldest`].
    pub dropped: u64,
    /// Messages that their senders aborted, once receivers have passed over them.
    pub aborted: u64,
    /// Messages whose senders died while filling them, once receivers have passed over them; 0 in a queue of one process.
    pub torn: u64,
    /// Messages in the queue, including those being filled.
    pub queued: u64,
    /// How often a received message was delivered to another receiver because the first one died.
    pub redelivered: u64,
    /// Received messages whose receivers died while they held them, and that are not delivered again.
    pub abandoned: u64,
    /// Bytes in use, headers included: from the oldest message that is unread or being read to the newest.
    pub used_bytes: usize,
}

impl Stats {
    /// Whether each reserved message is counted exactly once.
    pub fn adds_up(&self) -> bool {
        let columns = [
            self.received,
            self.dropped,
            self.aborted,
            self.torn,
            self.queued,
        ];
        // In 128 bits: another process may have written any numbers into the shared memory.
        columns.map(u128::from).iter().sum::<u128>() == u128::from(self.reserved)
    }
}
