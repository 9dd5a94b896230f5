//! The settings of a recorder.

use crate::session::SessionConfig;
use std::{path::PathBuf, time::Duration};

/// Files that may be unfinished at the same time: one that is recorded, and others that a slow disk still writes.
pub(super) const MAX_UNFINISHED: usize = 4;

/// Settings of a recorder.
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// Names the files: `a.pcapng` becomes `a_00001_20261121143000.pcapng`, and so on, with the local time of the trigger.
    pub path: PathBuf,
    /// How much before the trigger is written; `None`: all that is in memory.
    pub before: Option<Duration>,
    /// How much after the trigger is written.
    pub after: Duration,
    /// Settings of the sessions that write the files. Up to four may write at the same time, and each store may grow to a quarter of
    /// its limit.
    pub session: SessionConfig,
}
