//! What is delivered: every frame once, in order, with its bytes, its time and its queue's place.

use crate::support::sender::{self, Sender};
use crate::support::{Ended, ip, pump};
use crate::{BOTH, LONG, lab, open, open_with, quiet, stopped};
use forebay_net::{
    af_xdp::Mode,
    port::{Direction, Port, Wake},
};
use std::time::{SystemTime, UNIX_EPOCH};

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

#[test]
fn numbered_frames_arrive_whole_in_order_and_stamped_or_are_counted() {
    lab(&[], || {
        for mode in BOTH {
            const SENT: u64 = 50_000;
            let mut port = open(&format!("vb,mode={mode}"));
            let info = port.info();
            assert_eq!(info.copy, format!("{mode}, copied"), "{info:?}");
            assert_eq!((info.backend, info.ring_frames), ("af_xdp", 16_384));
            let began = now_ns();
            let sending =
                std::thread::spawn(|| Sender::pinned("va").numbers(0..SENT, 200).unwrap());
            let (mut next, mut last_ns, mut delivered, mut told) = (0, began - 1_000_000, 0, 0);
            loop {
                let silence = std::time::Duration::from_millis(100);
                let ended = pump(&mut port, silence, |frame| {
                    let number = sender::number(frame.data).expect("only our frames are here");
                    assert!(number >= next, "{number} after {next}");
                    assert_eq!(frame.data, sender::frame(number, 200));
                    assert_eq!((frame.wire_len, frame.interface), (200, 0));
                    assert_eq!(frame.direction, Direction::Inbound);
                    assert!(frame.time_ns >= last_ns && frame.time_ns <= now_ns());
                    (next, last_ns) = (number + 1, frame.time_ns);
                    delivered += 1;
                    told += frame.dropped_before;
                    true
                });
                assert_eq!(ended.unwrap(), Ended::Silent);
                if sending.is_finished() {
                    break;
                }
            }
            sending.join().unwrap();
            let (counts, losses) = stopped(&mut port, delivered, told);
            assert_eq!(counts.received + losses.peer.unwrap(), SENT, "{losses:?}");
            if info.timestamps != "time of reading" {
                assert!(last_ns > began);
            }
            println!("{mode}: {delivered} delivered, {counts:?}, {losses:?}");
        }
    });
}

#[test]
fn without_a_wish_the_first_mode_that_the_driver_has_is_taken() {
    lab(&[], || {
        assert_eq!(open("vb").info().copy, "native, copied");
        // The loopback interface has no native mode, and its frames are too long unless its MTU is lowered.
        ip("link set lo mtu 1500");
        let port = open_with("lo", |it| it.take_traffic = true);
        assert_eq!(port.info().copy, "generic, copied");
    });
}

#[test]
fn a_burst_that_is_forgotten_or_puts_a_frame_back_loses_nothing() {
    lab(&[], || {
        for settings in ["mode=native", "mode=generic", "mode=native,pass=yes"] {
            const SENT: u64 = 5_000;
            let mut port = open(&format!("vb,{settings}"));
            let sender = Sender::pinned("va");
            let (mut next, mut round, mut told) = (0, 0, 0);
            // In portions that fit into the interface's own ring.
            for from in (0..SENT).step_by(100) {
                sender.numbers(from..from + 100, 60).unwrap();
                while next < from + 100 {
                    let mut burst = port.receive(7).unwrap();
                    let mut taken = 0;
                    while let Some(frame) = burst.next_frame() {
                        assert_eq!(sender::number(frame.data), Some(next));
                        told += frame.dropped_before;
                        taken += 1;
                        next += 1;
                        if (next + round) % 5 == 0 {
                            burst.put_back();
                            next -= 1;
                            break;
                        }
                    }
                    assert!(taken <= 7);
                    match round % 3 {
                        0 => std::mem::forget(burst),
                        _ => drop(burst),
                    }
                    round += 1;
                    if taken == 0
                        && let Wake::Fd(fd) = port.arm().unwrap()
                    {
                        assert!(crate::support::wait(fd, LONG));
                    }
                }
            }
            let (counts, losses) = stopped(&mut port, SENT, told);
            assert_eq!((counts.received, counts.dropped), (SENT, Some(0)));
            assert_eq!(losses.peer, Some(0));
        }
    });
}

#[test]
fn all_queues_of_an_interface_are_read_in_the_order_of_time() {
    lab(&[], || {
        // With one of the numbers alone, a veth interface uses one queue.
        let four = "numtxqueues 4 numrxqueues 4";
        ip(&format!("link add qa {four} type veth peer name qb {four}"));
        for link in ["qa", "qb"] {
            ip(&format!("link set {link} up"));
        }
        crate::support::carries("qa");
        for mode in BOTH {
            let mut port = open(&format!("qb,mode={mode}"));
            assert!(port.interfaces()[0].description.contains("4 queues"));
            std::thread::scope(|scope| {
                for nth in [0, 1] {
                    scope.spawn(move || {
                        let from = 1_000 * nth as u64;
                        let sender = Sender::pinned_to("qa", nth);
                        sender.numbers(from..from + 1_000, 60).unwrap();
                    });
                }
            });
            quiet(&mut port);
            let (mut last_ns, mut delivered, mut next) = (0, 0, [0, 1_000]);
            port.stop().unwrap();
            let ended = pump(&mut port, LONG, |frame| {
                let number = sender::number(frame.data).unwrap();
                let next = &mut next[number as usize / 1_000];
                assert!(number >= *next, "frames of one sender keep their order");
                *next = number + 1;
                // In generic mode, several processors may stamp frames of the same queue.
                assert!(mode == Mode::Generic || frame.time_ns >= last_ns);
                (last_ns, delivered) = (frame.time_ns, delivered + 1);
                true
            });
            assert_eq!(ended.unwrap(), Ended::End);
            let (counts, losses) = crate::settled(&mut port, delivered, 0);
            assert_eq!(counts.received + losses.peer.unwrap(), 2_000, "{losses:?}");
            drop(port);
        }
        // One queue of several: frames of the others stay with the stack.
        let port = open("qb,queue=2");
        assert!(port.interfaces()[0].description.contains("1 queue of"));
    });
}

#[test]
fn long_frames_get_chunks_of_a_page_and_snaplen_cuts() {
    lab(&[], || {
        ip("link set va mtu 3000");
        ip("link set vb mtu 3000");
        for mode in [Mode::Generic, Mode::Native] {
            let mut port = open_with(&format!("vb,mode={mode}"), |it| it.snaplen = 100);
            Sender::open("va").numbers(0..10, 3014).unwrap();
            quiet(&mut port);
            let mut seen = 0;
            port.stop().unwrap();
            let ended = pump(&mut port, LONG, |frame| {
                assert_eq!((frame.data.len(), frame.wire_len), (100, 3014));
                seen += 1;
                true
            });
            assert_eq!((ended.unwrap(), seen), (Ended::End, 10));
        }
    });
}
