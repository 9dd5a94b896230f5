//! The ends of a packet: addresses and ports, or their names.

use super::{
    address::Address,
    data::{Cut, Data, checksum},
    hosts::Hosts,
    text::Text,
};
use forebay_net::filter::service_name;

/// What the headers before a transport header say.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub source: Address,
    pub destination: Address,
    /// Only a part of the packet is here, so that there is no checksum to verify.
    pub is_fragment: bool,
    /// The addresses are already printed.
    pub are_printed: bool,
}

impl Ends {
    pub fn is_v6(&self) -> bool {
        matches!(self.source, Address::V6(_))
    }

    pub fn print(&self, names: Option<&Hosts>, out: &mut Text) {
        print(self.source, names, out);
        out.put(" > ");
        print(self.destination, names, out);
    }

    /// Prints `10.0.0.1.80 > 10.0.0.2.1234: `, or only the ports, and returns the ports, with which `data` begins. Nothing is printed if
    /// they are missing.
    pub fn print_with_ports(
        &self,
        protocol: u8,
        data: Data<'_>,
        names: Option<&Hosts>,
        out: &mut Text,
    ) -> Result<(u16, u16), Cut> {
        let (source, destination) = (data.u16(0)?, data.u16(2)?);
        for (address, port, end) in [
            (self.source, source, " > "),
            (self.destination, destination, ": "),
        ] {
            if !self.are_printed {
                print(address, names, out);
                out.byte(b'.');
            }
            let service = names.and_then(|_| service_name(port, protocol));
            out.name_or(service.unwrap_or(""), "", port).put(end);
        }
        Ok((source, destination))
    }

    /// The checksum over this packet of `protocol`, with the pseudo-header.
    pub fn checksum(&self, protocol: u8, bytes: &[u8]) -> u16 {
        let len = (bytes.len() as u32).to_be_bytes();
        let (source, destination) = (self.source.bytes(), self.destination.bytes());
        checksum(&[source, destination, &len, &[0, protocol], bytes])
    }
}

/// Prints the name of an address, if it is known, or the address.
fn print(address: Address, names: Option<&Hosts>, out: &mut Text) {
    match names.and_then(|names| names.name(address)) {
        Some(name) => drop(out.put(name)),
        None => address.print(out),
    }
}
