//! Searches for IPv6 packets with and without extension headers, with files and tables of this version and of older ones.

use super::{
    Answer, Request, plan, read,
    tests::{Made, capture, request},
};
use crate::{
    archive::{Archive, counted::Reads},
    compact::{CompactConfig, compact},
    index::IndexFile,
    schema,
    table::Catalogue,
};
use arrow_array::RecordBatchReader;
use forebay_net::port::LinkType;
use parquet::arrow::{ArrowWriter, ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder};
use serde_json::Value;
use std::{fs, ops::ControlFlow, sync::Arc};

type Packet = (LinkType, Vec<u8>, u32);

/// A frame of IPv6 with this next header and payload.
fn frame(next: u8, payload: &[u8], wire_len: u32) -> Packet {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload.len() as u8, next, 64]);
    for host in [1, 2] {
        frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    frame.extend(payload);
    (LinkType::ETHERNET, frame, wire_len)
}

/// The headers of TCP, UDP or ICMPv6.
fn header(ports: [u16; 2]) -> Vec<u8> {
    let mut header: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
    header.resize(20, 0);
    header
}

/// Without extension headers.
fn plain() -> Vec<Packet> {
    let next = |n: u16| [6, 6, 6, 17, 58][usize::from(n % 5)];
    (0..500)
        .map(|n| {
            frame(
                next(n),
                &header([40_000 + n % 20, [443, 53][usize::from(n % 2)]]),
                74,
            )
        })
        .collect()
}

/// With extension headers, fragments, headers that are cut, and BIG TCP.
fn extended() -> Vec<Packet> {
    let transport = header([40_000, 443]);
    let after = |before: &[u8]| [before, &transport].concat();
    let whole: Vec<Packet> = [6, 17, 58]
        .into_iter()
        .flat_map(|next| {
            let options = after(&[next, 0, 1, 4, 0, 0, 0, 0]);
            let first = after(&[next, 0, 0, 1, 0, 0, 0, 7]);
            let later = after(&[next, 0, 5, 0, 0, 0, 0, 7]);
            let both = after(&[44, 0, 1, 4, 0, 0, 0, 0, next, 0, 0, 1, 0, 0, 0, 7]);
            let jumbo = after(&[next, 0, 0xc2, 4, 0, 1, 0x86, 0xa0]);
            [
                frame(next, &transport, 74),
                frame(0, &options, 82),
                frame(60, &options, 82),
                frame(44, &first, 82),
                frame(44, &later, 82),
                frame(0, &both, 90),
                frame(0, &jumbo, 100_000),
            ]
        })
        .collect();
    let cut = whole.iter().flat_map(|(link, data, wire_len)| {
        (50..data.len()).map(|len| (*link, data[..len].to_vec(), *wire_len))
    });
    whole.iter().cloned().chain(cut).collect()
}

const EXPRESSIONS: [&str; 14] = [
    "tcp",
    "udp",
    "not tcp",
    "port 443",
    "tcp port 443",
    "not port 443",
    "ip6 and not udp",
    "ip6 proto 44",
    "ip6 proto 0",
    "icmp6 or udp port 53",
    "portrange 1-1024 and not tcp",
    "host 2001:db8::1 and tcp",
    "tcp or udp or icmp6",
    "sctp",
];

/// The number of packets as `find --count` finds it, and the bytes of segments that were read.
fn count(made: &Made, text: &str) -> (u64, u64) {
    let reads = Arc::new(Reads::default());
    let archive = Archive::open(&made.path(), false).unwrap().counted(&reads);
    let request = Request {
        answer: Answer::Count,
        ..request(text)
    };
    let mut packets = 0;
    made.runtime.block_on(async {
        let table = Catalogue::open(&archive).await.unwrap().unwrap();
        let plan = plan::plan(&archive, &table, &request).await.unwrap();
        let (certain, others): (Vec<_>, Vec<_>) =
            plan.blocks.into_iter().partition(|it| it.is_certain);
        packets += certain.iter().map(|it| it.packets).sum::<u64>();
        let each = |_: read::Packet, _: &[read::Source]| {
            packets += 1;
            Ok(ControlFlow::Continue(()))
        };
        let progress = |_: &_| ControlFlow::Continue(());
        let reading = read::read(&archive, &others, &request, each, progress).await;
        assert!(reading.unwrap().failed.is_empty());
    });
    (packets, reads.segments.bytes())
}

/// Counts as a scan does. Returns the bytes that were read for each expression.
fn counted_as_scanned(made: &Made) -> [u64; EXPRESSIONS.len()] {
    EXPRESSIONS.map(|text| {
        let (packets, bytes) = count(made, text);
        let expected = made.scanned(&request(text)).len() as u64;
        assert_eq!(packets, expected, "{text}");
        bytes
    })
}

/// The rows as older versions have written them.
fn older(files: Vec<IndexFile>) -> Vec<IndexFile> {
    let strip = |file: IndexFile| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file.bytes.clone()).unwrap();
        let old = schema::COLUMNS
            .iter()
            .filter(|it| !schema::is_added(it.name));
        let mask = ProjectionMask::columns(builder.parquet_schema(), old.map(|it| it.name));
        let reader = builder.with_projection(mask).build().unwrap();
        let columns = reader.schema();
        let mut writer = ArrowWriter::try_new(Vec::new(), columns, None).unwrap();
        for batch in reader {
            writer.write(&batch.unwrap()).unwrap();
        }
        IndexFile {
            bytes: writer.into_inner().unwrap().into(),
            ..file
        }
    };
    files.into_iter().map(strip).collect()
}

/// Removes the columns that older tables lack from the log.
fn make_table_older(made: &Made) {
    let path = format!("{}/index/_delta_log/{:020}.json", made.path(), 0);
    let log = fs::read_to_string(&path).unwrap();
    let lines = log.lines().map(|line| {
        let mut action: Value = serde_json::from_str(line).unwrap();
        if let Some(text) = action["metaData"]["schemaString"].as_str() {
            let mut schema: Value = serde_json::from_str(text).unwrap();
            let fields = schema["fields"].as_array_mut().unwrap();
            fields.truncate(fields.len() - schema::ADDED);
            action["metaData"]["schemaString"] = schema.to_string().into();
        }
        format!("{action}\n")
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
}

fn compacted(made: &Made) {
    let archive = Archive::open(&made.path(), true).unwrap();
    let config = CompactConfig::default();
    let done = made
        .runtime
        .block_on(compact(&archive, &config, &mut |_, _| true));
    assert_eq!(done.unwrap().files, 1);
}

#[test]
fn a_count_of_plain_ipv6_reads_no_byte_of_a_segment() {
    let made = Made::of(vec![("north", capture(&plain(), 0))]);
    assert_eq!(counted_as_scanned(&made), [0; EXPRESSIONS.len()]);
    assert_eq!(count(&made, "tcp"), (300, 0));
}

#[test]
fn packets_with_extension_headers_are_counted_as_a_scan_counts_them() {
    let captures = || {
        vec![
            ("north", capture(&plain(), 0)),
            ("south", capture(&extended(), 1_000_000)),
        ]
    };
    let made = Made::of(captures());
    let new = counted_as_scanned(&made);
    // Files and tables of older versions have the same counts, and so have merged ones.
    let made = Made::with(captures(), |_, files| older(files));
    make_table_older(&made);
    let old = counted_as_scanned(&made);
    assert!(old.iter().zip(new).all(|(old, new)| *old >= new) && old[0] > new[0]);
    compacted(&made);
    assert_eq!(counted_as_scanned(&made), old);
    let mixed = Made::with(captures(), |number, files| match number {
        0 => files,
        _ => older(files),
    });
    make_table_older(&mixed);
    counted_as_scanned(&mixed);
    compacted(&mixed);
    // The rows of the new file keep what they have.
    assert_eq!(counted_as_scanned(&mixed)[0], new[0]);
}

#[test]
fn packets_of_a_flow_with_and_without_extension_headers_are_one_flow() {
    let options = [&[6, 0, 1, 4, 0, 0, 0, 0][..], &header([40_000, 443])].concat();
    let frames = [
        frame(6, &header([40_000, 443]), 74),
        frame(0, &options, 82),
        frame(60, &options, 82),
    ];
    let made = Made::of(vec![("north", capture(&frames, 0))]);
    let archive = Archive::open(&made.path(), false).unwrap();
    let request = Request {
        answer: Answer::Flows,
        ..request("ip6")
    };
    let plan = made.runtime.block_on(async {
        let table = Catalogue::open(&archive).await.unwrap().unwrap();
        plan::plan(&archive, &table, &request).await.unwrap()
    });
    let mut lines = Vec::new();
    plan.flows.print(&mut lines, true, None).unwrap();
    let flow: Value = serde_json::from_slice(&lines).unwrap();
    assert_eq!(flow["packets"], 3);
}
