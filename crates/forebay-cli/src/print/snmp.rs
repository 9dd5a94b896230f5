//! SNMP: versions 1, 2c and 3, in the fields of BER.

use super::{
    data::{Cut, Data, Printed},
    printer::Printer,
    text::Text,
};

const INTEGER: u8 = 0x02;
const STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const IP_ADDRESS: u8 = 0x40;
const TIME_TICKS: u8 = 0x43;
const COUNTER64: u8 = 0x46;
const TRAP: u8 = 0xa4;
const GET_BULK: u8 = 0xa5;

const PDUS: [&str; 9] = [
    "GetRequest",
    "GetNextRequest",
    "GetResponse",
    "SetRequest",
    "Trap",
    "GetBulk",
    "Inform",
    "V2Trap",
    "Report",
];
const ERRORS: [&str; 19] = [
    "noError",
    "tooBig",
    "noSuchName",
    "badValue",
    "readOnly",
    "genErr",
    "noAccess",
    "wrongType",
    "wrongLength",
    "wrongEncoding",
    "wrongValue",
    "noCreation",
    "inconsistentValue",
    "resourceUnavailable",
    "commitFailed",
    "undoFailed",
    "authorizationError",
    "notWritable",
    "inconsistentName",
];
const TRAPS: [&str; 7] = [
    "coldStart",
    "warmStart",
    "linkDown",
    "linkUp",
    "authenticationFailure",
    "egpNeighborLoss",
    "enterpriseSpecific",
];

/// Items of BER that follow each other. An item that is malformed counts as cut.
#[derive(Clone, Copy)]
struct Items<'a>(&'a [u8]);

impl<'a> Items<'a> {
    /// The tag and the value of the next item.
    fn next(&mut self) -> Result<(u8, &'a [u8]), Cut> {
        let data = Data::from(self.0);
        let (tag, len) = (data.u8(0)?, usize::from(data.u8(1)?));
        let has_long_tag = tag & 0x1f == 0x1f;
        let (at, len) = match len {
            _ if has_long_tag => return Err(Cut),
            0..=0x80 => (2, len & 0x7f),
            0x81..=0x84 => {
                let bytes = data.slice(2, len - 0x80)?;
                (2 + bytes.len(), unsigned(bytes) as usize)
            }
            _ => return Err(Cut),
        };
        let value = data.slice(at, len)?;
        self.0 = data.after(at + len).captured;
        Ok((tag, value))
    }

    fn expect(&mut self, expected: u8) -> Result<&'a [u8], Cut> {
        match self.next()? {
            (tag, value) if tag == expected => Ok(value),
            _ => Err(Cut),
        }
    }

    fn sequence(&mut self) -> Result<Items<'a>, Cut> {
        self.expect(SEQUENCE).map(Items)
    }

    fn integer(&mut self) -> Result<i32, Cut> {
        self.expect(INTEGER).map(signed)
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    let grow = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    bytes.iter().fold(0, grow)
}

/// The lowest 32 bits.
fn signed(bytes: &[u8]) -> i32 {
    let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let grow = |number: i32, &byte: &u8| number << 8 | i32::from(byte);
    bytes.iter().fold(-i32::from(is_negative), grow)
}

impl Printer {
    pub(super) fn snmp(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "snmp";
        let is_verbose = self.style.verbose > 0;
        let verbose = |text: &'static str| if is_verbose { text } else { "" };
        out.byte(b' ');
        let mut outer = Items(data.captured);
        let mut message = outer.sequence()?;
        extra(&outer, "iSEQ", out);
        match message.integer()? {
            version @ (0 | 1) => {
                out.put(verbose(["{ SNMPv1 ", "{ SNMPv2c "][version as usize]));
                let community = message.expect(STRING)?;
                if community != b"public" {
                    string(community, out.put("C="));
                    out.byte(b' ');
                }
                pdu(&mut message, version, is_verbose, out)?;
            }
            3 => {
                out.put(verbose("{ SNMPv3 { "));
                let mut head = message.sequence()?;
                let (_id, _max_size) = (head.integer()?, head.integer()?);
                let &[flags] = head.expect(STRING)? else {
                    return Err(Cut);
                };
                out.put("F=");
                for (bit, letter) in [(1, "a"), (2, "p"), (4, "r")] {
                    out.put(if flags & bit != 0 { letter } else { "" });
                }
                let model = head.integer()?;
                out.byte(b' ').put(verbose("} "));
                if model != 3 {
                    out.put("[security model ").num(model).byte(b']');
                    return out.put(verbose("} ")).done();
                }
                out.put(verbose("{ USM "));
                let mut user = Items(message.expect(STRING)?).sequence()?;
                let _engine = user.expect(STRING)?;
                for label in ["B=", "T="] {
                    let number = user.integer()?;
                    if is_verbose {
                        out.put(label).num(number).byte(b' ');
                    }
                }
                string(user.expect(STRING)?, out.put("U="));
                out.byte(b' ').put(verbose("} { ScopedPDU "));
                match message.next()? {
                    (SEQUENCE, scoped) => {
                        let mut scoped = Items(scoped);
                        octets(scoped.expect(STRING)?, out.put("E="));
                        string(scoped.expect(STRING)?, out.put(" C="));
                        pdu(&mut scoped, 3, is_verbose, out.put(" "))?;
                    }
                    // It is encrypted.
                    (tag, bytes) => {
                        out.put("[!scoped PDU]");
                        value(tag, bytes, out);
                    }
                }
                out.put(verbose("} "));
            }
            version => return out.put("SNMP [version = ").num(version).byte(b']').done(),
        }
        out.put(verbose("} ")).done()
    }
}

/// Bytes where none are expected.
fn extra(rest: &Items<'_>, after: &str, out: &mut Text) {
    if !rest.0.is_empty() {
        out.byte(b'[').num(rest.0.len());
        out.put(" extra after ").put(after).byte(b']');
    }
}

fn pdu(items: &mut Items<'_>, version: i32, is_verbose: bool, out: &mut Text) -> Printed {
    let (tag, body) = items.next()?;
    let Some(name) = PDUS.get(usize::from(tag.wrapping_sub(0xa0))) else {
        return out.put("[no PDU]").done();
    };
    extra(items, "PDU", out);
    out.put(if is_verbose { "{ " } else { "" }).put(name);
    out.byte(b'(').num(body.len()).put(") ");
    match (version, tag) {
        (0, GET_BULK..) => return out.put("[v2 PDU in v1 message]").done(),
        (1, TRAP) => return out.put("[v1 PDU in v2 message]").done(),
        _ => {}
    }
    let mut body = Items(body);
    match tag {
        TRAP => trap(&mut body, out)?,
        _ => request(&mut body, tag, is_verbose, out)?,
    }
    variables(&mut body, tag, out)?;
    out.put(if is_verbose { " } " } else { "" }).done()
}

/// The numbers at the beginning of everything but a trap of version 1.
fn request(body: &mut Items<'_>, tag: u8, is_verbose: bool, out: &mut Text) -> Printed {
    let id = body.integer()?;
    if is_verbose {
        out.put("R=").num(id).byte(b' ');
    }
    let (error, index) = (body.integer()?, body.integer()?);
    match tag {
        GET_BULK => {
            out.put(" N=").num(error).put(" M=").num(index);
        }
        0xa2 => {
            if error != 0 {
                out.byte(b' ');
                named(&ERRORS, error, "err=", out);
            }
            match (error, index) {
                (0, 0) => {}
                (0, _) => drop(out.put("[errorIndex(").num(index).put(") w/o errorStatus]")),
                (_, 0) => drop(out.put("[errorIndex==0]")),
                _ => drop(out.byte(b'@').num(index)),
            }
        }
        _ => {
            if error != 0 {
                named(&ERRORS, error, "err=", out.put("[errorStatus("));
                out.put(")!=0]");
            }
            if index != 0 {
                out.put("[errorIndex(").num(index).put(")!=0]");
            }
        }
    }
    Ok(())
}

fn trap(body: &mut Items<'_>, out: &mut Text) -> Printed {
    out.byte(b' ');
    value(OBJECT, body.expect(OBJECT)?, out);
    out.byte(b' ');
    value(IP_ADDRESS, body.expect(IP_ADDRESS)?, out);
    let (generic, specific) = (body.integer()?, body.integer()?);
    named(&TRAPS, generic, "gt=", out.byte(b' '));
    match (generic, specific) {
        (6, _) => drop(out.put(" s=").num(specific)),
        (_, 0) => {}
        _ => drop(out.put("[specific-trap(").num(specific).put(")!=0]")),
    }
    out.byte(b' ');
    value(TIME_TICKS, body.expect(TIME_TICKS)?, out);
    Ok(())
}

fn variables(body: &mut Items<'_>, pdu: u8, out: &mut Text) -> Printed {
    let asks = matches!(pdu, 0xa0 | 0xa1 | GET_BULK);
    let mut list = body.sequence()?;
    extra(body, "SEQ of varbind", out);
    while !list.0.is_empty() {
        out.byte(b' ');
        let mut variable = list.sequence()?;
        value(OBJECT, variable.expect(OBJECT)?, out);
        let (tag, bytes) = variable.next()?;
        match (asks, tag) {
            (true, NULL) => {}
            (true, _) => value(tag, bytes, out.put("[objVal!=NULL]")),
            (false, _) => value(tag, bytes, out.byte(b'=')),
        }
    }
    Ok(())
}

fn named(names: &[&str], number: i32, unknown: &str, out: &mut Text) {
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    out.name_or(name.unwrap_or(&""), unknown, number);
}

fn value(tag: u8, bytes: &[u8], out: &mut Text) {
    match tag {
        INTEGER => drop(out.num(signed(bytes))),
        STRING => string(bytes, out),
        NULL => {}
        OBJECT => {
            let mut number = 0_u32;
            let mut is_first = true;
            for byte in bytes {
                number = number << 7 | u32::from(byte & 0x7f);
                if byte & 0x80 != 0 {
                    continue;
                }
                // The first two numbers share one.
                if std::mem::take(&mut is_first) {
                    let first = (number / 40).min(2);
                    out.byte(b'.').num(first);
                    number -= first * 40;
                }
                out.byte(b'.').num(number);
                number = 0;
            }
        }
        IP_ADDRESS => {
            for (at, byte) in bytes.iter().enumerate() {
                out.put(if at == 0 { "" } else { "." }).num(*byte);
            }
        }
        0x41..=TIME_TICKS => drop(out.num(unsigned(bytes) as u32)),
        COUNTER64 => drop(out.num(unsigned(bytes))),
        0x80 => drop(out.put("[noSuchObject]")),
        0x81 => drop(out.put("[noSuchInstance]")),
        0x82 => drop(out.put("[endOfMibView]")),
        _ => octets(bytes, out),
    }
}

/// Text in quotes, or bytes if it is not printable.
fn string(bytes: &[u8], out: &mut Text) {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        out.byte(b'"').foreign(bytes).byte(b'"');
        return;
    }
    for (at, &byte) in bytes.iter().enumerate() {
        out.put(if at == 0 { "" } else { "_" });
        out.hex_padded(byte.into(), 2);
    }
}

fn octets(bytes: &[u8], out: &mut Text) {
    for &byte in bytes {
        out.byte(b'_').hex_padded(byte.into(), 2);
    }
}
