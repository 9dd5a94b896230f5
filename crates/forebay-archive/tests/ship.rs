//! `ship`, `status` and `rebuild` as their users run them, on archives in local folders.

#[path = "ship/backup.rs"]
mod backup;
mod common;
#[path = "ship/faults.rs"]
mod faults;
#[path = "ship/full.rs"]
mod full;
#[path = "ship/metrics.rs"]
mod metrics;
#[path = "ship/spools.rs"]
mod spools;
#[path = "ship/units.rs"]
mod units;

use common::{
    age, archive, assert_counts, captured, captures, damage, done, expire_segment, json_of,
    last_json, lock, ok, pcap, places, reports, run, run_and_kill, segments, set_age, ship,
    ship_as, spool, status,
};
use forebay_testing::{dice::Dice, folder::Folder};
use std::{
    fs::{self, File},
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

/// The names of the files of a folder that are not hidden.
fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|it| !it.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn finished_files_go_to_the_archive_once_and_the_spool_is_freed() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=3000,size=imix");
    captured(&folder, "spool/b.pcapng.zst", "count=2000,seed=2");
    captured(&folder, "spool/c.pcap.gz", "count=1000,seed=3");
    fs::write(folder.path("spool/notes.txt"), "no capture").unwrap();
    let again = fs::read(folder.path("spool/a.pcapng")).unwrap();
    let counts = json_of(ship(&spool, &to, &["--json"]));
    assert_counts(&counts, [("shipped_files", 3), ("shipped_packets", 6000)]);
    assert_eq!(names(&spool), ["notes.txt"]);
    assert_counts(&status(&to)[0], [("captured", 6000), ("indexed", 6000)]);
    // The same file again, under another name: the archive has it.
    fs::write(folder.path("spool/other.pcapng"), again).unwrap();
    let counts = json_of(ship(&spool, &to, &["--json"]));
    assert_eq!(counts["repeated_files"], 1);
    assert_eq!(status(&to)[0]["indexed"], 6000);
    // Shipped files can stay for a while.
    captured(&folder, "spool/d.pcapng", "count=10,seed=4");
    ship(&spool, &to, &["--keep-local", "2h"]);
    assert_eq!(names(&format!("{spool}/shipped")), ["d.pcapng"]);
    ship(&spool, &to, &["--keep-local", "1B"]);
    assert!(names(&format!("{spool}/shipped")).is_empty());
}

#[test]
fn what_a_killed_capture_left_is_cut_to_what_is_whole_and_garbage_is_put_aside() {
    let (folder, spool, to) = places();
    for (name, seed) in [("a.pcapng.part", 1), ("torn.pcapng", 2)] {
        let _ = fs::remove_file(folder.path("whole.pcapng"));
        let path = captured(&folder, "whole.pcapng", &format!("count=100,seed={seed}"));
        let whole = fs::read(&path).unwrap();
        fs::write(format!("{spool}/{name}"), &whole[..whole.len() - 200]).unwrap();
    }
    fs::write(format!("{spool}/garbage.pcapng"), [7; 500]).unwrap();
    // A capture still writes this one.
    let mut open = File::create(format!("{spool}/open.pcapng.part")).unwrap();
    open.write_all(&fs::read(folder.path("whole.pcapng")).unwrap())
        .unwrap();
    lock(&open);
    // A capture may have created this one and not locked it yet. The other one is older.
    File::create(format!("{spool}/new.pcapng.part")).unwrap();
    File::create(format!("{spool}/old.pcapng.part")).unwrap();
    set_age(format!("{spool}/old.pcapng.part"), 60);
    // The first pass repairs, the second one ships.
    ok(ship(&spool, &to, &[]));
    let left = names(&spool);
    assert_eq!(
        left,
        [
            "a.pcapng.part.cut",
            "failed",
            "new.pcapng.part",
            "open.pcapng.part",
            "torn.pcapng.cut"
        ],
        "{left:?}"
    );
    assert_eq!(names(&format!("{spool}/failed")), ["garbage.pcapng"]);
    let sensors = status(&to);
    assert!(sensors[0]["shipped"].as_u64().unwrap() >= 190);
}

#[test]
fn two_spools_cannot_ship_as_one_sensor_and_one_spool_has_one_ship() {
    let folder = Folder::new();
    let to = folder.path("to");
    let [one, two] = ["one", "two"].map(|name| spool(&folder, name));
    captured(&folder, "one/a.pcapng", "count=10");
    captured(&folder, "two/a.pcapng", "count=10");
    ok(ship(&one, &to, &[]));
    let refused = ship(&two, &to, &[]);
    let err = reports(refused, 1, "the name hall belongs to the spool");
    assert!(!err.contains(".forebay-ship"), "{err}");
    let left: Vec<_> = fs::read_dir(&two).unwrap().collect();
    assert_eq!(
        left.len(),
        1,
        "nothing is lost, and nothing is left: {left:?}"
    );
    // What the error proposes works.
    ok(ship_as("lab", &two, &to, &["--keep-local", "1G"]));
    // A spool that has shipped is bound, and each error has another way out.
    reports(ship(&two, &to, &[]), 1, "use --sensor lab");
    ok(ship(&one, &folder.path("other"), &[]));
    let elsewhere = ship_as("lab", &spool(&folder, "three"), &folder.path("other"), &[]);
    ok(elsewhere);
    let refused = ship_as("lab", &two, &folder.path("other"), &[]);
    reports(refused, 1, "two/.forebay-ship and choose another name");
    // A name that cannot be meant leaves neither.
    reports(
        ship_as("a/b", &two, &folder.path("none"), &[]),
        2,
        "cannot be the name",
    );
    assert!(!fs::exists(folder.path("none")).unwrap());
    let mut first = archive(&["ship", &one, &to, "--sensor", "hall"]);
    let mut first = first
        .stderr(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It works on the spool when it has shipped this file.
    captured(&folder, "one/b.pcapng", "count=10,seed=2");
    while fs::exists(folder.path("one/b.pcapng")).unwrap() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = ship(&one, &to, &[]);
    reports(second, 1, "another `ship` works on this spool");
    let ended = Command::new("kill").arg(first.id().to_string()).status();
    assert!(ended.unwrap().success());
    assert_eq!(
        first.wait().unwrap().code(),
        Some(0),
        "ended by a signal, with counts"
    );
}

#[test]
fn a_wrong_name_of_the_spool_leaves_no_archive_and_a_full_disk_is_named() {
    let folder = Folder::new();
    let (nowhere, to) = (folder.path("nowhere"), folder.path("to"));
    reports(ship(&nowhere, &to, &[]), 1, "opening the spool");
    assert!(!fs::exists(&to).unwrap(), "no archive was made");
    let spool = spool(&folder, "spool");
    captured(&folder, "spool/a.pcapng", "count=10,seed=1");
    ok(ship(&spool, &to, &[]));
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = archive(&["status", &to]).stdout(full).output().unwrap();
    let expected = "writing to standard output: No space";
    reports(done(status), 1, expected);
}

#[test]
fn a_full_spool_loses_its_oldest_files_only_if_asked_and_they_are_counted() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=3, 1000);
    let size = fs::metadata(format!("{spool}/3.pcapng")).unwrap().len();
    let limit = format!("{}B", 2 * size + 1000);
    let limit = ["--spool-limit", &limit, "--when-full", "drop-oldest"];
    let counts = json_of(ship(&spool, &to, &[&limit[..], &["--json"]].concat()));
    assert_counts(&counts, [("dropped_packets", 1000)]);
    assert_counts(&counts, [("shipped_packets", 2000)]);
    assert_counts(&status(&to)[0], [("dropped", 1000), ("captured", 3000)]);
    assert!(names(&format!("{spool}/dropped")).is_empty());
}

#[test]
fn an_index_that_is_gone_is_rebuilt_and_damage_is_reported() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=3, 2000);
    ship(&spool, &to, &[]);
    let before = status(&to);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    // Young segments without rows may be on their way.
    assert_counts(&status(&to)[0], [("in_flight", 3), ("indexed", 0)]);
    age(&to);
    let (code, out, _) = run(&["status", &to]);
    assert!(
        code == 1 && out.contains("run `forebay-archive rebuild`"),
        "{out}"
    );
    let rebuild = || run(&["rebuild", &to, "--json"]);
    assert_eq!(json_of(rebuild())["added"], 3);
    assert_eq!(status(&to), before);
    assert_eq!(json_of(rebuild())["added"], 0);
    damage(&segments(&to)[0]);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    let (code, out, err) = rebuild();
    assert_eq!((code, &last_json(&out)["added"]), (1, &2.into()));
    assert!(err.contains("is damaged"), "{err}");
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often.
#[test]
fn a_ship_that_is_killed_anywhere_loses_nothing_and_doubles_nothing() {
    let (folder, spool, to) = places();
    let kills = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(12, |it| it.parse().unwrap());
    let mut dice = Dice(27);
    let mut packets = 0;
    for round in 0..kills {
        let count = 500 + 10 * round;
        let card = format!("count={count},seed={round}");
        captured(&folder, &format!("spool/{round}.pcapng"), &card);
        packets += count;
        let ship = ["ship", &spool, &to, "--sensor", "hall"];
        run_and_kill(&ship, dice.below(400));
    }
    ok(ship(&spool, &to, &[]));
    assert!(names(&spool).is_empty(), "{:?}", names(&spool));
    let sensor = &status(&to)[0];
    assert_counts(sensor, [("segments", kills), ("captured", packets)]);
    assert_counts(sensor, [("shipped", packets), ("indexed", packets)]);
}

#[test]
fn a_table_of_a_newer_version_is_refused_with_advice_and_nothing_is_lost() {
    let (folder, spool, to) = places();
    captured(&folder, "spool/a.pcapng", "count=10");
    ship(&spool, &to, &[]);
    let newer = r#"{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}"#;
    let commit = format!("{to}/index/_delta_log/00000000000000000002.json");
    fs::write(commit, newer).unwrap();
    captured(&folder, "spool/b.pcapng", "count=10,seed=2");
    let refused = ship(&spool, &to, &[]);
    reports(refused, 1, "Install a newer forebay-archive");
    assert_eq!(names(&spool), ["b.pcapng"]);
}

#[test]
fn old_segments_expire_with_their_rows_and_stay_counted() {
    let (folder, spool, to) = places();
    // The simulated card begins in 2020.
    captures(&folder, 1..=3, 1000);
    ship(&spool, &to, &[]);
    reports(run(&["expire", &to]), 2, "--older-than");
    let expire = |args: &[&str]| json_of(run(&[&["expire", &to, "--json"], args].concat()));
    assert_eq!(expire(&["--older-than", "30000d"])["segments"], 0);
    assert_eq!(expire(&["--max", "1B", "-n"])["packets"], 3000);
    let before = status(&to);
    assert_counts(&before[0], [("segments", 3), ("expired", 0)]);
    let keep = before[0]["stored_bytes"].as_u64().unwrap() / 2;
    assert_eq!(expire(&["--max", &format!("{keep}B")])["packets"], 2000);
    let after = status(&to);
    assert_counts(&after[0], [("captured", 3000), ("expired", 2000)]);
    assert_counts(&after[0], [("indexed", 1000), ("shipped", 1000)]);
    expire(&["--older-than", "1d"]);
    let after = status(&to);
    assert_counts(&after[0], [("captured", 3000), ("expired", 3000)]);
    assert_counts(&after[0], [("indexed", 0), ("segments", 0)]);
    // A capture that is put back is neither stored again nor deleted. The number is that of a capture whose name was taken.
    let again = captured(&folder, "1.pcapng", "count=1000,seed=1");
    fs::rename(again, format!("{spool}/a.pcapng.1")).unwrap();
    reports(ship(&spool, &to, &[]), 0, "was removed from there");
    assert_eq!(names(&format!("{spool}/failed")), ["a.pcapng.1"]);
    // Nor is it if the index was built again meanwhile, and does not know it any more.
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    run(&["rebuild", &to]);
    fs::rename(
        format!("{spool}/failed/a.pcapng.1"),
        format!("{spool}/a.pcapng.2"),
    )
    .unwrap();
    reports(ship(&spool, &to, &[]), 0, "was removed from there");
    assert_eq!(names(&format!("{spool}/failed")), ["a.pcapng.2"]);
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often.
#[test]
fn an_expire_that_is_killed_anywhere_keeps_the_counts_and_leaves_no_row_without_packets() {
    let (folder, spool, to) = places();
    let kills: u64 = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(6, |it| it.parse().unwrap());
    captures(&folder, 0..kills + 2, 500);
    ship(&spool, &to, &[]);
    let whole = status(&to)[0].clone();
    let mut dice = Dice(28);
    for kill in 0..kills {
        let keep = whole["stored_bytes"].as_u64().unwrap() * (kills - kill) / (kills + 2);
        let expire = ["expire", &to, "--max", &format!("{keep}B")];
        run_and_kill(&expire, dice.below(250));
        assert_eq!(status(&to)[0]["captured"], whole["captured"]);
    }
    run(&["expire", &to, "--max", "0B"]);
    let end = &status(&to)[0];
    assert_eq!(
        (&end["expired"], &end["indexed"]),
        (&whole["captured"], &0.into())
    );
}

#[test]
fn a_file_is_stored_once_whatever_its_packing() {
    let (folder, spool, to) = places();
    let path = captured(&folder, "a.pcapng", "count=1000");
    let again = |flags: &[&str]| {
        fs::copy(&path, format!("{spool}/a.pcapng")).unwrap();
        ok(ship(&spool, &to, flags));
        assert!(names(&spool).is_empty());
        let sensor = &status(&to)[0];
        assert_counts(sensor, [("segments", 1), ("captured", 1000)]);
        assert_counts(sensor, [("indexed", 1000)]);
    };
    again(&[]);
    again(&["--no-compress"]);
    // As if an earlier run had been killed before its commit.
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    again(&["--no-compress"]);
    assert!(segments(&to)[0].to_string_lossy().ends_with(".zst"));
    // A file that is in the archive and was not removed yet does not wait.
    fs::copy(&path, format!("{spool}/a.pcapng")).unwrap();
    let waits = format!("hall={spool}");
    let sensor = json_of(run(&["status", &to, "--spool", &waits, "--json"]));
    assert_counts(&sensor, [("waiting", 0), ("captured", 1000)]);
}

#[test]
fn packets_of_zeros_are_rebuilt_and_a_segment_under_a_wrong_key_is_damaged() {
    let (_folder, spool, to) = places();
    // A record without bytes in 1970: nothing but zeros.
    let bytes = pcap(&[(1, &[7; 60]), (0, &[]), (0, &[]), (2, &[8; 60])]);
    fs::write(format!("{spool}/a.pcap"), bytes).unwrap();
    ok(ship(&spool, &to, &[]));
    let before = status(&to);
    assert_eq!(before[0]["shipped"], 4);
    // The sensor had no clock, so the segment is as old as its object.
    let expired = json_of(run(&["expire", &to, "--older-than", "1d", "--json"]));
    assert_eq!(expired["segments"], 0);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    ok(run(&["rebuild", &to]));
    assert_eq!(status(&to), before);
    let (code, out, err) = run(&["find", "--in", &to, "--count", "len <= 60"]);
    assert_eq!((code, out.trim()), (0, "4"), "{err}");
    let segment = segments(&to).remove(0);
    let name = format!("{}.pcap.zst", "ab".repeat(32));
    fs::rename(&segment, segment.with_file_name(name)).unwrap();
    let (code, out, _) = run(&["status", &to]);
    assert!(
        code == 1 && out.contains("that of another segment"),
        "{out}"
    );
}

/// As if `expire` had removed them while a program that was killed added their rows.
#[test]
fn rows_without_a_segment_are_reported_and_rebuild_removes_them() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=3, 100);
    ok(ship(&spool, &to, &[]));
    let removed = segments(&to).split_off(1);
    expire_segment(&to, &removed[0], 100);
    fs::remove_file(&removed[1]).unwrap();
    let (code, out, _) = run(&["status", &to]);
    let reported = "which is missing: run `forebay-archive rebuild`";
    assert_eq!((code, out.matches(reported).count()), (1, 2), "{out}");
    for expected in [2, 0] {
        let done = json_of(run(&["rebuild", &to, "--json"]));
        assert_counts(&done, [("removed", expected), ("added", 0)]);
    }
    assert!(
        run(&["status", &to])
            .1
            .contains(" was shipped and is GONE.")
    );
    ok(run(&["rebuild", &to, "--accept-missing"]));
    let names = ["indexed", "shipped", "expired", "vanished"];
    assert_counts(&status(&to)[0], names.map(|it| (it, 100)));
}

/// As if `ship` had been killed directly after it had added the rows of a segment that `expire` was removing.
#[test]
fn rows_of_an_expired_segment_are_removed_when_its_file_is_shipped_again() {
    let (folder, spool, to) = places();
    captures(&folder, 1..=2, 100);
    ok(ship(&spool, &to, &["--keep-local", "1G"]));
    expire_segment(&to, &segments(&to)[0], 100);
    assert_eq!(run(&["status", &to]).0, 1);
    for name in names(&format!("{spool}/shipped")) {
        fs::rename(format!("{spool}/shipped/{name}"), format!("{spool}/{name}")).unwrap();
    }
    reports(ship(&spool, &to, &[]), 0, "was removed from there");
    let names = ["indexed", "shipped", "expired"];
    assert_counts(&status(&to)[0], names.map(|it| (it, 100)));
}

/// A second sync after a failed one succeeds and means nothing. So nothing may have its name before its bytes are synced.
#[test]
fn a_failed_sync_leaves_nothing_in_the_archive_that_looks_complete() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let (folder, spool, to) = places();
    captured(&folder, "a.pcapng", "count=100");
    // Each of the first syncs fails once, until a run needs no more of them.
    for number in 1..200 {
        let _ = fs::remove_dir_all(&to);
        fs::copy(folder.path("a.pcapng"), format!("{spool}/a.pcapng")).unwrap();
        let trace = folder.path("trace");
        let inject = format!("inject=fsync:error=EIO:when={number}");
        let ship = archive(&["ship", &spool, &to, "--sensor", "hall", "--once"]);
        let calls = "trace=fsync,link,linkat,rename";
        let mut traced = Command::new("strace");
        traced.args(["-f", "-y", "-qq", "-o", &trace, "-e", calls]);
        let traced = traced.args(["-e", &inject]).arg(ship.get_program());
        let done = traced.args(ship.get_args()).output().unwrap();
        let trace = fs::read_to_string(&trace).unwrap();
        if trace.is_empty() {
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(why.contains("ptrace"), "{why}");
            eprintln!("skipped: strace may not trace here: {why}");
            return;
        }
        for named in trace
            .lines()
            .filter(|it| it.contains("link") || it.contains("rename("))
        {
            let source = named.split('"').nth(1).unwrap();
            let synced = trace.lines().take_while(|it| *it != named);
            let mut synced =
                synced.filter(|it| it.contains("fsync(") && it.contains(&format!("<{source}>")));
            assert!(
                source.contains("/dropped/") || synced.any(|it| it.ends_with("= 0")),
                "{number}: {named}\n{trace}"
            );
        }
        if !trace.contains("INJECTED") {
            assert!(number > 6 && done.status.success(), "only {number} syncs");
            return;
        }
        if done.status.success() {
            assert!(!fs::exists(format!("{spool}/a.pcapng")).unwrap());
        } else {
            assert_eq!(
                names(&spool),
                ["a.pcapng"],
                "the file waits for the next run"
            );
        }
    }
    panic!("the syncs have no end");
}
