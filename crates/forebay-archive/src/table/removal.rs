//! Removing the rows of segments.

use super::{MAX_TRIES, Rows, Table, TableFile, now_ms, transaction};
use crate::{
    archive::Archive,
    index::{Encoder, IndexFile},
    schema, segment,
};
use anyhow::{Context, Result};
use deltalake_core::{
    arrow::{
        array::{Array, BooleanArray, StringArray},
        compute::filter_record_batch,
    },
    kernel::Transaction,
    protocol::DeltaOperation,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::collections::HashSet;

impl Table {
    /// Removes all rows of these segments and adds `rows`, in one commit.
    ///
    /// # Errors
    /// The store failed, a file of the table is damaged, or the table is of a newer version.
    pub async fn replace_rows(&mut self, segments: &HashSet<&str>, rows: &[Rows]) -> Result<()> {
        for attempt in 0..MAX_TRIES {
            self.refresh().await?;
            let (mut old, mut new) = (Vec::new(), Vec::new());
            for file in self.files()? {
                match may_have(&file, segments) {
                    May::None => {}
                    May::Only => old.push(file),
                    May::Some => {
                        if let Some(rest) = without(&self.archive, &file, segments).await? {
                            new.extend(rest);
                            old.push(file);
                        }
                    }
                }
            }
            let mut transactions = Vec::new();
            for rows in rows {
                new.extend(rows.files.iter().cloned());
                if !self.has(&rows.segment).await? {
                    let id = transaction(&rows.segment);
                    transactions.push(Transaction::new_with_last_update(id, 1, Some(now_ms())));
                }
            }
            if old.is_empty() && new.is_empty() && transactions.is_empty() {
                return Ok(());
            }
            let mut actions = self.removals(&old, true)?;
            actions.extend(self.put(&new, true).await?.actions);
            let operation = DeltaOperation::Delete { predicate: None };
            if self
                .commit(actions, transactions, operation, attempt)
                .await?
            {
                return Ok(());
            }
        }
        Err(self.too_busy())
    }
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
    archive: &Archive,
    file: &TableFile,
    segments: &HashSet<&str>,
) -> Result<Option<Option<IndexFile>>> {
    let damaged = || {
        format!(
            "{}: the file {} of its index is damaged",
            archive.name(),
            file.key
        )
    };
    let bytes = archive.get(&file.key).await?.with_context(damaged)?;
    let batches = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|it| it.build());
    let mut rest = Encoder::new(&file.date)?;
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
        let staying = filter_record_batch(&batch, &stays).with_context(damaged)?;
        // Files of other writers may have other columns or types: these are an error here, not a loss.
        rest.put(&staying).with_context(damaged)?;
    }
    if !has_any {
        return Ok(None);
    }
    let rest = rest.finish()?;
    Ok(Some((rest.rows > 0).then_some(rest)))
}
