//! Parses primitives of one or a few words: `tcp`, `ip host …`, `vlan 5`, `less 64`.

use super::{
    ast::{ByteRelation, Direction, Expr, Llc, Primitive, Protocol, Station},
    error::Wrong,
    parse::{Operand, Parser, Result},
    qualifiers::{IdKind, Qualifiers},
    token::TokenKind,
};

impl Parser<'_> {
    pub fn primitive(&mut self) -> Result<Operand> {
        let start = self.span().start;
        let TokenKind::Keyword(keyword) = self.peek() else {
            return Err(self.unexpected("a term"));
        };
        if let Some(refused) = refused(keyword) {
            return Err(Wrong::new(
                self.span(),
                format!("'{}' {refused}", self.word()),
            ));
        }
        let protocol = Protocol::of_keyword(keyword);
        if protocol.is_some() {
            self.advance();
        }
        if let Some(qualifiers) = self.qualifiers(protocol.unwrap_or(Protocol::Any), start)? {
            return Ok(Operand::Test(self.id(qualifiers)?, Some(qualifiers)));
        }
        let primitive = match (self.peek(), protocol) {
            (TokenKind::Keyword("broadcast"), _) => {
                self.advance();
                Primitive::Broadcast(protocol.unwrap_or(Protocol::Any))
            }
            (TokenKind::Keyword("multicast"), _) => {
                self.advance();
                Primitive::Multicast(protocol.unwrap_or(Protocol::Any))
            }
            (TokenKind::Keyword("type" | "subtype" | "dir"), Some(_)) => return self.primitive(),
            (_, Some(Protocol::Link | Protocol::Radio)) => {
                let span = self.since(start);
                let what = format!(
                    "'{0}' alone is not a test; write {0} host …, {0} proto … or {0}[0] = …",
                    &self.text[span.clone()]
                );
                return Err(Wrong::new(span, what));
            }
            (_, Some(protocol)) => Primitive::Protocol(protocol),
            (_, None) => self.other(keyword, start)?,
        };
        let primitive = Expr::Primitive(primitive, self.since(start));
        Ok(Operand::Test(primitive, None))
    }

    /// Parses the qualifiers between a protocol and an id; `None` if no id follows.
    fn qualifiers(&mut self, protocol: Protocol, start: usize) -> Result<Option<Qualifiers>> {
        let mut direction = None;
        if let TokenKind::Keyword(first @ ("src" | "dst")) = self.peek() {
            self.advance();
            let other = if first == "src" { "dst" } else { "src" };
            let joint = match self.peek() {
                TokenKind::Keyword("and") => Some(Direction::Both),
                TokenKind::Keyword("or") => Some(Direction::Either),
                _ => None,
            };
            direction = match joint {
                Some(both) => {
                    self.advance();
                    if !self.take(TokenKind::Keyword(other)) {
                        return Err(self.unexpected(&format!("'{other}'")));
                    }
                    Some(both)
                }
                None if first == "src" => Some(Direction::Source),
                None => Some(Direction::Destination),
            };
        }
        let mut station = None;
        if let (TokenKind::Keyword(word), None) = (self.peek(), direction) {
            station = Station::of_keyword(word);
            if station.is_some() {
                self.advance();
            }
        }
        let kind = match self.peek() {
            TokenKind::Keyword("host") => IdKind::Host,
            TokenKind::Keyword("net") => IdKind::Net,
            TokenKind::Keyword("port") => IdKind::Port,
            TokenKind::Keyword("portrange") => IdKind::PortRange,
            TokenKind::Keyword(word @ ("proto" | "protochain" | "gateway")) => {
                if let Some(refused) = refused(word) {
                    return Err(Wrong::new(self.span(), format!("'{word}' {refused}")));
                }
                if direction.is_some() {
                    let what = format!("'{word}' has no direction; leave out 'src' and 'dst'");
                    return Err(Wrong::new(self.span(), what));
                }
                match word {
                    "protochain" => IdKind::Chain,
                    _ => IdKind::Next,
                }
            }
            _ if direction.is_some() || station.is_some() => IdKind::Unsaid,
            _ => return Ok(None),
        };
        if kind != IdKind::Unsaid {
            self.advance();
        }
        let qualifiers = Qualifiers {
            protocol,
            direction: direction.unwrap_or(Direction::Either),
            station,
            kind,
        };
        qualifiers
            .check()
            .map_err(|what| Wrong::new(self.since(start), what))?;
        Ok(Some(qualifiers))
    }

    /// Parses a keyword that is neither a protocol nor a qualifier.
    fn other(&mut self, keyword: &str, start: usize) -> Result<Primitive> {
        self.advance();
        Ok(match keyword {
            "less" => Primitive::AtMost(self.number()?),
            "greater" => Primitive::AtLeast(self.number()?),
            "byte" => {
                let index = self.number()?;
                let relation = match self.peek() {
                    TokenKind::Symbol("=") => ByteRelation::Equal,
                    TokenKind::Symbol("<") => ByteRelation::Less,
                    TokenKind::Symbol(">") => ByteRelation::Greater,
                    TokenKind::Symbol("&") => ByteRelation::And,
                    TokenKind::Symbol("|") => ByteRelation::Or,
                    _ => return Err(self.unexpected("=, <, >, & or |")),
                };
                self.advance();
                Primitive::Byte(index, relation, self.number()?)
            }
            "inbound" => Primitive::Outbound(false),
            "outbound" => Primitive::Outbound(true),
            "ifindex" => Primitive::Interface(self.number()?),
            "vlan" => Primitive::Vlan(self.number_up_to("a VLAN", 0xFFF)?),
            "mpls" => Primitive::Mpls(self.number_up_to("an MPLS label", 0xF_FFFF)?),
            "pppoed" => Primitive::PppoeDiscovery,
            "pppoes" => Primitive::PppoeSession(self.number_up_to("a PPPoE session", 0xFFFF)?),
            "geneve" => Primitive::Geneve(self.number_up_to("a Geneve network", 0xFF_FFFF)?),
            "vxlan" => Primitive::Vxlan(self.number_up_to("a VXLAN network", 0xFF_FFFF)?),
            "type" => Primitive::Wifi(self.wifi_type()?),
            "subtype" => Primitive::Wifi(self.wifi_subtype()?),
            "dir" => Primitive::Wifi(self.wifi_direction()?),
            "llc" => Primitive::Llc(self.llc()?),
            _ => {
                let what = format!("expected a term, found '{keyword}'");
                return Err(Wrong::new(self.since(start), what));
            }
        })
    }

    fn number(&mut self) -> Result<u32> {
        let TokenKind::Number(number) = self.peek() else {
            return Err(self.unexpected("a number"));
        };
        self.advance();
        Ok(number)
    }

    /// Parses a number if one follows, in parentheses or not.
    fn number_up_to(&mut self, of: &str, most: u32) -> Result<Option<u32>> {
        let start = self.span().start;
        let mut open = 0;
        while self.take(TokenKind::Symbol("(")) {
            open += 1;
        }
        let TokenKind::Number(number) = self.peek() else {
            return match open {
                0 => Ok(None),
                _ => Err(self.unexpected("a number")),
            };
        };
        self.advance();
        for _ in 0..open {
            self.expect(")")?;
        }
        if number > most {
            let what = format!("{of} is at most {most}, not {number}");
            return Err(Wrong::new(self.since(start), what));
        }
        Ok(Some(number))
    }

    fn llc(&mut self) -> Result<Llc> {
        let kinds = [
            ("i", 0x00, 0x01),
            ("s", 0x01, 0x03),
            ("u", 0x03, 0x03),
            ("rr", 0x01, 0x0F),
            ("rnr", 0x05, 0x0F),
            ("rej", 0x09, 0x0F),
            ("ui", 0x03, 0xEF),
            ("ua", 0x63, 0xEF),
            ("disc", 0x43, 0xEF),
            ("dm", 0x0F, 0xEF),
            ("sabme", 0x6F, 0xEF),
            ("test", 0xE3, 0xEF),
            ("xid", 0xAF, 0xEF),
            ("frmr", 0x87, 0xEF),
        ];
        if !matches!(self.peek(), TokenKind::Name | TokenKind::Keyword("rnr")) {
            return Ok(Llc::Any);
        }
        let word = self.word().to_ascii_lowercase();
        let found = kinds.iter().find(|(name, ..)| *name == word);
        let (_, value, mask) = found.ok_or_else(|| {
            let names = kinds.map(|(name, ..)| name).join(", ");
            Wrong::new(
                self.span(),
                format!("'{word}' is not a kind of LLC frame; write one of {names}"),
            )
        })?;
        self.advance();
        Ok(Llc::Control(*value, *mask))
    }
}

/// Why a keyword of the language is not supported.
fn refused(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "gateway" => "is not supported; write ether host ADDRESS and not host ADDRESS",
        "lane" | "metac" | "bcc" | "oam" | "oamf4" | "oamf4ec" | "oamf4sc" | "sc" | "ilmic"
        | "vpi" | "vci" | "connectmsg" | "metaconnect" => "is for ATM, which is not supported",
        "on" | "rset" | "rnr" | "srnr" | "reason" | "action" => {
            "is for logs of OpenBSD's packet filter, which are not supported"
        }
        "fisu" | "lssu" | "msu" | "hfisu" | "hlssu" | "hmsu" | "sio" | "opc" | "dpc" | "sls"
        | "hsio" | "hopc" | "hdpc" | "hsls" => "is for SS7, which is not supported",
        _ => return None,
    })
}
