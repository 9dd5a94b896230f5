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
        code == 1 && what.contains("the account sensors/hall/shipped/"),
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
    fs::write(&damaged, vec![0; bytes.len()]).unwrap();
    assert_eq!(share(), sound);
    assert_counts(&state(&to).1, [("damaged_bytes", bytes.len() as u64)]);
}
