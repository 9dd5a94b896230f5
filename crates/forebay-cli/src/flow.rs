//! Which flow a packet belongs to, as `top` and `flows` count it: its endpoints and its protocol; and which of the endpoints sent it.

pub mod tcp;

use forebay_net::{flow::Headers, port::LinkType};
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};
use tcp::Segment;

/// The protocol of a packet, as far as its first headers name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Not recognized.
    #[default]
    Other,
    /// The protocol number of an IP packet.
    Ip(u8),
    /// The type of a frame that carries no IP packet.
    Ether(u16),
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Protocol::Other => "other",
            Protocol::Ip(1) => "icmp",
            Protocol::Ip(2) => "igmp",
            Protocol::Ip(6) => "tcp",
            Protocol::Ip(17) => "udp",
            Protocol::Ip(41) => "ipv6-in-ip",
            Protocol::Ip(47) => "gre",
            Protocol::Ip(50) => "esp",
            Protocol::Ip(58) => "icmp6",
            Protocol::Ip(89) => "ospf",
            Protocol::Ip(132) => "sctp",
            Protocol::Ip(number) => return write!(f, "ip-{number}"),
            Protocol::Ether(0x0806) => "arp",
            Protocol::Ether(0x88cc) => "lldp",
            Protocol::Ether(0x8863 | 0x8864) => "pppoe",
            Protocol::Ether(0x8847 | 0x8848) => "mpls",
            Protocol::Ether(0) => "llc",
            Protocol::Ether(kind) => return write!(f, "ether-0x{kind:04x}"),
        };
        f.write_str(name)
    }
}

/// Both directions between two endpoints.
///
/// The endpoint with the lower port is the second one: usually that is the server. Without ports, the lower address is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    pub protocol: Protocol,
    /// IPv4 addresses are mapped to IPv6. Both are 0 if the packet has none.
    addresses: [u128; 2],
    /// 0 for protocols without ports.
    pub ports: [u16; 2],
}

/// What the headers of a packet show about its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub flow: Flow,
    /// The second endpoint sent it.
    pub is_back: bool,
    /// Its TCP header, if it has a whole one.
    pub segment: Option<Segment>,
}

impl Packet {
    /// A packet of this link type. A packet whose headers are incomplete belongs to the flow that its complete headers name.
    #[inline]
    pub fn of(link: LinkType, data: &[u8]) -> Packet {
        let headers = headers(link, data);
        let protocol = match (headers.flow.protocol(), headers.ether_type) {
            (Some(number), _) => Protocol::Ip(number),
            (None, Some(kind)) => Protocol::Ether(kind),
            (None, None) => Protocol::Other,
        };
        let Protocol::Ip(number) = protocol else {
            return Packet::between(protocol, [0; 2], [0; 2], None);
        };
        let mut ends = [0, 1].map(|end| (headers.flow.addresses[end], headers.flow.ports[end]));
        if headers.is_back {
            ends.reverse();
        }
        let ports = match number {
            6 | 17 if headers.payload.len() >= 4 => ends.map(|(_, port)| port),
            _ => [0; 2],
        };
        let segment = (number == 6).then(|| Segment::of(headers.payload, headers.payload_len));
        Packet::between(
            protocol,
            ends.map(|(host, _)| host),
            ports,
            segment.flatten(),
        )
    }

    #[inline]
    fn between(
        protocol: Protocol,
        addresses: [u128; 2],
        ports: [u16; 2],
        segment: Option<Segment>,
    ) -> Packet {
        let is_back = match ports[0] == ports[1] {
            true => addresses[0] > addresses[1],
            false => ports[0] < ports[1],
        };
        let flow = match is_back {
            false => Flow {
                protocol,
                addresses,
                ports,
            },
            true => Flow {
                protocol,
                addresses: [addresses[1], addresses[0]],
                ports: [ports[1], ports[0]],
            },
        };
        Packet {
            flow,
            is_back,
            segment,
        }
    }
}

impl Flow {
    /// The addresses, if the packet has any.
    pub fn hosts(&self) -> Option<[IpAddr; 2]> {
        let has_hosts = self.addresses != [0; 2];
        has_hosts.then(|| (self.addresses).map(|it| Ipv6Addr::from(it).to_canonical()))
    }

    /// The port of the service: the lower one.
    pub fn service(&self) -> Option<(u16, Protocol)> {
        (self.ports != [0; 2]).then_some((self.ports[1], self.protocol))
    }

    /// Mixes the parts of the flow: the same flows have the same number, others rarely do.
    #[inline]
    pub fn mixed(&self, seed: u64) -> u64 {
        let protocol = match self.protocol {
            Protocol::Other => 0,
            Protocol::Ip(number) => 1 << 32 | u64::from(number),
            Protocol::Ether(kind) => 2 << 32 | u64::from(kind),
        };
        let [one, two] = self.addresses;
        let ports = u64::from(self.ports[0]) << 48 | u64::from(self.ports[1]) << 32;
        let words = [
            protocol ^ ports,
            one as u64,
            (one >> 64) as u64,
            two as u64,
            (two >> 64) as u64,
        ];
        words.into_iter().fold(seed, |mixed, word| {
            (mixed.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(hosts) = self.hosts() else {
            return write!(f, "{}", self.protocol);
        };
        for (end, host) in hosts.into_iter().enumerate() {
            if end > 0 {
                f.write_str(" - ")?;
            }
            match (host, self.ports[end]) {
                (host, 0) => write!(f, "{host}")?,
                (IpAddr::V4(host), port) => write!(f, "{host}:{port}")?,
                (IpAddr::V6(host), port) => write!(f, "[{host}]:{port}")?,
            }
        }
        Ok(())
    }
}

/// On links of BSD, the packet itself shows its version: the number before it depends on the system that captured it.
#[inline]
fn headers(link: LinkType, data: &[u8]) -> Headers<'_> {
    match link.0 {
        0 | 108 => Headers::of(LinkType::RAW, data.get(4..).unwrap_or_default()),
        _ => Headers::of(link, data),
    }
}

/// The data of a TCP segment, as far as it is captured.
pub fn tcp_payload(link: LinkType, data: &[u8]) -> Option<&[u8]> {
    let headers = headers(link, data);
    let is_tcp = headers.flow.protocol() == Some(6);
    let segment = is_tcp.then_some(headers.payload)?;
    segment.get(tcp::header_len(segment)?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{LaxNetSlice, LaxSlicedPacket, PacketBuilder, TransportSlice};
    use proptest::prelude::*;

    fn written(builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>) -> Vec<u8> {
        let mut bytes = Vec::new();
        builder.write(&mut bytes, b"hello").unwrap();
        bytes
    }

    #[test]
    fn both_directions_are_one_flow_and_the_service_is_the_lower_port() {
        let ends = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 53)];
        let flow = |[(from, source), (to, destination)]: [([u8; 4], u16); 2]| {
            let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from, to, 64);
            Packet::of(
                LinkType::ETHERNET,
                &written(builder.udp(source, destination)),
            )
        };
        let (there, back) = (flow(ends), flow([ends[1], ends[0]]));
        assert_eq!((there.is_back, back.is_back), (false, true));
        let (there, back) = (there.flow, back.flow);
        assert_eq!(there, back);
        assert_eq!(there.to_string(), "10.0.0.1:40000 - 10.0.0.2:53");
        assert_eq!(there.service(), Some((53, Protocol::Ip(17))));
    }

    #[test]
    fn every_link_type_finds_the_same_flow() {
        let (from, to) = ([0xfe; 16], [0xfd; 16]);
        let raw = written(PacketBuilder::ipv6(from, to, 64).udp(1000, 53));
        let flow = Packet::of(LinkType::RAW, &raw);
        assert_eq!(flow.flow.protocol.to_string(), "udp");
        let tagged = PacketBuilder::ethernet2([1; 6], [2; 6]).single_vlan(7.try_into().unwrap());
        let tagged = written(tagged.ipv6(from, to, 64).udp(1000, 53));
        assert_eq!(Packet::of(LinkType::ETHERNET, &tagged), flow);
        for (link, header, at) in [(113, 16, 14), (276, 20, 0), (0, 4, 2)] {
            let mut cooked = vec![0; header];
            cooked[at..at + 2].copy_from_slice(&[0x86, 0xdd]);
            cooked.extend(&raw);
            assert_eq!(Packet::of(LinkType(link), &cooked), flow, "{link}");
        }
    }

    proptest! {
        /// Headers that are whole, or damaged anywhere, or cut.
        #[test]
        fn packets_have_the_flow_that_another_parser_finds(
            hosts: [[u8; 16]; 2], ports: [u16; 2], is_tcp: bool, is_v6: bool,
            damage: Option<(prop::sample::Index, u8)>, cut in prop::option::of(0_usize..90),
        ) {
            let builder = PacketBuilder::ethernet2([1; 6], [2; 6]);
            let short = hosts.map(|host| *host.first_chunk::<4>().unwrap());
            let builder = match is_v6 {
                true => builder.ipv6(hosts[0], hosts[1], 64),
                false => builder.ipv4(short[0], short[1], 64),
            };
            let mut bytes = Vec::new();
            match is_tcp {
                true => builder.tcp(ports[0], ports[1], 1, 2).write(&mut bytes, b"hello").unwrap(),
                false => builder.udp(ports[0], ports[1]).write(&mut bytes, b"hello").unwrap(),
            }
            if let Some((at, value)) = damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.unwrap_or(bytes.len()));
            let packet = Packet::of(LinkType::ETHERNET, &bytes);
            let Ok(parsed) = LaxSlicedPacket::from_ethernet(&bytes) else {
                return Ok(());
            };
            let addresses = match &parsed.net {
                Some(LaxNetSlice::Ipv4(ip)) => [ip.header().source(), ip.header().destination()]
                    .map(IpAddr::from),
                Some(LaxNetSlice::Ipv6(ip)) => [ip.header().source(), ip.header().destination()]
                    .map(|it| IpAddr::from(it).to_canonical()),
                _ => return Ok(()),
            };
            let (ports, is_tcp) = match &parsed.transport {
                Some(TransportSlice::Tcp(tcp)) => ([tcp.source_port(), tcp.destination_port()], true),
                Some(TransportSlice::Udp(udp)) => ([udp.source_port(), udp.destination_port()], false),
                _ => return Ok(()),
            };
            let order = |mut pair: [(IpAddr, u16); 2]| {
                if packet.is_back {
                    pair.reverse();
                }
                pair
            };
            let [a, b] = order([(addresses[0], ports[0]), (addresses[1], ports[1])]);
            prop_assert_eq!(packet.flow.protocol, Protocol::Ip(if is_tcp { 6 } else { 17 }));
            prop_assert_eq!(packet.flow.ports, [a.1, b.1]);
            prop_assert_eq!(packet.flow.hosts().unwrap_or(addresses), [a.0, b.0]);
            prop_assert_eq!(packet.segment.is_some(), is_tcp);
        }
    }

    #[test]
    fn anything_else_is_named_as_far_as_it_is_known_and_never_panics() {
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(Packet::of(LinkType::ETHERNET, &arp).flow.to_string(), "arp");
        arp[12..14].copy_from_slice(&[0x88, 0xcc]);
        assert_eq!(
            Packet::of(LinkType::ETHERNET, &arp).flow.to_string(),
            "lldp"
        );
        assert_eq!(Packet::of(LinkType(9999), &arp).flow.to_string(), "other");
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([1; 4], [2; 4], 64);
        let whole = written(builder.udp(1, 2));
        for link in [0, 1, 101, 113, 276] {
            for len in 0..whole.len() {
                let _ = Packet::of(LinkType(link), &whole[..len]).flow.to_string();
            }
        }
    }
}
