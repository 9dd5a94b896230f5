//! Devices: interfaces in a network namespace, and the simulated card.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_net::{
    port::Interface,
    share::{Access, Listener, Publisher, ShareName},
};
use forebay_testing::{
    folder::Folder,
    lab::{have, ip, lab, up},
    limit::within_a_minute,
    sender::{Sender, number},
};
use std::{
    io::{BufRead, BufReader},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    process::Stdio,
};

/// The frames of a classic file.
fn frames(path: &str) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes(*header[8..].first_chunk().unwrap());
        let (frame, after) = after.split_at(len as usize);
        frames.push(frame.to_vec());
        rest = after;
    }
    frames
}

/// Runs a program of this folder's with each library, and compares what it prints.
fn prints_the_same(source: &str) {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let (folder, library) = (Folder::new(), installed());
        let program = compiled(&folder, source);
        let theirs = outcome(&mut command(&program, None));
        let ours = outcome(&mut command(&program, Some(&library)));
        let line = ours.0.lines().zip(theirs.0.lines()).find(|(a, b)| a != b);
        assert!(ours == theirs, "{line:?}\n{ours:?}\n{theirs:?}");
        assert_eq!(ours.2, Some(0));
    });
}

#[test]
fn every_function_for_devices_does_what_debians_does() {
    prints_the_same("live.c");
}

#[test]
fn threads_and_signal_handlers_share_a_handle_with_a_loop() {
    prints_the_same("shared.c");
}

#[test]
fn filters_select_by_bytes_that_the_program_does_not_get() {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let (folder, library) = (Folder::new(), installed());
        let filters = compiled(&folder, "selects.c");
        let (text, errors, code) = outcome(&mut command(&filters, Some(&library)));
        let expected = [
            "received 1 2",
            "udp: 0 received",
            "more than the kernel takes: 0 received 1 2 3",
            "ether[100] = 1: 0 received 1 3 5",
            "the mark is 0: 0 received 1 2",
            "more than the kernel takes, with the mark: -1 received 1 2",
            "the mark is 7: 0 received",
            ": 0 received 1",
            "any: the mark is 0: -1 ",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{errors}");
        assert_eq!(code, Some(0));
    });
}

#[test]
fn a_list_of_devices_does_not_wait_for_shares_of_others() {
    lab(&["tcpdump"], || {
        let library = installed();
        let offered: Vec<_> = (0..100)
            .map(|number| {
                let name = format!("forebay/share/{number:03}");
                let address = SocketAddr::from_abstract_name(name).unwrap();
                let listener = UnixListener::bind_addr(&address).unwrap();
                listener.set_nonblocking(true).unwrap();
                listener
            })
            .collect();
        let (text, errors, code) = outcome(command("tcpdump", Some(&library)).arg("-D"));
        assert_eq!(code, Some(0), "{errors}");
        assert!(text.contains("share:000"), "{text}");
        assert_eq!(text.matches("share:").count(), 64);
        for listener in offered {
            assert!(listener.accept().is_err(), "the list connected to a share");
        }
    });
}

#[test]
fn a_handle_that_does_not_wait_reports_the_end_of_its_device() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let mut looks = command(compiled(&folder, "looks.c"), Some(&library));
    let (text, errors, code) = within_a_minute(move || outcome(looks.arg("sim:count=5")));
    let expected = "packets 5 returned -2\n";
    assert_eq!((text.as_str(), code), (expected, Some(0)), "{errors}");
}

#[test]
fn after_an_outage_the_descriptor_is_not_readable_without_packets() {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let (folder, library) = (Folder::new(), installed());
        let mut looks = command(compiled(&folder, "looks.c"), Some(&library));
        looks.args(["vb", "outage"]).stdin(Stdio::piped());
        let mut looks = looks.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(looks.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        ip("link set vb down");
        assert_eq!(lines.next().unwrap().unwrap(), "down");
        up(&["vb"]);
        drop(looks.stdin.take());
        let wakes = lines.next().unwrap().unwrap();
        let wakes: u32 = wakes.strip_prefix("wakes ").unwrap().parse().unwrap();
        assert!(wakes < 20, "{wakes}");
        assert!(looks.wait().unwrap().success());
    });
}

#[test]
fn frames_are_sent_through_the_socket_that_captures() {
    prints_the_same("sending.c");
}

#[test]
fn tcpdump_captures_from_an_interface_and_counts_every_packet() {
    lab(&["tcpdump"], || {
        let (folder, library) = (Folder::new(), installed());
        let output = folder.path("out.pcap");
        let mut tcpdump = command("tcpdump", Some(&library));
        tcpdump.args(["-i", "vb", "-B", "4096", "-c", "2000", "-w", &output]);
        tcpdump.args(["-Z", "root", "ether proto 0x88b5"]);
        let mut tcpdump = tcpdump.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tcpdump.stderr.take().unwrap()).lines();
        let listening = lines.next().unwrap().unwrap();
        assert!(
            listening.contains("listening on vb, link-type EN10MB"),
            "{listening}"
        );
        let sender = Sender::open("va");
        sender.numbers(0..2000, 100).unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        assert!(tcpdump.wait().unwrap().success(), "{rest:?}");
        assert_eq!(rest[0], "2000 packets captured");
        assert_eq!(rest[1], "2000 packets received by filter");
        assert_eq!(rest[2], "0 packets dropped by kernel");
        let frames = frames(&output);
        let numbers: Vec<_> = frames.iter().filter_map(|it| number(it)).collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    });
}

#[test]
fn tcpdump_reads_the_simulated_card_to_its_end() {
    if !have("tcpdump") {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let output = folder.path("out.pcap");
    let mut tcpdump = command("tcpdump", Some(&library));
    tcpdump.args([
        "-i",
        "sim:count=1000,clock=virtual",
        "-Z",
        "root",
        "-w",
        &output,
    ]);
    let (_, errors, code) = outcome(&mut tcpdump);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("1000 packets captured"), "{errors}");
    assert_eq!(frames(&output).len(), 1000);
}

#[test]
fn ten_thousand_requests_to_stop_each_end_a_loop_without_traffic() {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let mut publisher = Publisher::new(1 << 20).unwrap();
        publisher.introduce(&Interface::default());
        let name = format!("forebay-breaks-{}", std::process::id());
        let shared: ShareName = name.parse().unwrap();
        let _listener = Listener::start(&shared, &publisher.source(), Access::default()).unwrap();
        let share = format!("share:{name}");
        let (folder, library) = (Folder::new(), installed());
        let program = compiled(&folder, "breaks.c");
        for device in ["sim:rate=1bit", "vb", "any", "xdp:vb", &share] {
            let mut breaks = command(&program, Some(&library));
            breaks.arg(device);
            let (text, errors, code) = within_a_minute(move || outcome(&mut breaks));
            let found = (text.as_str(), code);
            assert_eq!(found, ("broken 10000\n", Some(0)), "{device}: {errors}");
        }
    });
}

#[test]
fn tcpdump_captures_from_all_interfaces_as_on_debians_library() {
    lab(&["tcpdump"], || {
        let library = installed();
        let run = |library, link: &str| {
            let mut tcpdump = command("tcpdump", library);
            tcpdump.args(["-i", "any", "-y", link]);
            tcpdump.args(["-ntex", "-c", "2", "-Z", "root", "ether proto 0x88b5"]);
            let tcpdump = tcpdump.stderr(Stdio::piped()).stdout(Stdio::piped());
            let mut tcpdump = tcpdump.spawn().unwrap();
            let mut lines = BufReader::new(tcpdump.stderr.take().unwrap()).lines();
            let listening = format!("listening on any, link-type {link} ");
            let is_listening = |line: &String| line.starts_with(&listening);
            assert!(
                lines
                    .by_ref()
                    .map(Result::unwrap)
                    .any(|line| is_listening(&line))
            );
            Sender::open("va").numbers(0..1, 100).unwrap();
            String::from_utf8(tcpdump.wait_with_output().unwrap().stdout).unwrap()
        };
        for link in ["LINUX_SLL", "LINUX_SLL2"] {
            let (ours, theirs) = (run(Some(&library), link), run(None, link));
            assert_eq!(ours, theirs);
            assert_eq!(ours.matches("0x88b5").count(), 2, "{ours}");
        }
    });
}
