//! An expression as a tree of tests, for programs that look packets up by their flows before they run the filter.
//!
//! ```text
//!  "vlan 5 and host 10.0.0.1 and not tcp[13] & 2 != 0"
//!    And ┬ Vlan(5)                  in the frame
//!        ├ Address(10.0.0.1)        after one VLAN tag
//!        └ Not ─ Other              after one VLAN tag
//! ```
//!
//! The tree has less information than the expression: each test that does not concern a packet's flow is [`Test::Other`]. So the tree
//! shows which packets cannot match. For the remaining packets, run the program of the filter.

use super::{
    Filter,
    ast::{Expr, Joint, Primitive, Protocol},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use super::ast::Direction;

/// A whole expression, or a part of one. [`Filter::tree`] returns it.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Every packet matches: the empty expression.
    Everything,
    /// All of these match; at least two.
    And(Vec<Tree>),
    /// One of these matches; at least two.
    Or(Vec<Tree>),
    /// This does not match.
    Not(Box<Tree>),
    /// One test.
    Test(Test, Place),
}

/// The headers that a test applies to. `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` move the headers for everything after them in the text,
/// also after an `or`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The headers after this number of VLAN tags: 0 without a `vlan` before the test.
    AfterVlans(u32),
    /// The headers in a tunnel: after `mpls`, `pppoes`, `geneve` or `vxlan`.
    InTunnel,
}

/// One test of the packet's headers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Test {
    /// The frame's payload has this EtherType, greater than 1500: `ip`, `arp`, `ether proto 0x88cc`.
    EtherType(u16),
    /// An IP header names this protocol as the next one: `tcp`, `ip6 proto 17`. In IPv6 this is the next header of the fixed header, or
    /// of a fragment header directly after it.
    IpProtocol {
        /// Only IPv4 (`0x0800`) or IPv6 (`0x86DD`); `None`: either.
        ether_type: Option<u16>,
        /// The number in the header.
        number: u8,
    },
    /// An address is in a network, or is that of a host.
    Address {
        /// Only packets of this EtherType. `None`: IPv6 for IPv6 addresses, and IPv4, ARP and RARP for others.
        ether_type: Option<u16>,
        /// Which of the two addresses.
        direction: Direction,
        /// The host or network.
        network: Network,
    },
    /// A port is in a range. Packets without ports, such as later fragments, do not match.
    Ports {
        /// 6 (TCP), 17 (UDP) or 132 (SCTP); `None`: any of them.
        transport: Option<u8>,
        /// Which of the two ports.
        direction: Direction,
        /// The first port of the range.
        first: u16,
        /// The last port of the range. If it is less than `first`, no packet matches.
        last: u16,
    },
    /// The frame has a VLAN tag, with this number if there is one.
    Vlan(Option<u16>),
    /// Anything else, such as `tcp[13] & 2 != 0`, `greater 100` or `ether host …`.
    Other,
}

/// Addresses that are equal under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address; its bits outside the mask are 0.
    pub address: IpAddr,
    /// The mask, of the same family. All bits are set for a host. The set bits of an IPv4 mask need not be consecutive.
    pub mask: IpAddr,
}

impl Network {
    /// Whether `address` is in this network. An address of the other family is not.
    ///
    /// ```
    /// use forebay_net::filter::tree::Network;
    /// let network = Network { address: "10.0.0.0".parse()?, mask: "255.0.0.0".parse()? };
    /// assert!(network.contains("10.1.2.3".parse()?) && !network.contains("11.0.0.0".parse()?));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn contains(&self, address: IpAddr) -> bool {
        match (address, self.address, self.mask) {
            (IpAddr::V4(it), IpAddr::V4(address), IpAddr::V4(mask)) => it & mask == address,
            (IpAddr::V6(it), IpAddr::V6(address), IpAddr::V6(mask)) => it & mask == address,
            _ => false,
        }
    }

    /// The lowest and the highest address in it.
    ///
    /// ```
    /// use forebay_net::filter::tree::Network;
    /// let network = Network { address: "10.0.0.0".parse()?, mask: "255.0.0.0".parse()? };
    /// assert_eq!(network.range(), ("10.0.0.0".parse()?, "10.255.255.255".parse()?));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn range(&self) -> (IpAddr, IpAddr) {
        let last = match (self.address, self.mask) {
            (IpAddr::V4(address), IpAddr::V4(mask)) => IpAddr::V4(address | !mask),
            (IpAddr::V6(address), IpAddr::V6(mask)) => IpAddr::V6(address | !mask),
            (address, _) => address,
        };
        (self.address, last)
    }
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;

impl Filter {
    /// The tests of the expression, as far as they concern a packet's flow.
    ///
    /// ```
    /// use forebay_net::filter::{Filter, tree::{Direction, Place, Test, Tree}};
    /// let filter: Filter = "tcp dst port 80 and not less 60".parse()?;
    /// let Tree::And(tests) = filter.tree() else { panic!() };
    /// let port = Test::Ports { transport: Some(6), direction: Direction::Destination, first: 80, last: 80 };
    /// assert_eq!(tests[0], Tree::Test(port, Place::AfterVlans(0)));
    /// assert_eq!(tests[1], Tree::Not(Box::new(Tree::Test(Test::Other, Place::AfterVlans(0)))));
    /// # Ok::<(), forebay_net::filter::Error>(())
    /// ```
    pub fn tree(&self) -> Tree {
        let mut place = Place::AfterVlans(0);
        match &self.0.expression {
            Some(expression) => expression.tree(&mut place),
            None => Tree::Everything,
        }
    }
}

impl Expr {
    /// Walks the expression in the order of its text.
    fn tree(&self, place: &mut Place) -> Tree {
        match self {
            Expr::Chain(first, rest) => {
                let first = first.tree(place);
                rest.iter().fold(first, |before, (joint, next)| {
                    let next = next.tree(place);
                    before.joined(*joint, next)
                })
            }
            Expr::Not(inner) => Tree::Not(Box::new(inner.tree(place))),
            Expr::Primitive(primitive, _) => primitive.tree(place),
            Expr::Relation { .. } => Tree::Test(Test::Other, *place),
        }
    }
}

impl Tree {
    fn joined(self, joint: Joint, next: Tree) -> Tree {
        match (joint, self) {
            (Joint::And, Tree::And(mut all)) => {
                all.push(next);
                Tree::And(all)
            }
            (Joint::Or, Tree::Or(mut any)) => {
                any.push(next);
                Tree::Or(any)
            }
            (Joint::And, first) => Tree::And(vec![first, next]),
            (Joint::Or, first) => Tree::Or(vec![first, next]),
        }
    }
}

impl Primitive {
    fn tree(&self, place: &mut Place) -> Tree {
        let here = *place;
        let test = match self {
            Primitive::Protocol(protocol) => of_protocol(*protocol),
            Primitive::Next(of, number) => of_next(*of, *number),
            Primitive::Ipv4(protocol, direction, address, mask) => {
                let (address, mask) = (Ipv4Addr::from(*address), Ipv4Addr::from(*mask));
                of_network(*protocol, *direction, address.into(), mask.into())
            }
            Primitive::Ipv6(direction, address, mask) => {
                of_network(Protocol::Ip6, *direction, (*address).into(), (*mask).into())
            }
            Primitive::Host(protocol, direction, addresses) => {
                let hosts = addresses.iter().map(|address| {
                    let mask = match address {
                        IpAddr::V4(_) => Ipv4Addr::BROADCAST.into(),
                        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX).into(),
                    };
                    Tree::Test(of_network(*protocol, *direction, *address, mask), here)
                });
                let any = hosts.reduce(|before, next| before.joined(Joint::Or, next));
                return any.unwrap_or(Tree::Test(Test::Other, here));
            }
            Primitive::Ports(ports) => Test::Ports {
                transport: ports.transport.map(|it| it.number() as u8),
                direction: ports.direction,
                first: ports.first,
                last: ports.last,
            },
            Primitive::Vlan(number) => {
                if let Place::AfterVlans(tags) = place {
                    *tags += 1;
                }
                Test::Vlan(number.map(|number| number as u16))
            }
            Primitive::Mpls(_)
            | Primitive::PppoeSession(_)
            | Primitive::Geneve(_)
            | Primitive::Vxlan(_) => {
                *place = Place::InTunnel;
                Test::Other
            }
            Primitive::PppoeDiscovery => Test::EtherType(0x8863),
            _ => Test::Other,
        };
        Tree::Test(test, here)
    }
}

fn of_network(protocol: Protocol, direction: Direction, address: IpAddr, mask: IpAddr) -> Test {
    let ether_type = match protocol {
        Protocol::Ip => Some(IPV4),
        Protocol::Ip6 => Some(IPV6),
        Protocol::Arp => Some(0x0806),
        Protocol::Rarp => Some(0x8035),
        _ => None,
    };
    Test::Address {
        ether_type: ether_type.or(address.is_ipv6().then_some(IPV6)),
        direction,
        network: Network { address, mask },
    }
}

/// The test of a protocol's keyword alone; the numbers are those in `compile/protocols.rs`.
fn of_protocol(protocol: Protocol) -> Test {
    use Protocol::*;
    let (of, number) = match protocol {
        Ip => return Test::EtherType(IPV4),
        Ip6 => return Test::EtherType(IPV6),
        Arp => return Test::EtherType(0x0806),
        Rarp => return Test::EtherType(0x8035),
        Tcp => (Any, 6),
        Udp => (Any, 17),
        Sctp => (Any, 132),
        Pim => (Any, 103),
        Ah => (Any, 51),
        Esp => (Any, 50),
        Icmp => (Ip, 1),
        Igmp => (Ip, 2),
        Igrp => (Ip, 9),
        Vrrp | Carp => (Ip, 112),
        Icmp6 => (Ip6, 58),
        _ => return Test::Other,
    };
    of_next(of, number)
}

fn of_next(of: Protocol, number: u32) -> Test {
    let ether_type = match of {
        Protocol::Any => None,
        Protocol::Ip => Some(IPV4),
        Protocol::Ip6 => Some(IPV6),
        // AppleTalk, its ARP and IPX also have other encodings.
        Protocol::Link => {
            let plain = |kind: &u16| *kind > 1500 && ![0x809B, 0x80F3, 0x8137].contains(kind);
            let kind = u16::try_from(number).ok().filter(plain);
            return kind.map_or(Test::Other, Test::EtherType);
        }
        _ => return Test::Other,
    };
    match u8::try_from(number) {
        Ok(number) => Test::IpProtocol { ether_type, number },
        Err(_) => Test::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Filter::without_hosts(text).unwrap().tree()
    }

    fn tests(tree: &Tree, into: &mut Vec<(Test, Place)>) {
        match tree {
            Tree::Everything => {}
            Tree::And(all) | Tree::Or(all) => all.iter().for_each(|it| tests(it, into)),
            Tree::Not(inner) => tests(inner, into),
            Tree::Test(test, place) => into.push((test.clone(), *place)),
        }
    }

    #[test]
    fn and_and_or_group_to_the_left() {
        let [ip, arp, tcp] = ["ip", "arp", "tcp"].map(tree);
        let either = Tree::Or(vec![ip.clone(), arp.clone()]);
        let both = Tree::And(vec![either, tcp.clone()]);
        assert_eq!(tree("ip or arp and tcp"), both);
        let inner = Tree::And(vec![arp, tcp]);
        assert_eq!(tree("ip or (arp and tcp)"), Tree::Or(vec![ip, inner]));
        assert_eq!(tree(""), Tree::Everything);
    }

    #[test]
    fn what_moves_headers_moves_them_for_the_rest_of_the_text() {
        let places = |text: &str| {
            let mut found = Vec::new();
            tests(&tree(text), &mut found);
            found
                .into_iter()
                .map(|(_, place)| place)
                .collect::<Vec<_>>()
        };
        use Place::*;
        let vlans = "ip or (vlan 5 and not tcp) or vlan and port 80";
        let after = [0, 0, 1, 1, 2].map(AfterVlans);
        assert_eq!(places(vlans), after);
        let tunnel = "vlan and pppoes and ip or vlan";
        let inside = [AfterVlans(0), AfterVlans(1), InTunnel, InTunnel];
        assert_eq!(places(tunnel), inside);
    }

    #[test]
    fn a_test_that_is_not_one_of_a_flow_is_other() {
        for text in [
            "less 5",
            "tcp[13] & 2 != 0",
            "ether host 2:0:0:0:0:1",
            "broadcast",
            "ip multicast",
            "stp",
            "isis",
            "mpls 5",
            "llc",
            "ether proto 0x8137",
            "ether proto 5",
            "ip proto 300",
        ] {
            let other = Tree::Test(Test::Other, Place::AfterVlans(0));
            assert_eq!(tree(text), other, "{text}");
        }
    }

    #[test]
    fn networks_need_not_be_prefixes() {
        let Tree::Test(Test::Address { network, .. }, _) = tree("net 10.0.1.0 mask 255.0.255.0")
        else {
            panic!();
        };
        assert!(network.contains("10.7.1.9".parse().unwrap()));
        assert!(!network.contains("10.7.2.9".parse().unwrap()));
        assert!(!network.contains("::a07:109".parse().unwrap()));
        assert_eq!(network.range().1, "10.255.1.255".parse::<IpAddr>().unwrap());
    }
}
