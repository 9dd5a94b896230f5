//! Models of a queue: loom runs every interleaving of a few steps; other builds run one.
//!
//! The memory holds two messages of 8 bytes, so that the third one waits for room. `planted_bugs_are_found` tests these
//! tests: it runs this binary again with a bug planted, and requires that the model fails.
//!
//! Preemptions are limited to two, since a send and a receive are some fifty steps, and to three where two senders wake one
//! receiver. All models pass with `LOOM_MAX_PREEMPTIONS=3`, which takes a minute.

use super::*;
use crate::sync::{
    atomic::{AtomicU32, Ordering::AcqRel},
    model_of, thread,
};
use std::task::{Context, Poll, Wake, Waker};

/// Room for `messages` messages of 8 bytes. Outside loom it is rounded up to a page.
fn room_for(messages: usize) -> (Sender, Receiver) {
    queue(messages * frame::span(8) as usize).unwrap()
}

fn send(sender: &Sender, number: u64) {
    sender.send(number.to_ne_bytes()).unwrap();
}

fn number(message: &[u8]) -> u64 {
    u64::from_ne_bytes(message.try_into().unwrap())
}

#[test]
fn three_messages_pass_through_room_for_two() {
    model_of(2, || {
        let (sender, receiver) = room_for(2);
        let thread = thread::spawn(move || (1..=3).for_each(|number| send(&sender, number)));
        for expected in 1..=3 {
            assert_eq!(number(&receiver.take().unwrap()), expected);
        }
        assert_eq!(receiver.take().err(), Some(RecvError::Closed));
        thread.join().unwrap();
    });
}

#[test]
fn two_senders_share_the_room_and_receivers_pass_over_aborted_messages() {
    model_of(3, || {
        let (sender, receiver) = room_for(1);
        let other = sender.clone();
        let thread = thread::spawn(move || {
            drop(other.reserve(8).unwrap());
        });
        let thread2 = thread::spawn(move || send(&sender, 7));
        assert_eq!(number(&receiver.take().unwrap()), 7);
        assert_eq!(receiver.take().err(), Some(RecvError::Closed));
        thread.join().unwrap();
        thread2.join().unwrap();
    });
}

#[test]
fn each_message_goes_to_one_of_two_receivers_and_neither_sleeps_on() {
    model_of(2, || {
        let (sender, receiver) = room_for(2);
        let other = receiver.clone();
        let thread = thread::spawn(move || number(&other.take().unwrap()));
        let thread2 = thread::spawn(move || {
            send(&sender, 1);
            send(&sender, 2);
            sender
        });
        let mine = number(&receiver.take().unwrap());
        assert_eq!(mine + thread.join().unwrap(), 3);
        drop(thread2.join().unwrap());
    });
}

#[test]
fn closing_wakes_every_receiver() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        let other = receiver.clone();
        let thread = thread::spawn(move || other.take().map(drop));
        let thread2 = thread::spawn(move || drop(sender));
        assert_eq!(receiver.take().map(drop), Err(RecvError::Closed));
        assert_eq!(thread.join().unwrap(), Err(RecvError::Closed));
        thread2.join().unwrap();
    });
}

#[test]
fn dropping_the_oldest_and_taking_it_is_one_or_the_other() {
    model_of(2, || {
        let (sender, receiver) = queue_with(&QueueConfig {
            capacity_bytes: frame::span(8) as usize,
            when_full: WhenFull::DropOldest,
            ..QueueConfig::default()
        })
        .unwrap();
        send(&sender, 1);
        let thread = thread::spawn(move || {
            let _ = sender.try_send(2_u64.to_ne_bytes());
            sender.stats().unwrap()
        });
        let got = receiver.take().map(|message| number(&message)).unwrap();
        let stats = thread.join().unwrap();
        if cfg!(loom) && stats.reserved == 2 {
            assert_eq!(got == 2, stats.dropped == 1);
        } else {
            assert_eq!((got, stats.dropped), (1, 0));
        }
    });
}

#[test]
fn a_poll_loop_is_woken_by_the_message_and_by_the_end() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        let thread = thread::spawn(move || send(&sender, 7));
        let mut watch = receiver.watch().unwrap();
        let mut next = || {
            while watch.arm() {
                watch.poll();
            }
            receiver.try_take().map(|message| number(&message))
        };
        assert_eq!(next(), Ok(7));
        assert_eq!(next(), Err(RecvError::Closed));
        thread.join().unwrap();
    });
}

#[test]
fn a_poll_loop_is_woken_by_room() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        while sender.try_send([0; 8]).is_ok() {}
        let thread = thread::spawn(move || {
            drop(receiver.try_take().unwrap());
            receiver
        });
        let mut watch = sender.watch(8).unwrap();
        while watch.arm() {
            watch.poll();
        }
        assert_eq!(sender.try_send([1; 8]), Ok(()));
        drop(thread.join().unwrap());
    });
}

/// The thread of a watch waits beside a receiver, and may get the only signal.
#[cfg(loom)]
#[test]
fn a_thread_that_waits_for_a_watch_passes_the_signal_on() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        let handles = receiver.handles.clone();
        let thread = thread::spawn(move || handles.core.follow(&|| watch::For::Message, &|| true));
        let thread2 = thread::spawn(move || number(&receiver.take().unwrap()));
        send(&sender, 7);
        assert_eq!(thread2.join().unwrap(), 7);
        sender.close(); // if the receiver was faster, the thread waits for the end
        thread.join().unwrap();
    });
}

/// Runs a task: polls it, and sleeps until it was woken.
fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let woken = std::sync::Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(done) = poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        while woken.0.swap(0, AcqRel) == 0 {
            thread::yield_now();
        }
    }
}

/// Set by the waker, taken by the task: 0 or 1. Accessed only by swaps, so that loom knows the order of its values.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.swap(1, AcqRel);
    }
}

#[test]
fn a_task_is_woken_by_the_message_and_by_the_end() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        let thread = thread::spawn(move || send(&sender, 7));
        let mut receiver = receiver.into_async().unwrap();
        let mut next = || {
            block_on(|context| {
                receiver
                    .poll_take(context)
                    .map_ok(|message| number(&message))
            })
        };
        assert_eq!(next(), Ok(7));
        assert_eq!(next(), Err(RecvError::Closed));
        thread.join().unwrap();
    });
}

#[test]
fn a_task_is_woken_by_room() {
    model_of(2, || {
        let (sender, receiver) = room_for(1);
        while sender.try_send([0; 8]).is_ok() {}
        let thread = thread::spawn(move || {
            drop(receiver.try_take().unwrap());
            receiver
        });
        let mut sender = sender.into_async().unwrap();
        block_on(|context| {
            sender
                .poll_reserve(context, 8)
                .map_ok(ReservedMessage::commit)
        })
        .unwrap();
        drop(thread.join().unwrap());
    });
}

/// Room for three words. A message of 8 bytes takes two; with one view, the third becomes padding.
fn one_to_one() -> (spsc::Sender, spsc::Receiver) {
    spsc::queue(24).unwrap()
}

#[test]
fn a_task_that_is_the_only_receiver_takes_each_message_and_hears_of_the_end() {
    model_of(2, || {
        let (mut sender, receiver) = one_to_one();
        let thread = thread::spawn(move || {
            for number in 1..=2_u64 {
                sender.send(number.to_ne_bytes()).unwrap();
            }
        });
        let mut receiver = receiver.into_async();
        let mut next = || {
            block_on(|context| {
                let polled = receiver.poll_take(context);
                polled.map_ok(|message| number(&message))
            })
        };
        assert_eq!((next(), next()), (Ok(1), Ok(2)));
        assert_eq!(next(), Err(RecvError::Closed));
        thread.join().unwrap();
    });
}

#[test]
fn a_task_that_is_the_only_sender_sends_each_message_and_hears_of_the_end() {
    model_of(2, || {
        let (sender, mut receiver) = one_to_one();
        let thread = thread::spawn(move || {
            for expected in 1..=2 {
                assert_eq!(number(&receiver.take().unwrap()), expected);
            }
        });
        let mut sender = sender.into_async();
        let mut send = |number: u64| {
            block_on(|context| {
                let polled = sender.poll_reserve(context, 8);
                polled.map_ok(|mut reserved| {
                    reserved.bytes().copy_from_slice(&number.to_ne_bytes());
                    reserved.commit();
                })
            })
        };
        assert_eq!((send(1), send(2)), (Ok(()), Ok(())));
        // There is room for one more.
        assert!([send(3), send(4)].contains(&Err(SendError::Closed)));
        thread.join().unwrap();
    });
}

/// The checker of this build finds each planted bug: loom by a failed model, ThreadSanitizer by its report.
#[cfg(any(loom, forebay_one_view))]
#[test]
fn planted_bugs_are_found() {
    const THREE: &str = "models::three_messages_pass_through_room_for_two";
    const SHARED: &str =
        "models::two_senders_share_the_room_and_receivers_pass_over_aborted_messages";
    const RECEIVERS: &str =
        "models::each_message_goes_to_one_of_two_receivers_and_neither_sleeps_on";
    const TASK: &str = "models::a_task_is_woken_by_room";
    const POLL: &str = "models::a_poll_loop_is_woken_by_room";
    const FOLLOWER: &str = "models::a_thread_that_waits_for_a_watch_passes_the_signal_on";
    const ONLY_RECEIVER: &str =
        "models::a_task_that_is_the_only_receiver_takes_each_message_and_hears_of_the_end";
    const ONLY_SENDER: &str =
        "models::a_task_that_is_the_only_sender_sends_each_message_and_hears_of_the_end";
    let mut plants = vec![
        ("queue-reserve-relaxed", THREE),
        ("queue-commit-relaxed", THREE),
        ("queue-release-relaxed", THREE),
        ("queue-lock-relaxed", RECEIVERS),
        ("queue-pass-relaxed", SHARED),
        ("queue-sleep-without-fence", THREE),
        ("queue-ring-without-fence", THREE),
        ("queue-signal-not-passed-on", RECEIVERS),
        ("queue-arm-without-second-look", POLL),
        ("queue-follow-keeps-the-signal", FOLLOWER),
        ("queue-ring-without-fence", POLL),
        ("queue-task-without-second-look", TASK),
        ("task-without-second-look", ONLY_RECEIVER),
        ("task-without-second-look", ONLY_SENDER),
        ("spsc-task-takes-no-further-after-padding", ONLY_RECEIVER),
        ("spsc-task-sends-no-further-after-padding", ONLY_SENDER),
    ];
    if crate::sync::finds_no_race() {
        return;
    }
    if cfg!(not(loom)) {
        // Without loom, the models are too short for two threads to meet by chance; this test is long enough.
        const THREADS: &str =
            "tests::many_senders_and_receivers_lose_nothing_and_keep_each_senders_order";
        plants = vec![
            ("queue-commit-relaxed", THREADS),
            ("queue-release-relaxed", THREADS),
        ];
    }
    crate::sync::planted_bugs_are_found("queue", &plants);
}
