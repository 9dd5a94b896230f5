//! Reads blocks and returns their matching packets in the order of time.
//!
//! ```text
//!  blocks, by their earliest time ─▶ neighbours: one request ─▶ several at once ─▶ unpacked, decoded, filtered
//!                                                                  packets before the next block's earliest ◀── heap
//! ```
//! The index knows the earliest and the latest time of the packets that may match in a block. A packet is returned once it is earlier
//! than all blocks that are still to be read. So memory holds the requests whose blocks overlap in time or that are being fetched
//! ([`MAX_REQUEST_BYTES`] each, as stored, and less if many overlap), and the matching packets of blocks that overlap in time.

use super::{Request, block::Block};
use crate::{
    archive::{Archive, OtherSegment, StoreFault},
    index::flow,
    segment::{self, Directory},
};
use anyhow::{Context, Error, Result, anyhow};
use bytes::Bytes;
use forebay_net::{
    filter::Programs,
    port::{Direction, Frame, Interface},
};
use futures::StreamExt;
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};
use tokio::sync::OnceCell;

/// The maximum length of a request for neighbouring blocks, unless one block is longer.
const MAX_REQUEST_BYTES: u64 = 8 << 20;
/// What requests hold whose segments overlap in time, unless single blocks are longer.
const MAX_OVERLAP_BYTES: u64 = 64 << 20;
/// Requests at the same time.
const MAX_AT_ONCE: usize = 8;
/// How often a search that waits for the store looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// A matching packet.
#[derive(Debug)]
pub struct Packet {
    pub time_ns: u64,
    /// Its number among the packets found, for packets with equal times.
    number: u64,
    /// Index into [`Reading::interfaces`].
    pub interface: usize,
    pub wire_len: u32,
    pub direction: Direction,
    /// Packets that the source lost since the last matching packet, as far as the blocks that were read show it.
    pub dropped_before: u64,
    pub data: Box<[u8]>,
    pub options: Box<[u8]>,
}

impl Packet {
    /// As a frame of an interface with this number.
    pub fn frame(&self, interface: u32) -> Frame<'_> {
        Frame {
            data: &self.data,
            wire_len: self.wire_len,
            time_ns: self.time_ns,
            interface,
            direction: self.direction,
            dropped_before: self.dropped_before,
            options: &self.options,
            ..Frame::default()
        }
    }
}

/// An interface of a sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub sensor: Arc<str>,
    pub interface: Interface,
    /// Packets that it lost after its last matching packet.
    pub lost_after: u64,
}

/// What was read so far.
#[derive(Default)]
pub struct Reading {
    pub interfaces: Vec<Source>,
    /// Blocks and their bytes.
    pub blocks: u64,
    pub bytes: u64,
    /// Packets that were tested, and those that matched.
    pub tested: u64,
    pub matched: u64,
    /// The packets of the blocks that were read, by segment.
    pub read: HashMap<Arc<str>, u64>,
    /// Segments that could not be read whole.
    pub failed: Vec<Failed>,
    /// It was stopped before all blocks were read.
    pub stopped: bool,
    heap: BinaryHeap<Earliest>,
}

/// A segment that could not be read whole.
#[derive(Debug)]
pub struct Failed {
    pub segment: Arc<str>,
    pub error: String,
    /// The packets that may match in the blocks that are missing from the result.
    pub lost: u64,
    /// Its directory could not be read, so it was read from its beginning.
    pub is_salvaged: bool,
    /// It is not damaged or missing, as far as is known: the store did not return it.
    pub is_of_store: bool,
}

/// A packet in a heap whose greatest element is the earliest.
struct Earliest(Packet);

impl Ord for Earliest {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Earliest| (it.0.time_ns, it.0.number);
        key(other).cmp(&key(self))
    }
}

impl PartialOrd for Earliest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Earliest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Earliest {}

/// Neighbouring blocks of a segment, which one request reads.
struct Fetch<'a> {
    blocks: Vec<&'a Block>,
    earliest: i64,
}

impl Fetch<'_> {
    fn range(&self) -> std::ops::Range<u64> {
        let (first, last) = (self.blocks[0], self.blocks[self.blocks.len() - 1]);
        first.offset..last.offset.saturating_add(last.length)
    }
}

/// Joins neighbours, and orders the requests by their earliest packets.
fn fetches(blocks: &[Block]) -> Vec<Fetch<'_>> {
    let mut blocks: Vec<_> = blocks.iter().collect();
    blocks.sort_unstable_by_key(|it| (&it.segment, it.offset));
    let max_bytes = MAX_REQUEST_BYTES.min(MAX_OVERLAP_BYTES / overlap(&blocks));
    let mut fetches: Vec<Fetch<'_>> = Vec::new();
    for block in blocks {
        if let Some(last) = fetches.last_mut() {
            let range = last.range();
            let is_next = last.blocks[0].segment == block.segment && range.end == block.offset;
            if is_next && range.end - range.start + block.length <= max_bytes {
                last.earliest = last.earliest.min(block.span.0);
                last.blocks.push(block);
                continue;
            }
        }
        fetches.push(Fetch {
            earliest: block.span.0,
            blocks: vec![block],
        });
    }
    fetches.sort_by_key(|it| it.earliest);
    fetches
}

/// The largest number of segments whose blocks are in the same time. The blocks are in the order of segments.
fn overlap(blocks: &[&Block]) -> u64 {
    let mut changes = Vec::new();
    for of_segment in blocks.chunk_by(|a, b| a.segment == b.segment) {
        let first = of_segment.iter().map(|it| it.span.0).min();
        let last = of_segment.iter().map(|it| it.span.1).max();
        changes.extend(
            first
                .map(|it| (it, false))
                .into_iter()
                .chain(last.map(|it| (it, true))),
        );
    }
    changes.sort_unstable(); // beginnings first
    let (mut now, mut max) = (0_u64, 1);
    for (_, is_end) in changes {
        // A damaged index may have rows that end before they begin.
        now = if is_end {
            now.saturating_sub(1)
        } else {
            now + 1
        };
        max = max.max(now);
    }
    max
}

/// Reads `blocks`. Calls `each` for every matching packet in the order of time, with the interfaces so far, until it breaks.
/// `progress` is called after each block, and while the store is slow; if it breaks, reading stops.
///
/// A segment that is missing or damaged does not end the search: [`Reading::failed`] has it.
///
/// # Errors
/// `each` failed.
pub async fn read(
    archive: &Archive,
    blocks: &[Block],
    request: &Request,
    mut each: impl FnMut(Packet, &[Source]) -> Result<ControlFlow<()>>,
    mut progress: impl FnMut(&Reading) -> ControlFlow<()>,
) -> Result<Reading> {
    let mut reading = Reading::default();
    let mut programs = Programs::new(request.filter.clone());
    let fetches = fetches(blocks);
    let mut ends: HashMap<&str, u64> = HashMap::new();
    for fetch in &fetches {
        let end = ends.entry(&fetch.blocks[0].segment).or_default();
        *end = fetch.range().end.max(*end);
    }
    let mut opened: HashMap<&str, Arc<OnceCell<Opened>>> = HashMap::new();
    let jobs = fetches.iter().map(|fetch| {
        let segment = &*fetch.blocks[0].segment;
        let opened = opened.entry(segment).or_default().clone();
        fetch_blocks(archive, fetch, opened, ends[segment])
    });
    let jobs: Vec<_> = jobs.collect();
    drop(opened);
    let mut jobs = futures::stream::iter(jobs).buffered(MAX_AT_ONCE);
    // Blocks in the order of time, each with the number of its request.
    let mut order = Vec::new();
    for (number, fetch) in fetches.iter().enumerate() {
        order.extend(fetch.blocks.iter().map(|block| (*block, number)));
    }
    order.sort_by_key(|(block, number)| (block.span.0, *number, block.offset));
    // What was fetched and is still needed, and the number of blocks in it that are not read yet.
    let mut fetched: HashMap<usize, (Fetched, usize)> = HashMap::new();
    let mut next_fetch = 0;
    'blocks: for (at, (block, number)) in order.iter().enumerate() {
        // Requests are in the order of their earliest blocks, so this one's are among the next.
        while next_fetch <= *number {
            tokio::select! {
                done = jobs.next() => {
                    let Some(done) = done else { break 'blocks };
                    let blocks = &fetches[next_fetch].blocks;
                    match done {
                        Ok(done) => {
                            if let Some(error) = &done.opened.error {
                                let is_salvaged = !done.opened.directory.blocks.is_empty();
                                let failed = reading.fail(blocks[0], error, is_salvaged);
                                if failed.is_of_store {
                                    (failed.error, failed.is_of_store) = ((**error).into(), false);
                                }
                            }
                            fetched.insert(next_fetch, (done, blocks.len()));
                        }
                        Err(error) => {
                            for block in blocks {
                                reading.lose(block, &error);
                            }
                        }
                    }
                    next_fetch += 1;
                }
                () = tokio::time::sleep(STOP_CHECK) => {}
            }
            if progress(&reading).is_break() {
                reading.stopped = true;
                break 'blocks;
            }
        }
        if let Some((Fetched { opened, bytes }, left)) = fetched.get_mut(number) {
            let begin = (block.offset - fetches[*number].range().start) as usize;
            let stored = bytes.get(begin..begin + block.length as usize);
            *left -= 1;
            let is_last = *left == 0;
            let added = match stored {
                Some(stored) => {
                    reading.add(block, &opened.directory, stored, request, &mut programs)
                }
                None => Err(anyhow!("a block is not intact")),
            };
            match added {
                Ok(()) => *reading.read.entry(block.segment.clone()).or_default() += block.packets,
                Err(error) => reading.lose(block, &error),
            }
            if is_last {
                fetched.remove(number);
            }
        }
        // What must not be returned yet. For counts, the order does not matter.
        let next = order.get(at + 1).filter(|_| request.is_ordered());
        let horizon = next.map(|(next, _)| next.span.0);
        let is_due =
            |it: &Earliest| horizon.is_none_or(|horizon| indexed_time(it.0.time_ns) < horizon);
        while reading.heap.peek().is_some_and(is_due) {
            let Some(Earliest(packet)) = reading.heap.pop() else {
                break;
            };
            if each(packet, &reading.interfaces)?.is_break() {
                break 'blocks;
            }
        }
        if progress(&reading).is_break() {
            reading.stopped = at + 1 < order.len();
            break;
        }
    }
    reading.heap.clear();
    Ok(reading)
}

/// The directory of a segment. If it could not be read: why, and the part of it that describes the intact blocks.
#[derive(Clone)]
struct Opened {
    directory: Arc<Directory>,
    error: Option<Arc<str>>,
}

/// The directory of a segment, and the bytes of a request as far as its blocks are intact.
struct Fetched {
    opened: Opened,
    bytes: Bytes,
}

/// `end`: where the last block ends that is needed of this segment.
async fn open_segment(archive: &Archive, segment: &str, end: u64) -> Result<Opened> {
    let error = match archive.directory(segment, None).await {
        Ok(directory) => {
            return Ok(Opened {
                directory: Arc::new(directory),
                error: None,
            });
        }
        Err(error) if StoreFault::of(&error).is_some() || error.is::<OtherSegment>() => {
            return Err(error);
        }
        Err(error) => error,
    };
    // It is damaged, also if the store then fails.
    let (directory, error) = match archive.salvage(segment, Some(end)).await {
        Ok(directory) => (directory, format!("{error:#}")),
        Err(other) => (Directory::default(), format!("{error:#}; {other:#}")),
    };
    Ok(Opened {
        directory: Arc::new(directory),
        error: Some(error.into()),
    })
}

async fn fetch_blocks(
    archive: &Archive,
    fetch: &Fetch<'_>,
    opened: Arc<OnceCell<Opened>>,
    end: u64,
) -> Result<Fetched> {
    let segment = &fetch.blocks[0].segment;
    let open = || open_segment(archive, segment, end);
    let opened = opened.get_or_try_init(open).await?.clone();
    let mut range = fetch.range();
    // A damaged index may have a block of any length.
    let last = opened.directory.blocks.last();
    let intact = last.map_or(0, |it| it.offset + it.length);
    range.end = range.end.min(intact).max(range.start);
    let bytes = match range.is_empty() {
        true => Bytes::new(),
        false => archive.range(segment, range).await?,
    };
    Ok(Fetched { opened, bytes })
}

impl Reading {
    /// The entry of a segment that could not be read whole, with its first error.
    fn fail(&mut self, block: &Block, error: &str, is_salvaged: bool) -> &mut Failed {
        let same = |it: &Failed| it.segment == block.segment;
        let at = self.failed.iter().position(same).unwrap_or_else(|| {
            self.failed.push(Failed {
                segment: block.segment.clone(),
                error: error.into(),
                lost: 0,
                is_salvaged,
                is_of_store: true,
            });
            self.failed.len() - 1
        });
        &mut self.failed[at]
    }

    /// Counts a block that is missing from the result.
    fn lose(&mut self, block: &Block, error: &Error) {
        let text = format!("{error:#}");
        let failed = self.fail(block, &text, false);
        failed.lost += block.packets;
        // Damage says more than a store that did not answer.
        if failed.is_of_store && !StoreFault::is_cause(error) {
            (failed.error, failed.is_of_store) = (text, false);
        }
    }

    /// Decodes a block and keeps its matching packets.
    fn add(
        &mut self,
        block: &Block,
        directory: &Directory,
        stored: &[u8],
        request: &Request,
        programs: &mut Programs,
    ) -> Result<()> {
        self.blocks += 1;
        self.bytes += stored.len() as u64;
        let number = directory
            .block_at(block.offset)
            .filter(|it| directory.blocks[*it].length == block.length);
        let number = number.context("its index and its directory differ")?;
        let is_packed = block.segment.ends_with(".zst");
        let plain = segment::unpack(stored, directory.blocks[number].plain_length, is_packed)?;
        let mut decoder = segment::decoder(directory, number)?;
        // The numbers in `interfaces` of the segment's interfaces.
        let mut known: Vec<Option<usize>> = Vec::new();
        let mut at = 0;
        while at < plain.len() {
            let (frame, len) = match segment::next_record(&mut decoder, &plain[at..])? {
                (Some(frame), len) => (frame, len),
                (None, len) => {
                    at += len;
                    continue;
                }
            };
            at += len;
            self.tested += 1;
            let number = frame.interface as usize;
            let interface = &decoder.interfaces()[number];
            let program = programs.of(interface.link);
            if known.len() <= number {
                known.resize(number + 1, None);
            }
            let source =
                *known[number].get_or_insert_with(|| self.source(&block.sensor, interface));
            self.interfaces[source].lost_after += frame.dropped_before;
            let time_ns = indexed_time(frame.time_ns);
            let is_inside = time_ns >= request.from && request.is_before_end(time_ns);
            if !is_inside || program.run(frame.data, frame.wire_len) == 0 {
                continue;
            }
            let dropped_before = std::mem::take(&mut self.interfaces[source].lost_after);
            self.heap.push(Earliest(Packet {
                time_ns: frame.time_ns,
                number: self.matched,
                interface: source,
                wire_len: frame.wire_len,
                direction: frame.direction,
                dropped_before,
                data: frame.data.into(),
                options: frame.options.into(),
            }));
            self.matched += 1;
        }
        Ok(())
    }

    fn source(&mut self, sensor: &Arc<str>, interface: &Interface) -> usize {
        let interface = Interface {
            in_file: None,
            ..interface.clone()
        };
        let same = |it: &Source| it.sensor == *sensor && it.interface == interface;
        if let Some(at) = self.interfaces.iter().position(same) {
            return at;
        }
        self.interfaces.push(Source {
            sensor: sensor.clone(),
            interface,
            lost_after: 0,
        });
        self.interfaces.len() - 1
    }
}

/// The time of a packet as the index has it.
pub fn indexed_time(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}

/// The flow of a packet.
pub fn flow_of(packet: &Packet, sources: &[Source]) -> flow::Flow {
    flow::Flow::of(sources[packet.interface].interface.link, &packet.data).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::faulty::{Faulty, Put};
    use forebay_testing::folder::Folder;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn a_segment_is_damaged_also_if_the_store_then_fails() {
        let folder = Folder::new();
        let plain = Archive::open(&folder.path("to"), true).unwrap();
        let key = format!("segments/sensor=a/date=b/hour=01/{}.pcapng", "7".repeat(64));
        let opened = async |answers: u32| {
            let requests = Arc::<AtomicU32>::default();
            let is_away = Arc::new(move || requests.fetch_add(1, Relaxed) >= answers);
            let put = Arc::new(|_: &str| Put::Done);
            let archive = plain
                .wrapped(|store| Arc::new(Faulty::over(store, put.clone()).away(is_away.clone())));
            open_segment(&archive, &key, 50).await
        };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            plain.put(&key, vec![7; 100].into()).await.unwrap();
            assert!(StoreFault::is_cause(&opened(0).await.err().unwrap()));
            let mut errors = Vec::new();
            for answers in 1..5 {
                let opened = opened(answers).await;
                errors.extend(opened.ok().and_then(|it| it.error));
            }
            let has_both = errors
                .iter()
                .any(|it| it.contains("; ") && it.contains("503"));
            assert!(has_both, "{errors:?}");
        });
    }

    #[test]
    fn the_text_of_a_segment_that_failed_is_that_of_its_damage() {
        let block = Block {
            sensor: "a".into(),
            segment: "b".into(),
            offset: 0,
            length: 1,
            span: (0, 1),
            packets: 1,
            is_certain: false,
        };
        let mut reading = Reading::default();
        let outage = StoreFault::default().error();
        for (error, is_of_store) in [
            (&outage, true),
            (&anyhow!("damaged"), false),
            (&outage, false),
        ] {
            reading.lose(&block, error);
            let failed = &reading.failed[0];
            assert_eq!(
                (failed.is_of_store, failed.error == "damaged"),
                (is_of_store, !is_of_store)
            );
        }
        assert_eq!((reading.failed.len(), reading.failed[0].lost), (1, 3));
    }

    #[test]
    fn requests_of_many_overlapping_segments_are_shorter() {
        let longest = |segments: i64, step: i64| {
            let block = |segment: i64, number: i64| Block {
                sensor: "a".into(),
                segment: format!("{segment:03}").into(),
                offset: (number as u64) << 20,
                length: 1 << 20,
                span: (segment * step + number, segment * step + number),
                packets: 1,
                is_certain: false,
            };
            let blocks = (0..segments).flat_map(|it| (0..32).map(move |number| block(it, number)));
            let blocks: Vec<Block> = blocks.collect();
            let fetches = fetches(&blocks);
            let lengths = fetches.iter().map(|it| it.range().end - it.range().start);
            lengths.max().unwrap() >> 20
        };
        assert_eq!((longest(1, 0), longest(8, 0)), (8, 8));
        assert_eq!((longest(32, 0), longest(200, 0)), (2, 1));
        assert_eq!(longest(200, 32), 8);
    }
}
