//! The end of a port: it delivers what reached its sockets, whether it was stopped or lost its interface.

use crate::support::sender::Sender;
use crate::support::{Ended, LONG, carries, error_without_arming, ip, outage, pump};
use crate::{BOTH, lab, open, open_with, quiet, settled, stopped};
use forebay_net::port::{Port, Wake};
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

#[test]
fn stops_under_load_lose_nothing_that_reached_a_socket() {
    lab(&[], || {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let sender = Sender::pinned("va");
                while !done.load(Relaxed) {
                    sender.numbers(0..1_000, 60).unwrap();
                }
            });
            let outcome = std::panic::catch_unwind(|| {
                for round in 0..20 {
                    let pass = ["no", "yes"][round / 2 % 2];
                    let mut port = open(&format!("vb,mode={},pass={pass}", BOTH[round % 2]));
                    let (mut delivered, mut told) = (0, 0);
                    let until = Instant::now() + Duration::from_millis(round as u64);
                    let ended = pump(&mut port, LONG, |frame| {
                        delivered += 1;
                        told += frame.dropped_before;
                        Instant::now() < until
                    });
                    assert_eq!(ended.unwrap(), Ended::Enough);
                    stopped(&mut port, delivered, told);
                    // Nothing arrives after the end.
                    let ended = settled_counts(&mut port);
                    thread::sleep(Duration::from_millis(2));
                    assert_eq!(settled_counts(&mut port), ended);
                }
            });
            done.store(true, Relaxed);
            outcome.unwrap();
        });
    });
}

fn settled_counts(port: &mut impl Port) -> (u64, Option<u64>) {
    let counts = port.counts();
    (counts.received, counts.dropped)
}

#[test]
fn an_interface_that_goes_down_or_away_is_reported_once_after_its_frames() {
    lab(&[], || {
        for (name, words, text) in [
            ("vb", "link set vb down", "vb: the interface went down"),
            (
                "vb,pass=yes",
                "link set vb down",
                "vb: the interface went down",
            ),
            ("vb,pass=yes", "link del va", "vb: the interface is gone"),
            ("vb", "link del va", "vb: the interface is gone"),
        ] {
            if ip("link").contains("vb") {
                ip("link set vb up");
            } else {
                ip("link add va type veth peer name vb");
                ip("link set va up");
                ip("link set vb up");
            }
            carries("vb");
            let mut port = open_with(name, |it| it.stop_on_down = true);
            Sender::open("va").numbers(0..200, 60).unwrap();
            quiet(&mut port);
            ip(words);
            let mut seen = 0;
            let error = pump(&mut port, LONG, |_| (seen += 1, true).1).unwrap_err();
            assert_eq!((error.to_string().as_str(), seen), (text, 200));
            assert!(matches!(port.arm().unwrap(), Wake::End), "reported once");
            assert!(port.receive(1).unwrap().next_frame().is_none());
            port.stop().unwrap();
            settled(&mut port, 200, 0);
        }
    });
}

#[test]
fn frames_before_and_after_an_outage_are_delivered_and_the_outage_is_counted() {
    lab(&[], || {
        for settings in ["mode=native", "mode=generic", "mode=native,pass=yes"] {
            let mut port = open(&format!("vb,{settings}"));
            outage(&mut port, 200, 200, quiet);
            stopped(&mut port, 400, 0);
        }
    });
}

#[test]
fn a_reader_that_never_arms_learns_of_a_lost_interface_too() {
    lab(&[], || {
        let mut port = open("vb");
        ip("link del va");
        let error = error_without_arming(&mut port);
        assert_eq!(error, "vb: the interface is gone");
    });
}
