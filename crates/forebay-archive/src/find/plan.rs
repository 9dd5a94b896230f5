//! From the table to the blocks to read: files, row groups, pages and rows that cannot match are left out on the way.

use super::{
    Answer, Request,
    block::Block,
    flows::Flows,
    index_file::{End, IndexFile},
    predicate::{self, Truth},
    row_filter::{Needed, with_dictionaries},
    rows::{COLUMNS, Row, read_rows},
    statistics::Bounds,
};
use crate::{
    archive::Archive,
    schema,
    table::{Catalogue, TableFile},
};
use anyhow::{Context, Result};
use arrow_array::RecordBatch;
use forebay_net::filter::tree::{Test, Tree};
use futures::{StreamExt, TryStreamExt};
use jiff::{Timestamp, tz::TimeZone};
use parquet::{
    arrow::{
        ParquetRecordBatchStreamBuilder, ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, RowSelection},
    },
    bloom_filter::Sbbf,
};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet, hash_map::Entry},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Tasks that read files of the index at the same time, and the small files that each reads at the same time.
const TASKS_AT_ONCE: usize = 4;
const FILES_OF_TASK: usize = 4;
/// Larger files are read one after the other in a task, because much of them may be in memory.
const MAX_SMALL_BYTES: u64 = 1 << 20;
/// Rows of an index file that are decoded at once.
const BATCH_ROWS: usize = 8192;

/// Rows of a search for flows that are kept until all rows of their blocks are known. If there are more, the index is read twice.
const MAX_ROWS: usize = 256 << 10;

/// What to read, and how it was found.
#[derive(Debug, Default)]
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
    /// If the request is for flows: those that the index alone knows, which are those of the certain blocks.
    pub flows: Flows,
}

impl Plan {
    /// The bytes of the blocks, as stored.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|it| it.length).sum()
    }
}

/// The segment of a block, and where the block begins there.
type Key = (Arc<str>, u64);

/// A search through the index.
struct Search {
    archive: Archive,
    request: Request,
    tree: Tree,
    /// The columns whose bloom filters can exclude rows.
    bloomed: Vec<&'static str>,
    flows: FlowSearch,
    /// Whether all rows of a segment count as those of one block.
    joins_blocks: bool,
}

/// What a search through the index does with the rows of flows.
///
/// Packets of a block that is not certain are counted when the block is read, so its rows must not count. Whether a block is certain is
/// known after all files were read.
enum FlowSearch {
    /// The request is not for flows.
    None,
    /// Keeps rows, up to a limit. The number counts further ones, too.
    Keep { kept: AtomicUsize, max: usize },
    /// Counts the rows of these blocks, which are certain.
    Count {
        certain: HashSet<Key>,
        flows: Mutex<Flows>,
    },
}

/// Reads the index as far as it is needed.
///
/// # Errors
/// The store failed, or the index is damaged.
pub async fn plan(archive: &Archive, catalogue: &Catalogue, request: &Request) -> Result<Plan> {
    plan_with(archive, catalogue, request, MAX_ROWS).await
}

/// As [`plan`], and keeps up to `max` rows.
pub(super) async fn plan_with(
    archive: &Archive,
    catalogue: &Catalogue,
    request: &Request,
    max: usize,
) -> Result<Plan> {
    let tree = request.filter.tree();
    let mut columns = Vec::new();
    bloomed(&tree, &mut columns);
    let search = |flows| {
        Arc::new(Search {
            archive: archive.clone(),
            request: request.clone(),
            tree: tree.clone(),
            bloomed: columns.clone(),
            flows,
            joins_blocks: false,
        })
    };
    if request.answer != Answer::Flows {
        return Ok(read_index(catalogue, &search(FlowSearch::None)).await?.0);
    }
    let kept = AtomicUsize::new(0);
    let first = search(FlowSearch::Keep { kept, max });
    let (mut plan, rows) = read_index(catalogue, &first).await?;
    let certain: HashMap<Key, &Block> = plan
        .blocks
        .iter()
        .filter(|it| it.is_certain)
        .map(|it| ((it.segment.clone(), it.offset), it))
        .collect();
    let FlowSearch::Keep { kept, .. } = &first.flows else {
        unreachable!("this search keeps rows");
    };
    if kept.load(Relaxed) <= max {
        for (key, row) in &rows {
            if let Some(block) = certain.get(key) {
                plan.flows.row(&block.sensor, row);
            }
        }
        return Ok(plan);
    }
    drop(rows);
    let second = search(FlowSearch::Count {
        certain: certain.into_keys().collect(),
        flows: Mutex::default(),
    });
    read_index(catalogue, &second).await?;
    if let FlowSearch::Count { flows, .. } = &second.flows {
        plan.flows = std::mem::take(&mut *flows.lock().unwrap_or_else(PoisonError::into_inner));
    }
    Ok(plan)
}

/// The segments in which packets may match a tree, each as a single block.
///
/// # Errors
/// As [`plan`].
pub(super) async fn whole_segments(
    archive: &Archive,
    catalogue: &Catalogue,
    request: Request,
    tree: Tree,
) -> Result<Vec<Block>> {
    let mut columns = Vec::new();
    bloomed(&tree, &mut columns);
    let search = Search {
        archive: archive.clone(),
        request,
        tree,
        bloomed: columns,
        flows: FlowSearch::None,
        joins_blocks: true,
    };
    Ok(read_index(catalogue, &Arc::new(search)).await?.0.blocks)
}

/// Reads the rows that may match, and returns their blocks, and the rows that were kept.
async fn read_index(
    catalogue: &Catalogue,
    search: &Arc<Search>,
) -> Result<(Plan, Vec<(Key, Row)>)> {
    let Search { request, tree, .. } = &**search;
    let mut plan = Plan {
        version: catalogue.version(),
        ..Plan::default()
    };
    plan.files = catalogue.left_out();
    plan.by_time = plan.files;
    let times = Times::of(request);
    let mut blocks: HashMap<Key, Block> = HashMap::new();
    let mut rows = Vec::new();
    {
        let counts = RefCell::new(&mut plan);
        // Files are opened while the log is still being read.
        let files = catalogue.files().try_filter_map(async |file| {
            let mut plan = counts.borrow_mut();
            plan.files += 1;
            let bounds = Bounds::of_file(file.statistics.as_deref());
            if !times.is_not_later(&file.date) || !times.is_in(&bounds) {
                plan.by_time += 1;
            } else if !request.may_be_in(&bounds) || predicate::matching(tree, &bounds) == Truth::No
            {
                plan.by_statistics += 1;
            } else {
                return Ok(Some((file, bounds)));
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
                rows.extend(found.kept);
                for (key, block) in found.blocks {
                    add_or_join(&mut blocks, key, block);
                }
            }
        }
    }
    plan.blocks = blocks.into_values().collect();
    let order = |block: &Block| (block.span.0, block.segment.clone(), block.offset);
    plan.blocks.sort_by_cached_key(order);
    Ok((plan, rows))
}

/// Adds a block, or its rows to the same block.
fn add_or_join(blocks: &mut HashMap<Key, Block>, key: Key, block: Block) {
    match blocks.entry(key) {
        Entry::Vacant(vacant) => {
            vacant.insert(block);
        }
        Entry::Occupied(mut same) => same.get_mut().join(&block),
    }
}

/// The times of a request, as files of the index are compared with them.
pub(super) struct Times {
    from: i64,
    to: i64,
    last_date: Option<String>,
}

impl Times {
    pub(super) fn of(request: &Request) -> Times {
        let last_date = (request.to < i64::MAX).then(|| date(request.to.saturating_sub(1)));
        Times {
            from: request.from,
            to: request.to,
            last_date: last_date.flatten(),
        }
    }

    /// Whether a file with this date and these statistics may have rows in these times.
    pub(super) fn may_have(&self, date: &str, statistics: Option<&str>) -> bool {
        (self.from, self.to) == (i64::MIN, i64::MAX)
            || self.is_not_later(date) && self.is_in(&Bounds::of_file(statistics))
    }

    fn is_not_later(&self, date: &str) -> bool {
        (self.last_date.as_deref()).is_none_or(|last| date <= last)
    }

    fn is_in(&self, bounds: &Bounds) -> bool {
        bounds.may_be_between(self.from, self.to)
    }
}

/// The date (UTC) of a time; `None`: beyond all dates.
fn date(time_ns: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(time_ns.into()).ok()?;
    Some(time.to_zoned(TimeZone::UTC).date().to_string())
}

/// What a file of the index holds for a request.
#[derive(Default)]
struct Found {
    groups: u64,
    groups_read: u64,
    rows_read: u64,
    rows: u64,
    blocks: HashMap<Key, Block>,
    kept: Vec<(Key, Row)>,
}

/// A file of the table, and what its statistics say.
type Candidate = (TableFile, Bounds);

async fn read_files(search: Arc<Search>, files: Vec<Result<Candidate>>) -> Result<Vec<Found>> {
    let is_large = |file: &Result<Candidate>| {
        (file.as_ref()).is_ok_and(|(file, _)| file.bytes > MAX_SMALL_BYTES)
    };
    let at_once = if files.iter().any(is_large) {
        1
    } else {
        FILES_OF_TASK
    };
    let read = files.into_iter().map(async |file| {
        let (file, bounds) = file?;
        let read = read_file(&search, &file, bounds).await;
        read.map_err(|error| file.unread(&search.archive, error))
    });
    futures::stream::iter(read)
        .buffered(at_once)
        .try_collect()
        .await
}

async fn read_file(search: &Search, file: &TableFile, mut bounds: Bounds) -> Result<Found> {
    let Search {
        archive,
        request,
        tree,
        ..
    } = search;
    let end = End::read(archive, file).await?;
    if let Some(groups) = excluded(&end, search, &mut bounds) {
        return Ok(Found {
            groups,
            ..Found::default()
        });
    }
    let mut reader = IndexFile::open(end).await?;
    let groups = candidates(&reader, search).await?;
    let mut found = Found {
        groups: reader.metadata.num_row_groups() as u64,
        groups_read: groups.len() as u64,
        ..Found::default()
    };
    if groups.is_empty() {
        return Ok(found);
    }
    let needed = Needed::all(tree, &reader.metadata, &groups);
    let pages = reader.read_pages(!needed.is_empty()).await;
    pages?;
    let metadata = reader.metadata.clone();
    let open = |options| ArrowReaderMetadata::try_new(metadata.clone(), options);
    let arrow = open(crate::index::options())?;
    let dictionaries = crate::index::options().with_schema(with_dictionaries(arrow.schema()));
    let arrow = open(dictionaries)?;
    let mut wanted = COLUMNS.to_vec();
    if request.answer == Answer::Flows {
        wanted.push(schema::BYTES);
    }
    let mask = ProjectionMask::columns(metadata.file_metadata().schema_descr(), wanted);
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, arrow);
    let mut builder = builder
        .with_projection(mask)
        .with_batch_size(BATCH_ROWS)
        .with_row_groups(groups.iter().map(|it| it.0).collect());
    let group_rows = |(group, _): &(usize, Bounds)| metadata.row_group(*group).num_rows();
    let all_rows = groups.iter().map(|it| group_rows(it).unsigned_abs()).sum();
    // One list of addresses is compared: the one whose pages have the fewest rows, and of equal ones the shortest.
    let rows = |pages: &Option<RowSelection>| match pages {
        Some(pages) => pages.row_count() as u64,
        None => all_rows,
    };
    let needed = needed
        .into_iter()
        .map(|it| (it.pages(&metadata, &groups), it));
    let needed = needed.min_by_key(|(pages, it)| (rows(pages), it.len()));
    found.rows_read = needed.as_ref().map_or(all_rows, |(pages, _)| rows(pages));
    if let Some((pages, needed)) = needed {
        builder = builder.with_row_filter(needed.filter(&metadata));
        if let Some(pages) = pages {
            builder = builder.with_row_selection(pages);
        }
    }
    let mut batches = builder.build()?;
    let mut names = Names::default();
    while let Some(batch) = batches.try_next().await? {
        found.add(search, &batch, &mut names)?;
    }
    Ok(found)
}

/// Names that blocks share.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn shared(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(name) => name.clone(),
            None => {
                let name: Arc<str> = name.into();
                self.0.insert(name.clone());
                name
            }
        }
    }
}

impl Found {
    /// Adds the rows of a batch that may match.
    fn add(&mut self, search: &Search, batch: &RecordBatch, names: &mut Names) -> Result<()> {
        let Search { request, tree, .. } = search;
        read_rows(batch, request, tree, |place, row| {
            self.rows += 1;
            let offset = if search.joins_blocks { 0 } else { place.offset };
            let key = (names.shared(place.segment), offset);
            match &search.flows {
                FlowSearch::Count { certain, flows } => {
                    if certain.contains(&key) {
                        let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
                        flows.row(&names.shared(place.sensor), &row);
                    }
                    return;
                }
                // The count publishes nothing but itself.
                FlowSearch::Keep { kept, max } if kept.fetch_add(1, Relaxed) < *max => {
                    self.kept.push((key.clone(), row));
                }
                _ => {}
            }
            let block = Block {
                sensor: names.shared(place.sensor),
                segment: key.0.clone(),
                offset: place.offset,
                length: place.length,
                span: row.span,
                packets: row.packets,
                is_certain: place.is_certain,
            };
            add_or_join(&mut self.blocks, key, block);
        })
    }
}

/// The number of row groups of a file if its bloom filters exclude all of them. Then its footer need not be decoded.
fn excluded(end: &End, search: &Search, bounds: &mut Bounds) -> Option<u64> {
    if search.bloomed.is_empty() {
        return None;
    }
    let groups = end.bloom_filters(&search.bloomed)?;
    let number = groups.len() as u64;
    for blooms in groups {
        bounds.set_blooms(blooms);
        if predicate::matching(&search.tree, bounds) != Truth::No {
            return None;
        }
    }
    Some(number)
}

/// The row groups in which a row may match, in order.
async fn candidates(file: &IndexFile, search: &Search) -> Result<Vec<(usize, Bounds)>> {
    let Search { request, tree, .. } = search;
    let mut groups = Vec::new();
    for (number, group) in file.metadata.row_groups().iter().enumerate() {
        let bounds = Bounds::of_group(group);
        let may = bounds.may_be_between(request.from, request.to) && request.may_be_in(&bounds);
        if may && predicate::matching(tree, &bounds) != Truth::No {
            groups.push((number, bounds));
        }
    }
    let mut filters = Vec::new();
    for (at, (number, _)) in groups.iter().enumerate() {
        for column in file.metadata.row_group(*number).columns() {
            let name = column.column_path().string();
            let name = search.bloomed.iter().find(|it| **it == name);
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
