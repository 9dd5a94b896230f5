//! `compact` and `rebuild --undelete` take turns.
//!
//! One copies records of expired segments to other pages, the other takes segments out of them. If both did so at once, a segment could come
//! back to the records after its rows were added, and the next `expire` would delete it. So each puts an object into a folder first, and lists
//! the folder afterwards. At least one of both sees the other one then, and gives up. Runs of the same kind do not disturb each other.
//!
//! The age of an object is the time since then by the clock of the store, which has just noted when it created our own object. So the clock of
//! this machine may be wrong by hours.

use crate::archive::{self, Archive};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant, SystemTime};

/// No sensor has a name that begins with a dot.
const FOLDER: &str = "sensors/.turns";
/// For others, a turn ends after an hour.
const MAX_AGE: Duration = Duration::from_secs(1800);

/// The right to change the records of expired segments.
#[derive(Debug)]
pub struct Turn {
    archive: Archive,
    key: String,
    since: Since,
    /// When it began, by the clock of the store.
    stored: SystemTime,
}

/// When a turn began. The first clock may be set, and the second one stops while the machine sleeps.
#[derive(Clone, Copy, Debug)]
struct Since(SystemTime, Instant);

impl Since {
    fn now() -> Since {
        Since(SystemTime::now(), Instant::now())
    }

    fn elapsed(&self) -> Duration {
        // An error: the clock was set back.
        let elapsed = self.0.elapsed().unwrap_or_default();
        elapsed.max(self.1.elapsed())
    }
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
        let since = Since::now();
        let begin = since.0.duration_since(SystemTime::UNIX_EPOCH);
        let (begin, process) = (begin.unwrap_or_default().as_nanos(), std::process::id());
        let key = format!("{FOLDER}/{}-{begin}-{process}.json", change.name());
        archive.put(&key, r#"{"schema":1}"#.into()).await?;
        let listed = archive.list(FOLDER).await?;
        let own = listed.iter().find(|it| it.location.as_ref() == key);
        let own =
            own.with_context(|| format!("{}: {key} was created and is not there", archive.name()))?;
        let turn = Turn {
            archive: archive.clone(),
            key,
            since,
            stored: own.last_modified.into(),
        };
        let mut is_free = true;
        for object in &listed {
            let name = object.location.filename().unwrap_or_default();
            match archive::is_young(object, turn.stored) {
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
        ensure!(
            self.since.elapsed() < MAX_AGE,
            "{}: merging the records of sensors took more than half an hour. Try again",
            self.archive.name()
        );
        Ok(())
    }

    /// The time by the clock of the store.
    pub(crate) fn now(&self) -> SystemTime {
        self.stored + self.since.elapsed()
    }

    /// Lets others go on.
    ///
    /// # Errors
    /// The store failed. The turn ends after an hour then.
    pub async fn end(self) -> Result<()> {
        self.archive.delete(&self.key).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::faulty::{Faulty, Put};
    use forebay_testing::folder::Folder;
    use std::{fs, sync::Arc};

    #[test]
    fn a_clock_that_is_hours_off_steals_no_turn_and_waits_for_none() {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            for ahead_s in [-3 * 3600, 0, 3 * 3600] {
                let folder = Folder::new();
                let plain = Archive::open(&folder.path("to"), true).unwrap();
                let archive = plain.wrapped(|store| {
                    let store = Faulty::over(store, Arc::new(|_: &str| Put::Done));
                    Arc::new(store.clock_ahead(ahead_s))
                });
                let take = async |it| Turn::take(&archive, it).await.unwrap();
                let merging = take(Change::Merge).await.unwrap();
                assert!(take(Change::Undelete).await.is_none(), "{ahead_s}");
                assert!(take(Change::Merge).await.is_some(), "{ahead_s}");
                let day = Duration::from_secs(86_400);
                let store =
                    SystemTime::now() - day + Duration::from_secs((86_400 + ahead_s) as u64);
                let error = merging
                    .now()
                    .duration_since(store)
                    .unwrap_or_else(|it| it.duration());
                assert!(error < Duration::from_secs(60), "{ahead_s}: {error:?}");
                // Both were killed: they hold up others for an hour.
                for (minutes, may) in [(50, false), (70, true)] {
                    for entry in fs::read_dir(folder.path("to/sensors/.turns")).unwrap() {
                        let path = entry.unwrap().path();
                        let file = fs::File::options().write(true).open(path).unwrap();
                        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
                        file.set_modified(then).unwrap();
                    }
                    let taken = take(Change::Undelete).await.is_some();
                    assert_eq!(taken, may, "{ahead_s} s, {minutes} minutes");
                }
            }
        });
    }
}
