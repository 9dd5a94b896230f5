//! Races with other programs, and answers that are lost.

use super::*;
use crate::{
    archive::{
        counted::Reads,
        faulty::{Faulty, Put},
    },
    compact::{CompactConfig, compact},
    index::{self, Row},
    segment,
    status::packets_by_segment,
};
use forebay_testing::{dice::Dice, folder::Folder};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

const DAY_NS: u64 = 86_400_000_000_000;

/// The time at which the captures of this day of 2026-11 begin.
fn first_ns(day: u64) -> u64 {
    1_793_491_200_000_000_000 + (day - 1) * DAY_NS
}

/// A segment of a sensor and a day, with one packet.
fn rows(sensor: &str, day: u64) -> Rows {
    rows_of(sensor, "", day)
}

/// As [`rows`], with something that makes it another segment.
pub(super) fn rows_of(sensor: &str, other: &str, day: u64) -> Rows {
    rows_at(sensor, other, &format!("2026-11-{day:02}"))
}

fn rows_at(sensor: &str, other: &str, date: &str) -> Rows {
    let hash = segment::hex(&Sha256::digest(format!("{sensor}{other}{date}")));
    let segment = format!("segments/sensor={sensor}/date={date}/hour=00/{hash}.pcapng");
    let time: jiff::Timestamp = format!("{date}T00:00:00Z").parse().unwrap();
    let first_ns = time.as_nanosecond() as u64;
    let row = Row {
        block: (0, 100),
        first_ns,
        last_ns: first_ns,
        packets: 1,
        ..Row::default()
    };
    Rows {
        files: index::write(vec![row], sensor, &segment).unwrap(),
        segment,
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(test);
}

#[test]
fn removing_rows_reads_and_writes_each_file_once_however_many_commits_of_others_come_first() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let (reads, left) = (Arc::<Reads>::default(), Arc::new(AtomicU32::new(0)));
    let written = Arc::new(AtomicU32::new(0));
    let (races, files) = (left.clone(), written.clone());
    let put = Arc::new(move |key: &str| {
        files.fetch_add(key.contains("/part-").into(), Relaxed);
        let is_commit = key.contains("_delta_log") && key.ends_with(".json");
        let is_lost = is_commit
            && races
                .fetch_update(Relaxed, Relaxed, |it| it.checked_sub(1))
                .is_ok();
        if is_lost { Put::Lost } else { Put::Done }
    });
    let archive = plain.wrapped(|store| Arc::new(Faulty::over(store, put.clone())));
    let archive = archive.counted(&reads);
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        for day in [21, 22, 23] {
            for sensor in ["a", "b", "c"] {
                assert_eq!(table.append(&[rows(sensor, day)]).await.unwrap(), 1);
            }
        }
        let config = CompactConfig {
            target_bytes: 1 << 20,
            dry_run: false,
        };
        compact(&archive, &config, &mut |_, _| true).await.unwrap();
        table.refresh().await.unwrap();
        assert_eq!(table.files().unwrap().len(), 3);
        let (before, files) = (reads.index.requests(), written.load(Relaxed));
        left.store(5, Relaxed);
        // The keys of the other days enclose it, too.
        let removed = rows("b", 22).segment;
        let segments = HashMap::from([(&*removed, first_ns(22))]);
        table.replace_rows(&segments, &[]).await.unwrap();
        assert_eq!(left.load(Relaxed), 0);
        assert_eq!(reads.index.requests() - before, 1);
        assert_eq!(written.load(Relaxed) - files, 1);
        let found = packets_by_segment(&table).await.unwrap();
        assert!(found.len() == 8 && !found.contains_key(&removed));
    });
}

#[test]
fn expiring_a_merged_file_reads_the_names_of_its_segments_and_only_one_with_others_as_a_whole() {
    let folder = Folder::new();
    let reads = Arc::<Reads>::default();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let archive = archive.counted(&reads);
    let many = |sensor: &str| {
        let mut dice = Dice(sensor.as_bytes()[0].into());
        let mut rows = rows(sensor, 21);
        let row = |at: u64| Row {
            block: (at / 500 * 100, 100),
            first_ns: first_ns(21) + dice.below(DAY_NS),
            last_ns: first_ns(21) + DAY_NS,
            packets: 1,
            bytes: dice.below(1500),
            ..Row::default()
        };
        let all = (0..30_000).map(row).collect();
        rows.files = index::write(all, sensor, &rows.segment).unwrap();
        rows
    };
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let all = ["a", "b", "c"].map(many);
        assert_eq!(table.append(&all).await.unwrap(), 3);
        let file = table.files().unwrap().swap_remove(0).bytes;
        let mut expire = async |gone: &[&Rows]| {
            let before = reads.index.bytes();
            let last = |it: &&Rows| (it.segment.clone(), u64::MAX);
            let gone: Vec<(String, u64)> = gone.iter().map(last).collect();
            let gone = gone.iter().map(|it| (&*it.0, it.1)).collect();
            table.replace_rows(&gone, &[]).await.unwrap();
            let left = table.files().unwrap().iter().map(|it| it.bytes).sum();
            (reads.index.bytes() - before, left)
        };
        // Its name lies among those of the others.
        let none = rows_of("b", "other", 21);
        let (read, left): (u64, u64) = expire(&[&none]).await;
        assert!(read < file / 4 && left == file, "{read} of {file} bytes");
        let (read, left) = expire(&[&all[1]]).await;
        assert!(read > left && left > file / 2, "{read} of {file} bytes");
        let (read, end) = expire(&[&all[0], &all[2]]).await;
        assert!(read < left / 4 && end == 0, "{read} of {left} bytes");
    });
}

#[test]
fn rows_that_come_again_after_expire_are_removed_also_if_the_first_program_was_killed() {
    let folder = Folder::new();
    run(async {
        let archive = Archive::open(&folder.path("to"), true).unwrap();
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let some = rows("a", 21);
        let (sensor, _, sha256) = segment::parse_key(&some.segment).unwrap();
        let record = format!("sensors/{sensor}/expired-{sha256}.json");
        assert_eq!(table.append(std::slice::from_ref(&some)).await.unwrap(), 1);
        archive.put_new(&record, "{}".into()).await.unwrap();
        // The program that added the rows was killed before it looked for the record. It finds the rows when it tries again.
        assert_eq!(table.append(std::slice::from_ref(&some)).await.unwrap(), 0);
        assert!(packets_by_segment(&table).await.unwrap().is_empty());
        // `rebuild` began before `expire`.
        let segments = HashMap::from([(&*some.segment, u64::MAX)]);
        let again = std::slice::from_ref(&some);
        table.replace_rows(&segments, again).await.unwrap();
        assert!(packets_by_segment(&table).await.unwrap().is_empty());
    });
}

#[test]
fn a_store_may_answer_an_error_after_it_has_stored_a_file() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let put = Arc::new(|key: &str| match key.contains("/part-") {
        true => Put::Repeated,
        false => Put::Done,
    });
    let archive = plain.wrapped(|store| Arc::new(Faulty::over(store, put.clone())));
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        assert_eq!(table.append(&[rows("a", 21)]).await.unwrap(), 1);
        assert_eq!(packets_by_segment(&table).await.unwrap().len(), 1);
    });
}

#[test]
fn segments_of_a_commit_share_a_file_for_each_date_and_none_is_added_twice() {
    let folder = Folder::new();
    let plain = Archive::open(&folder.path("to"), true).unwrap();
    let race: Arc<Mutex<Option<(Table, Rows)>>> = Arc::default();
    let before_commit = race.clone();
    let put = Arc::new(move |key: &str| {
        if key.contains("_delta_log")
            && key.ends_with(".json")
            && let Some((mut other, rows)) = before_commit.lock().unwrap().take()
        {
            let append = move || run(async { assert_eq!(other.append(&[rows]).await.unwrap(), 1) });
            std::thread::spawn(append).join().unwrap();
        }
        Put::Done
    });
    let archive = plain.wrapped(|store| Arc::new(Faulty::over(store, put.clone())));
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let batch = [("a", 21), ("b", 21), ("c", 22), ("b", 21), ("a", 22)];
        let batch = batch.map(|(sensor, day)| rows(sensor, day));
        assert_eq!(table.append(&batch).await.unwrap(), 4);
        let files = table.files().unwrap();
        let dates: BTreeSet<&str> = files.iter().map(|it| &*it.date).collect();
        assert!(files.len() == 2 && dates.len() == 2, "{files:?}");
        let found = packets_by_segment(&table).await.unwrap();
        assert!(found.len() == 4 && found.values().all(|it| *it == 1));

        // Another program commits one of these segments meanwhile.
        let batch = ["d", "e", "f"].map(|sensor| rows(sensor, 21));
        let other = Table::open(&plain).await.unwrap().unwrap();
        *race.lock().unwrap() = Some((other, batch[1].clone()));
        let is_new = table.append_new(&batch).await.unwrap();
        assert_eq!(is_new, [true, false, true]);
        assert!(race.lock().unwrap().is_none());
        let found = packets_by_segment(&table).await.unwrap();
        assert!(found.len() == 7 && found.values().all(|it| *it == 1));
    });
}

#[test]
fn old_segments_are_known_by_their_rows_when_their_transactions_are_forgotten() {
    let folder = Folder::new();
    let reads = Arc::<Reads>::default();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let archive = archive.counted(&reads);
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        let all = [rows("a", 1), rows("b", 1), rows("a", 2)];
        for rows in &all {
            table.append(std::slice::from_ref(rows)).await.unwrap();
        }
        let mut table = Table::open(&archive).await.unwrap().unwrap();
        Arc::make_mut(&mut table.log.state).transactions.clear();
        let before = reads.index.requests();
        for _ in 0..3 {
            for rows in &all {
                assert!(table.has(&rows.segment).await.unwrap());
                // Packed, it is the same segment.
                let packed = format!("{}.zst", rows.segment);
                assert!(table.has(&packed).await.unwrap());
            }
            assert!(!table.has(&rows("c", 1).segment).await.unwrap());
            assert!(!table.has(&rows("a", 3).segment).await.unwrap());
        }
        // Each file is read once.
        assert_eq!(reads.index.requests() - before, 3);
        let (again, bytes) = ([all[0].clone(), rows("c", 1)], reads.index.bytes());
        assert_eq!(table.append_new(&again).await.unwrap(), [false, true]);
        Arc::make_mut(&mut table.log.state).transactions.clear();
        assert!(table.has(&again[1].segment).await.unwrap());
        assert_eq!(reads.index.bytes(), bytes);
    });
}

/// Another program has written a checkpoint without the transaction. Its clock is nine days ahead.
#[test]
fn rows_are_not_added_twice_after_a_wrong_clock_and_are_added_to_a_table_that_was_replaced() {
    let folder = Folder::new();
    let archive = Archive::open(&folder.path("to"), true).unwrap();
    let today = jiff::Timestamp::now().to_string();
    let rows = rows_at("a", "", &today[..10]);
    run(async {
        let mut table = Table::open_or_create(&archive).await.unwrap();
        assert_eq!(table.append(std::slice::from_ref(&rows)).await.unwrap(), 1);
        Arc::make_mut(&mut table.log.state).forget_old(now_ms() + 9 * log::state::DAY_MS);
        table.log.write_checkpoint().await.unwrap();
        let mut other = Table::open(&archive).await.unwrap().unwrap();
        let id = transaction(&rows.segment);
        assert!(!other.log.state.transactions.contains_key(&id));
        assert_eq!(other.append(std::slice::from_ref(&rows)).await.unwrap(), 0);
        assert_eq!(packets_by_segment(&other).await.unwrap().len(), 1);
        // What it has read of the files is forgotten with the table.
        std::fs::remove_dir_all(folder.path("to/index")).unwrap();
        Table::open_or_create(&archive).await.unwrap();
        assert_eq!(other.append(std::slice::from_ref(&rows)).await.unwrap(), 1);
    });
}
