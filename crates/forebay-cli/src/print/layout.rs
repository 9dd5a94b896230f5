//! How a packet is printed: as a line, as one JSON object, or as a row of chosen fields.

use super::{
    json,
    printer::{Packet, Printer},
    text::Text,
};
use serde_json::Value;

/// All fields: `time`, and the keys of `--json-lines`.
const FIELDS: [&str; 39] = [
    "time",
    "time_ns",
    "interface",
    "direction",
    "link_type",
    "captured",
    "length",
    "source_mac",
    "destination_mac",
    "ethertype",
    "vlans",
    "source",
    "destination",
    "source_name",
    "destination_name",
    "ip_protocol",
    "ttl",
    "source_port",
    "destination_port",
    "tcp_flags",
    "sequence",
    "acknowledgment",
    "window",
    "icmp_type",
    "info",
    "dns.id",
    "dns.query",
    "dns.type",
    "dns.result",
    "dns.name",
    "dns.answers",
    "http.request",
    "http.method",
    "http.target",
    "http.host",
    "http.response",
    "http.status",
    "tls.message",
    "tls.server_name",
];
/// The fields of `--csv` alone.
const USUAL: [&str; 7] = [
    "time",
    "source",
    "source_port",
    "destination",
    "destination_port",
    "length",
    "info",
];

#[derive(Clone, Debug, Default)]
pub enum Layout {
    #[default]
    Lines,
    /// One object a line.
    JsonLines,
    Rows(Columns),
}

#[derive(Clone, Debug)]
pub struct Columns {
    fields: Vec<&'static str>,
    /// With commas, quotes and a line of names; otherwise with tabs.
    is_csv: bool,
}

impl Columns {
    /// # Errors
    /// The field that is not known, and the known ones.
    pub fn new(names: &[String], is_csv: bool) -> Result<Columns, String> {
        let known = |name: &String| {
            let found = FIELDS.into_iter().find(|field| field == name);
            found.ok_or_else(|| {
                let all = FIELDS.join(", ");
                format!("--fields: there is no field '{name}'. Fields are {all}")
            })
        };
        let fields = match names {
            [] => USUAL.to_vec(),
            names => names.iter().map(known).collect::<Result<_, _>>()?,
        };
        Ok(Columns { fields, is_csv })
    }
}

/// Appends a row: of CSV, with commas and quotes, or with tabs.
pub fn row<'a>(cells: impl Iterator<Item = &'a str>, is_csv: bool, out: &mut Text) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.byte(if is_csv { b',' } else { b'\t' });
        }
        let quotes = is_csv && cell.contains([',', '"', '\n', '\r']);
        out.put(if quotes { "\"" } else { "" });
        for letter in cell.chars() {
            match letter {
                '"' if quotes => drop(out.put("\"\"")),
                '\n' if is_csv => drop(out.byte(b'\n')),
                ' '..='~' => drop(out.byte(letter as u8)),
                _ => drop(out.put(&letter.escape_default().to_string())),
            }
        }
        out.put(if quotes { "\"" } else { "" });
    }
    out.byte(b'\n');
}

impl Layout {
    pub fn is_lines(&self) -> bool {
        matches!(self, Layout::Lines)
    }

    /// What precedes the first packet.
    pub fn head(&self, out: &mut Text) {
        if let Layout::Rows(columns) = self
            && columns.is_csv
        {
            row(columns.fields.iter().copied(), true, out);
        }
    }

    /// Appends `packet`. `escape` writes JSON without what a terminal would obey.
    pub fn print(
        &self,
        printer: &mut Printer,
        packet: &Packet<'_>,
        escape: json::Escape,
        out: &mut Text,
    ) {
        match self {
            Layout::Lines => printer.line(packet, out),
            Layout::JsonLines => json::line(printer, packet, escape, out),
            Layout::Rows(columns) => {
                let object = json::object(printer, packet);
                let cell = |field: &&str| match *field {
                    "time" => time(packet.time_ns),
                    name => match name.split_once('.') {
                        Some((outer, inner)) => object.get(outer).and_then(|it| it.get(inner)),
                        None => object.get(name),
                    }
                    .map_or_else(String::new, text),
                };
                let cells: Vec<_> = columns.fields.iter().map(cell).collect();
                row(cells.iter().map(|cell| &**cell), columns.is_csv, out);
            }
        }
    }
}

/// Date and time in UTC: sorting such texts sorts by time.
fn time(ns: u64) -> String {
    let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
    match jiff::Timestamp::new(seconds as i64, ns as i32) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string(),
        Err(_) => String::new(),
    }
}

/// Lists are joined by commas.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            messages::{dns, tcp, udp},
            printer::Style,
            times::Times,
        },
        *,
    };
    use forebay_net::port::{Direction, LinkType};
    use forebay_testing::dice::Dice;

    fn printed(frames: &[Vec<u8>], layout: &Layout, names: bool) -> String {
        let style = Style {
            times: Times::None,
            names,
            ..Style::default()
        };
        let (mut printer, mut out) = (Printer::new(style), Text::default());
        layout.head(&mut out);
        for frame in frames {
            let packet = Packet {
                link: LinkType::ETHERNET,
                interface: "a\"b",
                direction: Direction::Inbound,
                time_ns: 1_700_000_000_000_000_001,
                data: frame,
                captured: frame.len() as u32,
                wire_len: frame.len() as u32,
            };
            layout.print(&mut printer, &packet, Value::to_string, &mut out);
        }
        String::from_utf8(out.bytes().to_vec()).unwrap()
    }

    fn rows(fields: &str, is_csv: bool) -> Layout {
        let fields: Vec<_> = fields.split(',').map(str::to_owned).collect();
        Layout::Rows(Columns::new(&fields, is_csv).unwrap())
    }

    fn answer() -> Vec<u8> {
        let answers: &[(_, _, _, &[u8])] = &[("b.org", 1, 1, &[10, 0, 0, 2])];
        udp([53, 4000], &dns(0x8180, ("www.example.org", 1, 1), answers))
    }

    #[test]
    fn rows_have_tabs_or_are_quoted_as_rfc_4180_says() {
        let request = tcp([4000, 80], b"GET /a,b HTTP/1.1\r\nHost: \"c\"\r\n\r\n");
        let fields = "time,interface,vlans,source,destination_port,http.target,http.host,dns.query";
        let request = [request];
        let row = printed(&request, &rows(fields, false), false);
        assert_eq!(
            row,
            "2023-11-14T22:13:20.000000001Z\ta\"b\t\t10.0.0.1\t80\t/a,b\t\"c\"\t\n"
        );
        let rows = printed(&request, &rows(fields, true), false);
        assert_eq!(
            rows,
            format!(
                "{fields}\n2023-11-14T22:13:20.000000001Z,\"a\"\"b\",,10.0.0.1,80,\"/a,b\",\"\"\"c\"\"\",\n"
            )
        );
        let unknown = Columns::new(&["length".into(), "lenght".into()], true).unwrap_err();
        assert!(
            unknown.contains("'lenght'") && unknown.contains("dns.answers"),
            "{unknown}"
        );
    }

    #[test]
    fn every_key_of_an_object_is_a_field() {
        let mut dice = Dice(2);
        let mut frames = super::super::messages::all(&mut dice);
        frames.extend([answer(), tcp([80, 4000], b"HTTP/1.1 200 OK\r\n")]);
        for line in printed(&frames, &Layout::JsonLines, true).lines() {
            let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            for (key, value) in object {
                let inner = value.as_object().into_iter().flatten();
                let keys: Vec<_> = inner.map(|(name, _)| format!("{key}.{name}")).collect();
                let keys = if keys.is_empty() { vec![key] } else { keys };
                assert!(keys.iter().all(|key| FIELDS.contains(&&**key)), "{keys:?}");
            }
        }
    }

    #[test]
    fn addresses_have_the_names_that_were_asked_for_and_ports_the_usual_ones() {
        let syn = tcp([4000, 443], b"");
        let lines = printed(&[syn.clone(), answer(), syn.clone()], &Layout::Lines, true);
        let lines: Vec<_> = lines.lines().collect();
        assert!(
            lines[0].starts_with("IP 10.0.0.1.4000 > 10.0.0.2.https: "),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("IP 10.0.0.1.domain > "), "{lines:?}");
        assert!(
            lines[2].starts_with("IP 10.0.0.1.4000 > www.example.org.https: "),
            "{lines:?}"
        );
        let numbers = printed(&[answer(), syn.clone()], &Layout::Lines, false);
        assert!(
            numbers.contains("IP 10.0.0.1.4000 > 10.0.0.2.443: "),
            "{numbers}"
        );
        let named = rows("destination,destination_name", true);
        let named = printed(&[answer(), syn], &named, true);
        assert!(named.ends_with("\n10.0.0.2,www.example.org\n"), "{named}");
    }
}
