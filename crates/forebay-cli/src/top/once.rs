//! `--once`: the tables as text or JSON.

use super::{
    host_names::HostNames,
    latest::Update,
    locked::locked,
    numbers::{cell, number},
    state::State,
    tables::{History, Key, Kind, Row},
};
use crate::{
    args::Top as Flags,
    counts,
    flow::{Protocol, tcp::letters},
    output::{self, plain},
};
use anyhow::Result;
use forebay_net::units::scaled;
use serde_json::{Map, Value, json};
use std::fmt::Write;

const SCHEMA: u32 = 1;
/// Rows of a table.
const MAX_ROWS: usize = 10;
const MAX_JSON_ROWS: usize = 100;

pub fn text(state: &mut State) -> String {
    let progress = &state.progress;
    let (packets, bits) = state.rates;
    let in_all = if state.is_attached { "in all " } else { "" };
    let mut text = format!(
        "{}: {:.3} s, {in_all}{} packets, {}B: {} packets/s, {}bit/s\n",
        plain(&state.sources),
        state.seconds,
        progress.taken,
        scaled(progress.wire_bytes as f64),
        number(packets),
        scaled(bits),
    );
    if !state.is_file {
        let lost = |count: Option<u64>| count.map_or("unknown".into(), |count| count.to_string());
        let ledger = &progress.ledger;
        let [in_source, before] = state.kind_of_source.losses();
        let _ = write!(
            text,
            "lost: {in_source} {}, {before} {}",
            lost(ledger.dropped.in_sources()),
            lost(ledger.interface_dropped)
        );
        if let Some((_, most)) = state.fill {
            let _ = write!(text, "; ring at most {:.0} % full", most * 100.0);
        }
        if let Some((_, most)) = state.store {
            let _ = write!(text, "; buffers at most {:.0} % full", most * 100.0);
        }
        let _ = writeln!(text, "; asleep {:.0} %", state.asleep * 100.0);
    }
    if let Some(hint) = &state.hint {
        let _ = writeln!(text, "\n{hint}");
        return text;
    }
    for kind in Kind::ALL {
        state.kind = kind;
        let rows = state.shown();
        let directions = kind.directions();
        let line = |name: &str, sent: String, received: String, last: [String; 2]| {
            let [bytes, packets] = last;
            format!("{name:44} {sent:>8} {received:>8} {bytes:>8} {packets:>8}")
        };
        let [first, second] = directions.unwrap_or(["", "bit/s"]);
        let last = ["bytes ", "packets"].map(String::from);
        let head = line(kind.name(), first.into(), second.into(), last);
        let _ = writeln!(text, "\n{head}");
        for row in rows.into_iter().take(MAX_ROWS) {
            let is_incomplete = row.uncertain_bytes > 0;
            let [sent, received] = row.way_bits_per_second.map(|rate| cell(rate, false));
            let rates = match directions {
                Some(_) => [sent, received],
                None => [String::new(), cell(row.bits_per_second, false)],
            };
            let [sent, received] = rates;
            let counts = [row.bytes, row.packets].map(|it| cell(it as f64, is_incomplete));
            let line = line(row.shown(), sent, received, counts);
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

pub fn json(state: &mut State) -> String {
    let progress = &state.progress;
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("schema", SCHEMA.into());
    put("sources", state.sources.clone().into());
    put("seconds", state.seconds.into());
    put("packets", progress.taken.into());
    put("bytes", progress.wire_bytes.into());
    put("packets_per_second", state.rates.0.into());
    put("bits_per_second", state.rates.1.into());
    let ledger = &progress.ledger;
    let filtered = counts::filtered(ledger, progress.filters_uncounted);
    put("filtered", filtered.into());
    put(
        "lost",
        json!({
            "kernel": ledger.dropped.by_kernel(),
            "peer": ledger.dropped.peer,
            "overrun": ledger.dropped.overrun,
            "interface": ledger.interface_dropped,
        }),
    );
    put("ring_max_fill", state.fill.map(|(_, most)| most).into());
    put("buffer_max_fill", state.store.map(|(_, most)| most).into());
    put("asleep", state.asleep.into());
    put("no_tables_because", state.hint.clone().into());
    for kind in Kind::ALL {
        state.kind = kind;
        let rows = state.shown().into_iter().take(MAX_JSON_ROWS);
        let names = state.names.as_deref().map(locked);
        let rows = rows.map(|row| row_as_json(row, names.as_deref()));
        object.insert(kind.name().into(), rows.collect());
    }
    output::json(&object.into())
}

/// Prints the tables as the flags ask.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(flags: &Flags, mut state: State, update: Option<Update>) -> Result<()> {
    if let Some(last) = update {
        state.update(last.status, &last.snapshot);
    }
    output::answer(&match flags.json {
        true => json(&mut state) + "\n",
        false => text(&mut state),
    })
}

/// With `names`, also what they are called.
fn row_as_json(row: &Row, names: Option<&HostNames>) -> Value {
    let mut object = json!({
        "name": row.name,
        "packets": row.packets,
        "bytes": row.bytes,
        "uncertain_bytes": row.uncertain_bytes,
        "bits_per_second": row.bits_per_second,
    });
    let [one, two] = row.ways;
    let rates = row.way_bits_per_second;
    let more = match row.key {
        Key::Flow(flow) => {
            let hosts = flow.hosts().map(|hosts| hosts.map(|host| host.to_string()));
            let ports = flow.service().map(|_| flow.ports);
            let [address_a, address_b] = [0, 1].map(|end| hosts.as_ref().map(|it| &it[end]));
            let [port_a, port_b] = [0, 1].map(|end| ports.map(|it| it[end]));
            let span = row.history.and_then(|history| history.span_ns);
            let seconds = |ns: u64| ns as f64 / 1e9;
            json!({
                "protocol": flow.protocol.to_string(),
                "address_a": address_a,
                "port_a": port_a,
                "address_b": address_b,
                "port_b": port_b,
                "packets_a_to_b": one.packets,
                "bytes_a_to_b": one.bytes,
                "packets_b_to_a": two.packets,
                "bytes_b_to_a": two.bytes,
                "bits_per_second_a_to_b": rates[0],
                "bits_per_second_b_to_a": rates[1],
                "first": span.map(|it| seconds(it.0)),
                "last": span.map(|it| seconds(it.1)),
                "tcp": row.history.filter(|_| flow.protocol == Protocol::Ip(6)).map(tcp_as_json),
            })
        }
        Key::Protocol(protocol) => json!({ "protocol": protocol.to_string() }),
        Key::Host(_) | Key::Port(..) => json!({
            "packets_sent": one.packets,
            "bytes_sent": one.bytes,
            "packets_received": two.packets,
            "bytes_received": two.bytes,
            "bits_per_second_sent": rates[0],
            "bits_per_second_received": rates[1],
        }),
    };
    match row.key {
        Key::Host(address) => object["address"] = address.to_string().into(),
        Key::Port(port, protocol) => {
            object["port"] = port.into();
            object["protocol"] = protocol.to_string().into();
        }
        Key::Flow(_) | Key::Protocol(_) => {}
    }
    let host = |host| names.and_then(|names| names.host(host));
    let service = |port, protocol| names.and_then(|_| HostNames::service(port, protocol));
    match row.key {
        Key::Flow(flow) => {
            let [name_a, name_b] = match flow.hosts() {
                Some(hosts) => hosts.map(host),
                None => [None; 2],
            };
            object["name_a"] = name_a.into();
            object["name_b"] = name_b.into();
            object["service_name"] = flow.service().and_then(|it| service(it.0, it.1)).into();
        }
        Key::Host(address) => object["host_name"] = host(address).into(),
        Key::Port(port, protocol) => object["service_name"] = service(port, protocol).into(),
        Key::Protocol(_) => {}
    }
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn tcp_as_json(history: History) -> Value {
    let connection = history.connection;
    let [flags_a, flags_b] = connection.flags().map(letters);
    let [retransmissions_a, retransmissions_b] = connection.retransmissions();
    let [reordered_a, reordered_b] = connection.reordered();
    json!({
        "flags_a": flags_a,
        "flags_b": flags_b,
        "retransmissions_a": retransmissions_a,
        "retransmissions_b": retransmissions_b,
        "reordered_a": reordered_a,
        "reordered_b": reordered_b,
        "round_trip_seconds": connection.round_trip().map(|time| time.as_secs_f64()),
    })
}
