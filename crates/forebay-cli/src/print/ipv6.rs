//! IPv6 and its extension headers.

use super::{
    address::Address,
    data::{Cut, Data, Printed},
    ends::Ends,
    ipv4::has_ports,
    names,
    printer::Printer,
    text::Text,
};
use etherparse::Ipv6HeaderSlice;

const HEADER: usize = 40;

impl Printer {
    pub(super) fn ipv6(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "ip6";
        data.slice(0, HEADER)?;
        if !self.style.link_header {
            out.put("IP6 ");
        }
        let version = data.u8(0)? >> 4;
        if version != 6 {
            return out.put("version error: ").num(version).put(" != 6").done();
        }
        if data.len < HEADER {
            return out.put("truncated-ip6 ").num(data.len).done();
        }
        let header = Ipv6HeaderSlice::from_slice(data.captured).map_err(|_| Cut)?;
        let payload = usize::from(header.payload_length());
        let total = if payload == 0 && data.len > HEADER {
            data.len
        } else {
            payload + HEADER
        };
        if data.len < total {
            out.put("truncated-ip6 - ").num(total - data.len);
            out.put(" bytes missing!");
        }
        let next = header.next_header().0;
        if self.style.verbose > 0 {
            out.byte(b'(');
            if header.traffic_class() > 0 {
                out.put("class 0x");
                out.hex_padded(header.traffic_class().into(), 2).put(", ");
            }
            if header.flow_label().value() > 0 {
                out.put("flowlabel 0x")
                    .hex_padded(header.flow_label().value().into(), 5)
                    .put(", ");
            }
            out.put("hlim ").num(header.hop_limit());
            out.put(", next-header ").put(names::protocol(next));
            out.put(" (").num(next);
            out.put(") payload length: ").num(payload).put(") ");
        }
        let mut ends = Ends {
            source: Address::V6(header.source()),
            destination: Address::V6(header.destination()),
            is_fragment: false,
            are_printed: false,
        };
        if !has_ports(next) {
            ends.print(self.hosts.as_ref(), out);
            out.put(": ");
            ends.are_printed = true;
        }
        self.ipv6_headers(next, data.first(total), ends, out)
    }

    /// Extension headers, and then the packet of another protocol.
    fn ipv6_headers(
        &mut self,
        mut next: u8,
        data: Data<'_>,
        mut ends: Ends,
        out: &mut Text,
    ) -> Printed {
        let mut at = HEADER;
        loop {
            let rest = data.after(at);
            match next {
                0 | 60 => {
                    self.protocol = if next == 0 { "hbhopt" } else { "dstopt" };
                    let used = 8 * (1 + usize::from(rest.u8(1)?));
                    rest.slice(0, used)?;
                    out.put(if next == 0 { "HBH " } else { "DSTOPT " });
                    next = rest.u8(0)?;
                    at += used;
                }
                43 => {
                    self.protocol = "rt6";
                    let used = 8 * (1 + usize::from(rest.u8(1)?));
                    out.put("RT6 (len=")
                        .num(rest.u8(1)?)
                        .put(", type=")
                        .num(rest.u8(2)?);
                    if rest.u8(2)? == 0 {
                        out.put(" [Deprecated]");
                    }
                    out.put(", segleft=").num(rest.u8(3)?);
                    if matches!(rest.u8(2)?, 0 | 2) && rest.u8(1)? >= 2 {
                        for (number, hop) in (8..used).step_by(16).enumerate() {
                            let address = rest.array(hop)?;
                            out.put(", [").num(number).byte(b']').ipv6(address);
                        }
                    }
                    out.put(") ");
                    rest.slice(0, used)?;
                    next = rest.u8(0)?;
                    at += used;
                }
                44 => {
                    self.protocol = "frag6";
                    let offset = rest.u16(2)? & !7;
                    let id = if self.style.verbose > 0 {
                        rest.u32(4)?
                    } else {
                        0
                    };
                    out.put("frag (");
                    if self.style.verbose > 0 {
                        out.put("0x").hex_padded(id.into(), 8).byte(b':');
                    }
                    out.num(offset).byte(b'|').num(rest.len.saturating_sub(8));
                    out.byte(b')');
                    if offset > 0 {
                        return Ok(());
                    }
                    out.byte(b' ');
                    next = rest.u8(0)?;
                    ends.is_fragment = true;
                    at += 8;
                }
                135 => {
                    self.protocol = "mobility";
                    let name = match rest.u8(2)? {
                        0 => "BRR",
                        1 => "HoTI",
                        2 => "CoTI",
                        3 => "HoT",
                        4 => "CoT",
                        5 => "BU",
                        6 => "BA",
                        7 => "BE",
                        _ => "",
                    };
                    out.put("mobility: ");
                    match name {
                        "" => out
                            .put("type-#")
                            .num(rest.u8(2)?)
                            .put(" len=")
                            .num(rest.u8(1)?),
                        name => out.put(name),
                    };
                    return Ok(());
                }
                _ => return self.ip_payload(next, rest, ends, out),
            }
        }
    }
}
