//! Draws the state into a frame of any size.

use super::{
    details, graph, help,
    numbers::{cell, number},
    state::{Mode, Sort, State},
    tables::Kind,
    width::{NARROW, WIDE, WIDEST},
};
use crate::output::clock;
use forebay_net::units::scaled;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Span},
    widgets::{Paragraph, Table, Wrap},
};

/// A column of numbers.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    /// The rate of one direction.
    Way(usize, &'static str),
    Sorted(Sort),
}

pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let lines = head(state, area.width);
    let [place, history, tabs, table, foot] = parts(area, lines.len());
    // In a small terminal, help and details need its rows.
    let alone = |rows: usize| {
        let head_rows = area.height.saturating_sub(rows as u16);
        let head_rows = head_rows.min(place.height);
        let parts = [Constraint::Length(head_rows), Constraint::Fill(1)];
        Layout::vertical(parts).areas::<2>(area)
    };
    match state.mode {
        Mode::Help => {
            let [place, rest] = alone(help::rows(area.width));
            frame.render_widget(Paragraph::new(lines), place);
            help::draw(frame, rest);
            return;
        }
        Mode::Details => {
            let [place, rest] = alone(details::rows(state, area.width) + 1);
            let parts = [Constraint::Fill(1), Constraint::Length(1)];
            let [rest, foot] = Layout::vertical(parts).areas(rest);
            frame.render_widget(Paragraph::new(lines), place);
            details::draw(frame, rest, state);
            draw_foot(frame, foot, state);
            return;
        }
        Mode::Table | Mode::Typing => {}
    }
    frame.render_widget(Paragraph::new(lines), place);
    draw_history(frame, history, state);
    draw_tabs(frame, tabs, state);
    draw_table(frame, table, state);
    draw_foot(frame, foot, state);
}

/// The parts of the screen: a head of `head_rows`, graph, names of the tables, table, and foot.
fn parts(area: Rect, head_rows: usize) -> [Rect; 5] {
    let graph = match area.height {
        ..16 => 0,
        16..22 => 3,
        _ => 4,
    };
    Layout::vertical([
        Constraint::Length(head_rows as u16),
        Constraint::Length(graph),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area)
}

/// Rows of a table that fit on a screen of this size.
pub fn table_rows(area: Rect, state: &State) -> usize {
    let [.., table, _] = parts(area, head(state, area.width).len());
    usize::from(table.height).saturating_sub(1)
}

/// The pieces that fit, joined.
fn fitting(pieces: impl IntoIterator<Item = String>, width: u16) -> String {
    let mut line = String::new();
    for piece in pieces {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + piece.chars().count() <= usize::from(width) {
            line = line + gap + &piece;
        }
    }
    line
}

fn bytes(count: u64) -> String {
    format!("{}B", scaled(count as f64))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What is known of all packets.
fn head(state: &State, width: u16) -> Vec<Line<'static>> {
    let progress = &state.progress;
    let status = match (&state.ended, state.is_paused) {
        (Some(why), _) => why.clone(),
        (None, true) => "held".into(),
        (None, false) => clock(progress.elapsed),
    };
    let title = format!("forebay top  {}", state.sources);
    let room = usize::from(width).saturating_sub(status.chars().count() + 1);
    let title: String = title.chars().take(room).collect();
    let title = format!("{title:room$} {status}");
    let (packets, bits) = state.rates;
    let in_all = [
        format!("in all {}", number(progress.taken as f64)),
        bytes(progress.wire_bytes),
    ];
    let rates = [
        format!("rate  {} packets/s", number(packets)),
        format!("{}bit/s", scaled(bits)),
    ];
    let average = state.is_file.then(|| "on average".into());
    let rate = fitting(rates.into_iter().chain(average).chain(in_all), width);
    let fill = state
        .fill
        .map(|(now, most)| format!("ring  {} full, at most {}", percent(now), percent(most)));
    let asleep = format!("asleep {}", percent(state.asleep));
    let ledger = &progress.ledger;
    let filtered = format!("filtered {}", number(ledger.filtered as f64));
    let store = state.store.map(|(now, most)| {
        let (now, most) = (percent(now), percent(most));
        format!("buffers {now} full, at most {most}")
    });
    let pieces = fill.into_iter().chain(store);
    let pieces = pieces.chain((!state.is_file).then_some(asleep));
    let ring = fitting(
        pieces.chain((ledger.filtered > 0).then_some(filtered)),
        width,
    );
    let [in_source, before] = state.kind_of_source.losses();
    let causes = [
        (in_source, ledger.dropped.in_sources(), state.losses[0]),
        (before, ledger.interface_dropped, state.losses[1]),
    ];
    let is_lossy = causes
        .iter()
        .any(|(_, lost, _)| lost.is_some_and(|lost| lost > 0));
    let pieces = causes.map(|(cause, lost, rate)| match lost.zip(rate) {
        Some((0, _)) => format!("{cause} 0"),
        Some((lost, rate)) => {
            format!("{cause} {}/s, in all {}", number(rate), number(lost as f64))
        }
        None => format!("{cause} unknown"),
    });
    let [kernel, interface] = pieces;
    let lost = fitting([format!("lost  {kernel}"), interface], width);
    let lost = match is_lossy {
        true => Line::from(lost).style(Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)),
        false => Line::from(lost),
    };
    let lines = [Line::from(title).reversed(), rate.into(), ring.into()];
    let lost = (!state.is_file).then_some(lost);
    // Of a file there is little.
    let lines = lines.into_iter().chain(lost);
    lines.filter(|line| line.width() > 0).collect()
}

/// One graph, or one each of what the interfaces received and sent, if they know it.
fn draw_history(frame: &mut Frame<'_>, area: Rect, state: &State) {
    if let Some(timeline) = &state.timeline {
        let rates = timeline.rates(graph::columns(area));
        return graph::draw(
            frame,
            area,
            &format!("in {}", clock(timeline.time())),
            &rates,
        );
    }
    let has_directions = state.directed_bytes != [0; 2];
    let graphs: &[(usize, &str)] = match has_directions {
        true => &[(1, "received"), (2, "sent")],
        false => &[(0, "")],
    };
    let places = Layout::horizontal(vec![Constraint::Fill(1); graphs.len()]).split(area);
    for (&(which, name), &area) in graphs.iter().zip(places.iter()) {
        let shown = graph::columns(area).min(state.history.len());
        let rates = state.history.range(state.history.len() - shown..);
        let rates: Vec<u64> = rates.map(|rates| rates[which]).collect();
        graph::draw(frame, area, name, &rates);
    }
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let mut spans = Vec::new();
    for kind in Kind::ALL {
        let count = state.rows[kind as usize].len();
        let pad = if area.width < NARROW { "" } else { " " };
        let name = Span::from(format!("{pad}{} {count}{pad}", kind.name()));
        if kind != Kind::ALL[0] && pad.is_empty() {
            spans.push(" ".into());
        }
        spans.push(match kind == state.kind {
            true => name.reversed().bold(),
            false => name,
        });
    }
    frame.render_widget(Line::from(spans), area);
}

/// The columns of numbers that have room. In a narrow terminal the names need it.
fn columns(width: u16, state: &State) -> Vec<Column> {
    let directions = state.kind.directions().filter(|_| width >= WIDE);
    let ways = directions.into_iter().flatten().enumerate();
    let ways = ways.map(|(way, name)| Column::Way(way, name));
    let is_wide = width >= WIDEST || (width >= WIDE && directions.is_none());
    let sorted = [Sort::Rate, Sort::Bytes, Sort::Packets]
        .into_iter()
        .filter(|&sort| match sort {
            _ if width < NARROW => sort == state.sort,
            Sort::Rate => true,
            Sort::Bytes => is_wide || state.sort != Sort::Packets,
            Sort::Packets => is_wide || state.sort == Sort::Packets,
        });
    ways.chain(sorted.map(Column::Sorted)).collect()
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let rows = state.shown();
    let room = usize::from(area.height).saturating_sub(1);
    let (selected, first) = (state.position(&rows), state.first);
    let columns = columns(area.width, state);
    let header = columns.iter().map(|&column| {
        let name = match column {
            Column::Way(_, name) => name,
            Column::Sorted(Sort::Rate) => "bit/s",
            Column::Sorted(Sort::Bytes) => "bytes",
            Column::Sorted(Sort::Packets) => "packets",
        };
        let is_sorted = column == Column::Sorted(state.sort);
        let arrow = match (is_sorted, state.is_reversed) {
            (true, true) => "▲",
            (true, false) => "▼",
            _ if name.chars().count() < 8 => " ",
            _ => "",
        };
        let name = format!("{:>8}", format!("{name}{arrow}"));
        match is_sorted {
            true => Span::from(name).underlined().bold(),
            false => Span::from(name).dim(),
        }
    });
    let last = rows.len().min(first + room);
    let range = match last - first.min(last) < rows.len() {
        true => format!(
            "{}  {}-{last} of {}",
            state.kind.name(),
            first + 1,
            rows.len()
        ),
        false => state.kind.name().into(),
    };
    let name = Span::from(range).dim();
    let header = ratatui::widgets::Row::new([name].into_iter().chain(header));
    let room_for_name = usize::from(area.width).saturating_sub(9 * columns.len());
    let shown = rows.iter().enumerate().skip(first).take(room);
    let shown = shown.map(|(at, row)| {
        let is_incomplete = row.uncertain_bytes > 0;
        let numbers = columns.iter().map(|&column| {
            let number = match column {
                Column::Way(way, _) => cell(row.way_bits_per_second[way], false),
                Column::Sorted(Sort::Rate) => cell(row.bits_per_second, false),
                Column::Sorted(Sort::Bytes) => cell(row.bytes as f64, is_incomplete),
                Column::Sorted(Sort::Packets) => cell(row.packets as f64, is_incomplete),
            };
            format!("{number:>8}")
        });
        let name = middle_out(row.shown(), room_for_name);
        let row = ratatui::widgets::Row::new([name].into_iter().chain(numbers));
        match at == selected {
            true => row.reversed(),
            false => row,
        }
    });
    let widths = columns.iter().map(|_| Constraint::Length(8));
    let widths = [Constraint::Fill(1)].into_iter().chain(widths);
    frame.render_widget(Table::new(shown, widths).header(header), area);
    if rows.is_empty() {
        let text = state.hint.as_deref().unwrap_or(
            match (
                state.filter.is_empty(),
                state.rows[state.kind as usize].is_empty(),
            ) {
                (false, false) => "no row contains this text; Esc shows all",
                _ => "no packets yet",
            },
        );
        let below = Rect {
            y: area.y.saturating_add(1),
            height: area.height.saturating_sub(1),
            ..area
        };
        let text = Paragraph::new(text).wrap(Wrap { trim: true });
        frame.render_widget(text.dim(), below);
    }
}

/// A name that is too long loses its middle.
fn middle_out(name: &str, room: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= room || room < 3 {
        return name.into();
    }
    let (start, end) = ((room - 1).div_ceil(2), (room - 1) / 2);
    let [start, end] = [&letters[..start], &letters[letters.len() - end..]];
    start.iter().chain(&['…']).chain(end).collect()
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let line = match (state.mode, state.filter.as_str()) {
        (Mode::Typing, filter) => format!("/{filter}_   Enter keeps it, Esc shows all"),
        (Mode::Details, _) => fitting(
            ["Enter back", "j k next"]
                .into_iter()
                .chain(state.flow().map(|_| "w write to a file"))
                .chain(["space hold"])
                .map(String::from),
            area.width,
        ),
        (_, "") => fitting(
            [
                "q quit",
                "? help",
                "j k select",
                "Enter details",
                "Tab table",
                "r b p sort",
                "/ filter",
                "space hold",
            ]
            .map(String::from),
            area.width,
        ),
        (_, filter) => format!("rows that contain '{filter}'; Esc shows all"),
    };
    frame.render_widget(Paragraph::new(line).dim(), area);
}
