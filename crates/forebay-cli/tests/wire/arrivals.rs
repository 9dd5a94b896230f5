//! What a real sender sent is there, or it is counted and marked at the right packet.

use crate::{
    Load, check,
    lab::{lab, tool},
    listening, overloaded,
    support::*,
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
