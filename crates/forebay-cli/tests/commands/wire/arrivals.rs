//! What a real sender sent is there, or it is counted and marked at the right packet.

use crate::support::*;
use crate::wire::{
    Load, check,
    lab::{ip, lab, tool},
    listening, listening_on, overloaded,
};
use std::{
    io::{self, Write},
    net::{TcpListener, TcpStream},
    thread,
};

#[test]
fn a_million_frames_of_a_real_sender_are_all_there() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(1_000_000);
        let ran = load.through(listening(format!("-w {file} -B 256M")));
        let found = found::open(&file);
        check(&ran.succeeds().json(), &found, 1_000_000);
        assert_eq!(found.packets.len(), 1_000_000, "{}", ran.log());
        // The bytes, not only the numbers: what was sent is a function of the number.
        let tcpdump = |line: String| tool("tcpdump").args(words(&line)).output();
        let first = |from: &str, to: &str| {
            let (from, to) = (load.path(from), load.path(to));
            let ran = tcpdump(format!("-r {from} -c 20000 -w {to}"));
            ran.is_ok_and(|ran| ran.status.success()).then(|| {
                tcpdump(format!("-r {to} -txx -n"))
                    .unwrap()
                    .succeeds()
                    .stdout
                    .clone()
            })
        };
        if let Some(got) = first("got.pcapng", "got.pcap") {
            assert!(first("sent.pcap", "few.pcap") == Some(got));
        }
    });
}

#[test]
fn overload_is_counted_by_the_kernel_and_marked_at_the_right_packet() {
    lab(&["tcpreplay"], || {
        let load = Load::new(300_000);
        let flags = "-w - -B 1M --store 2x64KiB --fail-on-drop";
        let (found, ran) = overloaded(&load, flags);
        let json = ran.fails(3, "").json();
        check(&json, &found, 300_000);
        assert!(count(&json["dropped"]["kernel"]) > 100_000, "{json}");
    });
}

#[test]
fn the_first_few_packets_are_all_taken_from_a_small_ring() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(5_000);
        for (wanted, ring) in [(64, 8 << 20), (65, 64 << 20)] {
            let child = listening(format!("-w {file} -c {wanted}"));
            load.send();
            let ran = child.wait_with_output().unwrap();
            let json = ran.keeps_the_law();
            assert_eq!(json["got"]["sources"][0]["ring_bytes"], ring, "{json}");
            assert_eq!(count(&json["written"]), wanted);
            let numbers = found::open(&file).sequences();
            assert!(numbers.into_iter().eq(0..wanted), "{}", ran.log());
        }
    });
}

#[test]
fn the_packets_of_big_tcp_are_whole_or_counted_as_cut() {
    const SENT: usize = 40 << 20;
    lab(&[], || {
        ip("link set lo gso_max_size 500000 gro_max_size 500000 up");
        let folder = Folder::new();
        let file = folder.path("big.pcapng");
        for (flags, is_whole) in [("", false), ("-s 1000000", true)] {
            let child = listening_on("lo", format!("-w {file} -B 256M {flags} tcp"));
            let listener = TcpListener::bind("[::1]:0").unwrap();
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut receiver = listener.accept().unwrap().0;
            let receiving = thread::spawn(move || io::copy(&mut receiver, &mut io::sink()));
            sender.write_all(&vec![b'x'; SENT]).unwrap();
            drop(sender);
            assert_eq!(receiving.join().unwrap().unwrap(), SENT as u64);
            let ran = stopped(child);
            let json = ran.succeeds().json();
            let info = run!("info --json {file}").succeeds().json();
            let (cut, kept) = (count(&json["packets_cut"]), count(&info["captured_bytes"]));
            assert_eq!(cut, count(&info["packets_cut"]), "{json}");
            assert_eq!(count(&json["wire_bytes"]), count(&info["wire_bytes"]));
            let is_said = ran.log().contains("cut short");
            assert_eq!((cut == 0, !is_said), (is_whole, is_whole), "{}", ran.log());
            assert_eq!(kept > SENT as u64, is_whole, "{info}");
        }
    });
}
