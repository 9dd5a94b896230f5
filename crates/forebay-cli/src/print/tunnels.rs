//! Tunnels: GRE, VXLAN, Geneve. The packet inside follows on the same line.

use super::{
    data::{Data, Printed},
    link::{BRIDGED, IPV4, IPV6},
    printer::Printer,
    text::Text,
};

impl Printer {
    pub(super) fn gre(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "gre";
        let (flags, kind) = (data.u16(0)?, data.u16(2)?);
        out.put("GREv").num(flags & 7);
        if flags & 7 > 1 {
            return out.put(", unknown-version, length ").num(data.len).done();
        }
        let is_pptp = flags & 7 == 1;
        let mut at = 4;
        if self.style.verbose > 0 {
            let names = [
                (0x8000, "checksum present"),
                (0x4000, "routing present"),
                (0x2000, "key present"),
                (0x1000, "sequence# present"),
            ];
            out.put(", Flags ").flags(flags, &names);
        }
        if !is_pptp && flags & 0xc000 != 0 {
            if self.style.verbose > 0 && flags & 0x8000 != 0 {
                out.put(", sum 0x").hex(data.u16(at)?.into());
            }
            out.put(", off 0x").hex(data.u16(at + 2)?.into());
            at += 4;
        }
        if flags & 0x2000 != 0 {
            match is_pptp {
                true => out.put(", call ").num(data.u16(at + 2)?),
                false => out.put(", key=0x").hex(data.u32(at)?.into()),
            };
            at += 4;
        }
        if flags & 0x1000 != 0 {
            out.put(", seq ").num(data.u32(at)?);
            at += 4;
        }
        if is_pptp && flags & 0x80 != 0 {
            out.put(", ack ").num(data.u32(at)?);
            at += 4;
        }
        if flags & 0x4000 != 0 && !is_pptp {
            return out.put(", routing, length ").num(data.len).done();
        }
        out.put(", length ").num(data.len).put(": ");
        let inner = data.after(at);
        match kind {
            IPV4 => self.ipv4(inner, out),
            IPV6 => self.ipv6(inner, out),
            BRIDGED => self.ethernet(inner, out).1,
            0x880b => self.ppp(inner, out),
            _ => out.put("gre-proto-0x").hex_padded(kind.into(), 4).done(),
        }
    }

    pub(super) fn vxlan(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "vxlan";
        let flags = data.u8(0)?;
        let network = data.u24(4)?;
        data.slice(0, 8)?;
        out.put("VXLAN, flags [")
            .put(if flags & 8 != 0 { "I" } else { "." });
        out.put("] (0x").hex_padded(flags.into(), 2);
        out.put("), vni ").num(network).put(": ");
        self.ethernet(data.after(8), out).1
    }

    pub(super) fn geneve(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "geneve";
        let (first, flags, kind) = (data.u8(0)?, data.u8(1)?, data.u16(2)?);
        out.put("Geneve");
        if first >> 6 != 0 {
            return out.put(" ERROR: unknown-version ").num(first >> 6).done();
        }
        out.put(", Flags [");
        out.put(match (flags & 0x80 != 0, flags & 0x40 != 0) {
            (true, true) => "OC",
            (true, false) => "O",
            (false, true) => "C",
            (false, false) => "none",
        });
        out.put("], vni 0x").hex(data.u24(4)?.into());
        let options = usize::from(first & 0x3f) * 4;
        data.slice(8, options)?;
        if options > 0 {
            out.put(", options [").num(options).put(" bytes]");
        }
        out.put(": ");
        let inner = data.after(8 + options);
        match kind {
            BRIDGED => self.ethernet(inner, out).1,
            kind => self
                .ethertype(kind, inner, out)
                .unwrap_or_else(|| out.put("geneve-proto-0x").hex(kind.into()).done()),
        }
    }
}
