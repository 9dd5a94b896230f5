//! Rows as Parquet files: sorted, with bloom filters and statistics.

use super::{community, row::Row};
use crate::{
    schema::{self, Kind},
    segment,
};
use anyhow::{Context, Result, bail};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, builder::StringBuilder,
};
use bytes::Bytes;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    data_type::ByteArray,
    file::{
        metadata::ParquetMetaData,
        properties::{BloomFilterPosition, WriterProperties, WriterVersion},
        statistics,
    },
    schema::types::ColumnPath,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    net::Ipv6Addr,
    sync::Arc,
};

/// Rows of a row group. Smaller groups let a reader skip more, and cost more bloom filters.
const GROUP_ROWS: usize = 128 << 10;
/// Rows that are made into columns together: they fit in the cache of a processor.
const BATCH_ROWS: usize = 2048;
/// Rows of a page. A search reads only the pages with rows that may match.
const PAGE_ROWS: usize = 4096;

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
    /// These by `SENSOR/DATE` of their segments.
    pub packets_by_day: BTreeMap<String, u64>,
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
    numbers: Option<(i64, i64)>,
    texts: Option<(String, String)>,
    nulls: u64,
}

impl Bounds {
    fn min(&self) -> Option<Value> {
        let number = self.numbers.map(|(min, _)| min.into());
        number.or_else(|| self.texts.as_ref().map(|(min, _)| min.as_str().into()))
    }

    fn max(&self) -> Option<Value> {
        let number = self.numbers.map(|(_, max)| max.into());
        number.or_else(|| self.texts.as_ref().map(|(_, max)| max.as_str().into()))
    }

    /// Adds those of a row group.
    fn add(&mut self, of: &statistics::Statistics) -> Result<()> {
        self.nulls += of.null_count_opt().context("nulls were not counted")?;
        match of {
            statistics::Statistics::Int32(of) => {
                let wide = |it: &i32| i64::from(*it);
                let added = of.min_opt().map(wide).zip(of.max_opt().map(wide));
                widen(&mut self.numbers, added);
            }
            statistics::Statistics::Int64(of) => {
                let added = of.min_opt().copied().zip(of.max_opt().copied());
                widen(&mut self.numbers, added);
            }
            statistics::Statistics::ByteArray(of) => {
                let text = |it: &ByteArray| it.as_utf8().map(str::to_owned);
                let [min, max] = [of.min_opt(), of.max_opt()].map(|it| it.map(text).transpose());
                widen(&mut self.texts, min?.zip(max?));
            }
            _ => bail!("a column has another type"),
        }
        Ok(())
    }
}

fn widen<T: PartialOrd>(bounds: &mut Option<(T, T)>, added: Option<(T, T)>) {
    *bounds = match (bounds.take(), added) {
        (Some((min, max)), Some((low, high))) => Some((
            if low < min { low } else { min },
            if high > max { high } else { max },
        )),
        (bounds, added) => bounds.or(added),
    };
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
            "minValues": of(&Bounds::min),
            "maxValues": of(&Bounds::max),
            "nullCount": of(&|it| Some(it.nulls.into())),
        });
        value.to_string()
    }

    /// Those of a file.
    fn of(metadata: &ParquetMetaData) -> Result<Statistics> {
        let mut all = Statistics::default();
        let columns = schema::COLUMNS.len() - 1;
        all.columns.resize_with(columns, Bounds::default);
        for group in metadata.row_groups() {
            all.rows += u64::try_from(group.num_rows())?;
            for (bounds, column) in all.columns.iter_mut().zip(group.columns()) {
                let of = column.statistics().context("there are no statistics")?;
                bounds.add(of)?;
            }
        }
        Ok(all)
    }
}

/// How a file is written that has at most this number of rows.
fn properties(rows: u64) -> WriterProperties {
    // Higher levels take more time and do not make these files smaller.
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        // A search reads the filters of all row groups with one request.
        .set_bloom_filter_position(BloomFilterPosition::End)
        // The log of the table has the same minima and maxima, and `expire` compares whole keys of segments.
        .set_statistics_truncate_length(None)
        .set_created_by(concat!("forebay-archive ", env!("CARGO_PKG_VERSION")).into());
    for column in schema::COLUMNS.iter().filter(|column| column.bloom) {
        let path = ColumnPath::from(column.name);
        // Filters are folded to the values that they have, so this limits only their size. Large ones take most of the time of a small file.
        let distinct = match column.kind {
            Kind::Int => 1 << 16,
            _ => GROUP_ROWS as u64,
        };
        let distinct = distinct.min(rows.max(1));
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

/// Sorts the rows of a segment, which are in the order of their blocks, and writes them: one file for each date.
///
/// # Errors
/// The rows cannot be encoded.
pub fn write(rows: Vec<Row>, sensor: &str, key: &str) -> Result<Vec<IndexFile>> {
    let order = order(&rows);
    let repeated = |text: &str| -> ArrayRef {
        let texts = std::iter::repeat_n(text, rows.len().min(BATCH_ROWS));
        Arc::new(StringArray::from_iter_values(texts))
    };
    let (sensor, segment) = (repeated(sensor), repeated(key));
    let mut files = Vec::new();
    for of_day in order.chunk_by(|a, b| day(&rows[*a]) == day(&rows[*b])) {
        let (date, _) = segment::date_and_hour(rows[of_day[0]].first_ns);
        let mut encoder = Encoder::new(&date, of_day.len() as u64)?;
        for numbers in of_day.chunks(BATCH_ROWS) {
            let rows: Vec<Row> = numbers.iter().map(|it| rows[*it]).collect();
            encoder.put(&batch(&rows, &sensor, &segment)?)?;
        }
        files.push(encoder.finish()?);
    }
    Ok(files)
}

/// Days since 1970.
fn day(row: &Row) -> u64 {
    row.first_ns / 86_400_000_000_000
}

/// The numbers of the rows in the order of date, endpoints and block. A flow has several rows, so flows are sorted instead of rows.
fn order(rows: &[Row]) -> Vec<usize> {
    type Key = (u64, u128, u128, u16, u16);
    let mut found: HashMap<Key, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut flows: Vec<(Key, usize)> = Vec::new();
    let flow_of = |row: &Row| {
        let ([a, b], [port_a, port_b]) = (row.flow.addresses, row.flow.ports);
        let key = (day(row), b, a, port_b, port_a);
        let number = *found.entry(key).or_insert(flows.len());
        match flows.get_mut(number) {
            Some((_, count)) => *count += 1,
            None => flows.push((key, 1)),
        }
        number
    };
    let flow_of: Vec<usize> = rows.iter().map(flow_of).collect();
    let mut sorted: Vec<usize> = (0..flows.len()).collect();
    sorted.sort_unstable_by_key(|it| flows[*it].0);
    // Where the next row of each flow belongs.
    let mut next = vec![0; flows.len()];
    let mut at = 0;
    for flow in sorted {
        next[flow] = at;
        at += flows[flow].1;
    }
    let mut order = vec![0; rows.len()];
    for (row, flow) in flow_of.into_iter().enumerate() {
        order[next[flow]] = row;
        next[flow] += 1;
    }
    order
}

/// Writes batches of the index's columns as one file.
pub(crate) struct Encoder {
    date: String,
    writer: ArrowWriter<Vec<u8>>,
    packets: HashMap<String, u64, foldhash::fast::RandomState>,
}

impl Encoder {
    /// A file with at most this number of rows. With more, its bloom filters exclude less.
    pub(crate) fn new(date: &str, rows: u64) -> Result<Encoder> {
        let properties = properties(rows);
        Ok(Encoder {
            date: date.into(),
            writer: ArrowWriter::try_new(Vec::new(), schema::arrow(), Some(properties))?,
            packets: HashMap::default(),
        })
    }

    pub(crate) fn put(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch).context("encoding the index")?;
        let packets = batch
            .column_by_name(schema::PACKETS)
            .and_then(|it| it.as_any().downcast_ref::<Int64Array>())
            .context("encoding the index: a batch has no packets")?;
        let segments = super::texts(batch, schema::SEGMENT)?;
        let mut at = 0;
        while at < segments.len() {
            let segment = segments.value(at);
            let same = (at..segments.len()).take_while(|it| segments.value(*it) == segment);
            let end = at + same.count();
            let numbers = (at..end).map(|it| packets.value(it) as u64);
            let sum = numbers.fold(0, u64::saturating_add);
            match self.packets.get_mut(segment) {
                Some(packets) => *packets = packets.saturating_add(sum),
                None => _ = self.packets.insert(segment.to_owned(), sum),
            }
            at = end;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<IndexFile> {
        let metadata = self.writer.finish().context("encoding the index")?;
        let statistics = Statistics::of(&metadata).context("encoding the index")?;
        let mut by_day = BTreeMap::new();
        for (segment, packets) in &self.packets {
            let (sensor, date, _) = segment::parse_key(segment).unwrap_or(("?", "?", ""));
            let sum: &mut u64 = by_day.entry(format!("{sensor}/{date}")).or_insert(0);
            *sum = sum.saturating_add(*packets);
        }
        Ok(IndexFile {
            date: self.date,
            bytes: std::mem::take(self.writer.inner_mut()).into(),
            rows: statistics.rows,
            packets: by_day.values().copied().fold(0, u64::saturating_add),
            packets_by_day: by_day,
            statistics,
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

fn longs(rows: &[Row], of: impl Fn(&Row) -> u64) -> ArrayRef {
    let clamped = |row| i64::try_from(of(row)).unwrap_or(i64::MAX);
    Arc::new(Int64Array::from_iter_values(rows.iter().map(clamped)))
}

fn ints(rows: &[Row], of: impl Fn(&Row) -> Option<i32>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int32Array>())
}

/// The columns of these rows. `sensor` and `segment` have at least as many values, which are all the same.
fn batch(rows: &[Row], sensor: &ArrayRef, segment: &ArrayRef) -> Result<RecordBatch> {
    let hosts = |end: usize| {
        let put = |address: &u128, text: &mut String| {
            write!(text, "{}", Ipv6Addr::from(*address).to_canonical()).is_ok()
        };
        texts(rows, |row| Some(row.flow.address_pair()?[end]), put)
    };
    let keys = |end: usize| {
        let put = |address: &u128, text: &mut String| {
            schema::put_key(*address, text);
            true
        };
        texts(rows, |row| Some(row.flow.address_pair()?[end]), put)
    };
    let port = |row: &Row, end: usize| row.flow.port_pair().map(|ports| ports[end].into());
    let column = |name: &str| match name {
        schema::SENSOR => sensor.slice(0, rows.len()),
        schema::SEGMENT => segment.slice(0, rows.len()),
        schema::BLOCK_OFFSET => longs(rows, |row| row.block.0),
        schema::BLOCK_LENGTH => longs(rows, |row| row.block.1),
        schema::FIRST_NS => longs(rows, |row| row.first_ns),
        schema::LAST_NS => longs(rows, |row| row.last_ns),
        schema::ADDRESS_A => hosts(0),
        schema::PORT_A => ints(rows, |row| port(row, 0)),
        schema::ADDRESS_B => hosts(1),
        schema::PORT_B => ints(rows, |row| port(row, 1)),
        schema::KEY_A => keys(0),
        schema::KEY_B => keys(1),
        schema::PROTOCOL => ints(rows, |row| row.flow.protocol().map(i32::from)),
        schema::ETHER_TYPE => ints(rows, |row| row.flow.ether_type().map(i32::from)),
        schema::VLAN => ints(rows, |row| row.flow.vlan().map(i32::from)),
        schema::VLAN_TAGS => ints(rows, |row| Some(row.flow.tags.into())),
        schema::COMMUNITY_ID => texts(rows, |row| Some(row.flow), community::put),
        schema::PACKETS => longs(rows, |row| row.packets),
        schema::BYTES => longs(rows, |row| row.bytes),
        schema::TCP_FLAGS => ints(rows, |row| Some(row.tcp_flags.into())),
        schema::LOST_KERNEL => longs(rows, |row| row.lost_kernel),
        schema::LOST_INTERFACE => longs(rows, |row| row.lost_interface),
        schema::NEXT_HEADER => ints(rows, |row| row.flow.next_header().map(i32::from)),
        other => unreachable!("no column {other}"),
    };
    let columns = schema::COLUMNS[1..]
        .iter()
        .map(|it| column(it.name))
        .collect();
    RecordBatch::try_new(schema::arrow(), columns).context("building the index")
}
