//! What no file can bring about: wake-ups, and a worker that is gone.

use super::*;
use crate::{format::Format, port::Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn is_readable(chime: &Notify) -> bool {
    let fd = chime.fd();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

#[test]
fn a_chime_is_heard_by_whoever_armed_it_and_by_nobody_later() {
    let chime = Notify::new().unwrap();
    chime.ring();
    assert!(!is_readable(&chime), "nobody waits");
    chime.arm();
    assert!(!is_readable(&chime));
    chime.ring();
    assert!(is_readable(&chime));
    chime.disarm();
    assert!(!is_readable(&chime));
    chime.ring();
    assert!(!is_readable(&chime), "nobody waits any more");
}

/// The port's side of a worker that does nothing, and its empty batches as they come.
fn idle_hand() -> (WorkerQueue, impl FnMut() -> Vec<Batch>) {
    let mut rings = None;
    let hand = WorkerQueue::new(|theirs| {
        rings = Some(theirs);
        Ok(thread::spawn(|| {}))
    });
    let mut rings = rings.unwrap();
    (hand.unwrap(), move || {
        std::iter::from_fn(|| rings.empty.pop()).collect()
    })
}

#[test]
fn batches_go_back_several_at_once_and_all_before_the_port_sleeps() {
    let (mut hand, mut handed_over) = idle_hand();
    let mut batches = handed_over();
    let few = batches.len();
    let mut back = Vec::new();
    while back.is_empty() {
        hand.give_back(batches.pop().unwrap(), false);
        back = handed_over();
    }
    assert!(back.len() > 1, "one alone is not worth a wake-up");
    hand.give_back(back.pop().unwrap(), false);
    assert!(handed_over().is_empty());
    hand.hand_over();
    assert_eq!(handed_over().len() + back.len() + batches.len(), few);
}

#[test]
fn there_are_more_batches_while_they_hold_next_to_nothing() {
    let (mut hand, mut handed_over) = idle_hand();
    let mut all_read = |is_light: bool| {
        for _ in 0..100 {
            let batches = handed_over();
            batches
                .into_iter()
                .for_each(|batch| hand.give_back(batch, is_light));
            hand.hand_over();
        }
        let batches = handed_over();
        let number = batches.len();
        batches
            .into_iter()
            .for_each(|batch| hand.give_back(batch, is_light));
        hand.hand_over();
        number
    };
    let (few, many, few_again) = (all_read(false), all_read(true), all_read(false));
    assert!(many > 2 * few, "{many} instead of {few}");
    assert_eq!(few_again, few);
}

/// A classic file of so many empty packets.
fn capture(packets: usize) -> File {
    let fd = rustix::fs::memfd_create("capture", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = fs::File::from(fd);
    let interface = Interface::default();
    let described = Format::Pcap.describe(&interface, 0);
    let mut bytes = Format::Pcap.interface(&interface, &described, 262_144);
    for _ in 0..packets {
        // A second after 1970: zeros alone are no packets.
        bytes.extend([1_u32, 0, 0, 0].map(u32::to_le_bytes).concat());
    }
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file.rewind().unwrap();
    File::from_stream(file, "capture").unwrap()
}

#[test]
fn a_worker_that_is_gone_is_an_error_and_no_standstill() {
    let config = Config {
        threads: 2,
        window_bytes: 160,
    };
    let mut port = ParallelFile::new(capture(10), &"".parse().unwrap(), &config).unwrap();
    let start = port.start.take().unwrap();
    port.employ(start).unwrap();
    // Their batches never come.
    for hand in &mut port.workers {
        hand.lose();
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
    let told = "capture: a thread that read it is gone: read 0 packets up to there";
    assert_eq!(error, told);
    assert!(matches!(port.arm(), Ok(Wake::End)));
}

#[test]
fn no_thread_runs_before_the_first_look_nor_behind_the_end() {
    let filter = "greater 1".parse().unwrap();
    let mut port = ParallelFile::new(capture(1000), &filter, &Config::default()).unwrap();
    assert!(port.workers.is_empty());
    while !matches!(port.arm(), Ok(Wake::End)) {
        port.receive(100).unwrap();
    }
    assert!(port.workers.is_empty());
    assert_eq!(port.counts().filtered, Some(1000));
}
