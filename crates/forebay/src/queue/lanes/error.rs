//! The errors of a lane: why nothing was sent or received, and how a lane ended.

use crate::error::coded;
use std::fmt;

/// One of a hub's senders. Peers are numbered from 0 in the order in which they were accepted; numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub(super) u64);

impl Peer {
    /// How many peers were accepted before it.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// A violation of the protocol by a peer. It ends that peer's lane and affects nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Its position moved backwards, or beyond the memory, or beyond the messages.
    Position,
    /// A message ends after the sender's position.
    Len {
        /// Length of the message in bytes, according to its header.
        len: usize,
        /// The largest possible length.
        max: usize,
    },
    /// A message does not have the next number.
    Number,
    /// It sent more bytes over its socket than were requested. Each byte is a wake-up.
    Noise,
    /// It sent descriptors over its socket where none are expected.
    Descriptors,
}

/// How a lane ended, as seen from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The other side dropped its end.
    Closed,
    /// The other side's socket closed without notice: its process ended.
    Died,
    /// The other side ended the lane, because this side broke the protocol or by [`Hub::expel`](super::Hub::expel).
    Expelled,
    /// The other side broke the protocol.
    Broken(Fault),
}

/// The value that a side stores in its memory when it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Left {
    Not = 0,
    Closed = 1,
    Expelled = 2,
}

impl Left {
    pub(super) fn of(word: u64) -> Left {
        match word {
            1 => Left::Closed,
            2 => Left::Expelled,
            _ => Left::Not,
        }
    }

    /// The ending that this value means, once the socket has closed.
    #[cfg(not(loom))] // models have no sockets
    pub(super) fn ending(self) -> Ending {
        match self {
            Left::Not => Ending::Died,
            Left::Closed => Ending::Closed,
            Left::Expelled => Ending::Expelled,
        }
    }
}

/// Counts of a lane, kept by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// The sender of the lane.
    pub peer: Peer,
    /// Messages received.
    pub received: u64,
    /// Bytes of these messages.
    pub received_bytes: u64,
    /// Bytes ready to receive, headers included. It is based on the sender's position, limited to the lane's capacity.
    pub queued_bytes: usize,
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// There is no room now, and the call does not wait.
    Full,
    /// There was no room within the time limit.
    TimedOut,
    /// The message is longer than this lane can hold.
    TooLong {
        /// Length in bytes of the longest message that fits.
        largest: usize,
    },
    /// The lane has ended for good. Messages sent before may or may not have been received.
    Ended(Ending),
}

/// Why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// There is no message now, and the call does not wait.
    Empty,
    /// No message arrived within the time limit.
    TimedOut,
    /// The next message of a peer is longer than the buffer. It stays, and the next call checks all other lanes first.
    TooSmall {
        /// The sender of the message.
        peer: Peer,
        /// Length of the message in bytes. It is at most the hub's [`max_lane_bytes`](super::LanesConfig::max_lane_bytes),
        /// rounded up to a page.
        needed: usize,
    },
    /// A peer's lane has ended. All that the peer sent was received before, unless it broke the protocol. This is reported
    /// once, to one caller; the other lanes continue.
    Ended {
        /// The peer.
        peer: Peer,
        /// The reason.
        ending: Ending,
        /// The lane's counts at its end.
        stats: LaneStats,
    },
    /// The hub was closed.
    Closed,
}

coded!([] Fault, "lane", {
    Fault::Position => Code::Damaged, "its position is not possible";
    Fault::Len { len, max } => Code::Damaged, "it sent a message of {len} bytes where at most {max} are possible";
    Fault::Number => Code::Damaged, "it sent a message with a wrong number";
    Fault::Noise => Code::Damaged, "it sent wake-ups that were not requested";
    Fault::Descriptors => Code::Damaged, "it sent descriptors with a wake-up";
});
coded!([] Ending, "lane", {
    Ending::Closed => Code::Closed, "it closed its end";
    Ending::Died => Code::Closed, "its process ended";
    Ending::Expelled => Code::Closed, "it expelled this side";
    Ending::Broken(fault) => fault.code(), "{fault}";
});
coded!([] SendError, "lane", {
    SendError::Full => Code::Full, "the lane is full";
    SendError::TimedOut => Code::TimedOut, "the lane stayed full for the whole time limit";
    SendError::TooLong { largest } => Code::TooLong, "this lane holds messages of up to {largest} bytes";
    SendError::Ended(ending) => ending.code(), "the receiver is gone: {ending}";
});
coded!([] RecvError, "hub", {
    RecvError::Empty => Code::Empty, "all lanes are empty";
    RecvError::TimedOut => Code::TimedOut, "no message arrived within the time limit";
    RecvError::TooSmall { peer, needed } => Code::TooLong, "the next message of {peer} has {needed} bytes, more than the buffer";
    RecvError::Ended { peer, ending, .. } => ending.code(), "{peer} is gone: {ending}";
    RecvError::Closed => Code::Closed, "the hub is closed";
});
