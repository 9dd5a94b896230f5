//! Searches against full scans of the captures: what matches is found, whatever the expression, and only what is needed is read.

use super::{
    Answer, Request,
    oracle_tests::{STEP, expressions, frames},
    plan, read,
};
use crate::{
    archive::{Archive, counted::Reads},
    index::{self, IndexFile, Row, flow::Flow},
    segment::{Pack, pack},
    table::{Catalogue, Rows, Table},
};
use forebay::time::Clock;
use forebay_net::{
    filter::{Filter, Programs},
    format::{
        Format,
        read::{Decoder, Step},
    },
    port::{Frame, Interface, LinkType},
    session::{Control, Output, Session, SessionConfig},
    sim::{Sim, Sizes, Spec},
};
use forebay_testing::{dice::Dice, folder::Folder};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::{EnabledStatistics, WriterProperties},
};
use std::{
    fs::File,
    io::{Seek, SeekFrom},
    net::Ipv4Addr,
    ops::ControlFlow,
    sync::Arc,
};

/// A capture file of these packets, with a loss before every seventh one. The packets of each link type have an interface.
pub fn capture(packets: &[(LinkType, Vec<u8>, u32)], begin_ns: u64) -> Vec<u8> {
    let format = Format::Pcapng;
    let mut file = format.header("test");
    let mut links: Vec<LinkType> = Vec::new();
    for (number, (link, data, wire_len)) in packets.iter().enumerate() {
        let interface = links
            .iter()
            .position(|it| it == link)
            .unwrap_or(links.len());
        let description = Interface {
            name: format!("eth{interface}"),
            link: *link,
            ..Interface::default()
        };
        let described = format.describe(&description, interface as u32);
        if interface == links.len() {
            links.push(*link);
            file.extend(format.interface(&description, &described, 262_144));
        }
        let frame = Frame {
            data,
            wire_len: (*wire_len).max(data.len() as u32),
            time_ns: begin_ns + 1000 * number as u64,
            interface: interface as u32,
            dropped_before: if number % 7 == 0 { 3 } else { 0 },
            ..Frame::default()
        };
        let at = file.len();
        file.resize(at + format.frame_len(&frame, 262_144), 0);
        format.put_frame(&mut file[at..], &frame, &described, 262_144);
    }
    file
}

/// A capture of the simulated card.
pub fn simulated(seed: u64, size: u32, count: u64) -> Vec<u8> {
    let folder = Folder::new();
    let path = folder.path("sim.pcapng");
    let clock = Clock::virtual_time();
    let spec = Spec {
        sizes: Sizes::Fixed(size),
        seed,
        count: Some(count),
        virtual_clock: true,
        ..Spec::default()
    };
    let sim = Sim::new(spec, clock.clone());
    let config = SessionConfig::default();
    let session = Session::open(
        vec![Box::new(sim)],
        Output::File(path.clone().into()),
        config,
        clock,
        Control::new().unwrap(),
    );
    let summary = session.unwrap().run(&mut |_| {});
    assert_eq!(summary.ledger.written, count);
    std::fs::read(path).unwrap()
}

/// A packet as every reader of a capture must see it.
pub type Seen = (u64, u32, Vec<u8>);

/// An archive, and the capture files from which it was made.
pub struct Made {
    folder: Folder,
    pub captures: Vec<Vec<u8>>,
    pub runtime: tokio::runtime::Runtime,
}

impl Made {
    pub fn of(captures: Vec<(&str, Vec<u8>)>) -> Made {
        Made::with(captures, |_, files| files)
    }

    /// With files of the index as `edit` changes those of a capture of this number.
    pub fn with(
        captures: Vec<(&str, Vec<u8>)>,
        edit: impl Fn(usize, Vec<IndexFile>) -> Vec<IndexFile>,
    ) -> Made {
        let folder = Folder::new();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let made = Made {
            captures: captures.iter().map(|(_, bytes)| bytes.clone()).collect(),
            runtime: runtime.enable_all().build().unwrap(),
            folder,
        };
        let archive = Archive::open(&made.path(), true).unwrap();
        made.runtime.block_on(async {
            let mut table = Table::open_or_create(&archive).await.unwrap();
            for (number, (sensor, bytes)) in captures.iter().enumerate() {
                let mut file = tempfile(&made.folder, number);
                let compress = number % 2 == 0;
                let packed = pack(&bytes[..], &mut file, &Pack { sensor, compress }).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                let put = archive.put_file(&packed.key, &mut file, packed.bytes);
                assert!(put.await.unwrap());
                let rows = Rows {
                    segment: packed.key,
                    files: edit(number, packed.index),
                };
                assert_eq!(table.append(&[rows]).await.unwrap(), 1);
            }
        });
        made
    }

    pub fn path(&self) -> String {
        self.folder.path("archive")
    }

    /// What a search finds, and what it read.
    pub fn found(&self, request: &Request) -> (Vec<Seen>, plan::Plan, read::Reading, Arc<Reads>) {
        let reads = Arc::new(Reads::default());
        let archive = Archive::open(&self.path(), false).unwrap();
        let archive = archive.counted(&reads);
        let mut seen = Vec::new();
        let (plan, reading) = self.runtime.block_on(async {
            let table = Catalogue::open(&archive).await.unwrap().unwrap();
            let plan = plan::plan(&archive, &table, request).await.unwrap();
            let each = |packet: read::Packet, _: &[read::Source]| {
                seen.push((packet.time_ns, packet.wire_len, packet.data.to_vec()));
                Ok(ControlFlow::Continue(()))
            };
            let reading = read::read(&archive, &plan.blocks, request, each, |_| {
                ControlFlow::Continue(())
            })
            .await
            .unwrap();
            (plan, reading)
        });
        (seen, plan, reading, reads)
    }

    /// What `capture -r` finds in all files.
    pub fn scanned(&self, request: &Request) -> Vec<Seen> {
        let mut programs = Programs::new(request.filter.clone());
        let mut seen = Vec::new();
        for file in &self.captures {
            let (mut decoder, mut at) = (Decoder::begin(file).unwrap().unwrap(), 0);
            while at < file.len() {
                match decoder.next(&file[at..]).unwrap() {
                    Step::Packet(frame, len) => {
                        at += len;
                        let program =
                            programs.of(decoder.interfaces()[frame.interface as usize].link);
                        let is_inside =
                            (request.from..request.to).contains(&(frame.time_ns as i64));
                        if is_inside && program.run(frame.data, frame.wire_len) > 0 {
                            seen.push((frame.time_ns, frame.wire_len, frame.data.to_vec()));
                        }
                    }
                    Step::Other(len) | Step::Described(len) => at += len,
                    other => panic!("{other:?}"),
                }
            }
        }
        seen.sort_unstable();
        seen
    }
}

fn tempfile(folder: &Folder, number: usize) -> File {
    let path = folder.path(&format!("packed-{number}"));
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    options.open(path).unwrap()
}

pub fn request(text: &str) -> Request {
    Request {
        filter: Filter::without_hosts(text).unwrap(),
        from: i64::MIN,
        to: i64::MAX,
        sensors: Vec::new(),
        answer: Answer::Packets,
        limit: None,
    }
}

/// `FOREBAY_LONG` tries all of the thousand expressions, which takes minutes in a debug build.
#[test]
fn a_search_finds_what_a_full_scan_finds_in_the_order_of_time() {
    let step = std::env::var_os("FOREBAY_LONG").map_or(2 * STEP, |_| 1);
    search_and_scan(expressions(1000).into_iter().step_by(step));
}

fn search_and_scan(expressions: impl Iterator<Item = Filter>) {
    let frames = frames();
    let part = |skip: usize| {
        let some = frames.iter().skip(skip).step_by(11).cloned();
        some.collect::<Vec<_>>()
    };
    let made = Made::of(vec![
        ("north", simulated(1, 1400, 3500)),
        ("south", simulated(2, 300, 900)),
        ("east", simulated(3, 90, 900)),
        ("north", capture(&part(0), 2_000_000)),
        ("south", capture(&part(3), 2_500_000)),
        ("east", capture(&part(5), 86_400_000_000_000 - 500_000)),
    ]);
    let mut dice = Dice(5);
    let (mut packets, mut excluded) = (0, 0);
    for filter in expressions {
        let mut request = Request {
            filter,
            ..request("")
        };
        if dice.below(3) == 0 {
            request.from = dice.below(4_000_000_i64);
            request.to = request.from + dice.below(2_000_000);
        }
        let (found, plan, reading, _) = made.found(&request);
        let expected = made.scanned(&request);
        let text = request.filter.text().to_owned();
        assert!(
            found.iter().is_sorted_by_key(|it| it.0),
            "{text}: not in the order of time"
        );
        let mut sorted = found.clone();
        sorted.sort_unstable();
        assert!(
            sorted == expected,
            "{text}: {} found, {} expected",
            found.len(),
            expected.len()
        );
        assert!(reading.failed.is_empty() && !reading.stopped, "{text}");
        assert_eq!(reading.blocks, plan.blocks.len() as u64);
        packets += found.len();
        excluded += usize::from(plan.blocks.is_empty());
        // The index alone, where it is certain, has the same number of packets.
        let request = Request {
            answer: Answer::Count,
            ..request
        };
        let (_, plan, ..) = made.found(&request);
        let (certain, others): (Vec<_>, Vec<_>) = plan.blocks.iter().partition(|it| it.is_certain);
        if others.is_empty() {
            let counted: u64 = certain.iter().map(|it| it.packets).sum();
            assert_eq!(counted, expected.len() as u64, "{text}");
        }
    }
    assert!(
        packets > 1000 && excluded > 1,
        "{packets} packets, {excluded} searches that read nothing"
    );
}

/// The flows that the index alone knows, as lines, and the number of their packets.
fn flows_of_index(made: &Made, request: &Request, max_rows: usize) -> (String, u64) {
    let archive = Archive::open(&made.path(), false).unwrap();
    let plan = made.runtime.block_on(async {
        let table = Catalogue::open(&archive).await.unwrap().unwrap();
        let plan = plan::plan_with(&archive, &table, request, max_rows);
        plan.await.unwrap()
    });
    let certain = plan.blocks.iter().filter(|it| it.is_certain);
    let packets = certain.map(|it| it.packets).sum();
    let mut lines = Vec::new();
    plan.flows.print(&mut lines, true, None).unwrap();
    (String::from_utf8(lines).unwrap(), packets)
}

#[test]
fn flows_are_the_same_if_there_are_too_many_rows_to_keep_them() {
    let made = Made::of(vec![
        ("north", simulated(1, 1400, 6500)),
        ("south", capture(&busy(), 86_400_000_000_000 - 250_000)),
    ]);
    let (mut some, mut none) = (0, 0);
    for text in [
        "",
        "udp",
        "tcp",
        "host 10.1.3.76",
        "ip6 or port 443",
        "udp and greater 1",
    ] {
        for (from, to) in [
            (i64::MIN, i64::MAX),
            // Inside blocks, so that these are not certain.
            (2_000_000, 86_400_000_000_000 - 1000),
            (86_400_000_000_000, i64::MAX),
        ] {
            let request = Request {
                answer: Answer::Flows,
                from,
                to,
                ..request(text)
            };
            let (all, packets) = flows_of_index(&made, &request, usize::MAX);
            for max in [0, 1, 20] {
                let same = flows_of_index(&made, &request, max);
                assert!(same == (all.clone(), packets), "{text}: {all}{}", same.0);
            }
            let lines = all.lines().map(|it| serde_json::from_str(it).unwrap());
            let sum = lines.map(|it: serde_json::Value| it["packets"].as_u64().unwrap());
            assert_eq!(sum.sum::<u64>(), packets, "{text}");
            *(if packets > 0 { &mut some } else { &mut none }) += 1;
        }
    }
    assert!(some >= 5 && none >= 2, "{some} with flows, {none} without");
}

fn tcp(from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> (LinkType, Vec<u8>, u32) {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0]);
    frame.extend(from.into_iter().chain(to));
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.resize(54, 0);
    (LinkType::ETHERNET, frame, 54)
}

/// Hosts of a network without 10.1.0.77, and frames that have no addresses.
fn busy() -> Vec<(LinkType, Vec<u8>, u32)> {
    let mut dice = Dice(3);
    let mut frames: Vec<_> = (0..500)
        .map(|n| {
            tcp(
                [10, 1, (n % 200) as u8, 76],
                [10, 1, (n % 7) as u8, 80],
                [40_000 + n, 443],
            )
        })
        .collect();
    for n in [100, 300] {
        let mut lldp = vec![1; 12];
        lldp.extend([0x88, 0xcc]);
        lldp.extend(dice.bytes(46));
        frames[n] = (LinkType::ETHERNET, lldp, 60);
    }
    frames
}

#[test]
fn an_absent_host_reads_no_byte_of_a_segment_and_few_of_the_index() {
    let hour = 3_600_000_000_000;
    let captures = (0..4).map(|n| ("north", capture(&busy(), n * hour)));
    let made = Made::of(captures.collect());
    for text in [
        "host 10.1.0.77",
        "net 172.16.0.0/12 and tcp",
        "ip6",
        "host 10.1.3.76 and host 10.1.0.77",
        "vlan 5",
        "tcp port 22",
    ] {
        let (found, plan, _, reads) = made.found(&request(text));
        assert_eq!((found.len(), plan.blocks.len()), (0, 0), "{text}");
        let segments = &reads.segments;
        assert_eq!((segments.requests(), segments.bytes()), (0, 0), "{text}");
        // Per hour: the file's end, which holds its bloom filters, too.
        let each = (reads.index.requests() + reads.log.requests()) as f64 / 4.0;
        assert!(each <= 5.0, "{text}: {each} requests for each hour");
    }
    // Bloom filters exclude what lies between the minimum and the maximum.
    let (_, plan, ..) = made.found(&request("host 10.1.0.77"));
    assert_eq!((plan.files, plan.by_statistics, plan.by_bloom), (4, 0, 4));
    let (_, plan, ..) = made.found(&request("vlan 5"));
    assert_eq!((plan.by_statistics, plan.by_bloom), (4, 0));
    // Files of other times are not opened, whatever they hold.
    let early = Request {
        to: hour as i64,
        ..request("tcp")
    };
    let (found, plan, _, reads) = made.found(&early);
    assert_eq!((found.len(), plan.by_time), (498, 3));
    assert_eq!(reads.index.requests(), 1);
    let elsewhere = Request {
        sensors: vec!["south".into()],
        ..request("tcp")
    };
    assert_eq!(made.found(&elsewhere).0.len(), 0);
}

#[test]
fn one_flow_reads_at_most_twice_the_bytes_of_its_blocks_and_neighbours_are_one_request() {
    // Two blocks of large frames, and one flow in the second one.
    let mut frames: Vec<_> = (0..4000)
        .map(|n| {
            let (link, mut frame, _) = tcp([10, 1, 0, 1], [10, 1, 0, 2], [1000 + n / 100, 443]);
            frame.extend(Dice(n.into()).bytes(1400));
            (link, frame, 1454)
        })
        .collect();
    frames[3500] = tcp([10, 1, 0, 7], [10, 1, 0, 8], [5000, 22]);
    let made = Made::of(vec![("north", capture(&frames, 0))]);
    let (found, plan, reading, reads) = made.found(&request("host 10.1.0.7 and tcp port 22"));
    assert_eq!((found.len(), plan.blocks.len(), reading.blocks), (1, 1, 1));
    let (read, needed) = (reads.segments.bytes(), plan.bytes());
    assert!(read <= 2 * needed, "{read} of {needed}");
    let all = made.found(&request("tcp"));
    assert_eq!((all.0.len(), all.2.blocks), (4000, 2));
    // The length of the segment, its directory, and all blocks with one request.
    assert_eq!(all.3.segments.requests(), 3);
}

#[test]
fn losses_before_packets_that_do_not_match_are_marked_at_the_next_one() {
    let mut frames: Vec<_> = (0..14)
        .map(|n| tcp([10, 0, 0, 1], [10, 0, 0, 2], [1000 + n, 80]))
        .collect();
    frames.push(tcp([10, 0, 0, 1], [10, 0, 0, 2], [9, 80]));
    let made = Made::of(vec![("north", capture(&frames, 0))]);
    let mut file = Vec::new();
    let mut output = super::output::Output::begin(&mut file, "test", Format::Pcapng).unwrap();
    let archive = Archive::open(&made.path(), false).unwrap();
    let request = request("src port 1005 or src port 1012");
    let lost = made.runtime.block_on(async {
        let table = Catalogue::open(&archive).await.unwrap().unwrap();
        let plan = plan::plan(&archive, &table, &request).await.unwrap();
        let each = |packet: read::Packet, sources: &[read::Source]| {
            output.packet(&packet, sources)?;
            Ok(ControlFlow::Continue(()))
        };
        let reading = read::read(&archive, &plan.blocks, &request, each, |_| {
            ControlFlow::Continue(())
        })
        .await
        .unwrap();
        output.finish(&reading.interfaces).unwrap()
    });
    // Losses of 3 before the packets 0, 7 and 14; the last is after all packets found.
    assert_eq!(lost, 9);
    let (mut decoder, mut at, mut marked) =
        (Decoder::begin(&file).unwrap().unwrap(), 0, Vec::new());
    while at < file.len() {
        at += match decoder.next(&file[at..]).unwrap() {
            Step::Packet(frame, len) => {
                marked.push(frame.dropped_before);
                len
            }
            Step::Other(len) | Step::Described(len) => len,
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(marked, [3, 3]);
    assert_eq!(decoder.interfaces()[0].name, "north/eth0");
    let recorded = decoder.recorded()[0].unwrap();
    assert_eq!((recorded.dropped, recorded.delivered), (Some(9), Some(2)));
}

#[test]
fn a_segment_that_is_gone_or_damaged_is_reported_and_the_others_are_found() {
    let hour = 3_600_000_000_000;
    let captures = (0..3).map(|n| ("north", capture(&busy(), n * hour)));
    let made = Made::of(captures.collect());
    let (all, plan, ..) = made.found(&request("tcp"));
    assert_eq!(all.len(), 3 * 498);
    let path =
        |block: &super::block::Block| std::path::Path::new(&made.path()).join(&*block.segment);
    std::fs::remove_file(path(&plan.blocks[0])).unwrap();
    let mut bytes = std::fs::read(path(&plan.blocks[1])).unwrap();
    bytes[..40].fill(0x55);
    std::fs::write(path(&plan.blocks[1]), bytes).unwrap();
    let (found, _, reading, _) = made.found(&request("tcp"));
    assert_eq!(found, all[2 * 498..]);
    let failed: Vec<_> = reading.failed.iter().map(|it| &it.segment).collect();
    assert_eq!(failed, [&plan.blocks[0].segment, &plan.blocks[1].segment]);
    let why = &reading.failed[0].error;
    assert!(why.contains("is missing"), "{why}");
}

#[test]
fn a_search_that_is_stopped_has_returned_the_earliest_packets() {
    // Two sensors with the same times; all blocks of each are one request.
    let frames = |last: u8| -> Vec<_> {
        let mut frame = tcp([10, 1, 0, 1], [10, 1, 0, last], [1000, 443]);
        frame.1.extend([0; 1400]);
        vec![frame; 9000]
    };
    let made = Made::of(vec![
        ("north", capture(&frames(2), 0)),
        ("south", capture(&frames(3), 100)),
    ]);
    let (all, plan, ..) = made.found(&request("tcp"));
    assert_eq!((all.len(), plan.blocks.len()), (18_000, 8));
    let archive = Archive::open(&made.path(), false).unwrap();
    let request = request("tcp");
    let mut seen = 0;
    let reading = made.runtime.block_on(async {
        let each = |packet: read::Packet, _: &[read::Source]| {
            assert_eq!(packet.time_ns, all[seen].0);
            seen += 1;
            Ok(ControlFlow::Continue(()))
        };
        let progress = |reading: &read::Reading| match reading.blocks {
            4.. => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        read::read(&archive, &plan.blocks, &request, each, progress)
            .await
            .unwrap()
    });
    assert!(reading.stopped && reading.blocks == 4);
    assert!((4000..18_000).contains(&seen), "{seen}");
}

/// The addresses of a client and a server.
type Ends = ([u8; 4], [u8; 4]);

/// Rows between random hosts. A few are not IP, and have no addresses. `cut`: of a few others, it is not known what they are.
fn random_rows(cut: bool) -> (Vec<Row>, Vec<Ends>) {
    let mut dice = Dice(1);
    let (mut rows, mut ends) = (Vec::new(), Vec::new());
    for number in 0..40_000 {
        let client = [10, 0, dice.below(2_u8), dice.below(200_u8)];
        let server = [100, 64, dice.below(100_u8), dice.below(200_u8)];
        let mut frame = tcp(client, server, [50_000, 443]).1;
        match number % 1000 {
            1 => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
            2 if cut => frame.truncate(20),
            _ => ends.push((client, server)),
        }
        rows.push(Row {
            flow: Flow::of(LinkType::ETHERNET, &frame).0,
            block: (number / 100 * 1000, 1000),
            packets: 1,
            ..Row::default()
        });
    }
    (rows, ends)
}

/// The same rows as another program might write them.
fn rewritten(file: &IndexFile, properties: WriterProperties) -> IndexFile {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file.bytes.clone()).unwrap();
    let schema = reader.schema().clone();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    for batch in reader.build().unwrap() {
        writer.write(&batch.unwrap()).unwrap();
    }
    IndexFile {
        bytes: writer.into_inner().unwrap().into(),
        ..file.clone()
    }
}

#[test]
fn pages_without_an_address_are_left_out_and_no_row_that_may_match() {
    let groups = || WriterProperties::builder().set_max_row_group_row_count(Some(10_000));
    let by_bytes = || groups().set_dictionary_enabled(false);
    let variants = [
        ("as we write it", None, false),
        ("with unknown types", None, true),
        (
            "without bounds of pages",
            Some(groups().set_statistics_enabled(EnabledStatistics::Chunk)),
            false,
        ),
        (
            "with pages of different rows, and shortened bounds",
            Some(
                by_bytes()
                    .set_data_page_size_limit(4000)
                    .set_write_batch_size(50)
                    .set_column_index_truncate_length(Some(29)),
            ),
            false,
        ),
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (name, properties, cut) in variants {
        let (rows, ends) = random_rows(cut);
        let unknown = if cut { 40 } else { 0 };
        let folder = Folder::new();
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let sha256 = "0".repeat(64);
        let segment = format!("segments/sensor=a/date=1970-01-01/hour=00/{sha256}.pcapng");
        let mut files = index::write(rows, "a", &segment).unwrap();
        if let Some(properties) = properties {
            files = vec![rewritten(&files[0], properties.build())];
        }
        runtime.block_on(async {
            let mut table = Table::open_or_create(&archive).await.unwrap();
            table.append(&[Rows { segment, files }]).await.unwrap();
        });
        let found = |text: &str| {
            let plan = runtime.block_on(async {
                let table = Catalogue::open(&archive).await.unwrap().unwrap();
                plan::plan(&archive, &table, &request(text)).await.unwrap()
            });
            if name == "as we write it" && text.starts_with("host 100") {
                // The rows are sorted by these addresses.
                assert!(plan.rows_read < 10_000, "{text}: {} rows", plan.rows_read);
            }
            plan.rows
        };
        for (client, server) in ends.iter().step_by(17_000) {
            let has = |of: &dyn Fn(&Ends) -> bool| -> u64 {
                ends.iter().filter(|it| of(it)).count() as u64 + unknown
            };
            let [a, b] = [client, server].map(|it| Ipv4Addr::from(*it).to_string());
            for (text, expected) in [
                (format!("host {b}"), has(&|it| it.1 == *server)),
                (format!("host {a}"), has(&|it| it.0 == *client)),
                (
                    format!("host {b} and host {a}"),
                    has(&|it| it == &(*client, *server)),
                ),
                (
                    format!("host {a} or host {b}"),
                    has(&|it| it.0 == *client || it.1 == *server),
                ),
                (
                    format!("net 100.64.{}.0/24 and not host {b}", server[2]),
                    has(&|it| it.1[2] == server[2] && it.1 != *server),
                ),
            ] {
                assert_eq!(found(&text), expected, "{name}: {text}");
            }
        }
        assert_eq!(found("not ip"), 40 + unknown, "{name}");
    }
}
