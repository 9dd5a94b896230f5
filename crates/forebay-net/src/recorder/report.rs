//! What a recorder reports: the files that it begins and ends.

use crate::ledger::Ledger;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// What a recorder does.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecorderEvent<'a> {
    /// A file was begun.
    Began {
        /// Its name.
        path: &'a Path,
    },
    /// A file is complete, or has failed.
    Ended(&'a Cut),
    /// A trigger came while four files were still being written, and was refused.
    Refused,
}

/// A file, and what it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cut {
    /// Its name.
    pub path: PathBuf,
    /// Triggers that it was written for; all but the first one extended it.
    pub triggers: u64,
    /// Times of the first and of the last trigger, in nanoseconds since the Unix epoch.
    pub trigger_ns: (u64, u64),
    /// The packets do not begin `before` the trigger, because the memory does not hold that many.
    pub is_short: bool,
    /// The earliest and the latest time of a packet; `None` if there is no packet.
    pub packets_ns: Option<(u64, u64)>,
    /// The accounting of this file: `dropped.overrun` are packets that were overwritten in memory before they were written.
    pub ledger: Ledger,
    /// Packets with fewer bytes than they had on the wire.
    pub packets_cut: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Whether all of it is durable.
    pub durable: bool,
    /// Why the file is not complete, if it is not.
    pub error: Option<String>,
}

impl Cut {
    /// How long before the first trigger its packets begin.
    pub fn before(&self) -> Duration {
        let since = |first| self.trigger_ns.0.saturating_sub(first);
        Duration::from_nanos(self.packets_ns.map_or(0, |(first, _)| since(first)))
    }

    /// How long after the last trigger its packets end.
    pub fn after(&self) -> Duration {
        let until = |last: u64| last.saturating_sub(self.trigger_ns.1);
        Duration::from_nanos(self.packets_ns.map_or(0, |(_, last)| until(last)))
    }
}

/// All that a recorder has done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recorded {
    /// Complete files.
    pub files: u64,
    /// Files that are not complete.
    pub failed: u64,
    /// Packets that the files lack: `dropped` and `unread` of all of them.
    pub lost: u64,
    /// Triggers that were refused.
    pub refused: u64,
    /// The last 1000 files, in the order in which they ended.
    pub cuts: Vec<Cut>,
}

impl Recorded {
    /// Whether every file is complete.
    pub fn is_fine(&self) -> bool {
        self.refused + self.failed == 0
    }
}
