//! `ship`, `status` and `rebuild` as their users run them, on archives in local folders.

mod common;
#[path = "ship/faults.rs"]
mod faults;
#[path = "ship/metrics.rs"]
mod metrics;

use common::{
    age, archive, captured, captures, last_json, pcap, run, segments, ship, spool, status,
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
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captured(&folder, "spool/a.pcapng", "count=3000,size=imix");
    captured(&folder, "spool/b.pcapng.zst", "count=2000,seed=2");
    captured(&folder, "spool/c.pcap.gz", "count=1000,seed=3");
    fs::write(folder.path("spool/notes.txt"), "no capture").unwrap();
    let again = fs::read(folder.path("spool/a.pcapng")).unwrap();
    let (code, out, err) = ship(&spool, &to, &["--json"]);
    assert_eq!(code, 0, "{err}");
    let counts = last_json(&out);
    assert_eq!(
        (&counts["shipped_files"], &counts["shipped_packets"]),
        (&3.into(), &6000.into())
    );
    assert_eq!(names(&spool), ["notes.txt"]);
    let sensors = status(&to);
    assert_eq!(
        (&sensors[0]["captured"], &sensors[0]["indexed"]),
        (&6000.into(), &6000.into())
    );
    // The same file again, under another name: the archive has it.
    fs::write(folder.path("spool/other.pcapng"), again).unwrap();
    let (_, out, _) = ship(&spool, &to, &["--json"]);
    assert_eq!(last_json(&out)["repeated_files"], 1);
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
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    for (name, seed) in [("a.pcapng.part", 1), ("torn.pcapng", 2)] {
        let path = captured(&folder, "whole.pcapng", &format!("count=100,seed={seed}"));
        let whole = fs::read(&path).unwrap();
        fs::write(format!("{spool}/{name}"), &whole[..whole.len() - 200]).unwrap();
    }
    fs::write(format!("{spool}/garbage.pcapng"), [7; 500]).unwrap();
    // A capture still writes this one.
    let mut open = File::create(format!("{spool}/open.pcapng.part")).unwrap();
    open.write_all(&fs::read(folder.path("whole.pcapng")).unwrap())
        .unwrap();
    forebay::store::lock_output(&open).unwrap();
    // A capture may have created this one and not locked it yet. The other one is older.
    File::create(format!("{spool}/new.pcapng.part")).unwrap();
    let old = File::create(format!("{spool}/old.pcapng.part")).unwrap();
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    // The first pass repairs, the second one ships.
    let (code, _, err) = ship(&spool, &to, &[]);
    assert_eq!(code, 0, "{err}");
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
    for (name, expected) in [("one", 0), ("two", 1)] {
        fs::create_dir_all(folder.path(name)).unwrap();
        captured(&folder, &format!("{name}/a.pcapng"), "count=10");
        let (code, _, err) = ship(&folder.path(name), &to, &[]);
        assert_eq!(code, expected, "{err}");
        assert!(
            code == 0 || err.contains("the name hall belongs to the spool"),
            "{err}"
        );
    }
    assert_eq!(names(&folder.path("two")), ["a.pcapng"], "nothing is lost");
    let one = folder.path("one");
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
    let (code, _, err) = ship(&one, &to, &[]);
    assert!(
        code == 1 && err.contains("another `ship` works on this spool"),
        "{err}"
    );
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
    let (code, _, err) = ship(&nowhere, &to, &[]);
    assert!(code == 1 && err.contains("opening the spool"), "{err}");
    assert!(!fs::exists(&to).unwrap(), "no archive was made");
    let spool = spool(&folder);
    captured(&folder, "spool/a.pcapng", "count=10,seed=1");
    assert_eq!(ship(&spool, &to, &[]).0, 0);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let done = archive(&["status", &to]).stdout(full).output().unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(
        err.contains("writing to standard output: No space"),
        "{err}"
    );
}

#[test]
fn a_full_spool_loses_its_oldest_files_only_if_asked_and_they_are_counted() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captures(&folder, 1..=3, 1000);
    let size = fs::metadata(format!("{spool}/3.pcapng")).unwrap().len();
    let limit = format!("{}B", 2 * size + 1000);
    let (code, out, err) = ship(
        &spool,
        &to,
        &[
            "--json",
            "--spool-limit",
            &limit,
            "--when-full",
            "drop-oldest",
        ],
    );
    assert_eq!(code, 0, "{err}");
    let counts = last_json(&out);
    assert_eq!(
        (&counts["dropped_packets"], &counts["shipped_packets"]),
        (&1000.into(), &2000.into()),
        "{out}"
    );
    let sensors = status(&to);
    assert_eq!(
        (&sensors[0]["dropped"], &sensors[0]["captured"]),
        (&1000.into(), &3000.into())
    );
    assert!(names(&format!("{spool}/dropped")).is_empty());
}

#[test]
fn an_index_that_is_gone_is_rebuilt_and_damage_is_reported() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captures(&folder, 1..=3, 2000);
    ship(&spool, &to, &[]);
    let before = status(&to);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    // Young segments without rows may be on their way.
    let young = &status(&to)[0];
    assert_eq!(
        (&young["in_flight"], &young["indexed"]),
        (&3.into(), &0.into())
    );
    age(&to);
    let (code, out, _) = run(&["status", &to]);
    assert!(
        code == 1 && out.contains("run `forebay-archive rebuild`"),
        "{out}"
    );
    let (code, out, err) = run(&["rebuild", &to, "--json"]);
    assert_eq!((code, &last_json(&out)["added"]), (0, &3.into()), "{err}");
    assert_eq!(status(&to), before);
    assert_eq!(last_json(&run(&["rebuild", &to, "--json"]).1)["added"], 0);
    // One byte of one segment.
    let segments = segments(&to);
    let mut bytes = fs::read(&segments[0]).unwrap();
    bytes[1000] ^= 1;
    fs::write(&segments[0], bytes).unwrap();
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    let (code, out, err) = run(&["rebuild", &to, "--json"]);
    assert_eq!((code, &last_json(&out)["added"]), (1, &2.into()));
    assert!(err.contains("is damaged"), "{err}");
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often.
#[test]
fn a_ship_that_is_killed_anywhere_loses_nothing_and_doubles_nothing() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    let kills = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(12, |it| it.parse().unwrap());
    let mut dice = Dice(27);
    let mut packets = 0;
    for round in 0..kills {
        let count = 500 + 10 * round;
        captured(
            &folder,
            &format!("spool/{round}.pcapng"),
            &format!("count={count},seed={round}"),
        );
        packets += count;
        let mut child = archive(&["ship", &spool, &to, "--sensor", "hall"]);
        let mut child = child
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(dice.below(400)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (code, _, err) = ship(&spool, &to, &[]);
    assert_eq!(code, 0, "{err}");
    assert!(names(&spool).is_empty(), "{:?}", names(&spool));
    let sensor = &status(&to)[0];
    assert_eq!(
        (&sensor["segments"], &sensor["captured"]),
        (&kills.into(), &packets.into())
    );
    assert_eq!(
        (&sensor["shipped"], &sensor["indexed"]),
        (&packets.into(), &packets.into())
    );
}

#[test]
fn a_table_of_a_newer_version_is_refused_with_advice_and_nothing_is_lost() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captured(&folder, "spool/a.pcapng", "count=10");
    ship(&spool, &to, &[]);
    let newer = r#"{"protocol":{"minReaderVersion":99,"minWriterVersion":99}}"#;
    fs::write(
        format!("{to}/index/_delta_log/00000000000000000002.json"),
        newer,
    )
    .unwrap();
    captured(&folder, "spool/b.pcapng", "count=10,seed=2");
    let (code, _, err) = ship(&spool, &to, &[]);
    assert_eq!(code, 1);
    assert!(err.contains("install a newer forebay-archive"), "{err}");
    assert_eq!(names(&spool), ["b.pcapng"]);
}

#[test]
fn old_segments_expire_with_their_rows_and_stay_counted() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    // The simulated card begins in 2020.
    captures(&folder, 1..=3, 1000);
    ship(&spool, &to, &[]);
    let (code, _, err) = run(&["expire", &to]);
    assert!(code == 2 && err.contains("--older-than"), "{err}");
    let (code, out, _) = run(&["expire", &to, "--older-than", "30000d", "--json"]);
    assert_eq!((code, &last_json(&out)["segments"]), (0, &0.into()));
    let (_, out, _) = run(&["expire", &to, "--max", "1B", "-n", "--json"]);
    assert_eq!(last_json(&out)["packets"], 3000);
    let before = status(&to);
    assert_eq!(
        (&before[0]["segments"], &before[0]["expired"]),
        (&3.into(), &0.into())
    );
    let keep = before[0]["stored_bytes"].as_u64().unwrap() / 2;
    let (code, out, err) = run(&["expire", &to, "--max", &format!("{keep}B"), "--json"]);
    assert_eq!(code, 0, "{err}");
    let removed = last_json(&out)["packets"].as_u64().unwrap();
    assert_eq!(removed, 2000);
    let after = status(&to);
    assert_eq!(
        (&after[0]["captured"], &after[0]["expired"]),
        (&3000.into(), &2000.into())
    );
    assert_eq!(
        (&after[0]["indexed"], &after[0]["shipped"]),
        (&1000.into(), &1000.into())
    );
    run(&["expire", &to, "--older-than", "1d"]);
    let after = status(&to);
    assert_eq!(
        (&after[0]["captured"], &after[0]["expired"]),
        (&3000.into(), &3000.into())
    );
    assert_eq!(
        (&after[0]["indexed"], &after[0]["segments"]),
        (&0.into(), &0.into())
    );
    // A capture that is put back is neither stored again nor deleted. The number is that of a capture whose name was taken.
    let again = captured(&folder, "1.pcapng", "count=1000,seed=1");
    fs::rename(again, format!("{spool}/a.pcapng.1")).unwrap();
    let (code, _, err) = ship(&spool, &to, &[]);
    assert!(code == 0 && err.contains("was removed from there"), "{err}");
    assert_eq!(names(&format!("{spool}/failed")), ["a.pcapng.1"]);
    // Nor is it if the index was built again meanwhile, and does not know it any more.
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    run(&["rebuild", &to]);
    fs::rename(
        format!("{spool}/failed/a.pcapng.1"),
        format!("{spool}/a.pcapng.2"),
    )
    .unwrap();
    let (code, _, err) = ship(&spool, &to, &[]);
    assert!(code == 0 && err.contains("was removed from there"), "{err}");
    assert_eq!(names(&format!("{spool}/failed")), ["a.pcapng.2"]);
}

/// `FOREBAY_ARCHIVE_KILLS` sets how often.
#[test]
fn an_expire_that_is_killed_anywhere_keeps_the_counts_and_leaves_no_row_without_packets() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    let kills: u64 = std::env::var("FOREBAY_ARCHIVE_KILLS").map_or(6, |it| it.parse().unwrap());
    captures(&folder, 0..kills + 2, 500);
    ship(&spool, &to, &[]);
    let whole = status(&to)[0].clone();
    let mut dice = Dice(28);
    for kill in 0..kills {
        let keep = whole["stored_bytes"].as_u64().unwrap() * (kills - kill) / (kills + 2);
        let mut child = archive(&["expire", &to, "--max", &format!("{keep}B")]);
        let mut child = child
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(dice.below(250)));
        child.kill().unwrap();
        child.wait().unwrap();
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
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    let path = captured(&folder, "a.pcapng", "count=1000");
    let again = |flags: &[&str]| {
        fs::copy(&path, format!("{spool}/a.pcapng")).unwrap();
        let (code, _, err) = ship(&spool, &to, flags);
        assert_eq!(code, 0, "{err}");
        assert!(names(&spool).is_empty());
        let sensor = status(&to).remove(0);
        let counts = ["segments", "captured", "indexed"].map(|it| sensor[it].as_u64().unwrap());
        assert_eq!(counts, [1, 1000, 1000]);
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
    let (code, out, _) = run(&["status", &to, "--spool", &waits, "--json"]);
    let sensor = last_json(&out);
    assert_eq!(
        (code, &sensor["waiting"], &sensor["captured"]),
        (0, &0.into(), &1000.into())
    );
}

#[test]
fn packets_of_zeros_are_rebuilt_and_a_segment_under_a_wrong_key_is_damaged() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    // A record without bytes in 1970: nothing but zeros.
    let bytes = pcap(&[(1, &[7; 60]), (0, &[]), (0, &[]), (2, &[8; 60])]);
    fs::write(format!("{spool}/a.pcap"), bytes).unwrap();
    let (code, _, err) = ship(&spool, &to, &[]);
    assert_eq!(code, 0, "{err}");
    let before = status(&to);
    assert_eq!(before[0]["shipped"], 4);
    // The sensor had no clock, so the segment is as old as its object.
    let (_, out, _) = run(&["expire", &to, "--older-than", "1d", "--json"]);
    assert_eq!(last_json(&out)["segments"], 0);
    fs::remove_dir_all(format!("{to}/index")).unwrap();
    let (code, _, err) = run(&["rebuild", &to]);
    assert_eq!(code, 0, "{err}");
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
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captures(&folder, 1..=3, 100);
    assert_eq!(ship(&spool, &to, &[]).0, 0);
    let removed = segments(&to).split_off(1);
    let name = removed[0].file_name().unwrap().to_str().unwrap();
    let record = format!("{to}/sensors/hall/expired-{}.json", &name[..64]);
    fs::write(record, r#"{"schema": 1, "packets": 100}"#).unwrap();
    for path in &removed {
        fs::remove_file(path).unwrap();
    }
    let (code, out, _) = run(&["status", &to]);
    let reported = "which is missing: run `forebay-archive rebuild`";
    assert_eq!((code, out.matches(reported).count()), (1, 2), "{out}");
    for expected in [2, 0] {
        let (code, out, err) = run(&["rebuild", &to, "--json"]);
        let done = last_json(&out);
        assert_eq!(
            (code, &done["removed"], &done["added"]),
            (0, &expected.into(), &0.into()),
            "{err}"
        );
    }
    let sensor = &status(&to)[0];
    let counts = ["indexed", "shipped", "expired"].map(|it| sensor[it].as_u64().unwrap());
    assert_eq!(counts, [100; 3]);
}

/// As if `ship` had been killed directly after it had added the rows of a segment that `expire` was removing.
#[test]
fn rows_of_an_expired_segment_are_removed_when_its_file_is_shipped_again() {
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captures(&folder, 1..=2, 100);
    assert_eq!(ship(&spool, &to, &["--keep-local", "1G"]).0, 0);
    let removed = segments(&to).remove(0);
    let name = removed.file_name().unwrap().to_str().unwrap();
    let record = format!("{to}/sensors/hall/expired-{}.json", &name[..64]);
    fs::write(record, r#"{"schema": 1, "packets": 100}"#).unwrap();
    fs::remove_file(&removed).unwrap();
    assert_eq!(run(&["status", &to]).0, 1);
    for name in names(&format!("{spool}/shipped")) {
        fs::rename(format!("{spool}/shipped/{name}"), format!("{spool}/{name}")).unwrap();
    }
    let (code, _, err) = ship(&spool, &to, &[]);
    assert!(code == 0 && err.contains("was removed from there"), "{err}");
    let sensor = &status(&to)[0];
    let counts = ["indexed", "shipped", "expired"].map(|it| sensor[it].as_u64().unwrap());
    assert_eq!(counts, [100; 3]);
}

/// A second sync after a failed one succeeds and means nothing. So nothing may have its name before its bytes are synced.
#[test]
fn a_failed_sync_leaves_nothing_in_the_archive_that_looks_complete() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is not installed");
        return;
    }
    let folder = Folder::new();
    let (spool, to) = (spool(&folder), folder.path("to"));
    captured(&folder, "a.pcapng", "count=100");
    // Each of the first syncs fails once, until a run needs no more of them.
    for number in 1..200 {
        let _ = fs::remove_dir_all(&to);
        fs::copy(folder.path("a.pcapng"), format!("{spool}/a.pcapng")).unwrap();
        let trace = folder.path("trace");
        let inject = format!("inject=fsync:error=EIO:when={number}");
        let ship = archive(&["ship", &spool, &to, "--sensor", "hall", "--once"]);
        let mut traced = Command::new("strace");
        traced.args([
            "-f",
            "-y",
            "-qq",
            "-o",
            &trace,
            "-e",
            "trace=fsync,link,linkat,rename",
        ]);
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
