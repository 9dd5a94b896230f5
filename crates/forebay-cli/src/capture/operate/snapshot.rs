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
            outages: BTreeMap::new(),
            newest: VecDeque::new(),
            summary: None,
            exit_code: 0,
        }
    }
}

#[derive(Default)]
struct Inner {
    snapshot: Snapshot,
    /// The values at the last report, without a burst: the peaks of a time without a report.
    present: Peaks,
    since_scrape: Peaks,
    since_file: Peaks,
}

/// The latest snapshot. Clones share it.
#[derive(Clone, Default)]
pub struct Latest(Arc<Mutex<Inner>>);

impl Latest {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self) -> Snapshot {
        self.inner().snapshot.clone()
    }

    /// The snapshot, and the peaks since the last call.
    pub fn scrape(&self) -> (Snapshot, Peaks) {
        let mut inner = self.inner();
        let present = inner.present;
        let peaks = std::mem::replace(&mut inner.since_scrape, present);
        (inner.snapshot.clone(), peaks)
    }

    /// Returns peaks that did not reach a client.
    pub fn put_back(&self, peaks: &Peaks) {
        self.inner().since_scrape.raise(peaks);
    }

    /// The peaks since the last call, for the file.
    pub fn take_file_peaks(&self) -> Peaks {
        let mut inner = self.inner();
        let present = inner.present;
        std::mem::replace(&mut inner.since_file, present)
    }

    pub fn is_final(&self) -> bool {
        self.inner().snapshot.summary.is_some()
    }
}

/// The session's side.
pub struct Publisher {
    latest: Latest,
    snapshot: Snapshot,
    present: Peaks,
    /// Peaks that are not published yet.
    pending: Peaks,
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
            present: Peaks::default(),
            pending: Peaks::default(),
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
            Event::Behind(_)
            | Event::Finishing(_)
            | Event::Compressing { .. }
            | Event::Recovering
            | Event::Recovered(_)
            | Event::Triggered => {}
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
        self.present = Peaks {
            ring: new.ring_fill,
            store: (self.store_bytes > 0).then_some(new.fill),
            burst: lost.map(|_| 0),
        };
        let mut peaks = Peaks {
            burst,
            ..self.present
        };
        if new.high_water_bytes > old.high_water_bytes {
            // There was a peak since the last report.
            let high_water = new.high_water_bytes as f64 / self.store_bytes.max(1) as f64;
            peaks.store = peaks.store.map(|fill| fill.max(high_water.min(1.0)));
        }
        self.pending.raise(&peaks);
        self.snapshot.peaks.raise(&peaks);
    }

    fn publish(&mut self, waits: bool) {
        let mut copy = self.snapshot.clone();
        let mut inner = match waits {
            true => self.latest.inner(),
            false => match self.latest.0.try_lock() {
                Ok(inner) => inner,
                Err(_) => return,
            },
        };
        std::mem::swap(&mut inner.snapshot, &mut copy);
        inner.present = self.present;
        let pending = std::mem::take(&mut self.pending);
        inner.since_scrape.raise(&pending);
        inner.since_file.raise(&pending);
        // The old snapshot is freed after the lock is released.
        drop(inner);
    }
}
