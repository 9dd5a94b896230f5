//! Tests of stores that readers see while records are appended: what arrives, what is lost, and what is refused.

use super::{testing::*, *};
use crate::{
    ring::broadcast::{BroadcastConfig, Producer, RecvError},
    sys::{page_size, sealed},
};
use forebay_testing::dice::Dice;
use std::{sync::Arc, thread, time::Duration};

fn live(config: &StoreConfig) -> (Live, LiveReader) {
    let live = Live::new(config, &LiveConfig::default()).unwrap();
    let [ring, buffers] = live.memory().map(|it| it.try_clone_to_owned().unwrap());
    (live, LiveReader::attach(ring, buffers).unwrap())
}

fn open_live(sink: impl Sink + 'static, config: &StoreConfig) -> (Appender, LiveReader) {
    let (live, reader) = live(config);
    let store = Appender::with_live(Box::new(sink), Arc::new(Lengths), config, live);
    (store.unwrap(), reader)
}

/// The length of record `number`: most are short, some as long as a buffer and more.
fn len(number: u64) -> usize {
    match number % 50 {
        49 => 5000 + number as usize % 3000,
        _ => 1 + number as usize * 37 % 300,
    }
}

/// What a reader has seen.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    read: u64,
    lost: u64,
    /// The record after the last one that was read or lost.
    next: u64,
}

impl Seen {
    /// Reads the next batch and checks each record that it contains. `false`: there is none.
    fn read(&mut self, reader: &mut LiveReader) -> bool {
        let batch = match reader.next_batch() {
            Ok(batch) => batch,
            Err(RecvError::Overrun { .. }) => return true,
            Err(RecvError::Empty | RecvError::Closed) => return false,
            Err(error) => panic!("{error}"),
        };
        assert!(batch.first >= self.next);
        self.lost += batch.first - self.next;
        self.next = batch.first;
        // In two parts, as a reader with a short buffer does.
        let mut bytes = vec![0; batch.len];
        let (one, two) = bytes.split_at_mut(batch.len / 3);
        if !reader.copy(&batch, 0, one) || !reader.copy(&batch, batch.len / 3, two) {
            return true;
        }
        let found = records(&bytes);
        assert_eq!(found.len() as u64, batch.records);
        for record in found {
            assert_eq!(record, (len(self.next), self.next as u8));
            (self.read, self.next) = (self.read + 1, self.next + 1);
        }
        true
    }
}

#[test]
fn readers_at_any_speed_see_whole_records_and_count_the_others() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let config = StoreConfig {
            limit: Limit::Bytes(32 << 10),
            ..of_seed(seed)
        };
        let total = 3000;
        let recorder = Recorder::fickle(&mut dice);
        let (mut store, reader) = open_live(recorder.clone(), &config);
        let [ring, buffers] = {
            let live = store.live().unwrap();
            live.memory().map(|it| it.try_clone_to_owned().unwrap())
        };
        let other = LiveReader::attach(ring, buffers).unwrap();
        let readers = [(reader, 0), (other, 300)].map(|(mut reader, pause)| {
            thread::spawn(move || {
                let mut seen = Seen::default();
                while seen.next < total {
                    if !seen.read(&mut reader) {
                        thread::yield_now();
                    }
                    (0..pause).for_each(|_| std::hint::spin_loop());
                }
                seen
            })
        });
        for number in 0..total {
            append(&mut store, len(number), number).unwrap();
            if dice.below(10) == 0 {
                store.publish(0);
            }
        }
        store.publish(0);
        for reader in readers {
            let seen = reader.join().unwrap();
            assert_eq!(seen.read + seen.lost, total, "seed {seed}");
        }
        assert_eq!(store.live().unwrap().published(), total);
        let end = store.close().finish();
        assert_eq!(end.totals.written, total);
        assert_eq!(records(&recorder.tape().bytes).len() as u64, total);
    }
}

/// The buffer filled longest ago is filled next, so a late reader finds all others.
#[test]
fn a_reader_that_comes_late_finds_what_the_buffers_hold_and_counts_the_rest() {
    for thread in [false, true] {
        for is_direct in [false, true] {
            let config = StoreConfig {
                buffers: 8,
                flush_every: Duration::ZERO,
                ..config(thread)
            };
            let recorder = Recorder::default();
            recorder.tape().is_direct = is_direct;
            let (mut store, mut reader) = open_live(recorder, &config);
            for number in 0..1000 {
                append(&mut store, len(number), number).unwrap();
                store.publish(number);
                if thread {
                    store.tick(number).unwrap();
                }
            }
            let mut seen = Seen::default();
            while seen.read(&mut reader) {}
            assert_eq!((seen.next, seen.read + seen.lost), (1000, 1000));
            // Of 8 buffers of 4096 bytes, one is being filled, and an eighth of the rest is skipped.
            let bytes: usize = (seen.lost..1000).map(len).sum();
            assert!(bytes > 5 * 4096, "{bytes}");
            assert!(seen.lost > 0);
            store.close().finish();
            assert_eq!(reader.next_batch(), Err(RecvError::Closed));
        }
    }
}

#[test]
fn records_in_buffers_that_were_added_are_shown_too() {
    let config = StoreConfig {
        limit: Limit::Bytes(1 << 20),
        ..config(true)
    };
    let recorder = Recorder::default();
    let (mut store, mut reader) = {
        let (live, reader) = live(&config);
        let sink = Box::new(Waiting(recorder.clone()));
        let store = Appender::with_live(sink, Arc::new(Lengths), &config, live).unwrap();
        (store, reader)
    };
    let held = recorder.tape(); // the writer waits for it
    let mut seen = Seen::default();
    for number in 0..1000 {
        append(&mut store, len(number), number).unwrap();
        if number % 7 == 6 {
            store.publish(0);
            while seen.read(&mut reader) {}
        }
    }
    store.publish(0);
    while seen.read(&mut reader) {}
    assert_eq!((seen.read, seen.lost), (1000, 0));
    assert!(store.buffers() > 20);
    drop(held);
    let end = store.close().finish();
    assert_eq!(end.totals.written, 1000);
    assert_eq!(records(&recorder.tape().bytes).len(), 1000);
}

/// Records of a length in 4 bytes, and zeros.
struct Long;

impl Framing for Long {
    fn takes_loans(&self) -> bool {
        true
    }
    fn last_whole(&self, bytes: &[u8]) -> Whole {
        let mut whole = Whole::default();
        while let Some(head) = bytes[whole.bytes..].first_chunk() {
            let end = whole.bytes + 4 + u32::from_le_bytes(*head) as usize;
            if end > bytes.len() {
                break;
            }
            whole.bytes = end;
            whole.records += 1;
        }
        whole
    }
}

#[test]
fn long_records_in_buffers_that_were_added_are_shown_too() {
    let config = StoreConfig {
        limit: Limit::Bytes(64 << 20),
        buffer_bytes: 1 << 20,
        record_bytes: 300_000,
        ..config(true)
    };
    let recorder = Recorder::default();
    let (live, mut reader) = live(&config);
    let sink = Box::new(Waiting(recorder.clone()));
    let mut store = Appender::with_live(sink, Arc::new(Long), &config, live).unwrap();
    let held = recorder.tape(); // the writer waits for it
    let mut seen = 0;
    for round in 0..40_usize {
        for record in 0..5 {
            let len = 1 + (round * 7919 + record * 70_001) % 290_000;
            let mut slot = store.reserve(4 + len).unwrap().unwrap();
            slot.fill(0);
            slot[..4].copy_from_slice(&(len as u32).to_le_bytes());
            slot.commit(1);
        }
        store.publish(0);
        while let Ok(batch) = reader.next_batch() {
            assert_eq!(batch.first, seen);
            let mut bytes = vec![0; batch.len];
            assert!(reader.copy(&batch, 0, &mut bytes));
            let whole = Long.last_whole(&bytes);
            assert_eq!((whole.bytes, whole.records), (batch.len, batch.records));
            seen += batch.records;
        }
        assert_eq!(seen, 5 * (round as u64 + 1));
    }
    assert!(store.buffers() > 20);
    drop(held);
    assert_eq!(store.close().finish().totals.written, 200);
}

/// A sink that is not asked anything before it writes.
struct Waiting(Recorder);

impl Sink for Waiting {
    fn write(&mut self, bytes: &[u8], at: u64) -> std::io::Result<usize> {
        self.0.write(bytes, at)
    }
    fn cut(&mut self, len: u64) -> std::io::Result<bool> {
        self.0.cut(len)
    }
    fn sync(&mut self) -> std::io::Result<bool> {
        self.0.sync()
    }
}

#[test]
fn a_reader_that_attaches_learns_how_many_records_there_were() {
    let config = config(false);
    let (mut store, _) = open_live(Recorder::default(), &config);
    append(&mut store, 1, 0).unwrap();
    store.publish(7);
    // All buffers are used again, without a record that is published.
    for _ in 0..10 {
        let stage = store.wait_for(Stage::Written, Duration::from_secs(60));
        assert!(stage.unwrap() >= Stage::Written);
    }
    let live = store.live().unwrap();
    let [ring, buffers] = live.memory().map(|it| it.try_clone_to_owned().unwrap());
    let mut late = LiveReader::attach(ring, buffers).unwrap();
    let (next, intact) = late.batches();
    assert_eq!(next, intact.end);
    assert!(intact.start < intact.end, "there is a message");
    late.seek(0);
    let batch = late.next_batch().unwrap();
    assert_eq!(batch.first + batch.records, 1);
}

#[test]
fn what_cannot_be_read_live_is_refused() {
    struct Sealed;
    impl Framing for Sealed {
        fn last_whole(&self, _: &[u8]) -> Whole {
            Whole::default()
        }
    }
    let config = config(false);
    let refused = |framing: Arc<dyn Framing>, live: Live, config: &StoreConfig| {
        let sink = Box::new(Recorder::default());
        let error = Appender::with_live(sink, framing, config, live).err();
        error.expect("refused").to_string()
    };
    let other = StoreConfig {
        buffers: 4,
        ..config.clone()
    };
    let longer = StoreConfig {
        record_bytes: 20_000,
        ..config.clone()
    };
    let made = || live(&config).0;
    assert!(refused(Arc::new(Sealed), made(), &config).contains("cannot be read live"));
    assert!(refused(Arc::new(Lengths), made(), &other).contains("other settings"));
    assert!(refused(Arc::new(Lengths), made(), &longer).contains("other settings"));
    let longest = StoreConfig {
        record_bytes: (1 << 20) + 1,
        ..config
    };
    let error = Live::new(&longest, &LiveConfig::default()).unwrap_err();
    assert!(error.to_string().contains("this long"), "{error}");
}

/// A ring with this message, as a hostile process may write it, beside one page of buffers.
fn hostile(message: &[u8]) -> LiveReader {
    let mut producer = Producer::new(&BroadcastConfig {
        data_bytes: 4 << 20,
        ..BroadcastConfig::default()
    })
    .unwrap();
    let (buffers, _mapping) = sealed::make("test", page_size()).unwrap();
    let ring = producer.memory().try_clone_to_owned().unwrap();
    let reader = LiveReader::attach(ring, buffers).unwrap();
    producer.publish(&[message]).unwrap();
    reader
}

#[test]
fn messages_that_cannot_be_are_an_error_and_nothing_worse() {
    let words = |words: [u64; 5]| words.map(u64::to_ne_bytes).concat();
    let page = page_size() as u64;
    let batch = hostile(&words([page - 8, 8, 8, 3, 9]))
        .next_batch()
        .unwrap();
    assert_eq!((batch.first, batch.records, batch.tag), (3, 8, 9));
    for message in [
        vec![0; 39],
        words([page - 8, 9, 1, 0, 0]),
        words([page + 1, 0, 0, 0, 0]),
        words([u64::MAX - 1, 2, 1, 0, 0]),
        words([0, 8, 9, 0, 0]),
        words([0, 8, 1, u64::MAX, 0]),
        words([u64::MAX, 8, 1, 0, 0]),
        [words([u64::MAX, 8, 1, 0, 0]), vec![0; 9]].concat(),
        vec![0; 1_100_000],
    ] {
        let mut reader = hostile(&message);
        assert_eq!(reader.next_batch(), Err(RecvError::Broken), "{message:?}");
    }
    let mut copied = hostile(&[words([u64::MAX, 8, 1, 0, 0]), vec![7; 8]].concat());
    let batch = copied.next_batch().unwrap();
    let mut bytes = [0; 3];
    assert!(copied.copy(&batch, 5, &mut bytes));
    assert_eq!(bytes, [7; 3]);
}

#[test]
fn a_reader_attaches_to_nothing_but_sealed_memory() {
    let (made, _) = live(&config(false));
    let ring = || made.memory()[0].try_clone_to_owned().unwrap();
    let open = sealed::create("test").unwrap();
    let error = LiveReader::attach(ring(), open).unwrap_err().to_string();
    assert!(error.contains("not sealed"), "{error}");
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let error = LiveReader::attach(ring(), file.into()).unwrap_err();
    assert!(error.to_string().contains("not memory"), "{error}");
}
