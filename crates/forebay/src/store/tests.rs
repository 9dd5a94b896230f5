//! What users rely on: bytes in order, no silent loss, and counts that add up.

use super::{
    testing::{
        Act, Lengths, Recorder, Stuck, append, config, kept_what_fits, of_seed, open, put, records,
    },
    *,
};
use crate::{records::Records, time::Clock};
use forebay_testing::dice::{Dice, times};
use std::{io, sync::Arc, time::Duration};

#[test]
fn random_records_come_out_whole_and_in_order_whatever_the_sink_takes() {
    const MANY: u64 = times(400, 60);
    for seed in 0..times(60, 2) {
        let mut dice = Dice(seed);
        let recorder = Recorder::fickle(&mut dice);
        recorder.tape().is_direct = dice.below(2) == 0;
        let mut store = open(recorder.clone(), &of_seed(seed));
        let mut oracle = Vec::new();
        for number in 0..MANY {
            let longest = if dice.below(10) == 0 { 8900 } else { 200 };
            let len = 1 + dice.below(longest);
            append(&mut store, len, number).unwrap();
            oracle.push((len, number as u8));
            match dice.below(40) {
                0 => store.flush().unwrap(),
                1 => store.tick(number * 1_000_000_000).unwrap(),
                2 => drop(store.reserve(dice.below(9000)).unwrap()), // aborted
                _ => {}
            }
        }
        let end = store.close().finish();
        assert_eq!((end.totals.accepted, end.totals.written), (MANY, MANY));
        assert!(end.durable && end.error.is_none());
        let tape = recorder.tape();
        assert_eq!(end.totals.written_bytes, tape.bytes.len() as u64);
        assert_eq!(records(&tape.bytes), oracle, "seed {seed}");
    }
}

#[test]
fn without_a_tick_the_writer_thread_writes_what_is_accepted() {
    let recorder = Recorder::default();
    let config = StoreConfig {
        flush_every: Duration::from_millis(1),
        ..config(true)
    };
    let mut store = open(recorder.clone(), &config);
    for number in 0..50 {
        append(&mut store, 10, number).unwrap();
        let begun = std::time::Instant::now();
        while store.totals().written <= number {
            assert!(begun.elapsed() < Duration::from_secs(60), "never written");
            std::thread::yield_now();
        }
    }
    assert_eq!(store.output_bytes(), 50 * 12);
    assert_eq!(records(&recorder.tape().bytes).len(), 50);
    // Everything is written, so nothing has to be handed over for this.
    let stage = store.wait_for(Stage::Durable, Duration::from_secs(60));
    assert_eq!(stage.unwrap(), Stage::Durable);
}

#[test]
fn a_full_disk_keeps_whole_records_and_counts_the_rest_as_lost() {
    for seed in 0..times(80, 2) {
        let mut dice = Dice(seed);
        let recorder = Recorder::default();
        recorder.tape().room = Some(dice.below(30_000));
        let mut store = open(recorder.clone(), &of_seed(seed));
        let mut accepted = 0;
        let mut error = None;
        while accepted < times(300, 40) && error.is_none() {
            match append(&mut store, 1 + dice.below(300), accepted) {
                Ok(()) => accepted += 1,
                Err(e) => error = Some(e),
            }
        }
        let end = store.close().finish();
        kept_what_fits(&recorder, error, accepted, end, seed);
    }
}

#[test]
fn an_error_is_told_once_and_retry_resumes_without_a_hole() {
    for thread in [false, true] {
        let recorder = Recorder::default();
        let script = [Act::Take(1000), Act::Fail(libc::EIO), Act::Take(7)];
        recorder.tape().script.extend(script);
        let mut store = open(recorder.clone(), &config(thread));
        for number in 0..30 {
            append(&mut store, 100, number).unwrap();
        }
        store.flush().unwrap();
        let told = loop {
            match store.reserve(10) {
                Err(error) => break error,
                Ok(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(told.raw_os_error(), Some(libc::EIO));
        assert!(store.reserve(10).is_ok(), "reported once");
        store.retry();
        for number in 30..60 {
            append(&mut store, 100, number).unwrap();
        }
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.error.is_none()), (60, true));
        let kept = records(&recorder.tape().bytes);
        assert_eq!(kept, (0..60).map(|n| (100, n)).collect::<Vec<_>>());
    }
}

/// Panics where its value says.
#[derive(Clone, Copy, PartialEq)]
enum Panics {
    Write,
    Seal,
}

impl Sink for Panics {
    fn write(&mut self, bytes: &[u8], _: u64) -> io::Result<usize> {
        assert!(*self != Panics::Write, "a panic of the caller's");
        Ok(bytes.len())
    }
}

impl Framing for Panics {
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let (bytes, records) = (bytes.len(), 0);
        Whole { bytes, records }
    }
    fn seal(&self, _: &mut [u8], _: &Seal) {
        assert!(*self != Panics::Seal, "a panic of the caller's");
    }
}

#[test]
fn a_panic_of_a_sink_or_framing_is_reported_and_never_looks_like_a_full_store() {
    for panics in [Panics::Write, Panics::Seal] {
        let config = StoreConfig {
            limit: Limit::Fixed,
            ..config(true)
        };
        let mut store = Appender::new(Box::new(panics), Arc::new(panics), &config).unwrap();
        for _ in 0..2 {
            // Also once the error was taken, and after a retry that nobody obeys.
            let error = (0..20_000).find_map(|_| match store.reserve(100) {
                Ok(Some(record)) => {
                    record.commit(100);
                    None
                }
                Ok(None) => {
                    store.wait_empty(Duration::from_millis(1));
                    None
                }
                Err(error) => Some(error.to_string()),
            });
            assert_eq!(error.as_deref(), Some("the writer thread died"));
            store.retry();
        }
        assert!(store.close().finish().error.is_some());
    }
}

#[test]
fn closing_after_an_error_that_nobody_retried_does_not_wait_for_ever() {
    let recorder = Recorder::default();
    recorder.tape().script.push_back(Act::Fail(libc::EIO));
    let mut store = open(recorder.clone(), &config(true));
    append(&mut store, 100, 0).unwrap();
    store.flush().unwrap();
    while store.tick(0).is_ok() {}
    let end = store.close().finish();
    assert_eq!((end.totals.accepted, end.totals.written), (1, 0));
    assert!(end.error.is_none(), "it was reported before");
}

#[test]
fn whole_buffers_are_aligned_again_after_a_due_flush() {
    let recorder = Recorder::default();
    recorder.tape().is_direct = true;
    let mut store = open(recorder.clone(), &config(false));
    for number in 0..500 {
        append(&mut store, 90, number).unwrap();
        if number == 250 {
            store.flush().unwrap();
        }
    }
    store.close().finish();
    let tape = recorder.tape();
    assert_eq!(records(&tape.bytes).len(), 500);
    let direct = |&(at, len): &(u64, usize)| at % 4096 == 0 && len % 4096 == 0;
    let buffered: Vec<_> = tape.writes.iter().filter(|write| !direct(write)).collect();
    // The flushed part, the part that pads up to the next boundary, and the last.
    assert_eq!(buffered.len(), 3, "{:?}", tape.writes);
}

#[test]
fn a_reader_that_stands_still_can_be_given_up() {
    let mut store = open(Stuck, &config(true));
    append(&mut store, 100, 0).unwrap();
    let closing = store.close();
    let Err(closing) = closing.wait(Duration::from_millis(10)) else {
        panic!("the store cannot have finished yet");
    };
    closing.abandon();
    let end = closing.finish();
    assert_eq!((end.totals.accepted, end.totals.written), (1, 0));
    assert!(!end.durable && end.error.is_none());
}

#[test]
fn no_empty_buffer_is_an_answer_and_nothing_is_accepted() {
    let recorder = Recorder::default();
    recorder.tape().script.push_back(Act::Fail(libc::EIO));
    let mut store = open(recorder.clone(), &config(false));
    let mut accepted = 0;
    let mut told = 0;
    loop {
        match store.reserve(1000) {
            Ok(Some(slot)) => {
                put(slot, 0);
                accepted += 1;
            }
            Ok(None) => break,
            Err(_) => told += 1,
        }
    }
    assert_eq!((told, store.totals().accepted), (1, accepted));
    assert!(!store.wait_empty(Duration::from_millis(1)));
    store.retry();
    assert!(store.wait_empty(Duration::from_millis(1)));
    assert_eq!(store.close().finish().totals.written, accepted);
}

#[test]
fn dropping_a_store_writes_what_it_holds() {
    for thread in [false, true] {
        let recorder = Recorder::default();
        let mut store = open(recorder.clone(), &config(thread));
        append(&mut store, 100, 7).unwrap();
        drop(store);
        assert_eq!(records(&recorder.tape().bytes), [(100, 7)]);
    }
}

#[test]
fn a_buffer_leaves_when_it_is_due_and_not_before() {
    let clock = Clock::virtual_time();
    let recorder = Recorder::default();
    let mut store = open(recorder.clone(), &config(false));
    append(&mut store, 100, 0).unwrap();
    store.tick(clock.now()).unwrap();
    assert_eq!(store.due_at(), Some(1_000_000_000));
    clock.sleep(Duration::from_millis(999));
    store.tick(clock.now()).unwrap();
    assert_eq!(store.totals().written, 0);
    clock.sleep(Duration::from_millis(1));
    store.tick(clock.now()).unwrap();
    assert_eq!((store.totals().written, store.due_at()), (1, None));
}

#[test]
fn senseless_sizes_are_refused_with_a_reason() {
    type Change = fn(&mut StoreConfig);
    let senseless: [Change; 6] = [
        |config| config.buffers = 1,
        |config| config.buffer_bytes = 0,
        |config| config.buffer_bytes = 5000,
        |config| config.record_bytes = 0,
        |config| config.buffers = 1 << 40,
        |config| config.buffer_bytes = 1 << 60,
    ];
    for change in senseless {
        let mut config = config(true);
        change(&mut config);
        let made = Appender::new(Box::new(Recorder::default()), Arc::new(Lengths), &config);
        let Err(error) = made else {
            panic!("{config:?}");
        };
        assert!(error.to_string().contains("Use") || error.to_string().len() > 20);
    }
}

#[test]
#[cfg_attr(miri, ignore = "real files")]
fn files_are_written_past_the_page_cache_and_through_it_with_the_same_bytes() {
    let folder =
        std::path::Path::new("/var/tmp").join(format!("forebay-store-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for direct in [false, true] {
        let path = folder.join(format!("{direct}"));
        let sink = FileSink::create(
            &path,
            &FileConfig {
                direct,
                ..FileConfig::default()
            },
        )
        .unwrap();
        let mut store = open(sink, &config(true));
        for number in 0..5000 {
            append(&mut store, 100, number).unwrap();
        }
        let end = store.close().finish();
        assert_eq!((end.totals.written, end.durable), (5000, true));
        assert_eq!(records(&std::fs::read(&path).unwrap()).len(), 5000);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "real files")]
fn a_path_that_cannot_be_made_says_why() {
    let missing = FileSink::create("/nonexistent/a.pcapng", &FileConfig::default());
    let text = missing.err().unwrap().to_string();
    assert!(
        text.contains("/nonexistent/a.pcapng") && text.contains("folder"),
        "{text}"
    );
    assert!(FileSink::create("/", &FileConfig::default()).is_err());
}

#[test]
fn an_error_that_nobody_took_is_told_at_the_end() {
    for thread in [false, true] {
        let recorder = Recorder::default();
        recorder.tape().script.push_back(Act::Fail(libc::EIO));
        let mut store = open(recorder.clone(), &config(thread));
        append(&mut store, 100, 0).unwrap();
        let end = store.close().finish();
        let error = end.error.expect("the error is reported");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert_eq!((end.totals.accepted, end.totals.written), (1, 0));
    }
}

#[test]
fn a_retry_without_an_error_answers_no_later_one() {
    let recorder = Recorder::default();
    let mut store = open(recorder.clone(), &config(true));
    store.retry();
    recorder.tape().script.push_back(Act::Fail(libc::EIO));
    append(&mut store, 100, 0).unwrap();
    let end = store.close().finish();
    assert_eq!((end.totals.written, end.error.is_some()), (0, true));
}

#[test]
fn giving_up_stops_a_slow_disk_between_two_writes() {
    struct Slow(Recorder);
    impl Sink for Slow {
        fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(20));
            self.0.write(bytes, at)
        }
        fn sync(&mut self) -> io::Result<bool> {
            panic!("an abandoned store must not sync");
        }
    }
    let recorder = Recorder::default();
    let abandon = Abandon::default();
    let config = StoreConfig {
        buffers: 20,
        abandon: abandon.clone(),
        ..config(true)
    };
    let mut store = open(Slow(recorder.clone()), &config);
    for number in 0..700 {
        append(&mut store, 100, number).unwrap();
    }
    let closing = store.close();
    abandon.set();
    let end = closing.finish();
    assert!(end.totals.written < 700 && !end.durable && end.error.is_none());
    let kept = records(&recorder.tape().bytes).len() as u64;
    assert_eq!(kept, end.totals.written);
}

#[test]
fn behind_a_slow_writer_a_due_buffer_goes_on_filling() {
    let config = StoreConfig {
        flush_every: Duration::ZERO,
        ..config(true)
    };
    let mut store = open(Stuck, &config);
    let mut accepted = 0;
    while let Some(mut slot) = store.reserve(100).unwrap() {
        slot.fill(0);
        slot.commit(1);
        accepted += 1;
        store.tick(accepted).unwrap();
    }
    assert!(
        accepted > 70,
        "only {accepted} records of 100 bytes in 12 KiB"
    );
    let closing = store.close();
    closing.abandon();
    assert_eq!(closing.finish().totals.written, 0);
}

#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn a_socket_whose_reader_stands_still_does_not_block() {
    let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let file = std::fs::File::from(std::os::fd::OwnedFd::from(theirs));
    let mut sink = StreamSink::new(file);
    let block = [0; 65536];
    let stuck = (0..1000).find_map(|_| sink.write(&block, 0).err());
    assert_eq!(stuck.unwrap().kind(), io::ErrorKind::WouldBlock);
    sink.wait(Duration::from_millis(1)).unwrap();
}

#[test]
#[cfg_attr(miri, ignore = "real files")]
fn a_file_in_memory_says_so_and_what_may_wait_does_not() {
    let device = FileSink::create("/dev/null", &FileConfig::default()).unwrap();
    assert!(
        !device.is_in_memory(),
        "a device is not known to be in memory"
    );
    let shared = std::path::Path::new("/dev/shm");
    if !shared.is_dir() {
        return eprintln!("skipped: needs /dev/shm");
    }
    let path = shared.join(format!("forebay-in-memory-{}", std::process::id()));
    let sink = FileSink::create(&path, &FileConfig::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(sink.is_in_memory() && !sink.is_direct());
}

#[test]
fn every_write_is_as_aligned_in_memory_as_in_the_output() {
    /// Checks each write, and takes all of it.
    struct Checks(u64);
    impl Sink for Checks {
        fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
            assert_eq!(at, self.0);
            assert_eq!(bytes.as_ptr().addr() % 64, at as usize % 64);
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
    }
    for thread in [false, true] {
        let mut plain = Records::<[u8; 28]>::plain(Box::new(Checks(0)), &config(thread)).unwrap();
        let mut blocks =
            Records::<[u64; 3]>::in_blocks(Box::new(Checks(0)), &config(thread)).unwrap();
        for number in 0..1000 {
            plain.append(&[7; 28]).unwrap();
            // A panic here would mean that the records of some block are not aligned.
            blocks.append_with(|slot| *slot = [number; 3]).unwrap();
            if number % 97 == 0 {
                plain.flush().unwrap();
                blocks.flush().unwrap();
            }
            assert_eq!(plain.output_bytes(), (number + 1) * 28);
            assert_eq!(plain.totals().accepted, number + 1);
            assert_eq!(blocks.totals().accepted, number + 1);
        }
        for end in [plain.close().finish(), blocks.close().finish()] {
            assert_eq!((end.totals.written, end.error.is_none()), (1000, true));
        }
    }
}
