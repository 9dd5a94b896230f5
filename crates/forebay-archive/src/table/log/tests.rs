//! Logs that are damaged, or that other programs have written.

use super::*;
use crate::{
    archive::{
        Archive,
        faulty::{Faulty, Put},
    },
    compact::vacuum,
    table::log::action::Add,
};
use forebay_testing::{dice::Dice, folder::Folder};
use std::{fs, path::PathBuf};

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(future)
}

/// A log with this number of commits after the first one. Each adds a file, and the even ones remove the file before.
pub(super) fn log(folder: &Folder, commits: u64) -> (Archive, Log) {
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    run(async {
        Log::create(&archive).await.unwrap();
        let mut log = Log::open(&archive).await.unwrap().unwrap();
        for number in 1..=commits {
            assert!(log.commit("WRITE", actions(&log, number)).await.unwrap());
        }
        (archive, log)
    })
}

pub(super) fn actions(log: &Log, number: u64) -> Vec<Action> {
    let path = format!("date=2026-11-21/{number}.parquet");
    let mut add = Add::new(path, "2026-11-21", number, 7);
    add.stats = Some(r#"{"numRecords":1}"#.into());
    add.tags = Some([("tag".to_owned(), Some("{}".to_owned()))].into());
    let txn = action::Txn {
        app_id: format!("segments/sensor=a/{number}"),
        version: 1,
        last_updated: Some(now_ms()),
    };
    let mut actions = vec![Action::Txn(txn), Action::Add(add)];
    if number.is_multiple_of(2) {
        let last = log
            .state
            .files
            .last_key_value()
            .unwrap()
            .1
            .unpack()
            .unwrap();
        actions.push(last.removal(now_ms(), true));
    }
    actions
}

pub(super) fn path(folder: &Folder, name: &str) -> PathBuf {
    folder.path(&format!("to/index/_delta_log/{name}")).into()
}

/// The error of opening the log.
fn refused(archive: &Archive) -> String {
    format!("{:#}", run(Log::open(archive)).unwrap_err())
}

#[test]
fn a_log_is_read_as_it_was_written_with_and_without_checkpoints_and_wrong_hints() {
    let folder = Folder::new();
    let (archive, written) = log(&folder, 45);
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!((opened.version, &opened.state), (45, &written.state));
    // There is a checkpoint, and the last one is named.
    let hint = path(&folder, HINT);
    let named = fs::read_to_string(&hint).unwrap();
    assert!(
        named.contains(r#""version":"#) && opened.checkpoint.0 >= 20,
        "{named}"
    );
    for wrong in [
        "",
        "{",
        r#"{"version":3}"#,
        r#"{"version":999}"#,
        r#"{"version":-1}"#,
    ] {
        fs::write(&hint, wrong).unwrap();
        let opened = run(Log::open(&archive)).unwrap().unwrap();
        assert_eq!(
            (opened.version, &opened.state),
            (45, &written.state),
            "{wrong}"
        );
    }
    fs::remove_file(&hint).unwrap();
    for (version, _) in run(Listed::from(&archive, 0)).unwrap().checkpoints {
        fs::remove_file(folder.path(&format!("to/{}", checkpoint_key(version)))).unwrap();
    }
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!((opened.version, &opened.state), (45, &written.state));
}

#[test]
fn a_process_sees_the_commits_of_others_and_a_table_that_was_replaced() {
    let folder = Folder::new();
    let (archive, mut one) = log(&folder, 3);
    run(async {
        let mut two = Log::open(&archive).await.unwrap().unwrap();
        assert!(two.commit("WRITE", actions(&two, 4)).await.unwrap());
        assert!(!one.commit("WRITE", actions(&one, 5)).await.unwrap());
        one.refresh().await.unwrap();
        assert_eq!((one.version, &one.state), (4, &two.state));
        one.refresh().await.unwrap();
        fs::remove_dir_all(folder.path("to/index")).unwrap();
        assert!(one.refresh().await.is_err());
        Log::create(&archive).await.unwrap();
        for number in 1..=6 {
            two.refresh().await.unwrap();
            assert!(two.commit("WRITE", actions(&two, number)).await.unwrap());
        }
        one.refresh().await.unwrap();
        assert_eq!((one.version, &one.state), (6, &two.state));
    });
}

#[test]
fn a_log_with_a_gap_or_damage_is_an_error_that_names_the_object() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 5);
    let three = path(&folder, "00000000000000000003.json");
    let whole = fs::read_to_string(&three).unwrap();
    for damage in [
        "",
        &whole[..whole.len() - 10],
        "{}",
        "[]",
        "\0",
        r#"{"add":{}}"#,
    ] {
        fs::write(&three, damage).unwrap();
        let error = refused(&archive);
        assert!(
            error.contains("00000000000000000003.json"),
            "{damage}: {error}"
        );
    }
    fs::remove_file(&three).unwrap();
    let error = refused(&archive);
    assert!(
        error.contains("00000000000000000003.json is missing"),
        "{error}"
    );
}

#[test]
fn what_this_program_does_not_know_is_refused() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 1);
    let two = path(&folder, "00000000000000000002.json");
    let add = |more: &str| {
        format!(
            r#"{{"add":{{"path":"date=2026-11-21/a","partitionValues":{{"date":"2026-11-21"}},"size":1,"modificationTime":1,"dataChange":true{more}}}}}"#
        )
    };
    fs::write(&two, add("")).unwrap();
    assert!(run(Log::open(&archive)).is_ok());
    let first = fs::read_to_string(path(&folder, "00000000000000000000.json")).unwrap();
    let metadata = first.lines().find(|it| it.contains("metaData")).unwrap();
    for (action, why) in [
        (r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"]}}"#.to_owned(), "newer version"),
        (r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}"#.to_owned(), "newer version"),
        (r#"{"domainMetadata":{"domain":"x","configuration":"","removed":false}}"#.to_owned(), "domainMetadata"),
        (add(r#","deletionVector":{"storageType":"u"}"#), "deletion vector"),
        (add("").replace("date=2026-11-21/", "s3://other/"), "not in the folder"),
        (add("").replace("date=2026-11-21/", "date=2026-11-21/../"), "not in the folder"),
        (add("").replace("\"size\":1", "\"size\":-1"), "-1"),
        (metadata.replace("block_offset", "offset"), "its column"),
        (metadata.replace(r#""configuration":{}"#, r#""configuration":{"delta.columnMapping.mode":"name"}"#), "columnMapping"),
    ] {
        fs::write(&two, &action).unwrap();
        let error = refused(&archive);
        assert!(error.contains(why), "{action}: {error}");
    }
    fs::remove_file(&two).unwrap();
    let other = path(&folder, "00000000000000000001.checkpoint.0a.json");
    fs::write(other, "").unwrap();
    assert!(refused(&archive).contains("of a kind that this program does not know"));
}

#[test]
fn no_mutation_of_a_log_panics_or_is_larger_than_memory() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 22);
    let names = fs::read_dir(path(&folder, "")).unwrap();
    let names: Vec<_> = names.map(|it| it.unwrap().path()).collect();
    let whole: Vec<_> = names.iter().map(|it| fs::read(it).unwrap()).collect();
    let mut dice = Dice(47);
    for _ in 0..300 {
        let which = dice.below(names.len() as u64) as usize;
        let mut bytes = whole[which].clone();
        for _ in 0..=dice.below(3_u64) {
            let at = dice.below(bytes.len() as u64) as usize;
            match dice.below(3_u64) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << dice.below(8_u8),
                _ => bytes[at] = dice.below(255_u8),
            }
        }
        fs::write(&names[which], &bytes).unwrap();
        let _ = run(Log::open(&archive));
        fs::write(&names[which], &whole[which]).unwrap();
    }
    assert!(run(Log::open(&archive)).unwrap().is_some());
}

#[test]
fn transactions_and_removals_are_kept_for_seven_days() {
    let folder = Folder::new();
    let (_, mut log) = log(&folder, 4);
    let now = now_ms();
    let state = Arc::make_mut(&mut log.state);
    state.forget_old(now + state::KEPT_MS - 60_000);
    assert_eq!((state.transactions.len(), state.removed.len()), (4, 2));
    let later = action::Txn {
        app_id: "segments/sensor=a/later".into(),
        version: now / state::DAY_MS + 3,
        last_updated: Some(now),
    };
    let other = action::Txn {
        app_id: "other".into(),
        ..later.clone()
    };
    for txn in [later, other] {
        state.apply(Action::Txn(txn)).unwrap();
    }
    state.forget_old(now + state::KEPT_MS + 60_000);
    let left: Vec<_> = state.transactions.keys().collect();
    assert_eq!(
        left,
        ["forebay.kept_from", "other", "segments/sensor=a/later"]
    );
    assert!(state.removed.is_empty());
}

#[test]
fn a_clock_that_is_days_ahead_cleans_nothing_that_is_young() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 70);
    let archive = of_store_ahead(&archive, -2);
    let mut log = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!(run(log.clean()).unwrap(), 0);
    // Nor a file that is not committed yet.
    let key = "index/date=2026-11-21/part-young.parquet";
    run(archive.put(key, "".into())).unwrap();
    let day = std::time::Duration::from_hours(24);
    let vacuumed = run(vacuum(&archive, day, false)).unwrap();
    assert_eq!((vacuumed.files, vacuumed.bytes), (0, 0));
}

/// As if the clock of this machine were slow or ahead by days.
fn of_store_ahead(archive: &Archive, days: i64) -> Archive {
    archive.wrapped(|store| {
        let store = Faulty::over(store, Arc::new(|_: &str| Put::Done));
        Arc::new(store.clock_ahead(days * 86_400))
    })
}

#[test]
fn a_slow_clock_deletes_no_file_that_was_removed_just_now() {
    let folder = Folder::new();
    let (archive, log) = log(&folder, 4);
    let key = format!("index/{}", log.state.removed.keys().next().unwrap());
    run(archive.put(&key, "".into())).unwrap();
    let file = fs::File::options()
        .write(true)
        .open(folder.path(&format!("to/{key}")));
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(4 * 86_400);
    file.unwrap().set_modified(time).unwrap();
    let day = std::time::Duration::from_hours(24);
    let vacuumed = run(vacuum(&of_store_ahead(&archive, 2), day, false)).unwrap();
    assert_eq!(vacuumed.files, 0);
}

#[test]
fn a_clock_that_is_weeks_ahead_forgets_no_young_removal() {
    let folder = Folder::new();
    let (archive, mut log) = log(&folder, 4);
    // It is ten days old by this clock, and one day by that of the store.
    let file = log.state.files.first_key_value().unwrap().1.unpack();
    let removal = file.unwrap().removal(now_ms() - 10 * state::DAY_MS, true);
    assert!(run(log.commit("WRITE", vec![removal])).unwrap());
    let mut log = run(Log::open(&of_store_ahead(&archive, -9)))
        .unwrap()
        .unwrap();
    let removed = log.state.removed.len();
    run(log.write_checkpoint()).unwrap();
    assert_eq!(log.state.removed.len(), removed);
}

#[test]
fn a_full_store_tells_its_time_by_the_object_of_before() {
    let folder = Folder::new();
    let (archive, _) = log(&folder, 1);
    let now = run(crate::clock::of_store(&archive)).unwrap();
    let full =
        archive.wrapped(|store| Arc::new(Faulty::over(store, Arc::new(|_: &str| Put::Lost))));
    assert_eq!(run(crate::clock::of_store(&full)).unwrap(), now);
    fs::remove_file(folder.path("to/index/_clock.json")).unwrap();
    assert!(run(crate::clock::of_store(&full)).is_err());
}

#[test]
fn cleaning_keeps_what_the_last_two_checkpoints_need() {
    let folder = Folder::new();
    let (archive, mut log) = log(&folder, 70);
    let objects = || fs::read_dir(path(&folder, "")).unwrap().count();
    let before = objects();
    assert_eq!(run(log.clean()).unwrap(), 0, "all of it is young");
    for entry in fs::read_dir(path(&folder, "")).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path());
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86_400);
        file.unwrap().set_modified(time).unwrap();
    }
    let deleted = run(log.clean()).unwrap();
    assert!(deleted > 15 && objects() < before, "{deleted}");
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!((opened.version, &opened.state), (70, &log.state));
    // The checkpoint before the last one is enough, too.
    let mut listed = run(Listed::from(&archive, 0)).unwrap();
    let (last, _) = listed.checkpoints.pop_last().unwrap();
    fs::remove_file(folder.path(&format!("to/{}", checkpoint_key(last)))).unwrap();
    let opened = run(Log::open(&archive)).unwrap().unwrap();
    assert_eq!((opened.version, &opened.state), (70, &log.state));
}
