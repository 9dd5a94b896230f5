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
/// Where the answer has the state, the user and the inode.
const STATE: usize = 17;
const USER: usize = 80;
const ANSWER: usize = 88;
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
            None if host.is_loopback() || host == local.ip().to_canonical() => Holder::User(None),
            None => Holder::Host(match host {
                IpAddr::V4(_) => host,
                IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() >> 64 << 64).into(),
            }),
        }
    }

    /// The user of this machine whose socket has this end of the connection, unless it is closed already.
    fn user(&self, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let netlink = self.netlink.as_ref()?;
        let mut answer = [0; 256];
        // An answer to an earlier question that was given up.
        while sys::receive_now(netlink.as_fd(), &mut answer).is_ok() {}
        send(netlink, &question(peer, local), SendFlags::DONTWAIT).ok()?;
        // The kernel answers before `send` returns.
        let len = sys::receive_now(netlink.as_fd(), &mut answer).ok()?;
        user_in(answer.get(..len)?)
    }
}

fn question(peer: SocketAddr, local: SocketAddr) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let mut put = |at: usize, some: &[u8]| bytes[at..at + some.len()].copy_from_slice(some);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    let is_v4 = peer.ip().to_canonical().is_ipv4();
    let family = if is_v4 { libc::AF_INET } else { libc::AF_INET6 };
    put(16, &[family as u8, libc::IPPROTO_TCP as u8]);
    put(20, &u32::MAX.to_ne_bytes());
    for (end, at) in [(peer, 0), (local, 1)] {
        put(24 + 2 * at, &end.port().to_be_bytes());
        match end.ip().to_canonical() {
            IpAddr::V4(it) => put(28 + 16 * at, &it.octets()),
            IpAddr::V6(it) => put(28 + 16 * at, &it.octets()),
        }
    }
    // No cookie is known.
    put(64, &[0xff; 8]);
    bytes
}

/// The user in an answer about an open connection.
fn user_in(answer: &[u8]) -> Option<u32> {
    let answer = answer.first_chunk::<ANSWER>()?;
    let number = |at: usize| u32::from_ne_bytes(std::array::from_fn(|n| answer[at + n]));
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    // A socket that its program has closed has no inode, and counts as root's.
    let is_open = answer[STATE] == ESTABLISHED && number(USER + 4) != 0;
    (kind == SOCK_DIAG_BY_FAMILY && is_open).then(|| number(USER))
}

#[cfg(test)]
mod tests {
    use super::*;
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
