//! Which flow a packet belongs to, read from its headers without allocating.
//!
//! The headers are read where a BPF filter reads them, also in malformed packets: the length of an IPv4 header is not checked
//! against the packet, the version of an Ethernet payload is not checked against the type of the frame. So a packet that matches
//! `host`, `net`, `port`, `tcp`, `udp`, `arp` or `vlan` has the field that matched in its flow.

use crate::port::LinkType;
use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
};

/// VLAN tags of one frame that are followed; frames with more have no addresses.
const MAX_TAGS: usize = 4;

const IPV6: u16 = 0x86dd;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

/// Two endpoints and how they communicate, the same for both directions.
///
/// The endpoint with the lower port is B, which is usually the server. With equal ports, or without ports, the lower address is A.
/// The ports of ICMP are those of the Community ID: the type of this message and, if messages of this type are answered, the type
/// of the answer; otherwise the code. A message of a type without answer is a separate flow, from A to B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The addresses A and B; IPv4 addresses are mapped to IPv6 (`::ffff:0:0/96`). 0 if the packet has none.
    pub addresses: [u128; 2],
    /// The ports of A and B, or what stands for them.
    pub ports: [u16; 2],
    ether_type: u16,
    /// The identifier of the outermost VLAN tag plus 1; 0 without a tag.
    vlan: u16,
    /// The number of VLAN tags.
    pub tags: u8,
    protocol: u8,
    /// The next header in the fixed header of IPv6; 0 for other packets.
    next_header: u8,
    has: u8,
}

/// Three words instead of one for each field: a flow is looked up for nearly each packet.
impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.addresses;
        let [port_a, port_b] = self.ports.map(u128::from);
        let ports = port_a << 16 | port_b;
        let kind = u128::from(self.ether_type) << 16 | u128::from(self.vlan);
        let rest = u128::from(u32::from_be_bytes([
            self.next_header,
            self.tags,
            self.protocol,
            self.has,
        ]));
        state.write_u128(a);
        state.write_u128(b);
        state.write_u128(ports << 64 | kind << 32 | rest);
    }
}

const HAS_ADDRESSES: u8 = 1;
const HAS_PORTS: u8 = 2;
const HAS_PROTOCOL: u8 = 4;
const IS_ONE_WAY: u8 = 8;
const HAS_TYPE: u8 = 16;

impl Flow {
    /// The flow of a packet of this link type, and the flags of TCP (0 for other packets).
    #[inline]
    pub fn of(link: LinkType, data: &[u8]) -> (Flow, u8) {
        let headers = Headers::of(link, data);
        (headers.flow, headers.tcp_flags)
    }

    /// The addresses, if the packet has any.
    pub fn hosts(&self) -> Option<[IpAddr; 2]> {
        let addresses = self.address_pair()?;
        Some(addresses.map(|it| Ipv6Addr::from(it).to_canonical()))
    }

    /// The addresses as numbers, if the packet has any.
    pub fn address_pair(&self) -> Option<[u128; 2]> {
        (self.has & HAS_ADDRESSES != 0).then_some(self.addresses)
    }

    /// The ports, if the packet has any.
    pub fn port_pair(&self) -> Option<[u16; 2]> {
        (self.has & HAS_PORTS != 0).then_some(self.ports)
    }

    /// The protocol number of an IP packet: after extension headers in IPv6.
    pub fn protocol(&self) -> Option<u8> {
        (self.has & HAS_PROTOCOL != 0).then_some(self.protocol)
    }

    /// The next header that the IPv6 header itself names, before extension headers. `None`: no IPv6.
    pub fn next_header(&self) -> Option<u8> {
        let is_ipv6 = self.ether_type == IPV6 && self.has & HAS_PROTOCOL != 0;
        is_ipv6.then_some(self.next_header)
    }

    /// The type of the frame's payload, after VLAN tags: 0x0800 for IPv4, also on links that have no such field; 0 for an 802.3
    /// frame, which has a length instead. `None`: unknown, or the packet ends before the addresses or ports that packets of this type
    /// have, so that a filter may find anything in it.
    pub fn ether_type(&self) -> Option<u16> {
        (self.has & HAS_TYPE != 0).then_some(self.ether_type)
    }

    /// The identifier of the outermost VLAN tag.
    pub fn vlan(&self) -> Option<u16> {
        self.vlan.checked_sub(1)
    }

    /// Whether A sent the packets, whatever the ports are: ICMP messages that are not answered.
    pub fn is_one_way(&self) -> bool {
        self.has & IS_ONE_WAY != 0
    }

    /// A hash of its addresses, protocol and ports, which is the same on every machine. 0: it has no addresses.
    ///
    /// It is not for tables whose keys an attacker may choose: it has no secret.
    ///
    /// ```
    /// use forebay_net::{flow::Flow, port::LinkType};
    /// let mut ping = [0; 28]; // a packet of IPv4 alone
    /// (ping[0], ping[9], ping[15], ping[19], ping[20]) = (0x45, 1, 10, 20, 8); // ICMP from 0.0.0.10 to 0.0.0.20, an echo
    /// let mut pong = ping;
    /// (pong[15], pong[19], pong[20]) = (20, 10, 0);
    /// let hash = |packet: &[u8]| Flow::of(LinkType::RAW, packet).0.hash64();
    /// assert_eq!(hash(&ping), hash(&pong));
    /// assert_eq!(hash(&[]), 0);
    /// ```
    pub fn hash64(&self) -> u64 {
        if self.has & HAS_ADDRESSES == 0 {
            return 0;
        }
        let [a, b] = self.addresses;
        let [from, to] = self.ports.map(u64::from);
        let rest = from << 32 | to << 16 | u64::from(self.protocol);
        // The two halves of a product together depend on all bits of the word.
        let mix = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
            (product as u64) ^ (product >> 64) as u64
        };
        let words = [a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64, rest];
        words.into_iter().fold(0x243f_6a88_85a3_08d3, mix).max(1)
    }
}

/// What the headers of a packet show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Headers<'a> {
    /// Its flow.
    pub flow: Flow,
    /// The flags of TCP; 0 for other packets.
    pub tcp_flags: u8,
    /// The sender of the packet is B of the flow.
    pub is_back: bool,
    /// The type of the frame's payload, as [`Flow::ether_type`], also if the packet ends after it.
    pub ether_type: Option<u16>,
    /// What follows the headers of IP, as far as it was captured. Empty if there is no such header, and for fragments.
    pub payload: &'a [u8],
    /// Its length on the wire.
    pub payload_len: usize,
}

impl<'a> Headers<'a> {
    /// The headers of a packet of this link type.
    ///
    /// ```
    /// use forebay_net::{flow::Headers, port::LinkType};
    /// let mut udp = [0; 28]; // a packet of IPv4 alone
    /// (udp[0], udp[3], udp[9], udp[21], udp[23]) = (0x45, 28, 17, 53, 99); // from port 53 to port 99
    /// let headers = Headers::of(LinkType::RAW, &udp);
    /// assert_eq!((headers.flow.ports, headers.is_back, headers.payload), ([99, 53], true, &udp[20..]));
    /// ```
    #[inline]
    pub fn of(link: LinkType, data: &'a [u8]) -> Headers<'a> {
        let mut headers = Headers::default();
        headers.tcp_flags = headers.read_link(link, data).unwrap_or(0);
        headers
    }

    #[inline]
    fn read_link(&mut self, link: LinkType, data: &'a [u8]) -> Option<u8> {
        match link.0 {
            1 => self.read_type(word(data, 12)?, data.get(14..)?),
            12 | 14 | 101 => self.read_ip(data),
            228 => self.read_type(0x0800, data),
            229 => self.read_type(0x86dd, data),
            113 => self.read_type(word(data, 14)?, data.get(16..)?),
            276 => self.read_type(word(data, 0)?, data.get(20..)?),
            // Each BSD has its own number for IPv6; the byte order is that of the capturing machine, or big-endian.
            0 => match u32::from_le_bytes(*data.first_chunk()?) {
                2 => self.read_type(0x0800, &data[4..]),
                24 | 28 | 30 => self.read_type(0x86dd, &data[4..]),
                _ => None,
            },
            108 => match u32::from_be_bytes(*data.first_chunk()?) {
                2 => self.read_type(0x0800, &data[4..]),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads a packet whose first byte shows its version.
    fn read_ip(&mut self, data: &'a [u8]) -> Option<u8> {
        match data.first()? >> 4 {
            4 => self.read_type(0x0800, data),
            6 => self.read_type(0x86dd, data),
            _ => None,
        }
    }

    #[inline]
    fn read_type(&mut self, kind: u16, data: &'a [u8]) -> Option<u8> {
        // Up to 1500 it is the length of an 802.3 frame.
        self.flow.ether_type = if kind <= 1500 { 0 } else { kind };
        self.ether_type = Some(self.flow.ether_type);
        self.flow.has |= HAS_TYPE;
        let flags = match kind {
            0x0800 => self.read_ipv4(data),
            IPV6 => self.read_ipv6(data),
            0x0806 | 0x8035 => self.read_arp(data),
            0x8100 | 0x88a8 | 0x9100 => return self.read_tagged(data),
            _ => return None,
        };
        if self.flow.has & HAS_ADDRESSES == 0 {
            self.flow.has &= !HAS_TYPE;
        }
        flags
    }

    fn read_tagged(&mut self, mut data: &'a [u8]) -> Option<u8> {
        self.flow.has &= !HAS_TYPE;
        for _ in 0..MAX_TAGS {
            let tag = word(data, 0)? & 0xfff;
            if self.flow.vlan == 0 {
                self.flow.vlan = tag + 1;
            }
            self.flow.tags += 1;
            let kind = word(data, 2)?;
            data = data.get(4..)?;
            if !matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
                return self.read_type(kind, data);
            }
        }
        None
    }

    /// The addresses of the sender and the target, where they are in ARP for IPv4 over Ethernet.
    fn read_arp(&mut self, data: &'a [u8]) -> Option<u8> {
        let [from, to] = [14, 24].map(|at| ipv4(data, at));
        self.set_hosts([from?, to?]);
        self.order();
        Some(0)
    }

    #[inline]
    fn read_ipv4(&mut self, data: &'a [u8]) -> Option<u8> {
        let hosts = [ipv4(data, 12), ipv4(data, 16)];
        self.set_hosts([hosts[0]?, hosts[1]?]);
        self.set_protocol(data[9]);
        let fragment = word(data, 6)?;
        let is_later_fragment = fragment & 0x1fff != 0;
        let header_len = usize::from(data[0] & 0xf) * 4;
        let payload = data.get(header_len..);
        // The offset, and whether more follow.
        if let Some(payload) = payload.filter(|_| fragment & 0x3fff == 0) {
            let total = usize::from(word(data, 2)?);
            self.set_payload(payload, total, header_len);
        }
        let flags = match (is_later_fragment, payload) {
            (false, Some(payload)) => self.read_transport(payload),
            _ => None,
        };
        self.expect_ports(is_later_fragment);
        self.order();
        Some(flags.unwrap_or(0))
    }

    #[inline]
    fn read_ipv6(&mut self, data: &'a [u8]) -> Option<u8> {
        let header = data.first_chunk::<40>()?;
        self.set_hosts([ipv6(header, 8), ipv6(header, 24)]);
        self.set_protocol(header[6]);
        self.flow.next_header = header[6];
        let mut payload = &data[40..];
        let (mut is_later_fragment, mut is_fragment) = (false, false);
        // Hop-by-hop options, routing, fragment, authentication, destination options.
        while matches!(self.flow.protocol, 0 | 43 | 44 | 51 | 60) && !is_later_fragment {
            let Some(head) = payload.first_chunk::<4>() else {
                break;
            };
            let len = match self.flow.protocol {
                44 => 8,
                51 => (usize::from(head[1]) + 2) * 4,
                _ => (usize::from(head[1]) + 1) * 8,
            };
            if self.flow.protocol == 44 {
                let fragment = u16::from_be_bytes([head[2], head[3]]);
                is_later_fragment = fragment >> 3 != 0;
                // The offset, and whether more follow.
                is_fragment |= fragment & 0xfff9 != 0;
            }
            let Some(rest) = payload.get(len..) else {
                break;
            };
            self.flow.protocol = head[0];
            payload = rest;
        }
        if !is_fragment {
            let extensions = data.len() - 40 - payload.len();
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            self.set_payload(payload, len, extensions);
        }
        let flags = match is_later_fragment {
            true => None,
            false => self.read_transport(payload),
        };
        self.expect_ports(is_later_fragment);
        self.order();
        Some(flags.unwrap_or(0))
    }

    /// The type is not known if the packet ends before its ports.
    #[inline]
    fn expect_ports(&mut self, is_later_fragment: bool) {
        let should_have = !is_later_fragment && matches!(self.flow.protocol, TCP | UDP | SCTP);
        if should_have && self.flow.has & HAS_PORTS == 0 {
            self.flow.has &= !HAS_TYPE;
        }
    }

    #[inline]
    fn read_transport(&mut self, data: &'a [u8]) -> Option<u8> {
        match self.flow.protocol {
            TCP | UDP | SCTP => {
                self.flow.ports = [word(data, 0)?, word(data, 2)?];
                self.flow.has |= HAS_PORTS;
                match self.flow.protocol {
                    TCP => data.get(13).copied(),
                    _ => None,
                }
            }
            ICMP | ICMP6 => {
                let [kind, code] = *data.first_chunk::<2>()?;
                let answer = match self.flow.protocol {
                    ICMP => answer_of_icmp(kind),
                    _ => answer_of_icmp6(kind),
                };
                if answer.is_none() {
                    self.flow.has |= IS_ONE_WAY;
                }
                self.flow.ports = [kind.into(), answer.unwrap_or(code).into()];
                self.flow.has |= HAS_PORTS;
                None
            }
            _ => None,
        }
    }

    /// `len`: its length and that of headers in front of it, according to the header of IP. Unknown if it is 0, as in packets that the kernel
    /// shows before it splits them, or too short.
    #[inline]
    fn set_payload(&mut self, payload: &'a [u8], len: usize, headers: usize) {
        self.payload_len = match len.checked_sub(headers) {
            Some(rest) if len > 0 => rest,
            _ => payload.len(),
        };
        self.payload = &payload[..self.payload_len.min(payload.len())];
    }

    #[inline]
    fn set_hosts(&mut self, hosts: [u128; 2]) {
        self.flow.addresses = hosts;
        self.flow.has |= HAS_ADDRESSES;
    }

    #[inline]
    fn set_protocol(&mut self, protocol: u8) {
        self.flow.protocol = protocol;
        self.flow.has |= HAS_PROTOCOL;
    }

    /// Orders the endpoints, so that both directions are one flow.
    #[inline]
    fn order(&mut self) {
        let is_in_order = match self.flow.ports[0] == self.flow.ports[1] {
            true => self.flow.addresses[0] <= self.flow.addresses[1],
            false => self.flow.ports[0] > self.flow.ports[1],
        };
        if !is_in_order && !self.flow.is_one_way() {
            self.is_back = true;
            self.flow.addresses.swap(0, 1);
            self.flow.ports.swap(0, 1);
        }
    }
}

/// The type of the ICMP message that answers this one, or that this one answers.
fn answer_of_icmp(kind: u8) -> Option<u8> {
    Some(match kind {
        0 => 8,
        8 => 0,
        9 => 10,
        10 => 9,
        13 => 14,
        14 => 13,
        15 => 16,
        16 => 15,
        17 => 18,
        18 => 17,
        _ => return None,
    })
}

/// The same for ICMPv6.
fn answer_of_icmp6(kind: u8) -> Option<u8> {
    Some(match kind {
        128 => 129,
        129 => 128,
        130 => 131,
        131 => 130,
        133 => 134,
        134 => 133,
        135 => 136,
        136 => 135,
        139 => 140,
        140 => 139,
        144 => 145,
        145 => 144,
        _ => return None,
    })
}

#[inline]
fn word(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

#[inline]
fn ipv4(data: &[u8], at: usize) -> Option<u128> {
    let address = u32::from_be_bytes(*data.get(at..)?.first_chunk()?);
    Some(0xffff_0000_0000 | u128::from(address))
}

#[inline]
fn ipv6(header: &[u8; 40], at: usize) -> u128 {
    let bytes: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(kind.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
        let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0];
        ip.extend(from.0);
        ip.extend(to.0);
        ip.extend(from.1.to_be_bytes());
        ip.extend(to.1.to_be_bytes());
        ip.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
        ip
    }

    #[test]
    fn both_directions_are_one_flow_and_b_has_the_lower_port() {
        let (client, server) = (([10, 0, 0, 9], 40_000), ([10, 0, 0, 1], 80));
        let there = Flow::of(LinkType::ETHERNET, &ethernet(0x0800, &tcp(client, server)));
        let back = Flow::of(LinkType::ETHERNET, &ethernet(0x0800, &tcp(server, client)));
        assert_eq!(there, back);
        assert_eq!(there.1, 0x12);
        let flow = there.0;
        assert_eq!(flow.port_pair(), Some([40_000, 80]));
        let hosts = flow.hosts().unwrap().map(|it| it.to_string());
        assert_eq!(hosts, ["10.0.0.9", "10.0.0.1"]);
        assert_eq!((flow.protocol(), flow.vlan()), (Some(6), None));
    }

    #[test]
    fn the_outermost_vlan_counts_and_the_addresses_are_those_after_all_tags() {
        let inner = tcp(([1; 4], 1), ([2; 4], 2));
        let tagged = [&[0x20, 7, 0x81, 0, 0, 9, 8, 0][..], &inner].concat();
        let (flow, _) = Flow::of(LinkType::ETHERNET, &ethernet(0x88a8, &tagged));
        assert_eq!((flow.vlan(), flow.tags), (Some(7), 2));
        assert_eq!(flow.ether_type(), Some(0x0800));
        assert_eq!(flow.port_pair(), Some([2, 1]));
    }

    #[test]
    fn every_link_type_finds_the_same_endpoints() {
        let ip = tcp(([1; 4], 1), ([2; 4], 2));
        let expected = Flow::of(LinkType::ETHERNET, &ethernet(0x0800, &ip));
        for (link, header, at) in [
            (101, 0, None),
            (0, 4, None),
            (113, 16, Some(14)),
            (276, 20, Some(0)),
            (228, 0, None),
        ] {
            let mut frame = vec![0; header];
            match at {
                Some(at) => frame[at..at + 2].copy_from_slice(&[8, 0]),
                None => frame.iter_mut().take(1).for_each(|family| *family = 2),
            }
            frame.extend(&ip);
            assert_eq!(Flow::of(LinkType(link), &frame), expected, "{link}");
        }
    }

    #[test]
    fn arp_has_addresses_later_fragments_have_no_ports_and_nothing_panics() {
        let mut arp = vec![0; 28];
        arp[14..18].copy_from_slice(&[10, 0, 0, 2]);
        arp[24..28].copy_from_slice(&[10, 0, 0, 1]);
        let (flow, _) = Flow::of(LinkType::ETHERNET, &ethernet(0x0806, &arp));
        assert_eq!(flow.hosts().unwrap()[0].to_string(), "10.0.0.1");
        assert_eq!(flow.protocol(), None);
        let mut fragment = tcp(([1; 4], 1), ([2; 4], 2));
        fragment[7] = 1;
        let (flow, flags) = Flow::of(LinkType::ETHERNET, &ethernet(0x0800, &fragment));
        assert_eq!(
            (flow.port_pair(), flow.protocol(), flags),
            (None, Some(6), 0)
        );
        // Fragment header, hop-by-hop options, UDP.
        let mut six = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
        six.extend([1; 32]);
        six.extend([
            44, 0, 0, 0, 0, 0, 0, 0, UDP, 0, 0, 0, 0, 0, 0, 1, 0, 53, 0x9c, 0x40, 0, 8, 0, 0,
        ]);
        let (flow, _) = Flow::of(LinkType::ETHERNET, &ethernet(0x86dd, &six));
        assert_eq!(
            (flow.protocol(), flow.port_pair()),
            (Some(UDP), Some([40_000, 53]))
        );
        assert_eq!(flow.next_header(), Some(0));
        for whole in [
            ethernet(0x86dd, &six),
            ethernet(0x0806, &arp),
            ethernet(0x8100, &six),
        ] {
            for len in 0..whole.len() {
                for link in [0, 1, 101, 113, 228, 229, 276, 9999] {
                    let _ = Flow::of(LinkType(link), &whole[..len]);
                }
            }
        }
    }
}
