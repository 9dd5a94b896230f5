//! What sends and receives answer when there is nothing to do, and how a lane ends. It imports nothing. Read `lane` next.

use std::{error, fmt};

/// One of a hub's senders: the how-manieth it accepted, from 0. Numbers do not come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(pub(super) u64);

impl Peer {
    /// How many were accepted before it.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}

/// What a peer did that none does who keeps to the protocol. Its lane is over; nothing else is touched by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its position ran backwards, or further than there is memory, or than there are messages.
    Position,
    /// A message ends behind the sender's position.
    Len {
        /// Bytes of the message, by its header.
        len: usize,
        /// The most it could have.
        most: usize,
    },
    /// A message has another number than the next one.
    Number,
    /// Its socket said more than it was asked to: each byte is a wake-up.
    Noise,
    /// Descriptors came over its socket where none belong.
    Descriptors,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Position => f.write_str("its position cannot be"),
            Fault::Len { len, most } => {
                write!(
                    f,
                    "it sent a message of {len} bytes where at most {most} can be"
                )
            }
            Fault::Number => f.write_str("it sent a message with a wrong number"),
            Fault::Noise => f.write_str("it rang without being asked"),
            Fault::Descriptors => f.write_str("it sent descriptors with a ring"),
        }
    }
}

impl error::Error for Fault {}

/// How a lane ended, as this side sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The other side dropped its end.
    Closed,
    /// The other side's socket is closed and it had not said so: its process ended.
    Died,
    /// The other side ended the lane, since we broke the protocol, or by [`Hub::expel`](super::Hub::expel).
    Expelled,
    /// The other side broke the protocol.
    Broken(Fault),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Closed => f.write_str("it closed its end"),
            Ending::Died => f.write_str("its process ended"),
            Ending::Expelled => f.write_str("it expelled us"),
            Ending::Broken(fault) => fault.fmt(f),
        }
    }
}

/// What a side says in its memory when it leaves.
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

    /// What that means once the socket has ended.
    #[cfg(not(loom))] // models have no sockets
    pub(super) fn ending(self) -> Ending {
        match self {
            Left::Not => Ending::Died,
            Left::Closed => Ending::Closed,
            Left::Expelled => Ending::Expelled,
        }
    }
}

/// What happened in a lane so far, by its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// Whose lane.
    pub peer: Peer,
    /// Messages that were received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Bytes that are there to receive, headers included, by the sender's word, as far as that can be.
    pub queued_bytes: usize,
}

/// Why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no room now, and the call does not wait.
    Full,
    /// There was no room within the time limit.
    TimedOut,
    /// No message is that long in this lane.
    TooLong {
        /// Bytes of the longest message that it can hold.
        largest: usize,
    },
    /// The lane is over, and will stay so. What was sent before may have been received or not.
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
pub enum RecvError {
    /// There is no message now, and the call does not wait.
    Empty,
    /// No message came within the time limit.
    TimedOut,
    /// The next message of a peer is longer than the buffer. It stays, and the next call looks at all other lanes first.
    TooSmall {
        /// Whose message.
        peer: Peer,
        /// Bytes of the message; at most the hub's [`most_lane_bytes`](super::Config::most_lane_bytes), rounded up to a page.
        needed: usize,
    },
    /// A peer's lane is over; all that it sent was received before, unless it broke the protocol. Told once, to one
    /// caller; the others go on.
    Ended {
        /// Whose lane.
        peer: Peer,
        /// Why.
        ending: Ending,
        /// Its counts at the end.
        stats: LaneStats,
    },
    /// The hub was closed.
    Closed,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("all lanes are empty"),
            RecvError::TimedOut => f.write_str("no message came within the time limit"),
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
