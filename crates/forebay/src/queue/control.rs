//! The words that all ends of a queue share: positions, counts, locks and events. No logic.
//!
//! Each side's words are adjacent: one lock guards them, and one cache line holds them. `core` defines which thread writes
//! which word at what time.

use super::{event::Event, lock::Lock};
use crate::sync::{
    CachePadded,
    mortal::{AtomicU32, AtomicU64},
};

/// All shared words of a queue. A queue between processes keeps them in the shared memory. All zeros are a new queue, and any
/// bytes are valid values.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Control {
    pub(super) tail: CachePadded<Tail>,
    pub(super) head: CachePadded<Head>,
    /// Receivers wait here for a message or the end. Rung by commits, aborts and `close`.
    pub(super) arrived: CachePadded<Event>,
    /// One sender, the holder of `turn`, waits here for room or the end. Rung when a message is released, dropped or passed
    /// over, and by `close`.
    pub(super) room: CachePadded<Event>,
    /// Senders that wait for room queue up here: only the holder sleeps on `room`.
    pub(super) turn: CachePadded<Lock>,
    pub(super) rare: CachePadded<Rare>,
}

/// The senders' side. All words except the lock are written only under the lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Tail {
    pub(super) lock: Lock,
    /// First position after all frames. Read by receivers: edge RESERVE.
    pub(super) position: AtomicU64,
    /// First position whose bytes are in use: all frames below it are finished.
    pub(super) free: AtomicU64,
    /// Sequence number of the next message, which is the number of messages reserved so far.
    pub(super) next: AtomicU64,
}

/// The receivers' side. All words except the lock are written only under the lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Head {
    pub(super) lock: Lock,
    /// The frame to take next. Read by senders: edge PASS.
    pub(super) position: AtomicU64,
    /// The tail as last loaded: never larger than the true tail.
    pub(super) cached_tail: AtomicU64,
    /// Frames that receivers have taken.
    pub(super) received: AtomicU64,
    /// Frames that senders dropped as the oldest.
    pub(super) dropped: AtomicU64,
    /// Frames passed over because their senders aborted them.
    pub(super) aborted: AtomicU64,
    /// Frames passed over because their senders died.
    pub(super) torn: AtomicU64,
    /// Frames below the head that wait for another receiver because theirs died.
    pub(super) returned: AtomicU64,
    /// Frames that were delivered a second time.
    pub(super) redelivered: AtomicU64,
    /// Frames whose receivers died, and that are not delivered again.
    pub(super) abandoned: AtomicU64,
    /// The frame being abandoned (its position + 1), or 0. The next word holds what `abandoned` will be afterwards.
    pub(super) abandoning: AtomicU64,
    pub(super) abandoned_then: AtomicU64,
}

/// Words that rarely change, so that reading them is cheap.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Rare {
    /// Set to 1 once, under the tail's lock; read by all sides: edge CLOSE.
    pub(super) closed: AtomicU32,
    /// 1 while a sender has repeatedly waited for room in vain: all other senders then queue up after it. Written by the
    /// holder of the turn.
    pub(super) starving: AtomicU32,
    /// Number of processes that have ever joined; each takes its own number from it.
    pub(super) joined: AtomicU32,
}
