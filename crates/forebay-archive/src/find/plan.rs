//! From the table to the blocks to read: files, row groups and rows that cannot match are left out on the way.

use super::{
    Request,
    index_file::IndexFile,
    predicate::{self, Flow, Truth},
    row_filter::{row_filter, with_views},
    statistics::Bounds,
};
use crate::{
    archive::Archive,
    schema,
    table::{Catalogue, TableFile},
};
use anyhow::{Context, Result};
use deltalake_core::arrow::array::{
    Array, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use forebay_net::filter::tree::{Test, Tree};
use futures::{StreamExt, TryStreamExt};
use jiff::{Timestamp, tz::TimeZone};
use parquet::{
    arrow::{
        ParquetRecordBatchStreamBuilder, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    },
    bloom_filter::Sbbf,
};
use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    pin::pin,
    sync::Arc,
};

/// Tasks that read files of the index at the same time, and the files that each reads at the same time.
const TASKS_AT_ONCE: usize = 4;
const FILES_OF_TASK: usize = 4;
/// Rows of an index file that are decoded at once.
const BATCH_ROWS: usize = 8192;

const COLUMNS: [&str; 15] = [
    schema::SENSOR,
    schema::SEGMENT,
    schema::BLOCK_OFFSET,
    schema::BLOCK_LENGTH,
    schema::FIRST_NS,
    schema::LAST_NS,
    schema::PORT_A,
    schema::PORT_B,
    schema::KEY_A,
    schema::KEY_B,
    schema::PROTOCOL,
    schema::ETHER_TYPE,
    schema::VLAN,
    schema::VLAN_TAGS,
    schema::PACKETS,
];

/// A block of a segment in which packets may match.
#[derive(Clone, Debug)]
pub struct Block {
    pub sensor: Arc<str>,
    pub segment: Arc<str>,
    pub offset: u64,
    pub length: u64,
    /// The earliest and latest time of packets that may match.
    pub span: (i64, i64),
    /// Rows that may match; only collected if the request is about flows.
    pub rows: Vec<Row>,
    /// Whether all packets of these rows match for certain, so that the index alone answers how many there are.
    pub is_certain: bool,
}

/// A row that may match.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub flow: Flow,
    pub span: (i64, i64),
    pub packets: u64,
    pub bytes: u64,
}

/// What to read, and how it was found.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub version: u64,
    /// Files of the table.
    pub files: u64,
    /// Of these, left out because of their date and the times of their rows.
    pub by_time: u64,
    /// Left out because of the minima and maxima of their columns.
    pub by_statistics: u64,
    /// Left out because of their bloom filters.
    pub by_bloom: u64,
    /// Row groups of the remaining files, and those that were read.
    pub groups: u64,
    pub groups_read: u64,
    /// Rows that were read, and those that may match.
    pub rows_read: u64,
    pub rows: u64,
    /// In the order of their earliest packets.
    pub blocks: Vec<Block>,
}

impl Plan {
    /// The bytes of the blocks, as stored.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|it| it.length).sum()
    }
}

/// Reads the index as far as it is needed.
///
/// # Errors
/// The store failed, or the index is damaged.
pub async fn plan(archive: &Archive, catalogue: &Catalogue, request: &Request) -> Result<Plan> {
    let mut plan = Plan {
        version: catalogue.version(),
        ..Plan::default()
    };
    let tree = request.filter.tree();
    let last_date = (request.to < i64::MAX)
        .then(|| date(request.to.saturating_sub(1)))
        .flatten();
    let search = Arc::new((archive.clone(), request.clone(), tree.clone()));
    let mut blocks: HashMap<(Arc<str>, u64), Block> = HashMap::new();
    {
        let counts = RefCell::new(&mut plan);
        // Files are opened while the log is still being read.
        let files = catalogue.files().try_filter_map(async |file| {
            let mut plan = counts.borrow_mut();
            plan.files += 1;
            let bounds = Bounds::of_file(file.statistics.as_deref());
            if last_date.as_ref().is_some_and(|last| file.date > *last)
                || !bounds.may_be_between(request.from, request.to)
            {
                plan.by_time += 1;
            } else if !request.may_be_in(&bounds)
                || predicate::matching(&tree, &bounds) == Truth::No
            {
                plan.by_statistics += 1;
            } else {
                return Ok(Some(file));
            }
            Ok(None)
        });
        let mut read = pin!(
            files
                .ready_chunks(FILES_OF_TASK)
                .map(|files| tokio::spawn(read_files(search.clone(), files)))
                .buffered(TASKS_AT_ONCE)
        );
        while let Some(found) = read.next().await {
            let mut plan = counts.borrow_mut();
            for found in found.context("reading the index")?? {
                plan.by_bloom += u64::from(found.groups_read == 0);
                plan.groups += found.groups;
                plan.groups_read += found.groups_read;
                plan.rows_read += found.rows_read;
                plan.rows += found.rows;
                for block in found.blocks {
                    match blocks.entry((block.segment.clone(), block.offset)) {
                        Entry::Vacant(vacant) => {
                            vacant.insert(block);
                        }
                        Entry::Occupied(mut same) => {
                            let same = same.get_mut();
                            same.span =
                                (same.span.0.min(block.span.0), same.span.1.max(block.span.1));
                            same.is_certain &= block.is_certain;
                            same.rows.extend(block.rows);
                        }
                    }
                }
            }
        }
    }
    plan.blocks = blocks.into_values().collect();
    let order = |block: &Block| (block.span.0, block.segment.clone(), block.offset);
    plan.blocks.sort_by_cached_key(order);
    Ok(plan)
}

/// The date (UTC) of a time; `None`: beyond all dates.
fn date(time_ns: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(time_ns.into()).ok()?;
    Some(time.to_zoned(TimeZone::UTC).date().to_string())
}

/// What a file of the index holds for a request.
struct Found {
    groups: u64,
    groups_read: u64,
    rows_read: u64,
    rows: u64,
    blocks: Vec<Block>,
}

/// An archive, and what to find there.
type Search = (Archive, Request, Tree);

async fn read_files(search: Arc<Search>, files: Vec<Result<TableFile>>) -> Result<Vec<Found>> {
    let (archive, request, tree) = &*search;
    let read = files
        .into_iter()
        .map(async |file| read_file(archive, &file?, request, tree).await);
    futures::future::try_join_all(read).await
}

async fn read_file(
    archive: &Archive,
    file: &TableFile,
    request: &Request,
    tree: &Tree,
) -> Result<Found> {
    let name = || format!("{}: reading {} of its index", archive.name(), file.key);
    let mut reader = IndexFile::open(archive, file).await.with_context(name)?;
    let groups = candidates(&reader, request, tree)
        .await
        .with_context(name)?;
    let mut found = Found {
        groups: reader.metadata.num_row_groups() as u64,
        groups_read: groups.len() as u64,
        rows_read: 0,
        rows: 0,
        blocks: Vec::new(),
    };
    if groups.is_empty() {
        return Ok(found);
    }
    reader.read_pages().await.with_context(name)?;
    let metadata = reader.metadata.clone();
    for (group, _) in &groups {
        found.rows_read += metadata.row_group(*group).num_rows().unsigned_abs();
    }
    let open = |options| ArrowReaderMetadata::try_new(metadata.clone(), options);
    let arrow = open(ArrowReaderOptions::new()).with_context(name)?;
    let views = ArrowReaderOptions::new().with_schema(with_views(arrow.schema()));
    let arrow = open(views).with_context(name)?;
    let mut wanted = COLUMNS.to_vec();
    if request.is_about_flows() {
        wanted.push(schema::BYTES);
    }
    let mask = ProjectionMask::columns(metadata.file_metadata().schema_descr(), wanted);
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, arrow);
    let mut builder = builder
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .with_row_groups(groups.iter().map(|it| it.0).collect());
    if let Some(filter) = row_filter(tree, &metadata, &groups) {
        builder = builder.with_row_filter(filter);
    }
    let mut batches = builder.build().with_context(name)?;
    let mut blocks: HashMap<(Arc<str>, u64), Block> = HashMap::new();
    let mut names = HashMap::new();
    while let Some(batch) = batches.try_next().await.with_context(name)? {
        found.rows +=
            read_rows(&batch, request, tree, &mut names, &mut blocks).with_context(name)?;
    }
    found.blocks = blocks.into_values().collect();
    Ok(found)
}

/// The row groups in which a row may match, in order.
async fn candidates(
    file: &IndexFile,
    request: &Request,
    tree: &Tree,
) -> Result<Vec<(usize, Bounds)>> {
    let mut groups = Vec::new();
    for (number, group) in file.metadata.row_groups().iter().enumerate() {
        let bounds = Bounds::of_group(group);
        let may = bounds.may_be_between(request.from, request.to) && request.may_be_in(&bounds);
        if may && predicate::matching(tree, &bounds) != Truth::No {
            groups.push((number, bounds));
        }
    }
    let mut useful = Vec::new();
    bloomed(tree, &mut useful);
    let mut filters = Vec::new();
    for (at, (number, _)) in groups.iter().enumerate() {
        for column in file.metadata.row_group(*number).columns() {
            let name = column.column_path().string();
            let name = useful.iter().find(|it| **it == name);
            if let (Some(name), Some(offset), Some(length)) = (
                name,
                column.bloom_filter_offset(),
                column.bloom_filter_length(),
            ) {
                let begin = u64::try_from(offset).context("a bloom filter lies before the file")?;
                filters.push((at, *name, begin..begin + u64::from(length.unsigned_abs())));
            }
        }
    }
    let ranges: Vec<_> = filters.iter().map(|(.., range)| range.clone()).collect();
    let bytes = file.ranges(&ranges).await?;
    for ((at, name, _), bytes) in filters.into_iter().zip(bytes) {
        groups[at].1.add_bloom(name, Sbbf::from_bytes(&bytes)?);
    }
    groups.retain(|(_, bounds)| predicate::matching(tree, bounds) != Truth::No);
    Ok(groups)
}

/// The columns whose bloom filters can exclude rows.
fn bloomed(tree: &Tree, columns: &mut Vec<&'static str>) {
    let mut add = |these: [&'static str; 2]| {
        if !columns.contains(&these[0]) {
            columns.extend(these);
        }
    };
    match tree {
        Tree::And(all) | Tree::Or(all) => all.iter().for_each(|it| bloomed(it, columns)),
        Tree::Test(Test::Address { network, .. }, _) if network.range().0 == network.range().1 => {
            add([schema::KEY_A, schema::KEY_B]);
        }
        Tree::Test(Test::Ports { .. }, _) => add([schema::PORT_A, schema::PORT_B]),
        _ => {}
    }
}

/// Adds the rows that may match to their blocks; returns their number.
fn read_rows(
    batch: &RecordBatch,
    request: &Request,
    tree: &Tree,
    names: &mut HashMap<String, Arc<str>>,
    blocks: &mut HashMap<(Arc<str>, u64), Block>,
) -> Result<u64> {
    let mut found = 0;
    let [sensor, segment] =
        [schema::SENSOR, schema::SEGMENT].map(|it| column::<StringArray>(batch, it));
    let [key_a, key_b] =
        [schema::KEY_A, schema::KEY_B].map(|it| column::<StringViewArray>(batch, it));
    let [offset, length, first, last, packets] = [
        schema::BLOCK_OFFSET,
        schema::BLOCK_LENGTH,
        schema::FIRST_NS,
        schema::LAST_NS,
        schema::PACKETS,
    ]
    .map(|it| column::<Int64Array>(batch, it));
    let [port_a, port_b, protocol, ether_type, vlan, tags] = [
        schema::PORT_A,
        schema::PORT_B,
        schema::PROTOCOL,
        schema::ETHER_TYPE,
        schema::VLAN,
        schema::VLAN_TAGS,
    ]
    .map(|it| column::<Int32Array>(batch, it));
    let bytes = match request.is_about_flows() {
        true => Some(column::<Int64Array>(batch, schema::BYTES)?),
        false => None,
    };
    let (sensor, segment, key_a, key_b) = (sensor?, segment?, key_a?, key_b?);
    let (offset, length, first, last, packets) = (offset?, length?, first?, last?, packets?);
    let (port_a, port_b, protocol, ether_type, vlan, tags) =
        (port_a?, port_b?, protocol?, ether_type?, vlan?, tags?);
    let mut shared = |name: &str| match names.get(name) {
        Some(name) => name.clone(),
        None => names.entry(name.into()).or_insert(name.into()).clone(),
    };
    for at in 0..batch.num_rows() {
        // The losses of a segment without packets.
        if packets.value(at) == 0 {
            continue;
        }
        let span = (first.value(at), last.value(at));
        if !request.is_before_end(span.0)
            || span.1 < request.from
            || !request.is_of(sensor.value(at))
        {
            continue;
        }
        let both = |a: Option<u16>, b: Option<u16>| Some([a?, b?]);
        let key = |keys: &StringViewArray| {
            keys.is_valid(at)
                .then(|| u128::from_str_radix(keys.value(at), 16))
                .transpose()
        };
        let flow = Flow {
            tags: small(tags, at)?.map(u32::from),
            vlan: small(vlan, at)?,
            ether_type: small(ether_type, at)?,
            protocol: small(protocol, at)?.map(|it| it as u8),
            addresses: match (key(key_a)?, key(key_b)?) {
                (Some(a), Some(b)) => Some([a, b]),
                _ => None,
            },
            ports: both(small(port_a, at)?, small(port_b, at)?),
        };
        let matches = predicate::matching(tree, &flow);
        if matches == Truth::No {
            continue;
        }
        let is_inside = span.0 >= request.from && request.is_before_end(span.1);
        let is_certain = is_inside && matches == Truth::Yes && predicate::is_certain(tree, &flow);
        let begin = u64::try_from(offset.value(at)).context("a block lies before its segment")?;
        let block = blocks.entry((shared(segment.value(at)), begin));
        let block = block.or_insert_with_key(|(segment, offset)| Block {
            sensor: shared(sensor.value(at)),
            segment: segment.clone(),
            offset: *offset,
            length: length.value(at).unsigned_abs(),
            span,
            rows: Vec::new(),
            is_certain: true,
        });
        block.span = (block.span.0.min(span.0), block.span.1.max(span.1));
        block.is_certain &= is_certain;
        if let Some(bytes) = bytes {
            block.rows.push(Row {
                flow,
                span,
                packets: packets.value(at).unsigned_abs(),
                bytes: bytes.value(at).unsigned_abs(),
            });
        }
        found += 1;
    }
    Ok(found)
}

fn column<'a, T: 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a T> {
    let column = batch
        .column_by_name(name)
        .and_then(|it| it.as_any().downcast_ref());
    column.with_context(|| format!("it has no column `{name}` of the expected type"))
}

fn small(values: &Int32Array, at: usize) -> Result<Option<u16>> {
    let value = values.is_valid(at).then(|| u16::try_from(values.value(at)));
    value.transpose().context("a number is out of range")
}
