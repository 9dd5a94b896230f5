//! Which flow a packet belongs to: its endpoints and its protocol; and which of the endpoints sent it.

pub mod tcp;

use etherparse::{
    EtherType, LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket, LinkSlice, TransportSlice,
};
use forebay_net::port::LinkType;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
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
            Protocol::Ether(..=1500) => "llc",
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
        match plain(link, data) {
            Some(packet) => packet,
            None => Packet::of_any(link, data),
        }
    }

    #[inline(never)]
    fn of_any(link: LinkType, data: &[u8]) -> Packet {
        sliced(link, data).map_or_else(Packet::default, |packet| Packet::of_slices(&packet))
    }

    fn of_slices(packet: &LaxSlicedPacket<'_>) -> Packet {
        // The length of a payload on the wire: that of the header, less the headers after it.
        let rest = |total: usize, after: &[u8], payload: &[u8]| {
            let extensions = payload
                .as_ptr()
                .addr()
                .saturating_sub(after.as_ptr().addr());
            total.saturating_sub(extensions)
        };
        let (addresses, protocol, len) = match &packet.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                let addresses = [header.source(), header.destination()]
                    .map(|it| u128::from(Ipv4Addr::from(it).to_ipv6_mapped()));
                let len = rest(
                    header.total_len().into(),
                    header.slice(),
                    ip.payload().payload,
                );
                (addresses, Protocol::Ip(ip.payload().ip_number.0), len)
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let header = ip.header();
                let addresses = [header.source(), header.destination()].map(u128::from_be_bytes);
                let total = usize::from(header.payload_length()) + header.slice().len();
                let len = rest(total, header.slice(), ip.payload().payload);
                (addresses, Protocol::Ip(ip.payload().ip_number.0), len)
            }
            Some(LaxNetSlice::Arp(_)) => ([0; 2], Protocol::Ether(0x0806), 0),
            None => ([0; 2], ether_type(packet), 0),
        };
        let (ports, segment) = match &packet.transport {
            Some(TransportSlice::Tcp(tcp)) => (
                [tcp.source_port(), tcp.destination_port()],
                Segment::of(tcp.slice(), len.max(tcp.slice().len())),
            ),
            Some(TransportSlice::Udp(udp)) => ([udp.source_port(), udp.destination_port()], None),
            _ => ([0; 2], None),
        };
        Packet::between(protocol, addresses, ports, segment)
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

/// What nearly all packets are: TCP or UDP in IPv4 or IPv6 in Ethernet, without tags, options, extension headers or
/// fragments, and with whole headers. All other packets take eight times as long in a general parser.
#[inline]
fn plain(link: LinkType, data: &[u8]) -> Option<Packet> {
    /// The shortest header of TCP, or of UDP.
    const fn shortest(protocol: u8) -> usize {
        match protocol {
            6 => 20,
            17 => 8,
            _ => usize::MAX,
        }
    }
    if link != LinkType::ETHERNET {
        return None;
    }
    let (ethernet, ip) = data.split_first_chunk::<14>()?;
    let (addresses, protocol, payload, len) = match [ethernet[12], ethernet[13]] {
        [0x08, 0x00] => {
            let (header, _) = ip.split_first_chunk::<20>()?;
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            // The fragment's offset and "more fragments".
            let is_fragment = header[6] & 0x3f | header[7] != 0;
            if header[0] != 0x45 || is_fragment {
                return None;
            }
            let address = |at: usize| {
                let bytes: [u8; 4] = header[at..at + 4].try_into().expect("4 bytes");
                0xffff_0000_0000 | u128::from(u32::from_be_bytes(bytes))
            };
            let payload = ip.get(20..total.min(ip.len()))?;
            ([address(12), address(16)], header[9], payload, total - 20)
        }
        [0x86, 0xdd] => {
            let (header, payload) = ip.split_first_chunk::<40>()?;
            let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
            if header[0] >> 4 != 6 {
                return None;
            }
            let address = |at: usize| {
                let bytes: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
                u128::from_be_bytes(bytes)
            };
            let payload = &payload[..len.min(payload.len())];
            ([address(8), address(24)], header[6], payload, len)
        }
        _ => return None,
    };
    if payload.len() < shortest(protocol) {
        return None;
    }
    let field = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let is_whole = match protocol {
        6 => (20..=payload.len()).contains(&(usize::from(payload[12] >> 4) * 4)),
        _ => field(4) >= 8,
    };
    let ports = [field(0), field(2)];
    is_whole.then(|| {
        let segment = (protocol == 6).then(|| Segment::of(payload, len));
        Packet::between(Protocol::Ip(protocol), addresses, ports, segment.flatten())
    })
}

fn sliced(link: LinkType, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link.0 {
        1 => LaxSlicedPacket::from_ethernet(data).ok(),
        12 | 14 | 101 | 228 | 229 => LaxSlicedPacket::from_ip(data).ok(),
        // The type is in the last two bytes of a header of 16 bytes, or in the first two of 20.
        113 => after_header(data, 14, 16),
        276 => after_header(data, 0, 20),
        0 | 108 => LaxSlicedPacket::from_ip(data.get(4..)?).ok(),
        _ => None,
    }
}

/// The data of a TCP segment, as far as it is captured.
pub fn tcp_payload(link: LinkType, data: &[u8]) -> Option<&[u8]> {
    match sliced(link, data)?.transport? {
        TransportSlice::Tcp(tcp) => Some(tcp.payload()),
        _ => None,
    }
}

/// The packet after a header of `len` bytes that has the type of its contents at `at`.
fn after_header(data: &[u8], at: usize, len: usize) -> Option<LaxSlicedPacket<'_>> {
    let kind = u16::from_be_bytes(*data.get(at..)?.first_chunk()?);
    Some(LaxSlicedPacket::from_ether_type(
        EtherType(kind),
        data.get(len..)?,
    ))
}

/// The type of a frame without an IP packet.
fn ether_type(packet: &LaxSlicedPacket<'_>) -> Protocol {
    let kind = match (packet.link_exts.last(), &packet.link) {
        (Some(LaxLinkExtSlice::Vlan(tag)), _) => tag.ether_type(),
        (None, Some(LinkSlice::Ethernet2(frame))) => frame.ether_type(),
        (None, Some(LinkSlice::EtherPayload(payload))) => payload.ether_type,
        _ => return Protocol::Other,
    };
    Protocol::Ether(kind.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
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
        fn plain_packets_have_the_flow_that_the_general_parser_finds(
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
            prop_assert!(plain(LinkType::ETHERNET, &bytes).is_some());
            if let Some((at, value)) = damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.unwrap_or(bytes.len()));
            if let Some(packet) = plain(LinkType::ETHERNET, &bytes) {
                prop_assert_eq!(packet.segment.is_some(), is_tcp && packet.flow.protocol == Protocol::Ip(6));
                prop_assert_eq!(packet, Packet::of_any(LinkType::ETHERNET, &bytes));
            }
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
