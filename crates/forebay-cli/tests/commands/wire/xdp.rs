//! Capturing with AF_XDP: the accounting in text, JSON and file, a capture that was stopped meanwhile, and what is refused.

use crate::support::*;
use crate::wire::{
    Load, lab,
    lab::{ip, skip},
    listening_on,
};
use serde_json::Value;

/// A laboratory in which XDP programs can be loaded.
pub(crate) fn xdp_lab(body: impl FnOnce() + Send) {
    lab::lab(&["tcpreplay"], || match forebay_net::af_xdp::probe() {
        Ok(()) => body(),
        Err(error) => skip(&format!("rights for XDP ({error})")),
    });
}

pub(crate) const MODES: [&str; 2] = ["native", "generic"];

/// Checks that `sent` frames are accounted for in all three places: the object, the text, and the file.
fn check(json: &Value, log: &str, found: &found::Found, sent: u64) {
    assert_eq!(json["law_holds"], true, "{json}");
    let [received, written, unread] = counts(json, ["received", "written", "unread"]);
    assert_eq!((received, unread), (sent, 0), "{json}");
    let sum = sum(&json["dropped"]);
    assert_eq!(received, written + sum, "{json}");
    let peer = count(&json["dropped"]["peer"]);
    assert_eq!(found.packets.len() as u64, written);
    assert_eq!(found.statistics, [[received - peer, sum - peer, written]]);
    let lost = count(&json["interface_dropped"]) + peer;
    assert_eq!(found.interface_drops, [lost]);
    let marked: u64 = found.packets.iter().map(|it| it.dropped_before).sum();
    assert!(marked <= sum - peer, "{marked} of {sum} marked");
    contains(log, format!("{received} received = {written} written"));
    contains(log, format!("{} packets dropped by kernel", sum - peer));
}

#[test]
fn overloads_are_accounted_for_to_the_frame_in_text_json_and_file() {
    xdp_lab(|| {
        let (load, file) = Load::with_output(30_000);
        for round in 0..4 {
            let name = format!("xdp:vb,mode={}", MODES[round % 2]);
            let child = listening_on(&name, format!("-w {file} -B 4M"));
            // Nobody reads while all of it is sent.
            interrupt(&child, "-STOP");
            load.send();
            interrupt(&child, "-CONT");
            let ran = stopped(child);
            let json = ran.succeeds().json();
            let found = found::open(&file);
            check(&json, ran.log(), &found, 30_000);
            assert!(count(&json["dropped"]["rx_ring"]) > 10_000, "{json}");
            let source = &json["got"]["sources"][0];
            assert_eq!(source["backend"], "af_xdp");
            assert_eq!(source["copy"], format!("{}, copied", MODES[round % 2]));
        }
    });
}

#[test]
fn a_capture_that_was_stopped_goes_on_with_every_frame() {
    xdp_lab(|| {
        for mode in MODES {
            let (load, file) = Load::with_output(40_000);
            let child = listening_on(&format!("xdp:vb,mode={mode}"), format!("-w {file} -B 4M"));
            interrupt(&child, "-STOP");
            load.send();
            interrupt(&child, "-CONT");
            // It has emptied its ring when these arrive, in portions that fit into the ring of the interface.
            while file_len(&file) == 0 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            std::thread::sleep(std::time::Duration::from_millis(300));
            for _ in 0..25 {
                load.send_into("va", 200);
            }
            let ran = stopped(child);
            let json = ran.succeeds().json();
            let found = found::open(&file);
            check(&json, ran.log(), &found, 45_000);
            let numbers = found.sequences();
            let last = &numbers[numbers.len() - 5_000..];
            assert!(
                last.iter().copied().eq((0..25).flat_map(|_| 0..200)),
                "{json}"
            );
        }
    });
}

#[test]
fn an_interface_in_use_needs_take_traffic_and_filters_count() {
    xdp_lab(|| {
        ip("address add 192.0.2.1/24 dev vb");
        let refused = run!("capture -i xdp:vb -c 1 --count");
        refused.fails(1, "vb: the interface has the address 192.0.2.1. ");
        contains(refused.log(), "--take-traffic");
        let load = Load::new(1_000);
        let flags = format!("--take-traffic -w {} not udp", load.path("got.pcapng"));
        let ran = load.through(listening_on("xdp:vb", flags));
        let json = ran.keeps_the_law();
        let ledger = counts(&json, ["received", "filtered", "written"]);
        assert_eq!(ledger[0], ledger[1] + ledger[2], "{json}");
        assert_eq!(ledger[1], 1_000, "{json}");
        // With the capture, the program is gone.
        assert!(!ip("link show vb").contains("xdp"));
        run!("capture -i xdp:vb -Q in").fails(2, "sees only packets that come in");
        run!("capture -i xdp:vb,queue=x").fails(2, "'x' is not a value of queue");
    });
}

#[test]
fn with_pass_an_interface_in_use_is_watched_and_an_overload_accounted_for_to_the_frame() {
    xdp_lab(|| {
        ip("address add 192.0.2.1/24 dev vb");
        let (load, file) = Load::with_output(30_000);
        let other = load.path("stack.pcapng");
        for mode in MODES {
            // The stack has the packets too.
            let stack = listening_on("vb", format!("-Q in -w {other}"));
            let name = format!("xdp:vb,mode={mode},pass=yes");
            let child = listening_on(&name, format!("-w {file} -B 1M"));
            interrupt(&child, "-STOP");
            load.send();
            interrupt(&child, "-CONT");
            let ran = stopped(child);
            let json = ran.succeeds().json();
            check(&json, ran.log(), &found::open(&file), 30_000);
            assert!(count(&json["dropped"]["rx_ring"]) > 10_000, "{json}");
            let source = &json["got"]["sources"][0];
            assert_eq!(source["backend"], "xdp");
            assert_eq!(source["copy"], format!("{mode}, copied"));
            let seen = stopped(stack).keeps_the_law();
            let passed = count(&json["received"]) - count(&json["dropped"]["peer"]);
            assert_eq!(count(&seen["received"]), passed, "{seen}");
        }
    });
}

#[test]
fn what_opening_needed_is_given_up_before_the_first_packet() {
    xdp_lab(|| {
        for name in ["xdp:vb", "xdp:vb,pass=yes"] {
            let load = Load::new(1_000);
            let child = listening_on(name, format!("-w {}", load.path("got.pcapng")));
            crate::wire::privileges::has_only_rights_to_files(&child);
            let json = load.through(child).keeps_the_law();
            assert_eq!(count(&json["written"]), 1_000);
            assert!(!json["sandbox"].is_null(), "{json}");
        }
    });
}
