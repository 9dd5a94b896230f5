//! Rows as Parquet files: sorted, with bloom filters and statistics.

use super::{Row, community};
use crate::{
    schema::{self, Kind},
    segment,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use deltalake_core::arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray,
};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::{WriterProperties, WriterVersion},
    schema::types::ColumnPath,
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, collections::HashMap, net::Ipv6Addr, sync::Arc};

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
    min: Map<String, Value>,
    max: Map<String, Value>,
    nulls: Map<String, Value>,
    rows: u64,
}

impl Statistics {
    fn text(&mut self, name: &str, values: &StringArray) {
        let known = || values.iter().flatten();
        self.put(
            name,
            known().min().map(Value::from),
            known().max().map(Value::from),
            values.len() - known().count(),
        );
    }

    fn numbers(&mut self, name: &str, values: impl Iterator<Item = Option<i64>> + Clone) {
        let known = || values.clone().flatten();
        let nulls = values.clone().filter(Option::is_none).count();
        self.put(
            name,
            known().min().map(Value::from),
            known().max().map(Value::from),
            nulls,
        );
    }

    fn put(&mut self, name: &str, min: Option<Value>, max: Option<Value>, nulls: usize) {
        for (of, value) in [(&mut self.min, min), (&mut self.max, max)] {
            if let Some(value) = value {
                of.insert(name.into(), value);
            }
        }
        self.nulls.insert(name.into(), nulls.into());
    }

    /// As the JSON of an `add` action.
    pub fn to_json(&self) -> String {
        let value = serde_json::json!({
            "numRecords": self.rows,
            "minValues": self.min,
            "maxValues": self.max,
            "nullCount": self.nulls,
        });
        value.to_string()
    }

    /// Of a batch of the index's columns.
    pub fn of(batch: &RecordBatch) -> Statistics {
        let mut statistics = Statistics {
            rows: batch.num_rows() as u64,
            ..Statistics::default()
        };
        for (column, values) in schema::COLUMNS[1..].iter().zip(batch.columns()) {
            let values = values.as_any();
            if let Some(values) = values.downcast_ref::<StringArray>() {
                statistics.text(column.name, values);
            } else if let Some(values) = values.downcast_ref::<Int64Array>() {
                statistics.numbers(column.name, values.iter());
            } else if let Some(values) = values.downcast_ref::<Int32Array>() {
                statistics.numbers(column.name, values.iter().map(|it| it.map(i64::from)));
            }
        }
        statistics
    }
}

/// How the files are written.
pub fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_created_by(concat!("forebay-archive ", env!("CARGO_PKG_VERSION")).into());
    for column in schema::COLUMNS.iter().filter(|column| column.bloom) {
        let path = ColumnPath::from(column.name);
        let distinct = match column.kind {
            Kind::Int => 4096,
            _ => 16_384,
        };
        properties = properties
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_fpp(path.clone(), 0.01)
            .set_column_bloom_filter_max_ndv(path, distinct);
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
    let mut ids = HashMap::new();
    let mut files = Vec::new();
    for (_, mut rows) in by_day {
        rows.sort_unstable_by_key(|row| {
            let [a, b] = row.flow.addresses;
            (b, a, row.flow.ports[1], row.flow.ports[0], row.block.0)
        });
        let (date, _) = segment::date_and_hour(rows[0].first_ns);
        let packets = rows.iter().map(|row| row.packets).sum();
        let batch = batch(&rows, sensor, key, &mut ids)?;
        files.push(encode(date, &[batch], packets)?);
    }
    Ok(files)
}

/// Writes batches of the index's columns as one file.
pub(crate) fn encode(date: String, batches: &[RecordBatch], packets: u64) -> Result<IndexFile> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema::arrow(), Some(properties()))?;
    for batch in batches {
        writer.write(batch).context("encoding the index")?;
    }
    writer.close().context("encoding the index")?;
    let whole;
    let batch = match batches {
        [one] => one,
        more => {
            whole = deltalake_core::arrow::compute::concat_batches(&schema::arrow(), more)?;
            &whole
        }
    };
    Ok(IndexFile {
        date,
        bytes: bytes.into(),
        rows: batch.num_rows() as u64,
        packets,
        statistics: Statistics::of(batch),
    })
}

type Ids = HashMap<super::Flow, Option<String>>;

fn batch(rows: &[Row], sensor: &str, key: &str, ids: &mut Ids) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&Row) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let long = |of: &dyn Fn(&Row) -> u64| -> ArrayRef {
        let clamped = |row| i64::try_from(of(row)).unwrap_or(i64::MAX);
        Arc::new(Int64Array::from_iter_values(rows.iter().map(clamped)))
    };
    let int = |of: &dyn Fn(&Row) -> Option<i32>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int32Array>())
    };
    let host = |row: &Row, end: usize| {
        let hosts = row.flow.hosts();
        hosts.map(|_| {
            Ipv6Addr::from(row.flow.addresses[end])
                .to_canonical()
                .to_string()
        })
    };
    let key_of = |row: &Row, end: usize| {
        let hosts = row.flow.hosts();
        hosts.map(|_| schema::key(row.flow.addresses[end]))
    };
    let port = |row: &Row, end: usize| row.flow.port_pair().map(|ports| ports[end].into());
    for row in rows {
        ids.entry(row.flow)
            .or_insert_with(|| community::id(&row.flow));
    }
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
        schema::ADDRESS_A => text(&|row| host(row, 0)),
        schema::PORT_A => int(&|row| port(row, 0)),
        schema::ADDRESS_B => text(&|row| host(row, 1)),
        schema::PORT_B => int(&|row| port(row, 1)),
        schema::KEY_A => text(&|row| key_of(row, 0)),
        schema::KEY_B => text(&|row| key_of(row, 1)),
        schema::PROTOCOL => int(&|row| row.flow.protocol().map(i32::from)),
        schema::ETHER_TYPE => int(&|row| row.flow.ether_type().map(i32::from)),
        schema::VLAN => int(&|row| row.flow.vlan().map(i32::from)),
        schema::VLAN_TAGS => int(&|row| Some(row.flow.tags.into())),
        schema::COMMUNITY_ID => text(&|row| ids.get(&row.flow).cloned().flatten()),
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
