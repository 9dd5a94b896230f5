//! A backup of the index, as docs/archive-operate.md describes it.

use crate::common::{
    age, archive, assert_counts, captured, files_below, json_of, ok, places, run, segments,
    servers::Running, status,
};
use std::{fs, path::Path, time::Duration};

/// Copies the log first, so that it names no file that is not in the copy.
fn copy(from: &str, to: &str) {
    let mut files = files_below(from);
    files.sort_by_key(|it| !it.to_string_lossy().contains("_delta_log"));
    for path in files {
        let name = path.strip_prefix(from).unwrap();
        let to = Path::new(to).join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

#[test]
fn an_old_backup_of_the_index_is_restored_while_sensors_go_on_and_rebuild_completes_it() {
    let (folder, spool, to) = places();
    let (index, backup) = (format!("{to}/index"), folder.path("backup"));
    let mut ship = Running::start(&mut archive(&["ship", &spool, &to, "--sensor", "hall"]));
    let shipped = |seeds: std::ops::Range<u64>| {
        for seed in seeds {
            // Only whole files appear in the spool.
            let path = captured(&folder, "whole.pcapng", &format!("count=100,seed={seed}"));
            fs::rename(path, format!("{spool}/{seed}.pcapng")).unwrap();
        }
        while files_below(&spool)
            .iter()
            .any(|it| it.extension().is_some_and(|it| it == "pcapng"))
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    shipped(0..3);
    copy(&index, &backup);
    // After the backup, segments are added, merged and removed.
    shipped(3..6);
    ok(run(&["compact", &to]));
    let sizes = segments(&to)
        .into_iter()
        .map(|it| fs::metadata(it).unwrap().len());
    let sizes: Vec<u64> = sizes.collect();
    let limit = sizes.iter().sum::<u64>() - 1;
    let expired = run(&["expire", &to, "--max", &format!("{limit}B"), "--json"]);
    assert_eq!(json_of(expired)["segments"], 1);
    // The index is lost, and the old one comes back. `ship` runs all the time.
    fs::rename(&index, folder.path("lost")).unwrap();
    copy(&backup, &index);
    shipped(6..8);
    age(&to);
    // The rows of the segments between the backup and now are missing.
    assert_eq!(run(&["status", &to]).0, 1);
    ok(run(&["rebuild", &to]));
    shipped(8..9);
    assert_eq!(ship.end("-TERM"), Some(0));
    let sensor = &status(&to)[0];
    assert_counts(
        sensor,
        [("segments", 8), ("captured", 900), ("expired", 100)],
    );
    assert_counts(sensor, [("shipped", 800), ("indexed", 800)]);
    let found = ok(run(&["find", "--in", &to, "--count", "len > 0"]));
    assert_eq!(found.trim(), "800");
    assert_eq!(json_of(run(&["rebuild", &to, "--json"]))["added"], 0);
}
