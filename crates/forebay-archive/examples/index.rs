//! Measures how fast the packets of capture files are indexed, and how large their index is.
//!
//! ```console
//! $ cargo run --release -p forebay-archive --example index -- FILE.pcapng…
//! ```
//! Each file is read in pieces, as `forebay-archive ship` reads it, and each piece is decoded while it is in the cache of the processor. The
//! times are those of the processor without reading, in three steps: decoding the records; the rows of flows and blocks; sorting the rows and
//! writing them as Parquet. The index of each file is as `ship` writes it.

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use forebay_archive::{
    index::Indexer,
    segment::{BLOCK_BYTES, Directory},
};
use forebay_net::{
    format::read::{Decoder, Step},
    port::Frame,
    port::LinkType,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::{collections::BTreeMap, fs::File, io::Read, time::Duration};

/// Bytes that are read at once, as in `ship`.
const READ_BYTES: u64 = 256 << 10;

fn main() -> Result<()> {
    let [mut decoding, mut rows_time, mut writing] = [Duration::ZERO; 3];
    let (mut packets, mut plain, mut blocks, mut rows, mut bytes) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let mut columns: BTreeMap<String, i64> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let open = || File::open(&path).with_context(|| format!("{path}: opening it"));
        plain += open()?.metadata()?.len();
        let (found, time) = each(open()?, |_, _| {}, |_| {})?;
        packets += found;
        decoding += time;

        let mut indexer = Indexer::default();
        let indexing = std::cell::RefCell::new(&mut indexer);
        let (_, time) = each(
            open()?,
            |link, frame| indexing.borrow_mut().packet(link, frame),
            |offset| {
                blocks += 1;
                // It cannot fail.
                let _ = indexing.borrow_mut().end_block(offset, BLOCK_BYTES as u64);
            },
        )?;
        rows_time += time;

        let key = format!(
            "segments/sensor=here/date=2026-11-22/hour=00/{:064}.pcapng.zst",
            0
        );
        let directory = Directory {
            sensor: "here".into(),
            ..Directory::default()
        };
        let begin = processor_time();
        let made = indexer.finish(&directory, &key, 0)?;
        writing += processor_time() - begin;
        for file in made {
            rows += file.rows;
            bytes += file.bytes.len() as u64;
            count_columns(file.bytes, &mut columns)?;
        }
    }
    if packets == 0 {
        bail!("usage: index FILE.pcapng…, with packets");
    }
    println!("{packets} packets, {plain} bytes, {blocks} blocks");
    println!(
        "{rows} rows, {bytes} bytes of index: {:.3} % of the capture, {:.1} bytes a row, {:.1} packets a row",
        bytes as f64 * 100.0 / plain as f64,
        bytes as f64 / rows as f64,
        packets as f64 / rows as f64
    );
    let rows_time = rows_time.saturating_sub(decoding);
    let whole = decoding + rows_time + writing;
    for (name, time) in [
        ("decoding", decoding),
        ("rows", rows_time),
        ("sorting and writing", writing),
        ("all", whole),
    ] {
        let seconds = time.as_secs_f64();
        println!(
            "{name:<20} {:>8.1} ns a packet, {:>6.2} M packets/s",
            seconds * 1e9 / packets as f64,
            packets as f64 / seconds / 1e6
        );
    }
    println!(
        "{:.0} ns a row for sorting and writing",
        writing.as_secs_f64() * 1e9 / rows as f64
    );
    for (name, bytes) in columns {
        println!("{name:<20} {:>6.2} bytes a row", bytes as f64 / rows as f64);
    }
    Ok(())
}

/// Calls `packet` for each packet and `end` at the end of each block; returns the number of packets, and the time without reading.
fn each(
    mut file: File,
    mut packet: impl FnMut(LinkType, &Frame<'_>),
    mut end: impl FnMut(u64),
) -> Result<(u64, Duration)> {
    let fault = |it: forebay_net::format::read::Fault| anyhow!("{}", it.what());
    let mut bytes = Vec::new();
    let mut decoder = None;
    let (mut at, mut block, mut packets, mut spent) = (0, 0, 0, Duration::ZERO);
    loop {
        let read = file.by_ref().take(READ_BYTES).read_to_end(&mut bytes)?;
        let decoder = match &mut decoder {
            Some(decoder) => decoder,
            None => decoder.insert(Decoder::begin(&bytes).map_err(fault)?.context("is empty")?),
        };
        let begin = processor_time();
        while at < BLOCK_BYTES {
            let rest = &bytes[at..];
            let step = match decoder.packet(rest) {
                Some((frame, len)) => Step::Packet(frame, len),
                None => decoder.next(rest).map_err(fault)?,
            };
            match step {
                Step::Packet(frame, len) => {
                    let link = decoder.interfaces()[frame.interface as usize].link;
                    packet(link, &frame);
                    packets += 1;
                    at += len;
                }
                Step::Described(len) | Step::Other(len) => at += len,
                Step::More(_) => break,
                Step::Zeros => bail!("has zeros in place of packets"),
            }
        }
        if at >= BLOCK_BYTES || read == 0 && at > 0 {
            end(block);
            block += at as u64;
            bytes.drain(..at);
            at = 0;
        }
        spent += processor_time() - begin;
        if read == 0 {
            ensure!(bytes.is_empty(), "ends in the middle of a record");
            return Ok((packets, spent));
        }
    }
}

/// Adds the stored length of each column, and of the bloom filters.
fn count_columns(file: Bytes, columns: &mut BTreeMap<String, i64>) -> Result<()> {
    let file = SerializedFileReader::new(file)?;
    for group in file.metadata().row_groups() {
        for column in group.columns() {
            *columns.entry(column.column_path().string()).or_default() += column.compressed_size();
            let filter = i64::from(column.bloom_filter_length().unwrap_or(0));
            *columns.entry("bloom filters".into()).or_default() += filter;
        }
    }
    Ok(())
}

/// The time of the processor that this process has used.
fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
