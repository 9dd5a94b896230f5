//! Checkpoints: the state of the table as a Parquet file with one action a row.
//!
//! A row becomes the same JSON as in a commit, so that both have one reader.

use super::{
    action::{Action, actions_in},
    state::State,
};
use anyhow::{Context, Result, ensure};
use arrow_json::{LineDelimitedWriter, ReaderBuilder};
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
    },
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use std::sync::Arc;

/// Rows that are converted at once.
const BATCH_ROWS: usize = 1024;
/// Columns that repeat others in other types.
const REPEATED: [&str; 2] = ["add.stats_parsed", "add.partitionValues_parsed"];

/// Adds the actions of a checkpoint, or of a part of one, to a state. The reader of Parquet files may panic on a damaged file.
pub(super) async fn read(bytes: Bytes, mut state: State) -> Result<State> {
    let read = tokio::task::spawn_blocking(move || {
        decode(bytes, |action| state.apply(action))?;
        Ok(state)
    });
    read.await.context("it is malformed")?
}

/// Reads a checkpoint, and compares it with the state that was written.
///
/// # Errors
/// It is malformed, or another one.
pub(super) async fn compare(bytes: Bytes, state: Arc<State>) -> Result<()> {
    let compare = tokio::task::spawn_blocking(move || {
        let mut written = state.actions();
        decode(bytes, |action| {
            let is_same = written.next().transpose()? == Some(action.normal());
            ensure!(is_same, "it has another action");
            Ok(())
        })?;
        ensure!(written.next().is_none(), "it lacks an action");
        Ok(())
    });
    compare.await.context("it is malformed")?
}

fn decode(bytes: Bytes, mut each: impl FnMut(Action) -> Result<()>) -> Result<()> {
    // Whatever types its writer had in memory, texts are read as the same type.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options)?;
    let columns = builder.parquet_schema();
    let wanted = (0..columns.num_columns()).filter(|number| {
        let path = columns.column(*number).path().string();
        !REPEATED.iter().any(|it| path.starts_with(it))
    });
    let mask = ProjectionMask::leaves(columns, wanted);
    for batch in builder
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .build()?
    {
        let mut json = LineDelimitedWriter::new(Vec::new());
        json.write(&batch?)?;
        json.finish()?;
        for action in actions_in(&json.into_inner()) {
            each(action?)?;
        }
    }
    Ok(())
}

/// The checkpoint of a state, and the number of its actions.
pub(super) async fn write(state: Arc<State>) -> Result<(Bytes, usize)> {
    tokio::task::spawn_blocking(move || encode(&state)).await?
}

fn encode(state: &State) -> Result<(Bytes, usize)> {
    let schema = schema();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    let mut rows = ReaderBuilder::new(schema)
        .with_batch_size(BATCH_ROWS)
        .build_decoder()?;
    let (mut actions, mut count) = (state.actions().peekable(), 0);
    while actions.peek().is_some() {
        let batch: Result<Vec<_>> = actions.by_ref().take(BATCH_ROWS).collect();
        let batch = batch?;
        count += batch.len();
        rows.serialize(&batch)?;
        if let Some(batch) = rows.flush()? {
            writer.write(&batch)?;
        }
    }
    Ok((writer.into_inner()?.into(), count))
}

fn schema() -> Arc<Schema> {
    use DataType::{Boolean, Int32, Int64, Utf8};
    let needed = |name: &str, kind| Field::new(name, kind, false);
    let optional = |name: &str, kind| Field::new(name, kind, true);
    let map = |name: &str, nullable| {
        let (key, value) = (needed("key", Utf8), optional("value", Utf8));
        Field::new_map(name, "key_value", key, value, false, nullable)
    };
    let action = |name: &str, fields: Vec<Field>| {
        Field::new(name, DataType::Struct(Fields::from(fields)), true)
    };
    let format = vec![needed("provider", Utf8), map("options", false)];
    Arc::new(Schema::new(vec![
        action(
            "protocol",
            vec![
                needed("minReaderVersion", Int32),
                needed("minWriterVersion", Int32),
            ],
        ),
        action(
            "metaData",
            vec![
                needed("id", Utf8),
                optional("name", Utf8),
                optional("description", Utf8),
                Field::new("format", DataType::Struct(format.into()), false),
                needed("schemaString", Utf8),
                Field::new_list("partitionColumns", needed("element", Utf8), false),
                optional("createdTime", Int64),
                map("configuration", false),
            ],
        ),
        action(
            "txn",
            vec![
                needed("appId", Utf8),
                needed("version", Int64),
                optional("lastUpdated", Int64),
            ],
        ),
        action(
            "remove",
            vec![
                needed("path", Utf8),
                optional("deletionTimestamp", Int64),
                needed("dataChange", Boolean),
                optional("extendedFileMetadata", Boolean),
                map("partitionValues", true),
                optional("size", Int64),
            ],
        ),
        action(
            "add",
            vec![
                needed("path", Utf8),
                map("partitionValues", false),
                needed("size", Int64),
                needed("modificationTime", Int64),
                needed("dataChange", Boolean),
                optional("stats", Utf8),
                map("tags", true),
            ],
        ),
    ]))
}
