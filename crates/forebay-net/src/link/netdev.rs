//! What a driver can do for XDP, from the kernel's generic netlink family `netdev` (Linux 6.3, Documentation/netlink/specs/netdev.yaml).
//!
//! Two questions: the number of the family by its name, and then the features of the interface. Neither needs a privilege.

use super::netlink::{BUFFER_BYTES, HEADER, attributes, u16_at, u32_at};
use crate::sys;
use rustix::net::{self, AddressFamily, SendFlags, SocketType, netlink};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What a driver can do for XDP programs and AF_XDP sockets.
///
/// Without any of this, XDP works in *generic* mode: the kernel runs the program itself, after it has allocated a buffer for the
/// frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpSupport {
    /// The driver runs XDP programs (*driver* or *native* mode).
    pub runs_programs: bool,
    /// It passes frames to AF_XDP sockets and to other interfaces (`XDP_REDIRECT`).
    pub redirects: bool,
    /// The hardware reads and writes the memory of AF_XDP sockets itself. Otherwise each frame is copied.
    pub zero_copy: bool,
    /// It receives frames that are larger than one buffer.
    pub receives_large_frames: bool,
    /// XDP programs can read the hardware's time stamp of a frame.
    pub hardware_stamps: bool,
}

/// linux/genetlink.h: the family that lists families.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// linux/netdev.h
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;
/// A command, a version and two bytes of padding precede the attributes.
const GENERIC_HEADER: usize = 4;

/// Asks for the support of the interface with this index.
///
/// # Errors
/// The kernel is older than Linux 6.3, or the interface is gone.
pub(super) fn support(index: u32) -> io::Result<XdpSupport> {
    let generic = Some(netlink::GENERIC);
    let socket = sys::socket(AddressFamily::NETLINK, SocketType::RAW, generic)?;
    let family = ask(
        socket.as_fd(),
        GENL_ID_CTRL,
        libc::CTRL_CMD_GETFAMILY as u8,
        (CTRL_ATTR_FAMILY_NAME, b"netdev\0"),
    )?;
    let family = find(&family, CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0));
    let family = family.ok_or(io::ErrorKind::InvalidData)?;
    let index = (NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()[..]);
    let answer = ask(socket.as_fd(), family, NETDEV_CMD_DEV_GET, index)?;
    parse(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The support in the attributes of an answer.
fn parse(attributes: &[u8]) -> Option<XdpSupport> {
    let bits = |kind| u64_of(find(attributes, kind)?);
    let (features, metadata) = (
        bits(NETDEV_A_DEV_XDP_FEATURES)?,
        bits(NETDEV_A_DEV_XDP_RX_METADATA_FEATURES),
    );
    let has = |bit: u32| features & (1 << bit) != 0;
    Some(XdpSupport {
        runs_programs: has(0),
        redirects: has(1),
        zero_copy: has(3),
        receives_large_frames: has(5),
        hardware_stamps: metadata.is_some_and(|bits| bits & 1 != 0),
    })
}

/// Sends one request with one attribute, and returns the attributes of the answer.
fn ask(
    socket: BorrowedFd<'_>,
    family: u16,
    command: u8,
    (kind, value): (u16, &[u8]),
) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEADER];
    message[4..6].copy_from_slice(&family.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([command, 1, 0, 0]);
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    net::send(socket, &message, SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let len = sys::receive(socket, &mut buffer)?;
    let answer = buffer.get(..len).ok_or(io::ErrorKind::InvalidData)?;
    let rest = answer.get(HEADER..).ok_or(io::ErrorKind::InvalidData)?;
    match u16_at(answer, 4).map(libc::c_int::from) {
        Some(libc::NLMSG_ERROR) => {
            let code = u32_at(rest, 0).map_or(libc::EIO, |code| (code as i32).wrapping_neg());
            Err(io::Error::from_raw_os_error(code))
        }
        _ => Ok(rest.get(GENERIC_HEADER..).unwrap_or_default().to_vec()),
    }
}

fn find(list: &[u8], kind: u16) -> Option<&[u8]> {
    let mut found = attributes(list).filter(|&(it, _)| it == kind);
    found.next().map(|(_, value)| value)
}

fn u64_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_an_answer_are_named_and_a_short_answer_is_unknown() {
        let attribute = |kind: u16, value: u64| {
            [
                &12u16.to_ne_bytes()[..],
                &kind.to_ne_bytes(),
                &value.to_ne_bytes(),
            ]
            .concat()
        };
        let both = [attribute(3, 0b10_1011), attribute(5, 1)].concat();
        let everything = XdpSupport {
            runs_programs: true,
            redirects: true,
            zero_copy: true,
            receives_large_frames: true,
            hardware_stamps: true,
        };
        assert_eq!(parse(&both), Some(everything));
        assert_eq!(parse(&attribute(3, 0)), Some(XdpSupport::default()));
        for len in 0..12 {
            assert_eq!(parse(&both[..len]), None);
        }
    }

    #[test]
    fn an_interface_that_does_not_exist_is_an_error() {
        assert!(support(0x7fff_0000).is_err());
    }
}
