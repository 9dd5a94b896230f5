//! The qualifiers before a name, number or address: protocol, direction and kind, and which of them fit together.

use super::ast::{Direction, Primitive, Protocol, Station, Transport, Wifi};

/// The qualifiers before an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Qualifiers {
    pub protocol: Protocol,
    pub direction: Direction,
    /// `addr1` to `ta`, instead of a direction.
    pub station: Option<Station>,
    pub kind: IdKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdKind {
    /// Only a direction was given, which means a host.
    Unsaid,
    Host,
    Net,
    Port,
    PortRange,
    /// `proto`
    Next,
    /// `protochain`
    Chain,
}

impl IdKind {
    pub fn word(self) -> &'static str {
        match self {
            IdKind::Unsaid | IdKind::Host => "host",
            IdKind::Net => "net",
            IdKind::Port => "port",
            IdKind::PortRange => "portrange",
            IdKind::Next => "proto",
            IdKind::Chain => "protochain",
        }
    }
}

impl Qualifiers {
    /// Checks that the qualifiers fit together, whatever the id.
    pub fn check(&self) -> std::result::Result<(), String> {
        use Protocol::*;
        let (protocol, kind) = (self.protocol, self.kind.word());
        let fits = match self.kind {
            IdKind::Unsaid | IdKind::Host | IdKind::Net => {
                matches!(protocol, Any | Link | Ip | Ip6 | Arp | Rarp | Decnet)
                    && !(protocol == Link && self.kind == IdKind::Net)
            }
            IdKind::Port | IdKind::PortRange => matches!(protocol, Any | Tcp | Udp | Sctp),
            IdKind::Next => matches!(protocol, Any | Link | Ip | Ip6 | Iso | Isis),
            IdKind::Chain => matches!(protocol, Any | Ip | Ip6),
        };
        let is_host = matches!(self.kind, IdKind::Unsaid | IdKind::Host);
        if self.station.is_some() && !(protocol == Link && is_host) {
            return Err("this is an address of 802.11; write wlan before it".to_owned());
        }
        if fits {
            return Ok(());
        }
        let before = match self.kind {
            IdKind::Unsaid | IdKind::Host => "ether, ip, ip6, arp, rarp or decnet",
            IdKind::Net => "ip, ip6, arp or rarp",
            IdKind::Port | IdKind::PortRange => "tcp, udp or sctp",
            IdKind::Next => "ether, ip, ip6, iso or isis",
            IdKind::Chain => "ip or ip6",
        };
        let name = protocol.keyword();
        let instead = match (self.kind, protocol) {
            (IdKind::Unsaid | IdKind::Host | IdKind::Net, Tcp | Udp | Sctp | Icmp | Icmp6) => {
                format!("; write {name} and {kind} …")
            }
            _ => format!("; write {before} before it, or nothing"),
        };
        Err(format!("'{name}' has no '{kind}'{instead}"))
    }

    /// The test of an Ethernet address, or of one of the addresses of 802.11.
    pub fn ether(&self, address: [u8; 6]) -> Primitive {
        match self.station {
            Some(station) => Primitive::Wifi(Wifi::Address(station, address)),
            None => Primitive::Ether(self.direction, address),
        }
    }

    pub fn transport(&self) -> Option<Transport> {
        match self.protocol {
            Protocol::Tcp => Some(Transport::Tcp),
            Protocol::Udp => Some(Transport::Udp),
            Protocol::Sctp => Some(Transport::Sctp),
            _ => None,
        }
    }
}
