//! `expire` removes what it may, says what it could not delete, and never hides what is still stored.

mod common;

use common::{
    Outcome, assert_counts, captures, files_below, json_lines, json_of, now_s, ok, pcap, places,
    python_or_skip, reports, run, runtime, segments, servers::Fleet, servers::TO, set_age, ship,
    ship_as, spool, status,
};
use forebay_archive::{
    archive::Archive,
    expire::{ExpireConfig, Verdict, expire},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, time::Duration};

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
        reports(run(&expire), 3, "the right to delete segments is missing");
        assert_eq!((state(), found(run, TO)), before);
    }

    // The probe is deleted, and every second segment.
    fleet.store.fail("403 2 ?delete");
    let (code, out, err) = run(&expire);
    let done: Value = serde_json::from_str(out.trim()).unwrap();
    assert!(code == 3 && err.contains("deleting segments/"), "{err}");
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
    // Nor are they brought back when a later `expire` tries again: it may be deleting them, too.
    let age_records = || {
        for path in files_below(format!("{to}/sensors/hall")) {
            set_age(path, 7200);
        }
    };
    age_records();
    json_of(run(&["expire", &to, "--older-than", "1d", "--json"]));
    for (bytes, path) in &stored {
        fs::write(path, bytes).unwrap();
    }
    reports(run(&undelete), 1, "may be deleting them");
    assert_counts(&status(&to)[0], [("segments", 0), ("not_deleted", 2)]);

    // Their rows are gone, so a hold of the sensor may hold them: now they are not deleted even if that is possible.
    ok(run(&["hold", &to, "case", "--sensor", "hall", "udp"]));
    let again = ["expire", &to, "--older-than", "1d", "--json"];
    assert_counts(&json_of(run(&again)), [("segments", 0), ("held", 2)]);

    age_records();
    let done = json_of(run(&undelete));
    assert_counts(&done, [("undeleted", 2), ("added", 2)]);
    let sensor = &status(&to)[0];
    assert_counts(sensor, [("segments", 2), ("expired", 0)]);
    assert_counts(sensor, [("shipped", 1000), ("indexed", 1000)]);
    assert_eq!(found(run, &to), 1000);
}

/// Only the dates on which a segment may go are listed, and those with records, also with records of earlier versions.
#[test]
fn what_an_earlier_run_left_is_deleted_even_on_a_date_that_the_rules_keep() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=2, 500);
    ship(&spool, &to, &[]);
    let stored: Vec<_> = segments(&to)
        .into_iter()
        .map(|it| (fs::read(&it).unwrap(), it))
        .collect();
    json_of(run(&["expire", &to, "--older-than", "1d", "--json"]));
    for is_old_record in [false, true] {
        for (bytes, path) in &stored {
            fs::write(path, bytes).unwrap();
            if is_old_record {
                let name = path.file_name().unwrap().to_str().unwrap();
                let sha256 = name.split('.').next().unwrap();
                let record = format!("{to}/sensors/hall/expired-{sha256}.json");
                fs::write(record, r#"{"packets":500}"#).unwrap();
                let _ = fs::remove_dir_all(format!("{to}/sensors/hall/expired"));
            }
        }
        let done = json_of(run(&["expire", &to, "--older-than", "9000d", "--json"]));
        assert_counts(&done, [("segments", 2), ("not_deleted", 0)]);
        assert!(segments(&to).is_empty());
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A packet from 10.0.0.`host` to 10.0.0.1 and this port.
fn packet(host: u8, protocol: u8, port: u16) -> Vec<u8> {
    let mut bytes = [
        &[2; 12][..],
        &[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0],
    ]
    .concat();
    bytes.extend([10, 0, 0, host, 10, 0, 0, 1]);
    bytes.extend(40_000_u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// Ships these captures: the sensor, the age in days, and the packets. Returns their names, by the keys of their segments.
fn shipped<'n>(
    to: &str,
    captures: &[(&'n str, &str, u64, &[Vec<u8>])],
) -> BTreeMap<String, &'n str> {
    let mut names = BTreeMap::new();
    for (name, sensor, days, packets) in captures {
        let (folder, _, _) = places();
        let time = (now_s() - days * 86_400) as u32;
        let packets: Vec<(u32, &[u8])> = packets.iter().map(|it| (time, &**it)).collect();
        fs::write(folder.path("spool/a.pcap"), pcap(&packets)).unwrap();
        let _ = fs::remove_file(format!("{to}/sensors/{sensor}/claim.json"));
        ok(ship_as(sensor, &folder.path("spool"), to, &[]));
        for key in keys(to) {
            names.entry(key).or_insert(*name);
        }
    }
    assert_eq!(names.len(), captures.len());
    names
}

/// The keys of all segments.
fn keys(to: &str) -> Vec<String> {
    let key = |it: &std::path::PathBuf| it.strip_prefix(to).unwrap().to_str().unwrap().to_owned();
    segments(to).iter().map(key).collect()
}

/// The names of the segments that are left, in order.
fn left<'n>(to: &str, names: &BTreeMap<String, &'n str>) -> Vec<&'n str> {
    let mut left: Vec<&str> = keys(to).iter().map(|it| names[it]).collect();
    left.sort_unstable();
    left
}

#[test]
fn rules_keep_segments_by_sensor_filter_and_age_and_a_dry_run_gives_the_reasons() {
    let (_folder, _, to) = places();
    let dns = [packet(2, UDP, 53)];
    let web = [packet(2, TCP, 80)];
    let mixed = [packet(2, UDP, 53), packet(2, TCP, 80)];
    let mail = [packet(2, TCP, 80), packet(3, TCP, 25)];
    let other = [packet(4, TCP, 7000)];
    let names = shipped(
        &to,
        &[
            ("dns-10", "hall", 10, &dns),
            ("dns-6", "hall", 6, &dns),
            ("mixed-10", "hall", 10, &mixed),
            ("web-29", "hall", 29, &web),
            ("web-31", "hall", 31, &web),
            ("mail-40", "hall", 40, &mail),
            ("mail-100", "hall", 100, &mail),
            ("dmz-web-40", "dmz", 40, &web),
            ("dmz-dns-40", "dmz", 40, &dns),
            ("dmz-other-70", "dmz", 70, &other),
        ],
    );
    let rules = [
        "expire",
        &to,
        "--keep",
        "7d udp port 53",
        "--keep",
        "90d tcp port 25",
        "--keep",
        "60d sensor dmz",
        "--older-than",
        "30d",
        "--json",
    ];
    let lines = json_lines(&ok(run(&[&rules[..], &["-n"]].concat())));
    let (summary, segments) = lines.split_last().unwrap();
    assert_counts(summary, [("segments", 5), ("held", 0)]);
    let with = |goes: bool| {
        let lines = segments.iter().filter(|it| it["goes"] == goes);
        let mut found: Vec<_> = lines
            .map(|it| names[it["segment"].as_str().unwrap()])
            .collect();
        found.sort_unstable();
        found
    };
    let going = ["dmz-dns-40", "dmz-other-70", "dns-10", "mail-100", "web-31"];
    assert_eq!(with(true), going);
    let reason = |name: &str| {
        let line = segments
            .iter()
            .find(|it| names[it["segment"].as_str().unwrap()] == name);
        line.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("mail-40"), "has packets of `90d tcp port 25`");
    assert!(
        reason("mixed-10").contains("`--older-than`"),
        "{}",
        reason("mixed-10")
    );
    assert_eq!(keys(&to).len(), 10);
    let before = found(run, &to).as_u64().unwrap();
    json_of(run(&rules));
    let staying = ["dmz-web-40", "dns-6", "mail-40", "mixed-10", "web-29"];
    assert_eq!(left(&to, &names), staying);
    assert_eq!(found(run, &to), before - 6);
    assert_eq!(status(&to).len(), 2);

    // A segment that a rule keeps is not read: the index answers.
    let key = names.iter().find(|it| *it.1 == "mail-40").unwrap().0;
    let whole = fs::read(format!("{to}/{key}")).unwrap();
    fs::write(format!("{to}/{key}"), "damaged").unwrap();
    json_of(run(&rules));
    fs::write(format!("{to}/{key}"), whole).unwrap();

    // What the index does not know keeps everything that it might be about.
    let unknown = [
        "expire",
        &to,
        "--keep",
        "50d tcp and tcp[13] & 2 != 0",
        "--older-than",
        "5d",
    ];
    let (code, _, err) = run(&unknown);
    assert!(
        code == 0 && err.contains("the index does not know a part"),
        "{err}"
    );
    assert_eq!(
        left(&to, &names),
        ["dmz-web-40", "mail-40", "mixed-10", "web-29"]
    );
    // Nor does it answer for segments whose rows are lost.
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    for path in common::segments(&to) {
        set_age(path, 7200);
    }
    let lost = [
        "expire",
        &to,
        "--keep",
        "50d udp port 9",
        "--older-than",
        "5d",
    ];
    json_of(run(&[&lost[..], &["--json"]].concat()));
    assert_eq!(left(&to, &names).len(), 4);
    ok(run(&["rebuild", &to]));
    ok(run(&lost));
    assert!(left(&to, &names).is_empty());
    let mistyped = [
        "expire",
        &to,
        "--older-than",
        "1d",
        "--keep",
        "9d sensor dzm",
    ];
    reports(run(&mistyped), 2, "--keep: sensor dzm");
    for wrong in [
        "",
        "tcp",
        "90 tcp",
        "9d sensor /",
        "9d tcp prot 5",
        "9d ip and ip6",
    ] {
        reports(run(&["expire", &to, "--keep", wrong]), 2, "--keep");
    }
    // Seconds, which may have been meant as days.
    reports(run(&["expire", &to, "--older-than", "90"]), 2, "a unit");
}

#[test]
fn no_expiry_removes_what_a_hold_may_match() {
    let (_folder, _, to) = places();
    let [one, two] = [2, 3].map(|host| [packet(host, TCP, 80)]);
    let names = shipped(
        &to,
        &[
            ("one-40", "hall", 40, &one),
            ("two-40", "hall", 40, &two),
            ("one-20", "dmz", 20, &one),
            ("two-20", "dmz", 20, &two),
        ],
    );
    let hold = |args: &[&str]| run(&[&["hold", &to], args].concat());
    let expire = |args: &[&str]| run(&[&["expire", &to, "--json"], args].concat());
    let all = ["--older-than", "1d", "--max", "0B"];

    ok(hold(&[
        "case-1", "host", "10.0.0.2", "--from", "-50d", "--to", "-30d",
    ]));
    ok(hold(&["case-2", "--sensor", "dmz", "host 10.0.0.9"]));
    reports(
        hold(&["case-1", "udp"]),
        1,
        "there is a hold with the name case-1",
    );
    for wrong in [&["a/b"][..], &["x", "port"], &["x", "--from", "never"]] {
        reports(hold(wrong), 2, "");
    }
    let holds = json_lines(&ok(hold(&["--list", "--json"])));
    assert_eq!(holds.len(), 2);
    assert_eq!(holds[0]["expression"], "host 10.0.0.2");
    assert_eq!(
        (&holds[1]["case"], &holds[1]["sensors"]),
        (&json!("case-2"), &json!(["dmz"]))
    );

    // A hold that cannot be read: it is not known what it holds.
    fs::write(format!("{to}/holds/case-3.json"), "{").unwrap();
    reports(expire(&all), 1, "holds/case-3.json");
    reports(hold(&["--list"]), 1, "holds/case-3.json");
    assert_eq!(keys(&to).len(), 4);
    ok(hold(&["--release", "case-3"]));
    // Nor an object that is none, and whose name no hold can have.
    fs::write(format!("{to}/holds/a note.txt"), "").unwrap();
    reports(expire(&all), 1, "holds/a note.txt");
    reports(hold(&["--release", "sensors"]), 1, "no hold");
    ok(hold(&["--release", "holds/a note.txt"]));

    let (code, out, _) = expire(&all);
    let done: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(code, 1, "{done}");
    assert_counts(&done, [("segments", 3), ("held", 1)]);
    assert_eq!(done["over_bytes"], done["held_bytes"]);
    assert_eq!(left(&to, &names), ["one-40"]);
    // It is held by age alone, too; and a hold that the index cannot decide holds it.
    let done = json_of(expire(&["--older-than", "1d"]));
    assert_counts(&done, [("segments", 0), ("held", 1)]);
    ok(hold(&["--release", "case-1"]));
    reports(
        hold(&["case-4", "less", "100"]),
        0,
        "the index does not know a part",
    );
    assert_counts(&json_of(expire(&["--older-than", "1d"])), [("held", 1)]);
    ok(hold(&["--release", "case-4"]));

    // Nor does it matter that its rows are lost.
    ok(hold(&["case-5", "udp"]));
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    set_age(&segments(&to)[0], 7200);
    let done = json_of(expire(&["--older-than", "1d"]));
    assert_counts(&done, [("segments", 0), ("held", 1)]);
    ok(run(&["rebuild", &to]));
    reports(
        hold(&["--release", "case-9"]),
        1,
        "no hold with the name case-9",
    );
    let done = json_of(expire(&["--older-than", "1d"]));
    assert_counts(&done, [("segments", 1), ("held", 0), ("over_bytes", 0)]);
    assert!(keys(&to).is_empty());
}

#[test]
fn a_hold_that_is_placed_while_an_expire_runs_is_observed() {
    let (_folder, _, to) = places();
    let [one, two, mail] =
        [(2, 80), (3, 80), (4, 25)].map(|(host, port)| [packet(host, TCP, port)]);
    let captures = [
        ("one", "hall", 40, &one[..]),
        ("two", "hall", 40, &two[..]),
        ("mail", "hall", 40, &mail[..]),
    ];
    let names = shipped(&to, &captures);
    let config = ExpireConfig {
        older_than: Some(Duration::from_secs(86_400)),
        keep: vec!["90d tcp port 25".parse().unwrap()],
        ..ExpireConfig::default()
    };
    // It has read the holds before it reports the first segment.
    let mut report = |event: Verdict<'_>| match event {
        Verdict::Stays(key, ..) if names[key] == "mail" => {
            ok(run(&["hold", &to, "late", "host", "10.0.0.2"]));
        }
        Verdict::Failed(error) => panic!("{error:#}"),
        _ => {}
    };
    let archive = Archive::open(&to, false).unwrap();
    let done = runtime().block_on(expire(&archive, &config, &mut report));
    let done = done.unwrap();
    assert_eq!((done.segments, done.held), (1, 1));
    assert_eq!(left(&to, &names), ["mail", "one"]);
    assert_counts(&status(&to)[0], [("expired", 1), ("indexed", 2)]);
}
