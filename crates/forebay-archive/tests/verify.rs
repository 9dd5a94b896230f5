//! `verify` reads what `status` does not: a changed byte in the middle of a segment is found and named.

mod common;
#[path = "verify/faults.rs"]
mod faults;

use common::{
    assert_counts, captured, captures, damage, json_of, ok, python_or_skip, reports, run, segments,
    servers::Fleet, servers::TO, set_age, ship_as, spool,
};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::fs;

/// An archive with three segments of 2,000 packets of each of two sensors.
fn made(folder: &Folder) -> String {
    let to = folder.path("to");
    for sensor in ["north", "south"] {
        let spool = spool(folder, sensor);
        for seed in 1..4 {
            let card = format!("count=2000,seed={seed}{},size=200", sensor.len() + seed);
            captured(folder, &format!("{sensor}/{seed}.pcapng"), &card);
        }
        ok(ship_as(sensor, &spool, &to, &[]));
    }
    to
}

#[test]
fn each_segment_is_read_whole_and_what_is_damaged_is_named() {
    let folder = Folder::new();
    let to = made(&folder);
    let sound = json_of(run(&["verify", &to, "--json"]));
    let counts = [("segments", 6), ("packets", 12_000), ("left_out", 0)];
    assert_counts(&sound, counts);
    assert_counts(&sound, [("damaged", 0), ("unreadable", 0)]);
    let files = segments(&to);
    let stored: u64 = files.iter().map(|it| it.metadata().unwrap().len()).sum();
    assert_eq!(sound["stored_bytes"], stored);

    damage(&files[0]);
    let bytes = fs::read(&files[4]).unwrap();
    fs::write(&files[4], &bytes[..bytes.len() - 1]).unwrap();
    let metrics = folder.path("verify.prom");
    let (code, out, err) = run(&["verify", &to, "--json", "--metrics-file", &metrics]);
    assert_eq!(code, 1, "{err}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_counts(&found, [("segments", 6), ("packets", 8000), ("damaged", 2)]);
    for file in [&files[0], &files[4]] {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(err.contains(name) && err.contains("damaged"), "{err}");
    }
    let salvaged = "`find` salvages 2000 packets in 1 block of it";
    assert_eq!(err.matches(salvaged).count(), 1, "{err}");
    let text = fs::read_to_string(&metrics).unwrap();
    assert!(text.contains("count=\"damaged\"} 2\n"), "{text}");
    let (code, out, _) = run(&["verify", &to, "--sensor", "south"]);
    assert_eq!(code, 1);
    assert!(
        out.starts_with("read 3 segments: 2 sound, with 4000 packets"),
        "{out}"
    );
    assert!(out.ends_with(", 1 damaged\n"), "{out}");
}

#[test]
fn a_sample_is_random_and_newly_stored_segments_can_be_chosen() {
    let folder = Folder::new();
    let to = made(&folder);
    let verify = |flags: &[&str]| json_of(run(&[&["verify", &to, "--json"], flags].concat()));
    for (sample, read) in [("2", 2), ("50%", 3), ("1%", 1), ("100", 6)] {
        let done = verify(&["--sample", sample]);
        assert_counts(&done, [("segments", read), ("left_out", 6 - read)]);
    }
    // 200 samples of one segment of six all miss a certain one with a probability of 10⁻¹⁶. The first that has it is the last one.
    damage(&segments(&to)[2]);
    let mut codes = (0..200).map(|_| run(&["verify", &to, "--sample", "1"]).0);
    assert!(codes.any(|it| it == 1));
    for file in &segments(&to)[1..] {
        set_age(file, 9 * 86_400);
    }
    assert_counts(
        &verify(&["--since", "8d"]),
        [("segments", 1), ("left_out", 0)],
    );
    let none = verify(&["--since", "8d", "--sensor", "south"]);
    assert_counts(&none, [("segments", 0)]);
    let empty = folder.path("empty");
    fs::create_dir(&empty).unwrap();
    reports(
        run(&["verify", &empty]),
        1,
        "no sensor has shipped anything here",
    );
    for (flags, what) in [
        (["--sensor", "suoth"], "north, south"),
        (["--sample", "0"], "is no number of segments"),
        (["--sample", "101%"], "no percentage"),
        (["--sample", "NaN%"], "no percentage"),
        (["--since", "soon"], "is no time"),
    ] {
        reports(run(&[&["verify", &to][..], &flags].concat()), 2, what);
    }
}

/// In cold storage, for example: all others are read.
#[test]
fn segments_that_the_store_refuses_do_not_end_the_command() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = spool(&fleet.folder, "spool");
    captures(&fleet.folder, 1..=24, 10);
    ok(fleet.run(&["ship", &spool, TO, "--sensor", "hall", "--once"]));
    let keys = fleet.segments();
    let refused = |key: &str| fleet.store.fail(&format!("403 1 {key}"));
    refused("segments/sensor=hall/");
    let (code, out, err) = fleet.run(&["verify", TO, "--json"]);
    let done: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{err}"));
    assert_eq!(code, 3);
    assert_counts(
        &done,
        [("segments", 24), ("unreadable", 24), ("damaged", 0)],
    );
    refused(&keys[0]);
    let (code, out, _) = fleet.run(&["verify", TO, "--json"]);
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 3);
    assert_counts(&done, [("segments", 24), ("unreadable", 1), ("damaged", 0)]);
}
