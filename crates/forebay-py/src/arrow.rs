//! Packets as Arrow's record batches, over the same memory.

use crate::{
    error::Failure,
    packets::{Field as Column, Packets},
};
use arrow_array::{
    ArrayRef, BinaryViewArray, RecordBatch, RecordBatchIterator, TimestampNanosecondArray,
    UInt8Array, UInt32Array, UInt64Array, builder::make_view, ffi_stream::FFI_ArrowArrayStream,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use pyo3::{prelude::*, types::PyCapsule};
use std::sync::Arc;

fn schema() -> Schema {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let columns = [
        ("time", time),
        ("length", DataType::UInt32),
        ("wire_length", DataType::UInt32),
        ("interface", DataType::UInt32),
        ("direction", DataType::UInt8),
        ("dropped", DataType::UInt64),
        ("payload", DataType::BinaryView),
    ];
    Schema::new(
        columns
            .map(|(name, kind)| Field::new(name, kind, false))
            .to_vec(),
    )
}

fn words(packets: &Packets, column: Column) -> ArrayRef {
    Arc::new(UInt32Array::new(packets.column(column).into(), None))
}

fn batch(packets: &Arc<Packets>) -> Result<RecordBatch, ArrowError> {
    let payload = packets.payload();
    // A view holds the place of a packet in the payload, or its bytes if there are up to 12.
    let views = (0..packets.batch.len()).map(|index| {
        let range = packets.range(index);
        make_view(&payload[range.clone()], 0, range.start as u32)
    });
    let views: ScalarBuffer<u128> = views.collect::<Vec<_>>().into();
    let payload = BinaryViewArray::try_new(views, vec![payload], None)?;
    let time = TimestampNanosecondArray::new(packets.column(Column::Time).into(), None);
    let direction = UInt8Array::new(packets.column(Column::Direction).into(), None);
    let dropped = UInt64Array::new(packets.column(Column::Dropped).into(), None);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(time.with_timezone("UTC")),
        words(packets, Column::Length),
        words(packets, Column::WireLength),
        words(packets, Column::Interface),
        Arc::new(direction),
        Arc::new(dropped),
        Arc::new(payload),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns)
}

/// A capsule with a stream of `bursts`, each of less than 4 GiB. Its reader calls the iterator, on any thread and without the interpreter.
pub fn stream<'py>(
    py: Python<'py>,
    bursts: impl Iterator<Item = Result<Arc<Packets>, Failure>> + Send + 'static,
) -> Result<Bound<'py, PyCapsule>, Failure> {
    let batches = bursts.map(|packets| match packets {
        Ok(packets) => batch(&packets),
        Err(Failure::Forebay(error)) => Err(ArrowError::ExternalError(error.into())),
        Err(Failure::Python(error)) => Err(ArrowError::ExternalError(error.into())),
    });
    let reader = RecordBatchIterator::new(batches, Arc::new(schema()));
    let stream = FFI_ArrowArrayStream::new(Box::new(reader));
    Ok(PyCapsule::new_with_value(
        py,
        stream,
        c"arrow_array_stream",
    )?)
}
