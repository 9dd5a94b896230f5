//! The index as a Delta table.
//!
//! Each commit is a new file of the log that is created only if it does not exist. If another program was faster, the table is read
//! again, and the decision what to commit is made again. So no commit is ever based on an old state, and deltalake-core's own
//! resolution of conflicts is not used: it lets two compactions of the same file pass, which would double its rows.
//!
//! The commit that adds the rows of a segment has an application transaction with the sensor and the hash of the capture file. Rows
//! are only added if there is no such transaction, so repeating a commit adds nothing, also if its answer was lost.
//!
//! `expire` records what it removes, then removes rows. A program that adds rows looks for that record afterwards, and removes its rows
//! again if there is one; so does a program that finds the rows already there. So one of both removes them, in whatever order they come.
//!
//! The transactions are kept in memory (`known.rs`). So whether a segment has rows is known after one request, if nothing was committed
//! since the last one.

mod catalogue;
mod known;
mod removal;
#[cfg(test)]
mod tests;
mod transactions;

pub use catalogue::Catalogue;

use crate::{
    archive::Archive,
    index::{self, IndexFile},
    schema, segment,
};
use anyhow::{Context, Result, anyhow, ensure};
use deltalake_core::{
    DeltaTable, DeltaTableError, ObjectStore,
    kernel::{
        Action, Add, LogicalFileView, Transaction,
        transaction::{CommitBuilder, CommitProperties, TransactionError},
    },
    logstore::{LogStoreRef, StorageConfig, default_logstore},
    operations::create::CreateBuilder,
    protocol::{DeltaOperation, SaveMode},
    table::config::TableProperty,
};
use futures::TryStreamExt;
use object_store::{path::Path, prefix::PrefixStore};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use transactions::{Found, Known};

/// The folder of the table in an archive.
pub const FOLDER: &str = "index";
/// Commits that other programs may win before an error is reported.
const MAX_TRIES: u32 = 100;
/// Commits from one checkpoint of the log to the next.
const CHECKPOINT_INTERVAL: u64 = 20;
/// Files older than this are not committed.
const MAX_AGE_MS: u64 = 3_600_000;

/// The table of an archive, in the state of its last reading.
#[derive(Clone, Debug)]
pub struct Table {
    archive: Archive,
    table: DeltaTable,
    known: Known,
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
}

impl TableFile {
    fn of(file: &LogicalFileView) -> TableFile {
        let mut partition = file.partition_values_map();
        TableFile {
            key: format!("{FOLDER}/{}", file.path()),
            date: partition.remove(schema::DATE).flatten().unwrap_or_default(),
            bytes: file.size() as u64,
            statistics: file.stats(),
        }
    }

    /// The message if it cannot be read.
    pub(crate) fn damaged(&self, archive: &Archive) -> String {
        let (name, key) = (archive.name(), &self.key);
        format!("{name}: the file {key} of its index is damaged")
    }
}

/// Files that were written, and that no commit refers to yet.
struct Added {
    actions: Vec<Action>,
    at_ms: i64,
}

impl Added {
    /// Whether this file is one of them.
    fn has(&self, file: &TableFile) -> bool {
        let path = file.key.strip_prefix("index/");
        path.is_some_and(|path| self.has_path(path))
    }

    /// As [`has`](Added::has), with the path of a file in the table.
    fn has_path(&self, path: &str) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|it| matches!(it, Action::Add(add) if add.path == path))
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
    /// The store failed, or the table is of a newer version.
    pub async fn open(archive: &Archive) -> Result<Option<Table>> {
        let table = opened(archive, async |log_store| {
            let mut table = DeltaTable::new(log_store);
            table.load().await.map(|()| table)
        });
        Ok(table.await?.map(|table| Table {
            archive: archive.clone(),
            table,
            known: Known::default(),
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
        let created = CreateBuilder::new()
            .with_log_store(log_store(archive)?)
            .with_table_name("forebay")
            .with_comment("One row for each flow in each block of a segment, by forebay-archive")
            .with_columns(schema::delta())
            .with_partition_columns([schema::DATE])
            .with_configuration_property(
                TableProperty::CheckpointInterval,
                Some(CHECKPOINT_INTERVAL.to_string()),
            )
            .with_save_mode(SaveMode::Ignore)
            .await;
        match (created, Table::open(archive).await?) {
            (_, Some(table)) => Ok(table),
            (Err(error), None) => Err(explain(archive, error, "creating its index")),
            (Ok(_), None) => Err(anyhow!(
                "{}: the index was created and is not there",
                archive.name()
            )),
        }
    }

    /// Reads what was committed since. If the table was replaced by another one, reads that.
    ///
    /// # Errors
    /// The store failed, the table is of a newer version, or it is gone.
    pub async fn refresh(&mut self) -> Result<()> {
        match self.look().await? {
            Found::Same => {}
            Found::Newer => {
                let updated = self.table.update_state().await;
                updated.map_err(|error| explain(&self.archive, error, "reading its index"))?;
            }
            Found::Other => {
                let opened = Table::open(&self.archive).await?;
                *self = opened
                    .with_context(|| format!("{}: its index is gone", self.archive.name()))?;
            }
        }
        Ok(())
    }

    /// The version that was read.
    pub fn version(&self) -> u64 {
        self.table.version().unwrap_or(0)
    }

    /// The files that make up the table.
    ///
    /// # Errors
    /// The table's log is damaged.
    pub fn files(&self) -> Result<Vec<TableFile>> {
        let state = self.table.snapshot().context("reading the index")?;
        let views = state.log_data();
        Ok(views.iter().map(|it| TableFile::of(&it)).collect())
    }

    /// Whether rows of this segment, packed or plain, were committed, as far as was read. Then the commit is durable, too.
    ///
    /// # Errors
    /// The store failed, or the log is damaged.
    pub async fn has(&mut self, segment: &str) -> Result<bool> {
        let is_committed = self.is_committed(segment).await?;
        if is_committed {
            self.archive.sync_names(&format!("{FOLDER}/_delta_log/0"))?;
        }
        Ok(is_committed)
    }

    /// Whether a segment is recorded as removed.
    async fn is_expired(&self, segment: &str) -> Result<bool> {
        let Some((sensor, _, sha256)) = segment::parse_key(segment) else {
            return Ok(false);
        };
        let record = segment::expired_record(sensor, sha256);
        Ok(self.archive.len(&record).await?.is_some())
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
            let mut transactions: Vec<Transaction> = Vec::new();
            let (mut new, mut is_new) = (Vec::new(), Vec::new());
            for rows in rows {
                let id = transaction(&rows.segment);
                // A batch may have the same segment twice.
                let is_here = transactions.iter().any(|it| it.app_id == id);
                is_new.push(!is_here && !self.has(&rows.segment).await?);
                if is_new.last() == Some(&true) {
                    new.push(rows);
                    transactions.push(Transaction::new_with_last_update(id, 1, Some(now_ms())));
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
                    let on = || format!("{}: adding to its index", self.archive.name());
                    let added = self.put(files.with_context(on)?.iter(), true).await?;
                    put.insert((new, added))
                }
            };
            added.check_age()?;
            let operation = DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: Some(vec![schema::DATE.into()]),
                predicate: None,
            };
            let is_done = self.commit(added.actions.clone(), transactions, operation, attempt);
            if is_done.await? {
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
            let state = self.table.snapshot().context("reading the index")?;
            let views = state.log_data();
            if views.iter().any(|it| added.has_path(&it.path())) {
                return Ok(true);
            }
            let mut actions = self.removals(old, false)?;
            if actions.len() < old.len() {
                return Ok(false);
            }
            added.check_age()?;
            actions.extend(added.actions.iter().cloned());
            let operation = DeltaOperation::Optimize {
                predicate: None,
                target_size: 0,
            };
            if self.commit(actions, Vec::new(), operation, attempt).await? {
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
        let state = self.table.snapshot().context("reading the index")?;
        let log_store = self.table.log_store();
        let removed = state.all_tombstones(log_store.as_ref());
        let removed: Vec<_> = removed
            .try_collect()
            .await
            .map_err(|error| explain(&self.archive, error, "reading its index"))?;
        let is_recent = |time: Option<i64>| time.is_none_or(|it| it == 0 || it >= time_ms);
        let removed = removed
            .iter()
            .filter(|it| is_recent(it.deletion_timestamp()));
        Ok(removed
            .map(|it| format!("{FOLDER}/{}", it.path()))
            .collect())
    }

    fn removals(&self, old: &[TableFile], changes_rows: bool) -> Result<Vec<Action>> {
        let state = self.table.snapshot().context("reading the index")?;
        let old: HashSet<&str> = old
            .iter()
            .filter_map(|file| file.key.strip_prefix("index/"))
            .collect();
        let views = state.log_data();
        let removed = views.iter().filter(|file| old.contains(&*file.path()));
        Ok(removed
            .map(|file| Action::Remove(file.remove_action(changes_rows)))
            .collect())
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
            self.archive.put_new(&key, file.bytes.clone()).await?;
            actions.push(Action::Add(Add {
                path,
                partition_values: HashMap::from([(
                    schema::DATE.to_owned(),
                    Some(file.date.clone()),
                )]),
                size: file.bytes.len() as i64,
                modification_time: now_ms(),
                data_change,
                stats: Some(file.statistics.to_json()),
                ..Add::default()
            }));
        }
        Ok(Added { actions, at_ms })
    }

    /// Commits to the version after the one that was read. `false`: another program has created that version.
    async fn commit(
        &mut self,
        actions: Vec<Action>,
        transactions: Vec<Transaction>,
        operation: DeltaOperation,
        attempt: u32,
    ) -> Result<bool> {
        let state = self.table.snapshot().context("reading the index")?.clone();
        let ids: Vec<_> = transactions
            .iter()
            .map(|it| transactions::id(&it.app_id))
            .collect();
        // Removing old log entries lists the whole log: only where the table has a new checkpoint, and if its properties allow it.
        let has_checkpoint = (self.version() + 2).is_multiple_of(CHECKPOINT_INTERVAL);
        let properties = CommitProperties::default()
            .with_max_retries(0)
            .with_cleanup_expired_logs((!has_checkpoint).then_some(false))
            .with_application_transactions(transactions);
        let commit = CommitBuilder::from(properties).with_actions(actions);
        let done = commit
            .build(Some(&state), self.table.log_store(), operation)
            .await;
        match done {
            Ok(done) => {
                self.known.committed(done.version, ids.into_iter());
                self.table.state = Some(done.snapshot);
                Ok(true)
            }
            Err(
                DeltaTableError::VersionAlreadyExists(_)
                | DeltaTableError::Transaction {
                    source:
                        TransactionError::MaxCommitAttempts(_) | TransactionError::CommitConflict(_),
                },
            ) => {
                let wait = 10 * u64::from(attempt.min(20)) + u64::from(std::process::id() % 17);
                tokio::time::sleep(Duration::from_millis(wait)).await;
                Ok(false)
            }
            Err(error) => Err(explain(&self.archive, error, "committing to its index")),
        }
    }

    fn too_busy(&self) -> anyhow::Error {
        let name = self.archive.name();
        anyhow!(
            "{name}: other programs committed to its index {MAX_TRIES} times in between. Try again"
        )
    }

    /// The archive of the table.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }
}

/// The application transaction of a segment: the same for each key that its capture file may have.
fn transaction(segment: &str) -> String {
    segment::identity(segment).unwrap_or_else(|| segment.to_owned())
}

/// Opens the table of an archive with `open`; `None`: there is none yet.
async fn opened<T>(
    archive: &Archive,
    open: impl AsyncFn(LogStoreRef) -> Result<T, DeltaTableError>,
) -> Result<Option<T>> {
    let mut is_there = false;
    loop {
        let error = match open(log_store(archive)?).await {
            Ok(table) => return Ok(Some(table)),
            Err(error) => error,
        };
        if is_there {
            return Err(explain(archive, error, "reading its index"));
        }
        // Without a table, reading it fails in several ways. It may have been created just now.
        let log = archive.list(&format!("{FOLDER}/_delta_log")).await?;
        is_there = !log.is_empty();
        if !is_there {
            return Ok(None);
        }
    }
}

fn log_store(archive: &Archive) -> Result<LogStoreRef> {
    let (root, url) = archive.root();
    let url = url
        .join(&format!("{FOLDER}/"))
        .context("naming the index")?;
    let prefixed = PrefixStore::new(archive.store().clone(), Path::from(FOLDER));
    let prefixed: Arc<dyn ObjectStore> = Arc::new(prefixed);
    Ok(default_logstore(
        prefixed,
        root.clone(),
        &url,
        &StorageConfig::default(),
    ))
}

/// A name that no other file has: 32 hexadecimal digits.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Each `RandomState` has new keys, which the system's random numbers seed.
    let random = |salt: u64| RandomState::new().hash_one((salt, std::process::id(), now_ms()));
    let next = NEXT.fetch_add(1, Relaxed); // it publishes nothing but itself
    format!("{:016x}{:016x}", random(next), random(!next))
}

pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_millis() as i64)
}

fn explain(archive: &Archive, error: DeltaTableError, tried: &str) -> anyhow::Error {
    if let DeltaTableError::ObjectStore { source } = error {
        return archive.explain(source, tried);
    }
    let text = error.to_string();
    let name = archive.name();
    let is_newer = [
        "nsupported",
        "reader version",
        "writer version",
        "table features",
    ];
    let what = match is_newer.iter().any(|word| text.contains(word)) {
        true => format!(
            "{name}: {tried}. The table is of a newer version than this program knows: install a newer forebay-archive"
        ),
        false => format!("{name}: {tried}"),
    };
    anyhow::Error::new(error).context(what)
}
