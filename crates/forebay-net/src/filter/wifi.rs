//! Parses the tests of an 802.11 header's frame control: `type mgt subtype beacon`, `dir tods`.

use super::{
    ast::Wifi,
    error::Wrong,
    parse::{Parser, Result},
    token::TokenKind,
};

const TYPE_BITS: u32 = 0x0C;
const SUBTYPE_BITS: u32 = 0xF0;
const MANAGEMENT: u32 = 0x00;
const CONTROL: u32 = 0x04;
const DATA: u32 = 0x08;

const TYPES: &[(&str, u32)] = &[
    ("mgt", MANAGEMENT),
    ("management", MANAGEMENT),
    ("ctl", CONTROL),
    ("control", CONTROL),
    ("data", DATA),
];

/// Each with its type.
const SUBTYPES: &[(&str, u32)] = &[
    ("assocreq", 0x00),
    ("assoc-req", 0x00),
    ("assocresp", 0x10),
    ("assoc-resp", 0x10),
    ("reassocreq", 0x20),
    ("reassoc-req", 0x20),
    ("reassocresp", 0x30),
    ("reassoc-resp", 0x30),
    ("probereq", 0x40),
    ("probe-req", 0x40),
    ("proberesp", 0x50),
    ("probe-resp", 0x50),
    ("beacon", 0x80),
    ("atim", 0x90),
    ("disassoc", 0xA0),
    ("disassociation", 0xA0),
    ("auth", 0xB0),
    ("authentication", 0xB0),
    ("deauth", 0xC0),
    ("deauthentication", 0xC0),
    ("ps-poll", CONTROL | 0xA0),
    ("rts", CONTROL | 0xB0),
    ("cts", CONTROL | 0xC0),
    ("ack", CONTROL | 0xD0),
    ("cf-end", CONTROL | 0xE0),
    ("cf-end-ack", CONTROL | 0xF0),
    ("data", DATA),
    ("data-cf-ack", DATA | 0x10),
    ("data-cf-poll", DATA | 0x20),
    ("data-cf-ack-poll", DATA | 0x30),
    ("null", DATA | 0x40),
    ("cf-ack", DATA | 0x50),
    ("cf-poll", DATA | 0x60),
    ("cf-ack-poll", DATA | 0x70),
    ("qos-data", DATA | 0x80),
    ("qos-data-cf-ack", DATA | 0x90),
    ("qos-data-cf-poll", DATA | 0xA0),
    ("qos-data-cf-ack-poll", DATA | 0xB0),
    ("qos", DATA | 0xC0),
    ("qos-cf-poll", DATA | 0xE0),
    ("qos-cf-ack-poll", DATA | 0xF0),
];

const DIRECTIONS: &[(&str, u32)] = &[("nods", 0), ("tods", 1), ("fromds", 2), ("dstods", 3)];

impl Parser<'_> {
    /// After `type`.
    pub fn wifi_type(&mut self) -> Result<Wifi> {
        let kind = self.named("a type", TYPES, Some(TYPE_BITS))?;
        if !self.take(TokenKind::Keyword("subtype")) {
            return Ok(Wifi::Control(0, kind, TYPE_BITS));
        }
        let of_kind = SUBTYPES.iter().filter(|(_, it)| it & TYPE_BITS == kind);
        let of_kind: Vec<_> = of_kind.copied().collect();
        let subtype = self.named("a subtype of this type", &of_kind, Some(SUBTYPE_BITS))?;
        Ok(Wifi::Control(0, kind | subtype, TYPE_BITS | SUBTYPE_BITS))
    }

    /// After `subtype` without a type.
    pub fn wifi_subtype(&mut self) -> Result<Wifi> {
        let both = self.named("a subtype", SUBTYPES, None)?;
        Ok(Wifi::Control(0, both, TYPE_BITS | SUBTYPE_BITS))
    }

    /// After `dir`.
    pub fn wifi_direction(&mut self) -> Result<Wifi> {
        let value = self.named("a direction", DIRECTIONS, Some(u32::MAX))?;
        Ok(Wifi::Control(1, value, 0x03))
    }

    /// A name of a table; or a number of these bits, if numbers are allowed.
    fn named(&mut self, what: &str, table: &[(&str, u32)], bits: Option<u32>) -> Result<u32> {
        let found = match (self.peek(), bits) {
            (TokenKind::Number(number), Some(bits)) => Some(number).filter(|it| it & !bits == 0),
            (TokenKind::Name | TokenKind::Escaped, _) => {
                let word = self.word().trim_start_matches('\\').to_ascii_lowercase();
                let found = table.iter().find(|(name, _)| *name == word);
                found.map(|(_, value)| *value)
            }
            _ => return Err(self.unexpected(what)),
        };
        let Some(value) = found else {
            let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            let what = format!("'{}' is not {what}; write one of {names}", self.word());
            return Err(Wrong::new(self.span(), what));
        };
        self.advance();
        Ok(value)
    }
}
