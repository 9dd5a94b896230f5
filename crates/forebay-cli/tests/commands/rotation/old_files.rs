//! Files that are read and split by time: the times of their packets decide, and not the time of reading.

use crate::rotation::names;
use crate::support::*;
use forebay_testing::blocks;
use std::{fs, io::Write};

/// 2023-11-14 22:13:00 UTC.
const BEGIN: u32 = 1_699_999_980;
const LEN: usize = 60;

/// A classic file with a packet at each of these seconds after [`BEGIN`]. Every second one is UDP, the others are ARP.
fn old(folder: &Folder, name: &str, seconds: impl IntoIterator<Item = u32>) -> String {
    let mut file = blocks::classic(0xa1b2_c3d4, 262_144, 1);
    for (number, second) in seconds.into_iter().enumerate() {
        let len = LEN as u32;
        file.extend(blocks::words(&[BEGIN + second, 0, len, len]));
        let mut frame = [0; LEN];
        match number % 2 {
            0 => frame[12..14].copy_from_slice(&[8, 6]),
            _ => {
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                (frame[17], frame[23]) = (46, 17);
            }
        }
        file.extend(frame);
    }
    folder.file(name, file)
}

/// Each file of a new folder, with the seconds of its packets, after a copy of `old` to the name `output` with these flags.
#[track_caller]
fn split(old: &str, output: &str, flags: &str) -> Vec<(String, Vec<u32>)> {
    let folder = Folder::new();
    let path = folder.path(output);
    let line = format!("forebay capture -r - -w {path} --format pcap-us -q --json {flags}");
    // A pipe and a file are split alike.
    let mut command = match flags.contains("udp") {
        true => shell(format!("cat {old} | {line}")),
        false => shell(line.replacen("-r -", &format!("-r {old}"), 1)),
    };
    let json = command.env("TZ", "UTC").output().unwrap().keeps_the_law();
    let seconds = |name: &String| {
        let bytes = fs::read(folder.path(name)).unwrap();
        let records = bytes[24..].chunks(16 + LEN);
        let second = |it: &[u8]| u32::from_le_bytes(it[..4].try_into().unwrap()) - BEGIN;
        records.map(second).collect::<Vec<_>>()
    };
    let files: Vec<_> = names(&folder);
    let files: Vec<_> = files
        .iter()
        .map(|name| (name.clone(), seconds(name)))
        .collect();
    let packets: usize = files.iter().map(|(_, seconds)| seconds.len()).sum();
    assert_eq!(count(&json["written"]), packets as u64, "{json}");
    files
}

#[test]
fn times_of_packets_begin_files_and_name_them() {
    let folder = Folder::new();
    let steady = old(&folder, "steady.pcap", (0..10).map(|it| 10 * it));
    // A quiet hour makes no empty files. Packets slightly out of order stay where they are.
    let quiet = old(
        &folder,
        "quiet.pcap",
        [0, 15, 25, 18, 3700, 3705, 3719, 3725],
    );
    for (input, output, flags, expected) in [
        (
            &steady,
            "o-%H%M%S",
            "-G 40",
            "o-221300 0 10 20 30|o-221340 40 50 60 70|o-221420 80 90",
        ),
        // The first packet that passes the filter begins the first file.
        (
            &steady,
            "o-%H%M%S",
            "-G 40 udp",
            "o-221310 10 30|o-221350 50 70|o-221430 90",
        ),
        (
            &steady,
            "o-%H%M%S",
            "-G 40 -W 2",
            "o-221300 0 10 20 30|o-221340 40 50 60 70",
        ),
        (
            &steady,
            "o",
            "-b duration:40 -b packets:3",
            "o_00001_20231114221300 0 10 20|o_00002_20231114221330 30 40 50|o_00003_20231114221400 60 70 80|o_00004_20231114221430 90",
        ),
        (
            &steady,
            "o",
            "-b interval:60 udp",
            "o_00001_20231114221310 10 30 50|o_00002_20231114221410 70 90",
        ),
        (&steady, "o", "-a duration:40", "o 0 10 20 30"),
        (&steady, "o", "-a duration:40 udp", "o 10 30"),
        (
            &quiet,
            "o-%H%M%S",
            "-G 20",
            "o-221300 0 15|o-221325 25 18|o-231440 3700 3705 3719|o-231505 3725",
        ),
    ] {
        let found = split(input, output, flags);
        let found = found.iter().map(|(name, seconds)| {
            let seconds = seconds.iter().map(|it| format!(" {it}"));
            seconds.fold(name.clone(), |text, second| text + &second)
        });
        assert_eq!(found.collect::<Vec<_>>().join("|"), expected, "{flags}");
    }
}

#[test]
fn a_large_file_that_several_threads_read_is_split_alike() {
    let folder = Folder::new();
    let seconds = 0..200_000_u32;
    let input = old(&folder, "large.pcap", seconds.clone());
    let found = split(&input, "o-%d%H", "-G 50000 ip");
    let all: Vec<_> = found.iter().flat_map(|(_, seconds)| seconds).collect();
    let udp: Vec<_> = seconds.filter(|second| second % 2 == 1).collect();
    assert!(all.into_iter().eq(&udp));
    let files = found.iter().map(|(name, seconds)| (&name[..], seconds[0]));
    let expected = [
        ("o-1422", 1),
        ("o-1512", 50_001),
        ("o-1601", 100_001),
        ("o-1615", 150_001),
    ];
    assert!(
        files.clone().eq(expected),
        "{:?}",
        files.collect::<Vec<_>>()
    );
}

#[test]
fn a_packet_from_the_far_future_does_not_end_the_splitting() {
    let folder = Folder::new();
    let far = 1_000_000_000;
    let input = old(&folder, "far.pcap", [0, 10, far, 20, 30, 45, 70]);
    let found = split(&input, "o", "-b duration:20");
    let seconds: Vec<_> = found.into_iter().map(|(_, seconds)| seconds).collect();
    assert_eq!(
        seconds,
        [vec![0, 10], vec![far, 20, 30], vec![45], vec![70]]
    );
}

#[test]
fn only_the_packets_of_the_first_seconds_are_counted_printed_and_verified() {
    let folder = Folder::new();
    let input = old(&folder, "old.pcap", (0..10).map(|it| 10 * it));
    let counted = run!("capture -r {input} --count -a duration:35 --json");
    assert_eq!(counts(&counted.keeps_the_law(), ["counted"]), [4]);
    let printed = run!("capture -r {input} -a duration:35");
    assert_eq!(printed.succeeds().text().lines().count(), 4);
    let verified = run!("verify -r {input} -a duration:35 --json");
    assert_eq!(count(&verified.json()["received"]), 4, "{}", verified.log());
}

#[test]
fn a_first_packet_that_cannot_be_read_is_reported_with_the_counts() {
    let folder = Folder::new();
    let whole = old(&folder, "whole.pcap", [0]);
    let torn = folder.file("torn.pcap", &fs::read(&whole).unwrap()[..50]);
    for flags in ["", "-G 10"] {
        let output = folder.path("x.pcap");
        let ran = run!("capture -r {torn} -w {output} {flags} --json");
        let json = ran
            .fails(1, "torn.pcap: ends in the middle of a packet")
            .json();
        assert_eq!(count(&json["written"]), 0, "{json}");
        assert_eq!(json["law_holds"], true);
    }
}

#[test]
fn a_time_beyond_all_others_begins_no_file_if_no_time_was_asked_for() {
    let folder = Folder::new();
    let packet = |time: u64| {
        let words = [0, (time >> 32) as u32, time as u32, 4, 4, 0];
        blocks::block(6, &blocks::words(&words))
    };
    let interface = blocks::block(1, &blocks::words(&[1, 0]));
    let file = [
        blocks::section(&[]),
        interface,
        packet(1),
        packet(u64::MAX),
        packet(2),
    ];
    let file = folder.file("far.pcapng", file.concat());
    let ran = run!(
        "capture -r {file} -w {} -b packets:100 --json",
        folder.path("o")
    );
    assert_eq!(count(&ran.keeps_the_law()["files_written"]), 1);
}

#[test]
fn the_time_of_a_capture_from_a_pipe_ends_also_without_a_packet() {
    let folder = Folder::new();
    let file = old(&folder, "one.pcap", [0]);
    let mut child = piped(&mut forebay!(
        "capture -r - -q --count -a duration:1 --json"
    ));
    let mut input = child.stdin.take().unwrap();
    input.write_all(&fs::read(file).unwrap()).unwrap();
    let json = child.wait_with_output().unwrap().keeps_the_law();
    assert_eq!(count(&json["counted"]), 1);
    drop(input);
}
