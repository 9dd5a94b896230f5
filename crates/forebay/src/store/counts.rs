//! What a store counts: each side for itself, and the totals that users see.

use std::{ops::AddAssign, time::Duration};

/// Counts of a store, while it runs and at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

/// Adds the counts of another store.
impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        let Totals {
            accepted,
            written,
            written_bytes,
            pending_bytes,
            high_water_bytes,
            unsynced_bytes,
            is_syncing,
            durable,
            durable_bytes,
            dropped,
            syncs,
            failed_syncs,
            slowest_sync,
        } = other;
        self.accepted += accepted;
        self.written += written;
        self.written_bytes += written_bytes;
        self.pending_bytes += pending_bytes;
        self.high_water_bytes += high_water_bytes;
        self.unsynced_bytes += unsynced_bytes;
        self.is_syncing |= is_syncing;
        self.durable += durable;
        self.durable_bytes += durable_bytes;
        self.dropped += dropped;
        self.syncs += syncs;
        self.failed_syncs += failed_syncs;
        self.slowest_sync = self.slowest_sync.max(slowest_sync);
    }
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
    /// let mut totals = Totals::default();
    /// (totals.accepted, totals.written) = (9, 7);
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

/// A position: a number of whole records, and the bytes up to the end of the last of them, in all outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub records: u64,
    pub bytes: u64,
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
