//! Link layers: Ethernet and VLAN, Linux "cooked" headers, loopback, PPP and raw IP.

use super::{
    data::{Cut, Data, Printed},
    names,
    printer::{MAX_DEPTH, Printer},
    text::Text,
};
use etherparse::{Ethernet2HeaderSlice, SingleVlanHeaderSlice};
use forebay_net::port::LinkType;

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const REVERSE_ARP: u16 = 0x8035;
pub const BRIDGED: u16 = 0x6558;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const VLANS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// Larger values are types; smaller ones are lengths (IEEE 802.3).
const MAX_LENGTH: u16 = 1500;
const PPPOE_SESSION: u16 = 0x8864;
const ETHERNET: usize = 14;

impl Printer {
    /// Prints a packet of any link type. Returns the length of its link-layer header.
    pub(super) fn link(
        &mut self,
        link: LinkType,
        data: Data<'_>,
        out: &mut Text,
    ) -> (usize, Printed) {
        match link.0 {
            1 => self.ethernet(data, out),
            12 | 14 | 101 | 228 | 229 => (0, self.raw_ip(data, out)),
            113 => (16, self.cooked(data, out)),
            276 => (20, self.cooked2(data, out)),
            0 | 108 => (4, self.loopback(link, data, out)),
            9 | 50 => self.ppp_link(data, out),
            _ => {
                match link.names() {
                    Some((name, _)) => out.put(name),
                    None => out.put("link-type ").num(link.0),
                };
                out.put(", length ").num(data.len);
                (0, Ok(()))
            }
        }
    }

    pub(super) fn ethernet(&mut self, data: Data<'_>, out: &mut Text) -> (usize, Printed) {
        self.protocol = "ether";
        let Ok(header) = Ethernet2HeaderSlice::from_slice(data.captured) else {
            return (data.captured.len(), Err(Cut));
        };
        if data.len < ETHERNET {
            return (data.len, Err(Cut));
        }
        let kind = header.ether_type().0;
        if self.style.link_header {
            self.ethernet_header(&header, kind, data.len, out);
        }
        let (mut kind, mut used) = (kind, ETHERNET);
        while VLANS.contains(&kind) {
            let Ok(tag) = SingleVlanHeaderSlice::from_slice(data.after(used).captured) else {
                self.protocol = "vlan";
                return (data.captured.len(), Err(Cut));
            };
            if data.len - used < 4 {
                self.protocol = "vlan";
                return (data.len, Err(Cut));
            }
            kind = tag.ether_type().0;
            if self.style.link_header {
                out.put("vlan ").num(tag.vlan_identifier().value());
                out.put(", p ").num(tag.priority_code_point().value());
                out.put(if tag.drop_eligible_indicator() {
                    ", DEI, "
                } else {
                    ", "
                });
                if kind > MAX_LENGTH {
                    out.put("ethertype ")
                        .put(names::ethertype(kind).unwrap_or("Unknown"));
                    out.put(" (0x").hex_padded(kind.into(), 4).put("), ");
                }
            }
            used += 4;
        }
        let inner = data.after(used);
        if kind <= MAX_LENGTH {
            let (source, destination) = (header.source(), header.destination());
            let inner = inner.first(inner.len.min(kind.into()));
            return match self.llc(inner, (source, destination), out) {
                Ok(more) => (used + more, Ok(())),
                Err(cut) => (used, Err(cut)),
            };
        }
        let printed = self.ethertype(kind, inner, out).unwrap_or_else(|| {
            if !self.style.link_header {
                self.ethernet_header(&header, kind, data.len, out);
            }
            match names::ethertype(kind) {
                None => return self.undecoded(inner, out),
                Some(_) if out.bytes().ends_with(b": ") => out.truncate(out.len() - 2),
                Some(_) => {}
            }
            Ok(())
        });
        (used, printed)
    }

    fn ethernet_header(
        &self,
        header: &Ethernet2HeaderSlice<'_>,
        kind: u16,
        len: usize,
        out: &mut Text,
    ) {
        out.mac(&header.source());
        out.put(" > ").mac(&header.destination());
        let mut len = len;
        if kind <= MAX_LENGTH {
            out.put(", 802.3");
            len = kind.into();
        } else if self.style.brief {
            match names::ethertype(kind) {
                Some(name) => out.put(", ").put(name),
                None => out
                    .put(", Unknown Ethertype (0x")
                    .hex_padded(kind.into(), 4)
                    .byte(b')'),
            };
        } else {
            out.put(", ethertype ");
            out.put(names::ethertype(kind).unwrap_or("Unknown"));
            out.put(" (0x").hex_padded(kind.into(), 4).byte(b')');
        }
        out.put(", length ").num(len).put(": ");
    }

    /// Prints what an Ethernet type announces; `None` if nothing here knows the type.
    pub(super) fn ethertype(
        &mut self,
        kind: u16,
        data: Data<'_>,
        out: &mut Text,
    ) -> Option<Printed> {
        Some(match kind {
            IPV4 => self.ipv4(data, out),
            IPV6 => self.ipv6(data, out),
            ARP | REVERSE_ARP => self.arp(data, out),
            BRIDGED => self.nested(|it| it.ethernet(data, out).1),
            PPPOE_SESSION => self.pppoe(data, out),
            _ if MPLS.contains(&kind) => self.mpls(data, out),
            _ => return None,
        })
    }

    /// Prints a packet inside another one, unless there are too many around it already.
    pub(super) fn nested(&mut self, print: impl FnOnce(&mut Self) -> Printed) -> Printed {
        if self.depth == MAX_DEPTH {
            return Err(Cut);
        }
        self.depth += 1;
        let printed = print(self);
        self.depth -= 1;
        printed
    }

    /// IPv4 or IPv6, as the first four bits say.
    pub(super) fn raw_ip(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "ip";
        if data.len == 0 {
            return out.put("truncated-ip 0").done();
        }
        match data.u8(0)? >> 4 {
            4 => self.ipv4(data, out),
            6 => self.ipv6(data, out),
            other => out.put("unknown ip ").num(other).done(),
        }
    }

    /// The link-layer header's protocol, and what follows.
    fn cooked_payload(&mut self, kind: u16, data: Data<'_>, out: &mut Text) -> Printed {
        if kind <= MAX_LENGTH {
            return match kind {
                4 => self.llc(data, ([0; 6], [0; 6]), out).map(drop),
                _ => out.put("802.3, length ").num(data.len).done(),
            };
        }
        self.ethertype(kind, data, out).unwrap_or_else(|| {
            if !self.style.link_header {
                cooked_type(kind, data.len, out);
            }
            self.undecoded(data, out)
        })
    }

    fn cooked(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "linux_sll";
        let header = data.slice(0, 16)?;
        let kind = data.u16(14)?;
        if self.style.link_header {
            out.put(names::packet_type(data.u16(0)?)).byte(b' ');
            let address = usize::from(data.u16(4)?.min(8));
            if address > 0 {
                out.mac(&header[6..6 + address]).byte(b' ');
            }
            cooked_type(kind, data.len, out);
        }
        self.cooked_payload(kind, data.after(16), out)
    }

    fn cooked2(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "linux_sll2";
        let header = data.slice(0, 20)?;
        let kind = data.u16(0)?;
        // The number of an interface of another machine means nothing here: no name is looked up.
        out.put("if").num(data.u32(4)?).byte(b' ');
        out.put(names::packet_type(data.u8(10)?.into())).byte(b' ');
        if self.style.link_header {
            let address = usize::from(data.u8(11)?.min(8));
            if address > 0 {
                out.mac(&header[12..12 + address]).byte(b' ');
            }
            cooked_type(kind, data.len, out);
        }
        self.cooked_payload(kind, data.after(20), out)
    }

    /// BSD loopback: the protocol is a number of the capturing system, in its byte order.
    fn loopback(&mut self, link: LinkType, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "null";
        let mut family = data.u32(0)?;
        if link.0 == 0 && family > 0xffff {
            family = family.swap_bytes();
        }
        if link.0 == 0 && family == 0 {
            family = u32::from_le_bytes(data.array(0)?);
        }
        let inner = data.after(4);
        let name = match family {
            2 => "IPv4",
            10 | 24 | 28 | 30 => "IPv6",
            _ => "",
        };
        if self.style.link_header || name.is_empty() {
            out.put("AF ")
                .put(if name.is_empty() { "Unknown" } else { name });
            out.put(" (").num(family).put("), length ").num(data.len);
            out.put(": ");
        }
        match name {
            "IPv4" => self.ipv4(inner, out),
            "IPv6" => self.ipv6(inner, out),
            _ => self.undecoded(inner, out),
        }
    }

    fn ppp_link(&mut self, data: Data<'_>, out: &mut Text) -> (usize, Printed) {
        let framed = data.captured.starts_with(&[0xff, 3]);
        let header = if framed { 4 } else { 2 };
        let printed = self.ppp(data.after(header - 2), out);
        (header, printed)
    }

    /// From the protocol number on.
    pub(super) fn ppp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "ppp";
        let kind = data.u16(0)?;
        let inner = data.after(2);
        let name = names::ppp(kind);
        if self.style.link_header || !matches!(kind, 0x21 | 0x57) {
            out.put(name).put(" (0x").hex_padded(kind.into(), 4);
            out.put("), length ").num(data.len);
            if matches!(kind, 0x21 | 0x57) {
                out.put(": ");
            }
        }
        match kind {
            0x21 => self.ipv4(inner, out),
            0x57 => self.ipv6(inner, out),
            _ => Ok(()),
        }
    }

    fn pppoe(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "pppoe";
        out.put("PPPoE ");
        let session = data.u16(2)?;
        if session > 0 {
            out.put(" [ses 0x").hex(session.into()).put("] ");
        }
        data.u16(4)?;
        self.ppp(data.after(6), out)
    }

    fn mpls(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "mpls";
        out.put("MPLS");
        let mut at = 0;
        loop {
            let entry = data.u32(at)?;
            at += 4;
            out.put(" (label ").num(entry >> 12);
            match entry >> 12 {
                0 => drop(out.put(" (IPv4 explicit NULL)")),
                1 => drop(out.put(" (router alert)")),
                2 => drop(out.put(" (IPv6 explicit NULL)")),
                3 => drop(out.put(" (implicit NULL)")),
                _ => {}
            }
            out.put(", tc ").num(entry >> 9 & 7);
            let is_last = entry & 0x100 != 0;
            if is_last {
                out.put(", [S]");
            }
            out.put(", ttl ").num(entry & 0xff).byte(b')');
            if is_last {
                break;
            }
        }
        let inner = data.after(at);
        out.byte(b' ');
        match inner.u8(0)? >> 4 {
            4 => self.ipv4(inner, out),
            6 => self.ipv6(inner, out),
            _ => out.put("length ").num(inner.len).done(),
        }
    }
}

/// The Ethernet type and the length of a packet of Linux's cooked captures.
fn cooked_type(kind: u16, len: usize, out: &mut Text) {
    out.put("ethertype ")
        .put(names::ethertype(kind).unwrap_or("Unknown"));
    out.put(" (0x").hex_padded(kind.into(), 4);
    out.put("), length ").num(len).put(": ");
}
