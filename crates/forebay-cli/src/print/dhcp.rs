//! DHCP, and BOOTP before it.

use super::{
    data::{Cut, Data, Printed},
    printer::Printer,
    text::Text,
};

const HEADER: usize = 236;
const COOKIE: u32 = 0x6382_5363;
/// Kinds of message, from 1 on.
const MESSAGES: [&str; 8] = [
    "Discover", "Offer", "Request", "Decline", "ACK", "NACK", "Release", "Inform",
];

impl Printer {
    pub(super) fn dhcp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "bootp";
        out.put("BOOTP/DHCP, ");
        match data.u8(0)? {
            1 => out.put("Request"),
            2 => out.put("Reply"),
            other => out
                .put("unknown (0x")
                .hex_padded(other.into(), 2)
                .byte(b')'),
        };
        let (hardware, address_len) = (data.u8(1)?, data.u8(2)?);
        if data.u8(0)? == 1 && (hardware, address_len) == (1, 6) {
            out.put(" from ").mac(data.slice(28, 6)?);
        }
        out.put(", length ").num(data.len);
        if let Ok(Some(kind)) = option(data, 53)
            && let [number @ 1..=8] = kind
        {
            out.put(": DHCP ").put(MESSAGES[usize::from(number - 1)]);
        }
        if self.style.verbose == 0 {
            return Ok(());
        }
        out.put(", xid 0x").hex(data.u32(4)?.into());
        for (name, at) in [
            ("Client-IP", 12),
            ("Your-IP", 16),
            ("Server-IP", 20),
            ("Gateway-IP", 24),
        ] {
            let address = data.array(at)?;
            if address != [0; 4] {
                out.put("\n\t  ").put(name).byte(b' ').ipv4(address);
            }
        }
        for (code, name) in [
            (50, "Requested-IP"),
            (54, "Server-ID"),
            (1, "Subnet-Mask"),
            (3, "Default-Gateway"),
            (6, "Domain-Name-Server"),
            (51, "Lease-Time"),
            (12, "Hostname"),
            (15, "Domain-Name"),
            (60, "Vendor-Class"),
        ] {
            let Ok(Some(value)) = option(data, code) else {
                continue;
            };
            out.put("\n\t  ").put(name).byte(b' ');
            match code {
                12 | 15 | 60 => drop(out.byte(b'"').foreign(value).byte(b'"')),
                51 => drop(out.num(Data::from(value).u32(0)?)),
                _ => {
                    for (number, address) in value.chunks_exact(4).enumerate() {
                        out.put(if number > 0 { "," } else { "" });
                        out.ipv4(Data::from(address).array(0)?);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The value of an option.
fn option(data: Data<'_>, wanted: u8) -> Result<Option<&[u8]>, Cut> {
    if data.u32(HEADER)? != COOKIE {
        return Ok(None);
    }
    let mut at = HEADER + 4;
    loop {
        match data.u8(at)? {
            255 => return Ok(None),
            0 => at += 1,
            code => {
                let value = data.slice(at + 2, data.u8(at + 1)?.into())?;
                if code == wanted {
                    return Ok(Some(value));
                }
                at += 2 + value.len();
            }
        }
    }
}
