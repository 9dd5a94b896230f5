//! The port with `pass=yes`: it copies frames, and the machine has them too.

use crate::support::sender::{self, Sender};
use crate::support::{Ended, LONG, carries, ip, pump, wait};
use crate::{BOTH, lab, open, open_with, quiet, settled, spec, stopped};
use forebay::{receive::PacketSource, time::Clock};
use forebay_net::{
    af_packet::{AfPacket, AfPacketConfig},
    af_xdp::{AfXdp, AfXdpConfig},
    port::{Direction, Port, Wake},
    receive::FromPort,
};
use std::{
    os::fd::AsFd,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_nanos() as u64
}

#[test]
fn frames_are_copied_whole_in_order_and_stamped_and_the_machine_has_them_all() {
    lab(&[], || {
        for mode in BOTH {
            const SENT: u64 = 20_000;
            let mut port = open(&format!("vb,mode={mode},pass=yes"));
            let info = port.info();
            assert_eq!((info.backend, info.ring_bytes), ("xdp", 64 << 20));
            assert_eq!(info.copy, format!("{mode}, copied"));
            // The stack shows it the frames that have passed.
            let mut stack = AfPacket::open("vb", &AfPacketConfig::default()).unwrap();
            let began = now_ns();
            Sender::pinned("va").numbers(0..SENT, 200).unwrap();
            quiet(&mut port);
            let (mut next, mut last_ns, mut delivered) = (0, began, 0);
            port.stop().unwrap();
            // All of them count, read or not.
            let counts = port.counts();
            let mut burst = port.receive(1).unwrap();
            assert!(burst.next_frame().is_some());
            burst.put_back();
            drop(burst);
            assert_eq!(port.counts(), counts);
            let ended = pump(&mut port, LONG, |frame| {
                let number = sender::number(frame.data).expect("only our frames are here");
                assert!(number >= next, "{number} after {next}");
                assert_eq!(frame.data, sender::frame(number, 200));
                assert_eq!((frame.wire_len, frame.interface), (200, 0));
                assert_eq!(frame.direction, Direction::Inbound);
                assert!(frame.time_ns >= last_ns && frame.time_ns <= now_ns());
                (next, last_ns) = (number + 1, frame.time_ns);
                delivered += 1;
                true
            });
            assert_eq!(ended.unwrap(), Ended::End);
            let (settled, losses) = settled(&mut port, delivered, 0);
            assert_eq!(settled, counts);
            assert_eq!(counts.received + losses.peer.unwrap(), SENT, "{losses:?}");
            assert_eq!(counts.dropped, Some(0));
            stack.stop().unwrap();
            let mut passed = 0;
            let ended = pump(&mut stack, LONG, |_| (passed += 1, true).1);
            assert_eq!((ended.unwrap(), passed), (Ended::End, delivered));
        }
    });
}

#[test]
fn frames_without_room_still_pass_and_the_next_one_reports_them_all() {
    lab(&[], || {
        for mode in BOTH {
            let settings = format!("vb,mode={mode},pass=yes");
            let mut port = open_with(&settings, |it| it.ring_bytes = Some(300 << 10));
            assert_eq!(port.info().ring_bytes, 256 << 10);
            let mut stack = AfPacket::open("vb", &AfPacketConfig::default()).unwrap();
            let sender = Sender::pinned("va");
            // Nobody reads.
            sender.numbers(0..20_000, 60).unwrap();
            quiet(&mut port);
            assert!(port.report().ring_fill.unwrap() > 0.99);
            let before = port.report().socket_losses;
            // A record of 60 bytes takes 96.
            let room = (256 << 10) / 96;
            assert!(before.rx_ring >= 10_000, "{before:?}");
            let mut delivered = 0;
            let silence = std::time::Duration::from_millis(10);
            let ended = pump(&mut port, silence, |frame| {
                assert_eq!(frame.dropped_before, 0);
                delivered += 1;
                true
            });
            assert_eq!((ended.unwrap(), delivered), (Ended::Silent, room));
            // From here on, portions that fit.
            let (mut next, mut told) = (20_000, 0);
            for from in (20_000..30_000).step_by(100) {
                sender.numbers(from..from + 100, 60).unwrap();
                let ended = pump(&mut port, LONG, |frame| {
                    assert_eq!(sender::number(frame.data), Some(next));
                    assert_eq!(frame.dropped_before > 0, next == 20_000);
                    told += frame.dropped_before;
                    (next, delivered) = (next + 1, delivered + 1);
                    next < from + 100
                });
                assert_eq!(ended.unwrap(), Ended::Enough);
            }
            let (counts, losses) = stopped(&mut port, delivered, told);
            assert_eq!(counts.received + losses.peer.unwrap(), 30_000);
            assert_eq!((Some(told), losses.rx_ring), (counts.dropped, told));
            stack.stop().unwrap();
            let mut passed = 0;
            let ended = pump(&mut stack, LONG, |_| (passed += 1, true).1);
            assert_eq!((ended.unwrap(), passed), (Ended::End, counts.received));
        }
    });
}

#[test]
fn frames_of_every_length_have_all_their_bytes_or_the_first_ones() {
    lab(&[], || {
        for link in ["va", "vb"] {
            ip(&format!("link set {link} mtu 9000"));
        }
        carries("va");
        // Around the sizes of the rooms in the ring buffer.
        let lens = [
            60, 64, 65, 128, 129, 256, 257, 768, 1514, 1537, 4096, 4097, 9014,
        ];
        for (mode, snaplen) in [(BOTH[0], 262_144), (BOTH[1], 262_144), (BOTH[0], 100)] {
            let settings = format!("vb,mode={mode},pass=yes");
            let mut port = open_with(&settings, |it| it.snaplen = snaplen);
            let sender = Sender::open("va");
            for (number, len) in (0..).zip(lens) {
                sender.numbers(number..number + 1, len).unwrap();
                let ended = pump(&mut port, LONG, |frame| {
                    let sent = sender::frame(number, len);
                    assert_eq!(frame.wire_len as usize, len);
                    assert_eq!(
                        frame.data,
                        &sent[..len.min(snaplen as usize)],
                        "{len} bytes"
                    );
                    false
                });
                assert_eq!(ended.unwrap(), Ended::Enough);
            }
            let (counts, _) = stopped(&mut port, lens.len() as u64, 0);
            assert_eq!(counts.received, lens.len() as u64);
        }
    });
}

#[test]
fn a_frame_wakes_a_reader_that_sleeps_also_right_after_another_one() {
    lab(&[], || {
        let second = Duration::from_secs(1);
        let cases = [
            (",pass=yes", Duration::ZERO),
            ("", second),
            ("", Duration::ZERO),
        ];
        for (mode, (passes, delay)) in BOTH
            .into_iter()
            .flat_map(|mode| cases.map(|case| (mode, case)))
        {
            let mut port = open_with(&format!("vb,mode={mode}{passes}"), |it| it.delay = delay);
            let sender = Sender::open("va");
            let mut waits = 0;
            for number in 0..500 {
                // As a session does: nothing found, armed, nothing found, asleep.
                let fd = loop {
                    assert!(port.receive(1).unwrap().next_frame().is_none());
                    match port.arm().unwrap() {
                        Wake::Fd(fd) => break fd.try_clone_to_owned().unwrap(),
                        // Frames wait a millisecond or less after others.
                        Wake::At(_) => {
                            waits += 1;
                            std::thread::yield_now();
                        }
                        other => panic!("{other:?}"),
                    }
                };
                sender.numbers(2 * number..2 * number + 1, 60).unwrap();
                assert!(wait(fd.as_fd(), LONG), "left asleep");
                sender.numbers(2 * number + 1..2 * number + 2, 60).unwrap();
                let mut next = 2 * number;
                let seen = pump(&mut port, LONG, |frame| {
                    assert_eq!(sender::number(frame.data), Some(next));
                    next += 1;
                    next < 2 * number + 2
                });
                assert_eq!(seen.unwrap(), Ended::Enough);
            }
            let may_wait = !passes.is_empty() || !delay.is_zero();
            assert_eq!(waits > 0, may_wait, "{mode}{passes}, {delay:?}");
            stopped(&mut port, 1_000, 0);
        }
    });
}

#[test]
fn what_reads_it_sleeps_on_its_clock_and_with_another_one_is_refused() {
    lab(&[], || {
        let another = "the interface has another clock";
        let clock = Clock::real();
        for (spec, delay) in [("vb,pass=yes", Duration::ZERO), ("vb", Duration::MAX)] {
            let opened = || {
                open_with(spec, |it| {
                    it.clock = clock.clone();
                    it.delay = delay;
                })
            };
            FromPort::new(opened(), clock.clone()).arm().unwrap();
            let refused = FromPort::new(opened(), Clock::real()).arm().unwrap_err();
            assert!(refused.to_string().contains(another), "{refused}");
        }
        let config = AfXdpConfig {
            clock: Clock::virtual_time(),
            ..AfXdpConfig::default()
        };
        let refused = AfXdp::open(&spec("vb,pass=yes"), &config).unwrap_err();
        assert!(refused.to_string().contains(another), "{refused}");
    });
}

#[test]
fn only_frames_of_the_queue_that_was_asked_for_are_copied() {
    lab(&[], || {
        let two = "numtxqueues 2 numrxqueues 2";
        ip(&format!("link add qa {two} type veth peer name qb {two}"));
        for link in ["qa", "qb"] {
            ip(&format!("link set {link} up"));
        }
        carries("qa");
        let of = |queue: &str| {
            let mut port = open(&format!("qb,pass=yes{queue}"));
            for nth in [0, 1] {
                let from = 100 * nth as u64;
                let sender = Sender::pinned_to("qa", nth);
                sender.numbers(from..from + 100, 60).unwrap();
            }
            quiet(&mut port);
            port.stop().unwrap();
            let mut seen = [0, 0];
            let ended = pump(&mut port, LONG, |frame| {
                seen[sender::number(frame.data).unwrap() as usize / 100] += 1;
                true
            });
            assert_eq!(ended.unwrap(), Ended::End);
            seen
        };
        assert_eq!(of(""), [100, 100]);
        let [first, second] = [of(",queue=0"), of(",queue=1")];
        let sum = [first[0] + second[0], first[1] + second[1]];
        assert_eq!(sum, [100, 100], "{first:?} and {second:?}");
    });
}
