//! Shares whose packets readers find in the buffers of the file.

use super::{
    incoming::Descriptors,
    tests::{cannot_be_written, name},
    wire::{MAX_PACKET, Note},
    *,
};
use crate::{
    format::Format,
    open::{self, Name},
    port::{Direction, Frame, Interface, Port, Wake},
    session::{
        Control, Names, Output, Rotation, Session, SessionConfig, Summary,
        tests::{Scratch, opened, session},
    },
};
use forebay::{
    store::{Appender, Framing, Live, LiveConfig, Sink, StoreConfig, Whole},
    time::Clock,
};
use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

/// What is compared of a packet.
#[derive(Clone, Debug, PartialEq)]
struct Packet {
    time_ns: u64,
    wire_len: u32,
    direction: Direction,
    bytes: Vec<u8>,
}

/// The packets that a port delivers until it ends, and the gaps before them.
fn read(port: Box<dyn Port>) -> (Summary, Vec<Packet>, u64) {
    let clock = port.info().clock.unwrap_or_else(Clock::real);
    let (session, _) = session(vec![port], Output::Count, clock, |_| ());
    let (sender, receiver) = std::sync::mpsc::channel();
    let summary = session
        .each(move |frame, _| {
            let packet = Packet {
                time_ns: frame.time_ns,
                wire_len: frame.wire_len,
                direction: frame.direction,
                bytes: frame.data.to_vec(),
            };
            sender.send((packet, frame.dropped_before)).is_ok()
        })
        .run(&mut |_| {});
    assert_eq!(summary.ledger.check(), Ok(()));
    let (packets, gaps): (Vec<_>, Vec<_>) = receiver.iter().unzip();
    (summary, packets, gaps.iter().sum())
}

fn in_file(path: &Path) -> Vec<Packet> {
    let name = Name::File(path.to_owned());
    let mut ports = open::ports(&[name], &open::Options::default(), &Clock::real()).unwrap();
    read(ports.remove(0)).1
}

/// A store of four buffers of 64 KiB: each has room for about 60 packets of 1000 bytes.
fn small() -> SessionConfig {
    SessionConfig {
        store: StoreConfig {
            buffers: 4,
            buffer_bytes: 64 << 10,
            ..StoreConfig::default()
        },
        ..SessionConfig::default()
    }
}

/// A session of simulated packets that shares the buffers of its file.
fn sharing(sim: &str, output: Output, config: SessionConfig) -> (Session, ShareSource) {
    let (ports, clock) = opened(&[sim]);
    let publisher = Publisher::in_buffers(MIN_RING_BYTES, &config.store, config.snaplen).unwrap();
    let source = publisher.source();
    let control = Control::new().unwrap();
    let session = Session::open_shared(ports, output, config, clock, control, publisher);
    (session.unwrap(), source)
}

#[test]
fn readers_see_the_packets_of_the_file_bit_for_bit() {
    let path = Scratch::new(".pcapng");
    let sim = "sim:clock=virtual,count=5000,size=imix";
    let config = SessionConfig::default();
    let (session, source) = sharing(sim, Output::File(path.0.clone()), config);
    let taps = [(); 4].map(|()| source.tap(&TapConfig::default()).unwrap());
    let summary = session.run(&mut |_| {});
    assert!(summary.is_fine(), "{summary:?}");
    assert_eq!((summary.shared, summary.ledger.written), (Some(5000), 5000));
    let written = in_file(&path.0);
    for tap in taps {
        let (summary, packets, _) = read(Box::new(tap));
        assert!(summary.is_fine(), "{summary:?}");
        assert_eq!(summary.ledger.dropped.known(), 0);
        assert_eq!(packets, written);
    }
}

#[test]
fn a_reader_that_was_overtaken_counts_exactly_the_packets_that_it_missed() {
    let path = Scratch::new(".pcapng");
    let sim = "sim:clock=virtual,count=20000,size=1000";
    let (session, source) = sharing(sim, Output::File(path.0.clone()), small());
    let slow = source.tap(&TapConfig::default()).unwrap();
    let config = TapConfig {
        begin: Begin::Oldest,
        ..TapConfig::default()
    };
    assert_eq!(session.run(&mut |_| {}).shared, Some(20_000));
    let written = in_file(&path.0);
    let (summary, packets, gaps) = read(Box::new(slow));
    let lost = summary.ledger.dropped.overrun;
    assert!(lost > 0 && gaps == lost);
    assert_eq!(summary.ledger.received, 20_000);
    assert_eq!(packets, written[lost as usize..]);
    // Three buffers are there, less the part that is skipped.
    assert!(packets.len() > 150, "{}", packets.len());
    let (summary, packets, _) = read(Box::new(source.tap(&config).unwrap()));
    assert_eq!(summary.ledger.dropped.known(), 0);
    assert!(packets.len() > 170, "{}", packets.len());
    assert_eq!(packets, written[written.len() - packets.len()..]);
}

#[test]
fn a_reader_that_attaches_to_a_busy_capture_begins_without_a_loss() {
    let path = Scratch::new(".pcapng");
    let (ports, clock) = opened(&["sim:rate=1G,size=64,count=300000"]);
    let config = SessionConfig::default();
    let publisher = Publisher::in_buffers(MIN_RING_BYTES, &config.store, config.snaplen).unwrap();
    let source = publisher.source();
    let (output, control) = (Output::File(path.0.clone()), Control::new().unwrap());
    let session = Session::open_shared(ports, output, config, clock, control, publisher).unwrap();
    let capturing = std::thread::spawn(move || session.run(&mut |_| {}));
    while !capturing.is_finished() {
        let mut tap = source.tap(&TapConfig::default()).unwrap();
        tap.stop().unwrap();
        let times = times(&mut tap);
        // They were published between the two calls.
        assert_eq!(tap.counts().received, times.len() as u64);
        assert_eq!(tap.counts().dropped, Some(0));
    }
    assert!(capturing.join().unwrap().is_fine());
}

#[test]
fn a_series_of_files_shares_all_its_packets() {
    let folder = forebay_testing::folder::Folder::new();
    let rotation = Rotation {
        packets: Some(500),
        ..Rotation::of(folder.join("a.pcapng"), Names::Dumpcap)
    };
    let sim = "sim:clock=virtual,count=5000,size=64";
    let config = SessionConfig {
        microseconds: true,
        ..SessionConfig::default()
    };
    let (session, source) = sharing(sim, Output::Series(rotation), config);
    let tap = source.tap(&TapConfig::default()).unwrap();
    let summary = session.run(&mut |_| {});
    assert!(summary.is_fine(), "{summary:?}");
    let (summary, packets, _) = read(Box::new(tap));
    assert_eq!((summary.ledger.received, packets.len()), (5000, 5000));
    // They have the times of the file.
    assert!(packets.iter().all(|packet| packet.time_ns % 1000 == 0));
    assert!(packets.is_sorted_by_key(|packet| packet.time_ns));
}

#[test]
fn only_a_pcapng_file_of_a_live_source_can_be_shared_in_its_buffers() {
    let path = Scratch::new(".pcap");
    let open = |sim: &str, output: Output| {
        let (ports, clock) = opened(&[sim]);
        let publisher =
            Publisher::in_buffers(MIN_RING_BYTES, &small().store, small().snaplen).unwrap();
        let control = Control::new().unwrap();
        let session = Session::open_shared(ports, output, small(), clock, control, publisher);
        session.err().expect("refused").to_string()
    };
    let sim = "sim:clock=virtual,count=1";
    for output in [Output::File(path.0.clone()), Output::Count] {
        let error = open(sim, output);
        assert!(error.contains("live source"), "{error}");
    }
    assert!(!path.0.exists());
    let few = Publisher::in_buffers(MIN_RING_BYTES, &small().store, small().snaplen).unwrap();
    let path = Scratch::new(".pcapng");
    let (ports, clock) = opened(&[sim]);
    let (output, config) = (
        Output::File(path.0.clone()),
        SessionConfig {
            snaplen: 100,
            ..small()
        },
    );
    let session = Session::open_shared(ports, output, config, clock, Control::new().unwrap(), few);
    assert!(session.is_ok(), "shorter packets fit");
}

/// Nothing is written anywhere.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, bytes: &[u8], _: u64) -> std::io::Result<usize> {
        Ok(bytes.len())
    }
    fn cut(&mut self, _: u64) -> std::io::Result<bool> {
        Ok(true)
    }
    fn sync(&mut self) -> std::io::Result<bool> {
        Ok(true)
    }
}

/// Records of any bytes, as a hostile process may share them.
struct Anything;

impl Framing for Anything {
    fn takes_loans(&self) -> bool {
        true
    }
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        Whole {
            bytes: bytes.len(),
            records: 0,
        }
    }
}

fn copies(memory: [BorrowedFd<'_>; 2]) -> [OwnedFd; 2] {
    memory.map(|memory| memory.try_clone_to_owned().unwrap())
}

/// A store in memory that shares one interface, and a tap of it.
fn shared() -> (Appender, Tap) {
    let config = StoreConfig {
        thread: false,
        record_bytes: 1 << 20,
        ..small().store
    };
    let mut live = Live::new(&config, &LiveConfig::default()).unwrap();
    let [ring, buffers] = copies(live.memory());
    live.note(&Note::Interface(Interface::default()).bytes())
        .unwrap();
    let incoming = Incoming::attach(Descriptors {
        ring,
        buffers: Some(buffers),
    });
    let incoming = incoming.unwrap();
    let tap = Tap::new(
        "share:bad".into(),
        incoming,
        None,
        None,
        &TapConfig::default(),
    );
    let store = Appender::with_live(Box::new(Nowhere), Arc::new(Anything), &config, live);
    (store.unwrap(), tap.unwrap())
}

/// The block of a packet.
fn block(time_ns: u64, interface: u32, len: usize) -> Vec<u8> {
    let data = vec![7; len];
    let frame = Frame {
        time_ns,
        ..Frame::whole(&data)
    };
    let described = Format::Pcapng.describe(&Interface::default(), interface);
    let mut block = vec![0; Format::Pcapng.frame_len(&frame, u32::MAX)];
    Format::Pcapng.put_frame(&mut block, &frame, &described, u32::MAX);
    block
}

/// A block that is not a packet.
fn other(len: u32) -> Vec<u8> {
    let mut block = vec![0; len as usize];
    block[..4].copy_from_slice(&3_u32.to_le_bytes());
    block[4..8].copy_from_slice(&len.to_le_bytes());
    block
}

/// Shares these bytes as this many packets.
fn share(store: &mut Appender, bytes: &[u8], packets: u64, tag: u64) {
    let mut slot = store.reserve(bytes.len()).unwrap().unwrap();
    slot.copy_from_slice(bytes);
    slot.commit(packets);
    store.publish(tag);
}

fn times(tap: &mut Tap) -> Vec<u64> {
    let mut times = Vec::new();
    let mut burst = tap.receive(1000).unwrap();
    while let Some(frame) = burst.next_frame() {
        times.push(frame.time_ns);
    }
    times
}

#[test]
fn a_hostile_publisher_causes_an_error_that_says_why() {
    let with = |at: usize, word: u32| {
        let mut block = block(1, 0, 8);
        block[at..at + 4].copy_from_slice(&word.to_le_bytes());
        block
    };
    let long = block(1, 0, MAX_PACKET + 2000);
    let cases = [
        (with(4, 8), 1, 0, "impossible length"),
        (with(4, 41), 1, 0, "impossible length"),
        (with(4, 400), 1, 0, "impossible length"),
        (with(20, 9), 1, 0, "malformed"),
        (with(36, 44), 1, 0, "malformed"),
        (with(0, 3), 1, 0, "other packets than it says"),
        (block(1, 0, 8), 0, 0, "other packets than it says"),
        (block(1, 0, 8), 2, 0, "other packets than it says"),
        (block(1, 0, 8), 1, u64::MAX, "count of lost packets"),
        (long, 1, 0, "too long"),
        (block(1, 0, MAX_PACKET + 4), 1, 0, "too long"),
        (
            [6_u32, 12, 12].map(u32::to_le_bytes).concat(),
            1,
            0,
            "malformed",
        ),
    ];
    for (bytes, packets, tag, why) in cases {
        let (mut store, tap) = shared();
        share(&mut store, &block(5, 0, 60), 1, 0);
        share(&mut store, &bytes, packets, tag);
        drop(store);
        let (summary, read, _) = read(Box::new(tap));
        let error = summary.port_error.expect("an error").to_string();
        assert!(error.contains(why), "{error}, not {why}");
        assert_eq!(read[0].time_ns, 5, "what came before is kept");
    }
}

#[test]
fn packets_of_interfaces_that_could_not_be_described_count_as_lost_before_they_were_shared() {
    let (mut store, mut tap) = shared();
    share(&mut store, &block(1, 0, 60), 1, 3);
    share(&mut store, &block(2, 1, 60), 1, 3);
    share(&mut store, &block(3, 0, 60), 1, 5);
    assert_eq!(times(&mut tap), [1, 3]);
    let counts = tap.counts();
    assert_eq!((counts.received, counts.dropped), (2, Some(0)));
    assert_eq!(counts.interface_dropped, Some(2 + 1));
    // It is described late.
    let note = Note::Interface(Interface::default()).bytes();
    store.live().unwrap().note(&note).unwrap();
    share(&mut store, &block(4, 1, 60), 1, 5);
    assert_eq!(times(&mut tap), [4]);
    assert_eq!(tap.interfaces().len(), 2);
}

#[test]
fn other_blocks_of_the_file_are_skipped_also_long_ones() {
    let (mut store, mut tap) = shared();
    let bytes = [
        other(500_000),
        block(1, 0, 60),
        other(12),
        other(1 << 19),
        block(2, 0, 60),
    ];
    for bytes in bytes {
        let packets = u64::from(bytes[0] == 6);
        share(&mut store, &bytes, packets, 0);
    }
    assert_eq!(times(&mut tap), [1, 2]);
}

#[test]
fn a_stopped_tap_reads_what_was_published_until_then_and_not_more() {
    let (mut store, mut tap) = shared();
    let all: Vec<_> = (0..10).flat_map(|time| block(time, 0, 60)).collect();
    share(&mut store, &all, 10, 0);
    share(&mut store, &block(10, 0, 60), 1, 0);
    let mut burst = tap.receive(3).unwrap();
    while burst.next_frame().is_some() {}
    drop(burst);
    tap.stop().unwrap();
    share(&mut store, &block(11, 0, 60), 1, 0);
    assert_eq!(times(&mut tap), (3..=10).collect::<Vec<_>>());
    assert!(matches!(tap.arm(), Ok(Wake::End)));
    assert_eq!(tap.counts().received, 11);
}

/// Shares other blocks until all buffers were filled again.
fn overwrite(store: &mut Appender) {
    for _ in 0..20 {
        share(store, &other(60_000), 0, 0);
        store.flush().unwrap();
    }
}

#[test]
fn packets_that_were_overwritten_last_are_counted_at_the_end() {
    let (mut store, mut tap) = shared();
    share(&mut store, &block(1, 0, 60), 1, 0);
    assert_eq!(times(&mut tap), [1]);
    share(&mut store, &block(2, 0, 60), 1, 0);
    // What follows the packets in the file fills all buffers again.
    overwrite(&mut store);
    drop(store);
    assert!(times(&mut tap).is_empty());
    assert!(matches!(tap.arm(), Ok(Wake::End)));
    let counts = tap.counts();
    assert_eq!((counts.received, counts.dropped), (2, Some(1)));
}

#[test]
fn a_reader_that_is_stopped_far_behind_reads_what_is_there_and_counts_the_rest() {
    let (mut store, mut tap) = shared();
    // More batches than the ring has room for, and more bytes than the buffers have.
    for time in 0..100_000 {
        share(&mut store, &block(time, 0, 4), 1, 0);
    }
    tap.stop().unwrap();
    let mut read = 0;
    while !matches!(tap.arm(), Ok(Wake::End)) {
        read += times(&mut tap).len() as u64;
    }
    assert!(read > 3000, "{read}");
    let counts = tap.counts();
    assert_eq!(
        (counts.received, counts.dropped),
        (100_000, Some(100_000 - read))
    );
}

#[test]
fn packets_that_are_overwritten_after_a_stop_are_counted_up_to_the_end() {
    let all: Vec<_> = (0..11).flat_map(|time| block(time, 0, 60)).collect();
    for read in [0, 3] {
        let (mut store, mut tap) = shared();
        share(&mut store, &all, 11, 0);
        let mut burst = tap.receive(read).unwrap();
        while burst.next_frame().is_some() {}
        drop(burst);
        tap.stop().unwrap();
        share(&mut store, &all, 11, 0);
        overwrite(&mut store);
        // What is in the tap already is delivered.
        let more = times(&mut tap).len();
        assert!(matches!(tap.arm(), Ok(Wake::End)));
        let counts = tap.counts();
        assert_eq!(
            (counts.received, counts.dropped),
            (11, Some(11 - (read + more) as u64))
        );
    }
}

#[test]
fn readers_in_other_processes_get_both_memories_and_can_write_neither() {
    let path = Scratch::new(".pcapng");
    let sim = "sim:clock=virtual,count=1000";
    let (session, source) = sharing(sim, Output::File(path.0.clone()), small());
    let name = name("buffers");
    let _listener = Listener::start(&name, &source, Access::default()).unwrap();
    let tap = attach(&name, &TapConfig::default()).unwrap();
    assert!(tap.info().ring_bytes >= MIN_RING_BYTES);
    let link = handshake::ShareLink::to(&name).unwrap();
    let memory = link.greeting(&name).unwrap().memory;
    assert_eq!(memory.len(), 2);
    cannot_be_written(memory);
    let summary = session.run(&mut |_| {});
    assert_eq!(summary.shared, Some(1000));
    let (summary, packets, _) = read(Box::new(tap));
    assert!(summary.is_fine(), "{summary:?}");
    assert_eq!(packets, in_file(&path.0));
}
