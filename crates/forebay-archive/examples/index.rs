//! Measures how fast the packets of capture files are indexed, and how large their index is.
//!
//! ```console
//! $ cargo run --release -p forebay-archive --example index -- FILE.pcapng…
//! ```
//! Each file is read into memory first. The times are those of the processor, in three steps: decoding the records of the file; the rows of
//! flows and blocks; sorting the rows and writing them as Parquet. The index of each file is as `forebay-archive ship` writes it.

use anyhow::{Context, Result, anyhow, bail};
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
use std::{collections::BTreeMap, time::Duration};

fn main() -> Result<()> {
    let (mut decoding, mut rows_time, mut writing) =
        (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut packets, mut plain, mut blocks, mut rows, mut bytes) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let mut columns: BTreeMap<String, i64> = BTreeMap::new();
    for path in std::env::args().skip(1) {
        let file = std::fs::read(&path).with_context(|| format!("{path}: reading it"))?;
        plain += file.len() as u64;
        let begin = processor_time()?;
        packets += each(&file, |_, _| {}, |_| {})?;
        decoding += processor_time()? - begin;

        let mut indexer = Indexer::default();
        let begin = processor_time()?;
        let mut number = 0;
        let indexing = std::cell::RefCell::new(&mut indexer);
        each(
            &file,
            |link, frame| indexing.borrow_mut().packet(link, frame),
            |offset| {
                number += 1;
                // It cannot fail.
                let _ = indexing.borrow_mut().end_block(offset, BLOCK_BYTES as u64);
            },
        )?;
        rows_time += processor_time()? - begin;
        blocks += number;

        let key = format!(
            "segments/sensor=here/date=2026-11-22/hour=00/{:064}.pcapng.zst",
            0
        );
        let directory = Directory {
            sensor: "here".into(),
            ..Directory::default()
        };
        let begin = processor_time()?;
        let made = indexer.finish(&directory, &key, 0)?;
        writing += processor_time()? - begin;
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

/// Calls `packet` for each packet and `end` at the end of each block; returns the number of packets.
fn each(
    file: &[u8],
    mut packet: impl FnMut(LinkType, &Frame<'_>),
    mut end: impl FnMut(u64),
) -> Result<u64> {
    let fault = |it: forebay_net::format::read::Fault| anyhow!("{}", it.what());
    let mut decoder = Decoder::begin(file)
        .map_err(fault)?
        .context("has no header")?;
    let (mut at, mut block, mut packets) = (0, 0, 0);
    while at < file.len() {
        match decoder.next(&file[at..]).map_err(fault)? {
            Step::Packet(frame, len) => {
                let link = decoder.interfaces()[frame.interface as usize].link;
                packet(link, &frame);
                packets += 1;
                at += len;
            }
            Step::Described(len) | Step::Other(len) => at += len,
            _ => bail!("ends in the middle of a record"),
        }
        if at - block >= BLOCK_BYTES || at == file.len() {
            end(block as u64);
            block = at;
        }
    }
    Ok(packets)
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
fn processor_time() -> Result<Duration> {
    let text =
        std::fs::read_to_string("/proc/self/schedstat").context("reading /proc/self/schedstat")?;
    let ns = text.split(' ').next().unwrap_or("").parse();
    Ok(Duration::from_nanos(
        ns.context("/proc/self/schedstat is malformed")?,
    ))
}
