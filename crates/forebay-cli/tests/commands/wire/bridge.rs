//! `forebay bridge` between two veth pairs: `a0 ═ a1 ─ bridge ─ b1 ═ b0`.

use crate::support::*;
use crate::wire::{
    lab::{carries, elsewhere, ip, lab, up},
    outage,
    privileges::{has_only_rights_to_files, is_everywhere},
    xdp::{MODES, xdp_lab},
};
use forebay_net::{file::File, port::Port};
use forebay_testing::sender::{Sender, frame, number};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream, UdpSocket},
    process::{Child, Output},
    sync::mpsc,
    time::Duration,
};

/// Two veth pairs with this MTU, up.
fn pairs(mtu: u32) {
    pairs_with(&format!("mtu {mtu}"));
}

/// The same; both ends of each have these settings.
fn pairs_with(settings: &str) {
    ip("link del va");
    for pair in ["a", "b"] {
        let add = format!("link add {pair}0 {settings} type veth");
        ip(&format!("{add} peer name {pair}1 {settings}"));
    }
    up(&["a0", "a1", "b0", "b1"]);
}

fn bridge(arguments: &str) -> Child {
    bridge_of("a1 b1", arguments)
}

fn bridge_of(names: &str, arguments: &str) -> Child {
    let mut child = start!("bridge {names} --json {arguments}");
    heard(&mut child, "bridging a1 and b1");
    child
}

/// A capture of what arrives at the far side of `interface`.
fn capture(interface: &str, file: &str) -> Child {
    let mut child = start!("capture -i {interface} -Q in -v --json -w {file}");
    heard(&mut child, "polling\n");
    child
}

/// The bytes of each frame in a file, as far as it is written.
fn frames(file: &str) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let Ok(mut port) = File::open(file) else {
        return frames;
    };
    while let Ok(mut burst) = port.receive(1000) {
        let before = frames.len();
        while let Some(frame) = burst.next_frame() {
            frames.push(frame.data.to_vec());
        }
        if frames.len() == before {
            break;
        }
    }
    frames
}

/// The counts of both directions, in which nothing is missing.
#[track_caller]
fn directions(ran: &Output) -> [Value; 2] {
    checked(&ran.keeps_the_law())
}

/// The counts of both directions, which add up.
#[track_caller]
fn checked(json: &Value) -> [Value; 2] {
    let directions = json["directions"].as_array().unwrap().clone();
    let directions: [Value; 2] = directions.try_into().unwrap();
    for it in &directions {
        let [unread, refused] = counts(it, ["unread", "refused"]);
        let lost = sum(&it["failed"]) + count(&it["dropped"]["kernel"]) + unread + refused;
        let [received, forwarded, filtered] = counts(it, ["received", "forwarded", "filtered"]);
        assert_eq!(received, forwarded + filtered + lost, "{it}");
    }
    directions
}

#[test]
fn a_tap_that_cannot_be_written_ends_the_bridge_with_exact_counts() {
    lab(&[], || {
        pairs(1500);
        let child = bridge("--tap /dev/full");
        let frames: Vec<_> = (0..20_000).map(|number| frame(number, 1514)).collect();
        let sender = Sender::pinned("a0");
        (0..10).for_each(|_| sender.frames(&frames));
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(1));
        let json = ran.json();
        assert!(json["error"].as_str().unwrap().contains("no space left"));
        let [forth, _] = checked(&json);
        assert!(count(&forth["received"]) > 0);
    });
}

#[test]
fn frames_pass_both_ways_in_order_with_their_tags_and_up_to_the_mtu() {
    lab(&[], || {
        pairs(9000);
        let folder = Folder::new();
        let [at_a, at_b, tapped] = ["a.pcapng", "b.pcapng", "tap.pcapng"].map(|it| folder.path(it));
        let child = bridge(&format!("--tap {tapped} --delay 5ms"));
        let captures = [capture("a0", &at_a), capture("b0", &at_b)];
        // Plain frames, of the smallest and the largest size, and frames with one tag and with two.
        let tagged = |number: u64, tags: &[u8], len: usize| {
            let plain = frame(number, len);
            [&plain[..12], tags, &plain[12..]].concat()
        };
        let sent = |first: u64| -> Vec<Vec<u8>> {
            (first..first + 3_000)
                .map(|number| match number % 4 {
                    0 => frame(number, 60),
                    1 => frame(number, 9014),
                    2 => tagged(number, &[0x81, 0, 0x20, 7], 9014),
                    _ => tagged(number, &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], 100),
                })
                .collect()
        };
        let (forth, back) = (sent(0), sent(100_000));
        std::thread::scope(|scope| {
            scope.spawn(|| Sender::pinned("a0").frames(&forth));
            scope.spawn(|| Sender::pinned("b0").frames(&back));
        });
        // Everything that was sent has arrived at the bridge: it forwards that, and ends.
        let ran = stopped(child);
        captures.into_iter().for_each(|child| {
            stopped(child).keeps_the_law();
        });
        for it in directions(&ran) {
            let done = counts(&it, ["received", "forwarded"]);
            assert_eq!(done, [3_000; 2], "{it}");
        }
        for (file, sent) in [(&at_b, &forth), (&at_a, &back)] {
            assert!(
                frames(file) == *sent,
                "{file}: not what was sent, in that order"
            );
        }
        assert_eq!(frames(&tapped).len(), 6_000);
    });
}

#[test]
fn only_matching_frames_pass_and_the_others_are_counted() {
    lab(&[], || {
        pairs(1500);
        let child = bridge("greater 1000");
        let sender = Sender::pinned("a0");
        sender.numbers(0..100, 60).unwrap();
        sender.numbers(100..150, 1200).unwrap();
        // Its own frames and those of this machine do not come back.
        Sender::pinned("b1").numbers(200..300, 1200).unwrap();
        let ran = stopped(child);
        let [forth, back] = directions(&ran);
        let done = counts(&forth, ["received", "forwarded", "filtered"]);
        assert_eq!(done, [150, 50, 100], "{forth}");
        assert_eq!(counts(&back, ["received"]), [0], "{back}");
        contains(
            ran.log(),
            "a1 to b1: 150 received = 50 forwarded + 100 filtered + 0 failed",
        );
    });
}

#[test]
fn frames_that_are_too_long_for_the_other_side_have_failed() {
    lab(&[], || {
        pairs(1500);
        ip("link set a0 mtu 9000");
        ip("link set a1 mtu 9000");
        let child = bridge("");
        let sender = Sender::pinned("a0");
        sender.numbers(0..10, 1514).unwrap();
        sender.numbers(10..13, 1515).unwrap();
        sender.numbers(13..17, 3000).unwrap();
        sender.numbers(17..20, 60).unwrap();
        let ran = stopped(child);
        let [forth, _] = directions(&ran);
        assert_eq!(counts(&forth, ["received", "forwarded"]), [20, 13]);
        assert_eq!(forth["failed"]["too_long"], 7, "{forth}");
        contains(ran.log(), "7 failed {too long 7}");
    });
}

#[test]
fn an_interface_that_goes_down_and_up_again_is_survived() {
    lab(&[], || {
        pairs(1500);
        let (_folder, at_b) = Folder::with("b.pcapng");
        let mut child = bridge("");
        ip("link set b1 down");
        let mut log = heard(&mut child, "b1: the interface went down");
        // More than the bridge keeps for an interface that is down; what it received is counted.
        Sender::pinned("a0").numbers(0..2_000, 60).unwrap();
        ip("link set b1 up");
        log += &heard(&mut child, "b1: the interface is up again");
        carries("b0");
        let captured = capture("b0", &at_b);
        let passes = || {
            Sender::pinned("a0").numbers(5_000..5_010, 60).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            interrupt(&captured, "-USR2");
            let frames = frames(&at_b);
            let mut numbers = frames.iter().filter_map(|it| number(it));
            numbers.any(|it| it >= 5_000)
        };
        wait_until(passes);
        stopped(captured).keeps_the_law();
        let ran = stopped(child);
        log += ran.log();
        let [forth, _] = directions(&ran);
        assert!(count(&forth["forwarded"]) > 0, "{forth}: {log}");
        let outages = ran.json()["outages"].clone();
        assert_eq!(outages[1]["count"], 1, "{outages}");
    });
}

#[test]
fn a_deleted_interface_ends_the_bridge_with_exact_counts() {
    lab(&[], || {
        pairs(1500);
        let child = bridge("");
        Sender::pinned("a0").numbers(0..1_000, 60).unwrap();
        ip("link del b0");
        let ran = child.wait_with_output().unwrap();
        ran.fails(1, "b1: ");
        contains(ran.log(), "gone");
        ran.lawful();
    });
}

#[test]
fn no_thread_keeps_a_right_that_forwarding_does_not_need() {
    lab(&[], || {
        pairs(1500);
        let child = bridge("");
        has_only_rights_to_files(&child);
        is_everywhere(&child, "Seccomp:", "2");
        // It forwards nevertheless.
        Sender::pinned("a0").numbers(0..100, 60).unwrap();
        let [forth, _] = directions(&stopped(child));
        assert_eq!(counts(&forth, ["forwarded"]), [100]);
    });
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    for (line, code, words) in [
        ("bridge sim lo", 1, "sending to the simulated card"),
        ("bridge lo lo nonsense(", 2, "nonsense"),
        ("bridge lo", 2, "required"),
    ] {
        run!("{line}").fails(code, words);
    }
    lab(&[], || {
        run!("bridge va va").fails(1, "bridging an interface with itself");
        run!("bridge va nope").fails(1, "no interface 'nope'");
        run!("bridge lo xdp:va,pass=yes")
            .fails(1, "xdp:va: a bridge takes frames from this machine");
        let (_folder, tapped) = Folder::with("tap.pcapng");
        run!("bridge va lo --tap {tapped} ifindex 3").fails(2, "va: filter: 'ifindex' is not in");
        assert!(!std::path::Path::new(&tapped).exists());
    });
}

/// Takes a connection, sends the file that arrives back, and returns it. Then echoes datagrams until one is empty.
fn serve(ready: &mpsc::Sender<()>) -> Vec<u8> {
    address("b0", 2);
    let listener = TcpListener::bind("10.9.0.2:7001").unwrap();
    let echo = UdpSocket::bind("10.9.0.2:7002").unwrap();
    ready.send(()).unwrap();
    let (mut stream, mut file) = (listener.accept().unwrap().0, Vec::new());
    stream.read_to_end(&mut file).unwrap();
    stream.write_all(&file).unwrap();
    drop(stream);
    let mut datagram = [0; 2000];
    while let (len @ 1.., from) = echo.recv_from(&mut datagram).unwrap() {
        echo.send_to(&datagram[..len], from).unwrap();
    }
    file
}

/// Sends a file and reads it back; then datagrams.
fn send(file: &[u8]) {
    address("a0", 1);
    let mut stream = TcpStream::connect("10.9.0.2:7001").unwrap();
    stream.write_all(file).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == file, "not what was sent");
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    let patience = Some(Duration::from_secs(30));
    socket.set_read_timeout(patience).unwrap();
    for len in [1, 1001, 1472] {
        socket.send_to(&file[..len], "10.9.0.2:7002").unwrap();
        let mut datagram = [0; 2000];
        assert_eq!(socket.recv(&mut datagram).unwrap(), len);
        assert_eq!(datagram[..len], file[..len]);
    }
    socket.send_to(&[], "10.9.0.2:7002").unwrap();
}

fn address(link: &str, host: u8) {
    ip(&format!("addr add 10.9.0.{host}/24 dev {link}"));
    ip(&format!("link set {link} up"));
}

#[test]
fn a_file_passes_over_tcp_with_the_offloads_that_veth_has_by_default() {
    lab(&[], || {
        pairs(1500);
        let child = bridge("");
        let byte = |n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8;
        let file: Vec<u8> = (0..8_000_000).map(byte).collect();
        let file = &file;
        let (ready, is_ready) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        // The interfaces of both ends exist as long as their threads: until the bridge has been stopped.
        let (stay, leave): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
        let [server_leaves, client_leaves] = leave.try_into().unwrap();
        let ran = std::thread::scope(|scope| {
            let server_done = done.clone();
            let server = elsewhere(scope, &["b0"], move || {
                let got = serve(&ready);
                server_done.send(()).unwrap();
                drop(server_done);
                let _ = server_leaves.recv();
                got
            });
            is_ready.recv().unwrap();
            elsewhere(scope, &["a0"], move || {
                send(file);
                done.send(()).unwrap();
                drop(done);
                let _ = client_leaves.recv();
            });
            for _ in 0..2 {
                is_done.recv().expect("an end that did not fail");
            }
            let ran = stopped(child);
            drop(stay);
            assert!(&server.join().unwrap() == file, "not what was sent");
            ran
        });
        for it in directions(&ran) {
            let [received, forwarded] = counts(&it, ["received", "forwarded"]);
            assert_eq!(received, forwarded, "{it}");
        }
    });
}

#[test]
fn two_af_xdp_interfaces_share_their_memory_and_its_chunks_return_from_a_link_that_was_down() {
    xdp_lab(|| {
        pairs_with("numrxqueues 2 numtxqueues 2");
        let mut child = bridge_of("xdp:a1 xdp:b1", "");
        pass_both_ways(2_000, false);
        // Frames wait for a second; after that they fail, as soon as the bridge gets a processor.
        for seconds in [0.0, 3.0, 0.0] {
            ip("link set b1 down");
            heard(&mut child, "b1: the interface went down");
            // More than a queue has chunks.
            Sender::pinned("a0").numbers(0..20_000, 60).unwrap();
            std::thread::sleep(Duration::from_secs_f64(seconds));
            ip("link set b1 up");
            heard(&mut child, "b1: the interface is up again");
            ["a0", "b0", "b1"].into_iter().for_each(carries);
        }
        // A bridge that does not run for a while.
        interrupt(&child, "-STOP");
        Sender::pinned("a0").numbers(0..20_000, 60).unwrap();
        interrupt(&child, "-CONT");
        pass_both_ways(2_000, false);
        let ran = stopped(child);
        let json = ran.json();
        let [forth, back] = directions(&ran);
        assert!(count(&forth["forwarded"]) >= 4_000, "{json}");
        assert_eq!(back["received"], back["forwarded"], "{json}");
        let dropped = count(&forth["dropped"]["kernel"]);
        let failed = count(&forth["failed"]["link_down"]);
        assert!(dropped > 0 && failed > 0, "{json}");
        for it in [&forth, &back] {
            let copy = it["copy"].as_str().unwrap();
            assert!(copy.starts_with("sent from the memory where it was received"));
        }
    });
}

#[test]
fn frames_that_are_too_long_for_the_other_side_fail_also_with_shared_memory() {
    xdp_lab(|| {
        pairs(1500);
        ip("link set a0 mtu 3000");
        ip("link set a1 mtu 3000");
        let folder = Folder::new();
        let [at_b, tapped] = ["b.pcapng", "tap.pcapng"].map(|it| folder.path(it));
        let mut child = bridge_of("xdp:a1 xdp:b1", &format!("--tap {tapped} not greater 3001"));
        heard(&mut child, "shared memory (UMEM)");
        let captured = capture("b0", &at_b);
        let sender = Sender::pinned("a0");
        sender.numbers(0..10, 1514).unwrap();
        sender.numbers(10..13, 1515).unwrap();
        sender.numbers(13..17, 3000).unwrap();
        sender.numbers(17..20, 60).unwrap();
        sender.numbers(20..25, 3010).unwrap();
        let [forth, _] = directions(&stopped(child));
        stopped(captured).keeps_the_law();
        let done = counts(&forth, ["received", "forwarded", "filtered"]);
        assert_eq!(done, [25, 13, 5], "{forth}");
        assert_eq!(forth["failed"]["too_long"], 7, "{forth}");
        let numbers = |file: &str| -> Vec<_> {
            let frames = frames(file);
            frames.iter().map(|it| number(it).unwrap()).collect()
        };
        assert!(numbers(&at_b).into_iter().eq((0..10).chain(17..20)));
        assert!(numbers(&tapped).into_iter().eq(0..20));
    });
}

/// Sends this many frames from each side to the other one. All of them must arrive, in order.
#[track_caller]
fn passes_both_ways(frames: u64) {
    pass_both_ways(frames, true);
}

/// The same. Frames that several queues receive may overtake each other.
#[track_caller]
fn pass_both_ways(frames: u64, in_order: bool) {
    let far = ["b0", "a0"].map(|link| {
        let mut child = start!("verify -i {link} --until-end --json");
        heard(&mut child, " bytes\n");
        child
    });
    let near = ["a0", "b0"]
        .map(|link| start!("generate rate=20kpps,flows=4,count={frames} -i {link} --json"));
    for child in near {
        child.wait_with_output().unwrap().succeeds();
    }
    for child in far {
        let json = child.wait_with_output().unwrap().json();
        let causes = ["received", "lost", "duplicates", "corrupted", "reordered"];
        let mut found = counts(&json["verify"], causes);
        if !in_order {
            found[4] = 0;
        }
        assert_eq!(found, [frames, 0, 0, 0, 0], "{json}");
    }
}

#[test]
fn with_af_xdp_frames_pass_both_ways_in_order_also_after_an_outage() {
    xdp_lab(|| {
        for mode in MODES {
            let frames = rounds(50_000);
            pairs(1500);
            let mut child = bridge_of(
                &format!("xdp:a1,mode={mode} xdp:b1,mode={mode}"),
                "--delay 20ms",
            );
            passes_both_ways(frames);
            let log = outage(&mut child, "b1");
            ["a0", "b0", "b1"].into_iter().for_each(carries);
            passes_both_ways(1_000);
            let ran = stopped(child);
            for it in directions(&ran) {
                // Two markers of ten frames each have a place in it.
                assert!(count(&it["forwarded"]) >= frames + 1_000, "{it}: {log}");
                assert_eq!(it["received"], it["forwarded"], "{it}");
            }
            assert_eq!(ran.json()["peer_dropped"], 0);
            ["a0", "b0"]
                .into_iter()
                .for_each(|it| drop(ip(&format!("link del {it}"))));
            ip("link add va type veth peer name vb");
        }
    });
}

#[test]
fn af_xdp_takes_traffic_from_an_interface_with_an_address_only_if_asked_to() {
    xdp_lab(|| {
        pairs(1500);
        ip("addr add 192.0.2.1/24 dev a1");
        let refused = run!("bridge xdp:a1 b1");
        refused.fails(1, "a1: the interface has the address 192.0.2.1. ");
        contains(refused.log(), "--take-traffic");
        let child = bridge_of("xdp:a1 b1", "--take-traffic --tap /dev/null");
        passes_both_ways(1_000);
        directions(&stopped(child));
    });
}
