//! Parses names, numbers and addresses according to their qualifiers: `port http`, `net 10`, `host fe80::1`.

use super::{
    ast::{Direction, Expr, Ports, Primitive, Protocol, Transport},
    error::Wrong,
    parse::{Parser, Result},
    qualifiers::{IdKind, Qualifiers},
    token::{self, TokenKind as Token},
    words,
};
use std::net::Ipv6Addr;

impl Parser<'_> {
    /// Parses one id, or several in parentheses.
    pub fn id(&mut self, qualifiers: Qualifiers) -> Result<Expr> {
        let start = self.span().start;
        if self.take(Token::Symbol("!")) || self.take(Token::Keyword("not")) {
            let inner = self.deeper(|p| p.id(qualifiers))?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        if self.take(Token::Symbol("(")) {
            let first = self.deeper(|p| p.id(qualifiers))?;
            let mut rest = Vec::new();
            while let Some(joint) = self.joint() {
                rest.push((joint, self.deeper(|p| p.id(qualifiers))?));
            }
            if self.peek() == Token::End {
                return Err(Wrong::new(start..start + 1, "this '(' is never closed"));
            }
            self.expect(")")?;
            return Ok(Expr::chain(first, rest));
        }
        let token = self.peek();
        let span = self.span();
        let word = self.text[span.clone()].to_owned();
        let word = word.strip_prefix('\\').unwrap_or(&word);
        let found = match token {
            Token::Number(number) => number_id(qualifiers, number),
            Token::Name | Token::Escaped => self.name_id(qualifiers, word),
            Token::Dotted => return self.dotted_id(qualifiers, word),
            Token::Ipv6(address) => return self.ipv6_id(qualifiers, address),
            Token::Ether(address) => ether_id(qualifiers, address),
            _ => return Err(self.unexpected("a name or an address")),
        };
        let primitive = found.map_err(|what| Wrong::new(span.clone(), what))?;
        self.advance();
        Ok(Expr::Primitive(primitive, span))
    }

    fn dotted_id(&mut self, qualifiers: Qualifiers, word: &str) -> Result<Expr> {
        let start = self.span().start;
        let wrong = |span, what: String| Wrong::new(span, what);
        if qualifiers.protocol == Protocol::Decnet {
            let span = self.span();
            let mut parts = word.split('.').map(str::parse::<u16>);
            let (Some(Ok(area)), Some(Ok(node)), None) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(wrong(
                    span,
                    format!("'{word}' is not a DECnet address, AREA.NODE"),
                ));
            };
            self.advance();
            let address = (area << 10) | (node & 0x3FF);
            let primitive = Primitive::Decnet(qualifiers.direction, address);
            return Ok(Expr::Primitive(primitive, span));
        }
        let (address, bits) = token::dotted(word).map_err(|what| wrong(self.span(), what))?;
        self.advance();
        let mut mask = u32::MAX << (32 - bits);
        let mut said = false;
        if let Some(len) = self.network_len(32)? {
            mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            said = true;
        } else if self.take(Token::Keyword("mask")) {
            if self.peek() != Token::Dotted {
                return Err(self.unexpected("a mask such as 255.255.0.0"));
            }
            let (value, _) = token::dotted(self.word()).map_err(|what| wrong(self.span(), what))?;
            mask = value;
            said = true;
            self.advance();
        }
        let span = self.since(start);
        let shown = &self.text[span.clone()];
        if said && qualifiers.kind != IdKind::Net {
            return Err(wrong(
                span,
                format!("'{shown}' is a network; write net {shown}"),
            ));
        }
        if address & !mask != 0 {
            let network = std::net::Ipv4Addr::from(address & mask);
            let what =
                format!("'{shown}' has bits set outside the network; its address is {network}");
            return Err(wrong(span, what));
        }
        let primitive =
            ipv4(qualifiers, shown, address, mask).map_err(|what| wrong(span.clone(), what))?;
        Ok(Expr::Primitive(primitive, span))
    }

    /// The length of a network, if one follows.
    fn network_len(&mut self, most: u32) -> Result<Option<u32>> {
        if !self.take(Token::Symbol("/")) {
            return Ok(None);
        }
        let Token::Number(len) = self.peek() else {
            let expected = format!("the length of the network, 0 to {most}");
            return Err(self.unexpected(&expected));
        };
        if len > most {
            let what = format!("a network is 0 to {most} bits long, not {len}");
            return Err(Wrong::new(self.span(), what));
        }
        self.advance();
        Ok(Some(len))
    }

    fn ipv6_id(&mut self, qualifiers: Qualifiers, address: Ipv6Addr) -> Result<Expr> {
        let start = self.span().start;
        self.advance();
        let len = self.network_len(128)?.unwrap_or(128);
        let span = self.since(start);
        let shown = &self.text[span.clone()];
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        let network = Ipv6Addr::from_bits(address.to_bits() & mask);
        let wrong = match (qualifiers.kind, qualifiers.protocol) {
            _ if network != address => Some(format!(
                "'{shown}' has bits set outside the network; its address is {network}"
            )),
            (IdKind::Unsaid | IdKind::Host, _) if len != 128 => {
                Some(format!("'{shown}' is a network; write net {shown}"))
            }
            (IdKind::Unsaid | IdKind::Host | IdKind::Net, Protocol::Any | Protocol::Ip6) => None,
            (IdKind::Unsaid | IdKind::Host | IdKind::Net, protocol) => Some(format!(
                "'{}' has no IPv6 addresses; write ip6",
                protocol.keyword()
            )),
            (kind, _) => Some(format!("'{shown}' is an address, not a {}", kind.word())),
        };
        if let Some(what) = wrong {
            return Err(Wrong::new(span, what));
        }
        let mask = Ipv6Addr::from_bits(mask);
        let primitive = Primitive::Ipv6(qualifiers.direction, address, mask);
        Ok(Expr::Primitive(primitive, span))
    }

    fn name_id(
        &self,
        qualifiers: Qualifiers,
        name: &str,
    ) -> std::result::Result<Primitive, String> {
        let Qualifiers {
            protocol,
            direction,
            kind,
            ..
        } = qualifiers;
        match kind {
            IdKind::Net => {
                let network = self.names.network(name).filter(|network| *network != 0);
                let network = network.ok_or_else(|| {
                    format!("'{name}' is not in /etc/networks; write its address")
                })?;
                let (network, mask) = shift_up(network);
                ipv4(qualifiers, name, network, mask)
            }
            IdKind::Unsaid | IdKind::Host => match protocol {
                Protocol::Link => {
                    let known = self.names.ether(name);
                    known
                        .map(|address| qualifiers.ether(address))
                        .ok_or_else(|| format!("'{name}' is not in /etc/ethers; write its address"))
                }
                Protocol::Decnet => Err(format!(
                    "'{name}': names of DECnet hosts are not supported; write the address, AREA.NODE"
                )),
                _ => {
                    let mut addresses = self.names.host(name)?;
                    let known = !addresses.is_empty();
                    addresses.retain(|address| match protocol {
                        Protocol::Ip | Protocol::Arp | Protocol::Rarp => address.is_ipv4(),
                        Protocol::Ip6 => address.is_ipv6(),
                        _ => true,
                    });
                    match addresses.is_empty() {
                        false => Ok(Primitive::Host(protocol, direction, addresses)),
                        true if known => Err(format!(
                            "'{name}' has no address for '{}'",
                            protocol.keyword()
                        )),
                        true => {
                            let near = words::nearest(name);
                            let near = near.map(|near| format!(" (did you mean '{near}'?)"));
                            let near = near.unwrap_or_default();
                            Err(format!(
                                "'{name}' is an unknown host{near}; write its address"
                            ))
                        }
                    }
                }
            },
            IdKind::Port => {
                let (port, transport) = self.port(qualifiers, name)?;
                Ok(ports(transport, direction, port, port))
            }
            IdKind::PortRange => {
                // A name may itself contain a '-', so every '-' is tried.
                let dashes = name.match_indices('-');
                let mut splits = dashes.map(|(at, _)| (&name[..at], &name[at + 1..]));
                let known = |port: &str| self.names.port(port).is_some();
                let found = splits.find(|(first, last)| known(first) && known(last));
                let (first, last) = found.ok_or_else(|| {
                    format!("'{name}' is not a range of ports such as 1024-65535 or http-https")
                })?;
                let first = self.port(qualifiers, first)?;
                let last = self.port(qualifiers, last)?;
                let transport = if first.1 == last.1 { first.1 } else { None };
                Ok(ports(transport, direction, first.0, last.0))
            }
            IdKind::Next | IdKind::Chain => {
                let number = match protocol {
                    Protocol::Link => self.names.ether_protocol(name),
                    Protocol::Iso => match name {
                        "esis" => Some(0x82),
                        "isis" => Some(0x83),
                        "clnp" => Some(0x81),
                        _ => None,
                    },
                    Protocol::Isis => None,
                    _ => self.names.ip_protocol(name),
                };
                let number = number
                    .ok_or_else(|| format!("'{name}' is an unknown protocol; write its number"))?;
                number_id(qualifiers, number)
            }
        }
    }

    /// The port of a name or number, and the transport protocols to test.
    fn port(
        &self,
        qualifiers: Qualifiers,
        name: &str,
    ) -> std::result::Result<(u16, Option<Transport>), String> {
        let (port, only) = self
            .names
            .port(name)
            .ok_or_else(|| format!("'{name}' is an unknown service; write its port number"))?;
        let asked = qualifiers.transport();
        let transport = match (asked, only) {
            (Some(asked), Some(only)) if asked != only => {
                let only = if only == Transport::Tcp { "tcp" } else { "udp" };
                return Err(format!(
                    "'{name}' is a service over {only}; write {only} port {name}"
                ));
            }
            _ => asked.or(only),
        };
        Ok((port_number(port)?, transport))
    }
}

/// The ports between two, in either order.
fn ports(transport: Option<Transport>, direction: Direction, one: u16, other: u16) -> Primitive {
    Primitive::Ports(Ports {
        transport,
        direction,
        first: one.min(other),
        last: one.max(other),
    })
}

fn port_number(port: u32) -> std::result::Result<u16, String> {
    u16::try_from(port).map_err(|_| format!("a port is at most 65535, not {port}"))
}

fn number_id(qualifiers: Qualifiers, number: u32) -> std::result::Result<Primitive, String> {
    let Qualifiers {
        protocol,
        direction,
        kind,
        ..
    } = qualifiers;
    match kind {
        IdKind::Unsaid | IdKind::Host | IdKind::Net if protocol == Protocol::Decnet => {
            Ok(Primitive::Decnet(direction, number as u16))
        }
        IdKind::Net => {
            let (network, mask) = shift_up(number);
            ipv4(qualifiers, &number.to_string(), network, mask)
        }
        IdKind::Unsaid | IdKind::Host => ipv4(qualifiers, &number.to_string(), number, u32::MAX),
        IdKind::Port | IdKind::PortRange => {
            let port = port_number(number)?;
            Ok(ports(qualifiers.transport(), direction, port, port))
        }
        IdKind::Next => Ok(Primitive::Next(protocol, number)),
        IdKind::Chain => Ok(Primitive::Chain(protocol, number)),
    }
}

/// `net 10` is 10.0.0.0/8: the bytes of a short number are the first ones of an address.
fn shift_up(mut network: u32) -> (u32, u32) {
    let mut mask = u32::MAX;
    while network != 0 && network >> 24 == 0 {
        (network, mask) = (network << 8, mask << 8);
    }
    (network, mask)
}

fn ether_id(qualifiers: Qualifiers, address: [u8; 6]) -> std::result::Result<Primitive, String> {
    match (qualifiers.protocol, qualifiers.kind) {
        (Protocol::Link, IdKind::Unsaid | IdKind::Host) => Ok(qualifiers.ether(address)),
        _ => Err(
            "this is an Ethernet address; write ether host, ether src or ether dst before it"
                .to_owned(),
        ),
    }
}

fn ipv4(
    qualifiers: Qualifiers,
    shown: &str,
    address: u32,
    mask: u32,
) -> std::result::Result<Primitive, String> {
    match (qualifiers.kind, qualifiers.protocol) {
        (IdKind::Unsaid | IdKind::Host | IdKind::Net, Protocol::Ip6) => Err(format!(
            "'{shown}' is not an IPv6 address; write ip instead of ip6"
        )),
        (IdKind::Unsaid | IdKind::Host | IdKind::Net, Protocol::Link) => Err(format!(
            "'{shown}' is not an Ethernet address; write ip instead of ether"
        )),
        (IdKind::Unsaid | IdKind::Host | IdKind::Net, protocol) => Ok(Primitive::Ipv4(
            protocol,
            qualifiers.direction,
            address,
            mask,
        )),
        (kind, _) => Err(format!("'{shown}' is an address, not a {}", kind.word())),
    }
}
