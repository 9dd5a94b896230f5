//! A sum is checked from both ends: `status` notices a segment that vanished, whatever else has vanished with it.

mod common;

use common::{
    age, archive, assert_counts, captures, done, json_of, last_json, ok, run, segments, spool,
};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::fs;

/// The object of `status` for the sensor `hall`, and the exit code.
fn state(to: &str) -> (i32, Value) {
    let (code, out, _) = run(&["status", to, "--json"]);
    (code, last_json(&out))
}

/// An archive with three segments of 100 packets, two hours old.
fn made(folder: &Folder) -> String {
    let (spool, to) = (spool(folder, "spool"), folder.path("to"));
    captures(folder, 1..=3, 100);
    ok(done(
        archive(&["ship", &spool, &to, "--sensor", "hall", "--once"])
            .output()
            .unwrap(),
    ));
    age(&to);
    to
}

#[test]
fn a_segment_that_vanishes_is_named_also_after_its_rows_are_gone() {
    let folder = Folder::new();
    let to = made(&folder);
    let (code, sound) = state(&to);
    assert_eq!(code, 0);
    assert_counts(
        &sound,
        [("captured", 300), ("shipped", 300), ("vanished", 0)],
    );

    let gone = segments(&to).swap_remove(1);
    fs::remove_file(&gone).unwrap();
    let (name, parts) = (
        gone.to_str().unwrap(),
        [("captured", 300), ("shipped", 200), ("vanished", 100)],
    );
    let is_named = |state: &Value| {
        let missing = state["missing"][0].as_str().unwrap();
        assert!(
            name.ends_with(missing) && state["is_sound"] == false,
            "{state}"
        );
    };
    let (code, state_) = state(&to);
    assert_eq!(
        (code, state_["dangling"][0] == state_["missing"][0]),
        (1, true)
    );
    assert_counts(&state_, parts);
    is_named(&state_);
    // Its rows go, the loss does not.
    ok(run(&["rebuild", &to]));
    let (code, state_) = state(&to);
    assert_eq!((code, state_["dangling"].as_array().unwrap().len()), (1, 0));
    assert_counts(&state_, parts);
    is_named(&state_);
    // The same if it never had any rows, as one that vanishes before it is indexed.
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    ok(run(&["rebuild", &to]));
    let (code, state_) = state(&to);
    assert_eq!(code, 1);
    assert_counts(&state_, [("indexed", 200)]);
    assert_counts(&state_, parts);
    is_named(&state_);

    let accepted = json_of(run(&["rebuild", &to, "--accept-missing", "--json"]));
    assert_counts(&accepted, [("accepted", 1)]);
    let (code, state_) = state(&to);
    assert_eq!((code, state_["missing"].as_array().unwrap().len()), (0, 0));
    assert_counts(&state_, parts);
    let again = json_of(run(&["rebuild", &to, "--accept-missing", "--json"]));
    assert_counts(&again, [("accepted", 0)]);
}

#[test]
fn a_segment_that_is_gone_does_not_hide_one_that_is_not_in_the_index() {
    let folder = Folder::new();
    let to = made(&folder);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    let [gone, other] = [0, 1].map(|at| segments(&to).swap_remove(at));
    let bytes = fs::read(&other).unwrap();
    fs::remove_file(&other).unwrap();
    ok(run(&["rebuild", &to]));
    // The index has 200 packets, and so have the segments that are stored.
    fs::write(&other, bytes).unwrap();
    age(&to);
    fs::remove_file(&gone).unwrap();
    let (code, state) = state(&to);
    assert_counts(
        &state,
        [("shipped", 200), ("indexed", 200), ("vanished", 100)],
    );
    assert_eq!((code, state["unindexed"].as_array().unwrap().len()), (1, 1));
    assert_eq!(state["dangling"], state["missing"]);
}

#[test]
fn a_segment_that_is_restored_counts_once() {
    let folder = Folder::new();
    let to = made(&folder);
    let gone = segments(&to).swap_remove(0);
    let bytes = fs::read(&gone).unwrap();
    fs::remove_file(&gone).unwrap();
    ok(run(&["rebuild", &to, "--accept-missing"]));
    fs::write(&gone, bytes).unwrap();
    ok(run(&["rebuild", &to]));
    let (code, state) = state(&to);
    assert_eq!(code, 0, "{state}");
    assert_counts(
        &state,
        [("captured", 300), ("shipped", 300), ("vanished", 0)],
    );
}

#[test]
fn expired_segments_are_not_missing_and_a_damaged_account_is_named() {
    let folder = Folder::new();
    let to = made(&folder);
    ok(run(&["expire", &to, "--older-than", "1s"]));
    let (code, expired) = state(&to);
    assert_eq!(code, 0);
    assert_counts(
        &expired,
        [("captured", 300), ("expired", 300), ("vanished", 0)],
    );
    let page = common::files_below(format!("{to}/sensors/hall/shipped")).remove(0);
    fs::write(&page, "{\"schema\":2}").unwrap();
    let (code, damaged) = state(&to);
    let what = damaged["damaged"][0].as_str().unwrap();
    assert!(
        code == 1 && what.contains("the record sensors/hall/shipped/"),
        "{what}"
    );
}

#[test]
fn the_share_of_the_captures_is_that_of_the_segments_that_can_be_read() {
    let folder = Folder::new();
    let to = made(&folder);
    let share = || {
        let (_, out, _) = run(&["status", &to]);
        let (before, _) = out.split_once(" % of the captures").unwrap();
        before.rsplit(' ').next().unwrap().to_owned()
    };
    let sound = share();
    let damaged = segments(&to).swap_remove(0);
    let bytes = fs::read(&damaged).unwrap();
    fs::write(&damaged, &bytes[..bytes.len() - 100]).unwrap();
    assert_eq!(share(), sound);
    let (code, state) = state(&to);
    let what = state["damaged"][0].as_str().unwrap();
    let lengths = format!(
        "has {} bytes, and {} were shipped",
        bytes.len() - 100,
        bytes.len()
    );
    assert!(code == 1 && what.contains(&lengths), "{what}");
    assert_counts(&state, [("damaged_bytes", bytes.len() as u64 - 100)]);
    // Its packets are in the sums all the same, so nothing else seems to be wrong.
    assert_counts(
        &state,
        [("captured", 300), ("shipped", 300), ("indexed", 300)],
    );
}

/// Files of the archive in this folder, with this end.
fn files(to: &str, folder: &str, end: &str) -> Vec<std::path::PathBuf> {
    let mut files = common::files_below(format!("{to}/{folder}"));
    files.retain(|it| it.to_str().unwrap().ends_with(end));
    files
}

#[test]
fn status_reads_no_segment_and_no_file_of_the_index_while_the_sums_are_equal() {
    let folder = Folder::new();
    let to = made(&folder);
    let sound = state(&to);
    assert_eq!(sound.0, 0);
    // The same length, and nothing that can be read.
    let mut all = segments(&to);
    all.extend(files(&to, "index", ".parquet"));
    let before: Vec<_> = all.iter().map(|it| fs::read(it).unwrap()).collect();
    for (path, bytes) in all.iter().zip(&before) {
        fs::write(path, vec![0; bytes.len()]).unwrap();
    }
    assert_eq!(state(&to), sound);
    for (path, bytes) in all.iter().zip(&before) {
        fs::write(path, bytes).unwrap();
    }
    // Another program has written the log: no file has a tag.
    for commit in files(&to, "index/_delta_log", ".json") {
        let text = fs::read_to_string(&commit).unwrap();
        fs::write(commit, text.replace("forebay.packets", "other")).unwrap();
    }
    assert_eq!(state(&to), sound);
    // An account without lengths, as an earlier version wrote it: the directories are read.
    for page in files(&to, "sensors/hall/shipped", ".json") {
        let mut page_: Value = serde_json::from_slice(&fs::read(&page).unwrap()).unwrap();
        for entry in page_["segments"].as_array_mut().unwrap() {
            let entry = entry.as_object_mut().unwrap();
            assert!(
                entry.remove("stored_bytes").is_some() && entry.remove("plain_bytes").is_some()
            );
        }
        fs::write(page, page_.to_string()).unwrap();
    }
    assert_eq!(state(&to), sound);
    let file = files(&to, "index", ".parquet").swap_remove(0);
    fs::write(&file, "short").unwrap();
    common::reports(run(&["status", &to]), 1, "of its index is damaged");
}

#[test]
fn status_counts_the_sensors_and_the_days_that_are_wanted() {
    let folder = Folder::new();
    let to = made(&folder);
    let spool = spool(&folder, "other");
    fs::write(
        folder.path("other/a.pcap"),
        common::pcap(&[(common::now_s() as u32, &[0; 60])]),
    )
    .unwrap();
    ok(common::ship_as("lab", &spool, &to, &[]));
    let counted = |more: &[&str]| {
        let lines = common::json_lines(&ok(run(&[&["status", &to, "--json"], more].concat())));
        let count = |it: &Value| {
            (
                it["sensor"].as_str().unwrap().to_owned(),
                it["shipped"].as_u64().unwrap(),
            )
        };
        lines.iter().map(count).collect::<Vec<_>>()
    };
    let [hall, lab] = [("hall".to_owned(), 300), ("lab".to_owned(), 1)];
    assert_eq!(counted(&[]), [hall.clone(), lab.clone()]);
    assert_eq!(counted(&["--since", "20000d"]), [hall.clone(), lab.clone()]);
    assert_eq!(counted(&["--sensor", "hall"]), [hall]);
    assert_eq!(counted(&["--since", "1d"]), [lab]);
    assert_eq!(counted(&["--since", "1d", "--sensor", "hall"]), []);
    common::reports(
        run(&["status", &to, "--sensor", "hal"]),
        2,
        "It has hall, lab",
    );
}
