//! An archive that commit 9004578 has written, with its checkpoints, expired records and spools. `scripts/old-archive --keep` has made it.

use super::common::{
    age, captured, files_below, json_of, now_s, ok, places, run, ship_as, status, times,
};
use forebay_testing::folder::Folder;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const SENSORS: [&str; 2] = ["hall", "yard"];
/// The days before this one have expired, of 12 from 2026-11-01 on.
const EXPIRED: usize = 2;
/// The first day that stays in the end.
const LATER: usize = 5;

/// The archive, its captures by sensor and day, and what is expected of it.
fn unpacked(folder: &Folder) -> (String, Vec<Vec<PathBuf>>, Value) {
    let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/9004578.tar.gz");
    let mut tar = Command::new("tar");
    let done = tar.args(["-xzf", packed, "-C", &folder.path("")]).status();
    assert!(done.unwrap().success());
    let captures = SENSORS.map(|it| files_below(folder.path(&format!("captures/{it}"))));
    let expected = fs::read(folder.path("expected.json")).unwrap();
    let expected = serde_json::from_slice(&expected).unwrap();
    (folder.path("archive"), captures.into(), expected)
}

/// The times of the packets of these captures, in order.
fn times_of(captures: &[Vec<PathBuf>], days: std::ops::RangeFrom<usize>) -> Vec<u64> {
    let kept = captures.iter().flat_map(|it| &it[days.clone()]);
    let mut all: Vec<u64> = kept.flat_map(|it| times(it)).collect();
    all.sort_unstable();
    all
}

/// The times of all packets of an archive.
fn found(folder: &Folder, archive: &str) -> Vec<u64> {
    let path = folder.path("found.pcapng");
    ok(run(&["find", "--in", archive, "-w", &path]));
    times(Path::new(&path))
}

fn sum(archive: &str, name: &str) -> u64 {
    let sensors = status(archive);
    sensors.iter().map(|it| it[name].as_u64().unwrap()).sum()
}

#[test]
fn an_archive_of_an_early_version_is_searched_shipped_to_compacted_expired_and_rebuilt() {
    let (folder, _, _) = places();
    let (to, captures, expected) = unpacked(&folder);
    let log = files_below(format!("{to}/index/_delta_log"));
    let is_checkpoint = |it: &&PathBuf| it.extension().is_some_and(|it| it == "parquet");
    assert!(log.iter().filter(is_checkpoint).count() > 0);

    // What tcpdump found in its segments, and what its own `status` counted.
    let searches = expected["found"].as_object().unwrap();
    for (expression, packets) in searches {
        let mut find = vec!["find", "--in", &to, "--count", "--json", expression];
        find.retain(|it| !it.is_empty());
        assert_eq!(json_of(run(&find))["packets"], *packets, "{expression}");
    }
    for sensor in status(&to) {
        let counts = expected["status"][sensor["sensor"].as_str().unwrap()].as_object();
        for (name, count) in counts.unwrap() {
            assert_eq!(sensor[name], *count, "{name}: {sensor}");
        }
    }
    let kept = times_of(&captures, EXPIRED..);
    assert_eq!(found(&folder, &to), kept);
    let before = times_of(&captures, 0..).len() as u64;

    // Files that are in it, a file that has expired, and a new one, from the spools that the early version has left.
    for (sensor, files) in SENSORS.iter().zip(&captures) {
        let spool = folder.path(sensor);
        for day in [0, EXPIRED, files.len() - 1] {
            let name = files[day].file_name().unwrap().to_str().unwrap();
            fs::copy(&files[day], format!("{spool}/again-{name}")).unwrap();
        }
        captured(&folder, &format!("{sensor}/new.pcapng"), "count=50,seed=9");
        ok(ship_as(sensor, &spool, &to, &[]));
    }
    let all = before + 100;
    let gone = before - kept.len() as u64;
    let check = |gone: u64| {
        assert_eq!(found(&folder, &to).len() as u64, all - gone);
        let counts = ["captured", "expired", "indexed"].map(|it| sum(&to, it));
        assert_eq!(counts, [all, gone, all - gone]);
    };
    check(gone);

    // Records of single segments are merged.
    ok(run(&["compact", &to, "--vacuum", "1d"]));
    check(gone);
    let records = files_below(format!("{to}/sensors"));
    let is_single = |it: &PathBuf| it.to_str().unwrap().contains("/expired-");
    assert!(!records.iter().any(is_single), "{records:?}");

    // The new files have packets of 2023, and go, too.
    age(&to);
    let cutoff = times_of(&captures, LATER..)[0] / 1_000_000_000 - 3600;
    let older = format!("{}s", now_s() - cutoff);
    ok(run(&["expire", &to, "--older-than", &older]));
    let gone = all - times_of(&captures, LATER..).len() as u64;
    check(gone);
    fs::rename(format!("{to}/index"), folder.path("index")).unwrap();
    ok(run(&["rebuild", &to]));
    check(gone);
    assert_eq!(found(&folder, &to), times_of(&captures, LATER..));
}
