//! What users rely on with loans: lent records are like others, in order and counted, and their memory is returned.

use super::{
    testing::{
        Act, Recorder, Shelves, Stuck, append, config, kept_what_fits, of_seed, open, records,
    },
    *,
};
use crate::Result;
use forebay_testing::dice::{Dice, times};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// Memory that counts its returns.
struct Home(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Home {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

/// Records of `lens` bytes, the first numbered `first`, after some bytes that do not belong to them.
fn composed(lens: &[usize], first: u64, home: &Arc<AtomicUsize>) -> Loan {
    let mut bytes = vec![0xee; 5];
    for (len, number) in lens.iter().zip(first..) {
        bytes.extend((*len as u16).to_le_bytes());
        bytes.resize(bytes.len() + len, number as u8);
    }
    let end = bytes.len();
    bytes.push(0xee);
    Loan::new(Home(bytes, home.clone()), 5..end)
}

/// Lends records; waits when no buffer is empty.
fn lend(store: &mut Appender, lens: &[usize], first: u64, home: &Arc<AtomicUsize>) -> Result<()> {
    loop {
        if let Some(carrier) = store.carrier()? {
            carrier.carry(composed(lens, first, home), lens.len() as u64);
            return Ok(());
        }
        store.wait_empty(Duration::from_millis(1));
    }
}

#[test]
fn loans_and_records_in_place_come_out_in_order_whatever_the_sink_takes() {
    for seed in 0..times(60, 2) {
        let mut dice = Dice(seed);
        let recorder = Recorder::fickle(&mut dice);
        let mut store = open(recorder.clone(), &of_seed(seed));
        let home = Arc::default();
        let (mut oracle, mut loans) = (Vec::new(), 0);
        while oracle.len() < times(400, 60) {
            let number = oracle.len() as u64;
            let lens: Vec<_> = (0..1 + dice.below(20))
                .map(|_| 1 + dice.below(300))
                .collect();
            match dice.below(3) {
                0 => {
                    lend(&mut store, &lens, number, &home).unwrap();
                    loans += 1;
                    let numbered = lens.iter().zip(number..);
                    oracle.extend(numbered.map(|(&len, number)| (len, number as u8)));
                }
                _ => {
                    append(&mut store, lens[0], number).unwrap();
                    oracle.push((lens[0], number as u8));
                }
            }
            match dice.below(30) {
                0 => store.flush().unwrap(),
                1 => store.tick(number * 1_000_000_000).unwrap(),
                2 => drop(store.carrier().unwrap()), // nothing is lent
                _ => {}
            }
        }
        let all = oracle.len() as u64;
        let end = store.close().finish();
        assert_eq!((end.totals.accepted, end.totals.written), (all, all));
        assert!(end.durable && end.error.is_none());
        let tape = recorder.tape();
        assert_eq!(end.totals.written_bytes, tape.bytes.len() as u64);
        assert_eq!(records(&tape.bytes), oracle, "seed {seed}");
        assert_eq!(home.load(SeqCst), loans, "all memory is returned");
    }
}

#[test]
fn a_full_disk_behind_loans_keeps_whole_records_and_counts_the_rest_as_lost() {
    for seed in 0..times(80, 2) {
        let mut dice = Dice(seed);
        let recorder = Recorder::default();
        recorder.tape().room = Some(dice.below(30_000));
        let mut store = open(recorder.clone(), &of_seed(seed));
        let (home, mut loans) = (Arc::default(), 0);
        let (mut accepted, mut error) = (0, None);
        while accepted < 400 && error.is_none() {
            let lens: Vec<_> = (0..1 + dice.below(9))
                .map(|_| 1 + dice.below(300))
                .collect();
            let (done, records) = match dice.below(2) {
                0 => (append(&mut store, lens[0], accepted), 1),
                _ => {
                    let done = lend(&mut store, &lens, accepted, &home);
                    loans += usize::from(done.is_ok());
                    (done, lens.len() as u64)
                }
            };
            match done {
                Ok(()) => accepted += records,
                Err(e) => error = Some(e),
            }
        }
        let end = store.close().finish();
        kept_what_fits(&recorder, error, accepted, end, seed);
        assert_eq!(home.load(SeqCst), loans, "lost loans are returned, too");
    }
}

#[test]
fn a_retry_goes_on_in_the_middle_of_a_loan() {
    for thread in [false, true] {
        let recorder = Recorder::default();
        let script = [Act::Take(1000), Act::Fail(libc::EIO), Act::Take(7)];
        recorder.tape().script.extend(script);
        let mut store = open(recorder.clone(), &config(thread));
        let home = Arc::default();
        append(&mut store, 100, 0).unwrap();
        lend(&mut store, &[100; 20], 1, &home).unwrap();
        let told = loop {
            match store.flush() {
                Err(error) => break error,
                Ok(()) => std::thread::yield_now(),
            }
        };
        assert_eq!(told.raw_os_error(), Some(libc::EIO));
        store.retry();
        append(&mut store, 100, 21).unwrap();
        lend(&mut store, &[100; 20], 22, &home).unwrap();
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.error.is_none()), (42, true));
        let kept = records(&recorder.tape().bytes);
        assert_eq!(kept, (0..42).map(|n| (100, n)).collect::<Vec<_>>());
        assert_eq!(home.load(SeqCst), 2);
    }
}

#[test]
fn loans_that_are_given_up_come_back() {
    let mut store = open(Stuck, &config(true));
    let home = Arc::default();
    lend(&mut store, &[100; 50], 0, &home).unwrap();
    lend(&mut store, &[100; 50], 50, &home).unwrap();
    let closing = store.close();
    closing.abandon();
    let end = closing.finish();
    assert_eq!((end.totals.accepted, end.totals.written), (100, 0));
    assert_eq!(home.load(SeqCst), 2);
}

#[test]
fn with_everything_lent_out_no_buffer_is_empty_and_nothing_more_is_asked_for() {
    let recorder = Recorder::default();
    recorder.tape().script.push_back(Act::Fail(libc::EIO));
    let mut store = open(recorder.clone(), &config(false));
    let home = Arc::default();
    let (mut told, mut loans) = (0, 0);
    loop {
        match store.carrier() {
            Ok(Some(carrier)) => {
                carrier.carry(composed(&[100; 50], loans * 50, &home), 50);
                loans += 1;
            }
            Ok(None) => break,
            Err(_) => told += 1,
        }
    }
    assert_eq!((told, loans), (1, 3), "one loan for each buffer");
    store.retry();
    assert!(store.wait_empty(Duration::from_millis(1)));
    assert_eq!(store.close().finish().totals.written, 150);
}

#[test]
fn the_next_output_begins_behind_a_loan() {
    let shelves = Shelves::default();
    let files = Files::open(shelves.clone()).unwrap();
    let mut store = open(files, &config(true));
    let home = Arc::default();
    lend(&mut store, &[10; 3], 0, &home).unwrap();
    assert_eq!(store.output_bytes(), 36);
    while !store.next_output().unwrap() {
        store.wait_empty(Duration::from_millis(1));
    }
    assert_eq!(store.output_bytes(), 0);
    append(&mut store, 10, 3).unwrap();
    lend(&mut store, &[10; 2], 4, &home).unwrap();
    assert_eq!(store.close().finish().totals.written, 6);
    let outputs = &shelves.shelf().outputs;
    assert_eq!(records(&outputs[0]), [(10, 0), (10, 1), (10, 2)]);
    assert_eq!(records(&outputs[1]), [(10, 3), (10, 4), (10, 5)]);
}

#[test]
fn where_something_belongs_around_the_records_nothing_is_lent() {
    let direct = Recorder::default();
    direct.tape().is_direct = true;
    let always = StoreConfig {
        sync: SyncPolicy::Always,
        ..config(true)
    };
    for mut store in [
        open(direct, &config(true)),
        open(Recorder::default(), &always),
    ] {
        assert!(!store.takes_loans());
        let told = store.carrier().err().expect("the loan is refused");
        assert!(told.to_string().contains("lent memory"), "{told}");
        assert_eq!(store.totals().accepted, 0);
    }
}
