//! Merges sorted files of the index into one.

use super::{Encoder, IndexFile, read::conform};
use crate::schema;
use anyhow::{Context, Result};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_select::interleave::interleave_record_batch;
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    },
    file::metadata::PageIndexPolicy,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

/// Files that are merged at the same time, at most: each has a reader in memory.
pub(crate) const MAX_MERGED: usize = 256;
/// Rows in memory, of all files together, and of a batch.
const ROWS_IN_MEMORY: usize = 128 << 10;
const BATCH_ROWS: [usize; 2] = [512, 8192];
/// Files with a reader that stays open. A reader has 160 KiB for the decompression of each column, so the readers of more files are
/// closed after each batch.
const MAX_READERS: usize = 16;
/// The order of the rows, as [`write`](super::write) makes it, and then by segment.
const ORDER: [&str; 6] = [
    schema::KEY_B,
    schema::KEY_A,
    schema::PORT_B,
    schema::PORT_A,
    schema::SEGMENT,
    schema::BLOCK_OFFSET,
];

/// The rows of these Parquet files, which have the same date, as one file. `damaged`: the message if a file cannot be read.
///
/// There are at most [`MAX_MERGED`]. Files whose rows are not sorted, as other programs write them, are merged too; then the rows of the new file are not quite sorted.
///
/// # Errors
/// A file is damaged, or has other columns.
pub(crate) fn merge(
    date: &str,
    files: impl ExactSizeIterator<Item = (Bytes, String)>,
) -> Result<IndexFile> {
    Merging::new(files)?.run(date)
}

/// A file that is being merged: its rows from the present batch on.
struct Source {
    damaged: String,
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
        Ok(Some(conform(batch, &schema::arrow())?))
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
    fn new(files: impl ExactSizeIterator<Item = (Bytes, String)>) -> Result<Merging> {
        let arrow = schema::arrow();
        let fields = ORDER.map(|name| {
            let field = arrow.field_with_name(name)?;
            anyhow::Ok(SortField::new(field.data_type().clone()))
        });
        let converter = RowConverter::new(fields.into_iter().collect::<Result<_>>()?)?;
        let mut merging = Merging {
            sources: Vec::with_capacity(files.len()),
            next: BinaryHeap::with_capacity(files.len()),
            batches: Vec::new(),
            merged: Vec::with_capacity(BATCH_ROWS[1]),
            batch_rows: (ROWS_IN_MEMORY / files.len().max(1)).clamp(BATCH_ROWS[0], BATCH_ROWS[1]),
            stay_open: files.len() <= MAX_READERS,
            converter,
        };
        // The places of pages, if a file has them, make it cheap to go on where the last reader ended.
        let options = super::options().with_offset_index_policy(PageIndexPolicy::Optional);
        for (number, (bytes, damaged)) in files.enumerate() {
            let metadata = ArrowReaderMetadata::load(&bytes, options.clone());
            merging.sources.push(Source {
                metadata: metadata.with_context(|| damaged.clone())?,
                damaged,
                bytes,
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
            let batch = batch.with_context(|| source.damaged.clone())?;
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
        let rows = self.sources.iter().map(|it| {
            let rows = it.metadata.metadata().file_metadata().num_rows();
            u64::try_from(rows).unwrap_or(0)
        });
        let mut output = Encoder::new(date, rows.fold(0, u64::saturating_add))?;
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
    fn put(&mut self, output: &mut Encoder) -> Result<()> {
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
