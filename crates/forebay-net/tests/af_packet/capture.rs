//! Captures that hand out the frames of an interface one by one.

use crate::support::{
    lab, lab_alone,
    sender::{self, Sender},
};
use crate::{LONG, SHORT, opening::promiscuity};
use forebay_net::{Capture, Next, OwnedBatch, open::Options};

#[test]
fn a_program_takes_the_next_frame_of_an_interface_within_a_time() {
    lab(&[], || {
        let mut capture = Capture::open("vb").unwrap();
        assert_eq!(capture.next_timeout(SHORT).unwrap(), Next::TimedOut);
        let sender = Sender::open("va");
        sender.numbers(0..100, 60).unwrap();
        for number in 0..100 {
            let Next::Ready(frame) = capture.next_timeout(LONG).unwrap() else {
                panic!("frame {number} is missing");
            };
            assert_eq!(sender::number(frame.data), Some(number));
        }
        assert_eq!(capture.next_timeout(SHORT).unwrap(), Next::TimedOut);
        sender.numbers(100..110, 60).unwrap();
        let ledger = capture.finish().unwrap();
        assert_eq!(
            (ledger.received, ledger.counted, ledger.unread),
            (110, 100, 10)
        );
        assert_eq!(ledger.check(), Ok(()));
    });
}

#[test]
fn a_closure_sees_the_frames_that_match_until_it_is_stopped() {
    lab(&[], || {
        let options = Options {
            filter: Some("greater 100".parse().unwrap()),
            ..Options::default()
        };
        let capture = Capture::with(&"vb".parse().unwrap(), &options).unwrap();
        let (stopper, mut numbers) = (capture.stopper(), Vec::new());
        let sender = Sender::open("va");
        sender.numbers(0..50, 60).unwrap();
        sender.numbers(50..100, 200).unwrap();
        let ledger = capture.each(|frame| {
            numbers.extend(sender::number(frame.data));
            if numbers.len() == 50 {
                stopper.stop();
            }
        });
        assert_eq!(numbers, Vec::from_iter(50..100));
        let ledger = ledger.unwrap();
        assert_eq!((ledger.counted, ledger.check()), (50, Ok(())));
    });
}

/// The numbers of the frames in a batch.
fn numbers(batch: &OwnedBatch) -> Vec<u64> {
    let numbers = batch.frames().map(|it| sender::number(it.data).unwrap());
    numbers.collect()
}

/// The next batch in the ring. A few frames in a block that its time has closed are copied.
fn lent(capture: &mut Capture) -> OwnedBatch {
    loop {
        match capture.take_batch(LONG).unwrap() {
            Next::Ready(batch) if batch.is_borrowed() => break batch,
            Next::Ready(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_batch_stays_in_the_ring_until_it_is_dropped_also_without_the_capture() {
    lab(&[], || {
        let options = Options {
            ring_bytes: Some(4 << 17), // four blocks
            ..Options::default()
        };
        let mut capture = Capture::with(&"vb".parse().unwrap(), &options).unwrap();
        let sender = Sender::open("va");
        let mut sent = 0;
        let mut send = |count: u64| {
            sender.numbers(sent..sent + count, 1000).unwrap();
            sent += count;
            sent
        };
        send(300); // more than two blocks
        let first = lent(&mut capture);
        let before = numbers(&first);
        // The ring is full, and its first block is lent: the kernel drops packets, and overwrites no block that is lent.
        send(2000);
        assert_eq!(numbers(&first), before);
        let other = lent(&mut capture);
        assert!(numbers(&other) > before);
        std::thread::spawn(move || drop((first, other)))
            .join()
            .unwrap();
        while !matches!(capture.take_batch(SHORT).unwrap(), Next::TimedOut) {}
        // The ring goes on, more than once round. Each batch is lent while the reader waits for the next one.
        let mut latest = None;
        for _ in 0..6 {
            let last = send(100) - 1;
            while latest
                .as_ref()
                .map(numbers)
                .and_then(|it| it.last().copied())
                != Some(last)
            {
                latest = capture.take_batch(LONG).unwrap().ready();
                assert!(latest.is_some(), "{last} is missing");
            }
        }
        let latest = latest.unwrap();
        assert!(latest.is_borrowed());
        let before = numbers(&latest);
        let ledger = capture.finish().unwrap();
        assert_eq!(ledger.check(), Ok(()));
        assert_eq!(numbers(&latest), before);
    });
}

#[test]
fn dropping_a_capture_ends_it_although_a_batch_is_lent() {
    lab_alone(&[], || {
        let mut capture = Capture::open("vb").unwrap();
        Sender::open("va").numbers(0..2000, 1000).unwrap();
        let batch = lent(&mut capture);
        let before = numbers(&batch);
        // The protocol that each packet socket of this thread's namespace receives.
        let protocols = || {
            let list = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
            let lines = list.lines().skip(1);
            let protocols = lines.filter_map(|it| it.split_whitespace().nth(3));
            protocols.map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(protocols(), ["0003"], "every one");
        assert_eq!(promiscuity(), "1");
        drop(capture);
        assert_eq!(protocols(), ["ffff"], "none");
        assert_eq!(promiscuity(), "0");
        assert_eq!(numbers(&batch), before);
        drop(batch);
        assert!(protocols().is_empty());
    });
}
