//! One producer publishes messages to any number of readers, in other processes or threads, and never waits for them.
//!
//! Readers need not be trusted: they can only read the memory, and the producer reads nothing that they write. When the memory is
//! full, new messages overwrite the oldest ones. A reader that is too slow learns exactly how many messages it has lost in this way.
//! If no message may be lost, use [`queue`](crate::queue), where a sender waits for room.
//!
//! ```text
//!             │ index: where each message lies │ data: the last messages │     one memory, sealed: nothing else can ever write it
//!  Producer ──▶ publish, wake                  │                         │
//!                  ├──▶ Reader   has received everything                       Readers map it read-only. They copy a message,
//!                  ├──▶ Reader   is late                                   and then check that it was not overwritten
//!                  └──▶ Reader   was overtaken: Overrun { lost: 712 }          meanwhile.
//! ```
//!
//! **Guarantees:**
//!
//! - The producer never waits, and no reader can affect what it or other readers do, except for time: see below.
//! - A message is received as it was published, bit for bit, or counted as lost.
//! - For each reader that does not seek, received + lost + not yet received = published since it attached.
//! - If the producer's process dies in the middle of a message, readers never receive that message.
//! - If a hostile process made the memory and writes anything to it, readers stay memory-safe, and a call with a time limit
//!   returns within this limit.
//!
//! **Hostile readers** share one queue of sleepers with the others, in the kernel. They can remove others from it, and fill it
//! with many threads. A reader that waits therefore looks again every 250 ms, and [`Producer::wake`] wakes up to 1024
//! sleepers. What remains: a hostile reader can delay a message for others by up to 250 ms, and make a wake-up take as long
//! as waking 1024 threads.
//!
//! The program sends the descriptor of the memory to the readers, usually over a Unix socket with `SCM_RIGHTS`. Readers can also
//! see from this socket that the producer's process has ended; the ring does not show that.
//!
//! The ring holds as many messages as fit in [`BroadcastConfig::data_bytes`], and at most [`BroadcastConfig::messages`]. Up to 1/64
//! of the bytes and messages are overwritten earlier than necessary. A message is contiguous, so the end of the data area may stay
//! unused.
//!
//! # Misuse
//!
//! - **Forgetting** (`mem::forget`): a forgotten [`Producer`] is not closed, so readers wait for it. A forgotten [`Reader`] only
//!   leaks its mapping.
//! - **Panics**: no code of the caller runs inside a call.
//! - **In a forked child**, the memory is not mapped: do not use or drop an inherited [`Producer`] or [`Reader`].
//! - **From a signal handler**, only [`Producer::publish`], [`Producer::append`], [`Producer::publish_appended`],
//!   [`Producer::wake`] and [`Reader::try_recv`] may be called, and not on an end that the handler may have interrupted.
//!
//! ```
//! use forebay::ring::broadcast::{BroadcastConfig, Producer, Reader, RecvError};
//! let mut producer = Producer::new(&BroadcastConfig::default())?;
//! let memory = producer.memory().try_clone_to_owned().unwrap(); // or sent to another process
//! let mut reader = Reader::attach(memory)?;
//! producer.publish(&[b"head: ", b"body"]).unwrap();
//! producer.wake();
//! let mut buffer = [0; 1500];
//! let message = reader.recv(&mut buffer).unwrap();
//! assert_eq!((message.sequence, &buffer[..message.len]), (0, &b"head: body"[..]));
//! drop(producer);
//! assert_eq!(reader.recv(&mut buffer), Err(RecvError::Closed));
//! # Ok::<(), forebay::Error>(())
//! ```

mod error;
mod layout;
#[cfg(not(loom))] // a model has no memory of several processes
mod producer;
#[cfg(not(loom))]
mod reader;
#[cfg_attr(loom, allow(dead_code))]
mod reading;
#[cfg(not(loom))]
mod watch;
#[cfg_attr(loom, allow(dead_code))]
mod writing;

#[cfg(all(test, not(forebay_one_view)))]
// there are only atomics, in which ThreadSanitizer finds no race
mod models;
#[cfg(all(test, not(loom)))]
mod oracle_tests;
#[cfg(all(test, not(any(loom, miri))))]
mod tests;

pub use error::{NotesFull, RecvError, TooLong};
#[cfg(not(loom))]
pub use producer::Producer;
#[cfg(not(loom))]
pub use reader::Reader;
#[cfg(not(loom))]
pub use watch::Watch;

/// Settings of a broadcast ring.
///
/// ```
/// use forebay::ring::broadcast::{BroadcastConfig, Producer};
/// let config = BroadcastConfig { data_bytes: 1 << 16, messages: 1000, ..BroadcastConfig::default() };
/// let producer = Producer::new(&config)?;
/// assert!(producer.largest() >= 1 << 15);
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastConfig {
    /// Bytes for messages: at least 1; 1 MiB by default. The whole memory has up to 32 GiB. Each message takes whole words of 8 bytes.
    /// Rounded up so that the whole memory consists of whole pages; from 2 MiB on, of whole huge pages, for which the kernel is asked.
    /// No message may be longer than half of it.
    pub data_bytes: usize,
    /// Number of messages that the ring holds at most: at least 1, rounded up to a power of two; 8192 by default. Each takes 8
    /// bytes.
    pub messages: usize,
    /// Bytes for [notes](Producer::note): 1024 by default, and 0 for none. Each note takes whole words, and one word more.
    pub note_bytes: usize,
}

impl Default for BroadcastConfig {
    fn default() -> Self {
        BroadcastConfig {
            data_bytes: 1 << 20,
            messages: 8192,
            note_bytes: 1024,
        }
    }
}

/// What a producer has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BroadcastStats {
    /// Messages published.
    pub published: u64,
    /// Bytes of these messages.
    pub published_bytes: u64,
    /// Sequence number of the oldest message that readers can still receive; `published` if there is none.
    pub oldest: u64,
}

/// A message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Number of messages published before it.
    pub sequence: u64,
    /// Length of the message in bytes. It is at the start of the buffer.
    pub len: usize,
}

/// What a reader has received and lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReaderStats {
    /// Messages received.
    pub received: u64,
    /// Bytes of these messages.
    pub received_bytes: u64,
    /// Messages lost in overruns.
    pub lost: u64,
    /// Sequence number of the message to receive next.
    pub next: u64,
}
