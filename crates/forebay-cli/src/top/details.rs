//! One row alone: what is known of a flow, host, port or protocol.

use super::{
    graph,
    numbers::number,
    state::State,
    tables::{History, Key, Row},
    width::NARROW,
};
use crate::flow::{Protocol, tcp::letters};
use jiff::{Timestamp, tz::TimeZone};
use ratatui::{
    Frame,
    layout::Rect,
    widgets::{Paragraph, Wrap},
};
use std::{sync::OnceLock, time::Duration};

/// Rows of the graph of the last minute.
const GRAPH_ROWS: u16 = 3;

/// The time zone of this machine. Its file can only be read before the sandbox is entered.
pub fn zone() -> TimeZone {
    static ZONE: OnceLock<TimeZone> = OnceLock::new();
    ZONE.get_or_init(TimeZone::system).clone()
}

/// Rows that the selected row of a table needs.
pub fn rows(state: &State, width: u16) -> usize {
    let lines = text(state, width);
    let width = usize::from(width).max(1);
    let rows = |line: &String| line.chars().count().div_ceil(width).max(1);
    lines.iter().map(rows).sum()
}

/// Draws the selected row, and the graph of its last minute if there is room.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let needed = rows(state, area.width) as u16;
    let text = Paragraph::new(text(state, area.width).join("\n"));
    frame.render_widget(text.wrap(Wrap { trim: false }), area);
    let rows = state.shown();
    let row = rows.get(state.position(&rows));
    if let Some(row) = row.filter(|row| !row.recent.is_empty())
        && area.height > needed + GRAPH_ROWS
    {
        let place = Rect {
            y: area.y + needed + 1,
            height: GRAPH_ROWS,
            ..area
        };
        let shown = graph::columns(place).min(row.recent.len());
        let rates = row.recent.range(row.recent.len() - shown..);
        let rates: Vec<u64> = rates.copied().collect();
        let seconds = state.seconds * shown as f64;
        graph::draw(frame, place, &format!("last {seconds:.0} s"), &rates);
    }
}

/// The lines about the selected row, its file, and the last key.
fn text(state: &State, width: u16) -> Vec<String> {
    let rows = state.shown();
    let row = rows.get(state.position(&rows));
    let mut lines = row.map(|row| lines(row, width)).unwrap_or_default();
    let written = state.written.as_ref();
    let written = written.filter(|it| Some(it.flow) == state.flow());
    let written = written.map(|it| match it.is_complete {
        true => format!("written        {it}"),
        false => format!("writing        {it}"),
    });
    let news: Vec<_> = written.into_iter().chain(state.note.clone()).collect();
    // Where a small terminal shows it.
    let at = if width < NARROW {
        lines.len().min(1)
    } else {
        lines.len()
    };
    lines.splice(at..at, news);
    lines
}

/// The lines of a row.
fn lines(row: &Row, width: u16) -> Vec<String> {
    let is_narrow = width < NARROW;
    let mut lines = vec![row.name.clone()];
    lines.extend(row.label.clone());
    lines.extend((!is_narrow).then(String::new));
    let mut put = |name: &str, values: [String; 2]| {
        let [first, second] = values;
        let column = if is_narrow { 11 } else { 22 };
        let line = format!("{name:15}{first:column$} {second}");
        lines.push(line.trim_end().into());
    };
    let hosts = match row.key {
        Key::Flow(flow) => flow.hosts(),
        _ => None,
    };
    let sides = match (row.key, hosts) {
        (Key::Flow(_), Some(_)) if is_narrow => ["→", "←"].map(String::from),
        (Key::Flow(_), Some(hosts)) => hosts.map(|host| format!("from {host}")),
        (Key::Host(_) | Key::Port(..), _) => ["sent", "received"].map(String::from),
        _ => ["all", ""].map(String::from),
    };
    let has_two = !sides[1].is_empty();
    put("", sides);
    let both = |values: [String; 2]| match values {
        values if has_two => values,
        [first, _] => [first, String::new()],
    };
    put("packets", both(row.ways.map(|way| way.packets.to_string())));
    put("bytes", both(row.ways.map(|way| way.bytes.to_string())));
    put("bit/s", both(row.way_bits_per_second.map(number)));
    if let (Key::Flow(flow), Some(history)) = (row.key, row.history) {
        if flow.protocol == Protocol::Ip(6) {
            let connection = history.connection;
            put("TCP flags", connection.flags().map(letters));
            put(
                "retransmitted",
                connection.retransmissions().map(|it| it.to_string()),
            );
            put("reordered", connection.reordered().map(|it| it.to_string()));
        }
        lines.push(String::new());
        lines.extend(times(&history));
        if flow.protocol == Protocol::Ip(6) {
            lines.extend(round_trip(
                &history,
                hosts.map(|it| it.map(|host| host.to_string())),
            ));
        }
    }
    if row.uncertain_bytes > 0 {
        let bytes = number(row.uncertain_bytes as f64);
        lines.push(format!(
            "counted since it is tracked; up to {bytes}B more before"
        ));
    }
    lines
}

fn times(history: &History) -> Vec<String> {
    let Some((first, last)) = history.span_ns else {
        return Vec::new();
    };
    let shown = |ns: u64| {
        let time = Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
        let time = time.to_zoned(zone());
        time.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
    };
    let lasted = Duration::from_nanos(last - first);
    vec![
        format!("first packet   {}", shown(first)),
        format!(
            "last packet    {}, {:.6} s later",
            shown(last),
            lasted.as_secs_f64()
        ),
    ]
}

/// The shortest round-trip time, and its parts to both ends.
fn round_trip(history: &History, hosts: Option<[String; 2]>) -> Vec<String> {
    let connection = history.connection;
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let Some(whole) = connection.round_trip() else {
        return vec!["round trip     unknown: no acknowledgement was seen".into()];
    };
    let [to_second, to_first] = connection.round_trips();
    let [first, second] = hosts.unwrap_or_default();
    let parts = [(to_first, first), (to_second, second)];
    let parts = parts.into_iter().filter_map(|(time, host)| {
        Some(format!(
            "               {} from here to {host} and back",
            millis(time?)
        ))
    });
    let whole = format!("round trip     {} at least", millis(whole));
    [whole].into_iter().chain(parts).collect()
}
