//! ICMPv6: errors, echo, neighbour discovery, multicast groups.

use super::{
    data::{Cut, Data, Printed},
    ends::Ends,
    hex,
    ipv4::{TCP, UDP},
    names,
    printer::{Kind, Printer},
    text::Text,
};

const ICMP6: u8 = 58;
/// The packet that an error is about begins here.
const INNER: usize = 8;

impl Printer {
    pub(super) fn icmp6(&mut self, data: Data<'_>, ends: Ends, out: &mut Text) -> Printed {
        self.protocol = "icmp6";
        self.kind = Kind::Icmp;
        data.u8(1)?;
        if let Some(bytes) = self.to_verify(data, &ends) {
            out.sum("icmp6", data.u16(2)?, ends.checksum(ICMP6, bytes));
        }
        out.put("ICMP6, ");
        self.icmp6_type(data, out)?;
        // With -v the length stands after the name, or nowhere.
        let kind = data.u8(0)?;
        if self.style.verbose == 0 || !matches!(kind, 1..=4 | 128..=137 | 143) {
            out.put(", length ").num(data.len);
        }
        let is_unknown = names::icmp6(kind).is_none() || kind >= 200;
        if is_unknown && self.style.verbose < 2 {
            hex::hex(data.first(data.len).captured, out);
        }
        Ok(())
    }

    fn icmp6_type(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        let (kind, code) = (data.u8(0)?, data.u8(1)?);
        let verbose = self.style.verbose > 0;
        match names::icmp6(kind) {
            None => out.put("unknown icmp6 type (").num(kind).byte(b')'),
            Some(name) => out.put(name),
        };
        if verbose && matches!(kind, 130..=137 | 143) {
            out.put(", length ").num(data.len);
        }
        match kind {
            1 => {
                out.put(", ");
                self.icmp6_unreachable(code, data, out)?;
            }
            2 => drop(out.put(", mtu ").num(data.u32(4)?)),
            3 => {
                out.put(" in-transit");
                match code {
                    0 => {
                        let about = data.array(INNER + 24)?;
                        out.put(" for ").ipv6(about);
                    }
                    1 => drop(out.put(" (reassembly)")),
                    _ => drop(out.put(", unknown code (").num(code).byte(b')')),
                }
            }
            4 => {
                let what = match code {
                    0 => ", erroneous - octet ",
                    1 => ", next header - octet ",
                    2 => ", option - octet ",
                    3 => ", incomplete header chain - octet ",
                    _ => {
                        return out.put(", code-#").num(code).done();
                    }
                };
                data.slice(INNER + 24, 16)?;
                out.put(what).num(data.u32(4)?);
            }
            128 | 129 => {
                out.put(", id ").num(data.u16(4)?);
                out.put(", seq ").num(data.u16(6)?);
            }
            130 if data.len >= 28 => {
                out.put(" v2 [max resp delay=").num(data.u16(4)?).byte(b']');
                let group = data.array(8)?;
                if group != [0; 16] {
                    out.put(" [gaddr ").ipv6(group).byte(b']');
                }
            }
            130..=132 => {
                if let (Ok(delay), Ok(group)) = (data.u16(4), data.array(8)) {
                    out.put("max resp delay: ").num(delay);
                    out.put(" addr: ").ipv6(group);
                }
            }
            133 if verbose => self.neighbour_options(data, 8, out)?,
            134 if verbose => {
                let flags = data.u8(5)?;
                out.put("\n\thop limit ").num(data.u8(4)?).put(", Flags ");
                let names = [
                    (0x80, "managed"),
                    (0x40, "other stateful"),
                    (0x20, "home agent"),
                ];
                out.flags(flags.into(), &names).put(", pref ");
                out.put(["medium", "high", "reserved", "low"][usize::from(flags >> 3 & 3)]);
                out.put(", router lifetime ").num(data.u16(6)?);
                out.put("s, reachable time ").num(data.u32(8)?);
                out.put("ms, retrans timer ").num(data.u32(12)?).put("ms");
                self.neighbour_options(data, 16, out)?;
            }
            135 => {
                let target = data.array(8)?;
                out.put(", who has ").ipv6(target);
                if verbose {
                    self.neighbour_options(data, 24, out)?;
                }
            }
            136 => {
                let target = data.array(8)?;
                out.put(", tgt is ").ipv6(target);
                if verbose {
                    let flags = data.u8(4)?;
                    let names = [(0x80, "router"), (0x40, "solicited"), (0x20, "override")];
                    out.put(", Flags ").flags(flags.into(), &names);
                    self.neighbour_options(data, 24, out)?;
                }
            }
            137 => {
                let (about, target) = (data.array(24)?, data.array(8)?);
                out.put(", ").ipv6(about).put(" to ").ipv6(target);
                if verbose {
                    self.neighbour_options(data, 40, out)?;
                }
            }
            143 => {
                let groups = data.u16(6)?;
                out.put(", ").num(groups).put(" group record(s)");
            }
            _ => {}
        }
        Ok(())
    }

    fn icmp6_unreachable(&mut self, code: u8, data: Data<'_>, out: &mut Text) -> Printed {
        let about = data.array(INNER + 24);
        match code {
            0 => out.put("unreachable route"),
            1 => out.put(" unreachable prohibited"),
            2 => out.put("beyond scope"),
            3 => out.put("unreachable address"),
            4 => out.put("unreachable port"),
            _ => out.put("unknown unreach code (").num(code).byte(b')'),
        };
        match code {
            0 | 1 | 3 => {
                let about = about?;
                out.byte(b' ').ipv6(about);
            }
            2 => {
                let source = data.array(INNER + 8)?;
                let about = about?;
                out.byte(b' ').ipv6(about);
                out.put(", source address ").ipv6(source);
            }
            4 => {
                let (protocol, port) = (data.u8(INNER + 6)?, data.u16(INNER + 40 + 2)?);
                let name = match protocol {
                    TCP => " tcp port ",
                    UDP => " udp port ",
                    _ => return Err(Cut),
                };
                out.put(", ").ipv6(about?).put(name).num(port);
            }
            _ => {}
        }
        Ok(())
    }

    /// The options of neighbour discovery, a line each.
    fn neighbour_options(&mut self, data: Data<'_>, mut at: usize, out: &mut Text) -> Printed {
        while at < data.captured.len() {
            let (kind, words) = (data.u8(at)?, usize::from(data.u8(at + 1)?));
            if words == 0 {
                return Err(Cut);
            }
            let (name, len) = (names::neighbour_option(kind), words * 8);
            out.put("\n\t  ").put(name);
            out.put(" option (").num(kind).put("), length ");
            out.num(len).put(" (").num(words).put("): ");
            let body = data.slice(at, len)?;
            match kind {
                1 | 2 => drop(out.mac(&body[2..])),
                3 if words == 4 => {
                    out.ipv6(data.array(at + 16)?).byte(b'/').num(body[2]);
                    out.put(", valid time ").num(data.u32(at + 4)?).byte(b's');
                    out.put(", pref. time ").num(data.u32(at + 8)?).byte(b's');
                }
                5 => drop(out.byte(b' ').num(data.u32(at + 4)?)),
                25 => {
                    out.put(" lifetime ").num(data.u32(at + 4)?).put("s,");
                    for address in (8..len.saturating_sub(15)).step_by(16) {
                        out.put(" addr: ").ipv6(data.array(at + address)?);
                    }
                }
                _ => {
                    for &byte in &body[2..] {
                        out.hex_padded(byte.into(), 2);
                    }
                }
            }
            at += len;
        }
        Ok(())
    }
}
