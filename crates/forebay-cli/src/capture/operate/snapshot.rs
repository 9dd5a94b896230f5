//! What the session's thread publishes, and what the server reads.
//!
//! The session's thread never waits for the server: if the server holds the lock, the next report publishes instead, a quarter
//! of a second later. The server holds the lock only to copy.

use forebay_net::{
    port::Outages,
    session::{Event, Progress, Summary},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// A burst of loss is the number of packets lost within this time.
const BURST: Duration = Duration::from_secs(1);
/// Names of finished files that are kept.
const NEWEST: usize = 16;

/// The largest values of some time; `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peaks {
    /// Fill level of the fullest source's ring, 0 to 1.
    pub ring: Option<f64>,
    /// Fill level of the store relative to its limit, 0 to 1.
    pub store: Option<f64>,
    /// The most packets lost within a second, or between two reports if these are further apart.
    pub burst: Option<u64>,
}

impl Peaks {
    pub fn raise(&mut self, other: &Peaks) {
        let max = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.ring = max(self.ring, other.ring);
        self.store = max(self.store, other.store);
        self.burst = self.burst.max(other.burst);
    }
}

/// The state of the capture at one time.
#[derive(Clone)]
pub struct Snapshot {
    /// When the counts were reported; `None`: not yet.
    pub at: Option<SystemTime>,
    pub progress: Progress,
    /// Since the start.
    pub peaks: Peaks,
    /// In the last minute.
    pub recent: Peaks,
    /// By source.
    pub outages: BTreeMap<String, Outages>,
    /// The newest finished files.
    pub newest: VecDeque<PathBuf>,
    /// The final counts as JSON, after the end.
    pub summary: Option<Value>,
    /// Of the capture, after the end.
    pub exit_code: u8,
}

impl Default for Snapshot {
    /// Before the first report.
    fn default() -> Self {
        Snapshot {
            at: None,
            progress: Progress {
                // Until the session reports whether the kernel counts them.
                filters_uncounted: true,
                ..Progress::default()
            },
            peaks: Peaks::default(),
            recent: Peaks::default(),
            outages: BTreeMap::new(),
            newest: VecDeque::new(),
            summary: None,
            exit_code: 0,
        }
    }
}

/// The latest snapshot. Clones share it.
#[derive(Clone, Default)]
pub struct Latest(Arc<Mutex<Snapshot>>);

impl Latest {
    fn snapshot(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self) -> Snapshot {
        self.snapshot().clone()
    }

    pub fn is_final(&self) -> bool {
        self.snapshot().summary.is_some()
    }
}

/// The peaks of the last minute: the longest time between two scrapes that is usual.
#[derive(Default)]
struct Recent(VecDeque<(u64, Peaks)>);

impl Recent {
    const STEP_SECONDS: u64 = 5;
    const STEPS: u64 = 60 / Self::STEP_SECONDS;

    /// Adds peaks of this time since the start. Returns all of the last minute.
    fn add(&mut self, at: Duration, peaks: &Peaks) -> Peaks {
        let step = at.as_secs() / Self::STEP_SECONDS;
        match self.0.back_mut() {
            Some((last, all)) if *last == step => all.raise(peaks),
            _ => self.0.push_back((step, *peaks)),
        }
        while self
            .0
            .front()
            .is_some_and(|(first, _)| first + Self::STEPS < step)
        {
            self.0.pop_front();
        }
        let mut all = Peaks::default();
        self.0.iter().for_each(|(_, peaks)| all.raise(peaks));
        all
    }
}

/// The session's side.
pub struct Publisher {
    latest: Latest,
    snapshot: Snapshot,
    recent: Recent,
    /// Packets lost up to each time, for as long as a burst lasts.
    losses: VecDeque<(Duration, u64)>,
    /// Most bytes that the store can hold; 0: there is no store.
    store_bytes: u64,
}

impl Publisher {
    pub fn new(latest: Latest, store_bytes: u64) -> Self {
        Publisher {
            latest,
            snapshot: Snapshot::default(),
            recent: Recent::default(),
            losses: VecDeque::from([(Duration::ZERO, 0)]),
            store_bytes,
        }
    }

    /// Takes over what `event` reports. New counts are published, unless the server is copying the last ones.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                self.note((*progress).clone());
                self.publish(false);
            }
            Event::Outage { source, outages } => self.outage(source, *outages),
            Event::Finished { path } => self.finished(path),
            _ => {}
        }
    }

    fn outage(&mut self, source: &str, outages: Outages) {
        self.snapshot.outages.insert(source.into(), outages);
    }

    fn finished(&mut self, path: &Path) {
        if self.snapshot.newest.len() == NEWEST {
            self.snapshot.newest.pop_front();
        }
        self.snapshot.newest.push_back(path.into());
    }

    /// Publishes the final counts.
    pub fn end(mut self, summary: &Summary, object: Value, exit_code: u8) {
        for source in &summary.sources {
            if source.outages.count > 0 {
                self.outage(&source.name, source.outages);
            }
        }
        let last = self.snapshot.progress.clone();
        self.note(Progress {
            elapsed: summary.elapsed.max(last.elapsed),
            taken: (last.taken).max(summary.ledger.written + summary.ledger.counted),
            wire_bytes: summary.wire_bytes,
            cut: summary.cut,
            ledger: summary.ledger,
            filters_uncounted: summary.filters_uncounted,
            written_bytes: summary.bytes,
            durable: summary.totals.durable,
            durable_bytes: summary.totals.durable_bytes,
            pending_bytes: 0,
            high_water_bytes: summary.totals.high_water_bytes,
            files_written: summary.files.written,
            files_removed: summary.files.removed,
            files_removed_for_space: summary.files.removed_for_space,
            modes: summary.modes,
            packets_per_second: 0.0,
            bits_per_second: 0.0,
            fill: 0.0,
            ring_fill: last.ring_fill.map(|_| 0.0),
            ..last
        });
        self.snapshot.summary = Some(object);
        self.snapshot.exit_code = exit_code;
        self.publish(true);
    }

    fn note(&mut self, progress: Progress) {
        let old = std::mem::replace(&mut self.snapshot.progress, progress);
        self.snapshot.at = Some(SystemTime::now());
        let new = &self.snapshot.progress;
        let causes = new.ledger.dropped.by_cause().into_iter();
        let lost: Option<u64> = causes.map(|(_, count)| count).sum();
        let burst = lost.map(|lost| {
            let began = new.elapsed.saturating_sub(BURST);
            while self.losses.get(1).is_some_and(|&(at, _)| at <= began) {
                self.losses.pop_front();
            }
            let before = self.losses.front().map_or(0, |&(_, lost)| lost);
            self.losses.push_back((new.elapsed, lost));
            lost.saturating_sub(before)
        });
        let mut peaks = Peaks {
            ring: new.ring_fill,
            store: (self.store_bytes > 0).then_some(new.fill),
            burst,
        };
        if new.high_water_bytes > old.high_water_bytes {
            // There was a peak since the last report.
            let high_water = new.high_water_bytes as f64 / self.store_bytes.max(1) as f64;
            peaks.store = peaks.store.map(|fill| fill.max(high_water.min(1.0)));
        }
        let at = new.elapsed;
        self.snapshot.recent = self.recent.add(at, &peaks);
        self.snapshot.peaks.raise(&peaks);
    }

    fn publish(&mut self, waits: bool) {
        let mut copy = self.snapshot.clone();
        let mut latest = match waits {
            true => self.latest.snapshot(),
            false => match self.latest.0.try_lock() {
                Ok(latest) => latest,
                Err(_) => return,
            },
        };
        // The old snapshot is freed after the lock is released.
        std::mem::swap(&mut *latest, &mut copy);
        drop(latest);
    }
}
