//! `expire` removes what it may, says what it could not delete, and never hides what is still stored.

mod common;

use common::{
    Outcome, assert_counts, captures, files_below, json_of, places, python_or_skip, reports, run,
    segments, servers::Fleet, servers::TO, set_age, ship, spool, status,
};
use serde_json::Value;
use std::fs;

/// The packets that `find` counts in the archive.
fn found(run: impl Fn(&[&str]) -> Outcome, to: &str) -> Value {
    json_of(run(&["find", "--in", to, "--count", "--json"]))["packets"].clone()
}

#[test]
fn without_the_right_to_delete_nothing_is_hidden_and_what_could_not_be_deleted_is_counted() {
    let python = python_or_skip!();
    let mut fleet = Fleet::new(&python);
    fleet.start_store();
    let spool = spool(&fleet.folder, "spool");
    captures(&fleet.folder, 1..=4, 500);
    let run = |args: &[&str]| fleet.run(args);
    json_of(run(&[
        "ship", &spool, TO, "--sensor", "hall", "--once", "--json",
    ]));
    let expire = ["expire", TO, "--older-than", "1d", "--json"];
    let state = || json_of(run(&["status", TO, "--json"]));
    let before = (state(), found(run, TO));

    fleet.store.fail("403 1 ?delete");
    // The second run finds the probe of the first one.
    for _ in 0..2 {
        reports(run(&expire), 1, "the right to delete segments is missing");
        assert_eq!((state(), found(run, TO)), before);
    }

    // The probe is deleted, and every second segment.
    fleet.store.fail("403 2 ?delete");
    let (code, out, err) = run(&expire);
    let done: Value = serde_json::from_str(out.trim()).unwrap();
    assert!(code == 1 && err.contains("deleting segments/"), "{err}");
    let left = done["not_deleted"].as_u64().unwrap();
    assert!((1..4).contains(&left), "{done}");
    assert_counts(&done, [("segments", 4), ("packets", 2000)]);
    let after = state();
    assert_counts(&after, [("expired", 2000), ("not_deleted", left)]);
    assert_eq!(after["not_deleted_bytes"], done["not_deleted_bytes"]);

    fleet.store.fail("");
    let done = json_of(run(&expire));
    assert_counts(&done, [("segments", left), ("not_deleted", 0)]);
    assert_counts(&state(), [("expired", 2000), ("not_deleted", 0)]);
    assert!(fleet.segments().is_empty());
}

/// As after an `expire` whose deletions failed.
#[test]
fn segments_that_have_expired_and_are_still_stored_are_brought_back() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=2, 500);
    ship(&spool, &to, &[]);
    let stored: Vec<_> = segments(&to)
        .into_iter()
        .map(|it| (fs::read(&it).unwrap(), it))
        .collect();
    json_of(run(&["expire", &to, "--older-than", "1d", "--json"]));
    for (bytes, path) in &stored {
        fs::write(path, bytes).unwrap();
    }
    assert_counts(&status(&to)[0], [("segments", 0), ("not_deleted", 2)]);
    let undelete = ["rebuild", &to, "--undelete", "--json"];
    reports(run(&undelete), 1, "may be deleting them");
    assert_counts(&status(&to)[0], [("segments", 0), ("not_deleted", 2)]);

    for path in files_below(format!("{to}/sensors/hall")) {
        set_age(path, 7200);
    }
    let done = json_of(run(&undelete));
    assert_counts(&done, [("undeleted", 2), ("added", 2)]);
    let sensor = &status(&to)[0];
    assert_counts(sensor, [("segments", 2), ("expired", 0)]);
    assert_counts(sensor, [("shipped", 1000), ("indexed", 1000)]);
    assert_eq!(found(run, &to), 1000);
}
