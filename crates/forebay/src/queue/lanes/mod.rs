//! Messages from processes that are not trusted: each sends through a lane of its own, which only it can write.
//!
//! A [`Hub`] receives from any number of [`Sender`]s, connected by Unix sockets. Where peers can be trusted to keep to the
//! protocol, [`shared`](super::shared) has one queue for all of them, and loses nothing when they die. This room holds the protocol and the suspicion;
//! it imports `memory`, `queue::limit`, `sync` and `sys`. Read `lane` next, then `handshake`.
//!
//! ```text
//!  Sender ── writes ─▶ │ lane 0: tail, messages │ ─ read only ─▶ ┌─────┐
//!         ◀─ read only ── │ receipt 0: head │ ◀──── writes ───── │     │
//!                                                                │ Hub │ ─▶ recv(&mut buffer), lanes in turn
//!  Sender ── writes ─▶ │ lane 1: tail, messages │ ─ read only ─▶ │     │
//!         ◀─ read only ── │ receipt 1: head │ ◀──── writes ───── └─────┘
//!            a Unix socket each: rings that wake a sleeper, and the end
//! ```
//!
//! **What is promised**, to either side, of a peer that does whatever it can: memory stays safe (no access outside, no
//! signal, no `&[u8]` of bytes that change); every call comes back within its time limit; and other peers' messages are
//! untouched. What is not: that this peer's own messages come, or are what it first wrote. A peer that is found to break
//! the protocol loses its lane, with the reason ([`Ending::Broken`]); a stopped one costs time limits.
//!
//! What that rests on: every memory has one writer, for good (`sys::sealed`: memfds sealed against shrinking, holes and other
//! writers, all pages allocated; anything else is refused). What comes from the other side is loaded once, by atomics,
//! checked, and then used; nothing is tried again because of it. Nothing is written to a descriptor that a peer
//! could make block, and no descriptor from a peer is closed by a thread that is to come back: each has a thread of its own for that. What a peer still
//! can do: have its rings cost us a system call a message, or each a wake-up; have [`Hub::accept`] take as long as it may, and two of
//! our descriptors be in use while it does; and leave as many with us, each time that it comes, for as long as closing takes what it
//! sent. Who accepts strangers limits how often one may come.
//!
//! A process counts as gone when all descriptors of its socket are closed, also those in children that it forked without
//! `exec`.
//!
//! # Misuse
//!
//! - **Forgotten** (`mem::forget`): a [`Sender`] or [`Hub`] keeps its socket open, so that the other side believes it alive
//!   until the process ends. Messages are copies, so there is nothing else to forget.
//! - **Panics and lies**: no code of the caller runs inside a call, nor under a lock.
//! - **From a `Drop`**, all calls work as elsewhere. Dropping an end never waits for the other side.
//! - **From a signal handler**, no call may be made: the handler may have interrupted its own thread inside a lock. Write to a
//!   pipe or an eventfd instead.
//! - **In a forked child**, the memory of lanes is missing: do not use or drop an inherited [`Sender`] or [`Hub`]. The child would
//!   die of `SIGSEGV`. Call `exec` or `_exit`; until then the child keeps the sockets of its parent open.
//!
//! ```
//! use forebay::queue::lanes::{Config, Ending, Hub, RecvError, Sender};
//! use std::os::unix::net::UnixStream;
//!
//! let hub = Hub::new(&Config::default())?;
//! let senders: Vec<_> = ["left", "right"]
//!     .into_iter()
//!     .map(|text| {
//!         let (ours, theirs) = UnixStream::pair().unwrap(); // or UnixListener::accept, and connect in another process
//!         let sender = std::thread::spawn(move || {
//!             let mut sender = Sender::attach(theirs, 1 << 16, None).unwrap();
//!             sender.send(text.as_bytes(), None).unwrap();
//!         });
//!         hub.accept(ours, None).map(|_peer| sender)
//!     })
//!     .collect::<Result<_, _>>()?;
//! let (mut buffer, mut bytes, mut ended) = ([0; 64], 0, 0);
//! while ended < senders.len() {
//!     match hub.recv(&mut buffer, None) {
//!         Ok(message) => bytes += message.len,
//!         Err(RecvError::Ended { ending: Ending::Closed, .. }) => ended += 1,
//!         Err(error) => panic!("{error}"), // such as: peer 1 is gone: its position cannot be
//!     }
//! }
//! assert_eq!(bytes, 9);
//! # senders.into_iter().for_each(|sender| sender.join().unwrap());
//! # Ok::<(), forebay::Error>(())
//! ```

mod answers;
#[cfg(not(loom))] // models are of one process, without sockets
mod handshake;
#[cfg(not(loom))]
mod hub;
#[cfg_attr(loom, allow(dead_code))]
mod lane;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
mod sender;
#[cfg(not(loom))]
mod waiting;
mod words;

// Not for ThreadSanitizer: what the two sides share are atomics, in which it finds no race, and the locks that threads of one
// side share are the standard library's, into which it does not see.
#[cfg(all(test, not(forebay_one_view)))]
mod models;
#[cfg(all(test, not(any(loom, forebay_one_view))))]
mod tests;

use answers::Left;
pub use answers::{Ending, Fault, LaneStats, Peer, RecvError, SendError};
#[cfg(not(loom))]
pub use hub::{Hub, Received};
#[cfg(not(loom))]
pub use sender::{Sender, SenderStats};

use crate::{Error, Result};

/// What a hub is to be like.
///
/// ```
/// use forebay::queue::lanes::{Config, Hub};
/// let hub = Hub::new(&Config { most_peers: 8, ..Config::default() })?;
/// assert!(hub.stats().is_empty()); // nobody yet
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Peers at once, at least 1; 64 by default.
    pub most_peers: usize,
    /// The longest lane that a peer may have, in bytes, rounded up to whole pages with 256 more: at least 1; 1 MiB by default.
    /// No message is longer than this. A lane is the peer's memory; here it takes addresses.
    pub most_lane_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            most_peers: 64,
            most_lane_bytes: 1 << 20,
        }
    }
}

impl Config {
    /// Checks what can be checked without the kernel.
    ///
    /// # Errors
    /// No peers, or lanes of 0 bytes.
    pub fn validate(&self) -> Result<()> {
        match (self.most_peers, self.most_lane_bytes) {
            (0, _) => Err(Error::new("hub", "making one for no peers")
                .advise("Allow at least 1 in `most_peers`")),
            (_, 0) => Err(Error::new("hub", "making one for lanes of 0 bytes")
                .advise("Allow at least 1 in `most_lane_bytes`")),
            _ => Ok(()),
        }
    }
}
