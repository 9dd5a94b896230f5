//! ICMP for IPv4.

use super::{
    data::{Data, Printed, checksum, right_checksum},
    ends::Ends,
    ipv4::{TCP, UDP},
    printer::{Kind, Printer},
    text::Text,
};

/// The packet that an error is about begins here.
const INNER: usize = 8;

impl Printer {
    pub(super) fn icmp(&mut self, data: Data<'_>, ends: Ends, out: &mut Text) -> Printed {
        self.protocol = "icmp";
        self.kind = Kind::Icmp;
        let (kind, code) = (data.u8(0)?, data.u8(1)?);
        // Nothing is printed before all of it is known to be captured.
        let start = out.len();
        out.put("ICMP ");
        let described = icmp_type(kind, code, data, out);
        if described.is_err() {
            out.truncate(start);
            return described;
        }
        out.put(", length ").num(data.len);
        if self.style.verbose > 0 {
            if let Some(bytes) = self.to_verify(data, &ends) {
                let wrong = checksum(&[bytes]);
                if wrong != 0 {
                    let found = data.u16(2)?;
                    out.put(" (wrong icmp cksum ").hex(found.into()).put(" (->");
                    out.hex(right_checksum(found, wrong).into()).put(")!)");
                }
            }
            if matches!(kind, 3 | 4 | 5 | 11 | 12) {
                out.put("\n\t");
                let inner = data.after(INNER);
                let stated = inner.u16(2).map_or(inner.captured.len(), usize::from);
                let inner = Data {
                    len: stated,
                    ..inner
                };
                return self.nested(|it| it.ipv4(inner, out));
            }
        }
        Ok(())
    }
}

fn icmp_type(kind: u8, code: u8, data: Data<'_>, out: &mut Text) -> Printed {
    let id_and_sequence = |out: &mut Text| -> Printed {
        out.put("id ").num(data.u16(4)?);
        out.put(", seq ").num(data.u16(6)?).done()
    };
    match kind {
        0 | 8 => {
            out.put(if kind == 8 {
                "echo request, "
            } else {
                "echo reply, "
            });
            id_and_sequence(out)?;
        }
        3 => unreachable(code, data, out)?,
        4 => drop(out.put("source quench")),
        5 => {
            let (to, about) = (data.array(4)?, data.array(INNER + 16)?);
            out.put(match code {
                2 | 3 => "redirect-tos ",
                0 | 1 => "redirect ",
                _ => "redirect-#",
            });
            if code > 3 {
                out.num(code).byte(b' ');
            }
            out.ipv4(about).put(match code {
                0 | 2 => " to net ",
                1 | 3 => " to host ",
                _ => " to ",
            });
            out.ipv4(to);
        }
        9 => {
            out.put("router advertisement lifetime ");
            let lifetime = u64::from(data.u16(6)?);
            match lifetime {
                0..60 => out.num(lifetime),
                60..3600 => out.num(lifetime / 60).byte(b':').padded(lifetime % 60, 2),
                _ => {
                    out.num(lifetime / 3600).byte(b':');
                    out.padded(lifetime % 3600 / 60, 2);
                    out.byte(b':').padded(lifetime % 60, 2)
                }
            };
            let (addresses, size) = (data.u8(4)?, data.u8(5)?);
            out.byte(b' ').num(addresses).byte(b':');
            if size != 2 {
                return out.put(" [size ").num(size).byte(b']').done();
            }
            for number in 0..usize::from(addresses) {
                let at = 8 + 8 * number;
                out.put(" {")
                    .ipv4(data.array(at)?)
                    .byte(b' ')
                    .num(data.u32(at + 4)?)
                    .byte(b'}');
            }
        }
        10 => drop(out.put("router solicitation")),
        11 => {
            data.slice(INNER + 16, 4)?;
            match code {
                0 => out.put("time exceeded in-transit"),
                1 => out.put("ip reassembly time exceeded"),
                _ => out.put("time exceeded-#").num(code),
            };
        }
        12 if code > 0 => drop(out.put("parameter problem - code ").num(code)),
        12 => drop(out.put("parameter problem - octet ").num(data.u8(4)?)),
        13 | 14 => {
            let name = if kind == 13 { "query" } else { "reply" };
            out.put("time stamp ").put(name).put(" id ");
            out.num(data.u16(4)?).put(" seq ").num(data.u16(6)?);
            if kind == 13 {
                return Ok(());
            }
            for (name, at) in [(": org ", 8), (" recv ", 12), (" xmit ", 16)] {
                let time = u64::from(data.u32(at)?);
                let hours = time / 3_600_000;
                out.put(name)
                    .put(if hours < 10 { "0" } else { "" })
                    .num(hours)
                    .byte(b':');
                out.padded(time / 60_000 % 60, 2).byte(b':');
                out.padded(time / 1000 % 60, 2).byte(b'.');
                out.padded(time % 1000, 3);
                out.put(if at < 16 { "," } else { "" });
            }
        }
        15 => drop(out.put("information request")),
        16 => drop(out.put("information reply")),
        17 => drop(out.put("address mask request")),
        18 => drop(
            out.put("address mask is 0x")
                .hex_padded(data.u32(8)?.into(), 8),
        ),
        _ => drop(out.put("type-#").num(kind)),
    }
    Ok(())
}

fn unreachable(code: u8, data: Data<'_>, out: &mut Text) -> Printed {
    let about = data.array(INNER + 16)?;
    let protocol = data.u8(INNER + 9)?;
    match code {
        2 => {
            out.ipv4(about).put(" protocol ").num(protocol);
            return out.put(" unreachable").done();
        }
        3 => {
            let header = usize::from(data.u8(INNER)? & 15) * 4;
            let port = data.u16(INNER + header + 2)?;
            out.ipv4(about);
            match protocol {
                TCP => out.put(" tcp port "),
                UDP => out.put(" udp port "),
                other => out.put(" protocol ").num(other).put(" port "),
            };
            return out.num(port).put(" unreachable").done();
        }
        4 => {
            out.ipv4(about).put(" unreachable - need to frag");
            let mtu = data.u16(6)?;
            if mtu > 0 {
                out.put(" (mtu ").num(mtu).byte(b')');
            }
            return Ok(());
        }
        _ => {}
    }
    let (before, after) = match code {
        0 => ("net ", " unreachable"),
        1 => ("host ", " unreachable"),
        5 => ("", " unreachable - source route failed"),
        6 => ("net ", " unreachable - unknown"),
        7 => ("host ", " unreachable - unknown"),
        8 => ("", " unreachable - source host isolated"),
        9 => ("net ", " unreachable - admin prohibited"),
        10 => ("host ", " unreachable - admin prohibited"),
        11 => ("net ", " unreachable - tos prohibited"),
        12 => ("host ", " unreachable - tos prohibited"),
        13 => ("host ", " unreachable - admin prohibited filter"),
        14 => ("host ", " unreachable - host precedence violation"),
        15 => ("host ", " unreachable - precedence cutoff"),
        _ => {
            return out.ipv4(about).put(" unreachable - #").num(code).done();
        }
    };
    out.put(before).ipv4(about).put(after).done()
}
