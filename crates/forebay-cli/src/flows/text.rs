//! The tables as text of 80 columns.

use super::{
    tables::{Table, name},
    tally::Tally,
};
use crate::{args::Table as Kind, output};
use forebay_net::units::scaled;
use serde_json::Value;
use std::fmt::Write;

/// Columns of a row's name. A longer one has its own line.
const NAME: usize = 42;

pub fn text(kind: Kind, table: &Table) -> String {
    let shown = table.rows.len();
    let heading = match shown < table.total {
        true => format!("{} ({shown} of {})", name(kind), table.total),
        false => name(kind).to_owned(),
    };
    let columns: &[&str] = match kind {
        Kind::Conversations => &["packets", "bytes", "seconds", "resent"],
        Kind::Endpoints => &["packets", "bytes", "sent", "received"],
        Kind::Intervals => &["packets", "bytes", "packets/s", "bit/s"],
        Kind::Protocols | Kind::Services | Kind::Lengths => &["packets", "bytes"],
    };
    let mut text = String::new();
    line(&heading, columns.iter().map(|it| it.to_string()), &mut text);
    for row in &table.rows {
        let of = |column: &str| {
            let at = table.columns.iter().position(|it| *it == column);
            at.map_or(&Value::Null, |at| &row[at])
        };
        let plain = |column: &str| match of(column) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let short = |column: &str| match of(column).as_f64() {
            Some(number) => scaled(number).replace(' ', ""),
            None => String::new(),
        };
        let mut cells = vec![plain("packets"), short("bytes")];
        let name = match kind {
            Kind::Conversations => {
                let seconds = of("seconds").as_f64().unwrap_or_default();
                cells.extend([format!("{seconds:.3}"), plain("retransmissions")]);
                let end = |host: &str, port: &str| match (plain(host), plain(port)) {
                    (host, port) if port.is_empty() => host,
                    (host, port) if host.contains(':') => format!("[{host}]:{port}"),
                    (host, port) => format!("{host}:{port}"),
                };
                let ends = [end("a", "a_port"), end("b", "b_port")];
                match ends[0].is_empty() {
                    true => plain("protocol"),
                    false => format!("{} {}", plain("protocol"), ends.join(" - ")),
                }
            }
            Kind::Endpoints => {
                cells.extend([short("bytes_sent"), short("bytes_received")]);
                plain("address")
            }
            Kind::Intervals => {
                cells.extend([short("packets_per_second"), short("bits_per_second")]);
                let start = plain("start");
                // Whole seconds.
                let start = start
                    .split('.')
                    .next()
                    .unwrap_or_default()
                    .replace('T', " ");
                format!("{start} UTC, {} s", plain("seconds"))
            }
            Kind::Services => {
                let service = format!("{}/{}", plain("port"), plain("protocol"));
                format!("{service} {}", plain("name")).trim_end().to_owned()
            }
            Kind::Protocols => plain("protocol"),
            Kind::Lengths => match plain("max_length") {
                max if max.is_empty() => format!("{} bytes and more", plain("min_length")),
                max => format!("{} to {max} bytes", plain("min_length")),
            },
        };
        line(&name, cells.into_iter(), &mut text);
    }
    text
}

fn line(name: &str, cells: impl Iterator<Item = String>, text: &mut String) {
    if name.len() > NAME {
        let _ = write!(text, "{name}\n{:NAME$}", "");
    } else {
        let _ = write!(text, "{name:NAME$}");
    }
    for cell in cells {
        let _ = write!(text, " {cell:>8}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

/// What is in no row.
pub fn note_untracked(tally: &Tally) {
    for (count, what) in tally.untracked.iter().zip(["conversations", "end points"]) {
        if count.packets > 0 {
            let packets = output::packets(count.packets);
            output::note(format!(
                "{packets} belong to {what} beyond the limit, and are in no row of them"
            ));
        }
    }
}
