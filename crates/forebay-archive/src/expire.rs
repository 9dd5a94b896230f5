//! `expire`: removes old segments and their rows.
//!
//! ```text
//!  record what is removed ─▶ commit the removal of the rows ─▶ delete the segments
//! ```
//! In this order no row ever leads to a segment that is gone, and the packets of a segment count as expired from the first step on.
//! An `expire` that was killed is completed by the next one.

use crate::{
    archive::Archive,
    index::{IndexFile, encode},
    schema, segment,
    table::{Table, TableFile},
};
use anyhow::{Context, Result, bail};
use deltalake_core::arrow::{
    array::{Array, BooleanArray, Int64Array, RecordBatch, StringArray},
    compute::filter_record_batch,
};
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::{collections::HashSet, time::Duration};

/// Commits of other programs after which an error is reported.
const MAX_TRIES: u32 = 20;

/// Which segments are removed. A segment is removed if one of the limits asks for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireConfig {
    /// Segments whose last packet is older than this.
    pub older_than: Option<Duration>,
    /// The oldest segments, until the rest has at most this many bytes. Segments that cannot be read do not count.
    pub max_bytes: Option<u64>,
    /// Only count.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Segments.
    pub segments: u64,
    /// Their packets.
    pub packets: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
}

/// Removes old segments and their rows. `failed` is called with the error of each segment that cannot be read; such segments stay.
///
/// # Errors
/// The store failed, or the table is of a newer version.
pub async fn expire(
    archive: &Archive,
    config: &ExpireConfig,
    failed: &mut dyn FnMut(anyhow::Error),
) -> Result<Expired> {
    let mut objects = archive.list(segment::FOLDER).await?;
    objects.retain(|it| segment::parse_key(it.location.as_ref()).is_some());
    objects.sort_by_cached_key(|it| time_in_key(it.location.as_ref()));
    let now = (crate::table::now_ms() as u64).saturating_mul(1_000_000);
    let cutoff = config
        .older_than
        .map(|age| now.saturating_sub(age.as_nanos() as u64));
    let mut bytes: u64 = objects.iter().map(|it| it.size).sum();
    let mut chosen: Vec<(ObjectMeta, segment::Directory)> = Vec::new();
    for object in objects {
        let is_over = config.max_bytes.is_some_and(|max| bytes > max);
        // The time of its first packet is at least that of its hour.
        let may_be_old =
            cutoff.is_some_and(|cutoff| time_in_key(object.location.as_ref()) < time_of(cutoff));
        if !is_over && !may_be_old {
            break;
        }
        match archive
            .directory(object.location.as_ref(), Some(object.size))
            .await
        {
            Ok(directory) => {
                let is_old = cutoff.is_some_and(|cutoff| directory.last_ns.unwrap_or(now) < cutoff);
                if is_over || is_old {
                    bytes -= object.size;
                    chosen.push((object, directory));
                }
            }
            Err(error) => {
                // It stays, but no newer segment is removed in its place.
                bytes -= object.size;
                failed(error);
            }
        }
    }
    let done = Expired {
        segments: chosen.len() as u64,
        packets: chosen.iter().map(|(_, it)| it.packets).sum(),
        bytes: chosen.iter().map(|(it, _)| it.size).sum(),
    };
    if config.dry_run || chosen.is_empty() {
        return Ok(done);
    }
    for (object, directory) in &chosen {
        let key = object.location.as_ref();
        let record = json!({"schema": 1, "segment": key, "packets": directory.packets, "captured": directory.captured});
        let name = format!(
            "sensors/{}/expired-{}.json",
            directory.sensor, directory.sha256
        );
        archive.put_new(&name, record.to_string().into()).await?;
    }
    if let Some(mut table) = Table::open(archive).await? {
        let keys = chosen.iter().map(|(it, _)| it.location.as_ref()).collect();
        remove_rows(&mut table, &keys).await?;
    }
    for (object, _) in &chosen {
        archive.delete(object.location.as_ref()).await?;
    }
    Ok(done)
}

/// The date and the hour in the key of a segment, which sort as times do.
fn time_in_key(key: &str) -> (String, String) {
    let mut parts = key.split('/').skip(2).map(str::to_owned);
    (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    )
}

/// A time in the form of [`time_in_key`]: the end of its hour, because segments of this hour may be older.
fn time_of(time_ns: u64) -> (String, String) {
    let (date, hour) = segment::date_and_hour(time_ns.saturating_add(3_600_000_000_000));
    (format!("date={date}"), format!("hour={hour:02}"))
}

/// Removes all rows of these segments in one commit.
async fn remove_rows(table: &mut Table, segments: &HashSet<&str>) -> Result<()> {
    for _ in 0..MAX_TRIES {
        table.refresh().await?;
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for file in table.files()? {
            match may_have(&file, segments) {
                May::None => {}
                May::Only => old.push(file),
                May::Some => {
                    if let Some(rest) = without(table, &file, segments).await? {
                        new.extend(rest);
                        old.push(file);
                    }
                }
            }
        }
        if old.is_empty() || table.replace(&old, &new, true).await? {
            return Ok(());
        }
    }
    let name = table.archive().name();
    bail!("{name}: other programs committed to its index {MAX_TRIES} times in between. Try again")
}

enum May {
    None,
    Some,
    /// It has rows of one segment only, and that is one of them.
    Only,
}

/// What the statistics of a file say about rows of these segments.
fn may_have(file: &TableFile, segments: &HashSet<&str>) -> May {
    let statistics = file
        .statistics
        .as_deref()
        .and_then(|it| serde_json::from_str::<Value>(it).ok());
    let bound = |name: &str| {
        Some(
            statistics.as_ref()?[name][schema::SEGMENT]
                .as_str()?
                .to_owned(),
        )
    };
    let (Some(min), Some(max)) = (bound("minValues"), bound("maxValues")) else {
        return May::Some;
    };
    // Programs that rewrite the table may keep only the beginning of a bound.
    let has_whole_keys = [&min, &max]
        .iter()
        .all(|it| segment::parse_key(it).is_some());
    if !has_whole_keys {
        return May::Some;
    }
    match min == max {
        true if segments.contains(&*min) => May::Only,
        true => May::None,
        false if segments.iter().any(|it| (&*min..=&*max).contains(it)) => May::Some,
        false => May::None,
    }
}

/// The rows of a file without those of these segments, as a new file if any are left. `None`: it has no rows of them.
async fn without(
    table: &Table,
    file: &TableFile,
    segments: &HashSet<&str>,
) -> Result<Option<Option<IndexFile>>> {
    let archive = table.archive();
    let damaged = || {
        format!(
            "{}: the file {} of its index is damaged",
            archive.name(),
            file.key
        )
    };
    let bytes = archive.get(&file.key).await?.with_context(damaged)?;
    let batches = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|it| it.build());
    let mut rest: Vec<RecordBatch> = Vec::new();
    let mut has_any = false;
    for batch in batches.with_context(damaged)? {
        let batch = batch.with_context(damaged)?;
        let column = batch.column_by_name(schema::SEGMENT);
        let keys = column.and_then(|it| it.as_any().downcast_ref::<StringArray>());
        let stays: BooleanArray = keys
            .with_context(damaged)?
            .iter()
            .map(|it| it.map(|it| !segments.contains(it)))
            .collect();
        has_any |= stays.false_count() > 0;
        rest.push(filter_record_batch(&batch, &stays).with_context(damaged)?);
    }
    if !has_any {
        return Ok(None);
    }
    let packets = |batch: &RecordBatch| {
        let column = batch.column_by_name(schema::PACKETS)?;
        let column = column.as_any().downcast_ref::<Int64Array>()?;
        Some(column.values().iter().map(|&it| it as u64).sum::<u64>())
    };
    let packets = rest
        .iter()
        .map(packets)
        .sum::<Option<u64>>()
        .with_context(damaged)?;
    let rows: usize = rest.iter().map(RecordBatch::num_rows).sum();
    if rows == 0 {
        return Ok(Some(None));
    }
    // Files of other writers may have other columns or types: these are an error here, not a loss.
    encode(file.date.clone(), &rest, packets).map(|it| Some(Some(it)))
}
