//! `find` as its users run it, on an archive in a local folder that `ship` made.

mod common;

use common::{
    archive, block, captured, done, json_lines, ok, pcapng_head, places, reports, run, ship,
    ship_as, spool,
};
use forebay_net::info::Info;
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    process::{Command, Stdio},
};

/// An archive of two sensors, with 3,000 packets of 64 flows each.
fn made(folder: &Folder) -> String {
    let to = folder.path("to");
    for (seed, sensor) in [(1, "north"), (2, "south")] {
        let spool = spool(folder, sensor);
        let card = format!("count=3000,seed={seed},size=200,rate=20kpps");
        captured(folder, &format!("{sensor}/a.pcapng"), &card);
        ok(ship_as(sensor, &spool, &to, &[]));
    }
    to
}

#[test]
fn packets_go_to_a_file_and_the_summary_counts_what_was_read() {
    let folder = Folder::new();
    let to = made(&folder);
    let file = folder.path("found.pcapng");
    let out = ok(run(&["find", "--in", &to, "udp", "-w", &file, "--json"]));
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["packets"], 6000);
    assert_eq!(summary["blocks"]["planned"], summary["blocks"]["read"]);
    let info = Info::of(&file).unwrap();
    assert_eq!((info.all.packets, info.interfaces.len()), (6000, 2));
    let (code, out, _) = run(&["find", "--in", &to, "udp", "--sensor", "north", "--count"]);
    assert_eq!((code, &*out), (0, "3000\n"));
    let limited = [
        "find", "--in", &to, "udp", "--limit", "10", "-w", &file, "-q",
    ];
    assert_eq!(run(&limited), (0, String::new(), String::new()));
    assert_eq!(Info::of(&file).unwrap().all.packets, 10);
    let classic = folder.path("found.pcap");
    ok(run(&["find", "--in", &to, "udp", "-w", &classic]));
    assert_eq!(Info::of(&classic).unwrap().all.packets, 6000);
    // Nothing found is a whole file, too.
    ok(run(&["find", "--in", &to, "arp", "-w", &file]));
    assert_eq!(Info::of(&file).unwrap().all.packets, 0);
}

#[test]
fn flows_and_counts_come_from_the_index_and_the_plan_reads_no_segment() {
    let folder = Folder::new();
    let to = made(&folder);
    let (code, out, error) = run(&["find", "--in", &to, "--flows", "--json", "udp"]);
    assert_eq!(code, 0);
    let flows = json_lines(&out);
    let packets: u64 = flows.iter().map(|it| it["packets"].as_u64().unwrap()).sum();
    assert_eq!((flows.len(), packets), (128, 6000));
    let summary: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(summary["reads"]["segments"]["requests"], 0);
    // What the index cannot answer gives the same flows from the packets.
    let length = "udp and greater 1";
    let (_, same, error) = run(&["find", "--in", &to, "--flows", "--json", length]);
    assert_eq!(same, out);
    let summary: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(summary["packets_from_index"], 0);
    assert!(summary["reads"]["segments"]["bytes"].as_u64().unwrap() > 0);
    let host = flows[0]["address_a"].as_str().unwrap();
    let (code, out, error) = run(&["find", "--in", &to, "--explain", "host", host]);
    assert_eq!((code, &*out), (0, ""));
    assert!(
        error.contains("read of segments 0 bytes with 0 requests"),
        "{error}"
    );
}

#[test]
fn errors_say_what_to_do_and_a_missing_segment_is_named() {
    let folder = Folder::new();
    let to = made(&folder);
    let empty = spool(&folder, "empty");
    for (expected, args, what) in [
        (
            1,
            &["--in", "nowhere", "udp"][..],
            "nowhere: opening this folder",
        ),
        (1, &["--in", &empty, "udp"], "there is no index here"),
        (
            2,
            &["--in", &to, "tcp", "prot", "80"],
            "did you mean 'proto'?",
        ),
        (2, &["--in", &to, "ip and ip6"], "no packet"),
        (
            2,
            &["--in", &to, "--from", "-1h", "--to", "-2h"],
            "is not before --to",
        ),
        (2, &["--in", &to, "--from", "soon"], "'soon' is not a time"),
        (
            2,
            &["--in", &to, "--sensor", "a/b"],
            "cannot be the name of a sensor",
        ),
        (
            2,
            &["--in", &to, "--sensor", "north", "--sensor", "nort"],
            "has no sensor with this name. It has north, south",
        ),
        (2, &["--in", "s3:/captures", "udp"], "is no URL"),
        (2, &["--in", "ftp://captures", "udp"], "no object store ftp"),
        (
            1,
            &["--in", &to, "-w", "/nonexistent/a.pcapng"],
            "/nonexistent/a.pcapng: creating it",
        ),
    ] {
        let (code, out, error) = run(&[&["find"], args].concat());
        assert_eq!((code, &*out), (expected, ""), "{args:?}");
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(run(&["find", "udp"]).0, 2);
    let north = folder.path("to/segments/sensor=north");
    fs::remove_dir_all(north).unwrap();
    let file = folder.path("found.pcapng");
    // The sensor is still known.
    let found = run(&["find", "--in", &to, "--sensor", "north", "-w", &file]);
    reports(found, 1, "segments/sensor=north");
    let found = run(&["find", "--in", &to, "udp", "-w", &file]);
    reports(found, 1, "segments/sensor=north");
    assert_eq!(Info::of(&file).unwrap().all.packets, 3000);
}

/// A pcapng file with one packet of each of these times, in nanoseconds.
fn pcapng(times: &[u64]) -> Vec<u8> {
    let mut file = pcapng_head();
    for time in times {
        let words = [0, (time >> 32) as u32, *time as u32, 60, 60];
        let mut body: Vec<u8> = words.iter().flat_map(|it| it.to_le_bytes()).collect();
        body.extend([7; 60]);
        file.extend(block(6, &body));
    }
    file
}

#[test]
fn without_an_end_packets_after_2262_are_found_and_a_segment_without_packets_is_not_read() {
    let (folder, spool, to) = places();
    let times = [
        1_790_000_000_000_000_000,
        1 << 63,
        10_000_000_000_000_000_000,
    ];
    fs::write(format!("{spool}/a.pcapng"), pcapng(&times)).unwrap();
    ok(ship(&spool, &to, &[]));
    // No packet, and a loss: the statistics of the interface count 5 dropped packets.
    let mut empty = pcapng(&[]);
    let statistics = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    empty.extend(block(5, &statistics));
    let lab = common::spool(&folder, "lab");
    fs::write(format!("{lab}/b.pcapng"), empty).unwrap();
    ship_as("lab", &lab, &to, &[]);
    assert_eq!(common::status(&to)[1]["lost_kernel"], 5);
    let found = folder.path("found.pcapng");
    let out = ok(run(&[
        "find", "--in", &to, "len > 0", "-w", &found, "--json",
    ]));
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(summary["blocks"]["planned"], 1, "{out}");
    assert_eq!(common::times(found.as_ref()), times);
    for (args, packets) in [
        (&["--count"][..], "3\n"),
        (&["--count", "--from", "2200-01-01"], "2\n"),
        (&["--count", "--to", "2262-01-01"], "1\n"),
    ] {
        let (_, out, error) = run(&[&["find", "--in", &to], args].concat());
        assert_eq!(out, packets, "{args:?} {error}");
    }
}

#[test]
fn a_search_that_cannot_write_everything_leaves_no_torn_file_and_keeps_the_old_one() {
    let folder = Folder::new();
    let to = made(&folder);
    fs::create_dir(folder.path("out")).unwrap();
    let file = folder.path("out/found.pcapng");
    // A limit for the size of files fails like a full disk if its signal is ignored.
    let limited = || {
        let program = env!("CARGO_BIN_EXE_forebay-archive");
        let script = r#"trap '' XFSZ; ulimit -f 100; exec "$@""#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", program, "find", "--in", &to]);
        done(shell.args(["udp", "-w", &file]).output().unwrap())
    };
    let names = || -> Vec<_> {
        let entries = fs::read_dir(folder.path("out")).unwrap();
        entries.map(|it| it.unwrap().file_name()).collect()
    };
    reports(limited(), 1, "found.pcapng: writing");
    assert!(names().is_empty(), "{:?}", names());
    ok(run(&[
        "find", "--in", &to, "udp", "--limit", "7", "-w", &file,
    ]));
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    reports(limited(), 1, "found.pcapng: writing");
    assert_eq!(names(), ["found.pcapng"]);
    assert_eq!(Info::of(&file).unwrap().all.packets, 7);
    // A whole result replaces it. Other users still cannot read it, and a link stays a link.
    let link = folder.path("link.pcapng");
    symlink(&file, &link).unwrap();
    ok(run(&["find", "--in", &to, "udp", "-w", &link]));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Info::of(&file).unwrap().all.packets, 6000);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(), ["found.pcapng"]);
    ok(run(&["find", "--in", &to, "udp", "-w", "/dev/null"]));
}

#[test]
fn a_reader_that_ends_early_is_no_error() {
    let folder = Folder::new();
    let to = made(&folder);
    let mut find = archive(&["find", "--in", &to, "udp", "-w", "-"]);
    let mut find = find
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(find.stdout.take());
    let found = done(find.wait_with_output().unwrap());
    reports(found, 0, "before the reader of the output ended");
}
