//! What no file can cause: wake-ups, and a worker that is gone.

use super::{batch::Batch, notify::Notify, worker_queue::WorkerQueue, *};
use crate::{
    format::Format,
    port::{Interface, Wake},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{fs, thread};

fn is_readable(notify: &Notify) -> bool {
    let fd = notify.fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_notification_wakes_a_port_that_is_armed_and_no_other() {
    let notify = Notify::new().unwrap();
    notify.notify();
    assert!(!is_readable(&notify), "no thread waits");
    notify.arm();
    assert!(!is_readable(&notify));
    notify.notify();
    assert!(is_readable(&notify));
    notify.disarm();
    assert!(!is_readable(&notify));
    notify.notify();
    assert!(!is_readable(&notify), "no thread waits any more");
}

/// The port's side of a worker that does nothing, and a function that takes its empty batches.
fn idle_queue() -> (WorkerQueue, impl FnMut() -> Vec<Batch>) {
    let mut rings = None;
    let queue = WorkerQueue::new(|theirs| {
        rings = Some(theirs);
        Ok(thread::spawn(|| {}))
    });
    let mut rings = rings.unwrap();
    (queue.unwrap(), move || {
        std::iter::from_fn(|| rings.empty.try_pop().ok()).collect()
    })
}

#[test]
fn batches_go_back_several_at_once_and_all_before_the_port_sleeps() {
    let (mut queue, mut handed_over) = idle_queue();
    let mut batches = handed_over();
    let few = batches.len();
    let mut back = Vec::new();
    while back.is_empty() {
        queue.give_back(batches.pop().unwrap(), false);
        back = handed_over();
    }
    assert!(back.len() > 1, "several return together");
    queue.give_back(back.pop().unwrap(), false);
    assert!(handed_over().is_empty());
    queue.hand_over();
    assert_eq!(handed_over().len() + back.len() + batches.len(), few);
}

#[test]
fn there_are_more_batches_while_they_hold_few_packets() {
    let (mut queue, mut handed_over) = idle_queue();
    let mut all_read = |is_light: bool| {
        let mut number = 0;
        for _ in 0..=100 {
            let batches = handed_over();
            number = batches.len();
            for batch in batches {
                queue.give_back(batch, is_light);
            }
            queue.hand_over();
        }
        number
    };
    let (few, many, few_again) = (all_read(false), all_read(true), all_read(false));
    assert!(many > 2 * few, "{many} instead of {few}");
    assert_eq!(few_again, few);
}

/// A classic file of this number of empty packets.
fn capture(packets: usize) -> File {
    let fd = rustix::fs::memfd_create("capture", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = fs::File::from(fd);
    let interface = Interface::default();
    let described = Format::Pcap.describe(&interface, 0);
    let mut bytes = Format::Pcap.interface(&interface, &described, 262_144);
    for _ in 0..packets {
        // One second after 1970, because records of zeros are not packets.
        bytes.extend([1_u32, 0, 0, 0].map(u32::to_le_bytes).concat());
    }
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file.rewind().unwrap();
    File::from_stream(file, "capture").unwrap()
}

#[test]
fn a_worker_that_is_gone_is_an_error_and_the_port_does_not_hang() {
    let config = ParallelConfig {
        threads: 2,
        window_bytes: 160,
    };
    let mut port = ParallelFile::new(capture(10), &"".parse().unwrap(), &config).unwrap();
    let start = port.start.take().unwrap();
    port.workers.start(start, "capture").unwrap();
    // Their batches never arrive.
    for queue in &mut port.workers.queues {
        queue.lose();
    }
    let mut packets = 0;
    let error = loop {
        match port.receive(4) {
            Ok(mut burst) => {
                while burst.next_frame().is_some() {
                    packets += 1;
                }
            }
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(packets, 0);
    let expected = "capture: a thread that read it is gone: read 0 packets up to there";
    assert_eq!(error, expected);
    assert!(matches!(port.arm(), Ok(Wake::End)));
}

#[test]
fn no_thread_runs_before_the_first_poll_or_after_the_end() {
    let filter = "greater 1".parse().unwrap();
    let mut port = ParallelFile::new(capture(1000), &filter, &ParallelConfig::default()).unwrap();
    assert!(port.workers.queues.is_empty());
    while !matches!(port.arm(), Ok(Wake::End)) {
        port.receive(100).unwrap();
    }
    assert!(port.workers.queues.is_empty());
    assert_eq!(port.counts().filtered, Some(1000));
}
