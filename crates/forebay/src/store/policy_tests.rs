//! What users rely on with syncs, waits and full stores: durable records are durable, and dropped records are counted.

use super::{
    testing::{Disk, Gate, append, config, open, put, records},
    *,
};
use crate::{
    Result,
    records::{self, Records},
};
use forebay_testing::dice::Dice;
use std::{
    io,
    time::{Duration, Instant},
};

fn store(disk: &Disk, sync: SyncPolicy, thread: bool) -> Appender {
    let config = StoreConfig {
        sync,
        ..config(thread)
    };
    open(disk.clone(), &config)
}

/// Polls until the condition holds: a writer thread has its own pace.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the condition never held"
        );
        std::thread::yield_now();
    }
}

/// The stage that all records reach when this one is waited for.
fn reaches(store: &mut Appender, stage: Stage) -> Stage {
    store.wait_for(stage, LONG).unwrap()
}

const LONG: Duration = Duration::from_secs(60);
const POLICIES: [SyncPolicy; 4] = [
    SyncPolicy::None,
    SyncPolicy::Interval(Duration::from_nanos(1)),
    SyncPolicy::File,
    SyncPolicy::Always,
];

#[test]
fn a_power_cut_takes_nothing_that_was_reported_durable() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let disk = Disk::default();
        disk.platter().most = dice.below(3000);
        let policy = POLICIES[seed as usize % 4];
        let config = StoreConfig {
            sync: policy,
            flush_every: [Duration::ZERO, Duration::from_secs(1)][dice.below(2)],
            ..config(dice.below(2) == 0)
        };
        let mut log = Records::<u64>::in_blocks(Box::new(disk.clone()), &config).unwrap();
        for number in 0..dice.below(6000) {
            assert!(log.append(&number).unwrap());
            match dice.below(500) {
                0 => log.flush().unwrap(),
                1 => log.tick(number << 20).unwrap(),
                2 => {
                    let stage = log.wait_for(Stage::Durable, LONG).unwrap();
                    assert_eq!(stage, Stage::Durable);
                    assert_eq!(log.totals().durable, number + 1);
                }
                _ => {}
            }
        }
        // The moment of the power cut. The writer thread may continue, but the state is captured.
        let totals = log.totals();
        let found = disk.after_power_cut(&mut dice);
        let mut reader = records::Reader::new(&found[..]);
        let mut next = 0;
        while let Some(block) = reader.next_block().unwrap() {
            assert_eq!(block.first(), next);
            for record in block.records() {
                assert_eq!(record, next.to_le_bytes());
                next += 1;
            }
        }
        let told = reader.finish().unwrap();
        let what = format!("seed {seed}, {policy:?}: {totals:?}, {told:?}");
        assert!(totals.durable <= next && next <= totals.accepted, "{what}");
        assert_eq!(told.records, next, "{what}");
        let cut = told.cut.map_or(0, |cut| cut.bytes);
        assert_eq!(told.bytes + cut, found.len() as u64, "{what}");
        let end = log.close().finish();
        assert_eq!(end.durable, policy != SyncPolicy::None, "{what}");
    }
}

#[test]
fn under_none_nothing_is_synced_unless_somebody_asks() {
    for thread in [false, true] {
        let disk = Disk::default();
        let mut store = store(&disk, SyncPolicy::None, thread);
        append(&mut store, 100, 0).unwrap();
        assert_eq!(reaches(&mut store, Stage::Written), Stage::Written);
        assert_eq!((store.totals().written, disk.platter().syncs), (1, 0));
        assert_eq!(reaches(&mut store, Stage::Durable), Stage::Durable);
        assert_eq!((store.totals().durable, disk.platter().syncs), (1, 1));
        append(&mut store, 100, 1).unwrap();
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.totals.durable), (2, 1));
        assert!(!end.durable && end.error.is_none());
    }
}

#[test]
fn under_always_what_is_written_is_durable() {
    for thread in [false, true] {
        let disk = Disk::default();
        let mut store = store(&disk, SyncPolicy::Always, thread);
        for number in 0..500 {
            append(&mut store, 100, number).unwrap();
            let totals = store.totals();
            assert!(totals.durable <= totals.written);
        }
        assert_eq!(reaches(&mut store, Stage::Written), Stage::Durable);
        let totals = store.totals();
        assert_eq!((totals.written, totals.durable), (500, 500));
        assert!(totals.syncs > 10, "one sync for each buffer");
        assert_eq!(records(&disk.platter().kept).len(), 500);
    }
}

#[test]
fn an_interval_syncs_when_it_is_over_and_not_before() {
    let disk = Disk::default();
    let mut store = store(&disk, SyncPolicy::Interval(Duration::from_secs(2)), false);
    append(&mut store, 100, 0).unwrap();
    store.flush().unwrap();
    assert_eq!((store.totals().written, store.totals().durable), (1, 0));
    assert_eq!(store.due_at(), Some(2_000_000_000));
    store.tick(1_999_999_999).unwrap();
    assert_eq!(store.totals().durable, 0);
    store.tick(2_000_000_000).unwrap();
    assert_eq!((store.totals().durable, store.due_at()), (1, None));
    store.tick(9_000_000_000).unwrap();
    assert_eq!(disk.platter().syncs, 1, "there was nothing new to sync");
}

#[test]
fn an_interval_is_kept_by_the_writer_thread_without_traffic() {
    let disk = Disk::default();
    let mut store = store(&disk, SyncPolicy::Interval(Duration::from_millis(1)), true);
    append(&mut store, 100, 0).unwrap();
    store.flush().unwrap();
    wait_until(|| store.totals().durable == 1);
    assert_eq!(records(&disk.platter().kept), [(100, 0)]);
}

#[test]
fn after_a_failed_sync_no_later_one_is_believed() {
    for thread in [false, true] {
        let disk = Disk::default();
        let mut store = store(&disk, SyncPolicy::File, thread);
        append(&mut store, 100, 0).unwrap();
        disk.platter().failing_syncs = 1;
        let told = store.wait_for(Stage::Durable, LONG).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(libc::EIO));
        assert!(told.to_string().contains("syncing"), "{told}");
        append(&mut store, 100, 1).unwrap();
        assert_eq!(reaches(&mut store, Stage::Durable), Stage::Written);
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.totals.durable), (2, 0));
        assert_eq!(end.totals.failed_syncs, 1);
        assert!(
            !end.durable && end.error.is_none(),
            "it was reported before"
        );
        let platter = disk.platter();
        assert_ne!(platter.kept, platter.seen, "the disk lost data");
    }
}

#[test]
fn a_sync_and_a_write_that_fail_together_are_both_told() {
    for thread in [false, true] {
        let disk = Disk::default();
        let policy = SyncPolicy::Interval(Duration::from_secs(3600));
        let mut store = store(&disk, policy, thread);
        append(&mut store, 100, 0).unwrap();
        store.wait_for(Stage::Written, LONG).unwrap();
        (disk.platter().failing_writes, disk.platter().failing_syncs) = (1, 1);
        append(&mut store, 100, 1).unwrap();
        // Before the writer waits for an answer it syncs what was written, and that fails, too.
        let told = store.wait_for(Stage::Written, LONG).unwrap_err();
        assert_eq!(told.raw_os_error(), Some(libc::ENOSPC));
        store.retry();
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.durable), (2, false));
        assert_eq!(end.error.unwrap().raw_os_error(), Some(libc::EIO));
    }
}

#[test]
fn under_always_a_retry_writes_again_what_a_failed_sync_left_in_doubt() {
    for thread in [false, true] {
        let disk = Disk::default();
        let mut store = store(&disk, SyncPolicy::Always, thread);
        append(&mut store, 100, 0).unwrap();
        disk.platter().failing_syncs = 2;
        for _ in 0..2 {
            let told = store.wait_for(Stage::Durable, LONG).unwrap_err();
            assert_eq!(told.raw_os_error(), Some(libc::EIO));
            let totals = store.totals();
            assert_eq!((totals.written, totals.durable), (1, 0));
            store.retry();
        }
        assert_eq!(reaches(&mut store, Stage::Durable), Stage::Durable);
        assert_eq!(disk.platter().written, 3 * 102);
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.durable), (1, true));
        assert_eq!(records(&disk.platter().kept), [(100, 0)]);
    }
}

#[test]
fn what_cannot_be_promised_is_not_waited_for() {
    let sink = FileSink::create("/dev/null", &FileConfig::default()).unwrap();
    let mut store = open(sink, &config(true));
    append(&mut store, 100, 0).unwrap();
    assert_eq!(reaches(&mut store, Stage::Durable), Stage::Written);
    assert!(!store.close().finish().durable);
}

fn numbers(gate: &Gate, when_full: WhenFull) -> Records<u64> {
    let config = StoreConfig {
        when_full,
        ..config(true)
    };
    Records::<u64>::in_blocks(Box::new(gate.clone()), &config).unwrap()
}

#[test]
fn while_the_disk_stands_still_buffers_fill_and_then_the_newest_are_dropped_and_counted() {
    let gate = Gate::default();
    let mut log = numbers(&gate, WhenFull::DropNewest);
    let mut kept = Vec::new();
    for number in 0..5000_u64 {
        if log.append_with(|slot| *slot = number).unwrap() {
            kept.push(number);
        }
    }
    let totals = log.totals();
    assert_eq!(totals.accepted, kept.len() as u64);
    assert_eq!(totals.accepted + totals.dropped, 5000);
    assert_eq!(kept, (0..totals.accepted).collect::<Vec<_>>());
    // Three buffers of 4 KiB, each with a head.
    assert_eq!(kept.len(), 3 * (4096 - 64) / 8);
    assert!(log.fill_level() > 0.99);
    gate.allow(usize::MAX);
    assert_eq!(log.wait_for(Stage::Written, LONG).unwrap(), Stage::Written);
    assert_eq!(
        log.append_all(&[9999; 400]).unwrap(),
        400,
        "the store continues"
    );
    kept.extend([9999; 400]);
    let end = log.close().finish();
    assert_eq!(end.totals.written, kept.len() as u64);
    let seen = gate.bytes();
    let mut reader = records::Reader::new(&seen[..]);
    let mut found = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        let numbers = block.records().map(|bytes| bytes.try_into().unwrap());
        found.extend(numbers.map(u64::from_le_bytes));
    }
    assert_eq!(found, kept);
}

#[test]
fn while_the_disk_stands_still_patient_records_wait_and_none_is_lost() {
    let gate = Gate::default();
    let mut log = numbers(&gate, WhenFull::Wait);
    let appending = std::thread::spawn(move || -> Result<Totals> {
        for number in 0..5000 {
            assert!(log.append(&number)?);
        }
        Ok(log.close().finish().totals)
    });
    gate.allow(usize::MAX);
    let totals = appending.join().unwrap().unwrap();
    assert_eq!((totals.written, totals.dropped), (5000, 0));
}

#[test]
fn nobody_waits_for_a_writer_that_nobody_told_to_go_on() {
    struct Broken;
    impl Sink for Broken {
        fn write(&mut self, _: &[u8], _: u64) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        }
    }
    for thread in [false, true] {
        let sink = Box::new(Broken);
        let mut log = Records::<[u8; 28]>::plain(sink, &config(thread)).unwrap();
        let mut accepted = 0;
        let mut told = Vec::new();
        while told.len() < 3 {
            match log.append(&[1; 28]) {
                Ok(true) => accepted += 1,
                Ok(false) => unreachable!("the store has to wait, not to drop"),
                Err(error) => told.push(error.to_string()),
            }
        }
        assert!(told[0].contains("no space left"), "{told:?}");
        assert!(told[1].contains("not retried"), "{told:?}");
        assert_eq!(told[1], told[2]);
        let end = log.close().finish();
        assert_eq!((end.totals.accepted, end.totals.written), (accepted, 0));
        assert!(end.error.is_none(), "{:?}", end.error);
    }
}

#[test]
fn a_buffer_leaves_early_only_while_the_writer_has_nothing_to_do() {
    let gate = Gate::default();
    let config = StoreConfig {
        early_bytes: 1000,
        ..config(true)
    };
    let mut store = open(gate.clone(), &config);
    let mut accepted = 0;
    while let Some(slot) = store.reserve(100).unwrap() {
        put(slot, accepted.into());
        accepted += 1;
    }
    // The first buffer leaves early, and the writer stops with it. The others fill up, including the record that begins in them
    // last.
    assert_eq!(accepted, 10 + 41 + 41);
    gate.allow(usize::MAX);
    let end = store.close().finish();
    assert_eq!(end.totals.written, u64::from(accepted));
    let numbers = records(&gate.bytes()).into_iter().map(|(_, number)| number);
    assert!(numbers.eq(0..accepted), "in order and without gaps");
}
