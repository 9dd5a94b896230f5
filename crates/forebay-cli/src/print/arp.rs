//! ARP and reverse ARP.

use super::{
    data::{Data, Printed},
    hex,
    link::IPV4,
    names,
    printer::{Kind, Printer},
    text::Text,
};

/// Types of protocol whose addresses are IPv4's.
fn is_ip(kind: u16) -> bool {
    matches!(kind, IPV4 | 0x1000)
}

impl Printer {
    pub(super) fn arp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "arp";
        self.kind = Kind::Arp;
        data.slice(0, 8)?;
        let (hardware, protocol, operation) = (data.u16(0)?, data.u16(2)?, data.u16(6)?);
        let (hardware_len, protocol_len) = (data.u8(4)?, data.u8(5)?);
        let (long, short) = (usize::from(hardware_len), usize::from(protocol_len));
        let source_mac = data.slice(8, long)?;
        let target_mac = data.slice(8 + long + short, long)?;
        data.slice(8 + 2 * long + short, short)?;
        if !self.style.link_header {
            out.put("ARP, ");
        }
        let verbose = self.style.verbose > 0;
        if !is_ip(protocol) || protocol_len != 4 || hardware_len == 0 || verbose {
            let name = match hardware {
                1 => "Ethernet",
                6 => "TokenRing",
                7 => "ArcNet",
                15 => "FrameRelay",
                23 => "Strip",
                24 => "IEEE 1394",
                32 => "InfiniBand",
                _ => "",
            };
            match name {
                "" => out.put("Unknown Hardware (").num(hardware).byte(b')'),
                name => out.put(name),
            };
            out.put(" (len ").num(hardware_len).put("), ");
            match names::ethertype(protocol) {
                Some(name) => out.put(name),
                None => out
                    .put("Unknown Protocol (0x")
                    .hex_padded(protocol.into(), 4)
                    .byte(b')'),
            };
            out.put(" (len ").num(protocol_len).byte(b')');
            if !verbose {
                return out.put(", length ").num(data.len).done();
            }
            out.put(", ");
        }
        let address = |at: usize, out: &mut Text| -> Printed {
            match (is_ip(protocol), protocol_len) {
                (false, _) => drop(out.put("<wrong proto type>")),
                (true, 4) => drop(out.ipv4(data.array(at)?)),
                (true, _) => drop(out.put("<wrong len>")),
            }
            Ok(())
        };
        let mac = |address: &[u8], out: &mut Text| match address.len() {
            0 => drop(out.put("<empty>")),
            _ => drop(out.mac(address)),
        };
        let (source, target) = (8 + long, 8 + 2 * long + short);
        match operation {
            1 => {
                out.put("Request who-has ");
                address(target, out)?;
                if target_mac.iter().any(|&byte| byte != 0) {
                    out.put(" (").mac(target_mac).byte(b')');
                }
                out.put(" tell ");
                address(source, out)?;
            }
            2 => {
                out.put("Reply ");
                address(source, out)?;
                out.put(" is-at ");
                mac(source_mac, out);
            }
            3 | 8 => {
                out.put(if operation == 3 {
                    "Reverse Request who-is "
                } else {
                    "Inverse Request who-is "
                });
                mac(target_mac, out);
                out.put(" tell ");
                mac(source_mac, out);
            }
            4 => {
                out.put("Reverse Reply ");
                mac(target_mac, out);
                out.put(" at ");
                address(target, out)?;
            }
            9 => {
                out.put("Inverse Reply ");
                mac(source_mac, out);
                out.put(" at ");
                address(source, out)?;
            }
            _ => {
                match operation {
                    10 => out.put("NACK Reply "),
                    other => out.put("Unknown (").num(other).put(") "),
                };
                hex::hex_and_text(data.captured, out);
                return Ok(());
            }
        }
        out.put(", length ").num(data.len).done()
    }
}
