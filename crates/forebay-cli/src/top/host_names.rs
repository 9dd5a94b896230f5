//! `--names`: the names that answers of DNS in the capture gave to addresses, and those of well-known ports.

use super::tables::Key;
use crate::{
    flow::{Flow, Protocol},
    print::{self, Printer, Style, Text, address::Address},
};
use forebay_net::{
    filter::service_name,
    port::{Frame, Interface},
};
use std::net::IpAddr;

/// DNS, multicast DNS and LLMNR.
const PORTS: [u16; 3] = [53, 5353, 5355];

/// Learns names as `capture --names` does.
pub struct HostNames {
    printer: Printer,
    /// What would be printed.
    line: Text,
}

impl HostNames {
    pub fn new() -> Self {
        let style = Style {
            names: true,
            no_checksums: true,
            ..Style::default()
        };
        HostNames {
            printer: Printer::new(style),
            line: Text::default(),
        }
    }

    /// Whether packets of this flow can have names.
    #[inline]
    pub fn are_in(flow: &Flow) -> bool {
        flow.ports.iter().any(|port| PORTS.contains(port))
    }

    pub fn learn(&mut self, frame: &Frame<'_>, interface: &Interface) {
        let packet = print::Packet {
            link: interface.link,
            interface: "",
            direction: frame.direction,
            time_ns: frame.time_ns,
            data: frame.data,
            captured: frame.data.len() as u32,
            wire_len: frame.wire_len,
        };
        self.printer.line(&packet, &mut self.line);
        self.line.truncate(0);
    }

    pub fn host(&self, host: IpAddr) -> Option<&str> {
        self.printer.host_name(match host {
            IpAddr::V4(host) => Address::V4(host.octets()),
            IpAddr::V6(host) => Address::V6(host.octets()),
        })
    }

    pub fn service(port: u16, protocol: Protocol) -> Option<&'static str> {
        match protocol {
            Protocol::Ip(number) => service_name(port, number),
            _ => None,
        }
    }

    /// What a row is called; `None`: it has no names.
    pub fn label(&self, key: Key) -> Option<String> {
        match key {
            Key::Host(host) => self.host(host).map(String::from),
            Key::Port(port, protocol) => {
                let service = HostNames::service(port, protocol)?;
                Some(format!("{service}/{protocol}"))
            }
            Key::Flow(flow) => self.flow(flow),
            Key::Protocol(_) => None,
        }
    }

    fn flow(&self, flow: Flow) -> Option<String> {
        let hosts = flow.hosts()?;
        let mut is_named = false;
        let ends = [0, 1].map(|end: usize| {
            let (host, port) = (hosts[end], flow.ports[end]);
            let name = self.host(host);
            let service = HostNames::service(port, flow.protocol);
            is_named |= name.is_some() || service.is_some();
            let host = match (name, host) {
                (Some(name), _) => name.into(),
                (None, IpAddr::V6(host)) if port > 0 => format!("[{host}]"),
                (None, host) => host.to_string(),
            };
            match (service, port) {
                (Some(service), _) => format!("{host}:{service}"),
                (None, 0) => host,
                (None, port) => format!("{host}:{port}"),
            }
        });
        let [one, two] = ends;
        is_named.then(|| format!("{:4} {one} - {two}", flow.protocol.to_string()))
    }
}
