//! The netlink socket that lists interfaces.
//!
//! An answer is a sequence of messages, and each message is a sequence of attributes. Everything is padded to 4 bytes:
//!
//! ```text
//! nlmsghdr 16 │ ifinfomsg 16 │ len type value… │ len type value… │ ┊ nlmsghdr 16 │ …
//!  len type … │ type index flags│  IFLA_IFNAME   │  IFLA_STATS64  │ ┊
//! ```

use super::interface::Link;
use crate::sys;
use forebay::{Error, Result};
use rustix::net::{self, AddressFamily, SendFlags, SocketType, netlink::SocketAddrNetlink};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A netlink socket. It always answers for the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

pub(super) const HEADER: usize = 16;
const INFO: usize = 16;
/// The kernel fills at most 32 KiB per read of a dump, and one interface takes far less.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

impl Netlink {
    pub(crate) fn open() -> Result<Self> {
        sys::socket(AddressFamily::NETLINK, SocketType::RAW, None) // NETLINK_ROUTE
            .map(Netlink)
            .map_err(|cause| failed().because(cause))
    }

    /// Opens a socket to which the kernel sends every interface change from now on.
    pub(crate) fn listen() -> Result<Self> {
        let netlink = Netlink::open()?;
        let address = SocketAddrNetlink::new(0, libc::RTMGRP_LINK as u32);
        net::bind(&netlink, &address).map_err(|cause| failed().because(cause))?;
        Ok(netlink)
    }

    /// Returns the interfaces that were created, changed or deleted since the last call. The socket must come from `listen`. Never
    /// waits.
    ///
    /// # Errors
    /// The kernel's queue overflowed, and some changes are lost.
    pub(crate) fn heard(&self) -> Result<Vec<Link>> {
        let (mut links, mut buffer) = (Vec::new(), vec![0; BUFFER_BYTES]);
        loop {
            let len = match sys::receive_now(self.0.as_fd(), &mut buffer) {
                Ok(len) => len,
                Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock => return Ok(links),
                Err(cause) => return Err(failed().because(cause)),
            };
            let message = buffer.get(..len).unwrap_or_default();
            let parsed = parse(message, &mut links, &mut true);
            parsed.map_err(|cause| failed().because(cause))?;
        }
    }

    /// Returns every interface.
    pub(crate) fn links(&self) -> Result<Vec<Link>> {
        // A dump during which interfaces changed may be incomplete (NLM_F_DUMP_INTR): ask again.
        for _ in 0..5 {
            let (links, whole) = self.ask(0, None)?;
            if whole {
                return Ok(links);
            }
        }
        Err(failed().advise("The interfaces change too fast to be listed: try again"))
    }

    /// Returns one interface, or `None` if the index does not exist (any more).
    pub(crate) fn link(&self, index: u32) -> Result<Option<Link>> {
        self.link_in(index, None)
    }

    /// Returns one interface of the network namespace with this number; with `None`, of this one.
    ///
    /// # Errors
    /// Netlink does not answer; for another namespace also if CAP_NET_ADMIN is missing there.
    pub(crate) fn link_in(&self, index: u32, namespace: Option<i32>) -> Result<Option<Link>> {
        match self.ask(index, namespace) {
            Ok((links, _)) => Ok(links.into_iter().find(|link| link.index == index)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A socket without a kernel that answers.
    #[cfg(test)]
    pub(crate) fn deaf() -> Self {
        let socket = sys::socket(AddressFamily::INET, SocketType::DGRAM, None);
        Netlink(socket.expect("a socket"))
    }

    /// Requests one interface, or all with index 0. The flag reports whether the answer is consistent.
    fn ask(&self, index: u32, namespace: Option<i32>) -> Result<(Vec<Link>, bool)> {
        let (mut links, mut whole) = (Vec::new(), true);
        self.exchange(&request(index, namespace), |answer| {
            let more = parse(answer, &mut links, &mut whole)?;
            // The answer for a single interface is a single message without an end marker.
            Ok(more == Answer::More && index == 0)
        })?;
        Ok((links, whole))
    }

    /// Sends a request, and passes each datagram of the answer to `take`, until that returns `false`.
    pub(super) fn exchange(
        &self,
        request: &[u8],
        mut take: impl FnMut(&[u8]) -> std::io::Result<bool>,
    ) -> Result<()> {
        let wrap = |cause| failed().because(cause);
        net::send(self, request, SendFlags::empty()).map_err(|cause| wrap(cause.into()))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = sys::receive(self.0.as_fd(), &mut buffer).map_err(wrap)?;
            let Some(answer) = buffer.get(..len) else {
                return Err(failed().advise("The kernel's answer is longer than 64 KiB"));
            };
            if !take(answer).map_err(wrap)? {
                return Ok(());
            }
        }
    }
}

fn failed() -> Error {
    Error::new("", "listing the network interfaces")
}

fn request(index: u32, namespace: Option<i32>) -> Vec<u8> {
    let mut message = header(libc::RTM_GETLINK, index == 0);
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    if let Some(namespace) = namespace {
        message.extend(8_u16.to_ne_bytes());
        message.extend(libc::IFLA_TARGET_NETNSID.to_ne_bytes());
        message.extend(namespace.to_ne_bytes());
    }
    let len = message.len() as u32;
    message[0..4].copy_from_slice(&len.to_ne_bytes());
    message
}

/// A request without attributes, for all objects of a kind or for one.
pub(super) fn header(kind: u16, all: bool) -> Vec<u8> {
    let dump = if all { libc::NLM_F_DUMP } else { 0 };
    let mut message = vec![0; HEADER + INFO];
    message[0..4].copy_from_slice(&((HEADER + INFO) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | dump) as u16).to_ne_bytes());
    message[HEADER] = libc::AF_UNSPEC as u8;
    message
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    More,
    Done,
}

/// Parses one datagram of an answer about interfaces.
fn parse(bytes: &[u8], links: &mut Vec<Link>, whole: &mut bool) -> std::io::Result<Answer> {
    messages(bytes, whole, |kind, message| {
        if matches!(kind, libc::RTM_NEWLINK | libc::RTM_DELLINK) {
            links.extend(link(message));
        }
    })
}

/// Passes the kind and contents of each message of a datagram to `each`. Messages whose lengths do not fit are skipped.
pub(super) fn messages(
    mut bytes: &[u8],
    whole: &mut bool,
    mut each: impl FnMut(u16, &[u8]),
) -> std::io::Result<Answer> {
    while let (Some(len), Some(kind), Some(flags)) =
        (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6))
    {
        let Some(message) = bytes.get(HEADER..len as usize) else {
            break;
        };
        *whole &= libc::c_int::from(flags) & libc::NLM_F_DUMP_INTR == 0;
        match libc::c_int::from(kind) {
            libc::NLMSG_DONE => return Ok(Answer::Done),
            libc::NLMSG_ERROR => {
                let errno =
                    u32_at(message, 0).map_or(libc::EIO, |code| (code as i32).wrapping_neg());
                return if errno == 0 {
                    Ok(Answer::Done)
                } else {
                    Err(std::io::Error::from_raw_os_error(errno))
                };
            }
            _ => each(kind, message),
        }
        bytes = bytes.get(padded(len as usize)..).unwrap_or_default();
    }
    Ok(Answer::More)
}

/// Parses one `RTM_NEWLINK` or `RTM_DELLINK` message, given without its header.
fn link(message: &[u8]) -> Option<Link> {
    let mut link = Link {
        hardware: u16_at(message, 2)?,
        index: u32_at(message, 4)?,
        flags: u32_at(message, 8)?,
        ..Link::default()
    };
    for (kind, value) in attributes(message.get(INFO..)?) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_OPERSTATE => link.operational = *value.first()?,
            libc::IFLA_STATS64 => (link.dropped, link.unsent) = dropped(value)?,
            libc::IFLA_MASTER => link.master = u32_at(value, 0)?,
            libc::IFLA_LINK => link.linked = u32_at(value, 0)?,
            libc::IFLA_LINK_NETNSID => link.linked_namespace = Some(u32_at(value, 0)? as i32),
            libc::IFLA_NUM_RX_QUEUES => link.queues.0 = u32_at(value, 0)?,
            libc::IFLA_NUM_TX_QUEUES => link.queues.1 = u32_at(value, 0)?,
            libc::IFLA_LINKINFO => {
                let kind = attributes(value).find(|&(kind, _)| kind == libc::IFLA_INFO_KIND);
                link.kind = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            libc::IFLA_XDP => {
                let number = attributes(value).find(|&(kind, _)| kind == IFLA_XDP_PROG_ID);
                link.xdp_program = number.and_then(|(_, value)| u32_at(value, 0));
            }
            _ => {}
        }
    }
    Some(link)
}

/// The number of the program that is attached, in whichever mode (linux/if_link.h).
const IFLA_XDP_PROG_ID: u16 = 4;

/// The attributes of a message: types without flags, and values. Ends at a length that does not fit.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(padded(len)..).unwrap_or_default();
        Some((kind & libc::NLA_TYPE_MASK as u16, value))
    })
}

/// Text up to the first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

/// `struct rtnl_link_stats64` (linux/if_link.h) is an array of 64-bit counters: two that count losses before any socket, and one of
/// frames that were not sent.
fn dropped(stats: &[u8]) -> Option<(u64, u64)> {
    const TX_DROPPED: usize = 7;
    const RX_FIFO_ERRORS: usize = 14;
    const RX_MISSED_ERRORS: usize = 15;
    let counter = |at: usize| {
        stats
            .get(at * 8..at * 8 + 8)?
            .try_into()
            .ok()
            .map(u64::from_ne_bytes)
    };
    let received = counter(RX_FIFO_ERRORS)?.saturating_add(counter(RX_MISSED_ERRORS)?);
    Some((received, counter(TX_DROPPED)?))
}

pub(super) fn padded(len: usize) -> usize {
    // At least one step, so that a length of 0 cannot cause an endless loop.
    len.max(1).next_multiple_of(4)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(padded(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    fn sample() -> Vec<u8> {
        let mut stats = vec![0; 25 * 8];
        stats[14 * 8] = 3;
        stats[15 * 8] = 4;
        stats[7 * 8] = 9;
        let mut body = vec![0, 0, 1, 0, 7, 0, 0, 0, 0x41, 0, 0, 0, 0, 0, 0, 0];
        body.extend(attribute(libc::IFLA_IFNAME, b"eth0\0"));
        body.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        body.extend(attribute(libc::IFLA_OPERSTATE, &[6]));
        body.extend(attribute(libc::IFLA_NUM_RX_QUEUES, &4u32.to_ne_bytes()));
        body.extend(attribute(libc::IFLA_NUM_TX_QUEUES, &8u32.to_ne_bytes()));
        let kind = attribute(libc::IFLA_INFO_KIND, b"veth\0");
        body.extend(attribute(libc::IFLA_LINKINFO, &kind));
        let program = [attribute(2, &[1]), attribute(4, &9u32.to_ne_bytes())].concat();
        body.extend(attribute(
            libc::IFLA_XDP | libc::NLA_F_NESTED as u16,
            &program,
        ));
        body.extend(attribute(libc::IFLA_STATS64, &stats));
        body.extend(attribute(libc::IFLA_LINK, &8u32.to_ne_bytes()));
        body.extend(attribute(libc::IFLA_LINK_NETNSID, &3i32.to_ne_bytes()));
        body.extend(attribute(libc::IFLA_MASTER, &2u32.to_ne_bytes()));
        message(libc::RTM_NEWLINK, &body)
    }

    #[test]
    fn a_message_of_the_kernel_is_understood() {
        let (mut links, mut whole) = (Vec::new(), true);
        let mut bytes = sample();
        bytes.extend(message(libc::NLMSG_DONE as u16, &[0; 4]));
        assert_eq!(parse(&bytes, &mut links, &mut whole).unwrap(), Answer::Done);
        let eth0 = Link {
            index: 7,
            name: "eth0".into(),
            flags: 0x41,
            hardware: 1,
            mtu: 1500,
            operational: 6,
            kind: "veth".into(),
            queues: (4, 8),
            xdp_program: Some(9),
            dropped: 7,
            unsent: 9,
            master: 2,
            linked: 8,
            linked_namespace: Some(3),
        };
        assert_eq!(links, [eth0]);
        assert!(whole && links[0].is_up() && links[0].is_running() && !links[0].is_loopback());
    }

    #[test]
    fn messages_cut_anywhere_do_no_harm() {
        let bytes = sample();
        for len in 0..bytes.len() {
            let (mut links, mut whole) = (Vec::new(), true);
            let answer = parse(&bytes[..len], &mut links, &mut whole);
            assert_eq!(answer.unwrap(), Answer::More);
            assert!(links.is_empty());
        }
    }

    #[test]
    fn an_error_of_the_kernel_comes_back() {
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::ENODEV).to_ne_bytes());
        let error = parse(&refused, &mut Vec::new(), &mut true).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    #[test]
    fn a_socket_that_listens_and_hears_nothing_does_not_wait() {
        assert_eq!(Netlink::listen().unwrap().heard().unwrap(), []);
    }

    #[test]
    fn this_machine_has_interfaces_and_each_can_be_asked_for() {
        let netlink = Netlink::open().unwrap();
        for link in netlink.links().unwrap() {
            assert!(link.index > 0 && !link.name.is_empty());
        }
        assert_eq!(netlink.link(0x7fff_0000).unwrap(), None);
    }
}
