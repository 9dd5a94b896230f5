//! The addresses of a packet, of either version of IP.

use super::{
    data::{Cut, Data, checksum},
    hosts::Hosts,
    text::Text,
};
use forebay_net::filter::service_name;

/// An address of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl Address {
    /// Prints its name, if it is known, or the address.
    pub fn print(self, names: Option<&Hosts>, out: &mut Text) {
        if let Some(name) = names.and_then(|names| names.name(self)) {
            out.put(name);
            return;
        }
        match self {
            Address::V4(address) => out.ipv4(address),
            Address::V6(address) => out.ipv6(address),
        };
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Address::V4(address) => address,
            Address::V6(address) => address,
        }
    }
}

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
        self.source.print(names, out);
        out.put(" > ");
        self.destination.print(names, out);
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
                address.print(names, out);
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
