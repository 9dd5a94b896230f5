//! The errors of a lane: why nothing was sent or received, and how a lane ended.

use crate::error::coded;
use std::{error, fmt};

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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Position => f.write_str("its position is not possible"),
            Fault::Len { len, max } => {
                write!(
                    f,
                    "it sent a message of {len} bytes where at most {max} are possible"
                )
            }
            Fault::Number => f.write_str("it sent a message with a wrong number"),
            Fault::Noise => f.write_str("it sent wake-ups that were not requested"),
            Fault::Descriptors => f.write_str("it sent descriptors with a wake-up"),
        }
    }
}

impl error::Error for Fault {}

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

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Closed => f.write_str("it closed its end"),
            Ending::Died => f.write_str("its process ended"),
            Ending::Expelled => f.write_str("it expelled this side"),
            Ending::Broken(fault) => fault.fmt(f),
        }
    }
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

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => f.write_str("the lane is full"),
            SendError::TimedOut => f.write_str("the lane stayed full for the whole time limit"),
            SendError::TooLong { largest } => {
                write!(f, "this lane holds messages of up to {largest} bytes")
            }
            SendError::Ended(ending) => write!(f, "the receiver is gone: {ending}"),
        }
    }
}

impl error::Error for SendError {}

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

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("all lanes are empty"),
            RecvError::TimedOut => f.write_str("no message arrived within the time limit"),
            RecvError::TooSmall { peer, needed } => {
                write!(
                    f,
                    "the next message of {peer} has {needed} bytes, more than the buffer"
                )
            }
            RecvError::Ended { peer, ending, .. } => write!(f, "{peer} is gone: {ending}"),
            RecvError::Closed => f.write_str("the hub is closed"),
        }
    }
}

impl error::Error for RecvError {}

coded!([] Fault, "lane", |_it| Code::Damaged);
coded!([] Ending, "lane", |it| match it {
    Ending::Broken(fault) => fault.code(),
    Ending::Closed | Ending::Died | Ending::Expelled => Code::Closed,
});
coded!([] SendError, "lane", |it| match it {
    SendError::Full => Code::Full,
    SendError::TimedOut => Code::TimedOut,
    SendError::TooLong { .. } => Code::TooLong,
    SendError::Ended(ending) => ending.code(),
});
coded!([] RecvError, "hub", |it| match it {
    RecvError::Empty => Code::Empty,
    RecvError::TimedOut => Code::TimedOut,
    RecvError::TooSmall { .. } => Code::TooLong,
    RecvError::Ended { ending, .. } => ending.code(),
    RecvError::Closed => Code::Closed,
});
