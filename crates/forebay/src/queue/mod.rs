//! A bounded queue of messages of any size, from many senders to many receivers. Each message goes to one receiver. Receivers take
//! messages in the order in which senders reserved room for them.
//!
//! [`queue`](queue()) makes such a queue between threads, with a [`Sender`] and a [`Receiver`] that can be cloned. Other modules
//! have other kinds:
//!
//! - [`spsc`]: faster, because it has no locks, but for exactly one sender and one receiver.
//! - [`shared`]: between processes that trust each other (cargo feature `shared`, on by default).
//! - `lanes`: from processes that are not trusted (cargo feature `lanes`, off by default).
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
//! - **Forgetting** (`mem::forget`): a forgotten [`ReservedMessage`] blocks the delivery of all later messages. A forgotten [`Message`] or
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
mod config;
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
mod last_time;
mod lock;
mod message;
mod peers;
mod query;
mod receiver;
mod recover;
mod reserved_message;
mod sender;
#[cfg(all(feature = "shared", not(loom)))]
pub mod shared;
pub mod spsc;
mod stats;
mod task;
mod waiting;
#[cfg(all(feature = "shared", not(loom)))]
mod waiting_thread;
mod watch;
mod watchers;

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

pub use config::{QueueConfig, WhenFull};
pub use error::{RecvError, SendError, StatsError};
pub use message::{Burst, Message, OwnedBurst, OwnedMessage, Received};
pub use receiver::Receiver;
pub use reserved_message::{OwnedReservedMessage, ReservedMessage};
pub use sender::Sender;
pub use stats::Stats;
pub use task::{AsyncReceiver, AsyncSender};
pub use watch::Watch;

use crate::{Result, sync::Arc};
use handles::Handles;

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
