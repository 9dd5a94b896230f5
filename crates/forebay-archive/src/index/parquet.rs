//! Rows as Parquet files: sorted, with bloom filters and statistics.

use super::{Row, community};
use crate::{
    schema::{self, Kind},
    segment,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use deltalake_core::arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StringBuilder,
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    file::properties::{BloomFilterPosition, WriterProperties, WriterVersion},
    schema::types::ColumnPath,
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt::Write, net::Ipv6Addr, sync::Arc};

/// Rows of a row group. Smaller groups let a reader skip more, and cost more bloom filters.
const GROUP_ROWS: usize = 128 << 10;

/// A Parquet file of one date.
#[derive(Clone, Debug)]
pub struct IndexFile {
    /// The date of its rows, as `2026-11-23`.
    pub date: String,
    /// The file.
    pub bytes: Bytes,
    /// Rows.
    pub rows: u64,
    /// The packets of these rows.
    pub packets: u64,
    /// Minima, maxima and nulls of its columns, for the log of the table.
    pub statistics: Statistics,
}

/// The statistics of a file in the form that Delta tables have.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    columns: Vec<Bounds>,
    rows: u64,
}

/// Of one column.
#[derive(Clone, Debug, Default)]
struct Bounds {
    min: Option<Value>,
    max: Option<Value>,
    nulls: u64,
}

impl Bounds {
    fn texts(&mut self, values: &StringArray) {
        let known = || values.iter().flatten();
        let (min, max) = (known().min(), known().max());
        let min = min.filter(|&min| {
            self.min
                .as_ref()
                .and_then(Value::as_str)
                .is_none_or(|it| min < it)
        });
        let max = max.filter(|&max| {
            self.max
                .as_ref()
                .and_then(Value::as_str)
                .is_none_or(|it| max > it)
        });
        self.widen(min.map(Value::from), max.map(Value::from));
    }

    fn numbers(&mut self, values: impl Iterator<Item = Option<i64>> + Clone) {
        let known = || values.clone().flatten();
        let (min, max) = (known().min(), known().max());
        let min = min.filter(|&min| {
            self.min
                .as_ref()
                .and_then(Value::as_i64)
                .is_none_or(|it| min < it)
        });
        let max = max.filter(|&max| {
            self.max
                .as_ref()
                .and_then(Value::as_i64)
                .is_none_or(|it| max > it)
        });
        self.widen(min.map(Value::from), max.map(Value::from));
    }

    fn widen(&mut self, min: Option<Value>, max: Option<Value>) {
        self.min = min.or(self.min.take());
        self.max = max.or(self.max.take());
    }
}

impl Statistics {
    /// As the JSON of an `add` action.
    pub fn to_json(&self) -> String {
        let of = |value: &dyn Fn(&Bounds) -> Option<Value>| -> Map<String, Value> {
            let columns = schema::COLUMNS[1..].iter().zip(&self.columns);
            columns
                .filter_map(|(column, bounds)| Some((column.name.into(), value(bounds)?)))
                .collect()
        };
        let value = serde_json::json!({
            "numRecords": self.rows,
            "minValues": of(&|it| it.min.clone()),
            "maxValues": of(&|it| it.max.clone()),
            "nullCount": of(&|it| Some(it.nulls.into())),
        });
        value.to_string()
    }

    /// Adds a batch of the index's columns.
    fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.columns
            .resize_with(batch.num_columns(), Bounds::default);
        for (bounds, values) in self.columns.iter_mut().zip(batch.columns()) {
            bounds.nulls += values.null_count() as u64;
            let values = values.as_any();
            if let Some(values) = values.downcast_ref::<StringArray>() {
                bounds.texts(values);
            } else if let Some(values) = values.downcast_ref::<Int64Array>() {
                bounds.numbers(values.iter());
            } else if let Some(values) = values.downcast_ref::<Int32Array>() {
                bounds.numbers(values.iter().map(|it| it.map(i64::from)));
            }
        }
    }
}

/// How the files are written.
pub fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        // A search reads the filters of all row groups with one request.
        .set_bloom_filter_position(BloomFilterPosition::End)
        .set_created_by(concat!("forebay-archive ", env!("CARGO_PKG_VERSION")).into());
    for column in schema::COLUMNS.iter().filter(|column| column.bloom) {
        let path = ColumnPath::from(column.name);
        // Filters are folded to the values that they have, so this limits only their size.
        let distinct = match column.kind {
            Kind::Int => 1 << 16,
            _ => GROUP_ROWS as u64,
        };
        properties = properties
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_fpp(path.clone(), 0.01)
            .set_column_bloom_filter_max_ndv(path, distinct);
    }
    // These have many values, or are sorted. Then a dictionary makes the file larger.
    for (name, encoding) in [
        (schema::ADDRESS_B, Encoding::PLAIN),
        (schema::PORT_A, Encoding::PLAIN),
        (schema::FIRST_NS, Encoding::DELTA_BINARY_PACKED),
        (schema::LAST_NS, Encoding::DELTA_BINARY_PACKED),
        (schema::COMMUNITY_ID, Encoding::PLAIN),
    ] {
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
    }
    properties.build()
}

/// Sorts the rows of a segment and writes them, one file for each date.
///
/// # Errors
/// The rows cannot be encoded.
pub fn write(rows: Vec<Row>, sensor: &str, key: &str) -> Result<Vec<IndexFile>> {
    let mut by_day: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_day
            .entry(row.first_ns / 86_400_000_000_000)
            .or_default()
            .push(row);
    }
    let mut files = Vec::new();
    for (_, mut rows) in by_day {
        rows.sort_unstable_by_key(|row| {
            let [a, b] = row.flow.addresses;
            (b, a, row.flow.ports[1], row.flow.ports[0], row.block.0)
        });
        let (date, _) = segment::date_and_hour(rows[0].first_ns);
        let mut encoder = Encoder::new(&date)?;
        encoder.put(&batch(&rows, sensor, key)?)?;
        files.push(encoder.finish()?);
    }
    Ok(files)
}

/// Writes batches of the index's columns as one file.
pub(crate) struct Encoder {
    date: String,
    writer: ArrowWriter<Vec<u8>>,
    packets: u64,
    statistics: Statistics,
}

impl Encoder {
    pub(crate) fn new(date: &str) -> Result<Encoder> {
        Ok(Encoder {
            date: date.into(),
            writer: ArrowWriter::try_new(Vec::new(), schema::arrow(), Some(properties()))?,
            packets: 0,
            statistics: Statistics::default(),
        })
    }

    pub(crate) fn put(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).context("encoding the index")?;
        let packets = batch
            .column_by_name(schema::PACKETS)
            .and_then(|it| it.as_any().downcast_ref::<Int64Array>())
            .context("encoding the index: a batch has no packets")?;
        self.packets += packets.values().iter().map(|&it| it as u64).sum::<u64>();
        self.statistics.add(batch);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<IndexFile> {
        let bytes = self.writer.into_inner().context("encoding the index")?;
        Ok(IndexFile {
            date: self.date,
            bytes: bytes.into(),
            rows: self.statistics.rows,
            packets: self.packets,
            statistics: self.statistics,
        })
    }
}

/// A column of texts that are made from values of the rows. Neighbours often have the same value, whose text is then made once. `put`
/// returns whether the value has a text.
fn texts<T: PartialEq>(
    rows: &[Row],
    of: impl Fn(&Row) -> Option<T>,
    put: impl Fn(&T, &mut String) -> bool,
) -> ArrayRef {
    let mut column = StringBuilder::with_capacity(rows.len(), rows.len() * 28);
    let mut last = None;
    let (mut text, mut has_text) = (String::new(), false);
    for row in rows {
        let value = of(row);
        if value != last {
            text.clear();
            has_text = value.as_ref().is_some_and(|it| put(it, &mut text));
            last = value;
        }
        column.append_option(has_text.then_some(&text));
    }
    Arc::new(column.finish())
}

fn batch(rows: &[Row], sensor: &str, key: &str) -> Result<RecordBatch> {
    let long = |of: &dyn Fn(&Row) -> u64| -> ArrayRef {
        let clamped = |row| i64::try_from(of(row)).unwrap_or(i64::MAX);
        Arc::new(Int64Array::from_iter_values(rows.iter().map(clamped)))
    };
    let int = |of: &dyn Fn(&Row) -> Option<i32>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int32Array>())
    };
    let address = |row: &Row, end: usize| row.flow.hosts().map(|_| row.flow.addresses[end]);
    let hosts = |end: usize| {
        let put = |address: &u128, text: &mut String| {
            write!(text, "{}", Ipv6Addr::from(*address).to_canonical()).is_ok()
        };
        texts(rows, |row| address(row, end), put)
    };
    let keys = |end: usize| {
        let put = |address: &u128, text: &mut String| {
            schema::put_key(*address, text);
            true
        };
        texts(rows, |row| address(row, end), put)
    };
    let port = |row: &Row, end: usize| row.flow.port_pair().map(|ports| ports[end].into());
    let repeated = |text: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|_| text)))
    };
    let column = |name: &str| match name {
        schema::SENSOR => repeated(sensor),
        schema::SEGMENT => repeated(key),
        schema::BLOCK_OFFSET => long(&|row| row.block.0),
        schema::BLOCK_LENGTH => long(&|row| row.block.1),
        schema::FIRST_NS => long(&|row| row.first_ns),
        schema::LAST_NS => long(&|row| row.last_ns),
        schema::ADDRESS_A => hosts(0),
        schema::PORT_A => int(&|row| port(row, 0)),
        schema::ADDRESS_B => hosts(1),
        schema::PORT_B => int(&|row| port(row, 1)),
        schema::KEY_A => keys(0),
        schema::KEY_B => keys(1),
        schema::PROTOCOL => int(&|row| row.flow.protocol().map(i32::from)),
        schema::ETHER_TYPE => int(&|row| row.flow.ether_type().map(i32::from)),
        schema::VLAN => int(&|row| row.flow.vlan().map(i32::from)),
        schema::VLAN_TAGS => int(&|row| Some(row.flow.tags.into())),
        schema::COMMUNITY_ID => texts(rows, |row| Some(row.flow), community::put),
        schema::PACKETS => long(&|row| row.packets),
        schema::BYTES => long(&|row| row.bytes),
        schema::TCP_FLAGS => int(&|row| Some(row.tcp_flags.into())),
        schema::LOST_KERNEL => long(&|row| row.lost_kernel),
        schema::LOST_INTERFACE => long(&|row| row.lost_interface),
        other => unreachable!("no column {other}"),
    };
    let columns = schema::COLUMNS[1..]
        .iter()
        .map(|it| column(it.name))
        .collect();
    RecordBatch::try_new(schema::arrow(), columns).context("building the index")
}
