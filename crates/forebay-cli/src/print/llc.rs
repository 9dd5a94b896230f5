//! IEEE 802.2 headers in 802.3 frames.

use super::{
    data::{Cut, Data},
    names,
    printer::Printer,
    text::Text,
};

/// The organisation of an Ethernet type in a SNAP header.
const SNAP: u8 = 0xaa;

impl Printer {
    /// Prints an LLC header and what follows. Returns the header's length.
    pub(super) fn llc(
        &mut self,
        data: Data<'_>,
        (source, destination): ([u8; 6], [u8; 6]),
        out: &mut Text,
    ) -> Result<usize, Cut> {
        self.protocol = "llc";
        let (to, from, control) = (data.u8(0)?, data.u8(1)?, data.u8(2)?);
        if (to, from, control) == (SNAP, SNAP, 3) {
            let (organisation, kind) = (data.u24(3)?, data.u16(6)?);
            let inner = data.after(8);
            if matches!(organisation, 0 | 0xf8)
                && let Some(printed) = self.ethertype(kind, inner, out)
            {
                return printed.map(|()| 8);
            }
            out.put("SNAP, oui 0x").hex_padded(organisation.into(), 6);
            out.put(", pid 0x").hex_padded(kind.into(), 4);
            out.put(", length ").num(inner.len);
            return Ok(8);
        }
        match (to, from) {
            (0x42, 0x42) => out.put("STP"),
            (0xe0, 0xe0) | (0xff, 0xff) => out.put("IPX"),
            (0xfe, 0xfe) => out.put("OSI"),
            (0xf0, 0xf0) => out.put("NetBeui"),
            _ => {
                if !self.style.link_header {
                    out.mac(&source).put(" > ").mac(&destination).byte(b' ');
                }
                let name = |sap| names::sap(sap).unwrap_or("Unknown");
                out.put("LLC, dsap ").put(name(to & 0xfe)).put(" (0x");
                out.hex_padded((to & 0xfe).into(), 2).put("), ssap ");
                out.put(name(from & 0xfe)).put(" (0x");
                out.hex_padded((from & 0xfe).into(), 2).put("), ctrl 0x");
                out.hex_padded(control.into(), 2)
            }
        };
        out.put(", length ").num(data.len);
        Ok(if control & 3 == 3 { 3 } else { 4 })
    }
}
