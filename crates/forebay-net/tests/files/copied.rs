//! What passes a filter is written as one thread composes it, also where several threads read and whole runs of
//! records are copied as they are: byte for byte, whatever the records look like and wherever the capture stops.

use super::{blocks::Composed, in_memory};
use forebay::{store, time::Clock};
use forebay_net::{
    file::{
        File,
        sift::{Config as Sift, Sifted},
    },
    filter::Filter,
    ledger::Ledger,
    port::{Port, Wake},
    session::{Config, Control, Output, Session},
};
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use std::io::{Read, Seek};

/// A record as a file may have it, which need not be as we would write it.
#[derive(Clone, Debug)]
struct Record {
    len: usize,
    first: u8,
    interface: u32,
    ticks: u64,
    wire_len: u32,
    padding: u8,
    has_options: bool,
}

impl Record {
    /// As we write them.
    fn plain(len: usize) -> Record {
        Record {
            len,
            first: 1,
            interface: 0,
            ticks: 1_700_000_000_000_000_000,
            wire_len: len as u32,
            padding: 0,
            has_options: false,
        }
    }

    fn put(&self, file: &mut Composed) {
        let words = [
            self.interface,
            (self.ticks >> 32) as u32,
            self.ticks as u32,
            self.len as u32,
            self.wire_len,
        ];
        let mut body = file.words(&words);
        body.push(self.first);
        body.resize(20 + self.len, 7);
        body.resize((20 + self.len).next_multiple_of(4), self.padding);
        if self.has_options {
            body.extend(file.option(4, &file.u64(3)));
            body.extend(file.option(0, &[]));
        }
        file.block(6, &body);
    }
}

/// Three interfaces that tell time in three ways.
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

fn session(port: Box<dyn Port>, config: Config) -> (Vec<u8>, Ledger) {
    let fd = rustix::fs::memfd_create("output", MemfdFlags::CLOEXEC).unwrap();
    let mut output = std::fs::File::from(fd);
    let stream = Output::Stream(output.try_clone().unwrap(), "output".into());
    let session = Session::open(
        vec![port],
        stream,
        config,
        Clock::real(),
        Control::new().unwrap(),
    );
    let summary = session.unwrap().run(&mut |_| {});
    assert!(summary.is_fine());
    summary.ledger.check().unwrap();
    let mut bytes = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut bytes).unwrap();
    (bytes, summary.ledger)
}

/// Frames of the run that a file begins with. The last window of a file is read without runs, so another follows.
fn run_of(big: bool, records: &[Record]) -> Option<usize> {
    let filter: Filter = "".parse().unwrap();
    let config = Sift {
        threads: 2,
        window_bytes: file(big, records).len() - file(big, &[]).len(),
    };
    let bytes = file(big, &[records, &[Record::plain(1)]].concat());
    let opened = File::from_stream(in_memory(&bytes), "capture").unwrap();
    let mut port = Sifted::new(opened, &filter, &config).unwrap();
    loop {
        assert!(!matches!(port.arm().unwrap(), Wake::End));
        let mut burst = port.receive(256).unwrap();
        let run = burst.next_run(usize::MAX).map(|run| run.frames);
        if run.is_some() || burst.next_frame().is_some() {
            return run;
        }
    }
}

#[test]
fn only_records_that_would_be_composed_so_are_a_run() {
    let plain = Record::plain(61);
    let twenty = |record: &Record| run_of(false, &vec![record.clone(); 20]);
    assert_eq!(twenty(&plain), Some(20));
    assert_eq!(run_of(false, &vec![plain.clone(); 1000]), Some(256));
    let unlike = [
        Record {
            padding: 9,
            ..plain.clone()
        },
        Record {
            wire_len: 60,
            ..plain.clone()
        },
        Record {
            has_options: true,
            ..plain.clone()
        },
        Record {
            interface: 1,
            ticks: u64::MAX / 2,
            ..plain.clone()
        },
        Record {
            interface: 2,
            ..plain.clone()
        },
    ];
    for record in unlike {
        assert_eq!(twenty(&record), None, "{record:?}");
    }
    assert_eq!(run_of(true, &vec![plain; 20]), None, "big-endian");
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
        },
    );
    prop_oneof![40 => usual, 1 => any]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn several_threads_write_what_one_would(
        big in prop::bool::weighted(0.1),
        records in prop::collection::vec(record(), 0..900),
        filter in prop::sample::select(vec!["", "link[0] != 0", "link[0] & 1 = 0", "link[0] = 3"]),
        window_bytes in 200..60_000_usize,
        count in prop::option::weighted(0.3, 1..900_u64),
        snaplen in prop::sample::select(vec![262_144_u32, 50]),
        budget in prop::sample::select(vec![256_usize, 100]),
    ) {
        let bytes = file(big, &records);
        let filter: Filter = filter.parse().unwrap();
        let config = Config {
            count,
            snaplen,
            budget,
            filter: Some(filter.clone()),
            store: store::Config { buffers: 2, buffer_bytes: 8192, ..store::Config::default() },
            ..Config::default()
        };
        let opened = || File::from_stream(in_memory(&bytes), "capture").unwrap();
        let one = session(Box::new(opened()), config.clone());
        let sift = Sift { threads: 2, window_bytes };
        let many = session(Box::new(Sifted::new(opened(), &filter, &sift).unwrap()), config);
        prop_assert_eq!(one.1, many.1);
        prop_assert!(one.0 == many.0, "the bytes differ");
    }
}
