//! Messages from processes that are not trusted. Each sender has its own *lane*, a one-way queue to which only the sender's process
//! can write. The receiver reports in separate memory, the *receipt*, how far it has read.
//!
//! A [`Hub`] receives from any number of [`Sender`]s, which are connected to it by Unix sockets. If the processes can be trusted
//! to follow the protocol, use [`shared`](super::shared): it has one queue for all of them, any number of receivers, and can
//! deliver a message again if its receiver dies. Here, the messages in all lanes are lost if the hub's process dies.
//!
//! ```text
//!  Sender ── writes ─▶ │ lane 0: tail, messages │ ─ read only ─▶ ┌─────┐
//!         ◀─ read only ── │ receipt 0: head │ ◀──── writes ───── │     │
//!                                                                │ Hub │ ─▶ recv(&mut buffer), one lane after another
//!  Sender ── writes ─▶ │ lane 1: tail, messages │ ─ read only ─▶ │     │
//!         ◀─ read only ── │ receipt 1: head │ ◀──── writes ───── └─────┘
//!            one Unix socket for each lane: wake-ups, and the end
//! ```
//!
//! **Guarantees** to either side, whatever a peer does:
//!
//! - Memory stays safe: no access outside the memory, no signal, no `&[u8]` of bytes that change.
//! - A call with a time limit returns within this limit.
//! - Messages of other peers are not affected.
//!
//! The messages of a misbehaving peer may not arrive, or may differ from what this peer first wrote. If a peer breaks the protocol, its
//! lane ends with the reason ([`Ending::Broken`]). If the process of a peer is only stopped, calls that wait for it return at their
//! time limit.
//!
//! These guarantees depend on the following:
//!
//! - Each memory has one writer, permanently. It is a memfd sealed against shrinking, holes and other writers, with all pages
//!   allocated (`sys::sealed`). Any other file is refused.
//! - Each value from the other side is loaded once, with an atomic load, and checked before use.
//! - No thread writes to a descriptor if a peer could make this write block.
//! - A separate thread closes descriptors that a peer has sent, because closing them may block.
//!
//! What a peer can still do:
//!
//! - Request a wake-up for each message, which costs this side a system call, or send wake-ups.
//! - Delay [`Hub::accept`] up to its time limit, and occupy two descriptors meanwhile.
//! - Connect again and again, and so occupy descriptors of this process until they are closed. A program that accepts peers that are
//!   not trusted must limit how often one may connect.
//!
//! A process counts as gone when all descriptors of its socket are closed, including those in children that it forked without
//! `exec`.
//!
//! # Misuse
//!
//! - **Forgetting** (`mem::forget`): a forgotten [`Sender`] or [`Hub`] keeps its socket open, so the other side considers it
//!   alive until the process ends. Messages are copies, so nothing else can be forgotten.
//! - **Panics**: no code of the caller runs inside a call, nor under a lock.
//! - **From a `Drop`**, all calls work as elsewhere. Dropping an end never waits for the other side.
//! - **From a signal handler**, no call may be made: the handler may have interrupted its own thread inside a lock. Write to a
//!   pipe or an eventfd instead.
//! - **In a forked child**, the memory of lanes is missing: do not use or drop an inherited [`Sender`] or [`Hub`]. The child
//!   would die of `SIGSEGV`. Call `exec` or `_exit`; until then the child keeps the sockets of its parent open.
//!
//! ```
//! use forebay::queue::lanes::{LanesConfig, Ending, Hub, RecvError, Sender};
//! use std::os::unix::net::UnixStream;
//!
//! let hub = Hub::new(&LanesConfig::default())?;
//! let senders: Vec<_> = ["left", "right"]
//!     .into_iter()
//!     .map(|text| {
//!         let (ours, theirs) = UnixStream::pair().unwrap(); // or UnixListener::accept, and connect in another process
//!         let sender = std::thread::spawn(move || {
//!             let mut sender = Sender::attach(theirs, 1 << 16).unwrap();
//!             sender.send(text.as_bytes()).unwrap();
//!         });
//!         hub.accept(ours).map(|_peer| sender)
//!     })
//!     .collect::<Result<_, _>>()?;
//! let (mut buffer, mut bytes, mut ended) = ([0; 64], 0, 0);
//! while ended < senders.len() {
//!     match hub.recv(&mut buffer) {
//!         Ok(message) => bytes += message.len,
//!         Err(RecvError::Ended { ending: Ending::Closed, .. }) => ended += 1,
//!         Err(error) => panic!("{error}"), // such as: peer 1 is gone: its position is not possible
//!     }
//! }
//! assert_eq!(bytes, 9);
//! # senders.into_iter().for_each(|sender| sender.join().unwrap());
//! # Ok::<(), forebay::Error>(())
//! ```

mod error;
#[cfg(not(loom))] // a model is one process, without sockets
mod handshake;
#[cfg(not(loom))]
mod hub;
#[cfg_attr(loom, allow(dead_code))]
mod lane;
#[cfg(not(loom))]
mod leading;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod sender;
#[cfg(not(loom))]
mod waiting;

// Not for ThreadSanitizer: the two sides share only atomics, in which it finds no race. The threads of one side share locks of
// the standard library, which it does not instrument.
#[cfg(all(test, not(forebay_one_view)))]
mod models;
#[cfg(all(test, not(any(loom, forebay_one_view))))]
mod tests;

use error::Left;
pub use error::{Ending, Fault, LaneStats, Peer, RecvError, SendError};
#[cfg(not(loom))]
pub use hub::{Hub, ReceivedFrom};
#[cfg(not(loom))]
pub use sender::{Sender, SenderStats};

use crate::{Error, Result};

/// Settings of a hub.
///
/// ```
/// use forebay::queue::lanes::{LanesConfig, Hub};
/// let hub = Hub::new(&LanesConfig { max_peers: 8, ..LanesConfig::default() })?;
/// assert!(hub.stats().is_empty()); // no peers yet
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesConfig {
    /// Maximum number of peers at a time, at least 1; 64 by default.
    pub max_peers: usize,
    /// The longest lane that a peer may have, in bytes: at least 1; 1 MiB by default. With 256 bytes more, it is rounded up to
    /// whole pages. No message is longer than this. A lane is the peer's memory; in this process it only takes address space.
    pub max_lane_bytes: usize,
}

impl Default for LanesConfig {
    fn default() -> Self {
        LanesConfig {
            max_peers: 64,
            max_lane_bytes: 1 << 20,
        }
    }
}

impl LanesConfig {
    /// Checks everything that can be checked without the kernel.
    ///
    /// # Errors
    /// No peers, or lanes of 0 bytes.
    pub fn validate(&self) -> Result<()> {
        match (self.max_peers, self.max_lane_bytes) {
            (0, _) => Err(Error::invalid("hub", "making a hub for no peers")
                .advise("Allow at least 1 in `max_peers`")),
            (_, 0) => Err(Error::invalid("hub", "making a hub with lanes of 0 bytes")
                .advise("Allow at least 1 in `max_lane_bytes`")),
            _ => Ok(()),
        }
    }
}
