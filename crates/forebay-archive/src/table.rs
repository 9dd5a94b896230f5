//! The index as a Delta table.
//!
//! Each commit is a new file of the log that is created only if it does not exist. If another program was faster, the table is read
//! again, and the decision what to commit is made again. So no commit is ever based on an old state.
//!
//! The commit that adds the rows of a segment has an application transaction with the sensor and the hash of the capture file. Rows
//! are only added if there is no such transaction, so repeating a commit adds nothing, also if its answer was lost.
//!
//! `expire` records what it removes, then removes rows. A program that adds rows looks for that record afterwards, and removes its rows
//! again if there is one; so does a program that finds the rows already there. So one of both removes them, in whatever order they come.
//!
//! Transactions are kept for seven days. Whether an older segment has rows is known from the rows themselves (`old.rs`).

mod catalogue;
mod dates;
mod log;
#[cfg(test)]
pub(crate) mod many_tests;
mod name;
mod old;
mod removal;
mod segments;
#[cfg(test)]
mod tests;

pub use catalogue::Catalogue;

use crate::{
    archive::{Archive, StoreFault},
    index::{self, IndexFile},
    ledger::Expired,
    schema,
};
use anyhow::{Context, Result, anyhow, ensure};
use dates::Dates;
use log::{
    Log,
    action::{Action, Add, Txn},
    packed::Packed,
};
pub use name::FOLDER;
use name::{day_of, transaction};
pub(crate) use name::{now_ms, unique};
use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

/// Commits that other programs may win before an error is reported.
const MAX_TRIES: u32 = 100;
/// The tag of a file with its packets.
const PACKETS_TAG: &str = "forebay.packets";
/// Files older than this are not committed.
const MAX_AGE_MS: u64 = 3_600_000;

/// The table of an archive, in the state of its last reading.
#[derive(Clone, Debug)]
pub struct Table {
    log: Log,
    dates: Dates,
    expired: Expired,
}

/// A file of the table.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// Its key in the archive.
    pub key: String,
    /// The date of its rows, as `2026-11-23`.
    pub date: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its statistics, as the JSON of the log: `numRecords`, `minValues`, `maxValues`, `nullCount`.
    pub statistics: Option<String>,
    /// The packets of its rows, by `SENSOR/DATE` of the segments. `None`: another program has written the file, or an older version.
    pub packets: Option<BTreeMap<String, u64>>,
}

impl TableFile {
    fn of(file: &Packed<Add>) -> Result<TableFile> {
        let file = file.unpack()?;
        let packets = file
            .tags
            .as_ref()
            .and_then(|it| it.get(PACKETS_TAG)?.as_deref());
        Ok(TableFile {
            key: file.key(),
            date: file.date().into(),
            bytes: file.size,
            packets: packets.and_then(|it| serde_json::from_str(it).ok()),
            statistics: file.stats,
        })
    }

    /// The error of reading it: that of the store, or that the file is damaged.
    pub(crate) fn unread(&self, archive: &Archive, error: anyhow::Error) -> anyhow::Error {
        match StoreFault::of(&error).filter(|it| !it.is_missing) {
            Some(fault) => fault.error(),
            None => error.context(self.damaged(archive)),
        }
    }

    /// The message if it is damaged.
    pub(crate) fn damaged(&self, archive: &Archive) -> String {
        let (name, key) = (archive.name(), &self.key);
        format!("{name}: the file {key} of its index is damaged")
    }
}

/// The path in the table of a file with this key.
fn path_of(key: &str) -> Option<&str> {
    key.strip_prefix(FOLDER)?.strip_prefix('/')
}

/// Files that were written, and that no commit refers to yet.
struct Added {
    actions: Vec<Action>,
    at_ms: i64,
}

impl Added {
    /// Whether this file is one of them.
    fn has(&self, file: &TableFile) -> bool {
        path_of(&file.key).is_some_and(|path| self.has_path(path))
    }

    /// As [`has`](Added::has), with the path of a file in the table.
    fn has_path(&self, path: &str) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|it| matches!(it, Action::Add(add) if add.path == path))
    }

    /// The paths of these files in the table.
    fn paths(&self) -> Vec<String> {
        let path = |it: &Action| match it {
            Action::Add(add) => Some(add.path.clone()),
            _ => None,
        };
        self.actions.iter().filter_map(path).collect()
    }

    /// Files that no commit refers to are deleted after a day or more (`compact --vacuum`). This program may have been suspended.
    fn check_age(&self) -> Result<()> {
        let is_fresh = now_ms().abs_diff(self.at_ms) < MAX_AGE_MS;
        ensure!(
            is_fresh,
            "committing to the index took more than an hour. Try again"
        );
        Ok(())
    }
}

/// The rows of one segment.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The key of the segment.
    pub segment: String,
    /// The rows.
    pub files: Vec<IndexFile>,
}

/// The rows of several segments, with one file for each date, or several if there are very many. A search opens each file, so fewer are
/// better.
fn merged(rows: &[Rows]) -> Result<Vec<IndexFile>> {
    let mut by_date: BTreeMap<&str, Vec<&IndexFile>> = BTreeMap::new();
    for file in rows.iter().flat_map(|it| &it.files) {
        by_date.entry(&file.date).or_default().push(file);
    }
    let mut merged = Vec::new();
    for (date, files) in by_date {
        for files in files.chunks(index::MAX_MERGED) {
            let damaged = || "merging the rows of several segments".to_owned();
            merged.push(match *files {
                [file] => file.clone(),
                _ => index::merge(date, files.iter().map(|it| (it.bytes.clone(), damaged())))?,
            });
        }
    }
    Ok(merged)
}

impl Table {
    /// Opens the table of an archive; `None`: there is none yet.
    ///
    /// # Errors
    /// The store failed, the log is damaged, or the table is of a newer version.
    pub async fn open(archive: &Archive) -> Result<Option<Table>> {
        let log = Log::open(archive).await?;
        Ok(log.map(|log| Table {
            log,
            dates: Dates::default(),
            expired: Expired::default(),
        }))
    }

    /// Opens the table of an archive, and creates it if there is none.
    ///
    /// # Errors
    /// As [`open`](Table::open).
    pub async fn open_or_create(archive: &Archive) -> Result<Table> {
        if let Some(table) = Table::open(archive).await? {
            return Ok(table);
        }
        Log::create(archive).await?;
        let table = Table::open(archive).await?;
        let name = archive.name();
        table.with_context(|| format!("{name}: the index was created and is not there"))
    }

    /// Reads what was committed since. If the table was replaced by another one, reads that.
    ///
    /// # Errors
    /// The store failed, the log is damaged, the table is of a newer version, or it is gone.
    pub async fn refresh(&mut self) -> Result<()> {
        let before = self.log.times_anew;
        self.log.refresh().await?;
        if self.log.times_anew != before {
            self.dates = Dates::default(); // they may be of another table
        }
        Ok(())
    }

    /// The version that was read.
    pub fn version(&self) -> u64 {
        self.log.version
    }

    /// The files that make up the table.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn files(&self) -> Result<Vec<TableFile>> {
        self.log.state.files.values().map(TableFile::of).collect()
    }

    /// Whether rows of this segment, packed or plain, were committed, as far as was read. Then the commit is durable, too.
    ///
    /// # Errors
    /// The store failed, or a file of the table is damaged.
    pub async fn has(&mut self, segment: &str) -> Result<bool> {
        let is_committed = self.is_committed(segment).await?;
        if is_committed {
            self.archive()
                .sync_names(&format!("{FOLDER}/_delta_log/0"))?;
        }
        Ok(is_committed)
    }

    /// Deletes what readers of the log need no longer. Returns the number of objects.
    ///
    /// # Errors
    /// The store failed.
    pub async fn clean_log(&mut self) -> Result<u64> {
        self.log.clean().await
    }

    /// Adds the rows of segments in one commit. Segments that were committed before are left out, and so are those that `expire`
    /// removes meanwhile. Returns the number of segments that were added.
    ///
    /// # Errors
    /// The store failed, or the table is of a newer version.
    pub async fn append(&mut self, rows: &[Rows]) -> Result<usize> {
        let added = self.append_new(rows).await?;
        Ok(added.into_iter().filter(|it| *it).count())
    }

    /// As [`append`](Table::append), and returns for each segment whether it was added.
    ///
    /// # Errors
    /// As [`append`](Table::append).
    pub async fn append_new(&mut self, rows: &[Rows]) -> Result<Vec<bool>> {
        let mut put: Option<(Vec<&Rows>, Added)> = None;
        for attempt in 0..MAX_TRIES {
            self.refresh().await?;
            let mut transactions: Vec<Action> = Vec::new();
            let (mut new, mut is_new) = (Vec::new(), Vec::new());
            let mut seen = HashSet::new();
            for rows in rows {
                // A batch may have the same segment twice.
                let is_first = seen.insert(transaction(&rows.segment));
                is_new.push(is_first && !self.has(&rows.segment).await?);
                if is_new.last() == Some(&true) {
                    new.push(rows);
                    transactions.push(committed(&rows.segment));
                }
            }
            if new.is_empty() {
                self.remove_expired_new(rows, &mut is_new).await?;
                return Ok(is_new);
            }
            let is_same = |(of, _): &(Vec<&Rows>, Added)| {
                of.len() == new.len()
                    && of.iter().zip(&new).all(|(of, it)| of.segment == it.segment)
            };
            let (_, added) = match put.take().filter(is_same) {
                Some(same) => put.insert(same),
                None => {
                    let rows: Vec<Rows> = new.iter().map(|it| (*it).clone()).collect();
                    // This can take seconds, and the caller may have to answer others meanwhile.
                    let files = tokio::task::spawn_blocking(move || merged(&rows));
                    let files = files.await.context("merging rows")?;
                    let on = || format!("{}: adding to its index", self.archive().name());
                    let added = self.put(files.with_context(on)?.iter(), true).await?;
                    put.insert((new, added))
                }
            };
            added.check_age()?;
            let paths = added.paths();
            transactions.extend(added.actions.iter().cloned());
            if self.commit("WRITE", transactions, attempt).await? {
                let added = rows.iter().map(|it| transaction(&it.segment)).collect();
                self.dates.added(paths, added);
                self.remove_expired_new(rows, &mut is_new).await?;
                return Ok(is_new);
            }
        }
        Err(self.too_busy())
    }

    /// After adding rows: removes those that `expire` does not want. They are not new then.
    async fn remove_expired_new(&mut self, rows: &[Rows], is_new: &mut [bool]) -> Result<()> {
        let added: Vec<&str> = rows.iter().map(|it| &*it.segment).collect();
        let expired = self.remove_expired(&added).await?;
        for (rows, is_new) in rows.iter().zip(is_new) {
            *is_new &= !expired.contains(&*rows.segment);
        }
        Ok(())
    }

    /// Replaces files of the table by others with the same rows. `false`: an old file is no longer part of the table; nothing was done.
    ///
    /// Other programs may have added files since the old ones were read; these stay.
    ///
    /// # Errors
    /// The store failed, or the table is of a newer version.
    pub async fn replace(&mut self, old: &[TableFile], new: &[IndexFile]) -> Result<bool> {
        let added = self.put(new.iter(), false).await?;
        for attempt in 0..MAX_TRIES {
            self.refresh().await?;
            // The answer to a commit was lost, and the commit was not.
            if self.log.state.files.keys().any(|it| added.has_path(it)) {
                return Ok(true);
            }
            let mut actions = self.removals(old, false)?;
            if actions.len() < old.len() {
                return Ok(false);
            }
            added.check_age()?;
            actions.extend(added.actions.iter().cloned());
            if self.commit("OPTIMIZE", actions, attempt).await? {
                return Ok(true);
            }
        }
        Err(self.too_busy())
    }

    /// The keys of files that were removed from the table since this time, in milliseconds since 1970. The log has those of the last
    /// seven days.
    ///
    /// # Errors
    /// The store failed.
    pub async fn removed_since(&self, time_ms: i64) -> Result<Vec<String>> {
        let removed = self.log.state.removed.iter();
        let is_recent = |time: Option<i64>| time.is_none_or(|it| it >= time_ms);
        let removed = removed.filter(|(_, (time, _))| is_recent(*time));
        Ok(removed
            .map(|(path, _)| format!("{FOLDER}/{path}"))
            .collect())
    }

    /// The removal of those of these files that are part of the table.
    fn removals(&self, old: &[TableFile], changes_rows: bool) -> Result<Vec<Action>> {
        let old: HashSet<&str> = old.iter().filter_map(|file| path_of(&file.key)).collect();
        let files = self.log.state.files.iter();
        let removed = files.filter(|(path, _)| old.contains(&***path));
        removed
            .map(|(_, file)| Ok(file.unpack()?.removal(now_ms(), changes_rows)))
            .collect()
    }

    /// Writes files that no commit refers to yet. Their names are new, so nothing is ever overwritten.
    async fn put(
        &self,
        files: impl Iterator<Item = &IndexFile>,
        data_change: bool,
    ) -> Result<Added> {
        let at_ms = now_ms();
        let mut actions = Vec::new();
        for file in files.filter(|file| file.rows > 0) {
            let path = format!("{}={}/part-{}.parquet", schema::DATE, file.date, unique());
            let key = format!("{FOLDER}/{path}");
            // If it exists, the store has answered an error after it had stored the file, and the request was repeated.
            self.archive().put_new(&key, file.bytes.clone()).await?;
            let mut add = Add::new(path, &file.date, file.bytes.len() as u64, now_ms());
            add.data_change = data_change;
            add.stats = Some(file.statistics.to_json());
            let packets = serde_json::to_string(&file.packets_by_day)?;
            add.tags = Some([(PACKETS_TAG.to_owned(), Some(packets))].into());
            actions.push(Action::Add(add));
        }
        Ok(Added { actions, at_ms })
    }

    /// Commits to the version after the one that was read. `false`: another program has created that version.
    async fn commit(
        &mut self,
        operation: &str,
        actions: Vec<Action>,
        attempt: u32,
    ) -> Result<bool> {
        let is_done = self.log.commit(operation, actions).await?;
        if !is_done {
            let wait = 10 * u64::from(attempt.min(20)) + u64::from(std::process::id() % 17);
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        Ok(is_done)
    }

    fn too_busy(&self) -> anyhow::Error {
        let name = self.archive().name();
        anyhow!(
            "{name}: other programs committed to its index {MAX_TRIES} times in between. Try again"
        )
    }

    /// The archive of the table.
    pub fn archive(&self) -> &Archive {
        &self.log.archive
    }
}

/// The transaction of a commit of its rows. Its version is the day of the segment, so that it can be forgotten later.
fn committed(segment: &str) -> Action {
    Action::Txn(Txn {
        app_id: transaction(segment),
        version: day_of(segment).unwrap_or(1),
        last_updated: Some(now_ms()),
    })
}
