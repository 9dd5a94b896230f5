//! Divides the places of a server among users and hosts.
//!
//! TCP does not report whose program connects. For a program of this machine the kernel knows the socket at its end of the connection, and
//! the user who made it (`sock_diag(7)`):
//!
//! ```text
//!  nlmsghdr 16 │ family protocol ext pad 4 │ states 4 │ ports 4 │ source 16 │ destination 16 │ interface 4 │ cookie 8     question
//!  nlmsghdr 16 │ family state timer retrans 4 │ ports, addresses, interface, cookie 48 │ … 12 │ user 4 │ inode 4          answer
//! ```

use crate::sys;
use rustix::net::{AddressFamily, SendFlags, SocketType, netlink::SOCK_DIAG, send};
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

/// Clients at the same time.
const MAX_CLIENTS: usize = 32;
/// Places that are kept for root and the user of the capture.
const RESERVED: usize = 8;
/// Clients of one other user of this machine, or of one other host.
const MAX_CLIENTS_OF_ONE: usize = 8;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const ESTABLISHED: u8 = 1;
const QUESTION: usize = 72;
/// Where a question and an answer have the family.
const FAMILY: usize = 16;
/// Where the answer has the state, the user and the inode.
const STATE: usize = 17;
const USER: usize = 80;
const ANSWER: usize = 88;
/// A buffer for the longest part of a list: the kernel sends up to 8 KiB at a time, and more only to larger buffers.
const ANSWERS: usize = 8 << 10;
/// The ports and addresses in a question and in an answer.
const ASKED_ENDS: Range<usize> = 24..60;
const ENDS: Range<usize> = 20..56;
/// The number that the kernel reports for all users that a user namespace does not know.
const OVERFLOW_USER: u32 = 65_534;

/// To whom a place counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Root, or the user of this process.
    Trusted,
    /// Another user of this machine. `None`: it is not known which.
    User(Option<u32>),
    /// Another host; for IPv6 its network of 64 bits.
    Host(IpAddr),
}

/// Whether there is no place for `new` beside these.
pub(super) fn is_full(new: Holder, holders: impl Iterator<Item = Holder> + Clone) -> bool {
    let all = holders.clone().count();
    match new {
        Holder::Trusted => all >= MAX_CLIENTS,
        _ => {
            let of_one = holders.filter(|it| *it == new).count();
            of_one >= MAX_CLIENTS_OF_ONE || all >= MAX_CLIENTS - RESERVED
        }
    }
}

/// Finds out to whom connections belong. Opened before the sandbox, which allows no new sockets.
#[derive(Debug)]
pub(super) struct Holders {
    /// `None`: this kernel cannot be asked.
    netlink: Option<OwnedFd>,
}

impl Holders {
    pub fn new() -> Holders {
        let netlink = sys::socket(AddressFamily::NETLINK, SocketType::RAW, Some(SOCK_DIAG));
        Holders {
            netlink: netlink.ok(),
        }
    }

    /// To whom the connection from `peer` to `local` belongs.
    pub fn of(&self, peer: SocketAddr, local: SocketAddr) -> Holder {
        let own = rustix::process::geteuid().as_raw();
        let host = peer.ip().to_canonical();
        match self.user(peer, local) {
            Some(user) if user == 0 || (user == own && user != OVERFLOW_USER) => Holder::Trusted,
            Some(user) => Holder::User(Some(user)),
            None if is_local(peer, local) => Holder::User(None),
            None => Holder::Host(match host {
                IpAddr::V4(_) => host,
                IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() >> 64 << 64).into(),
            }),
        }
    }

    /// The user of this machine whose socket has this end of the connection, unless it is closed already.
    fn user(&self, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let families = match peer.ip().to_canonical() {
            IpAddr::V4(_) => &[libc::AF_INET, libc::AF_INET6][..],
            IpAddr::V6(_) => &[libc::AF_INET6],
        };
        let find = |family, flags| self.find(&question(peer, local, family, flags));
        // The kernel finds a socket that is bound to an interface only with the number of that interface, or in a list of all sockets.
        let in_list = || (families.iter()).find_map(|&family| find(family, libc::NLM_F_DUMP));
        find(families[0], 0).or_else(|| is_local(peer, local).then(in_list)?)
    }

    /// The user in the first answer that fits the question.
    fn find(&self, question: &[u8; QUESTION]) -> Option<u32> {
        let netlink = self.netlink.as_ref()?;
        let mut answer = [0; ANSWERS];
        // An answer to an earlier question that was given up.
        while sys::receive_now(netlink.as_fd(), &mut answer).is_ok() {}
        send(netlink, question, SendFlags::DONTWAIT).ok()?;
        // The kernel answers before `send` returns. A list goes on before `receive_now` returns.
        while let Ok(len) = sys::receive_now(netlink.as_fd(), &mut answer) {
            let mut rest = answer.get(..len)?;
            while let Some(len) = rest.first_chunk() {
                let len = u32::from_ne_bytes(*len) as usize;
                let user = user_in(rest.get(..len)?, question);
                if user.is_some() {
                    return user;
                }
                rest = rest
                    .get(len.max(4).next_multiple_of(4)..)
                    .unwrap_or_default();
            }
        }
        None
    }
}

/// Whether a connection from `peer` to `local` is one within this machine.
fn is_local(peer: SocketAddr, local: SocketAddr) -> bool {
    let host = peer.ip().to_canonical();
    host.is_loopback() || host == local.ip().to_canonical()
}

fn question(peer: SocketAddr, local: SocketAddr, family: i32, flags: i32) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let mut put = |at: usize, some: &[u8]| bytes[at..at + some.len()].copy_from_slice(some);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    put(FAMILY, &[family as u8, libc::IPPROTO_TCP as u8]);
    put(20, &(1_u32 << ESTABLISHED).to_ne_bytes());
    for (end, at) in [(peer, 0), (local, 1)] {
        put(24 + 2 * at, &end.port().to_be_bytes());
        match end.ip().to_canonical() {
            IpAddr::V4(it) if family == libc::AF_INET => put(28 + 16 * at, &it.octets()),
            IpAddr::V4(it) => put(28 + 16 * at, &it.to_ipv6_mapped().octets()),
            IpAddr::V6(it) => put(28 + 16 * at, &it.octets()),
        }
    }
    // No cookie is known.
    put(64, &[0xff; 8]);
    bytes
}

/// The user in an answer about an open connection.
fn user_in(answer: &[u8], question: &[u8; QUESTION]) -> Option<u32> {
    let answer = answer.first_chunk::<ANSWER>()?;
    // A list has all connections of the family that have these ports.
    let is_other = answer[FAMILY] == question[FAMILY] && answer[ENDS] != question[ASKED_ENDS];
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|n| answer[at + n]));
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    // A socket that its program has closed has no inode, and counts as root's.
    let is_open = answer[STATE] == ESTABLISHED && number(USER + 4) != 0;
    (kind == SOCK_DIAG_BY_FAMILY && is_open && !is_other).then(|| number(USER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_testing::lab::{ip, lab};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn the_user_of_a_connection_is_known_until_it_is_closed() {
        let holders = Holders::new();
        for address in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                println!("skipped: needs IPv6");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (socket, peer) = listener.accept().unwrap();
            let local = socket.local_addr().unwrap();
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(holders.user(peer, local), Some(own), "{address}");
            assert_eq!(holders.of(peer, local), Holder::Trusted);
            drop(client);
            assert_eq!(holders.of(peer, local), Holder::User(None), "{address}");
            // A listening socket is not the end of a connection.
            let nobody = SocketAddr::new(local.ip(), 1);
            assert_eq!(holders.user(local, nobody), None);
        }
    }

    #[test]
    fn the_user_of_a_socket_that_is_bound_to_an_interface_is_known() {
        lab(&[], || {
            ip("link set lo up");
            ip("addr add 10.9.9.1/24 dev va");
            let holders = Holders::new();
            let own = rustix::process::geteuid().as_raw();
            let cases = [
                ("127.0.0.1:0", *b"lo\0"),
                ("[::1]:0", *b"lo\0"),
                ("[::ffff:127.0.0.1]:0", *b"lo\0"),
                ("10.9.9.1:0", *b"va\0"),
            ];
            for (address, interface) in cases {
                let Ok(listener) = TcpListener::bind(address) else {
                    println!("skipped: needs IPv6");
                    continue;
                };
                let server = listener.local_addr().unwrap();
                let family = match server {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                };
                let client = sys::socket(family, SocketType::STREAM, None).unwrap();
                let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
                sys::set_option(client.as_fd(), level, option, &interface).unwrap();
                rustix::net::connect(&client, &server).unwrap();
                let (_socket, peer) = listener.accept().unwrap();
                assert_eq!(holders.user(peer, server), Some(own), "{address}");
                // Other connections with these ports are in the list, too.
                let other = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 9).into(), peer.port());
                assert_eq!(holders.user(other, server), None, "{address}");
            }
        });
    }

    #[test]
    fn hosts_are_told_apart_by_address_or_network() {
        let holders = Holders { netlink: None };
        let of = |peer: &str| holders.of(peer.parse().unwrap(), "10.0.0.1:9".parse().unwrap());
        assert_eq!(of("10.0.0.2:5"), of("[::ffff:10.0.0.2]:6"));
        assert_ne!(of("10.0.0.2:5"), of("10.0.0.3:5"));
        assert_eq!(of("[2001:db8::1]:5"), of("[2001:db8::2]:5"));
        assert_ne!(of("[2001:db8::1]:5"), of("[2001:db8:0:1::1]:5"));
        for local in ["127.0.0.7:5", "[::1]:5", "10.0.0.1:5"] {
            assert_eq!(of(local), Holder::User(None));
        }
    }

    #[test]
    fn one_user_or_host_leaves_places_to_others_and_all_leave_some_to_root() {
        let some = Holder::User(Some(1000));
        let other = Holder::Host(Ipv4Addr::new(10, 0, 0, 2).into());
        let of = |holder, count| std::iter::repeat_n(holder, count);
        assert!(!is_full(some, of(some, 7)) && is_full(some, of(some, 8)));
        assert!(!is_full(other, of(some, 8)) && is_full(other, of(some, 24)));
        assert!(!is_full(Holder::Trusted, of(some, 24)));
        assert!(!is_full(some, of(Holder::Trusted, 23)));
        assert!(is_full(Holder::Trusted, of(Holder::Trusted, 32)));
    }
}
