//! Captures that hand out the frames of an interface one by one.

use crate::support::{
    lab,
    sender::{self, Sender},
};
use crate::{LONG, SHORT};
use forebay_net::{Capture, Next, open::Options};

#[test]
fn a_program_takes_the_next_frame_of_an_interface_within_a_time() {
    lab(&[], || {
        let mut capture = Capture::open("vb").unwrap();
        assert_eq!(capture.next_timeout(SHORT).unwrap(), Next::TimedOut);
        let sender = Sender::open("va");
        sender.numbers(0..100, 60).unwrap();
        for number in 0..100 {
            let Next::Frame(frame) = capture.next_timeout(LONG).unwrap() else {
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
