//! What the screen shows.

use super::{
    averages::Averages,
    flow_writer,
    host_names::HostNames,
    locked::locked,
    tables::{Key, Kind, Row, Rows, Snapshot},
    timeline::Timeline,
};
use crate::flow::Flow;
use forebay_net::session::Progress;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Columns of the history that are kept: more than a terminal is wide.
const MAX_HISTORY: usize = 500;

/// The order of rows, the first one first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Rate,
    Bytes,
    Packets,
}

/// What keys are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Table,
    /// They are the filter's text.
    Typing,
    Help,
    /// The selected row is shown alone.
    Details,
}

/// What a key asks of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    None,
    Quit,
    Repaint,
    /// Write this flow to a file, or end the file.
    Write(Flow),
}

#[derive(Default)]
pub struct State {
    /// The sources, such as `eth0, eth1`.
    pub sources: String,
    /// All sources are files: rates are averages over the time of the packets.
    pub is_file: bool,
    pub kind_of_source: KindOfSource,
    /// The counts are those of another capture, since its start.
    pub is_attached: bool,
    /// Why the tables stay empty.
    pub hint: Option<String>,
    /// Fill level of the buffers of that capture, now and at most.
    pub store: Option<(f64, f64)>,
    /// The time that the rates are averages of.
    pub seconds: f64,
    pub progress: Progress,
    /// Packets and bits per second.
    pub rates: (f64, f64),
    /// Packets lost per second, by the kernel and by the interface; `None`: unknown.
    pub losses: [Option<f64>; 2],
    /// Fill level of the ring, now and at most, as seen four times a second.
    pub fill: Option<(f64, f64)>,
    /// Share of the last interval that was spent asleep.
    pub asleep: f64,
    /// Bits per second of past intervals, the last one last: all, received and sent.
    pub history: VecDeque<[u64; 3]>,
    /// Bytes that the interfaces received and sent.
    pub directed_bytes: [u64; 2],
    /// Of files.
    pub timeline: Option<Timeline>,
    pub rows: Rows,
    pub averages: Averages,
    /// Why no more packets arrive.
    pub ended: Option<String>,
    pub kind: Kind,
    pub sort: Sort,
    pub filter: String,
    pub mode: Mode,
    /// The order of rows is the opposite one.
    pub is_reversed: bool,
    /// The name of the selected row; `None`: the first row, whichever it is.
    pub selected: Option<String>,
    /// Rows before the first one on the screen.
    pub first: usize,
    /// Rows that fit on the screen.
    pub page: usize,
    pub is_paused: bool,
    /// The last flow that was written to a file.
    pub written: Option<flow_writer::Progress>,
    /// Names of hosts, if they are wanted.
    pub names: Option<Arc<Mutex<HostNames>>>,
    /// The answer to the last key.
    pub note: Option<String>,
}

/// The counts of a capture at one time.
#[derive(Clone, Default)]
pub struct Status {
    pub progress: Progress,
    /// The highest fill level of the ring.
    pub max_fill: f64,
    /// Fill level of another capture's buffers before its output, now and at most.
    pub store: Option<(f64, f64)>,
    pub has_ended: bool,
}

impl Status {
    /// The counts of a session of this process.
    pub fn of(progress: Progress, max_fill: f64) -> Self {
        Status {
            progress,
            max_fill,
            ..Status::default()
        }
    }
}

/// What is watched, apart from files. It decides what losses are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KindOfSource {
    #[default]
    Interfaces,
    /// What other captures share.
    Taps,
    Both,
}

impl KindOfSource {
    /// The names of losses in the source, and before it.
    pub fn losses(self) -> [&'static str; 2] {
        match self {
            KindOfSource::Interfaces => ["kernel", "interface"],
            KindOfSource::Taps => ["overrun", "before sharing"],
            KindOfSource::Both => ["kernel and overrun", "interface and before sharing"],
        }
    }
}

impl State {
    /// Takes over new counts.
    pub fn update(&mut self, status: Status, snapshot: &Snapshot) {
        let old = std::mem::replace(&mut self.progress, status.progress);
        self.store = status.store;
        let new = &self.progress;
        let passed = match self.is_file {
            true => Duration::from_nanos(snapshot.span_ns),
            false => new.elapsed.saturating_sub(old.elapsed),
        };
        self.seconds = match passed.is_zero() {
            true => new.elapsed.as_secs_f64(),
            false => passed.as_secs_f64(),
        };
        let per_second = |count: u64| match passed.as_secs_f64() {
            seconds if seconds > 0.0 => count as f64 / seconds,
            _ => 0.0,
        };
        // Of a file, the whole is averaged.
        let since = if self.is_file {
            Progress::default()
        } else {
            old
        };
        self.rates = (
            per_second(new.taken.saturating_sub(since.taken)),
            per_second(new.wire_bytes.saturating_sub(since.wire_bytes)) * 8.0,
        );
        let lost = |new: Option<u64>, old: Option<u64>| {
            Some(per_second(new?.saturating_sub(old.unwrap_or(0))))
        };
        self.losses = [
            lost(
                new.ledger.dropped.in_sources(),
                since.ledger.dropped.in_sources(),
            ),
            lost(new.ledger.interface_dropped, since.ledger.interface_dropped),
        ];
        self.fill = new.ring_fill.map(|fill| (fill, fill.max(status.max_fill)));
        let asleep = (new.modes.asleep.saturating_sub(since.modes.asleep)).as_secs_f64();
        let all = asleep + (new.modes.busy.saturating_sub(since.modes.busy)).as_secs_f64();
        self.asleep = if all > 0.0 { asleep / all } else { 0.0 };
        let directed = std::mem::replace(&mut self.directed_bytes, snapshot.directed_bytes);
        let [received, sent] = [0, 1].map(|way| {
            let bytes = snapshot.directed_bytes[way].saturating_sub(directed[way]);
            (per_second(bytes) * 8.0) as u64
        });
        self.timeline = snapshot.timeline.clone();
        if !self.is_file {
            self.history
                .push_back([self.rates.1 as u64, received, sent]);
            if self.history.len() > MAX_HISTORY {
                self.history.pop_front();
            }
        }
        let mut old = std::mem::replace(&mut self.rows, snapshot.rows());
        if !self.is_file && !passed.is_zero() {
            for (rows, old) in self.rows.iter_mut().zip(&mut old) {
                let old = old.iter_mut().map(|row| (row.name.clone(), row));
                let mut old: HashMap<_, _> = old.collect();
                for row in rows {
                    let old = old.get_mut(&row.name).map(|row| &mut **row);
                    row.continue_from(old, passed.as_secs_f64());
                }
            }
        }
        match self.is_file {
            true => (self.rows.iter_mut().flatten())
                .for_each(|row| row.set_rates(row.way_bytes(), passed.as_secs_f64(), 0.0)),
            false => (self.averages).rate(self.progress.elapsed, &mut self.rows, &old),
        }
        if let Some(names) = &self.names {
            let names = locked(names);
            for row in self.rows.iter_mut().flatten() {
                row.label = names.label(row.key);
            }
        }
    }

    /// The rows to show, in order.
    pub fn shown(&self) -> Vec<&Row> {
        let filter = self.filter.to_ascii_lowercase();
        let mut rows: Vec<_> = self.rows[self.kind as usize]
            .iter()
            .filter(|row| {
                row.name.contains(&filter) || row.shown().to_lowercase().contains(&filter)
            })
            .collect();
        // Equal rows keep their places from one second to the next.
        rows.sort_by(|one, two| {
            let rate = two.rank.total_cmp(&one.rank);
            let bytes = two.bytes.cmp(&one.bytes);
            let packets = two.packets.cmp(&one.packets);
            let order = match self.sort {
                Sort::Rate => rate.then(bytes),
                Sort::Bytes => bytes.then(packets),
                Sort::Packets => packets.then(bytes),
            };
            let order = if self.is_reversed {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| one.name.cmp(&two.name))
        });
        rows
    }

    /// The flow of the selected row, if it is one.
    pub fn flow(&self) -> Option<Flow> {
        let rows = self.shown();
        match rows.get(self.position(&rows))?.key {
            Key::Flow(flow) => Some(flow),
            _ => None,
        }
    }

    /// Where the selected row is among `rows`: the first one, if none was selected or if it has gone.
    pub fn position(&self, rows: &[&Row]) -> usize {
        let selected = self.selected.as_deref();
        let is_selected = |row: &&Row| selected == Some(row.name.as_str());
        rows.iter().position(is_selected).unwrap_or(0)
    }

    /// Keeps the selected row among the `page` rows that fit on the screen.
    pub fn fit(&mut self, page: usize) {
        self.page = page.max(1);
        let rows = self.shown();
        let (at, len) = (self.position(&rows), rows.len());
        let earliest = (at + 1).saturating_sub(self.page);
        // The last page is full.
        let latest = at.min(len.saturating_sub(self.page));
        self.first = self.first.clamp(earliest.min(latest), latest);
    }
}
