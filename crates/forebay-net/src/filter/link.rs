//! For each link type, the offsets of the payload's protocol and of the payload. `vlan`, `mpls`, `pppoes`, `geneve` and `vxlan` move
//! them for the rest of an expression.

use crate::port::LinkType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLayer {
    Ethernet,
    /// IPv4 or IPv6, by the first nibble.
    Raw,
    Ipv4,
    Ipv6,
    /// Four bytes of address family, in the byte order of the capturing machine.
    Null,
    /// The same in network byte order.
    Loop,
    CookedV1,
    CookedV2,
    Ppp,
    CiscoHdlc,
    /// 802.11, after a capture header of this link type or without one.
    Wifi(u16),
    /// Only bytes relative to the link header can be tested.
    Other(u16),
}

/// A header that the capturing program put before the link header. Offsets of `link[…]` count after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaptureHeader {
    /// It always has this many bytes.
    Fixed(u32),
    /// 144 bytes, unless it is an AVS header.
    Prism,
    /// The big-endian word at byte 4 is its length.
    Avs,
    /// The little-endian half word at byte 2 is its length.
    Radiotap,
    /// As [`Radiotap`](CaptureHeader::Radiotap), and the word at byte 4 may give another link type for what follows.
    Ppi,
}

impl LinkLayer {
    pub fn of(link: LinkType) -> LinkLayer {
        match link.0 {
            1 => LinkLayer::Ethernet,
            // 101 in files; 12 and 14 are the systems' own numbers.
            12 | 14 | 101 => LinkLayer::Raw,
            228 => LinkLayer::Ipv4,
            229 => LinkLayer::Ipv6,
            0 => LinkLayer::Null,
            108 => LinkLayer::Loop,
            113 => LinkLayer::CookedV1,
            276 => LinkLayer::CookedV2,
            9 => LinkLayer::Ppp,
            104 => LinkLayer::CiscoHdlc,
            105 | 119 | 127 | 163 | 192 => LinkLayer::Wifi(link.0),
            other => LinkLayer::Other(other),
        }
    }

    /// The header before the link header, if packets of this link type have one.
    pub fn capture_header(self) -> Option<CaptureHeader> {
        let (LinkLayer::Other(number) | LinkLayer::Wifi(number)) = self else {
            return None;
        };
        Some(match number {
            119 => CaptureHeader::Prism,
            127 => CaptureHeader::Radiotap,
            163 => CaptureHeader::Avs,
            192 => CaptureHeader::Ppi,
            // netANALYZER, and its variant with the preamble and the start of the frame.
            240 => CaptureHeader::Fixed(4),
            241 => CaptureHeader::Fixed(12),
            _ => return None,
        })
    }

    pub fn name(self) -> String {
        match self {
            LinkLayer::Ethernet => "EN10MB (Ethernet)".to_owned(),
            LinkLayer::Raw => "RAW (raw IP)".to_owned(),
            LinkLayer::Ipv4 => "IPV4 (raw IPv4)".to_owned(),
            LinkLayer::Ipv6 => "IPV6 (raw IPv6)".to_owned(),
            LinkLayer::Null => "NULL (BSD loopback)".to_owned(),
            LinkLayer::Loop => "LOOP (OpenBSD loopback)".to_owned(),
            LinkLayer::CookedV1 => "LINUX_SLL (Linux cooked v1)".to_owned(),
            LinkLayer::CookedV2 => "LINUX_SLL2 (Linux cooked v2)".to_owned(),
            LinkLayer::Ppp => "PPP".to_owned(),
            LinkLayer::CiscoHdlc => "C_HDLC (Cisco HDLC)".to_owned(),
            LinkLayer::Wifi(number) | LinkLayer::Other(number) => LinkType(number).to_string(),
        }
    }
}

/// An offset in a packet: bytes from its start, plus an optional scratch cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offset {
    pub bytes: u32,
    pub cell: Option<u8>,
}

impl Offset {
    pub fn at(bytes: u32) -> Offset {
        Offset { bytes, cell: None }
    }

    pub fn plus(self, bytes: u32) -> Offset {
        Offset {
            bytes: self.bytes.wrapping_add(bytes),
            ..self
        }
    }
}

/// The offsets of the headers at a place of the expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layers {
    /// The innermost link header.
    pub link: LinkLayer,
    pub header: Offset,
    /// The field with the payload's protocol, if there is one.
    pub protocol: Offset,
    pub payload: Offset,
    /// From the payload to the network header.
    pub network: u32,
    /// The same after a header of 802.2 without SNAP.
    pub network_behind_llc: u32,
    /// The number of preceding `mpls`. After one, only the payload itself shows its protocol.
    pub labels: u32,
    pub vlans: u32,
    /// The innermost link header is inside Geneve, which also carries packets without one.
    pub in_geneve: bool,
}

impl Layers {
    pub fn of(link: LinkLayer) -> Layers {
        let (protocol, payload, network_behind_llc) = match link {
            LinkLayer::Ethernet => (12, 14, 3),
            LinkLayer::Null | LinkLayer::Loop => (0, 4, 0),
            LinkLayer::Ppp | LinkLayer::CiscoHdlc => (2, 4, 0),
            LinkLayer::CookedV1 => (14, 16, 0),
            LinkLayer::CookedV2 => (0, 20, 0),
            // Relative to the payload, whose offset is in a scratch cell.
            LinkLayer::Wifi(_) => (6, 0, 3),
            LinkLayer::Raw | LinkLayer::Ipv4 | LinkLayer::Ipv6 | LinkLayer::Other(_) => (0, 0, 0),
        };
        Layers {
            link,
            header: Offset::at(0),
            protocol: Offset::at(protocol),
            payload: Offset::at(payload),
            // The headers of 802.2 and SNAP.
            network: if matches!(link, LinkLayer::Wifi(_)) {
                8
            } else {
                0
            },
            network_behind_llc,
            labels: 0,
            vlans: 0,
            in_geneve: false,
        }
    }

    /// The same, for a link header that starts at the offset in a scratch cell.
    pub fn within(mut self, cell: u8) -> Layers {
        for offset in [&mut self.header, &mut self.protocol, &mut self.payload] {
            offset.cell = Some(cell);
        }
        self
    }
}
