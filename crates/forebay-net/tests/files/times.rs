//! Packets of a range of times: those that a reading of the whole file finds, whether the file has an index, and wherever packets are out
//! of order. A file with an index is read only where it may have them.

use super::{
    Packet,
    blocks::{Composed, packet_with},
    drain, in_memory,
};
use forebay::time::Clock;
use forebay_net::{
    file::{File, TimeRange},
    filter::{Filter, View},
    open::{self, Name, Options},
    port::{LinkType, Port, Wake},
    session::{Control, Output, Session, SessionConfig},
};
use forebay_testing::folder::Folder;
use rustix::event::{PollFd, PollFlags, poll};
use std::{fs, ops::Range, path::Path};

const PACKETS: u64 = 6000;
const SECOND: u64 = 1_000_000_000;
const BEGIN: u64 = 1_700_000_000 * SECOND;
/// The block of an index.
const INDEX: u32 = 0x8000_f0b6;

/// A packet each 10 ms. Each fiftieth is 7 s late, and one is an hour late.
fn time_of(number: u64) -> u64 {
    let late = match number {
        4000 => 3600,
        number if number % 50 == 0 => 7,
        _ => 0,
    };
    BEGIN + number * SECOND / 100 - late * SECOND
}

/// The packets of 6 MB, with two other blocks in the middle: names of hosts, and an interface with times in microseconds.
fn composed() -> Vec<u8> {
    let mut file = Composed::new(false);
    file.section(&[]);
    let nanoseconds = file.option(9, &[9]);
    file.interface(1, 0, &nanoseconds);
    for number in 0..PACKETS {
        if number == 3000 {
            let names = [
                file.words(&[1 | 6 << 16]),
                b"\x0a\0\0\x01a\0\0\0\0\0\0\0".to_vec(),
            ];
            file.block(4, &names.concat());
            file.interface(1, 0, &[]);
        }
        let (interface, ticks) = match number {
            3000.. if number % 3 == 0 => (1, time_of(number) / 1000),
            _ => (0, time_of(number)),
        };
        let packet = packet_with(number as u8, 900 + number as usize % 200);
        file.packet(6, interface, ticks, &[], packet);
    }
    file.bytes
}

/// Copies a file as a session does, which adds an index to a pcapng file of this size.
fn copy(bytes: &[u8], to: &Path) {
    let port: Box<dyn Port> = Box::new(File::from_stream(in_memory(bytes), "capture").unwrap());
    let (output, control) = (Output::File(to.into()), Control::new().unwrap());
    let config = SessionConfig::default();
    let session = Session::open(vec![port], output, config, Clock::real(), control).unwrap();
    let summary = session.run(&mut |_| {});
    summary.ledger.check().unwrap();
    assert!(summary.port_error.is_none());
}

/// Everything in the file, without an index: the bytes of a pipe have none.
fn all(bytes: &[u8]) -> Vec<Packet> {
    let mut file = File::from_stream(in_memory(bytes), "capture").unwrap();
    let (packets, error) = drain(&mut file, 256);
    assert_eq!(error, None);
    packets
}

/// The packets of a range in a file, its number of interfaces, and an error.
fn between(path: &Path, range: TimeRange) -> (Vec<Packet>, usize, Option<String>) {
    let mut file = File::open(path).unwrap().between(range);
    let (packets, error) = drain(&mut file, 256);
    (packets, file.interfaces().len(), error)
}

/// The same as the command reads it, with several threads where that is faster. Counts received and filtered packets, too.
fn as_opened(path: &Path, range: TimeRange, filter: &str) -> (Vec<Packet>, [u64; 2]) {
    let names = [Name::File(path.into())];
    let options = Options {
        times: Some(range),
        filter: match filter {
            "" => None,
            text => Some(Filter::without_hosts(text).unwrap()),
        },
        reader_filters: true,
        ..Options::default()
    };
    let mut port = open::ports(&names, &options, &Clock::real())
        .unwrap()
        .remove(0);
    let mut packets = Vec::new();
    loop {
        match port.arm().unwrap() {
            Wake::End => break,
            Wake::Fd(fd) => {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
            }
            _ => {}
        }
        port.disarm();
        let mut burst = port.receive(64).unwrap();
        while let Some(frame) = burst.next_frame() {
            packets.push(Packet {
                link: 1,
                ..Packet::of(&frame)
            });
        }
    }
    let counts = port.counts();
    let mut filtered = counts.filtered.unwrap();
    // What a session does then.
    if let (Some(filter), false) = (&options.filter, port.info().filters) {
        let program = filter.compile(LinkType::ETHERNET, View::Packet, 1).unwrap();
        let matches = |packet: &Packet| program.run(&packet.data, packet.wire_len) > 0;
        let all = packets.len();
        packets.retain(matches);
        filtered += (all - packets.len()) as u64;
    }
    (packets, [counts.received, filtered])
}

fn seconds(range: Range<u64>) -> TimeRange {
    TimeRange::new(BEGIN + range.start * SECOND, BEGIN + range.end * SECOND).unwrap()
}

fn of_range(packets: &[Packet], range: TimeRange) -> Vec<Packet> {
    let is_in = |packet: &&Packet| range.contains(packet.time_ns);
    packets.iter().filter(is_in).cloned().collect()
}

fn ranges() -> Vec<TimeRange> {
    let to_the_end = TimeRange::new(BEGIN + 58 * SECOND, u64::MAX).unwrap();
    let mut ranges: Vec<_> = (0..60).step_by(7).map(|at| seconds(at..at + 2)).collect();
    ranges.extend([
        TimeRange::default(),
        to_the_end,
        TimeRange::new(0, BEGIN - 30 * SECOND).unwrap(), // the packet that is an hour late
        TimeRange::new(0, 5).unwrap(),
        seconds(100..200),
    ]);
    ranges
}

#[test]
fn packets_of_a_range_are_those_of_a_whole_reading_with_and_without_an_index() {
    let folder = Folder::new();
    let bytes = composed();
    let packets = all(&bytes);
    assert_eq!(packets.len() as u64, PACKETS);
    let names = [
        "plain.pcapng",
        "indexed.pcapng",
        "copy.pcap",
        "copy.pcapng.zst",
    ];
    for name in names {
        let path = folder.path(name);
        let path = Path::new(&path);
        match name {
            "plain.pcapng" => fs::write(path, &bytes).unwrap(),
            _ => copy(&bytes, path),
        }
        let is_indexed = index_of(&fs::read(path).unwrap()).is_some();
        assert_eq!(is_indexed, name == "indexed.pcapng");
        for range in ranges() {
            let mut expected = of_range(&packets, range);
            if name == "copy.pcap" {
                expected.iter_mut().for_each(|packet| packet.interface = 0);
            }
            let (found, interfaces, error) = between(path, range);
            assert_eq!(
                (found.len(), error),
                (expected.len(), None),
                "{name} {range:?}"
            );
            assert!(found == expected, "{name} {range:?}");
            // The second one is described in the middle of the file.
            assert_eq!(
                interfaces,
                if name == "copy.pcap" { 1 } else { 2 },
                "{range:?}"
            );
            let (found, counts) = as_opened(path, range, "");
            assert!(found == expected, "{name} {range:?}");
            assert_eq!(counts, [expected.len() as u64, 0]);
            let all = expected.len() as u64;
            expected.retain(|packet| packet.data[0] & 1 == 0);
            let (found, [received, filtered]) = as_opened(path, range, "link[0] & 1 = 0");
            assert!(found == expected, "{name} {range:?}");
            // What follows the last match may be unread when the port ends, and is in no count then.
            assert_eq!(received - filtered, expected.len() as u64);
            assert!(received <= all);
        }
    }
}

/// The offset and the block of the index of a file.
fn index_of(bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    let len = u32::from_le_bytes(*bytes.last_chunk()?) as usize;
    let offset = bytes.len().checked_sub(len)?;
    let block = bytes[offset..].to_vec();
    let kind = u32::from_le_bytes(*block.first_chunk()?);
    (kind == INDEX).then_some((offset, block))
}

#[test]
fn what_an_index_shows_to_be_needless_is_not_read() {
    let folder = Folder::new();
    let path = folder.path("indexed.pcapng");
    let path = Path::new(&path);
    let bytes = composed();
    copy(&bytes, path);
    let whole = fs::read(path).unwrap();
    let (offset, block) = index_of(&whole).unwrap();
    let range = seconds(30..31);
    let expected = of_range(&all(&bytes), range);
    let begins = block[32..block.len() - 4].chunks_exact(24);
    let begins = begins.map(|it| u64::from_le_bytes(it[..8].try_into().unwrap()) as usize);
    // Packet 3000 is in the middle, and packet 4000 an hour late. The window that opening reads, and the first block after what is
    // needed, stay.
    let needed = begins
        .clone()
        .filter(|&begin| begin < offset / 12 * 5)
        .max()
        .unwrap();
    let needless = begins
        .clone()
        .filter(|&begin| begin > offset / 3 * 2)
        .min()
        .unwrap();
    assert!(needed > 1 << 20 && needless < offset - (500 << 10));
    let mut damaged = whole.clone();
    damaged[512 << 10..needed].fill(0xff);
    damaged[needless + 2000..offset - 1000].fill(0xff);
    fs::write(path, &damaged).unwrap();
    let (found, interfaces, error) = between(path, range);
    assert!(found == expected && interfaces == 2, "{error:?}");
    assert_eq!(error, None);
    assert!(as_opened(path, range, "").0 == expected);
    let (found, _, error) = between(path, TimeRange::default());
    assert!(found.len() < 1000 && error.is_some());
}

#[test]
fn an_index_that_is_not_that_of_the_file_is_not_used() {
    /// As the writer computes it.
    fn sealed(mut block: Vec<u8>) -> Vec<u8> {
        let end = block.len() - 4;
        let numbers = block[32..end].chunks_exact(8);
        let numbers = numbers.map(|it| u64::from_le_bytes(it.try_into().unwrap()));
        let sum = numbers.fold(0xcbf2_9ce4_8422_2325_u64, |sum, number| {
            (sum ^ number).wrapping_mul(0x0000_0100_0000_01b3)
        });
        block[24..32].copy_from_slice(&sum.to_le_bytes());
        block
    }
    let folder = Folder::new();
    let path = folder.path("indexed.pcapng");
    let path = Path::new(&path);
    let bytes = composed();
    copy(&bytes, path);
    let whole = fs::read(path).unwrap();
    let (offset, block) = index_of(&whole).unwrap();
    assert!(sealed(block.clone()) == block);
    let moved = |add: u64| {
        let mut block = block.clone();
        for entry in (32..block.len() - 4).step_by(24) {
            let number = u64::from_le_bytes(block[entry..entry + 8].try_into().unwrap());
            let changed = number.saturating_add(add);
            block[entry..entry + 8].copy_from_slice(&changed.to_le_bytes());
        }
        [&whole[..offset], &sealed(block)].concat()
    };
    let shorter = [&whole[..offset - 4000], &block].concat();
    let twice = [&whole[..], &whole].concat();
    let files = [
        ("cut", whole[..whole.len() - 1].to_vec()),
        ("torn", shorter),
        ("other offsets", moved(4)),
        ("offsets beyond the file", moved(u64::MAX / 2)),
        ("two files", twice),
        ("only an index", block.clone()),
    ];
    for (name, bytes) in files {
        fs::write(path, &bytes).unwrap();
        let Ok(mut file) = File::open(path) else {
            assert_eq!(name, "only an index");
            continue;
        };
        let (packets, full_error) = drain(&mut file, 256);
        for range in ranges() {
            let (found, _, error) = between(path, range);
            assert!(found == of_range(&packets, range), "{name} {range:?}");
            assert_eq!(error.is_some(), full_error.is_some(), "{name} {range:?}");
        }
    }
}

/// Packets of 3 MB, one each 10 ms from this time on.
fn in_order(begin: u64) -> Vec<u8> {
    let mut file = Composed::new(false);
    file.section(&[]);
    let nanoseconds = file.option(9, &[9]);
    file.interface(1, 0, &nanoseconds);
    for number in 0..3000 {
        let packet = packet_with(number as u8, 1000);
        file.packet(6, 0, begin + number * SECOND / 100, &[], packet);
    }
    file.bytes
}

#[test]
fn the_index_of_another_file_hides_no_packets() {
    let folder = Folder::new();
    let path = folder.path("indexed.pcapng");
    let path = Path::new(&path);
    let mut files = [BEGIN, BEGIN + 100 * SECOND].map(|begin| {
        copy(&in_order(begin), path);
        fs::read(path).unwrap()
    });
    let (offset, own) = index_of(&files[0]).unwrap();
    let (same, other) = index_of(&files[1]).unwrap();
    assert!(offset == same && own != other);
    files[0].truncate(offset);
    files[0].extend(other);
    fs::write(path, &files[0]).unwrap();
    for (range, expected) in [(10..12, 200), (110..112, 0), (0..200, 3000), (200..300, 0)] {
        let (found, _, error) = between(path, seconds(range.clone()));
        assert_eq!((found.len(), error), (expected, None), "{range:?}");
    }
}
