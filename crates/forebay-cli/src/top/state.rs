//! What the screen shows, and how keys change it.

use super::tables::{Kind, Row, Rows, Snapshot};
use forebay_net::session::Progress;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::{
    collections::{HashMap, VecDeque},
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
    pub hint: Option<&'static str>,
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
    /// Bits per second of past intervals, the last one last.
    pub history: VecDeque<u64>,
    pub rows: Rows,
    /// Why no more packets arrive.
    pub ended: Option<String>,
    pub kind: Kind,
    pub sort: Sort,
    pub filter: String,
    pub mode: Mode,
    pub scroll: usize,
    pub is_paused: bool,
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
        if !self.is_file {
            self.history.push_back(self.rates.1 as u64);
            if self.history.len() > MAX_HISTORY {
                self.history.pop_front();
            }
        }
        let old = std::mem::replace(&mut self.rows, snapshot.rows());
        for (rows, old) in self.rows.iter_mut().zip(old) {
            let old = old.iter().map(|row| (row.name.as_str(), row.bytes));
            let old: HashMap<_, _> = old.filter(|_| !self.is_file).collect();
            for row in rows {
                let before = old.get(row.name.as_str()).copied().unwrap_or(0);
                row.bits_per_second = per_second(row.bytes.saturating_sub(before)) * 8.0;
            }
        }
    }

    /// The rows to show, in order.
    pub fn shown(&self) -> Vec<&Row> {
        let filter = self.filter.to_ascii_lowercase();
        let mut rows: Vec<_> = self.rows[self.kind as usize]
            .iter()
            .filter(|row| row.name.contains(&filter))
            .collect();
        // Equal rows keep their place from one second to the next.
        rows.sort_by(|one, two| {
            let rate = two.bits_per_second.total_cmp(&one.bits_per_second);
            let bytes = two.bytes.cmp(&one.bytes);
            let packets = two.packets.cmp(&one.packets);
            let order = match self.sort {
                Sort::Rate => rate.then(bytes),
                Sort::Bytes => bytes.then(packets),
                Sort::Packets => packets.then(bytes),
            };
            order.then_with(|| one.name.cmp(&two.name))
        });
        rows
    }

    /// Handles a key; `false`: the user wants to leave.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (self.mode, key.code) {
            (_, KeyCode::Char('c')) if with_control => return false,
            (Mode::Help, _) => self.mode = Mode::Table,
            (Mode::Typing, KeyCode::Enter) => self.mode = Mode::Table,
            (Mode::Typing, KeyCode::Esc) => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            (Mode::Typing, KeyCode::Backspace) => drop(self.filter.pop()),
            (Mode::Typing, KeyCode::Char(letter)) if letter.is_ascii() && !with_control => {
                self.filter.push(letter);
                self.scroll = 0;
            }
            (Mode::Typing, _) => {}
            (Mode::Table, code) => return self.command(code),
        }
        true
    }

    fn command(&mut self, code: KeyCode) -> bool {
        let kinds = Kind::ALL.len();
        let beside = |kind: Kind, step: usize| Kind::ALL[(kind as usize + step) % kinds];
        let kind = self.kind;
        match code {
            KeyCode::Char('q') => return false,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Typing,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('r') => self.sort = Sort::Rate,
            KeyCode::Char('b') => self.sort = Sort::Bytes,
            KeyCode::Char('p') => self.sort = Sort::Packets,
            KeyCode::Char(number @ '1'..='4') => {
                self.kind = Kind::ALL[number as usize - '1' as usize]
            }
            KeyCode::Tab | KeyCode::Right => self.kind = beside(kind, 1),
            KeyCode::BackTab | KeyCode::Left => self.kind = beside(kind, kinds - 1),
            KeyCode::Down => self.scroll += 1,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        if self.kind != kind {
            self.scroll = 0;
        }
        self.scroll = self.scroll.min(self.shown().len().saturating_sub(1));
        true
    }
}
