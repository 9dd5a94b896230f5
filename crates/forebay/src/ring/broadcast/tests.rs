//! Tests of the public types: what arrives, what is lost, waiting, and what is refused.

use super::{
    layout::{BELL, ENDED, Entry, Layout, NOTED, NOTES, OLDEST, PUBLISHED},
    reading::Reading,
    *,
};
use crate::{
    memory::words::{self, Ours},
    sync::{Deadline, atomic::Ordering::Relaxed},
    sys::{page_size, sealed},
};
use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
    thread,
    time::Duration,
};

fn ring(data_bytes: usize, messages: usize) -> (Producer, Reader) {
    let config = BroadcastConfig {
        data_bytes,
        messages,
        ..BroadcastConfig::default()
    };
    let producer = Producer::new(&config).unwrap();
    let reader = producer.reader().unwrap();
    (producer, reader)
}

/// A message of `len` bytes that says which one it is in each byte.
fn message(number: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (number as usize * 31 + at * 7) as u8)
        .collect()
}

#[test]
fn messages_of_any_length_arrive_as_they_were_published_also_across_the_end_of_the_memory() {
    let (mut producer, mut reader) = ring(1, 64);
    let mut buffer = vec![0; reader.largest()];
    for number in 0..2000_u64 {
        let len = number as usize * 37 % (producer.largest() + 1);
        let bytes = message(number, len);
        let (first, rest) = bytes.split_at(len / 3);
        assert_eq!(producer.publish(&[first, rest]), Ok(number));
        let got = reader.try_recv(&mut buffer).unwrap();
        assert_eq!((got.sequence, &buffer[..got.len]), (number, &*bytes));
    }
    assert_eq!(reader.try_recv(&mut buffer), Err(RecvError::Empty));
    assert_eq!(reader.stats().received, 2000);
    assert_eq!(
        reader.stats().received_bytes,
        producer.stats().published_bytes
    );
}

#[test]
fn messages_that_are_appended_arrive_when_they_are_published() {
    let (mut producer, mut reader) = ring(1 << 16, 128);
    let mut buffer = [0; 8];
    for number in 0..3_u64 {
        assert_eq!(producer.append(&[&number.to_le_bytes()]), Ok(number));
        assert_eq!(reader.try_recv(&mut buffer), Err(RecvError::Empty));
    }
    let stats = producer.stats();
    assert_eq!((stats.published, stats.published_bytes), (0, 0));
    producer.publish_appended();
    let stats = producer.stats();
    assert_eq!((stats.published, stats.published_bytes), (3, 24));
    for number in 0..3 {
        assert_eq!(reader.try_recv(&mut buffer).unwrap().sequence, number);
    }
    // One message publishes those before it, and a full ring publishes what it gives up.
    producer.append(&[b"3"]).unwrap();
    assert_eq!(producer.publish(&[b"4"]), Ok(4));
    assert_eq!(reader.intact(), 0..5);
    for number in 5..1000 {
        assert_eq!(producer.append(&[b"more"]), Ok(number));
        let stats = producer.stats();
        assert!(stats.oldest <= stats.published);
    }
    let Err(RecvError::Overrun { lost }) = reader.try_recv(&mut []) else {
        panic!("no overrun");
    };
    assert!(3 + lost <= producer.stats().published);
    drop(producer); // publishes the rest
    for number in 3 + lost..1000 {
        assert_eq!(reader.try_recv(&mut buffer).unwrap().sequence, number);
    }
    assert_eq!(reader.try_recv(&mut buffer), Err(RecvError::Closed));
}

/// The memory of a large ring has huge pages, if the kernel can make them. Readers accept it with and without.
#[test]
fn readers_attach_to_large_rings() {
    let (mut producer, mut reader) = ring(3 << 20, 1 << 14);
    let bytes = message(7, 1 << 20);
    let mut buffer = vec![0; reader.largest()];
    for number in 0..10 {
        assert_eq!(producer.publish(&[&bytes]), Ok(number));
        let got = reader.try_recv(&mut buffer).unwrap();
        assert_eq!((got.sequence, &buffer[..got.len]), (number, &*bytes));
    }
}

#[test]
fn a_reader_that_is_overtaken_before_the_ring_is_closed_receives_all_that_is_intact() {
    let (mut producer, mut reader) = ring(1 << 16, 128);
    for number in 0..1000 {
        producer.publish(&[&message(number, 100)]).unwrap();
    }
    let intact = reader.intact();
    drop(producer);
    let mut buffer = vec![0; reader.largest()];
    let lost = intact.start;
    assert_eq!(
        reader.try_recv(&mut buffer),
        Err(RecvError::Overrun { lost })
    );
    for number in intact {
        assert_eq!(reader.try_recv(&mut buffer).unwrap().sequence, number);
    }
    assert_eq!(reader.try_recv(&mut buffer), Err(RecvError::Closed));
}

#[test]
fn a_reader_that_is_overtaken_learns_how_many_messages_it_has_lost() {
    let (mut producer, mut reader) = ring(1 << 16, 128);
    for number in 0..1000_u64 {
        producer.publish(&[&number.to_le_bytes()]).unwrap();
    }
    let oldest = producer.stats().oldest;
    assert!((1000 - 128..1000 - 120).contains(&oldest), "{oldest}");
    let Err(RecvError::Overrun { lost }) = reader.try_recv(&mut []) else {
        panic!("no overrun");
    };
    assert!(lost >= oldest);
    let mut buffer = [0; 8];
    for number in lost..1000 {
        assert_eq!(reader.try_recv(&mut buffer).unwrap().sequence, number);
        assert_eq!(u64::from_le_bytes(buffer), number);
    }
    let stats = reader.stats();
    assert_eq!((stats.received + stats.lost, stats.lost), (1000, lost));
    // All that is intact is available.
    assert_eq!(reader.seek_oldest(), oldest);
    assert_eq!(reader.intact(), oldest..1000);
    assert_eq!(reader.try_recv(&mut buffer).unwrap().sequence, oldest);
    assert_eq!(reader.seek(990), 990);
    assert_eq!(reader.seek_newest(), 1000);
    assert_eq!(reader.stats().lost, lost);
}

#[test]
fn large_messages_overwrite_the_small_ones_before_them() {
    let (mut producer, mut reader) = ring(1, 64);
    let largest = producer.largest();
    for _ in 0..50 {
        producer.publish(&[b"small"]).unwrap();
    }
    for _ in 0..3 {
        producer.publish(&[&vec![7; largest]]).unwrap();
    }
    assert!(producer.stats().oldest > 50);
    assert!(matches!(
        reader.try_recv(&mut []),
        Err(RecvError::Overrun { .. })
    ));
    let mut buffer = vec![0; largest];
    assert_eq!(reader.try_recv(&mut buffer).unwrap().len, largest);
    assert_eq!(buffer, vec![7; largest]);
    assert_eq!(producer.publish(&[&buffer, b"x"]), Err(TooLong { largest }));
    assert_eq!(producer.stats().published, 53);
}

#[test]
fn a_message_that_is_longer_than_the_buffer_stays() {
    let (mut producer, mut reader) = ring(4096, 8);
    producer.publish(&[b"hello"]).unwrap();
    let mut buffer = [0; 5];
    let short = reader.try_recv(&mut buffer[..4]);
    assert_eq!(short, Err(RecvError::TooSmall { needed: 5 }));
    reader.try_recv(&mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
}

#[test]
fn notes_stay_for_readers_that_attach_late() {
    let config = BroadcastConfig {
        note_bytes: 40,
        messages: 1,
        ..BroadcastConfig::default()
    };
    let mut producer = Producer::new(&config).unwrap();
    let early = producer.reader().unwrap();
    assert_eq!(early.note(0, 9), None);
    producer.note(b"eth0").unwrap();
    producer.note(b"").unwrap();
    assert_eq!(producer.note(&[0; 9]), Err(NotesFull { left: 8 }));
    producer.note(b"wlan0").unwrap();
    assert_eq!(producer.note(b""), Err(NotesFull { left: 0 }));
    for _ in 0..100 {
        producer.publish(&[b"message"]).unwrap();
    }
    for reader in [early, producer.reader().unwrap()] {
        let notes: Vec<_> = (0..).map_while(|number| reader.note(number, 9)).collect();
        assert_eq!(reader.note(0, 3).as_deref(), Some(&b"eth"[..]));
        assert_eq!(notes, [&b"eth0"[..], b"", b"wlan0"]);
    }
}

#[test]
fn a_closed_ring_hands_out_what_it_holds_and_then_ends() {
    let (mut producer, mut reader) = ring(4096, 8);
    producer.publish(&[b"last"]).unwrap();
    drop(producer);
    let mut buffer = [0; 8];
    assert_eq!(reader.recv(&mut buffer).unwrap().len, 4);
    assert_eq!(reader.recv(&mut buffer), Err(RecvError::Closed));
    assert_eq!(reader.try_recv(&mut buffer), Err(RecvError::Closed));
    reader.seek_oldest();
    assert_eq!(reader.recv(&mut buffer).unwrap().len, 4);
}

#[test]
fn sleeping_readers_are_woken_by_one_call_and_a_time_limit_ends() {
    let (mut producer, mut late) = ring(1 << 16, 1 << 12);
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut reader = producer.reader().unwrap();
            thread::spawn(move || {
                let mut sum = 0;
                loop {
                    let mut buffer = [0; 8];
                    match reader.recv(&mut buffer) {
                        Ok(_) => sum += u64::from_le_bytes(buffer),
                        Err(RecvError::Closed) => return sum,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for number in 0..100_u64 {
        producer.publish(&[&number.to_le_bytes()]).unwrap();
        if number % 10 == 9 {
            producer.wake();
            thread::sleep(Duration::from_millis(1));
        }
    }
    late.seek_newest();
    let limit = Duration::from_millis(10);
    assert_eq!(late.recv_timeout(&mut [], limit), Err(RecvError::TimedOut));
    drop(producer); // wakes
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 99 * 100 / 2);
    }
}

/// One thread publishes as fast as it can; others receive, some of them slowly. Every message is checked to the last byte.
#[test]
fn readers_at_any_speed_receive_whole_messages_and_count_the_others() {
    const MESSAGES: u64 = if cfg!(forebay_one_view) {
        20_000
    } else {
        200_000
    };
    let (mut producer, _reader) = ring(1 << 14, 64);
    let readers: Vec<_> = (0..3_u32)
        .map(|slowness| {
            let mut reader = producer.reader().unwrap();
            thread::spawn(move || {
                let (mut buffer, mut next) = (vec![0; reader.largest()], 0);
                loop {
                    match reader.recv(&mut buffer) {
                        Ok(got) => {
                            assert_eq!(got.sequence, next);
                            assert_eq!(&buffer[..got.len], message(next, got.len));
                            assert_eq!(got.len, next as usize % 300);
                            next += 1;
                        }
                        Err(RecvError::Overrun { lost }) => next += lost,
                        Err(RecvError::Closed) => break,
                        Err(error) => panic!("{error}"),
                    }
                    (0..slowness * 1000).for_each(|_| std::hint::spin_loop());
                }
                let stats = reader.stats();
                assert_eq!(stats.received + stats.lost, MESSAGES);
                assert_eq!((stats.next, next), (MESSAGES, MESSAGES));
            })
        })
        .collect();
    for number in 0..MESSAGES {
        producer
            .publish(&[&message(number, number as usize % 300)])
            .unwrap();
        if number % 32 == 0 {
            producer.wake();
        }
    }
    drop(producer);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
}

#[test]
fn what_cannot_be_made_is_refused_with_the_reason() {
    let make = |data_bytes, messages, note_bytes| {
        let config = BroadcastConfig {
            data_bytes,
            messages,
            note_bytes,
        };
        Producer::new(&config).unwrap_err()
    };
    for (error, text) in [
        (make(0, 1, 0), "without data"),
        (make(1, 0, 0), "for no messages"),
        (make(usize::MAX, 1, 0), "larger than 32 GiB"),
        (make(1, usize::MAX, 0), "larger than 32 GiB"),
        (make(1, 1, usize::MAX), "larger than 32 GiB"),
    ] {
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

/// Memory of `len` bytes that `fill` has written, sealed.
fn memory(len: usize, fill: impl FnOnce(&Ours)) -> OwnedFd {
    let (file, mapping) = sealed::make("test", len).unwrap();
    fill(&Ours::new(mapping));
    file
}

#[test]
fn a_reader_attaches_to_nothing_but_a_broadcast_ring() {
    let refused = |file: OwnedFd| Reader::attach(file).unwrap_err().to_string();
    let page = page_size();
    let program = File::open("/proc/self/exe").unwrap();
    assert!(refused(program.into()).contains("not memory that can be sealed"));
    let open = sealed::create("test").unwrap();
    File::from(open.try_clone().unwrap())
        .write_at(&[1; 4096], 0)
        .unwrap();
    assert!(refused(open).contains("not sealed"));
    assert!(refused(memory(page, |_| ())).contains("does not begin like a broadcast ring"));
    // The sizes that it announces are those of the memory, or it is refused.
    let producer = Producer::new(&BroadcastConfig::default()).unwrap();
    let layout = *producer.reader().unwrap().reading.layout();
    let len = layout.words().unwrap() * words::WORD;
    drop(Reader::attach(memory(len, |ours| layout.write(ours))).unwrap());
    let refuse = |len: usize, layout: Layout| {
        let file = memory(len, |ours| layout.write(ours));
        assert!(refused(file).contains("does not begin like"), "{layout:?}");
    };
    refuse(len - page, layout);
    refuse(len + page, layout);
    for entries in [3, 0, u64::MAX, 1 << 63] {
        refuse(len, Layout { entries, ..layout });
    }
    for notes in [usize::MAX, usize::MAX - layout.data] {
        refuse(len, Layout { notes, ..layout });
    }
    for data in [0, layout.data + 1] {
        refuse(len, Layout { data, ..layout });
    }
}

/// Both halves of a ring, and the word at which its data begins.
fn halves() -> (Ours, Reading, Layout) {
    let (ours, theirs) = words::both(512);
    let layout = Layout {
        notes: 8,
        entries: 8,
        data: ours.len() - NOTES - 16,
    };
    layout.write(&ours);
    (ours, Reading::new(theirs).unwrap(), layout)
}

#[test]
fn entries_that_cannot_be_are_an_error_and_nothing_worse() {
    let (ours, mut reading, layout) = halves();
    ours.store(PUBLISHED, 1, Relaxed);
    let mut buffer = vec![0; 1 << 16];
    let entry = |offset, len| Entry { offset, len };
    let broken = [
        entry(0, layout.largest() + 1),
        entry(0, u32::MAX as usize),
        entry(layout.data, 1),
        entry(layout.data - 1, 9),
        entry(u32::MAX as usize, 8),
    ];
    for entry in broken {
        ours.store(layout.entry(0), entry.encode(), Relaxed);
        assert_eq!(
            reading.take(&mut buffer),
            Err(RecvError::Broken),
            "{entry:?}"
        );
        assert_eq!(reading.take(&mut []), Err(RecvError::Broken), "{entry:?}");
    }
    let last = entry(layout.data - 1, 8);
    ours.store(layout.entry(0), last.encode(), Relaxed);
    assert_eq!(reading.take(&mut buffer).unwrap().len, 8);
    for noted in [1, 8, 9, u64::MAX] {
        ours.store(NOTED, noted, Relaxed);
        for len in [8 * 8, u64::MAX, 1 << 60] {
            ours.store(NOTES, len, Relaxed);
            assert_eq!(reading.note(0, 9), None);
            assert_eq!(reading.note(1, 9), None);
        }
    }
}

#[test]
fn whatever_the_memory_holds_every_call_returns() {
    let (ours, mut reading, layout) = halves();
    let mut dice = 7_u64;
    let mut roll = || {
        dice = dice
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        dice >> 33
    };
    let mut seen = [0; 6];
    let mut buffer = vec![0; 1 << 12];
    for round in 0..20_000 {
        let value = match roll() % 4 {
            0 => roll() % 20,
            1 => u64::MAX - roll() % 3,
            2 => (roll() << 32) | (roll() % 100),
            _ => (roll() << 31) | roll(),
        };
        let places = [
            PUBLISHED,
            OLDEST,
            ENDED,
            BELL,
            NOTED,
            NOTES,
            layout.entry(roll()),
        ];
        ours.store(places[roll() as usize % places.len()], value, Relaxed);
        let len = roll() as usize % 128;
        let answer = match round % 8 {
            0 => reading.wait(
                &mut buffer[..len],
                &Deadline::after(Duration::from_nanos(1)),
            ),
            _ => reading.take(&mut buffer[..len]),
        };
        let kind = match answer {
            Ok(received) => {
                assert!(received.len <= len);
                0
            }
            Err(RecvError::Empty | RecvError::TimedOut) => 1,
            Err(RecvError::Overrun { lost }) => {
                assert!(lost > 0);
                2
            }
            Err(RecvError::TooSmall { needed }) => {
                assert!(needed > len && needed <= layout.largest());
                3
            }
            Err(RecvError::Closed) => 4,
            Err(RecvError::Broken) => 5,
        };
        seen[kind] += 1;
        let _ = reading.note(roll() as usize % 3, 1 << 20);
        if round % 16 == 0 {
            reading.seek(value);
            let intact = reading.intact();
            assert!(intact.start <= intact.end);
        }
    }
    assert!(seen.iter().all(|&times| times > 0), "{seen:?}");
}

#[cfg(not(miri))]
#[test]
fn a_reader_whose_wake_up_was_stolen_receives_the_message_and_learns_the_end() {
    let (mut producer, mut reader) = ring(1 << 12, 16);
    let memory = producer.memory().try_clone_to_owned().unwrap();
    let len = File::from(memory.try_clone().unwrap())
        .metadata()
        .unwrap()
        .len();
    let stolen = words::Theirs::new(sealed::map(&memory, len as usize).unwrap());
    let own = std::sync::atomic::AtomicU32::new(0);
    // Not a channel of the standard library, whose insides ThreadSanitizer does not see.
    let answers = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let answered = answers.clone();
    let reading = thread::spawn(move || {
        let mut buffer = [0; 64];
        let mut answer = || {
            let answer = reader.recv(&mut buffer).map(|it| it.len);
            answered.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            answer
        };
        [answer(), answer()]
    });
    let wait_for = |count| {
        let begun = std::time::Instant::now();
        while answers.load(std::sync::atomic::Ordering::SeqCst) < count {
            assert!(begun.elapsed() < Duration::from_secs(20), "no answer");
            thread::sleep(Duration::from_millis(1));
        }
    };
    let steal = || while stolen.steal_sleepers(BELL, &own) == 0 {};
    steal();
    producer.publish(&[b"hello"]).unwrap();
    producer.wake();
    wait_for(1);
    steal();
    drop(producer);
    wait_for(2);
    assert_eq!(reading.join().unwrap(), [Ok(5), Err(RecvError::Closed)]);
}

#[test]
fn a_poll_loop_gets_every_message_and_the_end() {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut producer = Producer::new(&BroadcastConfig::default()).unwrap();
    let mut reader = producer.reader().unwrap();
    let mut watch = reader.watch().unwrap();
    let thread = std::thread::spawn(move || {
        for number in 0..500_u64 {
            producer.send(&[&number.to_ne_bytes()]).unwrap();
        }
    });
    let (mut buffer, mut next) = ([0; 8], 0);
    loop {
        match reader.try_recv(&mut buffer) {
            Ok(_) => {
                assert_eq!(u64::from_ne_bytes(buffer), next);
                next += 1;
            }
            Err(RecvError::Empty) => {
                if watch.arm(&reader) {
                    poll(&mut [PollFd::new(&watch, PollFlags::IN)], None).unwrap();
                }
            }
            Err(RecvError::Closed) => break,
            Err(other) => panic!("{other}"),
        }
    }
    thread.join().unwrap();
    assert_eq!(next, 500);
}
