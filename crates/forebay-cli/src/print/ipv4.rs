//! IPv4, and what both versions of IP carry.

use super::{
    address::Address,
    data::{Cut, Data, Printed, checksum, right_checksum},
    ends::Ends,
    names,
    printer::{Kind, Printer},
    text::Text,
};
use etherparse::Ipv4HeaderSlice;

const HEADER: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const DCCP: u8 = 33;
const SCTP: u8 = 132;

/// Whether the ports of this protocol are printed with the addresses.
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP)
}

impl Printer {
    /// Prints an IPv4 packet.
    pub(super) fn ipv4(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "ip";
        match data.u8(0)? >> 4 {
            4 => {}
            6 => {
                out.put("IP6, wrong link-layer encapsulation (invalid)");
                return Ok(());
            }
            other => {
                return out.put("IP").num(other).put(" (invalid)").done();
            }
        }
        if !self.style.link_header {
            out.put("IP ");
        }
        data.slice(0, HEADER)?;
        if data.len < HEADER {
            return out.put("truncated-ip ").num(data.len).done();
        }
        let header_len = usize::from(data.u8(0)? & 15) * 4;
        if header_len < HEADER {
            return out.put("bad-hlen ").num(header_len).done();
        }
        let mut total = usize::from(data.u16(2)?);
        if data.len < total {
            out.put("truncated-ip - ").num(total - data.len);
            out.put(" bytes missing! ");
        }
        if total < header_len {
            if total > 0 {
                return out.put("bad-len ").num(total).done();
            }
            // The card splits what the kernel hands to it, and fills in the length.
            total = data.len;
        }
        let data = data.first(total);
        let flags = data.u16(6)?;
        let offset = usize::from(flags & 0x1fff) * 8;
        let protocol = data.u8(9)?;
        let mut ends = Ends {
            source: Address::V4(data.array(12)?),
            destination: Address::V4(data.array(16)?),
            is_fragment: flags & MORE_FRAGMENTS != 0,
            are_printed: false,
        };
        if self.style.verbose > 0 {
            self.ipv4_details(data, header_len, &ends, out)?;
        }
        if offset > 0 {
            ends.print(self.hosts.as_ref(), out);
            return out.put(": ip-proto-").num(protocol).done();
        }
        if !has_ports(protocol) {
            ends.print(self.hosts.as_ref(), out);
            out.put(": ");
            ends.are_printed = true;
        }
        // Options make the header longer than what is captured of it.
        if Ipv4HeaderSlice::from_slice(data.captured).is_err() {
            out.put(" [remaining caplen(").num(data.captured.len());
            out.put(") < header length(").num(header_len).put(")]");
            return Err(Cut);
        }
        self.ip_payload(protocol, data.after(header_len), ends, out)
    }

    fn ipv4_details(
        &mut self,
        data: Data<'_>,
        header_len: usize,
        ends: &Ends,
        out: &mut Text,
    ) -> Printed {
        let (service, flags) = (data.u8(1)?, data.u16(6)?);
        out.put("(tos 0x").hex(service.into());
        out.put(["", ",ECT(1)", ",ECT(0)", ",CE"][usize::from(service & 3)]);
        if data.u8(8)? > 0 {
            out.put(", ttl ").num(data.u8(8)?);
        }
        out.put(", id ").num(data.u16(4)?);
        out.put(", offset ").num(u32::from(flags & 0x1fff) * 8);
        let names = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];
        out.put(", flags ").flags(flags, &names).put(", proto ");
        out.put(names::protocol(data.u8(9)?));
        out.put(" (").num(data.u8(9)?);
        out.put("), length ").num(data.u16(2)?);
        if header_len > HEADER {
            out.put(", options (");
            let options = data.after(HEADER).first(header_len - HEADER);
            if ipv4_options(options, out).is_err() {
                out.put(" [truncated-option]))\n    ");
                ends.print(self.hosts.as_ref(), out);
                out.put(": ");
                return Err(Cut);
            }
            out.byte(b')');
        }
        if !self.style.no_checksums
            && let Ok(header) = data.slice(0, header_len)
        {
            let wrong = checksum(&[header]);
            if wrong != 0 {
                let found = data.u16(10)?;
                out.put(", bad cksum ").hex(found.into()).put(" (->");
                out.hex(right_checksum(found, wrong).into()).put(")!");
            }
        }
        out.put(")\n    ").done()
    }

    /// The bytes of a checksum that must be verified. `None`: they are not all captured, or nobody asked for it.
    pub(super) fn to_verify<'a>(&self, data: Data<'a>, ends: &Ends) -> Option<&'a [u8]> {
        let is_wanted = self.style.verbose > 0 && !self.style.no_checksums;
        let is_possible = is_wanted && !ends.is_fragment;
        is_possible.then(|| data.slice(0, data.len).ok())?
    }

    /// Prints the packet of a protocol over IP.
    pub(super) fn ip_payload(
        &mut self,
        protocol: u8,
        data: Data<'_>,
        ends: Ends,
        out: &mut Text,
    ) -> Printed {
        match protocol {
            TCP => self.tcp(data, ends, out),
            UDP => self.udp(data, ends, out),
            ICMP if !ends.is_v6() => self.icmp(data, ends, out),
            58 if ends.is_v6() => self.icmp6(data, ends, out),
            ICMP | 2 if ends.is_v6() => {
                out.byte(b'[').put(names::protocol(protocol));
                out.put(" requires IPv4] (invalid)").done()
            }
            58 => out.put("[ICMPv6 requires IPv6] (invalid)").done(),
            2 => {
                self.protocol = "igmp";
                self.igmp(data, out)
            }
            4 => self.nested(|it| it.ipv4(data, out)),
            41 => self.nested(|it| it.ipv6(data, out)),
            47 => self.nested(|it| it.gre(data, out)),
            50 => {
                self.protocol = "esp";
                out.put("ESP(spi=0x").hex_padded(data.u32(0)?.into(), 8);
                out.put(",seq=0x").hex(data.u32(4)?.into());
                out.put("), length ").num(data.len).done()
            }
            51 => {
                self.protocol = "ah";
                let (next, words) = (data.u8(0)?, usize::from(data.u8(1)?));
                let used = (words + 2) * 4;
                out.put("AH(spi=0x").hex_padded(data.u32(4)?.into(), 8);
                out.put(",seq=0x").hex(data.u32(8)?.into());
                data.slice(12, used.saturating_sub(12))?;
                out.put(",icv=0x");
                for &byte in data.slice(12, used.saturating_sub(12))? {
                    out.hex_padded(byte.into(), 2);
                }
                out.put("): ");
                let rest = data.after(used.max(12));
                self.nested(|it| it.ip_payload(next, rest, ends, out))
            }
            DCCP | SCTP => {
                self.protocol = if protocol == SCTP { "sctp" } else { "dccp" };
                if ends
                    .print_with_ports(protocol, data, self.hosts.as_ref(), out)
                    .is_err()
                {
                    if !ends.are_printed {
                        ends.print(self.hosts.as_ref(), out);
                        out.put(":");
                    }
                    return Err(Cut);
                }
                out.put(if protocol == SCTP { "sctp" } else { "DCCP" });
                out.put(", length ").num(data.len).done()
            }
            59 => out.put("no next header").done(),
            9 | 88 | 89 | 103 | 108 | 112 | 113 | 135 => {
                out.put(names::protocol(protocol));
                out.put(", length ").num(data.len).done()
            }
            _ => {
                out.put(" ip-proto-").num(protocol);
                out.byte(b' ').num(data.len).done()
            }
        }
    }

    fn igmp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.kind = Kind::Icmp;
        out.put("igmp ");
        let kind = data.u8(0)?;
        let group = |out: &mut Text| -> Printed {
            let group = data.array(4)?;
            if group != [0; 4] {
                out.put(" [gaddr ").ipv4(group).byte(b']');
            }
            Ok(())
        };
        match kind {
            0x11 if data.len >= 12 => {
                out.put("query v3");
                group(out)?;
            }
            0x11 => {
                out.put(if data.u8(1)? > 0 {
                    "query v2"
                } else {
                    "query v1"
                });
                if data.u8(1)? != 100 && data.u8(1)? > 0 {
                    out.put(" [max resp time ").num(data.u8(1)?).byte(b']');
                }
                group(out)?;
            }
            0x12 => drop(out.put("v1 report ").ipv4(data.array(4)?)),
            0x16 => drop(out.put("v2 report ").ipv4(data.array(4)?)),
            0x17 => drop(out.put("leave ").ipv4(data.array(4)?)),
            0x22 => drop(
                out.put("v3 report, ")
                    .num(data.u16(6)?)
                    .put(" group record(s)"),
            ),
            0x13 => drop(out.put("dvmrp")),
            0x14 => drop(out.put("pimv1")),
            other => drop(out.put("[type 0x").hex(other.into()).byte(b']')),
        }
        Ok(())
    }
}

/// `NOP,RR 1.2.3.4,…`
fn ipv4_options(options: Data<'_>, out: &mut Text) -> Printed {
    let mut at = 0;
    while at < options.len {
        if at > 0 {
            out.byte(b',');
        }
        let code = options.u8(at)?;
        let name = match code {
            0 => "EOL",
            1 => "NOP",
            7 => "RR",
            68 => "timestamp",
            82 => "traceroute",
            130 => "security",
            131 => "LSRR",
            137 => "SSRR",
            148 => "RA",
            _ => "",
        };
        out.name_or(name, "unknown ", code);
        let size = match code {
            0 => return Ok(()),
            1 => 1,
            _ => usize::from(options.u8(at + 1)?),
        };
        if size < 1 + usize::from(code != 1) || size > options.len - at {
            return out.put(" [bad length ").num(size).byte(b']').done();
        }
        options.slice(at, size)?;
        if matches!(code, 7 | 131 | 137) && size >= 3 {
            let pointer = usize::from(options.u8(at + 2)?);
            for hop in (3..size).step_by(4) {
                out.byte(b' ').ipv4(options.array(at + hop)?);
                if pointer > hop + 1 {
                    out.byte(b',');
                }
            }
        }
        at += size;
    }
    Ok(())
}
