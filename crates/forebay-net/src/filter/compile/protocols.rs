//! Tests whether a packet is of a protocol: by link type, then IP and IS-IS.

use super::{
    compiler::Compiler,
    load::{Base, Size},
    test::{Test, step},
};
use crate::filter::{ast::Protocol, bpf::code, error::Said, link::LinkLayer, view::View};

pub(super) const IPV4: u32 = 0x0800;
pub(super) const ARP: u32 = 0x0806;
pub(super) const RARP: u32 = 0x8035;
pub(super) const IPV6: u32 = 0x86DD;
pub(super) const DECNET: u32 = 0x6003;
pub(super) const TCP: u32 = 6;
const ATALK: u32 = 0x809B;
const AARP: u32 = 0x80F3;
const ETHER_IPX: u32 = 0x8137;

/// Service access points of 802.2. EtherTypes are greater than the longest 802.3 frame.
const SAP_IP: u32 = 0x06;
const SAP_STP: u32 = 0x42;
const SAP_IPX: u32 = 0xE0;
const SAP_NETBEUI: u32 = 0xF0;
const SAP_ISO: u32 = 0xFE;
const LONGEST_802_3: u32 = 1500;

const CLNP: u32 = 0x81;
const ESIS: u32 = 0x82;
const ISIS: u32 = 0x83;

impl Compiler {
    /// The test for a protocol's keyword alone.
    pub(super) fn protocol(&mut self, protocol: Protocol) -> Said<Test> {
        use Protocol::*;
        // PDU types of IS-IS: hellos of level 1, level 2 and point-to-point links, then link states, complete and partial
        // sequence numbers of both levels.
        let isis_kinds: &[u32] = match protocol {
            L1 => &[26, 24, 18, 15, 17],
            L2 => &[27, 25, 20, 16, 17],
            Iih => &[17, 15, 16],
            Lsp => &[18, 20],
            Snp => &[27, 26, 24, 25],
            Csnp => &[24, 25],
            Psnp => &[26, 27],
            _ => &[],
        };
        if !isis_kinds.is_empty() {
            let kinds = isis_kinds
                .iter()
                .map(|kind| self.next_protocol(Isis, *kind));
            return Ok(Test::any(kinds.collect::<Said<Vec<_>>>()?));
        }
        match protocol {
            Ip => self.payload_is(IPV4),
            Ip6 => self.payload_is(IPV6),
            Arp => self.payload_is(ARP),
            Rarp => self.payload_is(RARP),
            Tcp => self.next_protocol(Any, 6),
            Udp => self.next_protocol(Any, 17),
            Sctp => self.next_protocol(Any, 132),
            Icmp => self.next_protocol(Ip, 1),
            Igmp => self.next_protocol(Ip, 2),
            Igrp => self.next_protocol(Ip, 9),
            Pim => self.next_protocol(Any, 103),
            Vrrp | Carp => self.next_protocol(Ip, 112),
            Icmp6 => self.next_protocol(Ip6, 58),
            Ah => self.next_protocol(Any, 51),
            Esp => self.next_protocol(Any, 50),
            Atalk => self.payload_is(ATALK),
            Aarp => self.payload_is(AARP),
            Decnet => self.payload_is(DECNET),
            Sca => self.payload_is(0x6007),
            Lat => self.payload_is(0x6004),
            Mopdl => self.payload_is(0x6001),
            Moprc => self.payload_is(0x6002),
            Iso => self.payload_is(SAP_ISO),
            Esis => self.next_protocol(Iso, ESIS),
            Isis => self.next_protocol(Iso, ISIS),
            Clnp => self.next_protocol(Iso, CLNP),
            Stp => self.payload_is(SAP_STP),
            Ipx => self.payload_is(SAP_IPX),
            Netbeui => self.payload_is(SAP_NETBEUI),
            _ => Err(unsupported(protocol, "on its own")),
        }
    }

    /// True if TCP follows the hop-by-hop header of 8 bytes that Linux gives to packets of BIG TCP over IPv6: its only option is the length
    /// of the packet (RFC 2675). libpcap does not look beyond this header.
    pub(super) fn is_big_tcp(&self) -> Test {
        const LENGTH_IS_JUMBO_PAYLOAD: u32 = 0x00C2;
        const LONGEST_IPV6: u32 = 65_535;
        let next = Test::equal(self.load(Base::Network, 6, Size::Byte), 0);
        // Others do not have this header. Without the question, a packet that was cut before it would be rejected also by `not tcp`.
        let is_long = Test::Value(vec![step(code::LD_LEN, 0)], code::JGT_K, LONGEST_IPV6);
        let option = Test::equal(
            self.load(Base::Network, 41, Size::Half),
            LENGTH_IS_JUMBO_PAYLOAD,
        );
        let behind = Test::equal(self.load(Base::Network, 40, Size::Byte), TCP);
        next.and(is_long).and(option).and(behind)
    }

    /// True if the header of `of` has `number` as its next protocol.
    pub(super) fn next_protocol(&mut self, of: Protocol, number: u32) -> Said<Test> {
        match of {
            Protocol::Any => {
                let ip = self.next_protocol(Protocol::Ip, number)?;
                Ok(ip.or(self.next_protocol(Protocol::Ip6, number)?))
            }
            Protocol::Link => self.payload_is(number),
            Protocol::Ip => {
                let ip = self.payload_is(IPV4)?;
                Ok(ip.and(Test::equal(self.load(Base::Network, 9, Size::Byte), number)))
            }
            Protocol::Ip6 => {
                let ip6 = self.payload_is(IPV6)?;
                let next = |number| Test::equal(self.load(Base::Network, 6, Size::Byte), number);
                let behind_fragment = Test::equal(self.load(Base::Network, 40, Size::Byte), number);
                let plain = next(number).or(next(44).and(behind_fragment));
                Ok(ip6.and(match number {
                    TCP => plain.or(self.is_big_tcp()),
                    _ => plain,
                }))
            }
            Protocol::Iso => {
                let iso = self.payload_is(SAP_ISO)?;
                let offset = u32::from(self.layers.link == LinkLayer::CiscoHdlc);
                let kind = self.load(Base::NetworkBehindLlc, offset, Size::Byte);
                Ok(iso.and(Test::equal(kind, number)))
            }
            Protocol::Isis => {
                let isis = self.next_protocol(Protocol::Iso, ISIS)?;
                let kind = self.load(Base::NetworkBehindLlc, 4, Size::Byte);
                Ok(isis.and(Test::equal(kind, number)))
            }
            _ => Err(unsupported(of, "proto")),
        }
    }

    /// True if the payload of the link header has this EtherType, or this service access point.
    pub(super) fn payload_is(&mut self, protocol: u32) -> Said<Test> {
        if self.layers.labels > 0 {
            return self.payload_of_mpls_is(protocol);
        }
        let field = |c: &Self, value| Test::equal(c.load(Base::Protocol, 0, Size::Half), value);
        Ok(match self.layers.link {
            LinkLayer::Ethernet => self.ethernet_payload_is(protocol),
            LinkLayer::Wifi(_) => self.is_wifi_data().and(self.llc_payload_is(protocol)),
            LinkLayer::CookedV1 => self.cooked_payload_is(protocol),
            LinkLayer::CookedV2 => field(self, protocol),
            LinkLayer::CiscoHdlc if protocol == SAP_ISO => field(self, 0xFEFE),
            LinkLayer::CiscoHdlc => field(self, protocol),
            LinkLayer::Ppp => field(self, ppp_number(protocol)),
            LinkLayer::Raw => {
                let version = self.load(Base::Link, 0, Size::Byte);
                match protocol {
                    IPV4 => Test::masked(version, 0xF0, 0x40),
                    IPV6 => Test::masked(version, 0xF0, 0x60),
                    _ => Test::Always(false),
                }
            }
            LinkLayer::Ipv4 => Test::Always(protocol == IPV4),
            LinkLayer::Ipv6 => Test::Always(protocol == IPV6),
            LinkLayer::Null | LinkLayer::Loop => self.family_is(protocol),
            LinkLayer::Other(_) => {
                return Err(format!(
                    "link type {} is not supported; only len, less, greater and link[…] work on its packets",
                    self.layers.link.name()
                ));
            }
        })
    }

    pub(super) fn is_802_3(&self) -> Test {
        let len = self.load(Base::Protocol, 0, Size::Half);
        Test::Value(len, code::JGT_K, LONGEST_802_3).not()
    }

    fn ethernet_payload_is(&self, protocol: u32) -> Test {
        let ethernet_2 = |number| Test::equal(self.load(Base::Protocol, 0, Size::Half), number);
        match protocol {
            SAP_IP | SAP_NETBEUI | SAP_ISO => self.is_802_3().and(self.both_sap(protocol)),
            SAP_IPX => {
                let sap = Test::equal(self.load(Base::Payload, 0, Size::Byte), SAP_IPX);
                let raw_802_3 = Test::equal(self.load(Base::Payload, 0, Size::Half), 0xFFFF);
                let any = Test::any([self.snap(0, ETHER_IPX), sap, raw_802_3]);
                ethernet_2(ETHER_IPX).or(self.is_802_3().and(any))
            }
            ATALK => ethernet_2(ATALK).or(self.is_802_3().and(self.snap(0x08_0007, ATALK))),
            AARP => ethernet_2(AARP).or(self.is_802_3().and(self.snap(0, AARP))),
            0..=LONGEST_802_3 => {
                let sap = self.load(Base::Protocol, 2, Size::Byte);
                self.is_802_3().and(Test::equal(sap, protocol))
            }
            _ => ethernet_2(protocol),
        }
    }

    /// The payload begins with 802.2, and SNAP if it has an EtherType.
    fn llc_payload_is(&self, protocol: u32) -> Test {
        match protocol {
            SAP_IP | SAP_NETBEUI | SAP_ISO => self.both_sap(protocol),
            ATALK => self.snap(0x08_0007, ATALK),
            0..=LONGEST_802_3 => Test::equal(self.load(Base::Payload, 0, Size::Byte), protocol),
            _ => Test::equal(self.load(Base::Protocol, 0, Size::Half), protocol),
        }
    }

    /// Cooked captures have the EtherType, or 1 for Novell's raw 802.3, or 4 for 802.2.
    fn cooked_payload_is(&self, protocol: u32) -> Test {
        let is = |number| Test::equal(self.load(Base::Protocol, 0, Size::Half), number);
        match protocol {
            SAP_IP | SAP_NETBEUI | SAP_ISO => is(4).and(self.both_sap(protocol)),
            SAP_IPX => {
                let sap = Test::equal(self.load(Base::Payload, 0, Size::Byte), SAP_IPX);
                let llc = is(4).and(sap.or(self.snap(0, ETHER_IPX)));
                Test::any([is(ETHER_IPX), is(1), llc])
            }
            ATALK => is(ATALK).or(is(4).and(self.snap(0x08_0007, ATALK))),
            AARP => is(AARP).or(is(4).and(self.snap(0, AARP))),
            0..=LONGEST_802_3 => {
                let offset = self.layers.payload.bytes;
                is(4).and(Test::equal(
                    self.load(Base::Link, offset, Size::Byte),
                    protocol,
                ))
            }
            _ => is(protocol),
        }
    }

    /// Compares both service access points of an LLC header.
    fn both_sap(&self, sap: u32) -> Test {
        Test::equal(self.load(Base::Payload, 0, Size::Half), sap << 8 | sap)
    }

    /// True for an LLC header with SNAP, of this organization and protocol.
    fn snap(&self, organization: u32, protocol: u32) -> Test {
        let end = self.load(Base::Payload, 4, Size::Word);
        let front = self.load(Base::Payload, 0, Size::Word);
        let ends = Test::equal(end, (organization & 0xFFFF) << 16 | protocol);
        ends.and(Test::equal(front, 0xAAAA_0300 | organization >> 16))
    }

    /// Compares the address family before the packet.
    fn family_is(&self, protocol: u32) -> Test {
        let null = self.layers.link == LinkLayer::Null;
        let is = |family: u32| {
            // The byte order is that of the capturing machine; almost all are little-endian.
            let stored = if null { family.swap_bytes() } else { family };
            Test::equal(self.load(Base::Link, 0, Size::Word), stored)
        };
        match (protocol, self.view) {
            (IPV4, _) => is(2),
            (IPV6, View::Socket) => is(10),
            // Each BSD has its own number: macOS, NetBSD and OpenBSD, FreeBSD.
            (IPV6, _) => Test::any([is(30), is(24), is(28)]),
            _ => Test::Always(false),
        }
    }

    /// A label stack has no field for its payload's protocol, only the bottom-of-stack bit of the last label. The payload's first
    /// nibble is its IP version.
    fn payload_of_mpls_is(&mut self, protocol: u32) -> Said<Test> {
        let version = match protocol {
            IPV4 => 0x40,
            IPV6 => 0x60,
            _ => return Err("after mpls only IPv4 and IPv6 are recognized".to_owned()),
        };
        let bottom = self.load(Base::Network, 2_u32.wrapping_neg(), Size::Byte);
        let front = self.load(Base::Network, 0, Size::Byte);
        Ok(Test::masked(bottom, 1, 1).and(Test::masked(front, 0xF0, version)))
    }
}

/// The PPP number of a protocol, given its EtherType or service access point.
fn ppp_number(protocol: u32) -> u32 {
    match protocol {
        IPV4 => 0x0021,
        IPV6 => 0x0057,
        DECNET => 0x0027,
        ATALK => 0x0029,
        0x0600 => 0x0025,
        SAP_ISO => 0x0023,
        SAP_STP => 0x0031,
        SAP_IPX => 0x002B,
        other => other,
    }
}

/// The error for a test of a protocol that is not supported here.
pub(super) fn unsupported(protocol: Protocol, what: &str) -> String {
    format!("'{}' {what} is not supported", protocol.keyword())
}
