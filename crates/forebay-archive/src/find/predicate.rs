//! From an expression to what can be looked up: could a packet of this flow match?
//!
//! A test has three answers for a set of packets: none of them matches, all match, or neither is certain. `and`, `or` and `not`
//! combine the answers as in Kleene's logic, so what an index does not know only adds packets to read, also under `not`. The program
//! of the filter decides about each packet that was read.

use forebay_net::filter::tree::{Direction, Network, Place, Test, Tree};
use std::net::IpAddr;

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86DD;
pub const ARP: u16 = 0x0806;
pub const RARP: u16 = 0x8035;
const HOP_BY_HOP: u8 = 0;
const TCP: u8 = 6;
const FRAGMENT: u8 = 44;
pub const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// Which of a set of packets match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    No,
    Maybe,
    Yes,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::Yes } else { Truth::No }
    }
}

impl Truth {
    pub fn not(self) -> Truth {
        match self {
            Truth::No => Truth::Yes,
            Truth::Maybe => Truth::Maybe,
            Truth::Yes => Truth::No,
        }
    }

    /// The answer of a test that can be wrong where it says yes.
    fn at_most_maybe(self) -> Truth {
        self.min(Truth::Maybe)
    }
}

/// What is known about a set of packets.
pub trait Facts {
    fn test(&self, test: &Test, place: Place) -> Truth;
}

/// Whether every test has a certain answer for these packets.
pub fn is_certain(tree: &Tree, facts: &impl Facts) -> bool {
    match tree {
        Tree::Everything => true,
        Tree::And(all) | Tree::Or(all) => all.iter().all(|it| is_certain(it, facts)),
        Tree::Not(inner) => is_certain(inner, facts),
        // On link types other than Ethernet and 802.11, no packet matches an expression with `vlan`.
        Tree::Test(Test::Vlan(_), _) => false,
        Tree::Test(test, place) => facts.test(test, *place) != Truth::Maybe,
    }
}

/// Which packets of the set match.
pub fn matching(tree: &Tree, facts: &impl Facts) -> Truth {
    match tree {
        Tree::Everything => Truth::Yes,
        Tree::And(all) => {
            let all = all.iter().map(|it| matching(it, facts));
            all.min().unwrap_or(Truth::Yes)
        }
        Tree::Or(any) => {
            let any = any.iter().map(|it| matching(it, facts));
            any.max().unwrap_or(Truth::No)
        }
        Tree::Not(inner) => matching(inner, facts).not(),
        Tree::Test(test, place) => facts.test(test, *place),
    }
}

/// The flow of a row: what all its packets have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The number of VLAN tags.
    pub tags: Option<u32>,
    /// The number in the outer tag.
    pub vlan: Option<u16>,
    /// The type of the payload after the tags; a length up to 1500 in frames of 802.3.
    pub ether_type: Option<u16>,
    /// The protocol in the IPv4 header, or after the extension headers of IPv6.
    pub protocol: Option<u8>,
    /// The next header in the IPv6 header itself. `None`: no IPv6, or not known.
    pub next_header: Option<u8>,
    /// In any order; of IP, ARP and RARP. IPv4 addresses are mapped to IPv6.
    pub addresses: Option<[u128; 2]>,
    /// In the order of the addresses. `None`: a test of ports is false for these packets, or they are too short for it.
    pub ports: Option<[u16; 2]>,
}

/// Addresses that are equal under a mask, both mapped to IPv6.
pub fn mapped(network: &Network) -> (u128, u128) {
    match (network.address, network.mask) {
        (IpAddr::V4(address), IpAddr::V4(mask)) => {
            let upper = u128::MAX << 32;
            (
                address.to_ipv6_mapped().to_bits(),
                upper | u128::from(mask.to_bits()),
            )
        }
        (IpAddr::V6(address), IpAddr::V6(mask)) => (address.to_bits(), mask.to_bits()),
        _ => unreachable!("address and mask have one family"),
    }
}

/// How two ends, in unknown order, satisfy a test of one of them.
pub fn directed(direction: Direction, [one, two]: [bool; 2]) -> Truth {
    match direction {
        Direction::Either => (one || two).into(),
        Direction::Both => (one && two).into(),
        Direction::Source | Direction::Destination if one == two => one.into(),
        Direction::Source | Direction::Destination => Truth::Maybe,
    }
}

/// Extension headers of IPv6, or what may precede one.
pub fn is_extension(number: u8) -> bool {
    matches!(number, 0 | 43 | 44 | 50 | 51 | 60 | 135 | 139 | 140)
}

/// Whether an address of a family and of this type of packets can satisfy a test for `wanted`.
pub fn has_addresses(ether_type: u16, wanted: Option<u16>) -> bool {
    match wanted {
        Some(wanted) => ether_type == wanted,
        None => matches!(ether_type, IPV4 | ARP | RARP),
    }
}

impl Facts for Flow {
    fn test(&self, test: &Test, place: Place) -> Truth {
        let (Place::AfterVlans(skipped), Some(tags), Some(ether_type)) =
            (place, self.tags, self.ether_type)
        else {
            return Truth::Maybe;
        };
        if let Test::Vlan(number) = test {
            return match (number, self.vlan) {
                _ if tags < skipped || TAGS.contains(&ether_type) => Truth::Maybe,
                _ if tags == skipped => Truth::No,
                (None, _) => Truth::Yes,
                (Some(number), Some(outer)) if skipped == 0 => (*number == outer).into(),
                _ => Truth::Maybe,
            };
        }
        // The test applies to other bytes than those of the network header.
        if tags < skipped {
            return Truth::Maybe;
        }
        if tags > skipped {
            return match test {
                Test::EtherType(kind) if TAGS.contains(kind) => Truth::Maybe,
                Test::EtherType(_)
                | Test::IpProtocol { .. }
                | Test::Address { .. }
                | Test::Ports { .. } => Truth::No,
                _ => Truth::Maybe,
            };
        }
        match test {
            Test::EtherType(kind) => (*kind == ether_type).into(),
            Test::IpProtocol {
                ether_type: wanted,
                number,
            } => match wanted.unwrap_or(ether_type) == ether_type {
                true => self.next_is(ether_type, *number),
                false => Truth::No,
            },
            Test::Address {
                ether_type: wanted,
                direction,
                network,
            } => match self.addresses {
                _ if !has_addresses(ether_type, *wanted) => Truth::No,
                Some(ends) => {
                    let (address, mask) = mapped(network);
                    directed(*direction, ends.map(|end| end & mask == address))
                }
                None => Truth::Maybe,
            },
            Test::Ports {
                transport,
                direction,
                first,
                last,
            } => {
                let transports = match transport {
                    Some(only) => std::slice::from_ref(only),
                    None => &[6, 17, 132],
                };
                let carried = transports
                    .iter()
                    .map(|it| self.carries(ether_type, *it))
                    .max();
                let range = *first..=*last;
                let between = match self.ports {
                    Some(ends) => directed(*direction, ends.map(|end| range.contains(&end))),
                    // BIG TCP has its ports after a header that the row does not know.
                    None if ether_type == IPV6 && self.protocol == Some(0) => Truth::Maybe,
                    None => Truth::No,
                };
                between.min(carried.unwrap_or(Truth::No))
            }
            _ => Truth::Maybe,
        }
    }
}

impl Flow {
    /// Whether a test of ports looks for those of this transport. Unlike other tests, it does not continue in a fragment header of IPv6.
    fn carries(&self, ether_type: u16, transport: u8) -> Truth {
        match (ether_type, self.next_header) {
            (IPV6, Some(FRAGMENT)) => Truth::No,
            _ => self.next_is(ether_type, transport),
        }
    }

    fn next_is(&self, ether_type: u16, number: u8) -> Truth {
        if let (IPV6, Some(next)) = (ether_type, self.next_header) {
            match next {
                _ if next == number => return Truth::Yes,
                // The test continues in the fragment header.
                FRAGMENT => {}
                // BIG TCP has a header before TCP.
                HOP_BY_HOP if number == TCP => {}
                _ => return Truth::No,
            }
        }
        match (ether_type, self.protocol) {
            (IPV4 | IPV6, None) => Truth::Maybe,
            (IPV4, Some(protocol)) => (protocol == number).into(),
            // Extension headers may precede what the row names.
            (IPV6, Some(protocol)) if is_extension(protocol) || is_extension(number) => {
                Truth::Maybe
            }
            (IPV6, Some(protocol)) => Truth::from(protocol == number).at_most_maybe(),
            _ => Truth::No,
        }
    }
}
