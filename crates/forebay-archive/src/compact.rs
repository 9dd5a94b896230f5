//! `compact`: merges small files of the table into larger ones.
//!
//! ```text
//!  small files of a date, in the order of time ─▶ groups ─▶ merge of sorted rows ─▶ one commit a group: old files out, new file in
//! ```
//! The rows stay the same, so commits have `dataChange: false`. A commit is only made while all old files of the group are still part of
//! the table, so a group that another `compact` or an `expire` has changed meanwhile is left alone, and planned anew. New rows of
//! `ship` change no file, and do not disturb. The old files stay in the store, for readers of earlier versions, until [`vacuum`] or
//! another program removes them.

use crate::{
    archive::Archive,
    index::{self, IndexFile},
    schema,
    table::{Table, TableFile, now_ms},
};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use deltalake_core::arrow::{
    array::{ArrayRef, RecordBatch},
    compute::{CastOptions, cast_with_options, interleave_record_batch},
    row::{RowConverter, Rows, SortField},
};
use futures::{StreamExt, TryStreamExt};
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
        ParquetRecordBatchReaderBuilder,
    },
    file::metadata::PageIndexPolicy,
};
use serde_json::Value;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashSet, binary_heap::PeekMut},
    time::Duration,
};

/// The size of a file of the table that [`CompactConfig`] asks for by default.
pub const TARGET_BYTES: u64 = 32 << 20;
/// Files that are merged at the same time: each has a reader in memory.
const MAX_FILES: usize = 256;
/// A file that is larger than this many times all others of its group stays: rewriting it would gain little.
const MAX_RATIO: u64 = 4;
/// Files that are fetched at the same time.
const FETCHED_AT_ONCE: usize = 16;
/// Rows in memory, of all files together, and of a batch.
const ROWS_IN_MEMORY: usize = 128 << 10;
const BATCH_ROWS: [usize; 2] = [512, 8192];
/// Files with a reader that stays open. A reader has 160 KiB for the decompression of each column, so the readers of more files are
/// closed after each batch.
const MAX_READERS: usize = 16;
/// The order of the rows, as [`index::write`] makes it, and then by segment.
const ORDER: [&str; 6] = [
    schema::KEY_B,
    schema::KEY_A,
    schema::PORT_B,
    schema::PORT_A,
    schema::SEGMENT,
    schema::BLOCK_OFFSET,
];

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
            return Ok(done);
        }
        let mut goes_on = !groups.is_empty();
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
            if bytes + file.bytes > target_bytes || group.len() == MAX_FILES {
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
///
/// Files whose rows are not sorted, as other programs write them, are merged too; then the rows of the new file are not quite sorted.
async fn merge(archive: &Archive, files: &[TableFile]) -> Result<IndexFile> {
    let fetched = files.iter().map(async |file| {
        let bytes = archive.get(&file.key).await?;
        let damaged = || format!("{}: the file {} of its index", archive.name(), file.key);
        let bytes = bytes.with_context(|| format!("{} is missing", damaged()))?;
        // The places of pages, if the file has them, make it cheap to go on where the last reader ended.
        let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
        let metadata = ArrowReaderMetadata::load(&bytes, options);
        let metadata = metadata.with_context(|| format!("{} is damaged", damaged()))?;
        anyhow::Ok((bytes, metadata))
    });
    let fetched: Vec<_> = futures::stream::iter(fetched)
        .buffered(FETCHED_AT_ONCE)
        .try_collect()
        .await?;
    let file = Merging::new(fetched, files)?.run(&files[0].date)?;
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

/// A file that is being merged: its rows from the present batch on.
struct Source {
    key: String,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
    reader: Option<ParquetRecordBatchReader>,
    /// Rows that were read.
    read: usize,
    /// Where its present batch is in the list of batches.
    batch: usize,
    order: Rows,
    at: usize,
}

impl Source {
    /// The next rows; `None`: there are no more.
    fn next(&mut self, batch_rows: usize, stays_open: bool) -> Result<Option<RecordBatch>> {
        let rows = self.metadata.metadata().file_metadata().num_rows();
        if self.read as u64 >= rows.unsigned_abs() {
            return Ok(None);
        }
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                let (bytes, metadata) = (self.bytes.clone(), self.metadata.clone());
                ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata)
                    .with_batch_size(batch_rows)
                    .with_offset(self.read)
                    .build()?
            }
        };
        let Some(batch) = reader.next() else {
            return Ok(None);
        };
        let batch = batch?;
        self.read += batch.num_rows();
        self.reader = stays_open.then_some(reader);
        Ok(Some(conform(batch)?))
    }
}

struct Merging {
    converter: RowConverter,
    sources: Vec<Source>,
    /// Rows of a batch of a source, and whether its reader stays open.
    batch_rows: usize,
    stay_open: bool,
    /// The next row of each source. A smaller number of the source goes first.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    /// The present batches of the sources, and earlier ones with rows that wait.
    batches: Vec<RecordBatch>,
    /// Rows that wait to be written: batch and row.
    merged: Vec<(usize, usize)>,
}

impl Merging {
    fn new(fetched: Vec<(Bytes, ArrowReaderMetadata)>, files: &[TableFile]) -> Result<Merging> {
        let arrow = schema::arrow();
        let fields = ORDER.map(|name| {
            let field = arrow.field_with_name(name)?;
            anyhow::Ok(SortField::new(field.data_type().clone()))
        });
        let converter = RowConverter::new(fields.into_iter().collect::<Result<_>>()?)?;
        let mut merging = Merging {
            sources: Vec::with_capacity(fetched.len()),
            next: BinaryHeap::with_capacity(fetched.len()),
            batches: Vec::new(),
            merged: Vec::with_capacity(BATCH_ROWS[1]),
            batch_rows: (ROWS_IN_MEMORY / files.len()).clamp(BATCH_ROWS[0], BATCH_ROWS[1]),
            stay_open: files.len() <= MAX_READERS,
            converter,
        };
        for (number, ((bytes, metadata), file)) in fetched.into_iter().zip(files).enumerate() {
            merging.sources.push(Source {
                key: file.key.clone(),
                bytes,
                metadata,
                reader: None,
                read: 0,
                batch: 0,
                order: merging.converter.empty_rows(0, 0),
                at: 0,
            });
            if merging.refill(number)? {
                let row = merging.sources[number].order.row(0).as_ref().to_vec();
                merging.next.push(Reverse((row, number)));
            }
        }
        Ok(merging)
    }

    /// Reads the next batch of a source; `false`: it has ended.
    fn refill(&mut self, number: usize) -> Result<bool> {
        let source = &mut self.sources[number];
        loop {
            let batch = source.next(self.batch_rows, self.stay_open);
            let batch = batch
                .with_context(|| format!("the file {} of the index is damaged", source.key))?;
            let Some(batch) = batch else {
                return Ok(false);
            };
            if batch.num_rows() > 0 {
                source.order = convert(&mut self.converter, &batch)?;
                (source.batch, source.at) = (self.batches.len(), 0);
                self.batches.push(batch);
                return Ok(true);
            }
        }
    }

    fn run(mut self, date: &str) -> Result<IndexFile> {
        let mut output = index::Encoder::new(date)?;
        let mut next = std::mem::take(&mut self.next);
        while let Some(mut first) = next.peek_mut() {
            let number = first.0.1;
            let source = &mut self.sources[number];
            self.merged.push((source.batch, source.at));
            source.at += 1;
            if source.at < source.order.num_rows() || self.refill(number)? {
                let source = &self.sources[number];
                let row = &mut first.0.0;
                row.clear();
                row.extend_from_slice(source.order.row(source.at).as_ref());
            } else {
                PeekMut::pop(first);
            }
            if self.merged.len() == BATCH_ROWS[1] {
                self.put(&mut output)?;
            }
        }
        self.put(&mut output)?;
        output.finish()
    }

    /// Writes the rows that wait, and forgets the batches that are no longer needed.
    fn put(&mut self, output: &mut index::Encoder) -> Result<()> {
        if self.merged.is_empty() {
            return Ok(());
        }
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        output.put(&interleave_record_batch(&batches, &self.merged)?)?;
        self.merged.clear();
        let mut kept = Vec::with_capacity(self.sources.len());
        for source in &mut self.sources {
            if source.at < source.order.num_rows() {
                kept.push(self.batches[source.batch].clone());
                source.batch = kept.len() - 1;
            }
        }
        self.batches = kept;
        Ok(())
    }
}

fn convert(converter: &mut RowConverter, batch: &RecordBatch) -> Result<Rows> {
    let columns = ORDER.map(|name| batch.column_by_name(name).cloned());
    let columns: Option<Vec<ArrayRef>> = columns.into_iter().collect();
    Ok(converter.convert_columns(&columns.context("a column is missing")?)?)
}

/// The columns of the index in their order and with their types; other programs write other types.
fn conform(batch: RecordBatch) -> Result<RecordBatch> {
    let arrow = schema::arrow();
    if batch.schema_ref().fields() == arrow.fields() {
        return Ok(batch);
    }
    let columns = batch.schema();
    let is_other = |name: &str| name != schema::DATE && arrow.column_with_name(name).is_none();
    if let Some(other) = columns.fields().iter().find(|it| is_other(it.name())) {
        bail!("it has the column {}, which would be lost", other.name());
    }
    let column = |field: &deltalake_core::arrow::datatypes::FieldRef| -> Result<ArrayRef> {
        let column = batch.column_by_name(field.name());
        let column = column.with_context(|| format!("it has no column {}", field.name()))?;
        // A value that does not fit is an error, not null.
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        Ok(cast_with_options(column, field.data_type(), &options)?)
    };
    let columns = arrow.fields().iter().map(column).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(arrow, columns)?)
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
/// A file is deleted if it is not part of the table, was written before that time, and was not removed from the table since. The times
/// of removals are kept in the log for seven days, so that is the longest `older_than`. The shortest is a day: a program may have
/// written a file that it has not committed yet, and other programs read the files of the version with which they began.
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
    let cutoff = now_ms() - older_than.as_millis() as i64;
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
    needed.extend(table.removed_since(cutoff).await?);
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
