//! Reading files of the index, whichever program has written them.

use crate::schema;
use anyhow::{Context, Result, bail};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{FieldRef, Schema};
use futures::{Stream, StreamExt};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderBuilder, ArrowReaderOptions},
    async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder},
};
use std::sync::Arc;

/// How files are opened. Writers note the types that they had in memory, such as `LargeUtf8` or a dictionary; these do not matter here.
pub(crate) fn options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// These columns of a file, with the types of the index. Only they are read.
pub(crate) async fn columns<R: AsyncFileReader + Unpin + Send + 'static>(
    file: R,
    columns: &[&str],
) -> Result<impl Stream<Item = Result<RecordBatch>> + use<R>> {
    let builder = ParquetRecordBatchStreamBuilder::new_with_options(file, options()).await?;
    let (builder, wanted) = projected(builder, columns)?;
    Ok(builder.build()?.map(move |batch| conform(batch?, &wanted)))
}

/// Reads only these columns.
fn projected<R>(
    builder: ArrowReaderBuilder<R>,
    columns: &[&str],
) -> Result<(ArrowReaderBuilder<R>, Arc<Schema>)> {
    known(builder.schema())?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    let all = schema::arrow();
    let wanted = columns.iter().map(|it| all.index_of(it));
    let wanted: Vec<usize> = wanted.collect::<Result<_, _>>()?;
    Ok((
        builder.with_projection(mask),
        Arc::new(all.project(&wanted)?),
    ))
}

/// A column of text of a batch of [`columns`].
pub(crate) fn texts<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b StringArray> {
    let column = batch.column_by_name(name);
    let texts = column.and_then(|it| it.as_any().downcast_ref());
    texts.with_context(|| format!("its column {name} is no text"))
}

/// Refuses a file with columns that would be lost.
fn known(columns: &Schema) -> Result<()> {
    let arrow = schema::arrow();
    let is_other = |name: &str| name != schema::DATE && arrow.column_with_name(name).is_none();
    match columns.fields().iter().find(|it| is_other(it.name())) {
        Some(other) => bail!("it has the column {}, which would be lost", other.name()),
        None => Ok(()),
    }
}

/// The columns of the index in their order and with their types; other programs write other types. A column that older files lack is null.
pub(super) fn conform(batch: RecordBatch, to: &Arc<Schema>) -> Result<RecordBatch> {
    if batch.schema_ref().fields() == to.fields() {
        return Ok(batch);
    }
    known(batch.schema_ref())?;
    let column = |field: &FieldRef| -> Result<ArrayRef> {
        let column = batch.column_by_name(field.name());
        if column.is_none() && schema::is_added(field.name()) {
            return Ok(new_null_array(field.data_type(), batch.num_rows()));
        }
        let column = column.with_context(|| format!("it has no column {}", field.name()))?;
        // A value that does not fit is an error, not null.
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        Ok(cast_with_options(column, field.data_type(), &options)?)
    };
    let columns = to.fields().iter().map(column).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(to.clone(), columns)?)
}
