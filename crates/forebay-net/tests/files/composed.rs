//! Files composed byte by byte: every byte order, resolution and kind of block.

use super::{
    Packet,
    blocks::{Composed, packet},
    read,
};
use forebay_net::{
    format::Format,
    port::{Direction, Frame, LinkType, Port, Resolution, Statistics},
};

/// Nanoseconds of `ticks` at a resolution, computed digit by digit.
fn oracle_ns(resolution: u8, ticks: u64) -> u64 {
    let n = (resolution & 0x7f) as i32;
    if resolution & 0x80 != 0 {
        let mut ns = ticks as u128 * 1_000_000_000;
        (0..n).for_each(|_| ns /= 2);
        return ns.min(u64::MAX as u128) as u64;
    }
    let mut ns = ticks as u128;
    (n..9).for_each(|_| ns *= 10);
    (9..n).for_each(|_| ns /= 10);
    ns.min(u64::MAX as u128) as u64
}

#[test]
fn every_resolution_in_both_byte_orders_gives_the_time_that_was_meant() {
    for big in [false, true] {
        let mut file = Composed::new(big);
        file.section(&[]);
        let resolutions: Vec<u8> = (0..=255).collect();
        for &resolution in &resolutions {
            let option = file.option(9, &[resolution]);
            file.interface(1, 0, &option);
        }
        for &resolution in &resolutions {
            for ticks in [0, 1, 1 << 32, 1_700_000_000_123_456, u64::MAX] {
                let mut packet = packet(resolution as usize % 9);
                packet.interface = resolution as u32;
                packet.time_ns = oracle_ns(resolution, ticks);
                file.packet(6, packet.interface, ticks, &[], packet);
            }
        }
        let found = read(&file.bytes);
        assert_eq!((found.error, found.packets), (None, file.packets));
        let interfaces = found.file.as_ref().unwrap().interfaces();
        let found: Vec<_> = interfaces.iter().map(|i| i.resolution.0).collect();
        assert_eq!(found, resolutions);
    }
}

#[test]
fn offsets_move_times_and_never_beyond_what_a_number_holds() {
    let mut file = Composed::new(true);
    file.section(&[]);
    let offsets = [0, 3600, -3600, i64::MAX, i64::MIN];
    for offset in offsets {
        let option = file.option(14, &offset.to_be_bytes());
        file.interface(1, 0, &option);
    }
    let hour = 3_600_000_000_000;
    let times = [2 * hour, 3 * hour, hour, u64::MAX, 0];
    for (number, time_ns) in times.into_iter().enumerate() {
        let mut packet = packet(4);
        (packet.interface, packet.time_ns) = (number as u32, time_ns);
        file.packet(6, number as u32, 7_200_000_000, &[], packet);
    }
    assert_eq!(read(&file.bytes).packets, file.packets);
}

/// A section with every kind of block; the interfaces before it are `first`.
fn section_with_everything(file: &mut Composed, first: u32) {
    let options = [
        file.option(1, b"a comment"),
        file.option(2, b"a machine"),
        file.option(3, b"a system"),
        file.option(4, b"a program"),
        file.option(2988, &[0, 0, 0x30, 0x39, 1]),
        file.option(0, &[]),
    ]
    .concat();
    file.section(&options);
    let options = [
        file.option(2, b"eth7\0"),
        file.option(3, b"the seventh"),
        file.option(8, &file.u64(10_000_000_000)),
        file.option(9, &[9]),
        file.option(77, b"unknown"),
    ]
    .concat();
    file.interface(1, 96, &options);
    file.interface(101, 0, &[]);

    let mut first_packet = packet(61);
    (first_packet.interface, first_packet.time_ns) = (first, (3 << 32) + 5);
    file.packet(6, 0, (3 << 32) + 5, &[], first_packet.clone());

    let mut marked = packet(60);
    (marked.interface, marked.link, marked.time_ns) = (first + 1, 101, 7_000);
    (marked.direction, marked.dropped_before) = (Direction::Outbound, 1 << 40);
    let options = [
        file.option(2, &file.u32(0x4_0002)),
        file.option(1, b"odd"),
        file.option(4, &file.u64(1 << 40)),
        file.option(0, &[]),
    ]
    .concat();
    file.packet(6, 1, 7, &options, marked.clone());

    // Names, a journal, secrets, a custom block, padding and two unknown kinds; then packets again.
    for (kind, len) in [(4, 8), (9, 40), (10, 16), (0xbad, 4)] {
        file.block(kind, &vec![0x11; len]);
    }
    for (kind, len) in [(0x4000_0bad, 4), (0x8000_f0b4, 0), (0x77, 0), (7, 4)] {
        file.block(kind, &vec![0x11; len]);
    }

    (marked.direction, marked.dropped_before) = (Direction::Inbound, 65_534);
    let flags = file.option(2, &file.u32(1));
    file.packet(2, 1, 7, &flags, marked.clone());
    // All ones in the obsolete block: unknown.
    let mut unknown = marked;
    (unknown.direction, unknown.dropped_before) = (Direction::Unknown, 65_535);
    file.packet(2, 1, 7, &[], unknown);
    file.packets.last_mut().unwrap().dropped_before = 0;

    // Complete, and truncated at the interface's 96 bytes.
    let mut simple = packet(59);
    (simple.interface, simple.wire_len) = (first, 59);
    file.simple(simple.clone());
    simple.data = vec![9; 96];
    simple.wire_len = 1500;
    file.simple(simple);

    for received in [5, 7] {
        let options = [
            file.option(2, &file.words(&[1, 2])),
            file.option(3, &file.words(&[1, 3])),
            file.option(4, &file.u64(received)),
            file.option(5, &file.u64(2)),
            file.option(7, &file.u64(1 << 40)),
        ]
        .concat();
        let head = file.words(&[0, 1, 4]);
        file.block(5, &[head, options].concat());
    }
    file.block(5, &file.words(&[9, 0, 0])); // of an unknown interface
}

#[test]
fn sections_of_both_byte_orders_follow_each_other_with_separate_interfaces() {
    let mut file = Composed::new(false);
    section_with_everything(&mut file, 0);
    file.order(true);
    section_with_everything(&mut file, 2);
    file.section(&[]);
    let found = read(&file.bytes);
    assert_eq!((found.error, &found.packets), (None, &file.packets));

    let read = found.file.unwrap();
    assert_eq!(read.interfaces().len(), 4);
    let interface = &read.interfaces()[2];
    assert_eq!(
        [&interface.name, &interface.description],
        ["eth7", "the seventh"]
    );
    assert_eq!(interface.bits_per_second, Some(10_000_000_000));
    assert_eq!(
        (interface.resolution, interface.snaplen),
        (Resolution::NANOSECONDS, 96)
    );
    let other = &read.interfaces()[3];
    assert_eq!((&*other.name, other.link), ("", LinkType::RAW));
    assert_eq!(
        (other.resolution, other.snaplen),
        (Resolution::MICROSECONDS, u32::MAX)
    );

    let statistics = Statistics {
        time_ns: (1 << 32) + 4,
        began_ns: Some((1 << 32) + 2),
        ended_ns: Some((1 << 32) + 3),
        interface_received: Some(7),
        interface_dropped: Some(2),
        dropped: Some(1 << 40),
        ..Statistics::default()
    };
    let recorded = [0, 1, 2, 3]
        .map(|number: usize| read.report().file_statistics.get(number).copied().flatten());
    assert_eq!(recorded, [Some(statistics), None, Some(statistics), None]);
    assert_eq!(read.recorded_drops(3), (1 << 40) + 65_534);
    assert_eq!((read.recorded_drops(2), read.recorded_drops(99)), (0, 0));

    let sections = read.sections();
    let firsts = sections.iter().map(|s| (s.big_endian, s.first_interface));
    assert!(firsts.eq([(false, 0), (true, 2), (true, 4)]));
    let section = &sections[1];
    let texts = [&section.hardware, &section.os, &section.application];
    assert_eq!(texts, ["a machine", "a system", "a program"]);
    assert_eq!((section.version, section.comments), ((1, 0), 1));

    let skipped = read.skipped();
    assert_eq!((skipped.name_resolution, skipped.systemd_journal), (2, 2));
    assert_eq!((skipped.decryption_secrets, skipped.custom), (2, 4));
    assert_eq!((skipped.padding, skipped.other), (2, 6));
}

#[test]
fn what_we_write_is_read_back() {
    for format in [Format::Pcap, Format::Pcapng] {
        let interface = forebay_net::port::Interface {
            name: "eth0".into(),
            description: "ours".into(),
            link: LinkType::ETHERNET,
            snaplen: 262_144,
            bits_per_second: Some(1_000_000_000),
            resolution: Resolution::NANOSECONDS,
            in_file: None,
            time: None,
            socket_view: false,
        };
        let described = format.describe(&interface, 0);
        let mut bytes = format.header("us");
        bytes.extend(format.interface(&interface, &described, 262_144));
        let mut expected = Vec::new();
        for n in 0..100_u64 {
            let mut packet = packet(n as usize * 15);
            packet.time_ns = 1_700_000_000_000_000_001 + n;
            if format == Format::Pcapng {
                packet.dropped_before = n % 3;
            }
            let frame = Frame {
                data: &packet.data,
                wire_len: packet.wire_len,
                time_ns: packet.time_ns,
                interface: 0,
                direction: Direction::Unknown,
                dropped_before: packet.dropped_before,
                ..Frame::default()
            };
            let begin = bytes.len();
            bytes.resize(begin + format.frame_len(&frame, 262_144), 0);
            format.put_frame(&mut bytes[begin..], &frame, &described, 262_144);
            expected.push(packet);
        }
        let found = read(&bytes);
        assert_eq!((found.error, found.packets), (None, expected));
        if format == Format::Pcapng {
            let mut read = found.file.unwrap().interfaces()[0].clone();
            assert_eq!(read.in_file.take().unwrap().options, []);
            assert_eq!(read, interface);
        }
    }
}

#[test]
fn every_variant_of_the_classic_format_is_read_as_libpcap_reads_it() {
    let (micro, nano, modified) = (0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34);
    for big in [false, true] {
        for magic in [micro, nano, modified] {
            for version in [(2, 4), (2, 3), (2, 2), (2, 0), (543, 0)] {
                let extra: &[u8] = if magic == modified { &[7; 8] } else { &[] };
                let mut file = Composed::new(big);
                // The upper half of the link-type field describes check sequences.
                file.header(magic, version, 50, 0x5000_0001);
                let swaps = version == (543, 0) || version.1 < 3;
                for (sec, fraction, kept, wire_len) in [
                    (0, 1, 0, 60),
                    (u32::MAX, 999_999, 40, 60),
                    // A negative number.
                    (1_000_000, 4_000_000_000_u32, 80, 1500),
                ] {
                    let data = vec![0x33; kept];
                    let scale = if magic == nano { 1 } else { 1000 };
                    let found = Packet {
                        // Also where the file's snapshot length is shorter.
                        data: data.clone(),
                        wire_len,
                        time_ns: (sec as u64 * 1_000_000_000)
                            .wrapping_add_signed(i64::from(fraction as i32) * scale),
                        ..packet(0)
                    };
                    let kept = kept as u32;
                    let words = match swaps {
                        true => [sec, fraction, wire_len, kept],
                        false => [sec, fraction, kept, wire_len],
                    };
                    file.record(words, extra, &data, found);
                }
                if version == (2, 3) {
                    // Version 2.3 may have them exchanged.
                    let found = Packet {
                        wire_len: 99,
                        data: vec![4; 10],
                        ..packet(0)
                    };
                    file.record([0, 0, 99, 10], extra, &[4; 10], found);
                }
                let found = read(&file.bytes);
                assert_eq!(found.error, None, "{version:?}");
                assert_eq!(found.packets, file.packets, "{version:?}");
            }
        }
    }
}

#[test]
fn a_snapshot_length_of_zero_or_above_the_limit_is_ignored() {
    for snaplen in [0, 0x8000_0000, u32::MAX] {
        let mut file = Composed::new(false);
        file.header(0xa1b2_c3d4, (2, 4), snaplen, 1);
        let big = packet(262_144);
        file.record([0, 0, 262_144, big.wire_len], &[], &big.data.clone(), big);
        let found = read(&file.bytes);
        assert_eq!(found.packets, file.packets);
        assert_eq!(found.file.unwrap().interfaces()[0].snaplen, 1_000_000);
    }
}
