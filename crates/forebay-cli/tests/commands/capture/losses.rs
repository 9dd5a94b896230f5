//! Packets that found no room, in real time: each is counted, and marked where it is missing.

use crate::capture::check;
use crate::support::*;
use std::{io::Read, time::Duration};

#[test]
fn packets_lost_to_a_slow_reader_of_a_pipe_are_all_counted() {
    for trial in 0..3 {
        let port = format!("sim:rate=4G,seed={trial},host=20000");
        let mut child = start!("capture -i {port} -c 400k -w - --store 2x64KiB --json");
        let mut stdout = child.stdout.take().unwrap();
        let mut packets = Vec::new();
        let mut piece = vec![0; 256 << 10];
        loop {
            match stdout.read(&mut piece).unwrap() {
                0 => break,
                n => packets.extend(&piece[..n]),
            }
            if packets.len() < 8 << 20 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let output = child.wait_with_output().unwrap();
        let json = output.keeps_the_law();
        assert!(count(&json["dropped"]["kernel"]) > 0, "{json}");
        check(&json, output.log(), &found::read(&packets[..]));
    }
}

#[test]
fn losses_in_real_time_are_reported() {
    for (port, flags, code) in [
        // A card without a host ring.
        (
            "rate=10G,ring=64,host=none,stall=1ms@20ms",
            "-c 300k --fail-on-drop",
            3,
        ),
        // Two small buffers.
        ("rate=10G,host=256,ring=64", "-c 500k --store 2x64KiB", 0),
    ] {
        let (_folder, file) = Folder::with("lossy.pcapng");
        let output = run!("capture -i sim:{port} {flags} -w {file} --json");
        assert_eq!(output.status.code(), Some(code), "{}", output.log());
        check(&output.json(), output.log(), &found::open(&file));
        contains(
            output.log(),
            "packets dropped by kernel, here the simulated card",
        );
        // Only in the second case is the output too slow.
        let is_late = output.log().contains("too little processor");
        assert_eq!(is_late, code == 3, "{}", output.log());
    }
}
