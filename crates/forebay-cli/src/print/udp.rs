//! UDP.

use super::{
    data::{Cut, Data, Printed},
    ends::Ends,
    ipv4::UDP,
    printer::{Kind, Printer},
    text::Text,
};
use etherparse::UdpHeaderSlice;

const HEADER: usize = 8;

impl Printer {
    pub(super) fn udp(&mut self, data: Data<'_>, ends: Ends, out: &mut Text) -> Printed {
        self.protocol = "udp";
        self.kind = Kind::Udp;
        let Ok(ports) = ends.print_with_ports(UDP, data, self.hosts.as_ref(), out) else {
            if !ends.are_printed {
                ends.print(self.hosts.as_ref(), out);
                out.put(": ");
            }
            return Err(Cut);
        };
        if data.len < HEADER {
            return out.put("truncated-udp ").num(data.len).done();
        }
        let header = UdpHeaderSlice::from_slice(data.captured).map_err(|_| Cut)?;
        let stated = usize::from(header.length());
        let is_jumbo = stated == 0 && data.len > 0xffff;
        if stated < HEADER && !is_jumbo {
            return out.put("truncated-udplength ").num(stated).done();
        }
        // A jumbogram has no length.
        let stated = if is_jumbo { data.len } else { stated };
        let payload = (data.len - HEADER).min(stated - HEADER);
        let least = if ends.is_v6() { 1 } else { 2 };
        if self.style.verbose >= least && !ends.is_fragment && !self.style.no_checksums {
            let found = header.checksum();
            match data.slice(0, payload + HEADER) {
                _ if found == 0 && !ends.is_v6() => drop(out.put("[no cksum] ")),
                Err(Cut) => {}
                Ok(bytes) => drop(out.sum("udp", found, ends.checksum(UDP, bytes))),
            }
        }
        let body = data.after(HEADER).first(payload);
        if !self.style.brief
            && let Some(printed) = self.udp_payload(body, ports, out)
        {
            return printed;
        }
        if stated > data.len && !ends.is_fragment {
            out.put("UDP, bad length ").num(stated - HEADER);
            out.put(" > ").num(data.len - HEADER);
        } else {
            out.put("UDP, length ").num(stated - HEADER);
        }
        Ok(())
    }
}
