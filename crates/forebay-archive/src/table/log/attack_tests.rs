//! Processes that were suspended, wrong clocks, and actions of other programs that look unlike ours.

use super::{
    tests::{actions, log, path, run},
    *,
};
use crate::archive::faulty::{Faulty, Put};
use forebay_testing::folder::Folder;
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

const DAYS_8: i64 = 8 * state::DAY_MS;

/// Commits the versions 4 to 30, and writes a checkpoint.
async fn commit_to_30(log: &mut Log) {
    for number in 4..=30 {
        let actions = actions(log, number);
        assert!(log.commit("WRITE", actions).await.unwrap());
    }
    log.write_checkpoint().await.unwrap();
}

#[test]
fn a_commit_to_a_version_that_was_cleaned_meanwhile_is_not_done() {
    let folder = Folder::new();
    let (archive, mut other) = log(&folder, 3);
    run(async {
        let mut suspended = Log::open(&archive).await.unwrap().unwrap();
        commit_to_30(&mut other).await;
        for version in 0..25 {
            fs::remove_file(path(&folder, &format!("{version:020}.json"))).unwrap();
        }
        suspended.read_ms -= 2 * SLOW_MS as i64;
        let late = actions(&suspended, 99);
        assert!(!suspended.commit("WRITE", late.clone()).await.unwrap());
        assert_eq!((suspended.version, &suspended.state), (30, &other.state));
        assert!(suspended.commit("WRITE", late).await.unwrap());
        // The commit was slow, and nobody has cleaned the log.
        suspended.read_ms -= 2 * SLOW_MS as i64;
        let late = actions(&suspended, 100);
        assert!(suspended.commit("WRITE", late).await.unwrap());
        let opened = Log::open(&archive).await.unwrap().unwrap();
        assert_eq!((opened.version, &opened.state), (32, &suspended.state));
    });
}

#[test]
fn a_refresh_next_to_cleaning_never_takes_an_old_version_for_the_newest() {
    let folder = Folder::new();
    let (archive, mut other) = log(&folder, 3);
    run(async {
        let mut idle = Log::open(&archive).await.unwrap().unwrap();
        commit_to_30(&mut other).await;
        // Between the two questions of a refresh, the newest commit that `idle` knows and the next one are deleted.
        let (gets, folder) = (AtomicU32::new(0), path(&folder, ""));
        let before_get = Arc::new(move |_: &str| {
            if gets.fetch_add(1, Relaxed) == 1 {
                for version in 0..=4 {
                    fs::remove_file(folder.join(format!("{version:020}.json"))).unwrap();
                }
            }
        });
        idle.archive = archive.wrapped(|store| {
            let store = Faulty::over(store, Arc::new(|_: &str| Put::Done));
            Arc::new(store.before_get(before_get.clone()))
        });
        idle.refresh().await.unwrap();
        assert_eq!((idle.version, &idle.state), (30, &other.state));
    });
}

#[test]
fn no_version_is_too_large() {
    let folder = Folder::new();
    let (archive, written) = log(&folder, 3);
    for name in ["json", "checkpoint.parquet"] {
        fs::write(path(&folder, &format!("{}.{name}", u64::MAX)), "{}").unwrap();
    }
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!((opened.version, &opened.state), (3, &written.state));
    fs::write(path(&folder, &format!("{:020}.json", i64::MAX)), "{}").unwrap();
    let error = format!("{:#}", run(Log::open(&archive)).unwrap_err());
    assert!(
        error.contains("00000000000000000004.json is missing"),
        "{error}"
    );
}

/// A program may write `=` as `%3D` in one commit, and not in the next.
#[test]
fn a_file_is_removed_however_its_path_is_encoded() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 0);
    let add = |path: &str| {
        format!(
            r#"{{"commitInfo":{{}}}}
{{"add":{{"path":"{path}","partitionValues":{{"date":"2026-11-21"}},"size":1,"modificationTime":1,"dataChange":false}}}}"#
        )
    };
    let remove = |path: &str| {
        format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":7,"dataChange":false}}}}"#)
    };
    let commits = [
        add("date=2026-11-21/a%3Db%20c.parquet"),
        add("date=2026-11-21/a=b%20c.parquet"),
        add("date%3D2026-11-21/d"),
        remove("date=2026-11-21/a%3db c.parquet"),
    ];
    let mut files = Vec::new();
    for (number, commit) in commits.iter().enumerate() {
        fs::write(path(&folder, &format!("{:020}.json", number + 1)), commit).unwrap();
        let mut opened = run(Log::open(&archive)).unwrap().unwrap();
        files.push(opened.state.files.len());
        run(opened.write_checkpoint()).unwrap();
        let again = run(Log::open(&archive)).unwrap().unwrap();
        assert_eq!(again.state, opened.state);
    }
    assert_eq!(files, [1, 1, 2, 1]);
    for wrong in ["%2e%2e/x", "%2E/x", "a%FF", "%2Fx"] {
        let commit = add(&format!("date=2026-11-21/{wrong}"));
        fs::write(path(&folder, "00000000000000000005.json"), commit).unwrap();
        let error = format!("{:#}", run(Log::open(&archive)).unwrap_err());
        assert!(error.contains("not in the folder"), "{wrong}: {error}");
    }
}

#[test]
fn values_that_are_null_do_not_prevent_a_checkpoint() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 0);
    let first = fs::read_to_string(path(&folder, "00000000000000000000.json")).unwrap();
    let metadata = first.lines().find(|it| it.contains("metaData")).unwrap();
    let metadata = metadata.replace(
        r#""configuration":{}"#,
        r#""configuration":{"a":null,"b":""}"#,
    );
    let add = r#"{"add":{"path":"date=2026-11-21/a","partitionValues":{"date":"2026-11-21"},"size":1,"modificationTime":1,"dataChange":true,"stats":null,"tags":{"a":null},"deletionVector":null}}"#;
    let other = add
        .replace("/a", "/b")
        .replace(r#""tags":{"a":null}"#, r#""tags":null"#);
    let commit = [&metadata, add, &other].join("\n");
    fs::write(path(&folder, "00000000000000000001.json"), commit).unwrap();
    let mut opened = run(Log::open(&archive)).unwrap().unwrap();
    run(opened.write_checkpoint()).unwrap();
    let again = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!(again.state, opened.state);
    assert_eq!(again.checkpoint.0, 1);
}

/// A program with another clock reads the day up to which transactions were forgotten, and does not compute it.
#[test]
fn the_day_up_to_which_transactions_were_forgotten_is_in_the_log() {
    let folder = Folder::new();
    let (archive, mut log) = log(&folder, 0);
    let today = now_ms() / state::DAY_MS;
    let now = today * state::DAY_MS + state::DAY_MS / 4;
    for (name, version, age_days) in [("a", today, 0), ("b", today - 3, 1), ("old", 1, 2)] {
        let txn = action::Txn {
            app_id: format!("segments/sensor=a/{name}"),
            version,
            last_updated: Some(now - age_days * state::DAY_MS),
        };
        assert!(run(log.commit("WRITE", vec![Action::Txn(txn)])).unwrap());
    }
    Arc::make_mut(&mut log.state).forget_old(now);
    assert_eq!(
        (log.state.kept_from(), log.state.transactions.len()),
        (0, 3)
    );
    // This clock is seven days ahead.
    Arc::make_mut(&mut log.state).forget_old(now + DAYS_8 - state::DAY_MS / 2);
    assert_eq!(log.state.kept_from(), today - 1);
    run(log.write_checkpoint()).unwrap();
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!(opened.state.kept_from(), today - 1);
    // The right clock does not forget it.
    Arc::make_mut(&mut log.state).forget_old(now);
    assert_eq!(log.state.kept_from(), today - 1);
}
