//! Objects that became shorter, and objects that the store can never return.

use crate::common::{
    self, Outcome, assert_counts, captures, last_json, ok, python_or_skip, reports,
    servers::{Fleet, TO},
};
use forebay_testing::folder::Folder;
use std::fs;

/// How an archive is reached.
struct Place<'a> {
    to: &'a str,
    run: &'a dyn Fn(&[&str]) -> Outcome,
    keys: &'a dyn Fn(&str) -> Vec<String>,
    get: &'a dyn Fn(&str) -> Vec<u8>,
    put: &'a dyn Fn(&str, &[u8]),
}

impl Place<'_> {
    /// Calls `check` with an object that lacks its end, after `whole` bytes.
    fn cut(&self, key: &str, whole: usize, check: impl Fn()) {
        let bytes = (self.get)(key);
        (self.put)(key, &bytes[..whole]);
        check();
        (self.put)(key, &bytes);
    }

    fn check(&self) {
        let to = self.to;
        let is_file = |it: &String| it.ends_with(".parquet");
        let index = (self.keys)("index").into_iter().find(is_file).unwrap();
        let segment = (self.keys)("segments").pop().unwrap();
        let fails = |args: &[&str], key: &str| {
            let err = reports((self.run)(args), 1, key);
            assert!(err.contains("is damaged"), "{args:?}: {err}");
            assert!(!err.contains("does not answer"), "{args:?}: {err}");
        };
        for whole in [0, 100] {
            self.cut(&index, whole, || {
                fails(&["find", "--in", to, "udp", "--count"], &index);
                fails(&["expire", to, "--keep", "1d udp"], &index);
                fails(&["rebuild", to], &index);
            });
            self.cut(&segment, whole, || {
                fails(&["verify", to], &segment);
                fails(&["rebuild", to], &segment);
                fails(&["expire", to, "--older-than", "1d"], &segment);
                fails(&["find", "--in", to, "udp", "-w", "/dev/null"], &segment);
            });
        }
        ok((self.run)(&["status", to]));
    }
}

#[test]
fn objects_that_became_shorter_are_damaged() {
    let folder = Folder::new();
    let (spool, to) = (common::spool(&folder, "spool"), folder.path("to"));
    captures(&folder, 1..=1, 3000);
    ok(common::ship(&spool, &to, &[]));
    let key = |path: &std::path::PathBuf| path.strip_prefix(&to).unwrap().display().to_string();
    let path = |key: &str| format!("{to}/{key}");
    Place {
        to: &to,
        run: &common::run,
        keys: &|under| common::files_below(path(under)).iter().map(key).collect(),
        get: &|key| fs::read(path(key)).unwrap(),
        put: &|key, bytes| fs::write(path(key), bytes).unwrap(),
    }
    .check();
}

#[test]
fn objects_of_an_object_store_that_became_shorter_are_damaged() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = common::spool(&fleet.folder, "spool");
    captures(&fleet.folder, 1..=1, 3000);
    ok(fleet.run(&["ship", &spool, TO, "--sensor", "hall", "--once"]));
    Place {
        to: TO,
        run: &|args| fleet.run(args),
        keys: &|under| fleet.keys(under),
        get: &|key| fleet.get(key),
        put: &|key, bytes| fleet.put(key, bytes),
    }
    .check();
}

/// A store with an archive of this number of segments of 1,000 packets.
fn fleet(python: &std::path::Path, segments: u64) -> Fleet {
    let mut fleet = Fleet::new(python);
    fleet.start_store();
    let spool = common::spool(&fleet.folder, "spool");
    captures(&fleet.folder, 1..=segments, 1000);
    ok(fleet.run(&["ship", &spool, TO, "--sensor", "hall", "--once"]));
    // What is in no account is known only by its directory.
    for page in fleet.keys("sensors/hall/shipped") {
        fleet.put(&page, br#"{"schema": 1, "segments": []}"#);
    }
    fleet
}

#[test]
fn a_segment_that_the_store_never_returns_is_named_and_all_others_are_dealt_with() {
    let python = python_or_skip!();
    let fleet = fleet(&python, 3);
    let segment = &fleet.segments()[1];
    let run = |args: &[&str]| {
        let (code, out, err) = fleet.run(&[args, &["--json"]].concat());
        let is_named = out.contains(&**segment) || err.contains(&**segment);
        assert!(is_named && !err.contains("damaged"), "{args:?}: {out}{err}");
        assert_eq!(code, 3, "{args:?}: {out}{err}");
        last_json(&out)
    };
    for key in fleet.keys("index") {
        fleet.delete(&key);
    }
    for (status, added) in [("500", 2), ("403", 0)] {
        fleet.store.fail(&format!("{status} 1 {segment}"));
        let done = run(&["rebuild", TO]);
        assert_counts(
            &done,
            [("added", added), ("missing", added), ("unreadable", 1)],
        );
        let sensor = run(&["status", TO]);
        let counts = [("captured", 2000), ("shipped", 2000), ("indexed", 2000)];
        assert_counts(&sensor, counts);
        assert_eq!(sensor["damaged"], serde_json::json!([]));
        assert_eq!(sensor["unreadable"].as_array().unwrap().len(), 1);
    }
    // The rows of one that cannot be read do not stand for those that are missing.
    fleet.store.fail(&format!("500 1 {}", fleet.segments()[2]));
    let (code, out, err) = fleet.run(&["status", TO, "--json"]);
    assert_eq!(code, 3, "{out}{err}");
    let counts = [("shipped", 2000), ("indexed", 2000), ("in_flight", 1)];
    assert_counts(&last_json(&out), counts);
    fleet.store.fail("");
    assert_eq!(
        common::json_of(fleet.run(&["rebuild", TO, "--json"]))["added"],
        1
    );
    fleet.store.fail(&format!("500 1 {segment}"));
    let done = run(&["expire", TO, "--older-than", "1d"]);
    assert_counts(&done, [("segments", 2), ("packets", 2000)]);
    assert_eq!(fleet.segments(), [&**segment]);
    fleet.store.fail("");
    let sensor = last_json(&ok(fleet.run(&["status", TO, "--json"])));
    let counts = [("captured", 3000), ("shipped", 1000), ("expired", 2000)];
    assert_counts(&sensor, counts);
}

#[test]
fn a_damaged_segment_decides_about_the_exit_code_when_the_store_does_not_return_another() {
    let python = python_or_skip!();
    let fleet = fleet(&python, 3);
    let keys = fleet.segments();
    let damaged = fleet.get(&keys[0]);
    fleet.put(&keys[0], &damaged[..100]);
    fleet.store.fail(&format!("500 1 {}", keys[2]));
    for args in [
        &["find", "--in", TO, "udp", "-w", "/dev/null"][..],
        &["status", TO],
        &["verify", TO],
        &["rebuild", TO],
        &["expire", TO, "--older-than", "1d"],
    ] {
        let (code, out, err) = fleet.run(args);
        assert_eq!(code, 1, "{args:?}: {out}{err}");
        let is_named = |key: &String| out.contains(&**key) || err.contains(&**key);
        assert!(
            is_named(&keys[0]) && is_named(&keys[2]),
            "{args:?}: {out}{err}"
        );
    }
}

#[test]
fn a_store_that_returns_no_segment_at_all_ends_the_command() {
    let python = python_or_skip!();
    let fleet = fleet(&python, 20);
    fleet.store.fail("500 1 .pcapng");
    for args in [&["status", TO][..], &["expire", TO, "--older-than", "1d"]] {
        let (code, out, err) = fleet.run(args);
        assert_eq!((code, &*out), (3, ""), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    fleet.store.fail("");
    assert_eq!(fleet.segments().len(), 20);
}
