//! DNS, and its multicast and link-local relatives.

use super::{
    address::Address,
    data::{Cut, Data, Printed},
    facts::Facts,
    printer::Printer,
    text::Text,
};

const HEADER: usize = 12;
/// The largest number of labels in a name, and of pointers between them.
const MAX_LABELS: usize = 128;
/// The longest label and the longest name (RFC 1035, 2.3.4). Without them, a small packet could print megabytes.
const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 255;

/// In a class of multicast DNS: the answer should come by unicast, or older records are obsolete.
const UNICAST: u16 = 0x8000;

const OPERATIONS: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];

const RESULTS: [&str; 16] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " NoChange",
];

impl Printer {
    pub(super) fn dns(&mut self, data: Data<'_>, multicast: bool, out: &mut Text) -> Printed {
        self.protocol = "domain";
        let flags = data.u16(2)?;
        let counts = [data.u16(4)?, data.u16(6)?, data.u16(8)?, data.u16(10)?];
        let [questions, answers, authorities, additional] = counts;
        let operation = OPERATIONS[usize::from(flags >> 11 & 15)];
        let start = out.len();
        out.num(data.u16(0)?);
        self.facts.add("dns.id", &out.bytes()[start..]);
        out.put(operation);
        let facts = &mut self.facts;
        let mut at = HEADER;
        let verbose = self.style.verbose;
        if flags & 0x8000 != 0 {
            let result = RESULTS[usize::from(flags & 15)];
            out.put(result);
            let result = if result.is_empty() { "NoError" } else { result };
            facts.add("dns.result", result.trim_ascii().as_bytes());
            for (bit, is_set, mark) in [
                (0x400, true, "*"),
                (0x80, false, "-"),
                (0x200, true, "|"),
                (0x20, true, "$"),
            ] {
                if (flags & bit != 0) == is_set {
                    out.put(mark);
                }
            }
            if questions != 1 {
                out.put(" [").num(questions).put("q]");
            }
            for number in 0..questions {
                if verbose > 1 {
                    out.put(if number == 0 { " q:" } else { "," });
                    at = question(data, at, multicast, facts, out)?;
                } else {
                    if number == 0 && facts.are_wanted {
                        let start = out.len();
                        let _ = question(data, at, multicast, facts, out);
                        out.truncate(start);
                    }
                    at = skip_name(data, at)? + 4;
                }
            }
            out.byte(b' ').num(answers).byte(b'/').num(authorities);
            out.byte(b'/').num(additional);
        } else {
            out.put(if flags & 0x100 != 0 { "+" } else { "" });
            out.put(if flags & 0x10 != 0 { "%" } else { "" });
            if flags & 0x6cf != 0 {
                out.put(" [b2&3=0x").hex(flags.into()).byte(b']');
            }
            for (count, usual, mark) in [
                (answers, 0, "a]"),
                (questions, 1, "q]"),
                (authorities, 0, "n]"),
                (additional, 0, "au]"),
            ] {
                if count != usual {
                    out.put(" [").num(count).put(mark);
                }
            }
            for number in 0..questions {
                out.put(if number > 0 { "," } else { "" });
                at = question(data, at, multicast, facts, out)?;
            }
        }
        let shown_sections = match (flags & 0x8000 != 0, verbose > 1) {
            (_, true) => 3,
            (true, false) => 1,
            (false, false) => 0,
        };
        let sections = [("", answers), (" ns:", authorities), (" ar:", additional)];
        for (name, count) in sections.into_iter().take(shown_sections) {
            for number in 0..count {
                if at >= data.captured.len() && at < data.len {
                    return Err(Cut);
                }
                out.put(if number == 0 { name } else { "," });
                // Only the answers are facts.
                let facts = name.is_empty().then_some(&mut *facts);
                at = record(data, at, multicast, verbose, facts, out)?;
            }
        }
        out.put(" (").num(data.len).byte(b')').done()
    }
}

fn question(
    data: Data<'_>,
    at: usize,
    multicast: bool,
    facts: &mut Facts,
    out: &mut Text,
) -> Result<usize, Cut> {
    let end = skip_name(data, at)?;
    let (kind, class) = (data.u16(end)?, data.u16(end + 2)?);
    out.byte(b' ');
    let start = out.len();
    record_type(kind, out);
    let kind = start..out.len();
    class_name(class, multicast, out);
    if multicast {
        out.put(if class & UNICAST != 0 {
            " (QU)"
        } else {
            " (QM)"
        });
    }
    let start = out.put("? ").len();
    print_name(data, at, out)?;
    facts.add("dns.query", &out.bytes()[start..]);
    facts.add("dns.type", &out.bytes()[kind]);
    Ok(end + 4)
}

fn record(
    data: Data<'_>,
    at: usize,
    multicast: bool,
    verbose: u8,
    facts: Option<&mut Facts>,
    out: &mut Text,
) -> Result<usize, Cut> {
    let owner = at;
    if verbose > 0 {
        out.byte(b' ');
        print_name(data, at, out)?;
    }
    let at = skip_name(data, at)?;
    let (kind, class) = (data.u16(at)?, data.u16(at + 2)?);
    if kind != 41 {
        class_name(class, multicast, out);
    }
    if multicast && class & UNICAST != 0 {
        out.put(" (Cache flush)");
    }
    if verbose > 2 && kind != 41 {
        out.put(" [");
        seconds(data.u32(at + 4)?, out);
        out.byte(b']');
    }
    let len = usize::from(data.u16(at + 8)?);
    let (at, end) = (at + 10, at + 10 + len);
    out.byte(b' ');
    record_type(kind, out);
    data.slice(at, len)?;
    let start = out.len();
    match kind {
        1 => drop(out.byte(b' ').ipv4(data.array(at)?)),
        28 => drop(out.byte(b' ').ipv6(data.array(at)?)),
        2 | 5 | 12 | 39 => {
            out.byte(b' ');
            print_name(data, at, out)?;
        }
        6 if verbose > 0 => {
            out.byte(b' ');
            print_name(data, at, out)?;
            let next = skip_name(data, at)?;
            out.byte(b' ');
            print_name(data, next, out)?;
            let next = skip_name(data, next)?;
            for field in 0..5 {
                out.byte(b' ').num(data.u32(next + 4 * field)?);
            }
        }
        15 => {
            out.byte(b' ');
            print_name(data, at + 2, out)?;
            out.byte(b' ').num(data.u16(at)?);
        }
        16 => {
            let mut at = at;
            while at < end {
                let len = usize::from(data.u8(at)?);
                out.put(" \"").foreign(data.slice(at + 1, len)?).byte(b'"');
                at += 1 + len;
            }
        }
        33 => {
            out.byte(b' ');
            print_name(data, at + 6, out)?;
            out.byte(b':').num(data.u16(at + 4)?).byte(b' ');
            out.num(data.u16(at)?);
            out.byte(b' ').num(data.u16(at + 2)?);
        }
        41 => {
            out.put(" UDPsize=").num(class);
            if data.u16(at - 4)? & 0x8000 != 0 {
                out.put(" DO");
            }
        }
        256 if len > 4 => {
            out.byte(b' ').num(data.u16(at)?).byte(b' ');
            out.num(data.u16(at + 2)?);
            out.byte(b' ').foreign(data.slice(at + 4, len - 4)?);
        }
        _ => {}
    }
    let Some(facts) = facts.filter(|it| it.are_wanted) else {
        return Ok(end);
    };
    if let [b' ', value @ ..] = &out.bytes()[start..] {
        facts.add("dns.answers", value);
    }
    match kind {
        1 => facts.addresses.push(Address::V4(data.array(at)?)),
        28 => facts.addresses.push(Address::V6(data.array(at)?)),
        _ => {}
    }
    if facts.get("dns.name").is_none() {
        let start = out.len();
        if print_name(data, owner, out).is_ok() {
            facts.add("dns.name", &out.bytes()[start..]);
        }
        out.truncate(start);
    }
    Ok(end)
}

/// `1d2h3m4s`
fn seconds(seconds: u32, out: &mut Text) {
    if seconds == 0 {
        out.put("0s");
    }
    let parts = [
        (604_800, 'w', u32::MAX),
        (86_400, 'd', 7),
        (3600, 'h', 24),
        (60, 'm', 60),
        (1, 's', 60),
    ];
    for (unit, letter, limit) in parts {
        let count = seconds / unit % limit;
        if count > 0 {
            out.num(count).byte(letter as u8);
        }
    }
}

/// Returns where the name that begins at `at` ends.
fn skip_name(data: Data<'_>, mut at: usize) -> Result<usize, Cut> {
    loop {
        match data.u8(at)? {
            0 => return Ok(at + 1),
            byte if byte & 0xc0 == 0xc0 => return Ok(at + 2),
            len => at += 1 + usize::from(len),
        }
    }
}

fn print_name(data: Data<'_>, mut at: usize, out: &mut Text) -> Printed {
    let start = out.len();
    let mut name_len = 0;
    for _ in 0..MAX_LABELS {
        match data.u8(at)? {
            0 => {
                if out.len() == start {
                    out.byte(b'.');
                }
                return Ok(());
            }
            byte if byte & 0xc0 == 0xc0 => at = usize::from(data.u16(at)? & 0x3fff),
            len => {
                name_len += 1 + usize::from(len);
                if usize::from(len) > MAX_LABEL || name_len > MAX_NAME {
                    return Err(Cut);
                }
                let label = data.slice(at + 1, len.into())?;
                out.foreign(label).byte(b'.');
                at += 1 + usize::from(len);
            }
        }
    }
    out.put("<LOOP>");
    Err(Cut)
}

fn class_name(class: u16, multicast: bool, out: &mut Text) {
    let class = if multicast { class & !UNICAST } else { class };
    match class {
        1 => return,
        3 => out.put(" CHAOS"),
        4 => out.put(" HS"),
        255 => out.put(" ANY"),
        _ => out.put(" (Class ").num(class).byte(b')'),
    };
}

fn record_type(kind: u16, out: &mut Text) {
    let name = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        10 => "NULL",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        17 => "RP",
        24 => "SIG",
        25 => "KEY",
        28 => "AAAA",
        29 => "LOC",
        33 => "SRV",
        35 => "NAPTR",
        39 => "DNAME",
        41 => "OPT",
        43 => "DS",
        44 => "SSHFP",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        51 => "NSEC3PARAM",
        52 => "TLSA",
        64 => "SVCB",
        65 => "HTTPS",
        99 => "SPF",
        249 => "TKEY",
        250 => "TSIG",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        256 => "URI",
        257 => "CAA",
        _ => "",
    };
    out.name_or(name, "Type", kind);
}
