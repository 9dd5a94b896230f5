//! Files truncated at every byte, garbled, or invalid: complete packets are read, and then a clear error is reported.

use super::{
    blocks::{Composed, packet},
    garble, in_memory, read,
};
use forebay_net::{
    file::File,
    port::{Direction, Marks, Port, Wake},
};
use forebay_testing::dice::rounds;
use proptest::prelude::*;
use std::path::Path;

/// A pcapng file whose packets all come after its interfaces.
fn pcapng(big: bool) -> Composed {
    let mut file = Composed::new(big);
    let options = [file.option(3, b"Linux"), file.option(0, &[])].concat();
    file.section(&options);
    let options = [file.option(9, &[6]), file.option(2, b"eth0")].concat();
    file.interface(1, 0, &options);
    for kind in [6, 2, 6] {
        let mut packet = packet(kind as usize * 5);
        packet.time_ns = 5_000;
        let flags = file.option(2, &file.u32(0));
        file.packet(kind, 0, 5, &flags, packet);
    }
    let mut last = packet(8);
    last.wire_len = 8;
    file.simple(last);
    file
}

fn pcap(magic: u32, big: bool) -> Composed {
    let mut file = Composed::new(big);
    file.header(magic, (2, 4), 65_535, 1);
    let extra: &[u8] = if magic == 0xa1b2_cd34 { &[7; 8] } else { &[] };
    for len in [0, 5, 60] {
        let packet = packet(len);
        let words = [0, 0, len as u32, packet.wire_len];
        file.record(words, extra, &packet.data.clone(), packet);
    }
    file
}

fn all() -> Vec<Composed> {
    let mut files = vec![pcapng(false), pcapng(true)];
    for magic in [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34] {
        files.extend([pcap(magic, false), pcap(magic, true)]);
    }
    files
}

#[test]
fn a_file_truncated_at_any_byte_yields_all_packets_before_and_an_error_with_the_offset() {
    for file in all() {
        for len in 0..=file.bytes.len() {
            let found = read(&file.bytes[..len]);
            let whole = file.packets_before(len);
            assert_eq!(found.packets, file.packets[..whole], "cut at {len}");
            let is_between = file.ends.contains(&len);
            assert_eq!(
                found.error.is_none(),
                is_between,
                "cut at {len}: {:?}",
                found.error
            );
            if let Some(error) = found.error.filter(|_| len >= 24) {
                let begin = file.ends.iter().filter(|&&end| end <= len).max();
                let place = format!("at byte {}", begin.copied().unwrap_or(0));
                assert!(error.contains("ends in the middle of a"), "{error}");
                assert!(error.contains(&place), "{error}: not {place}");
                assert!(error.contains(&format!("read {whole} packet")), "{error}");
            }
        }
    }
}

/// The error of reading `bytes`.
fn complaint(bytes: &[u8]) -> String {
    read(bytes).error.expect("an error")
}

#[test]
fn a_file_that_is_not_a_capture_is_refused_at_once() {
    for (bytes, expected) in [
        (&b""[..], "capture: is empty, not even a header"),
        (b"abc", "capture: has 3 bytes, too few for a capture file"),
        (
            b"#!/bin/sh",
            "capture: begins with 23212f62, which neither pcap nor pcapng does",
        ),
    ] {
        assert_eq!(complaint(bytes), expected);
        assert!(read(bytes).file.is_none());
    }
    let mut old = Composed::new(false);
    old.header(0xa1b2_c3d4, (2, 5), 0, 1);
    let error = complaint(&old.bytes);
    assert!(
        error.contains("file header at byte 0 says version 2.5"),
        "{error}"
    );
}

#[test]
fn every_malformed_block_is_reported_with_its_offset() {
    let whole = pcapng(false);
    let at = whole.bytes.len();
    // Words that begin a block, and blocks with these words.
    for (words, expected) in [
        (
            &[6, 0x8000_0000, 0][..],
            "says 2147483648 bytes, the limit is 16 MiB",
        ),
        (&[6, 28, 0], "says 28 bytes, the least for its kind is 32"),
        (&[99, 8, 0], "says 8 bytes, the least for its kind is 12"),
        (
            &[99, 14, 0, 0],
            "says 14 bytes, which is no multiple of four",
        ),
        (
            &[99, 12, 16],
            "says 12 bytes at its beginning and 16 at its end",
        ),
    ] {
        let mut file = whole.clone();
        file.bytes.extend(file.words(words));
        breaks(&file, &whole, at, expected);
    }
    for (kind, words, expected) in [
        (
            6,
            &[0, 0, 0, 5, 0, 0][..],
            "says 5 captured bytes and has room for 4",
        ),
        (
            6,
            &[0, 0, 0, u32::MAX, 0, 0],
            "says 4294967295 captured bytes and has room for 4",
        ),
        (
            0x0a0d_0d0a,
            &[0x1a2b_3c4d, 2, 0, 0],
            "begins a section of version 2.0, known is 1.0",
        ),
        (
            0x0a0d_0d0a,
            &[0x1a2b_3c4e, 1, 0, 0],
            "begins a section with 1a2b3c4e for its byte order",
        ),
    ] {
        let mut file = whole.clone();
        file.block(kind, &file.words(words));
        breaks(&file, &whole, at, expected);
    }
}

#[test]
fn packets_of_an_unknown_interface_are_skipped_and_counted_and_reading_goes_on() {
    for big in [false, true] {
        let mut file = pcapng(big);
        let at = file.bytes.len();
        let whole = file.packets.clone();
        for kind in [6, 2] {
            file.packet(kind, 1, 5, &[], packet(9));
        }
        file.interface(1, 0, &[]);
        let mut known = packet(5);
        (known.interface, known.time_ns) = (1, 7_000);
        file.packet(6, 1, 7, &[], known.clone());
        file.section(&[]);
        file.simple(packet(4));
        let found = read(&file.bytes);
        assert_eq!(found.packets, [&whole[..], &[known]].concat());
        assert_eq!(found.error, None);
        let file = found.file.unwrap();
        let error = file.report().unreadable.error("capture").unwrap();
        let expected = format!(
            "capture: block at byte {at} is of interface 1, its section has 1 so far: 3 such packets are skipped"
        );
        assert_eq!(error.to_string(), expected);
    }
}

/// As in C's `timeval`, the fraction of a second is a signed number.
#[test]
fn fractions_of_a_second_that_are_negative_or_too_large_are_carried_and_marked() {
    let (carried, limited) = (Marks::CARRIED_TIME, Marks::LIMITED_TIME);
    for (magic, seconds, fraction, ns, mark) in [
        (0xa1b2_c3d4, 1001, 4_294_948_296, 1_000_981_000_000, carried),
        (0xa1b2_cd34, 1001, 1_500_000, 1_002_500_000_000, carried),
        (0xa1b2_c3d4, 0, u32::MAX, 0, limited),
        (0xa1b2_3c4d, 1001, u32::MAX, 1_000_999_999_999, carried),
        (0xa1b2_3c4d, 7, 1_000_000_000, 8_000_000_000, carried),
        (0xa1b2_c3d4, 7, 999_999, 7_999_999_000, Marks::default()),
    ] {
        for big in [false, true] {
            let mut file = pcap(magic, big);
            let extra: &[u8] = if magic == 0xa1b2_cd34 { &[7; 8] } else { &[] };
            file.record([seconds, fraction, 4, 9], extra, &[1; 4], packet(4));
            let found = read(&file.bytes);
            assert_eq!(found.packets.last().unwrap().time_ns, ns);
            assert_eq!(marks(&file.bytes).last(), Some(&mark));
        }
    }
}

/// Requires that the packets of `whole` are read, and then this error at `byte`.
#[track_caller]
fn breaks(file: &Composed, whole: &Composed, byte: usize, expected: &str) {
    let found = read(&file.bytes);
    assert_eq!(found.packets, whole.packets, "{expected}");
    let expected = format!("capture: block at byte {byte} {expected}: read 4 packets up to there");
    assert_eq!(found.error, Some(expected));
}

/// As tcpdump reads it; tshark stops there.
#[test]
fn an_option_that_does_not_fit_its_block_is_skipped_and_counted() {
    for big in [false, true] {
        let mut file = Composed::new(big);
        file.section(&[file.option(4, b"us"), file.u16(7), file.u16(99)].concat());
        let broken = [file.option(2, b"eth9"), file.u16(9), file.u16(99)].concat();
        file.interface(1, 0, &broken);
        let mut direction = packet(4);
        direction.direction = Direction::Inbound;
        let flags = file.option(2, &file.u32(1));
        for tail in [&[9_u8; 4][..], &[1, 2, 3, 4, 5, 6, 7], &[0, 4, 0xff, 0xff]] {
            file.packet(6, 0, 0, &[&flags, tail].concat(), direction.clone());
        }
        file.packet(6, 0, 0, &[], packet(5));
        let found = read(&file.bytes);
        assert_eq!((found.error, found.packets), (None, file.packets));
        let read = found.file.unwrap();
        assert_eq!(read.interfaces()[0].name, "eth9");
        assert_eq!(read.skipped().broken_options, 2);
        let marks = marks(&file.bytes);
        let broken = |marks: &Marks| marks.has(Marks::BROKEN_OPTIONS);
        assert_eq!(marks.iter().filter(|it| broken(it)).count(), 3);
    }
}

/// The irregularities of each packet.
fn marks(bytes: &[u8]) -> Vec<Marks> {
    let mut file = File::from_stream(in_memory(bytes), "capture").unwrap();
    let mut found = Vec::new();
    while !matches!(file.arm().unwrap(), Wake::End) {
        let mut burst = file.receive(2).unwrap();
        while let Some(frame) = burst.next_frame() {
            found.push(frame.marks);
        }
    }
    found
}

#[test]
fn lengths_and_times_that_cannot_be_represented_are_marked() {
    let mut file = Composed::pcapng(false);
    let offset = file.option(14, &i64::MIN.to_le_bytes());
    file.interface(1, 0, &offset);
    for (interface, ticks, wire_len) in [(0, 7, 9), (0, 7, 3), (0, u64::MAX, 9), (1, 7, 3)] {
        let mut found = packet(4);
        found.wire_len = wire_len;
        file.packet(6, interface, ticks, &[], found);
    }
    let (length, time) = (Marks::RAISED_LENGTH, Marks::LIMITED_TIME);
    let expected = [Marks::default(), length, time, length.with(time)];
    assert_eq!(marks(&file.bytes), expected);

    let mut file = pcap(0xa1b2_c3d4, true);
    file.record([0, 0, 4, 3], &[], &[1; 4], packet(4));
    assert_eq!(marks(&file.bytes).last(), Some(&Marks::RAISED_LENGTH));
}

/// Zeros in a classic file could be packets, but a file whose writer was killed may end in space that was never written.
#[test]
fn zeros_are_packets_only_if_other_bytes_follow() {
    for big in [false, true] {
        let mut file = pcap(0xa1b2_c3d4, big);
        let len = file.bytes.len();
        let before = file.packets.len();
        for zeros in [16, 21, 4096, 3 << 20] {
            let mut bytes = file.bytes.clone();
            bytes.resize(len + zeros, 0);
            let found = read(&bytes);
            assert_eq!(found.packets, file.packets);
            let expected_error = format!(
                "capture: has zeros in place of packets from byte {len} on: read {before} packets up to there"
            );
            assert_eq!(found.error, Some(expected_error));
        }
        for _ in 0..100 {
            let mut empty = packet(0);
            empty.wire_len = 0;
            file.record([0; 4], &[], &[], empty);
        }
        file.record([0, 0, 4, 13], &[], &packet(4).data, packet(4));
        let found = read(&file.bytes);
        assert_eq!((found.error, found.packets.len()), (None, before + 101));
        let end = file.bytes.len();
        file.bytes.resize(end + 500, 0);
        let found = read(&file.bytes);
        assert_eq!(found.packets.len(), before + 101);
        let expected_error = format!("from byte {end} on: read {} packets", before + 101);
        assert!(found.error.unwrap().contains(&expected_error));
    }
}

#[test]
fn reserved_bits_of_the_link_type_are_an_error() {
    for field in [0x0001_0001, 0x0200_0001, 0x27ff_0001] {
        let mut file = Composed::new(false);
        file.header(0xa1b2_c3d4, (2, 4), 100, field);
        let error = read(&file.bytes).error.unwrap();
        assert!(error.contains("bits set in its link-type field"), "{error}");
    }
}

#[test]
fn a_classic_record_longer_than_any_packet_is_an_error() {
    let mut file = pcap(0xa1b2_c3d4, false);
    let at = file.bytes.len();
    file.bytes.extend(file.words(&[0, 0, 1_000_001, 1_000_001]));
    let found = read(&file.bytes);
    assert_eq!(found.packets, file.packets);
    let expected_error = format!(
        "capture: packet at byte {at} says 1000001 captured bytes, the limit is 1000000: read 3 packets up to there"
    );
    assert_eq!(found.error.unwrap(), expected_error);
}

#[test]
fn the_number_of_interfaces_is_limited() {
    let mut file = Composed::new(false);
    file.section(&[]);
    let name = file.option(2, &[b'x'; 60_000]);
    for _ in 0..600 {
        file.interface(1, 0, &name);
    }
    let error = complaint(&file.bytes);
    assert!(
        error.contains("one section or interface too many"),
        "{error}"
    );
}

/// Saved inputs, mostly from fuzzing: no panic, and the same result each time.
#[test]
fn saved_inputs_read_the_same_in_every_way() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut seen = 0;
    for kind in ["pcap", "pcapng"] {
        for entry in std::fs::read_dir(folder.join(kind)).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            let (once, again) = (read(&bytes), read(&bytes));
            assert_eq!((once.packets, once.error), (again.packets, again.error));
            seen += 1;
        }
    }
    assert!(seen > 0, "the corpus is empty");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(2000)))]

    #[test]
    fn no_garbled_file_does_harm(
        which in 0..8_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        swap in any::<Option<(prop::sample::Index, u32)>>(),
    ) {
        let mut bytes = all().swap_remove(which).bytes;
        garble(&mut bytes, &changes, swap);
        for packet in read(&bytes).packets {
            prop_assert!(packet.wire_len as usize >= packet.data.len());
            prop_assert!(packet.data.len() <= 16 << 20);
        }
    }

    #[test]
    fn no_noise_does_harm(which in 0..8_usize, noise in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut file = all().swap_remove(which);
        file.bytes.extend(noise);
        let found = read(&file.bytes);
        prop_assert!(found.packets.starts_with(&file.packets));
    }
}
