//! `compact` and `rebuild --undelete` take turns.
//!
//! One copies records of expired segments to other pages, the other takes segments out of them. If both did so at once, a segment could come
//! back to the records after its rows were added, and the next `expire` would delete it. So each puts an object into a folder first, and lists
//! the folder afterwards. At least one of both sees the other one then, and gives up. Runs of the same kind do not disturb each other.

use crate::archive::{self, Archive};
use anyhow::{Result, ensure};
use std::time::{Duration, SystemTime};

/// No sensor has a name that begins with a dot.
const FOLDER: &str = "sensors/.turns";
/// For others, a turn ends after an hour.
const MAX_AGE: Duration = Duration::from_secs(1800);

/// The right to change the records of expired segments.
#[derive(Debug)]
pub struct Turn {
    archive: Archive,
    key: String,
    since: SystemTime,
}

/// What changes these records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Segments are copied to other pages.
    Merge,
    /// Segments are taken out.
    Undelete,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Merge => "compact",
            Change::Undelete => "undelete",
        }
    }
}

impl Turn {
    /// `None`: a change of the other kind is running. A run that was killed holds up others for an hour.
    ///
    /// # Errors
    /// The store failed.
    pub async fn take(archive: &Archive, change: Change) -> Result<Option<Turn>> {
        let since = SystemTime::now();
        let begin = since.duration_since(SystemTime::UNIX_EPOCH);
        let (begin, process) = (begin.unwrap_or_default().as_nanos(), std::process::id());
        let key = format!("{FOLDER}/{}-{begin}-{process}.json", change.name());
        archive.put(&key, r#"{"schema":1}"#.into()).await?;
        let turn = Turn {
            archive: archive.clone(),
            key,
            since,
        };
        let mut is_free = true;
        for object in archive.list(FOLDER).await? {
            let name = object.location.filename().unwrap_or_default();
            match archive::is_young(&object) {
                true => is_free &= name.starts_with(change.name()),
                false => archive.delete(object.location.as_ref()).await?,
            }
        }
        if is_free {
            return Ok(Some(turn));
        }
        turn.end().await?;
        Ok(None)
    }

    /// Call this before each change: the process may have been suspended.
    ///
    /// # Errors
    /// The turn has lasted for too long.
    pub fn check(&self) -> Result<()> {
        // An error: the clock was set back.
        let age = self.since.elapsed().unwrap_or(MAX_AGE);
        ensure!(
            age < MAX_AGE,
            "{}: merging the records of sensors took more than half an hour. Try again",
            self.archive.name()
        );
        Ok(())
    }

    /// Lets others go on.
    ///
    /// # Errors
    /// The store failed. The turn ends after an hour then.
    pub async fn end(self) -> Result<()> {
        self.archive.delete(&self.key).await
    }
}
