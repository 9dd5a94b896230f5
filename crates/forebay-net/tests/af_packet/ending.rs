//! The end of a port: it delivers the frames it accepted, whether it was stopped or lost its interface.

use crate::support::sender::{self, Sender};
use crate::support::{Ended, LONG, error_without_arming, ip, lab, outage, pump, rounds};
use crate::{ends_after, open, settled};
use forebay_net::af_packet::{AfPacket, AfPacketConfig};
use forebay_net::port::{Fanout, Frame, Port, Wake};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn stops_under_load_lose_nothing_that_was_accepted() {
    lab(&[], || {
        let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let sender = Sender::pinned("va");
                while !done.load(Relaxed) {
                    let from = sent.fetch_add(1_000, Relaxed);
                    sender.numbers(from..from + 1_000, 60).unwrap();
                }
            });
            let outcome = std::panic::catch_unwind(|| {
                let mut total = 0;
                for round in 0..rounds(50_u64) {
                    let mut port =
                        open(|it| (it.ring_bytes, it.block_bytes) = (4 << 20, 256 << 10));
                    let (mut next, mut delivered, mut told, mut wrong) = (None, 0u64, 0u64, 0u64);
                    let mut each = |frame: &forebay_net::port::Frame<'_>| {
                        let number = sender::number(frame.data).expect("only our frames are here");
                        let is_wrong = |next: u64| number != next + frame.dropped_before;
                        wrong += u64::from(next.is_some_and(is_wrong));
                        next = Some(number + 1);
                        delivered += 1;
                        told += frame.dropped_before;
                    };
                    let until = Instant::now() + Duration::from_millis(round % 10);
                    let ended = pump(&mut port, LONG, |frame| {
                        (each(frame), Instant::now() < until).1
                    })
                    .unwrap();
                    assert_eq!(ended, Ended::Enough);
                    port.stop().unwrap();
                    assert_eq!(
                        pump(&mut port, LONG, |frame| (each(frame), true).1).unwrap(),
                        Ended::End
                    );
                    settled(&mut port, delivered, told);
                    assert_eq!(wrong, 0, "round {round}");
                    total += delivered;
                }
                println!("{total} frames");
            });
            done.store(true, Relaxed);
            outcome.unwrap();
        });
    });
}

#[test]
fn an_interface_that_goes_down_or_away_is_told_once_after_its_frames() {
    lab(&[], || {
        for (words, text) in [
            ("link set vb down", "vb: the interface went down"),
            ("link del va", "vb: the interface is gone"),
        ] {
            ip("link set vb up");
            // In the second round the frames are still in a block that the kernel has not closed.
            let mut port =
                open(|it| (it.retire, it.stop_on_down) = (Duration::from_millis(300), true));
            Sender::open("va").numbers(0..5_000, 60).unwrap();
            ip(words);
            let mut seen = 0;
            let error = pump(&mut port, LONG, |_| (seen += 1, true).1).unwrap_err();
            assert_eq!((error.to_string().as_str(), seen), (text, 5_000));
            assert!(matches!(port.arm().unwrap(), Wake::End), "reported once");
            assert!(port.receive(1).unwrap().next_frame().is_none());
            port.stop().unwrap();
            settled(&mut port, 5_000, 0);
        }
    });
}

#[test]
fn frames_before_and_after_an_outage_are_delivered_and_the_outage_is_counted() {
    lab(&[], || {
        let mut port = open(|_| ());
        outage(&mut port, 5_000, 2_000, |_| ());
        ends_after(&mut port, 7_000);
    });
}

#[test]
fn a_reader_that_never_arms_learns_of_a_lost_interface_too() {
    lab(&[], || {
        let mut port = open(|it| it.stop_on_down = true);
        ip("link set vb down");
        let error = error_without_arming(&mut port);
        assert_eq!(error, "vb: the interface went down");
    });
}

#[test]
fn a_fanout_member_which_cannot_be_bound_again_stops_too() {
    lab(&[], || {
        let mut port = open(|_| ());
        let group: libc::c_int = 7 | (libc::PACKET_FANOUT_HASH as libc::c_int) << 16;
        // SAFETY: the kernel reads the four bytes of `group`.
        let joined = unsafe {
            let (fd, value) = (port.as_fd().as_raw_fd(), (&raw const group).cast());
            libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value, 4)
        };
        assert_eq!(joined, 0, "{}", std::io::Error::last_os_error());
        Sender::open("va").numbers(0..2_000, 60).unwrap();
        port.stop().unwrap();
        Sender::open("va").numbers(2_000..2_100, 60).unwrap();
        let mut seen = 0;
        let ended = pump(&mut port, LONG, |_| (seen += 1, true).1);
        assert_eq!(ended.unwrap(), Ended::End);
        assert_eq!(seen, 2_000);
        settled(&mut port, seen, 0);
    });
}

#[test]
fn a_group_ignores_outgoing_frames_if_its_members_do() {
    lab(&[], || {
        ip("link set lo up");
        let incoming_only = AfPacketConfig {
            incoming_only: true,
            ..AfPacketConfig::default()
        };
        for (name, config, expected) in [
            ("lo", AfPacketConfig::default(), 100), // each frame leaves and arrives
            ("va", incoming_only, 0),
            ("va", AfPacketConfig::default(), 100),
        ] {
            let mut ports = AfPacket::open_fanout(name, &config, 2, Fanout::LoadBalance).unwrap();
            Sender::open(name).numbers(0..100, 60).unwrap();
            let mut seen = 0;
            for port in &mut ports {
                port.stop().unwrap();
                let count = |frame: &Frame<'_>| {
                    seen += u64::from(sender::number(frame.data).is_some());
                    true
                };
                assert_eq!(pump(port, LONG, count).unwrap(), Ended::End);
            }
            assert_eq!(seen, expected, "{name}");
        }
    });
}
