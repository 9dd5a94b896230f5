//! The descriptor of a device is readable exactly while packets wait.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_net::{
    port::{Frame, Interface},
    share::{Access, Listener, Publisher, ShareName},
};
use forebay_testing::{
    folder::Folder,
    lab::{classic, lab},
    sender::{Sender, frame},
};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

/// Rounds of three frames. The filter accepts two of them.
const ROUNDS: u64 = 20;
const FILTER: &str = "greater 80";
/// In place of a round: the filter is not set yet.
const BEFORE: u64 = u64::MAX;

/// Runs the program, calls `send` for each round once the packets of the one before were handed over, and returns the last line.
fn waits(arguments: &[&str], mut send: impl FnMut(u64)) -> String {
    let (folder, library) = (Folder::new(), installed());
    let mut waits = command(compiled(&folder, "waits.c"), Some(&library));
    let mut child = waits
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut round, mut last) = (0, String::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        last = line.unwrap();
        assert!(last != "busy" && last != "readable", "{last} {arguments:?}");
        if last == "opened" {
            send(BEFORE);
            drop(child.stdin.take());
        }
        if last == "ready" || last == format!("got {}", 2 * round) && round < ROUNDS {
            send(round);
            round += 1;
        }
    }
    assert!(child.wait().unwrap().success(), "{last}");
    last
}

#[test]
fn the_simulated_card_is_readable_exactly_while_packets_wait() {
    if !has_debians() {
        return;
    }
    for mode in ["", "fork"] {
        let device = "sim:rate=2kpps,count=600";
        let last = waits(&[device, "udp[1] & 15 = 3", "1000", mode], |_| {});
        let packets = last.strip_suffix(" empty 0 idle 1 code -2");
        let packets = packets.and_then(|it| it.strip_prefix("packets ")?.parse().ok());
        assert!(matches!(packets, Some(1..599)), "{mode}: {last}");
    }
}

#[test]
fn a_share_is_readable_exactly_while_packets_wait() {
    if !has_debians() {
        return;
    }
    let mut publisher = Publisher::new(1 << 20).unwrap();
    publisher.introduce(&Interface::default());
    let name = format!("forebay-pcap-{}", std::process::id());
    let shared: ShareName = name.parse().unwrap();
    let _listener = Listener::start(&shared, &publisher.source(), Access::default()).unwrap();
    let device = format!("share:{name}");
    let mut send = |round| {
        for len in [60, 100, 120] {
            publisher.publish(0, &Frame::whole(&frame(round, len)));
        }
    };
    for mode in ["", "fork"] {
        let last = waits(&[&device, FILTER, "40", mode], &mut send);
        assert!(
            last.starts_with("packets 40 empty 0 idle 1 code "),
            "{mode}: {last}"
        );
    }
}

#[test]
fn interfaces_are_readable_exactly_while_packets_wait() {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let sender = Sender::open("va");
        let filter = "ether proto 0x88b5 and greater 80";
        for (device, mode, packets) in [
            ("vb", "", "40"),
            ("vb", "direction", "40"),
            ("vb", "fork", "40"),
            ("vb", "after", "40"),
            ("any", "direction", "40"),
        ] {
            let last = waits(&[device, filter, packets, mode], |round| {
                sender.frames(&[60, 100, 120].map(|len| frame(round, len)));
            });
            assert!(
                last.starts_with("packets 40 empty 0 idle 1 code "),
                "{device} {mode}: {last}"
            );
        }
    });
}

#[test]
fn packets_of_before_the_filter_do_not_make_an_interface_readable() {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let sender = Sender::open("va");
        let filter = "ether proto 0x88b5 and greater 80";
        let last = waits(&["vb", filter, "2", "late"], |round| {
            let lens = if round == BEFORE {
                [60; 3]
            } else {
                [60, 100, 120]
            };
            sender.frames(&lens.map(|len| frame(round, len)));
        });
        assert!(last.starts_with("packets 2 empty 0 idle 1 code "), "{last}");
    });
}

/// In a program that may start no thread, or open and wait for no descriptor any more.
#[test]
fn a_program_with_low_limits_is_not_busy_while_it_waits() {
    if !has_debians() {
        return;
    }
    let mut publisher = Publisher::new(1 << 20).unwrap();
    publisher.introduce(&Interface::default());
    let name = format!("forebay-limits-{}", std::process::id());
    let shared: ShareName = name.parse().unwrap();
    let _listener = Listener::start(&shared, &publisher.source(), Access::default()).unwrap();
    for mode in ["threadless", "sandboxed"] {
        let last = waits(&["sim:rate=4pps,count=6", "udp", "100", mode], |_| {});
        assert!(last.starts_with("packets 6 "), "{mode}: {last}");
        let last = waits(&[&format!("share:{name}"), FILTER, "40", mode], |round| {
            for len in [60, 100, 120] {
                publisher.publish(0, &Frame::whole(&frame(round, len)));
            }
        });
        assert!(last.starts_with("packets 40 "), "{mode}: {last}");
    }
}

#[test]
fn a_file_is_readable_to_its_end() {
    if !has_debians() {
        return;
    }
    let folder = Folder::new();
    let frames: Vec<_> = (0..40).map(|n| frame(n, 100)).collect();
    let path = folder.file("a.pcap", classic(&frames));
    let (library, waits) = (installed(), compiled(&folder, "waits.c"));
    let run = |library| outcome(command(&waits, library).args([&path, FILTER, "100"]));
    let (ours, theirs) = (run(Some(&library)), run(None));
    assert_eq!(ours, theirs);
    assert!(ours.0.contains("packets 40 empty 0"), "{ours:?}");
}
