//! What a real sender sent is there, or it is counted and marked at the right packet.

use crate::{
    Load, check, ended,
    lab::{lab, tool},
    listening, overloaded,
    support::{count, found::read, words},
};
use std::fs::File;

#[test]
fn a_million_frames_of_a_real_sender_are_all_there() {
    lab(&["tcpreplay"], || {
        let load = Load::new("1M");
        let file = load.path("got.pcapng");
        let child = listening(&["-w", &file, "-B", "256M"]);
        let (code, json, log) = load.through(child);
        assert_eq!(code, 0, "{log}");
        let found = read(File::open(&file).unwrap());
        check(&json, &found, 1_000_000);
        assert_eq!(found.packets.len(), 1_000_000, "{log}");
        // The bytes, not only the numbers: what was sent is a function of the number.
        let (sent, got) = (load.path("sent.pcap"), load.path("got.pcap"));
        let digest = |file: &str| {
            let dump = tool("tcpdump").args(["-r", file, "-txx", "-n"]).output();
            dump.ok()
                .filter(|dump| dump.status.success())
                .map(|dump| dump.stdout)
        };
        let few = ["-r", &file, "-c", "20000", "-w", &got];
        if tool("tcpdump")
            .args(few)
            .output()
            .is_ok_and(|o| o.status.success())
        {
            let few = ["-r", &sent, "-c", "20000", "-w", &load.path("few.pcap")];
            assert!(tool("tcpdump").args(few).output().unwrap().status.success());
            assert!(digest(&got) == digest(&load.path("few.pcap")));
        }
    });
}

#[test]
fn overload_is_counted_by_the_kernel_and_marked_at_the_right_packet() {
    lab(&["tcpreplay"], || {
        let load = Load::new("300k");
        let args = words("-w - -B 1M --store 2x64KiB --fail-on-drop");
        let (found, child) = overloaded(&load, &args);
        let (code, json, log) = ended(child);
        assert_eq!(code, 3, "{log}");
        check(&json, &found, 300_000);
        assert!(count(&json["dropped"]["kernel"]) > 100_000, "{json}");
    });
}

#[test]
fn the_first_few_packets_are_all_taken_from_a_small_ring() {
    lab(&["tcpreplay"], || {
        let load = Load::new("5k");
        let file = load.path("got.pcapng");
        for (flags, ring) in [(&["-c", "64"][..], 8 << 20), (&["-c", "65"], 64 << 20)] {
            let child = listening(&[&["-w", &file], flags].concat());
            load.send();
            let (code, json, log) = ended(child);
            assert_eq!(code, 0, "{log}");
            assert_eq!(json["got"]["sources"][0]["ring_bytes"], ring, "{json}");
            let wanted: u64 = flags[1].parse().unwrap();
            assert_eq!(
                (count(&json["written"]), &json["law_holds"]),
                (wanted, &true.into())
            );
            let found = read(File::open(&file).unwrap());
            let numbers = found.packets.iter().map(|packet| packet.sequence);
            assert!(numbers.eq(0..wanted), "{log}");
        }
    });
}
