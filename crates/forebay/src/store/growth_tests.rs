//! What users rely on with a slow disk: the store grows when it has to, but never beyond its limit. It loses nothing before that,
//! uses the page cache meanwhile, and frees its memory afterwards.

use super::{
    testing::{Act, Gate, Recorder, append, config, open, put, records},
    *,
};
use crate::records::Records;
use forebay_testing::{dice::Dice, folder::Folder};
use std::{collections::BTreeSet, time::Duration};

/// Three buffers of 4 KiB, and up to `most`.
fn growing(most: u64) -> StoreConfig {
    StoreConfig {
        limit: Limit::Bytes(most * 4096),
        ..config(true)
    }
}

/// Appends records of 1024 bytes until the store has no room; returns how many.
fn fill(store: &mut Appender, from: u64) -> u64 {
    let mut number = from;
    while let Some(slot) = store.reserve(1024).unwrap() {
        put(slot, number);
        number += 1;
    }
    number - from
}

#[test]
fn while_the_disk_stands_still_the_store_grows_to_its_limit_and_not_beyond() {
    for most in [3, 4, 20] {
        let gate = Gate::default();
        let mut store = open(gate.clone(), &growing(most));
        assert_eq!(store.info().bytes, 3 * 4096);
        assert_eq!(store.info().limit_bytes as u64, most * 4096);
        assert_eq!(fill(&mut store, 0), most * 4, "exactly up to the limit");
        assert!(store.fill_level() > 0.999, "{}", store.fill_level());
        let totals = store.totals();
        assert_eq!(totals.pending_bytes, most * 4096);
        assert_eq!(totals.high_water_bytes, most * 4096);
        gate.allow(usize::MAX);
        let end = store.close().finish();
        assert_eq!(
            (end.totals.written, end.totals.pending_bytes),
            (most * 4, 0)
        );
        assert_eq!(end.totals.high_water_bytes, most * 4096);
        let numbers = records(&gate.bytes()).into_iter().map(|(_, number)| number);
        assert!(numbers.eq((0..most * 4).map(|n| n as u8)));
    }
}

#[test]
fn a_disk_that_keeps_up_needs_no_more_than_the_first_buffers() {
    let gate = Gate::default();
    gate.allow(usize::MAX);
    let mut store = open(gate.clone(), &growing(1000));
    for number in 0..4000 {
        append(&mut store, 1022, number).unwrap();
        store
            .wait_for(Stage::Written, Duration::from_secs(60))
            .unwrap();
    }
    assert!(store.totals().high_water_bytes <= 3 * 4096);
    assert_eq!(store.close().finish().totals.written, 4000);
    assert!(gate.is_behind().iter().all(|behind| !behind));
}

/// Memory that is never touched costs nothing.
#[test]
fn a_store_whose_output_keeps_up_uses_few_of_its_buffers() {
    for is_direct in [false, true] {
        let recorder = Recorder::default();
        recorder.tape().is_direct = is_direct;
        let many = StoreConfig {
            buffers: 16,
            ..config(true)
        };
        let mut store = open(recorder, &many);
        let mut used = BTreeSet::new();
        for number in 0..100 {
            while store.totals().pending_bytes > 2 * 4096 {
                std::thread::yield_now();
            }
            let slot = store.reserve(4096).unwrap().expect("a buffer is empty");
            used.insert(slot.as_ptr().addr());
            put(slot, number);
        }
        assert!(used.len() <= 10, "{} buffers, {is_direct}", used.len());
        assert_eq!(store.close().finish().totals.written, 100);
    }
}

#[test]
fn after_the_disk_has_caught_up_the_store_has_its_first_buffers_again() {
    let gate = Gate::default();
    let mut store = open(gate.clone(), &growing(50));
    let mut accepted = fill(&mut store, 0);
    for _ in 0..3 {
        gate.allow(usize::MAX);
        let reached = store
            .wait_for(Stage::Written, Duration::from_secs(60))
            .unwrap();
        assert_eq!(reached, Stage::Written);
        assert_eq!(store.fill_level(), 0.0);
        assert!(store.buffers() <= 2 * 3, "{} buffers", store.buffers());
        gate.0.lock().allowed = 0;
        // And it can grow again, as far as before.
        let more = fill(&mut store, accepted);
        assert_eq!(more, 50 * 4);
        accepted += more;
    }
    gate.allow(usize::MAX);
    assert_eq!(store.close().finish().totals.written, accepted);
    assert_eq!(records(&gate.bytes()).len() as u64, accepted);
}

#[test]
fn a_store_that_has_grown_frees_its_memory_while_the_disk_keeps_up() {
    for is_direct in [false, true] {
        let gate = Gate::default();
        gate.0.lock().is_direct = is_direct;
        let mut store = open(gate.clone(), &growing(50));
        let mut accepted = fill(&mut store, 0);
        gate.allow(usize::MAX);
        store
            .wait_for(Stage::Written, Duration::from_secs(60))
            .unwrap();
        for _ in 0..400 {
            while store.totals().pending_bytes > 2 * 4096 {
                std::thread::yield_now();
            }
            append(&mut store, 1022, accepted).unwrap();
            accepted += 1;
        }
        // The current one, and one that is being written.
        let most = 3 + 2;
        assert!(store.buffers() <= most, "{}, {is_direct}", store.buffers());
        assert_eq!(store.close().finish().totals.written, accepted);
    }
}

#[test]
fn a_store_that_falls_behind_is_in_a_hurry_until_it_has_caught_up() {
    let gate = Gate::default();
    let config = StoreConfig {
        buffers: 8,
        ..growing(20)
    };
    let mut store = open(gate.clone(), &config);
    fill(&mut store, 0);
    gate.allow(usize::MAX);
    store
        .wait_for(Stage::Written, Duration::from_secs(60))
        .unwrap();
    let behind = gate.is_behind();
    assert_eq!(behind.len(), 20);
    assert!(behind[1..18].iter().all(|&behind| behind), "{behind:?}");
    append(&mut store, 100, 0).unwrap();
    store.close().finish();
    assert!(!gate.is_behind()[20]);
}

#[test]
fn a_store_does_not_grow_in_front_of_a_failed_write() {
    let recorder = Recorder::default();
    recorder.tape().script.push_back(Act::Fail(libc::EIO));
    let mut store = open(recorder.clone(), &growing(10_000));
    let mut accepted = 0;
    let error = loop {
        match append(&mut store, 1022, accepted) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    let before = store.buffers();
    accepted += fill(&mut store, accepted);
    assert_eq!(
        store.buffers(),
        before,
        "the store must not grow before the retry"
    );
    store.retry();
    accepted += 1;
    append(&mut store, 1022, accepted).unwrap();
    assert_eq!(store.close().finish().totals.written, accepted);
}

#[test]
fn records_that_would_be_dropped_make_the_store_grow_and_patient_ones_wait() {
    let gate = Gate::default();
    let config = StoreConfig {
        when_full: WhenFull::DropNewest,
        ..growing(10)
    };
    let mut log = Records::<u64>::in_blocks(Box::new(gate.clone()), &config).unwrap();
    let mut number = 0;
    while log.append(&number).unwrap() {
        number += 1;
    }
    assert_eq!(number, 10 * (4096 - 64) / 8);
    assert_eq!(log.totals().dropped, 1);
    gate.allow(usize::MAX);
    assert_eq!(log.close().finish().totals.written, number);

    let gate = Gate::default();
    gate.allow(usize::MAX);
    let mut log = Records::<u64>::in_blocks(Box::new(gate.clone()), &growing(10_000)).unwrap();
    for number in 0..100_000 {
        assert!(log.append(&number).unwrap());
    }
    let end = log.close().finish();
    assert_eq!(end.totals.written, 100_000);
    assert!(end.totals.high_water_bytes <= 3 * 4096);
}

#[test]
fn random_loads_on_a_growing_store_come_out_whole_and_in_order() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let gate = Gate::default();
        let mut store = open(gate.clone(), &growing(3 + dice.below(30) as u64));
        let mut oracle = Vec::new();
        for number in 0..600 {
            let len = 1 + dice.below(3000);
            gate.allow(dice.below(3));
            if dice.below(50) == 0 {
                gate.allow(100);
            }
            loop {
                if let Some(slot) = store.reserve(len + 2).unwrap() {
                    put(slot, number);
                    break;
                }
                gate.allow(1);
                store.wait_empty(Duration::from_millis(1));
            }
            oracle.push((len, number as u8));
        }
        gate.allow(usize::MAX);
        let end = store.close().finish();
        assert_eq!((end.totals.accepted, end.totals.written), (600, 600));
        assert_eq!(records(&gate.bytes()), oracle, "seed {seed}");
        assert!(end.totals.high_water_bytes > 0);
    }
}

#[test]
fn a_limit_is_a_share_of_what_is_available_and_never_less_than_the_first_buffers() {
    let bytes = |limit| {
        let config = StoreConfig {
            limit,
            huge_pages: false,
            ..StoreConfig::default()
        };
        let store = open(Gate::default(), &config);
        store.info().limit_bytes as u64
    };
    assert_eq!(bytes(Limit::Fixed), 64 << 20);
    assert_eq!(bytes(Limit::Bytes(1)), 64 << 20);
    assert_eq!(bytes(Limit::Bytes(100 << 20)), 100 << 20);
    let available = crate::memory::available().unwrap() as u64;
    let quarter = bytes(Limit::Percent(25));
    // Other processes allocate and free memory meanwhile.
    assert!(
        quarter <= available / 3 && quarter >= available / 6,
        "{quarter} of {available}"
    );
    let all = StoreConfig {
        limit: Limit::Bytes(available),
        ..StoreConfig::default()
    };
    let refused = all.check().unwrap_err().to_string();
    assert!(refused.contains("90 percent"), "{refused}");
}

#[test]
fn a_file_has_the_same_bytes_whether_its_store_hurries_or_not() {
    let folder = Folder::new();
    let path = folder.join("hurried");
    for seed in 0..10 {
        let mut dice = Dice(seed);
        let mut sink = FileSink::create(&path, &FileConfig::default()).unwrap();
        if !sink.is_direct() {
            eprintln!(
                "only cached writes: {} supports no direct ones",
                path.display()
            );
        }
        // Aligned like the file, as the buffers of a store are, or not.
        let mut region = crate::memory::Region::new(5 << 20, &Default::default()).unwrap();
        let mut oracle: Vec<u8> = Vec::new();
        for number in 0..20 {
            let pages = 1 + dice.below(1024);
            let len = if dice.below(4) == 0 {
                pages * 4096 - 100
            } else {
                pages * 4096
            };
            let from = if dice.below(4) == 0 {
                0
            } else {
                oracle.len() % 4096
            };
            let bytes = &mut region[from..from + len];
            bytes.fill(number);
            sink.hurry(dice.below(2) == 0);
            let mut done = 0;
            while done < len {
                done += sink
                    .write(&bytes[done..], oracle.len() as u64 + done as u64)
                    .unwrap();
            }
            oracle.extend(&*bytes);
            if dice.below(3) == 0 {
                sink.write_back(dice.below(2) == 0).unwrap();
            }
        }
        while sink.write_back(true).unwrap() > 0 {}
        assert!(sink.sync().unwrap());
        assert_eq!(
            sink.write_back(false).unwrap(),
            0,
            "the device has everything"
        );
        assert!(std::fs::read(&path).unwrap() == oracle, "seed {seed}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "real files")]
fn whole_pages_of_a_buffer_that_is_not_padded_are_written_past_the_page_cache() {
    let folder = Folder::new();
    let path = folder.join("edges");
    let mut sink = FileSink::create(&path, &FileConfig::default()).unwrap();
    if !sink.is_direct() {
        return eprintln!("skipped: {} supports no direct writes", path.display());
    }
    let mut region = crate::memory::Region::new(2 << 20, &Default::default()).unwrap();
    region[..2 << 20].fill(7);
    let mut at = 0;
    // What each call takes: whole pages at once, and less than a page before and after them.
    for (len, calls) in [
        ((1 << 20) - 96, vec![(1 << 20) - 4096, 4000]),
        ((1 << 20) + 96, vec![96, 1 << 20]),
        (1 << 20, vec![1 << 20]),
        (10_000, vec![10_000]),
        (1 << 20, vec![2288, (1 << 20) - 4096, 1808]),
    ] {
        let from = at as usize % 4096;
        let mut bytes = &region[from..from + len];
        for taken in calls {
            assert_eq!(sink.write(bytes, at).unwrap(), taken, "{len} bytes at {at}");
            at += taken as u64;
            bytes = &bytes[taken..];
        }
        assert!(bytes.is_empty());
    }
    let counted = sink.write_back(false).unwrap();
    assert_eq!(counted, 10_000, "all but the edges is written back early");
    let written = std::fs::read(&path).unwrap();
    assert!(written.len() as u64 == at && written.iter().all(|&byte| byte == 7));
}
