//! A session writes the same bytes from one thread and from several, also when whole runs of records are copied or lent: for all
//! records, and wherever the capture stops.

use super::{blocks::Composed, drain, in_memory};
use forebay::{store, time::Clock};
use forebay_net::{
    file::{
        File,
        parallel::{ParallelConfig, ParallelFile},
    },
    filter::Filter,
    ledger::Ledger,
    port::{Handover, Port, Wake},
    session::{Control, Output, Session, SessionConfig},
};
use forebay_testing::dice::rounds;
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use std::io::{Read, Seek};

/// A record of a file, which may differ from what we would write.
#[derive(Clone, Debug, Default)]
struct Record {
    len: usize,
    first: u8,
    interface: u32,
    ticks: u64,
    wire_len: u32,
    padding: u8,
    has_options: bool,
    /// It has a comment and flags.
    has_comment: bool,
    /// Secrets, a custom block and a block of an unknown kind follow it.
    has_blocks: bool,
}

impl Record {
    /// A record as we write it.
    fn plain(len: usize) -> Record {
        Record {
            len,
            first: 1,
            ticks: 1_700_000_000_000_000_000,
            wire_len: len as u32,
            ..Record::default()
        }
    }

    fn put(&self, file: &mut Composed) {
        let [high, low] = [(self.ticks >> 32) as u32, self.ticks as u32];
        let mut body = file.words(&[self.interface, high, low, self.len as u32, self.wire_len]);
        body.push(self.first);
        body.resize(20 + self.len, 7);
        body.resize((20 + self.len).next_multiple_of(4), self.padding);
        if self.has_comment {
            body.extend(file.option(1, b"a comment"));
            body.extend(file.option(2, &file.u32(0x41)));
        }
        if self.has_options {
            body.extend(file.option(4, &file.u64(3)));
            body.extend(file.option(0, &[]));
        }
        file.block(6, &body);
        if self.has_blocks {
            let secrets = [file.words(&[0x544c_534b, 5]), b"first\0\0\0".to_vec()].concat();
            file.block(10, &secrets);
            let custom = [file.words(&[12_345]), vec![self.first; 9]].concat();
            file.block(0xbad, &custom);
            file.block(77, &[1; 4]);
        }
    }
}

/// A file with three interfaces of different time resolutions.
fn file(big: bool, records: &[Record]) -> Vec<u8> {
    let mut file = Composed::new(big);
    file.section(&[]);
    for resolution in [9, 6, 0x80 | 20] {
        let option = file.option(9, &[resolution]);
        file.interface(1, 0, &option);
    }
    records.iter().for_each(|record| record.put(&mut file));
    file.bytes
}

/// The output of a session: bytes, counts, and errors.
fn outcome(ports: Vec<Box<dyn Port>>, config: SessionConfig) -> (Vec<u8>, Ledger, Option<String>) {
    let fd = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).unwrap();
    let mut output = std::fs::File::from(fd);
    let stream = Output::Stream(output.try_clone().unwrap(), "output".into());
    let control = Control::new().unwrap();
    let session = Session::open(ports, stream, config, Clock::real(), control);
    let summary = session.unwrap().run(&mut |_| {});
    summary.ledger.check().unwrap();
    let mut bytes = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut bytes).unwrap();
    let error = summary.port_error.map(|error| error.to_string());
    (bytes, summary.ledger, error)
}

/// Frames of the run at the beginning of a file. The last window of a file is read without runs, so another one follows.
fn run_of(big: bool, records: &[Record]) -> Option<usize> {
    let filter: Filter = "".parse().unwrap();
    let config = ParallelConfig {
        threads: 2,
        window_bytes: file(big, records).len() - file(big, &[]).len(),
    };
    let bytes = file(big, &[records, &[Record::plain(1)]].concat());
    let opened = File::from_stream(in_memory(&bytes), "capture").unwrap();
    let mut port = ParallelFile::new(opened, &filter, &config).unwrap();
    loop {
        assert!(!matches!(port.arm().unwrap(), Wake::End));
        let mut burst = port.receive(256).unwrap();
        let runs = burst.encoded_runs().unwrap();
        let run = runs.next_run(usize::MAX, Handover::Copy);
        let run = run.map(|run| run.frames);
        if run.is_some() || burst.next_frame().is_some() {
            return run;
        }
    }
}

#[test]
fn only_records_that_would_be_encoded_identically_are_a_run() {
    let plain = Record::plain(61);
    let twenty = |record: &Record| run_of(false, &vec![record.clone(); 20]);
    assert_eq!(twenty(&plain), Some(20));
    assert_eq!(run_of(false, &vec![plain.clone(); 1000]), Some(256));
    let changes: [fn(&mut Record); 5] = [
        |it| it.padding = 9,
        |it| it.wire_len = 60,
        |it| it.has_options = true,
        |it| (it.interface, it.ticks) = (1, u64::MAX / 2),
        |it| it.interface = 2,
    ];
    for change in changes {
        let mut record = plain.clone();
        change(&mut record);
        assert_eq!(twenty(&record), None, "{record:?}");
    }
    assert_eq!(run_of(true, &vec![plain; 20]), None, "big-endian");
}

#[test]
fn a_window_whose_matching_packets_are_adjacent_is_lent_as_a_whole() {
    let records = vec![Record::plain(61); 1000];
    for filter in ["", "link[0] = 1", "less 60"] {
        let all = file(false, &records);
        let begin = file(false, &[]).len();
        let config = ParallelConfig {
            threads: 2,
            window_bytes: all.len() - begin,
        };
        // The last window of a file is never lent, so another one follows.
        let bytes = file(false, &[&records[..], &[Record::plain(61)]].concat());
        let opened = File::from_stream(in_memory(&bytes), "capture").unwrap();
        let mut port = ParallelFile::new(opened, &filter.parse().unwrap(), &config).unwrap();
        let mut lent = Vec::new();
        while !matches!(port.arm().unwrap(), Wake::End) {
            // The budget does not limit a loan.
            let mut burst = port.receive(1).unwrap();
            let runs = burst.encoded_runs().unwrap();
            let found = runs.next_run(usize::MAX, Handover::Lend);
            let found = found.map(|run| run.frames);
            if found.is_some() {
                let some = runs.next_run(999, Handover::Lend);
                assert!(some.is_none(), "all of them or none");
                let loan = runs.take_run(Handover::Lend).unwrap();
                assert!(loan.bytes() == &bytes[begin..all.len()]);
                assert!(burst.next_frame().is_none());
                lent.push((found, loan));
            } else {
                burst.next_frame();
            }
        }
        let passing = if filter == "less 60" { 0 } else { 1001 };
        let counts = port.counts();
        assert_eq!(
            (counts.received, counts.filtered),
            (1001, Some(1001 - passing))
        );
        assert_eq!(lent.len(), usize::from(passing > 0), "{filter}");
        assert!(lent.iter().all(|(frames, _)| *frames == Some(1000)));
    }
}

fn record() -> impl Strategy<Value = Record> {
    let usual = (0..100_usize, 0..8_u8).prop_map(|(len, first)| Record {
        first,
        ..Record::plain(len.max(1))
    });
    let any = (
        (1..3000_usize, any::<u8>(), 0..3_u32, any::<u64>()),
        (0..4000_u32, any::<u8>(), any::<bool>()),
    );
    let any = any.prop_map(
        |((len, first, interface, ticks), (wire_len, padding, has_options))| Record {
            len,
            first,
            interface,
            ticks,
            wire_len,
            padding,
            has_options,
            has_comment: first & 4 > 0,
            has_blocks: first & 8 > 0,
        },
    );
    prop_oneof![40 => usual, 1 => any]
}

/// A part of a generated file.
#[derive(Clone, Debug)]
enum Part {
    Record(Record),
    /// Usual records of one interface, at any time resolution.
    Many(usize, Record),
    Statistics(u32),
    /// A block that is skipped.
    Other,
    Interface(u8, u16),
    /// A section with interfaces of these time resolutions, big-endian or not.
    Section(bool, [u8; 2]),
}

fn part() -> impl Strategy<Value = Part> {
    let resolution = || prop::sample::select(vec![9_u8, 6, 3, 7, 0, 12, 0x80 | 20, 0x80 | 30]);
    let like = (1..90_usize, 0..8_u8, 0..3_u32, 0..1_u64 << 50);
    let like = like.prop_map(|(len, first, interface, ticks)| Record {
        first,
        interface,
        ticks,
        ..Record::plain(len)
    });
    prop_oneof![
        5 => record().prop_map(Part::Record),
        5 => (0..8_u8, 0..3_u32).prop_map(|(first, interface)| Part::Record(Record {
            first,
            interface,
            has_options: first & 1 > 0,
            has_comment: first & 2 > 0,
            has_blocks: first & 4 > 0,
            ..Record::plain(40)
        })),
        10 => (1..300_usize, like).prop_map(|(count, record)| Part::Many(count, record)),
        1 => (0..4_u32).prop_map(Part::Statistics),
        1 => Just(Part::Other),
        1 => (resolution(), 0..3_u16).prop_map(|(resolution, link)| Part::Interface(resolution, link)),
        3 => (prop::bool::weighted(0.2), [resolution(), resolution()]).prop_map(|(big, of)| Part::Section(big, of)),
    ]
}

/// A file of these parts. Interface numbers are taken modulo the number of interfaces.
fn file_of(parts: &[Part]) -> Vec<u8> {
    let mut file = Composed::new(false);
    let mut interfaces = 0;
    let section = |file: &mut Composed, big, resolutions: &[u8]| {
        file.order(big);
        file.section(&[]);
        for &resolution in resolutions {
            let option = file.option(9, &[resolution]);
            file.interface(1, 0, &option);
        }
        resolutions.len() as u32
    };
    interfaces += section(&mut file, false, &[9, 6, 0x80 | 20]);
    for part in parts {
        let fitting = |record: &Record, ticks| Record {
            interface: record.interface % interfaces,
            ticks: record.ticks + ticks,
            ..record.clone()
        };
        match part {
            Part::Record(record) => Record {
                interface: record.interface % interfaces,
                ..record.clone()
            }
            .put(&mut file),
            Part::Many(count, record) => {
                for number in 0..*count as u64 {
                    fitting(record, number).put(&mut file);
                }
            }
            Part::Statistics(interface) => {
                let option = [file.option(4, &file.u64(77)), file.option(0, &[])].concat();
                let body = [file.words(&[*interface, 0, 9]), option].concat();
                file.block(5, &body);
            }
            Part::Other => file.block(0xbad, &[1, 2, 3, 4]),
            Part::Interface(resolution, link) => {
                let option = file.option(9, &[*resolution]);
                file.interface(*link, 0, &option);
                interfaces += 1;
            }
            Part::Section(big, resolutions) => {
                interfaces = section(&mut file, *big, resolutions);
            }
        }
    }
    file.bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(250)))]

    #[test]
    fn several_threads_write_what_one_would(
        big in prop::bool::weighted(0.1),
        records in prop::collection::vec(record(), 0..900),
        filter in prop::sample::select(vec!["", "link[0] != 0", "link[0] & 1 = 0", "link[0] = 3"]),
        window_bytes in 200..60_000_usize,
        count in prop::option::weighted(0.3, 1..900_u64),
        snaplen in prop::sample::select(vec![262_144_u32, 50]),
        budget in prop::sample::select(vec![256_usize, 100]),
        thread in any::<bool>(),
    ) {
        let bytes = file(big, &records);
        let filter: Filter = filter.parse().unwrap();
        let config = SessionConfig {
            count,
            snaplen,
            budget,
            filter: Some(filter.clone()),
            store: store::StoreConfig { buffers: 2, buffer_bytes: 8192, thread, ..store::StoreConfig::default() },
            ..SessionConfig::default()
        };
        let opened = || File::from_stream(in_memory(&bytes), "capture").unwrap();
        let one = outcome(vec![Box::new(opened())], config.clone());
        let parallel = ParallelConfig { threads: 2, window_bytes };
        let many = outcome(vec![Box::new(ParallelFile::new(opened(), &filter, &parallel).unwrap())], config);
        prop_assert!(one.2.is_none() && many.2.is_none());
        prop_assert_eq!(one.1, many.1);
        prop_assert!(one.0 == many.0, "the bytes differ");
    }

    #[test]
    fn several_threads_write_what_one_would_with_sections_interfaces_and_torn_files(
        files in prop::collection::vec((prop::collection::vec(part(), 0..12), prop::option::weighted(0.2, any::<prop::sample::Index>())), 1..3),
        garble in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
        expression in prop::sample::select(vec!["", "", "len > 30", "len & 1 = 0", "link[0] & 1 = 0", "link[0] = 3", "greater 5000"]),
        window_bytes in prop_oneof![200..4000_usize, 4000..60_000_usize],
        count in prop::option::weighted(0.3, 1..900_u64),
        file_bytes in prop::option::weighted(0.1, 1000..100_000_u64),
        snaplen in prop::sample::select(vec![262_144_u32, 50]),
        budget in prop::sample::select(vec![256_usize, 1000, 100]),
        early_bytes in prop::sample::select(vec![usize::MAX, 1000, 1]),
        thread in any::<bool>(),
    ) {
        let mut all: Vec<_> = files.iter().map(|(parts, cut)| {
            let mut bytes = file_of(parts);
            if let Some(cut) = cut {
                let len = cut.index(bytes.len());
                bytes.truncate(len.max(400));
            }
            bytes
        }).collect();
        if let Some((at, value)) = garble && all[0].len() > 400 {
            let at = 300 + at.index(all[0].len() - 300);
            all[0][at] = value;
        }
        let filter: Filter = expression.parse().unwrap();
        let config = SessionConfig {
            count,
            snaplen,
            budget,
            // Descriptions of interfaces count as bytes, too, and may be at different places: see below.
            file_bytes: file_bytes.filter(|_| expression.is_empty()),
            filter: Some(filter.clone()),
            // Enough room for everything. Otherwise the second of two interfaces may be described after packets of the first.
            store: store::StoreConfig { buffers: 4, buffer_bytes: 1 << 20, early_bytes, thread, ..store::StoreConfig::default() },
            ..SessionConfig::default()
        };
        let open = |bytes: &Vec<u8>| File::from_stream(in_memory(bytes), "capture");
        // A file that ends before its first description cannot be opened at all.
        prop_assume!(all.iter().all(|bytes| open(bytes).is_ok()));
        let opened = |bytes: &Vec<u8>| open(bytes).unwrap();
        let one = outcome(all.iter().map(|bytes| Box::new(opened(bytes)) as Box<dyn Port>).collect(), config.clone());
        let parallel = ParallelConfig { threads: 2, window_bytes };
        let in_parallel = |bytes| Box::new(ParallelFile::new(opened(bytes), &filter, &parallel).unwrap()) as Box<dyn Port>;
        let many = outcome(all.iter().map(in_parallel).collect(), config);
        prop_assert_eq!(one.2, many.2);
        prop_assert_eq!(one.1, many.1);
        // With several threads an interface in mid-file is described before its first matching packet, otherwise before its first
        // packet. If all packets match, that is the same.
        if expression.is_empty() {
            prop_assert!(one.0 == many.0, "the bytes differ");
        }
        let read = |bytes: &[u8]| {
            let mut file = opened(&bytes.to_vec());
            let (mut packets, error) = drain(&mut file, 100);
            // Compare by resolution, because the number may differ.
            for packet in &mut packets {
                let interface = &file.interfaces()[packet.interface as usize];
                packet.interface = u32::from(interface.resolution.0);
            }
            (packets, error)
        };
        prop_assert_eq!(read(&one.0), read(&many.0));
    }
}
