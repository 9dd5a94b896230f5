//! `compact`: merges small files of the table into larger ones.
//!
//! ```text
//!  small files of a date, in the order of time ─▶ groups ─▶ merge of sorted rows ─▶ one commit a group: old files out, new file in
//! ```
//! The rows stay the same, so commits have `dataChange: false`. A commit is only made while all old files of the group are still part of
//! the table, so a group that another `compact` or an `expire` has changed meanwhile is left alone, and planned anew. New rows of
//! `ship` change no file, and do not disturb. The old files stay in the store, for readers of earlier versions, until [`vacuum`] or
//! another program removes them. At the end, the accounts of the sensors are rolled up by day.

use crate::{
    archive::{Archive, StoreFault},
    clock,
    index::{self, IndexFile},
    ledger::{self, RolledUp},
    schema,
    table::{Table, TableFile},
};
use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, SystemTime},
};

/// The size of a file of the table that [`CompactConfig`] asks for by default.
pub const TARGET_BYTES: u64 = 32 << 20;
/// A file that is larger than this many times all others of its group stays: rewriting it would gain little.
const MAX_RATIO: u64 = 4;
/// Files that are fetched at the same time.
const FETCHED_AT_ONCE: usize = 16;

/// How the table is compacted.
#[derive(Clone, Copy, Debug)]
pub struct CompactConfig {
    /// The size of the new files, approximately. Files of at least half of it stay as they are.
    pub target_bytes: u64,
    /// Only count.
    pub dry_run: bool,
}

impl Default for CompactConfig {
    fn default() -> Self {
        CompactConfig {
            target_bytes: TARGET_BYTES,
            dry_run: false,
        }
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files of the table at the beginning.
    pub files_before: u64,
    /// Files that were replaced. A file that was made and merged again counts again.
    pub merged: u64,
    /// Their bytes.
    pub merged_bytes: u64,
    /// Files that replaced them; in a dry run, those that the first commits would make.
    pub made: u64,
    /// Their bytes; 0 in a dry run.
    pub made_bytes: u64,
    /// Groups that another program changed while they were merged.
    pub conflicts: u64,
    /// Files of the table at the end.
    pub files: u64,
    /// Objects of the log that were deleted.
    pub log_objects: u64,
    /// What was done with the accounts of the sensors; in a dry run, what would be done at first.
    pub accounts: RolledUp,
    /// Why the accounts could not be rolled up. The index was compacted nevertheless.
    pub accounts_error: Option<String>,
    /// Whether that was because of the store.
    pub store_failed: bool,
}

impl Compacted {
    fn account(&mut self, rolled: Result<RolledUp>) {
        match rolled {
            Ok(accounts) => self.accounts = accounts,
            Err(error) => {
                self.store_failed = StoreFault::is_cause(&error);
                self.accounts_error = Some(format!("{error:#}"));
            }
        }
    }
}

/// Merges small files until none are left, or until `progress`, which is called after each commit with the group and its new file,
/// returns `false`.
///
/// # Errors
/// The store failed, the table is of a newer version, or a file is damaged.
pub async fn compact(
    archive: &Archive,
    config: &CompactConfig,
    progress: &mut dyn FnMut(&[TableFile], &IndexFile) -> bool,
) -> Result<Compacted> {
    let mut done = Compacted::default();
    let Some(mut table) = Table::open(archive).await? else {
        bail!("{}: there is no index here", archive.name());
    };
    done.files_before = table.files()?.len() as u64;
    loop {
        let groups = groups(table.files()?, config.target_bytes);
        if config.dry_run {
            let files = || groups.iter().flatten();
            done.merged = files().count() as u64;
            done.merged_bytes = files().map(|it| it.bytes).sum();
            done.made = groups.len() as u64;
            done.files = done.files_before - done.merged + done.made;
            done.account(ledger::plan_roll_up(archive).await);
            return Ok(done);
        }
        let is_last = groups.is_empty();
        let mut goes_on = !is_last;
        for group in groups {
            let file = merge(archive, &group).await?;
            let replaced = table.replace(&group, std::slice::from_ref(&file));
            if !replaced.await? {
                done.conflicts += 1;
                continue;
            }
            done.merged += group.len() as u64;
            done.merged_bytes += group.iter().map(|it| it.bytes).sum::<u64>();
            done.made += 1;
            done.made_bytes += file.bytes.len() as u64;
            goes_on = progress(&group, &file);
            if !goes_on {
                break;
            }
        }
        if !goes_on {
            done.log_objects = table.clean_log().await?;
            if is_last {
                done.account(ledger::roll_up(archive).await);
            }
            done.files = table.files()?.len() as u64;
            return Ok(done);
        }
    }
}

/// The files to merge: those of one date that follow each other in time.
fn groups(files: Vec<TableFile>, target_bytes: u64) -> Vec<Vec<TableFile>> {
    let mut by_date: BTreeMap<String, Vec<TableFile>> = BTreeMap::new();
    for file in files {
        if file.bytes < target_bytes / 2 {
            by_date.entry(file.date.clone()).or_default().push(file);
        }
    }
    let mut groups = Vec::new();
    for (_, mut files) in by_date {
        files.sort_by_cached_key(|file| (first_ns(file), file.key.clone()));
        let mut group: Vec<TableFile> = Vec::new();
        let mut bytes = 0;
        for file in files {
            if bytes + file.bytes > target_bytes || group.len() == index::MAX_MERGED {
                groups.push(std::mem::take(&mut group));
                bytes = 0;
            }
            bytes += file.bytes;
            group.push(file);
        }
        groups.push(group);
    }
    for group in &mut groups {
        leave_large(group);
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Takes files from the group that are much larger than all smaller ones together.
fn leave_large(group: &mut Vec<TableFile>) {
    let mut sizes: Vec<u64> = group.iter().map(|it| it.bytes).collect();
    sizes.sort_unstable();
    let mut rest: u64 = sizes.iter().sum();
    while let Some(largest) = sizes.pop() {
        rest -= largest;
        if largest <= rest.saturating_mul(MAX_RATIO) {
            return;
        }
        group.retain(|it| it.bytes < largest);
    }
}

/// The time of the first packet of a file, by its statistics.
fn first_ns(file: &TableFile) -> i64 {
    let statistics = file.statistics.as_deref().unwrap_or_default();
    let statistics: Value = serde_json::from_str(statistics).unwrap_or_default();
    statistics["minValues"][schema::FIRST_NS]
        .as_i64()
        .unwrap_or(0)
}

/// The rows of these files, which have the same date, as one file.
async fn merge(archive: &Archive, files: &[TableFile]) -> Result<IndexFile> {
    let fetched = files.iter().map(async |file| {
        let bytes = archive.get(&file.key).await?;
        let (name, key) = (archive.name(), &file.key);
        let bytes =
            bytes.with_context(|| format!("{name}: the file {key} of its index is missing"))?;
        anyhow::Ok((bytes, file.damaged(archive)))
    });
    let fetched: Vec<_> = futures::stream::iter(fetched)
        .buffered(FETCHED_AT_ONCE)
        .try_collect()
        .await?;
    let file = index::merge(&files[0].date, fetched.into_iter())?;
    let rows = |file: &TableFile| {
        let statistics: Value = serde_json::from_str(file.statistics.as_deref()?).ok()?;
        statistics["numRecords"].as_u64()
    };
    // Statistics may be missing in files of other programs.
    if let Some(rows) = files.iter().map(rows).sum::<Option<u64>>() {
        ensure!(
            rows == file.rows,
            "{}: files of its index should have {rows} rows and have {}: it is damaged",
            archive.name(),
            file.rows
        );
    }
    Ok(file)
}

/// What [`vacuum`] deleted, or would delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacuumed {
    /// Parquet files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The shortest and the longest `older_than` of [`vacuum`].
pub const VACUUM_AGES: [Duration; 2] = [Duration::from_hours(24), Duration::from_hours(7 * 24)];

/// Deletes Parquet files that no version of the table younger than `older_than` needs.
///
/// A file is deleted if it is not part of the table, was written before that time, and was not removed from the table since. The time is
/// that of the store; with `dry_run`, which writes nothing, that of this machine. Removals have the times of the programs that made them,
/// so what this machine has removed is as old as its clock says. They are kept in the log for seven days, so that is the longest
/// `older_than`. The shortest is a day: a program may have written a file that it has not committed yet, and other programs read the
/// files of the version with which they began.
///
/// # Errors
/// The store failed, the table is of a newer version, or `older_than` is out of range.
pub async fn vacuum(archive: &Archive, older_than: Duration, dry_run: bool) -> Result<Vacuumed> {
    let [shortest, longest] = VACUUM_AGES;
    ensure!(
        (shortest..=longest).contains(&older_than),
        "files can be deleted that have not been needed for one to seven days"
    );
    let mut done = Vacuumed::default();
    let Some(mut table) = Table::open(archive).await? else {
        return Ok(done);
    };
    let now = match dry_run {
        true => SystemTime::now(),
        false => clock::of_store(archive).await?,
    };
    let before = |now_ms: i64| now_ms - older_than.as_millis() as i64;
    let cutoff = before(Timestamp::try_from(now)?.as_millisecond());
    // The objects first: what is committed later is in the table when it is read.
    let mut objects = archive.list(crate::table::FOLDER).await?;
    let prefix = format!("{}/{}=", crate::table::FOLDER, schema::DATE);
    objects.retain(|it| {
        let key = it.location.as_ref();
        let is_old = it.last_modified.timestamp_millis() < cutoff;
        key.starts_with(&prefix) && key.ends_with(".parquet") && is_old
    });
    table.refresh().await?;
    let mut needed: HashSet<String> = table.files()?.into_iter().map(|it| it.key).collect();
    // This program has noted its removals by its own clock, which may be slow.
    let removed = table.removed_since(cutoff.min(before(crate::table::now_ms())));
    needed.extend(removed.await?);
    for object in objects {
        if !needed.contains(object.location.as_ref()) {
            if !dry_run {
                archive.delete(object.location.as_ref()).await?;
            }
            done.files += 1;
            done.bytes += object.size;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(date: u8, minute: u64, bytes: u64) -> TableFile {
        let first_ns = minute * 60_000_000_000;
        TableFile {
            key: format!("index/date=2026-11-{date}/{minute}"),
            date: format!("2026-11-{date}"),
            bytes,
            packets: None,
            statistics: Some(format!(r#"{{"minValues":{{"first_ns":{first_ns}}}}}"#)),
        }
    }

    fn sizes(files: Vec<TableFile>) -> Vec<Vec<u64>> {
        let groups = groups(files, 1000);
        let sizes = |group: Vec<TableFile>| group.iter().map(|it| it.bytes).collect();
        groups.into_iter().map(sizes).collect()
    }

    #[test]
    fn groups_are_of_one_date_in_the_order_of_time_and_up_to_the_target() {
        let files = [
            (1, 3, 300),
            (1, 1, 400),
            (2, 0, 10),
            (1, 2, 350),
            (1, 4, 310),
            (2, 1, 20),
        ];
        let files = files.map(|(date, minute, bytes)| file(date, minute, bytes));
        assert_eq!(
            sizes(files.into()),
            [vec![400, 350], vec![300, 310], vec![10, 20]]
        );
        // Files of half the target stay, and a file alone.
        let files = [(1, 1, 500), (1, 2, 499), (2, 1, 10)];
        assert!(
            sizes(
                files
                    .map(|(date, minute, bytes)| file(date, minute, bytes))
                    .into()
            )
            .is_empty()
        );
    }

    #[test]
    fn a_file_stays_if_it_is_much_larger_than_all_smaller_ones() {
        let files = [430, 10, 85, 10].map(|bytes| file(1, bytes, bytes));
        assert_eq!(sizes(files.into()), [[10, 10]]);
        let files = [400, 10, 80, 10].map(|bytes| file(1, bytes, bytes));
        assert_eq!(sizes(files.into()), [[10, 10, 80, 400]]);
    }
}
