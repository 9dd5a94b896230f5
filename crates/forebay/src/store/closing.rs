//! The end of a store: wait for the last byte or give it up, and the final counts.

use super::{drain::Progress, writer::Ending};
use crate::Error;
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Counts of a store, while it runs and at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records committed.
    pub accepted: u64,
    /// Records that are written completely: `write` took every byte of them.
    pub written: u64,
    /// Bytes up to the end of the last written record, in all outputs together.
    pub written_bytes: u64,
    /// Bytes that were accepted and are not written yet. Shrinks by one buffer at a time.
    pub pending_bytes: u64,
    /// The most bytes that waited at any time, to the nearest buffer: how much of its limit the store needed.
    pub high_water_bytes: u64,
    /// Bytes written into the page cache that the device is not known to hold yet. Excludes bytes written past the page cache.
    pub unsynced_bytes: u64,
    /// The output is being made durable after its last byte: [`pending_bytes`](Totals::pending_bytes) is 0 and `unsynced_bytes`
    /// shrinks.
    pub is_syncing: bool,
    /// Records known to be durable: a sync covered them and all records before them.
    pub durable: u64,
    /// Bytes up to the end of the last durable record.
    pub durable_bytes: u64,
    /// Records dropped for lack of room under [`WhenFull::DropNewest`](super::WhenFull). They are in none of the other counts.
    pub dropped: u64,
    /// Syncs so far.
    pub syncs: u64,
    /// Syncs that failed. After one, only `durable` records are known to be on the device, whatever was written.
    pub failed_syncs: u64,
    /// How long the slowest sync took.
    pub slowest_sync: Duration,
}

/// How far a record has got; each stage includes those before it.
///
/// ```
/// use forebay::store::Stage;
/// assert!(Stage::Durable > Stage::Written && Stage::Written > Stage::Accepted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// In one of the store's buffers. Lost if the process dies.
    Accepted,
    /// `write` returned. Survives the process, even `kill -9`, but not a power cut.
    Written,
    /// A sync that began after the write succeeded. Survives a power cut.
    Durable,
}

impl Totals {
    /// Records that have reached at least `stage`.
    ///
    /// ```
    /// use forebay::store::{Stage, Totals};
    /// let totals = Totals { accepted: 9, written: 7, ..Totals::default() };
    /// assert_eq!(totals.at(Stage::Written), 7);
    /// ```
    pub fn at(&self, stage: Stage) -> u64 {
        match stage {
            Stage::Accepted => self.accepted,
            Stage::Written => self.written,
            Stage::Durable => self.durable,
        }
    }
}

/// Stops a store from any thread at any time: nothing more is written. Clones share one state. What was accepted and not
/// written then counts as lost.
///
/// ```
/// use forebay::store::{Abandon, StoreConfig};
/// let abandon = Abandon::default();
/// let config = StoreConfig { abandon: abandon.clone(), ..StoreConfig::default() };
/// abandon.set();
/// assert!(config.abandon.is_set());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Abandon(Arc<From>);

/// When it takes effect.
#[derive(Debug)]
struct From {
    epoch: Instant,
    /// Nanoseconds after the epoch; `u64::MAX` means never. Relaxed: it publishes nothing but itself.
    at: AtomicU64,
}

impl Default for From {
    fn default() -> Self {
        From {
            epoch: Instant::now(),
            at: AtomicU64::new(u64::MAX),
        }
    }
}

impl Abandon {
    /// Nothing more is written from now on. This cannot be undone.
    pub fn set(&self) {
        self.0.at.store(0, Relaxed);
    }

    /// Nothing more is written once `grace` has passed. Of several calls, the earliest deadline holds.
    ///
    /// ```
    /// # use forebay::store::Abandon;
    /// use std::time::Duration;
    /// let abandon = Abandon::default();
    /// abandon.set_after(Duration::from_secs(3600));
    /// assert!(!abandon.is_set());
    /// abandon.set_after(Duration::ZERO);
    /// assert!(abandon.is_set());
    /// ```
    pub fn set_after(&self, grace: Duration) {
        let at = self.0.epoch.elapsed() + grace;
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX - 1);
        self.0.at.fetch_min(at, Relaxed);
    }

    /// Whether the deadline has passed, so that nothing more is written.
    pub fn is_set(&self) -> bool {
        match self.0.at.load(Relaxed) {
            u64::MAX => false,
            0 => true,
            at => self.0.epoch.elapsed().as_nanos() >= u128::from(at),
        }
    }
}

/// A store that accepts nothing more and is being drained.
///
/// ```
/// # use forebay::store::{Appender, StoreConfig, FileConfig, FileSink, Framing, Whole};
/// # struct Bytes;
/// # impl Framing for Bytes {
/// #     fn last_whole(&self, bytes: &[u8]) -> Whole { Whole { bytes: bytes.len(), records: 0 } }
/// # }
/// use std::time::Duration;
/// let sink = FileSink::create("/dev/full", &FileConfig::default())?;
/// let mut store = Appender::new(sink, std::sync::Arc::new(Bytes), &StoreConfig::default())?;
/// store.reserve(10)?.unwrap().commit(1);
/// let mut closing = store.close();
/// let end = loop {
///     match closing.wait(Duration::from_millis(100)) {
///         Ok(end) => break end,
///         Err(again) => closing = again, // or closing.abandon(), to stop waiting
///     }
/// };
/// assert_eq!((end.totals.accepted, end.totals.written), (1, 0));
/// assert!(end.error.unwrap().to_string().starts_with("/dev/full: writing: no space left on device"));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Closing {
    pub(super) taken: Taken,
    pub(super) ending: Ending,
}

/// How a store ended.
#[derive(Debug)]
pub struct Finished {
    /// The final counts: `accepted − written` records were lost.
    pub totals: Totals,
    /// Whether everything written is also durable.
    pub durable: bool,
    /// The write or sync error that was not reported before.
    pub error: Option<Error>,
}

impl Closing {
    /// Waits up to `limit` for the last buffer to be written and synced.
    ///
    /// # Errors
    /// Not done yet. The store is returned, to wait on again or to abandon.
    pub fn wait(self, limit: Duration) -> std::result::Result<Finished, Closing> {
        // Short at first: usually only one buffer is left to write.
        let mut step = Duration::from_micros(50);
        let mut left = limit;
        while !self.ending.is_over() {
            if left.is_zero() {
                return Err(self);
            }
            step = step.min(left);
            std::thread::sleep(step);
            left -= step;
            step = Duration::from_millis(1).min(2 * step);
        }
        Ok(self.finish())
    }

    /// Waits without a time limit.
    pub fn finish(self) -> Finished {
        let taken = self.taken;
        let mut totals = self.totals();
        let (drain, mut error) = self.ending.join();
        let mut durable = false;
        if let Some(mut drain) = drain {
            durable = drain.is_durable();
            totals = drain.counts().totals(&taken);
            error = error.or(drain.take_trouble());
        }
        Finished {
            totals,
            durable,
            error,
        }
    }

    /// Writes nothing more. What is not written yet counts as lost.
    pub fn abandon(&self) {
        self.ending.abandon();
    }

    /// The current counts.
    pub fn totals(&self) -> Totals {
        self.ending.counts().totals(&self.taken)
    }
}

/// What the appending side counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub records: u64,
    pub bytes: u64,
    /// The most accepted bytes that were not written yet.
    pub high_water: u64,
    pub dropped: u64,
}

/// What the draining side counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub written: Progress,
    pub durable: Progress,
    pub unsynced_bytes: u64,
    pub is_syncing: bool,
    pub syncs: u64,
    pub failed_syncs: u64,
    pub slowest_sync: Duration,
}

impl Counts {
    pub fn totals(&self, taken: &Taken) -> Totals {
        Totals {
            accepted: taken.records,
            written: self.written.records,
            written_bytes: self.written.bytes,
            pending_bytes: taken.bytes.saturating_sub(self.written.bytes),
            high_water_bytes: taken.high_water,
            unsynced_bytes: self.unsynced_bytes,
            is_syncing: self.is_syncing,
            durable: self.durable.records,
            durable_bytes: self.durable.bytes,
            dropped: taken.dropped,
            syncs: self.syncs,
            failed_syncs: self.failed_syncs,
            slowest_sync: self.slowest_sync,
        }
    }
}

/// A failed sync, as reported to users. The caller adds the output's name.
pub(super) fn sync_error(cause: io::Error) -> Error {
    Error::new("", "syncing the file")
        .because(cause)
        .advise("Data already written may not survive a power cut")
}

/// A failed write, as reported to users. The caller adds the output's name.
pub(super) fn write_error(cause: io::Error) -> Error {
    let advice = match cause.raw_os_error() {
        Some(libc::ENOSPC) => "Make room, or write elsewhere",
        Some(libc::EDQUOT) => "The quota is used up: make room, or write elsewhere",
        Some(libc::EFBIG) => "The file size limit is reached (ulimit -f)",
        _ => "",
    };
    Error::new("", "writing").because(cause).advise(advice)
}
