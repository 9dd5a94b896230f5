//! Files read by several threads: the packets, counts and errors are those of one thread and the session's filter, wherever
//! windows begin and wherever reading stops.

use super::{
    Packet,
    blocks::{Composed, packet, packet_with},
    garble, in_memory,
};
use forebay_net::{
    file::{
        File, TimeRange,
        parallel::{ParallelConfig, ParallelFile},
    },
    filter::{Filter, Programs, bpf::Program},
    port::{Counts, Interface, Port, Statistics, Wake},
};
use forebay_testing::dice::rounds;
use forebay_testing::folder::Folder;
use proptest::{prelude::*, sample::Index};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{sync::Arc, time::Duration};

/// The result of reading a file.
#[derive(Debug, Default)]
struct Outcome {
    packets: Vec<Packet>,
    /// Packets received and filtered when each was handed out, and at the end.
    counts: Vec<(u64, u64)>,
    error: Option<String>,
    interfaces: Vec<Interface>,
    recorded: Vec<Option<Statistics>>,
    /// Skipped packets, and the first one.
    unreadable: (u64, String),
}

/// How a file is read: up to `max_packets`, putting back the matching packets with these numbers.
#[derive(Clone, Debug, Default)]
struct Way {
    max_packets: Option<usize>,
    put_back: Vec<usize>,
    budget: usize,
    /// Packets of other times are left out.
    times: TimeRange,
}

impl Way {
    /// Whether the packet with this number has to be put back now: once.
    fn puts_back(&mut self, number: usize) -> bool {
        let before = self.put_back.len();
        self.put_back.retain(|&at| at != number);
        self.put_back.len() < before
    }
}

impl Outcome {
    fn of_error(error: forebay::Error) -> Self {
        Outcome {
            error: Some(error.to_string()),
            ..Outcome::default()
        }
    }

    fn end(mut self, port: &mut dyn Port, counts: (u64, u64)) -> Self {
        self.counts.push(counts);
        self.interfaces = port.interfaces().to_vec();
        let all = 0..self.interfaces.len() as u32;
        let known = port.report().file_statistics;
        self.recorded = all
            .map(|number| known.get(number as usize).copied().flatten())
            .collect();
        let unreadable = port.report().unreadable;
        self.unreadable = (unreadable.packets, unreadable.first.to_owned());
        self
    }
}

fn wait(port: &mut dyn Port) -> bool {
    match port.arm().expect("arming a file never fails") {
        Wake::End => return false,
        Wake::Fd(fd) => {
            let limit = Timespec::try_from(Duration::from_secs(60)).unwrap();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            assert!(poll(&mut fds, Some(&limit)).unwrap() > 0, "never woken");
        }
        _ => {}
    }
    port.disarm();
    true
}

/// Reads with one thread, and filters as a session does.
fn in_one_thread(bytes: &[u8], filter: &Filter, mut way: Way) -> Outcome {
    let mut found = Outcome::default();
    let mut port = match File::from_stream(in_memory(bytes), "capture") {
        Ok(port) => port.between(way.times),
        Err(error) => return Outcome::of_error(error),
    };
    let mut lanes: Vec<(Arc<Program>, u64)> = Vec::new();
    let mut programs = Programs::new(filter.clone());
    let (mut received, mut filtered) = (0, 0);
    let mut introduce = |port: &File, lanes: &mut Vec<(Arc<Program>, u64)>| {
        for interface in &port.interfaces()[lanes.len()..] {
            lanes.push((programs.of(interface.link), 0));
        }
    };
    introduce(&port, &mut lanes);
    while found.error.is_none() && wait(&mut port) {
        introduce(&port, &mut lanes);
        let mut is_unknown = false;
        match port.receive(way.budget) {
            Err(e) => found.error = Some(e.to_string()),
            Ok(mut burst) => {
                while way.max_packets != Some(found.packets.len())
                    && let Some(mut frame) = burst.next_frame()
                {
                    let Some((program, losses)) = lanes.get_mut(frame.interface as usize) else {
                        burst.put_back();
                        is_unknown = true;
                        break;
                    };
                    if program.run(frame.data, frame.wire_len) == 0 {
                        *losses = losses.saturating_add(frame.dropped_before);
                        (received, filtered) = (received + 1, filtered + 1);
                        continue;
                    }
                    if way.puts_back(found.packets.len()) {
                        burst.put_back();
                        break;
                    }
                    frame.dropped_before =
                        frame.dropped_before.saturating_add(std::mem::take(losses));
                    received += 1;
                    found.packets.push(Packet::of(&frame));
                    found.counts.push((received, filtered));
                }
            }
        }
        if is_unknown {
            introduce(&port, &mut lanes);
        }
        if way.max_packets == Some(found.packets.len()) {
            break;
        }
    }
    found.end(&mut port, (received, filtered))
}

fn received_and_filtered(counts: Counts) -> (u64, u64) {
    assert_eq!([counts.dropped, counts.interface_dropped], [Some(0); 2]);
    (counts.received, counts.filtered.unwrap())
}

/// Reads with the threads of `config`.
fn in_parallel(bytes: &[u8], filter: &Filter, mut way: Way, config: &ParallelConfig) -> Outcome {
    let mut found = Outcome::default();
    let opened = File::from_stream(in_memory(bytes), "capture");
    let opened = opened.map(|file| file.between(way.times));
    let mut port = match opened.and_then(|file| ParallelFile::new(file, filter, config)) {
        Ok(port) => port,
        Err(error) => return Outcome::of_error(error),
    };
    while found.error.is_none() && wait(&mut port) {
        let before = found.packets.len();
        let mut has_put_back = false;
        match port.receive(way.budget) {
            Err(e) => found.error = Some(e.to_string()),
            Ok(mut burst) => {
                while way.max_packets != Some(found.packets.len())
                    && let Some(frame) = burst.next_frame()
                {
                    if way.puts_back(found.packets.len()) {
                        burst.put_back();
                        has_put_back = true;
                        break;
                    }
                    found.packets.push(Packet::of(&frame));
                    if way.budget == 1 {
                        break;
                    }
                }
            }
        }
        for packet in &found.packets[before..] {
            assert!((packet.interface as usize) < port.interfaces().len());
        }
        // Counts are not accessible during a burst, and a packet put back was already found.
        found.counts.resize(found.packets.len(), (0, 0));
        if found.packets.len() == before + 1 && !has_put_back {
            found.counts[before] = received_and_filtered(port.counts());
        }
        if way.max_packets == Some(found.packets.len()) {
            break;
        }
    }
    let counts = received_and_filtered(port.counts());
    if found.error.is_some() {
        let is_over = matches!(port.arm(), Ok(Wake::End));
        assert!(is_over, "an error is reported once");
    }
    found.end(&mut port, counts)
}

/// Compares both ways of reading.
fn compare(bytes: &[u8], filter: &str, way: &Way, config: &ParallelConfig) {
    let filter = Filter::without_hosts(filter).unwrap();
    let mut one = in_one_thread(bytes, &filter, way.clone());
    let many = in_parallel(bytes, &filter, way.clone(), config);
    for (one, many) in one.counts.iter_mut().zip(&many.counts) {
        if *many == (0, 0) {
            *one = (0, 0);
        }
    }
    let place = format!("{} {way:?} {config:?}", filter.text());
    assert_eq!(one.error, many.error, "{place}");
    assert_eq!(one.counts, many.counts, "{place}");
    assert_eq!(one.interfaces, many.interfaces, "{place}");
    assert_eq!(one.recorded, many.recorded, "{place}");
    // A single thread may have looked beyond the last packet.
    if way.max_packets.is_none() {
        assert_eq!(one.unreadable, many.unreadable, "{place}");
    }
    for (number, (one, many)) in one.packets.iter().zip(&many.packets).enumerate() {
        assert_eq!(one, many, "packet {number}, {place}");
    }
    assert_eq!(one.packets.len(), many.packets.len(), "{place}");
}

/// A part of a generated file.
#[derive(Clone, Debug)]
enum Part {
    /// Big-endian or not.
    Section(bool),
    /// With a link type and a snapshot length.
    Interface(u16, u32),
    Packet(PacketPart),
    /// Of an interface, with its drops.
    Statistics(u32, u64),
    /// A block of this kind and length.
    Other(u32, usize),
}

#[derive(Clone, Copy, Debug)]
struct PacketPart {
    kind: u32,
    interface: u32,
    len: usize,
    dropped: u16,
    first: u8,
}

fn len() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..90_usize, 2 => 90..400_usize, 1 => 400..6000_usize]
}

fn part() -> impl Strategy<Value = Part> {
    let kind = prop_oneof![6 => Just(6_u32), 1 => Just(2), 1 => Just(3)];
    let dropped = prop_oneof![4 => Just(0), 1 => 1..9_u16];
    let packet = (kind, 0..4_u32, len(), dropped, any::<u8>());
    let packet = packet.prop_map(|(kind, interface, len, dropped, first)| {
        Part::Packet(PacketPart {
            kind,
            interface,
            len,
            dropped,
            first,
        })
    });
    let link = prop_oneof![9 => Just(1_u16), 3 => Just(113), 1 => Just(101)];
    let snaplen = prop_oneof![Just(0), Just(70)];
    let other = prop_oneof![Just(4_u32), Just(9), Just(10), Just(0xbad), Just(77)];
    prop_oneof![
        1 => any::<bool>().prop_map(Part::Section),
        1 => (link, snaplen).prop_map(|(link, snaplen)| Part::Interface(link, snaplen)),
        30 => packet,
        1 => (0..4_u32, any::<u64>()).prop_map(|(interface, dropped)| Part::Statistics(interface, dropped)),
        2 => (other, len()).prop_map(|(kind, len)| Part::Other(kind, len)),
    ]
}

fn pcapng(big: bool, parts: &[Part]) -> Vec<u8> {
    let mut file = Composed::pcapng(big);
    let mut interfaces = 1;
    for part in parts {
        match *part {
            Part::Section(big) => {
                file.order(big);
                file.section(&[]);
                interfaces = 0;
            }
            Part::Interface(link, snaplen) => {
                file.interface(link, snaplen, &[]);
                interfaces += 1;
            }
            Part::Packet(_) if interfaces == 0 => {}
            Part::Packet(part) => {
                let mut packet = packet_with(part.first, part.len);
                packet.dropped_before = u64::from(part.dropped);
                let interface = match part.first {
                    // It does not exist.
                    250.. => interfaces,
                    _ => part.interface % interfaces,
                };
                let options = match part.dropped {
                    0 => Vec::new(),
                    dropped => file.option(4, &file.u64(u64::from(dropped))),
                };
                let ticks = u64::from(part.first % 16);
                match part.kind {
                    3 => file.simple(packet),
                    6 => file.packet(6, interface, ticks, &options, packet),
                    kind => file.packet(kind, interface, ticks, &[], packet),
                }
            }
            Part::Statistics(interface, dropped) => {
                let option = file.option(5, &file.u64(dropped));
                let head = file.words(&[interface, 0, 9]);
                file.block(5, &[head, option].concat());
            }
            Part::Other(kind, len) => file.block(kind, &vec![6; len]),
        }
    }
    file.bytes
}

fn pcap(big: bool, magic: u32, packets: &[(usize, u8)]) -> Vec<u8> {
    let mut file = Composed::new(big);
    file.header(magic, (2, 4), 65_535, 1);
    let extra: &[u8] = if magic == 0xa1b2_cd34 { &[7; 8] } else { &[] };
    for &(len, first) in packets {
        let packet = packet_with(first, len);
        let words = [0, u32::from(first % 16), len as u32, packet.wire_len];
        file.record(words, extra, &packet.data.clone(), packet);
    }
    file.bytes
}

fn filter() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "link[0] & 1 = 0",
        "link[0] & 15 = 3",
        "greater 60",
        "less 20 or link[0] & 1 = 1",
        // Not valid for raw IP.
        "vlan 5 or link[0] & 1 = 0",
        // No packet matches.
        "len > 100000",
    ])
}

fn way() -> impl Strategy<Value = Way> {
    let max_packets = prop_oneof![3 => Just(None), 1 => (1..40_usize).prop_map(Some)];
    let put_back = prop::collection::vec(0..30_usize, 0..5);
    let budget = prop::sample::select(vec![1_usize, 7, 256]);
    // Of the times 0 to 15, in microseconds or nanoseconds.
    let times = prop_oneof![
        3 => Just(TimeRange::default()),
        1 => (0..16_u64, 0..16_u64, prop::sample::select(vec![1, 1000])).prop_map(|(a, b, unit)| {
            TimeRange::new(a.min(b) * unit, (a.max(b) + 1) * unit).unwrap()
        }),
    ];
    let way = (max_packets, put_back, budget, times);
    way.prop_map(|(max_packets, put_back, budget, times)| Way {
        max_packets,
        put_back,
        budget,
        times,
    })
}

fn config() -> impl Strategy<Value = ParallelConfig> {
    let window = prop_oneof![3 => 8..300_usize, 1 => 300..5000_usize];
    (1..5_usize, window).prop_map(|(threads, window_bytes)| ParallelConfig {
        threads,
        window_bytes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(500)))]

    #[test]
    fn several_threads_read_a_pcapng_as_one_does(
        big in any::<bool>(),
        parts in prop::collection::vec(part(), 0..120),
        cut in any::<Option<Index>>(),
        filter in filter(), way in way(), config in config(),
    ) {
        let mut bytes = pcapng(big, &parts);
        let len = bytes.len();
        bytes.truncate(cut.map_or(len, |cut| cut.index(len)));
        compare(&bytes, filter, &way, &config);
    }

    #[test]
    fn several_threads_read_a_classic_file_as_one_does(
        big in any::<bool>(),
        magic in prop::sample::select(vec![0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34]),
        packets in prop::collection::vec((len(), any::<u8>()), 0..120),
        cut in any::<Option<Index>>(),
        filter in filter(), way in way(), config in config(),
    ) {
        let mut bytes = pcap(big, magic, &packets);
        let len = bytes.len();
        bytes.truncate(cut.map_or(len, |cut| cut.index(len)));
        compare(&bytes, filter, &way, &config);
    }

    #[test]
    fn several_threads_report_the_same_errors_of_a_garbled_file_as_one(
        is_pcap in any::<bool>(),
        big in any::<bool>(),
        parts in prop::collection::vec(part(), 0..60),
        packets in prop::collection::vec((len(), any::<u8>()), 0..60),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..8),
        swap in any::<Option<(Index, u32)>>(),
        filter in filter(), way in way(), config in config(),
    ) {
        let mut bytes = match is_pcap {
            true => pcap(big, 0xa1b2_c3d4, &packets),
            false => pcapng(big, &parts),
        };
        garble(&mut bytes, &changes, swap);
        compare(&bytes, filter, &way, &config);
    }

    #[test]
    fn a_port_can_be_dropped_or_stopped_in_mid_file(
        packets in prop::collection::vec((len(), any::<u8>()), 0..300),
        polls in 0..20_usize, is_stopped in any::<bool>(), config in config(),
    ) {
        let bytes = pcap(false, 0xa1b2_c3d4, &packets);
        let file = File::from_stream(in_memory(&bytes), "capture").unwrap();
        let filter = Filter::without_hosts("link[0] & 3 = 0").unwrap();
        let mut port = ParallelFile::new(file, &filter, &config).unwrap();
        for _ in 0..polls {
            let mut burst = port.receive(3).unwrap();
            while burst.next_frame().is_some() {}
        }
        if is_stopped {
            let before = port.counts();
            port.stop().unwrap();
            prop_assert!(matches!(port.arm(), Ok(Wake::End)));
            prop_assert!(port.receive(9).unwrap().next_frame().is_none());
            prop_assert_eq!(port.counts(), before);
        }
    }
}

/// Records of 4 MiB extend over many windows, more than all workers have.
#[test]
fn records_larger_than_all_windows_together_are_complete() {
    let mut file = Composed::pcapng(false);
    for len in [60, 4 << 20, 61, (4 << 20) + 1, 0, 3 << 20, 7] {
        file.packet(6, 0, 1, &[], packet(len));
    }
    for threads in 1..=4 {
        let config = ParallelConfig {
            threads,
            window_bytes: 64 << 10,
        };
        let way = Way {
            budget: 256,
            ..Way::default()
        };
        compare(&file.bytes, "", &way, &config);
        compare(&file.bytes, "greater 1000", &way, &config);
        compare(&file.bytes[..(9 << 20)], "", &way, &config);
    }
}

#[test]
fn a_large_file_is_read_in_parallel_and_a_small_one_is_not() {
    use forebay_net::open::{self, Name, Options};
    let folder = Folder::new();
    let cores = std::thread::available_parallelism().unwrap().get();
    let filter = Some(Filter::without_hosts("link[0] & 1 = 0").unwrap());
    for (packets, expected) in [(100, false), (60_000, cores > 1)] {
        let bytes = pcap(false, 0xa1b2_c3d4, &vec![(60, 2); packets]);
        let path = folder.file("in.pcap", bytes);
        for (filter, expected) in [(&None, false), (&filter, expected)] {
            let options = Options {
                filter: filter.clone(),
                reader_filters: true,
                ..Options::default()
            };
            let names = [Name::File(path.clone().into())];
            let clock = open::clock(&names).unwrap();
            let ports = open::ports(&names, &options, &clock).unwrap();
            assert_eq!(ports[0].info().filters, expected, "{packets}");
        }
    }
}
