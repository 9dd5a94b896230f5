//! What rotation relies on: whole records in every output, none lost or duplicated between two, and outputs completed in order.

use super::{
    testing::{self, Shelves, append, config, of_seed, records},
    *,
};
use forebay_testing::dice::Dice;
use std::{os::unix::fs::MetadataExt, time::Duration};

const LONG: Duration = Duration::from_secs(60);

fn open(shelves: &Shelves, config: &StoreConfig) -> Appender {
    testing::open(Files::open(shelves.clone()).unwrap(), config)
}

/// Switches to the next output, and retries whatever fails.
fn turn(store: &mut Appender, told: &mut usize) {
    loop {
        match store.next_output() {
            Ok(true) => return,
            Ok(false) => drop(store.wait_empty(Duration::from_millis(1))),
            Err(_) => {
                *told += 1;
                store.retry();
            }
        }
    }
}

#[test]
fn every_output_has_whole_records_and_together_they_have_all() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let shelves = Shelves::default();
        let mut store = open(&shelves, &of_seed(seed));
        let (mut oracle, mut told) = (vec![Vec::new()], 0);
        for number in 0..300 {
            let len = 1 + dice.below(400);
            while let Err(error) = append(&mut store, len, number) {
                assert!(!error.to_string().is_empty());
                told += 1;
                store.retry();
            }
            oracle.last_mut().unwrap().push((len, number as u8));
            match dice.below(40) {
                0 => shelves.shelf().failing_opens += dice.below(3),
                1 => shelves.shelf().failing_ends += dice.below(3),
                2 => shelves.shelf().failing_writes += 1,
                3..8 => {
                    turn(&mut store, &mut told);
                    assert_eq!(store.output_bytes(), 0);
                    oracle.push(Vec::new());
                }
                _ => {}
            }
        }
        while store.wait_for(Stage::Written, LONG).is_err() {
            store.retry();
        }
        drop(store);
        let shelf = shelves.shelf();
        let kept: Vec<_> = shelf.outputs.iter().map(|bytes| records(bytes)).collect();
        let with_records = |all: Vec<Vec<(usize, u8)>>| -> Vec<_> {
            all.into_iter().filter(|one| !one.is_empty()).collect()
        };
        assert_eq!(
            with_records(kept),
            with_records(oracle),
            "seed {seed}, errors reported: {told}"
        );
    }
}

#[test]
fn leave_is_taken_of_each_output_once_and_before_the_next_is_opened() {
    for thread in [false, true] {
        let shelves = Shelves::default();
        let mut store = open(&shelves, &config(thread));
        append(&mut store, 100, 0).unwrap();
        assert!(store.next_output().unwrap());
        append(&mut store, 100, 1).unwrap();
        let end = store.close().finish();
        assert!(end.durable && end.error.is_none());
        assert_eq!((end.totals.durable, end.totals.written_bytes), (2, 204));
        let expected = [
            "open 0",
            "sync 0",
            "complete 0",
            "open 1",
            "sync 1",
            "complete 1",
        ];
        assert_eq!(shelves.shelf().events, expected);
    }
}

#[test]
fn an_output_that_cannot_be_had_is_told_once_and_what_came_since_waits_for_it() {
    for thread in [false, true] {
        let shelves = Shelves::default();
        let mut store = open(&shelves, &config(thread));
        append(&mut store, 100, 0).unwrap();
        shelves.shelf().failing_opens = 1;
        assert!(store.next_output().unwrap());
        let told = loop {
            match store.tick(0) {
                Err(error) => break error,
                Ok(()) => std::thread::yield_now(),
            }
        };
        assert_eq!(told.raw_os_error(), Some(libc::EMFILE));
        assert!(told.to_string().starts_with("shelf: opening"), "{told}");
        append(&mut store, 100, 1).unwrap();
        append(&mut store, 100, 2).unwrap();
        store.retry();
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.error.is_none()), (3, true));
        let shelf = shelves.shelf();
        assert_eq!(records(&shelf.outputs[0]), [(100, 0)]);
        assert_eq!(records(&shelf.outputs[1]), [(100, 1), (100, 2)]);
        let completed = shelf.events.iter().filter(|event| *event == "complete 0");
        assert_eq!(completed.count(), 1);
    }
}

#[test]
fn a_final_name_that_cannot_be_given_is_told_at_the_end() {
    let shelves = Shelves::default();
    let mut store = open(&shelves, &config(true));
    append(&mut store, 100, 0).unwrap();
    shelves.shelf().failing_ends = 1;
    let end = store.close().finish();
    assert_eq!(end.totals.written, 1);
    assert!(end.error.unwrap().to_string().contains("renaming"));
}

#[test]
fn a_sink_without_a_next_output_says_so() {
    let sink = FileSink::create("/dev/null", &FileConfig::default()).unwrap();
    let mut store = testing::open(sink, &config(false));
    append(&mut store, 100, 0).unwrap();
    assert!(store.next_output().unwrap());
    let told = store.flush().unwrap_err().to_string();
    assert!(
        told.contains("another output") && told.contains("Files"),
        "{told}"
    );
}

#[test]
fn what_was_allocated_ahead_is_given_back_at_the_end() {
    let path =
        std::path::Path::new("/var/tmp").join(format!("forebay-ahead-{}", std::process::id()));
    let ahead = FileConfig {
        allocate_bytes: 8 << 20,
        ..FileConfig::default()
    };
    let on_disk = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let sink = FileSink::create(&path, &ahead).unwrap();
    let mut store = testing::open(sink, &config(false));
    append(&mut store, 100, 0).unwrap();
    store.flush().unwrap();
    let early = on_disk();
    append(&mut store, 100, 1).unwrap();
    assert!(store.close().finish().durable);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 204);
    let late = on_disk();
    std::fs::remove_file(&path).unwrap();
    if early < 8 << 20 {
        return eprintln!("skipped: needs a file system with fallocate");
    }
    assert!(late <= 1 << 16, "{late} bytes are still taken");
}
