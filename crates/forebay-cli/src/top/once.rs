//! `--once`: the tables as text or JSON.

use super::{
    latest::Update,
    numbers::{cell, number},
    state::State,
    tables::{Kind, Row},
};
use crate::{
    args::Top as Flags,
    counts,
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
    if let Some(hint) = state.hint {
        let _ = writeln!(text, "\n{hint}");
        return text;
    }
    for kind in Kind::ALL {
        state.kind = kind;
        let rows = state.shown();
        let _ = writeln!(
            text,
            "\n{:44} {:>9} {:>9} {:>9}",
            kind.name(),
            "bit/s  ",
            "bytes  ",
            "packets  "
        );
        for row in rows.into_iter().take(MAX_ROWS) {
            let is_incomplete = row.uncertain_bytes > 0;
            let line = format!(
                "{:44} {:>9} {:>9} {:>9}",
                row.name,
                cell(row.bits_per_second, false),
                cell(row.bytes as f64, is_incomplete),
                cell(row.packets as f64, is_incomplete),
            );
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
    for kind in Kind::ALL {
        state.kind = kind;
        let rows = state.shown().into_iter().take(MAX_JSON_ROWS);
        object.insert(kind.name().into(), rows.map(row_as_json).collect());
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

fn row_as_json(row: &Row) -> Value {
    json!({
        "name": row.name,
        "packets": row.packets,
        "bytes": row.bytes,
        "uncertain_bytes": row.uncertain_bytes,
        "bits_per_second": row.bits_per_second,
    })
}
