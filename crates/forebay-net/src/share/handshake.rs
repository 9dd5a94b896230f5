//! Names of shares, and what a publisher sends to a process that connects.
//!
//! ```text
//!  reader                          publisher
//!    │ connect @forebay/share/NAME ──▶ │ asks the kernel for the user (SO_PEERCRED, SO_PEERGROUPS)
//!    │ ◀── hello │ answer │ readers │ packets │ lost │ + the memory (one or two descriptors), unless refused
//!    │ one byte: this process stays ──▶ │
//!    │     the connection stays open: its end means that the other side is gone
//! ```
//! The socket's name is abstract: it belongs to no file, and the kernel removes it with the process. It belongs to a network
//! namespace, and to the process that binds it first. So a reader learns from the kernel whose process it is ([`Owner`]).

use crate::{port::Owner, sys};
use forebay::{Error, Result, error::Code, foreign::Foreign};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
        SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
        SocketType, connect, recv, recvmsg, sendmsg, socket_with, sockopt,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    str::FromStr,
    time::Duration,
};

impl Owner {
    /// The process at the other end of a connected Unix socket; for the side that connected, the process that listens.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn of(socket: impl AsFd) -> io::Result<Owner> {
        let peer = sys::peer(socket.as_fd())?;
        Ok(Owner {
            uid: peer.uid,
            pid: peer.pid.unsigned_abs(),
        })
    }
}

/// The names of the sockets, without the null byte that makes them abstract.
pub(super) const PREFIX: &str = "forebay/share/";
const MAX_NAME: usize = 64;
/// How long a publisher may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: [u8; 8] = *b"FORESHR4";
const HELLO: usize = 32;

/// The name of a share: 1 to 64 letters, digits, `.`, `_` and `-`.
///
/// ```
/// use forebay_net::share::ShareName;
/// let name: ShareName = "lan".parse()?;
/// assert_eq!(name.to_string(), "lan");
/// assert!("a/b".parse::<ShareName>().is_err());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareName(String);

impl FromStr for ShareName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_fine) {
            return Ok(ShareName(text.into()));
        }
        let error = Error::invalid(format!("'{text}'"), "this is not the name of a share");
        Err(error.advise("Use 1 to 64 letters, digits, dots, dashes and underscores"))
    }
}

impl std::fmt::Display for ShareName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ShareName {
    pub(super) fn address(&self) -> Result<SocketAddrUnix> {
        let address = SocketAddrUnix::new_abstract_name(format!("{PREFIX}{self}").as_bytes());
        address.map_err(|error| Error::new(self.in_messages(), "naming its socket").because(error))
    }

    pub(super) fn in_messages(&self) -> String {
        format!("share:{self}")
    }
}

/// The answer to a process that has connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareAnswer {
    Welcome,
    NotPermitted,
    TooMany,
}

/// What a publisher reports about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Readers in other processes that are attached.
    pub readers: u32,
    /// Packets published so far.
    pub packets: u64,
    /// Packets that the capture lost before it could share them.
    pub lost: u64,
}

/// The first and only message of a publisher.
pub(super) fn hello(answer: ShareAnswer, status: &Status) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8] = match answer {
        ShareAnswer::Welcome => 0,
        ShareAnswer::NotPermitted => 1,
        ShareAnswer::TooMany => 2,
    };
    bytes[12..16].copy_from_slice(&status.readers.to_le_bytes());
    bytes[16..24].copy_from_slice(&status.packets.to_le_bytes());
    bytes[24..].copy_from_slice(&status.lost.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> Option<(ShareAnswer, Status)> {
    let hello = bytes
        .first_chunk::<HELLO>()
        .filter(|_| bytes.len() == HELLO)?;
    let answer = match hello[8] {
        0 => ShareAnswer::Welcome,
        1 => ShareAnswer::NotPermitted,
        2 => ShareAnswer::TooMany,
        _ => return None,
    };
    let number = |at| u64::from_le_bytes(std::array::from_fn(|n| hello[at + n]));
    let status = Status {
        readers: u32::from_le_bytes(std::array::from_fn(|n| hello[12 + n])),
        packets: number(16),
        lost: number(24),
    };
    let is_ours = hello.starts_with(&MAGIC) && status.lost <= super::wire::MAX_LOST;
    is_ours.then_some((answer, status))
}

/// Sends the message with these descriptors, up to two, without waiting.
pub(super) fn send(
    socket: &impl AsFd,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> std::result::Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(message)], &mut control, flags).map(drop)
}

/// A connection to a publisher. It carries nothing after the first message.
///
/// The publisher may have sent descriptors that take for ever to close, so messages are inspected before they are received, and
/// the socket is closed elsewhere ([`foreign`](forebay::foreign)).
#[derive(Debug)]
pub(super) struct ShareLink {
    socket: Foreign,
    owner: Owner,
}

/// The publisher's answer.
pub(super) struct Greeting {
    pub answer: ShareAnswer,
    pub status: Status,
    /// The memory, unless the answer came without descriptors, or with too many: one descriptor, or two.
    pub memory: Vec<Foreign>,
}

impl ShareLink {
    /// Connects to the share with this name, waiting for up to five seconds.
    ///
    /// # Errors
    /// There is no such share, or the system refuses.
    pub fn to(name: &ShareName) -> Result<ShareLink> {
        ShareLink::find(name, SocketFlags::empty(), PATIENCE)?.ok_or_else(|| {
            let error = Error::coded(
                Code::NotFound,
                name.in_messages(),
                "no capture shares its packets under this name",
            );
            error.advise("`forebay shares` lists the names")
        })
    }

    /// Connects to the share with this name, or returns `None` if there is none. `flags` may say not to wait. Otherwise, this
    /// waits for up to `patience` if many others are connecting, as do later calls.
    ///
    /// # Errors
    /// Too many others wait for the share already, or the system refuses.
    pub fn find(
        name: &ShareName,
        flags: SocketFlags,
        patience: Duration,
    ) -> Result<Option<ShareLink>> {
        let failed =
            |tried: &str, error: Errno| Error::new(name.in_messages(), tried).because(error);
        let flags = SocketFlags::CLOEXEC | flags;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| failed("making a socket", error))?;
        let socket = Foreign::new(socket);
        for which in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
            sockopt::set_socket_timeout(&socket, which, Some(patience))
                .map_err(|error| failed("setting a timeout", error))?;
        }
        match connect(&socket, &name.address()?) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(failed("connecting to the capture", error)),
        }
        let owner = Owner::of(&socket).map_err(|error| {
            Error::new(name.in_messages(), "asking whose share it is").because(error)
        })?;
        Ok(Some(ShareLink { socket, owner }))
    }

    /// Waits for the publisher's answer, for up to five seconds.
    ///
    /// # Errors
    /// It does not answer, or with something else.
    pub fn greeting(&self, name: &ShareName) -> Result<Greeting> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let (answer, status, is_all) = match self.peek(&mut control) {
            Ok(Some(found)) => found,
            Ok(None) => {
                return Err(Error::coded(
                    Code::Damaged,
                    name.in_messages(),
                    "the process that has this name does not share packets as this version of forebay does",
                ));
            }
            Err(Errno::AGAIN) => {
                let error = Error::coded(
                    Code::TimedOut,
                    name.in_messages(),
                    "the capture did not answer within five seconds",
                );
                return Err(error.advise("It may be stopped"));
            }
            Err(error) => {
                let error =
                    Error::new(name.in_messages(), "attaching to the capture").because(error);
                return Err(error);
            }
        };
        let mut memory = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                memory.extend(some.map(Foreign::new));
            }
        }
        match is_all {
            // Removes the message from the queue. That closes no last copy of a descriptor: `memory` has one of each.
            true => drop(recv(&self.socket, &mut [0; HELLO][..], RecvFlags::DONTWAIT)),
            false => memory.clear(),
        }
        Ok(Greeting {
            answer,
            status,
            memory,
        })
    }

    /// The publisher's answer, without its descriptors; `None`: there is none yet, or it is not one.
    pub fn answer(&self) -> Option<(ShareAnswer, Status)> {
        let found = self.peek(&mut RecvAncillaryBuffer::new(&mut []));
        let (answer, status, _) = found.ok()??;
        Some((answer, status))
    }

    /// Inspects the first message, which stays in the queue: the answer, and whether there was room for all its descriptors.
    /// `None`: it is something else.
    fn peek(
        &self,
        control: &mut RecvAncillaryBuffer<'_>,
    ) -> std::result::Result<Option<(ShareAnswer, Status, bool)>, Errno> {
        let mut bytes = [0; HELLO + 1];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::PEEK;
        let got = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            control,
            flags,
        )?;
        let is_all = !got.flags.contains(ReturnFlags::CTRUNC);
        let parsed = parse(&bytes[..got.bytes]);
        Ok(parsed.map(|(answer, status)| (answer, status, is_all)))
    }

    /// Lets the publisher count this process as a reader.
    pub fn stay(&self) {
        // Linux before 6.16 cannot refuse more descriptors.
        let _ = sys::accept_descriptors(self.socket.as_fd(), false);
        // If it fails, the publisher has ended, which is found out later.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&self.socket, &[1], flags);
    }

    /// The process that has bound the name.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    #[cfg(test)]
    pub fn send_for_tests(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> std::result::Result<(), Errno> {
        send(&self.socket, bytes, descriptors)
    }

    /// Becomes readable with the publisher's answer, or when it closes the connection.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the publisher has closed the connection.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_as_it_was_written_and_nothing_else_is_one() {
        let status = Status {
            readers: 3,
            packets: 1 << 40,
            lost: 5,
        };
        for answer in [
            ShareAnswer::Welcome,
            ShareAnswer::NotPermitted,
            ShareAnswer::TooMany,
        ] {
            assert_eq!(parse(&hello(answer, &status)), Some((answer, status)));
        }
        let mut bytes = hello(ShareAnswer::Welcome, &status).to_vec();
        bytes.push(0);
        assert_eq!(parse(&bytes), None);
        assert_eq!(parse(&bytes[..31]), None);
        bytes.pop();
        bytes[8] = 9;
        assert_eq!(parse(&bytes), None);
        assert_eq!(parse(b"SSH-2.0-OpenSSH_10.0 Debian-00000"), None);
    }

    #[test]
    fn names_are_short_and_plain() {
        for fine in ["lan", "a.b-c_9", &"x".repeat(64)] {
            assert!(fine.parse::<ShareName>().is_ok(), "{fine}");
        }
        for odd in ["", "a b", "../x", "é", "a\0", &"x".repeat(65)] {
            assert!(odd.parse::<ShareName>().is_err(), "{odd:?}");
        }
    }
}
