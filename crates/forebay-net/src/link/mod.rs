//! Network interfaces as the kernel lists them: names, states, hardware and 64-bit drop counters.
//!
//! The list comes from netlink (`RTM_GETLINK`, `man 7 rtnetlink`). Netlink answers for the network namespace of this process and
//! needs no privilege; `/sys/class/net` shows the namespace that mounted it instead. This module uses one netlink socket, read
//! only. [`af_packet`](crate::af_packet) captures from the interfaces listed here.
//!
//! ```
//! for link in forebay_net::link::interfaces()? {
//!     println!("{}. {} [{}]", link.index, link.name, if link.is_up() { "up" } else { "down" });
//! }
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! An answer is a sequence of messages, and each message is a sequence of attributes. Everything is padded to 4 bytes:
//!
//! ```text
//! nlmsghdr 16 │ ifinfomsg 16 │ len type value… │ len type value… │ ┊ nlmsghdr 16 │ …
//!  len type … │ type index flags│  IFLA_IFNAME   │  IFLA_STATS64  │ ┊
//! ```

use crate::sys::{self, Ethtool};
use forebay::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};

/// One network interface, in its state at the time of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// The kernel's interface index, from 1.
    pub index: u32,
    /// The interface name, such as `eth0`.
    pub name: String,
    /// `IFF_…` flags (`man 7 netdevice`).
    pub flags: u32,
    /// The hardware type, an `ARPHRD_…` number: 1 is Ethernet, 772 loopback, 65534 none.
    pub hardware: u16,
    /// The largest payload in bytes, without the link-layer header.
    pub mtu: u32,
    /// The operational state of RFC 2863: 0 unknown, 2 down, 6 up, …
    pub operational: u8,
    /// Frames lost before any socket saw them: `rx_missed_errors` + `rx_fifo_errors` since the interface was created.
    pub dropped: u64,
}

impl Link {
    /// Whether the interface is up (`IFF_UP`).
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Whether it can carry frames (`IFF_RUNNING`), for example because a cable is connected.
    pub fn is_running(&self) -> bool {
        self.flags & libc::IFF_RUNNING as u32 != 0
    }

    /// Whether it is a loopback interface.
    pub fn is_loopback(&self) -> bool {
        self.flags & libc::IFF_LOOPBACK as u32 != 0
    }

    /// The name of the hardware type, or its number.
    ///
    /// ```
    /// let link = forebay_net::link::Link { hardware: 1, ..Default::default() };
    /// assert_eq!(link.hardware_name(), "Ethernet");
    /// ```
    pub fn hardware_name(&self) -> String {
        match self.hardware {
            libc::ARPHRD_ETHER => "Ethernet".into(),
            libc::ARPHRD_LOOPBACK => "loopback".into(),
            libc::ARPHRD_NONE => "raw IP".into(),
            other => format!("hardware type {other}"),
        }
    }
}

/// Settings of an interface that change what a capture sees, or how much a burst may be. `None`: the driver does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Received segments are merged before a capture sees them: in software (GRO), or by the hardware (LRO).
    pub merges_in_software: Option<bool>,
    /// See above.
    pub merges_in_hardware: Option<bool>,
    /// Sent segments are split after a capture saw them, by the hardware (TSO) or just before it (GSO).
    pub splits_when_sending: Option<bool>,
    /// Frames that the hardware's receive ring holds, and the most that it can.
    pub receive_ring: Option<(u32, u32)>,
}

impl Link {
    /// Asks the driver for the settings of this interface. Needs no privilege.
    ///
    /// ```
    /// for link in forebay_net::link::interfaces()? {
    ///     println!("{}: {:?}", link.name, link.settings()?);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// No socket can be opened.
    pub fn settings(&self) -> Result<Settings> {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)
            .map_err(|cause| Error::new(&self.name, "asking for its settings").because(cause))?;
        let ask = |question| sys::ethtool(socket.as_fd(), &self.name, question).ok();
        let is_on = |question| ask(question).map(|answer| answer[1] != 0);
        let splits = [Ethtool::TcpSegmentation, Ethtool::GenericSegmentation].map(is_on);
        const LRO: u32 = 1 << 15;
        // The answer repeats the question. The largest sizes of four rings follow, the receive ring first, then the present sizes.
        let ring = ask(Ethtool::RingSizes).map(|answer| (answer[5], answer[1]));
        Ok(Settings {
            merges_in_software: is_on(Ethtool::GenericReceive),
            merges_in_hardware: ask(Ethtool::Flags).map(|answer| answer[1] & LRO != 0),
            splits_when_sending: splits
                .into_iter()
                .flatten()
                .reduce(|one, other| one || other),
            receive_ring: ring.filter(|&(_, max)| max > 0),
        })
    }
}

/// Returns all interfaces of this network namespace, in the kernel's order.
///
/// # Errors
/// A netlink request failed.
pub fn interfaces() -> Result<Vec<Link>> {
    Netlink::open()?.links()
}

/// A netlink socket. It always answers for the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

const HEADER: usize = 16;
const INFO: usize = 16;
/// The kernel fills at most 32 KiB per read of a dump, and one interface takes far less.
const BUFFER_BYTES: usize = 64 << 10;

impl Netlink {
    pub(crate) fn open() -> Result<Self> {
        sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
            .map(Netlink)
            .map_err(|cause| failed().because(cause))
    }

    /// Opens a socket to which the kernel sends every interface change from now on.
    pub(crate) fn listen() -> Result<Self> {
        let netlink = Netlink::open()?;
        sys::join_netlink(netlink.0.as_fd(), libc::RTMGRP_LINK as u32)
            .map_err(|cause| failed().because(cause))?;
        Ok(netlink)
    }

    /// Returns the interfaces that were created or changed since the last call. The socket must come from `listen`. Never waits.
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
            let (links, whole) = self.ask(0)?;
            if whole {
                return Ok(links);
            }
        }
        Err(failed().advise("The interfaces change too fast to be listed: try again"))
    }

    /// Returns one interface, or `None` if the index does not exist (any more).
    pub(crate) fn link(&self, index: u32) -> Result<Option<Link>> {
        match self.ask(index) {
            Ok((links, _)) => Ok(links.into_iter().find(|link| link.index == index)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A socket without a kernel that answers.
    #[cfg(test)]
    pub(crate) fn deaf() -> Self {
        Netlink(sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).expect("a socket"))
    }

    /// Requests one interface, or all with index 0. The flag reports whether the answer is consistent.
    fn ask(&self, index: u32) -> Result<(Vec<Link>, bool)> {
        let wrap = |cause| failed().because(cause);
        sys::send(self.0.as_fd(), &request(index)).map_err(wrap)?;
        let (mut links, mut whole) = (Vec::new(), true);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = sys::receive(self.0.as_fd(), &mut buffer).map_err(wrap)?;
            let Some(answer) = buffer.get(..len) else {
                return Err(failed().advise("The kernel's answer is longer than 64 KiB"));
            };
            match parse(answer, &mut links, &mut whole).map_err(wrap)? {
                // The answer for a single interface is a single message without an end marker.
                Answer::More if index == 0 => {}
                _ => return Ok((links, whole)),
            }
        }
    }
}

fn failed() -> Error {
    Error::new("", "listing the network interfaces")
}

fn request(index: u32) -> [u8; HEADER + INFO] {
    let dump = if index == 0 { libc::NLM_F_DUMP } else { 0 };
    let mut message = [0; HEADER + INFO];
    message[0..4].copy_from_slice(&((HEADER + INFO) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    message[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | dump) as u16).to_ne_bytes());
    message[HEADER] = libc::AF_UNSPEC as u8;
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    More,
    Done,
}

/// Parses one datagram of an answer. Messages and attributes whose lengths do not fit are skipped.
fn parse(mut bytes: &[u8], links: &mut Vec<Link>, whole: &mut bool) -> std::io::Result<Answer> {
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
            _ if kind == libc::RTM_NEWLINK => links.extend(link(message)),
            _ => {}
        }
        bytes = bytes.get(padded(len as usize)..).unwrap_or_default();
    }
    Ok(Answer::More)
}

/// Parses one `RTM_NEWLINK` message, given without its header.
fn link(message: &[u8]) -> Option<Link> {
    let mut link = Link {
        hardware: u16_at(message, 2)?,
        index: u32_at(message, 4)?,
        flags: u32_at(message, 8)?,
        ..Link::default()
    };
    let mut rest = message.get(INFO..)?;
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(len)) else {
            break;
        };
        match kind {
            libc::IFLA_IFNAME => {
                let end = value
                    .iter()
                    .position(|&byte| byte == 0)
                    .unwrap_or(value.len());
                link.name = String::from_utf8_lossy(&value[..end]).into_owned();
            }
            libc::IFLA_MTU => link.mtu = u32_at(value, 0)?,
            libc::IFLA_OPERSTATE => link.operational = *value.first()?,
            libc::IFLA_STATS64 => link.dropped = stats_dropped(value)?,
            _ => {}
        }
        rest = rest.get(padded(usize::from(len))..).unwrap_or_default();
    }
    Some(link)
}

/// `struct rtnl_link_stats64` (linux/if_link.h) is an array of 64-bit counters; these two count losses before any socket.
fn stats_dropped(stats: &[u8]) -> Option<u64> {
    const RX_FIFO_ERRORS: usize = 14;
    const RX_MISSED_ERRORS: usize = 15;
    let counter = |at: usize| {
        stats
            .get(at * 8..at * 8 + 8)?
            .try_into()
            .ok()
            .map(u64::from_ne_bytes)
    };
    Some(counter(RX_FIFO_ERRORS)?.saturating_add(counter(RX_MISSED_ERRORS)?))
}

fn padded(len: usize) -> usize {
    // At least one step, so that a length of 0 cannot cause an endless loop.
    len.max(1).next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
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
        let mut body = vec![0, 0, 1, 0, 7, 0, 0, 0, 0x41, 0, 0, 0, 0, 0, 0, 0];
        body.extend(attribute(libc::IFLA_IFNAME, b"eth0\0"));
        body.extend(attribute(libc::IFLA_MTU, &1500u32.to_ne_bytes()));
        body.extend(attribute(libc::IFLA_OPERSTATE, &[6]));
        body.extend(attribute(libc::IFLA_STATS64, &stats));
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
            dropped: 7,
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
