//! The words that the ends of a queue share: positions, counts, locks, events. No logic.
//!
//! Each side's words lie together, since one lock guards them and one cache line brings them. It imports `sync`. Read
//! `core` next, which says who writes what when.

use super::{
    event::{Event, Passing},
    lock::Lock,
};
use crate::sync::{
    CachePadded,
    mortal::{AtomicU32, AtomicU64},
};

/// All shared words of a queue. Between processes it lies in the shared memory, where zeros are a new one, and any bytes
/// are one.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Control {
    pub(super) tail: CachePadded<Tail>,
    pub(super) head: CachePadded<Head>,
    /// Receivers wait for a message, or for the end. Rung by whoever commits, aborts or closes.
    pub(super) arrived: CachePadded<Event>,
    /// One sender waits for room, or for the end: the one whose turn it is. Rung by whoever releases a message, drops one,
    /// passes over one or closes.
    pub(super) room: CachePadded<Event>,
    /// Who waits for room waits in turn: only the holder sleeps on `room`.
    pub(super) turn: CachePadded<Lock>,
    pub(super) rare: CachePadded<Rare>,
}

/// The senders' side. All but the lock is written only under the lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Tail {
    pub(super) lock: Lock,
    /// First position behind all frames. Read by receivers: edge RESERVE.
    pub(super) position: AtomicU64,
    /// First position whose bytes are in use: all frames below it are over.
    pub(super) free: AtomicU64,
    /// Sequence number of the next message: how many were reserved.
    pub(super) next: AtomicU64,
}

/// The receivers' side. All but the lock is written only under the lock.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Head {
    pub(super) lock: Lock,
    /// The frame that is to be taken next. Read by senders: edge PASS.
    pub(super) position: AtomicU64,
    /// The tail as last seen: never too large.
    pub(super) known_tail: AtomicU64,
    /// Frames that receivers have taken.
    pub(super) received: AtomicU64,
    /// Frames that senders dropped as the oldest.
    pub(super) dropped: AtomicU64,
    /// Frames passed over, since their senders gave them up.
    pub(super) aborted: AtomicU64,
    /// Frames passed over, since their senders died.
    pub(super) torn: AtomicU64,
    /// Frames below the head that wait for another receiver, since theirs died.
    pub(super) returned: AtomicU64,
    /// Frames that were taken again.
    pub(super) redelivered: AtomicU64,
    /// Frames that were left at that when their receivers died.
    pub(super) abandoned: AtomicU64,
    /// The frame that is being abandoned (its position and 1), or 0; and how many there will be with it.
    pub(super) abandoning: AtomicU64,
    pub(super) abandoned_then: AtomicU64,
}

/// What changes hardly ever, so that looking at it is cheap.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Rare {
    /// Written once (1) under the tail's lock, read by all: edge CLOSE.
    pub(super) closed: AtomicU32,
    /// 1 while a sender has waited for room in vain again and again: all others then wait behind it. Written by the
    /// holder of the turn.
    pub(super) starving: AtomicU32,
    /// Receivers wait until another one takes a message that is too long for them.
    pub(super) passed: Passing,
    /// How many processes ever joined; each takes its number from it.
    pub(super) joined: AtomicU32,
}
