//! Interfaces that are listed, go away, or stay quiet.

use crate::support::*;
use crate::wire::{
    Load, check,
    lab::{self, carries, ip, lab},
    listening, listening_on, outage,
};
use std::time::Duration;

#[test]
fn a_deleted_interface_ends_the_capture_and_with_stop_on_down_so_does_one_that_goes_down() {
    lab(&["tcpreplay"], || {
        for (flags, loss, words) in [
            ("--stop-on-down", "link set vb down", "went down"),
            ("", "link del vb", "is gone"),
        ] {
            let (load, file) = Load::with_output(5_000);
            ip("link set vb up");
            let child = listening(format!("-w {file} {flags}"));
            load.send();
            ip(loss);
            let ran = child.wait_with_output().unwrap();
            ran.fails(1, "vb: the interface ");
            contains(ran.log(), words);
            check(&ran.json(), &found::open(&file), 5000);
        }
    });
}

#[test]
fn a_capture_goes_on_after_its_interface_was_down_and_reports_it() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(5_000);
        let mut child = listening(format!("-w {file}"));
        load.send();
        let mut log = outage(&mut child, "vb");
        carries("va");
        load.send();
        // Too short to be noticed.
        ip("link set vb down");
        ip("link set vb up");
        carries("va");
        let ran = load.through(child);
        log += ran.log();
        let json = ran.keeps_the_law();
        let ledger = counts(&json, ["received", "written"]);
        assert_eq!(ledger, [15_000; 2], "{log}");
        let outages = &json["got"]["sources"][0]["outages"];
        assert_eq!(count(&outages["count"]), 2, "{json}");
        assert!(outages["seconds"].as_f64().unwrap() > 0.0, "{json}");
        contains(log, "vb was down 2 times");
        assert_eq!(found::open(&file).packets.len(), 15_000);
    });
}

#[test]
fn a_capture_that_ends_while_its_interface_is_down_succeeds_and_reports_it() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(5_000);
        let mut child = listening(format!("-w {file}"));
        load.send();
        ip("link set vb down");
        heard(&mut child, "vb: the interface went down");
        let ran = stopped(child);
        check(&ran.succeeds().json(), &found::open(&file), 5000);
        contains(ran.log(), "vb was down 1 time");

        // One that is deleted while it is down.
        ip("link set vb up");
        let mut child = listening(format!("-w {file}"));
        ip("link set vb down");
        heard(&mut child, "vb: the interface went down");
        ip("link del vb");
        let ran = child.wait_with_output().unwrap();
        ran.fails(1, "vb: the interface is gone");
    });
}

#[test]
fn an_interface_that_flaps_all_the_time_does_not_fill_the_screen() {
    lab(&[], || {
        let mut child = listening("-w /dev/null");
        let mut log = String::new();
        for _ in 0..5 {
            log += &outage(&mut child, "vb");
        }
        for _ in 0..20 {
            ip("link set vb down");
            ip("link set vb up");
        }
        let ran = stopped(child);
        log += ran.log();
        let json = ran.succeeds().json();
        let outages = count(&json["got"]["sources"][0]["outages"]["count"]);
        assert!((6..=25).contains(&outages), "{json}");
        assert!(log.matches("the interface").count() <= 12, "{log}");
    });
}

#[test]
fn the_list_shows_what_can_be_captured_from() {
    lab(&[], || {
        let output = run!("capture -D");
        for line in ["va [Up, Running]", "lo [Up, Running, Loopback]", "\nany ["] {
            contains(output.text(), line);
        }
        let output = run!("capture -i vc");
        output.fails(1, "no interface 'vc'");
        contains(output.log(), "did you mean va?");
        ip("link set vb down");
        contains(run!("capture -i vb").log(), "ip link set vb up");
    });
}

#[test]
fn all_interfaces_at_once_are_distinguished_in_each_file_of_a_series() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(5_000);
        let child = listening_on("any", format!("-w {file} -b packets:3000"));
        load.send();
        // One that appears later, in the middle of a file.
        ip("link add vx type veth peer name vy");
        ip("link set vx up");
        ip("link set vy up");
        load.send_into("vx", 1000);
        let ran = load.through(child);
        let json = ran.succeeds().json();
        let ledger = counts(&json, ["received", "written"]);
        assert_eq!(ledger, [22_000; 2], "{}", ran.log());
        assert_eq!(json["got"]["sources"][0]["interface"], "any");
        let files: Vec<_> = json["files"].as_array().unwrap().iter().collect();
        assert_eq!(files.len(), 8);
        let mut of_late = 0;
        for (place, file) in files.into_iter().enumerate() {
            let found = found::open(file.as_str().unwrap());
            let packets = found.packets.len() as u64;
            // What the socket counted, and then what came from each: lo, va and vb in the kernel's order, vx and vy.
            let [of_all, of_each @ ..] = &found.statistics[..] else {
                panic!("no statistics in {file}");
            };
            let interfaces = if place < 3 { 4 } else { 6 };
            assert_eq!(found.interfaces, interfaces, "{file}");
            assert_eq!(found.statistics.len(), interfaces, "{file}");
            assert_eq!(*of_all, [packets, 0, packets], "{file}");
            for (number, [.., delivered]) in (1..).zip(of_each) {
                let of = found.packets.iter().filter(|it| it.interface == number);
                assert_eq!(of.count() as u64, *delivered, "{file}: interface {number}");
                of_late += if number > 3 { *delivered } else { 0 };
            }
        }
        assert_eq!(of_late, 2000);
    });
}

#[test]
fn an_idle_tunnel_does_not_keep_packets_from_a_classic_file() {
    lab(&["tcpreplay"], || {
        if !std::path::Path::new("/dev/net/tun").exists() {
            return lab::skip("/dev/net/tun");
        }
        ip("tuntap add dev tt mode tun");
        ip("link set tt up");
        let load = Load::new(50);
        let [all, copy, live, read] =
            ["all.pcapng", "copy.pcap", "live.pcap", "read.pcap"].map(|it| load.path(it));
        let name = format!("tunnel-{}", std::process::id());
        let child = listening_on("any", format!("-c 100 -w {all} --share {name}"));
        let mut reader = start!("capture -i share:{name} --json -c 100 -w {read}");
        heard(&mut reader, "forebay: listening on");
        let classic = listening_on("any", format!("-c 100 -w {live}"));
        load.send();
        for child in [child, classic] {
            child.wait_with_output().unwrap().keeps_the_law();
        }
        let read_output = reader.wait_with_output().unwrap();
        let copied = run!("capture -r {all} -w {copy} --json");
        for output in [read_output, copied] {
            assert_eq!(count(&output.keeps_the_law()["written"]), 100);
            assert_eq!(output.json()["not_copied"]["interfaces"], 1);
            contains(output.log(), "forebay: 1 interface of another link type");
        }
        for path in [copy, live, read] {
            let found = run!("info --json {path}").json();
            assert_eq!(found["packets"], 100, "{path}");
        }
        // Two that were named are both wanted.
        let refused = run!("capture -i va -i tt -w {}", load.path("both.pcap"));
        refused.fails(1, "EN10MB (Ethernet) of va, RAW (Raw IP) of tt");
    });
}

#[test]
fn a_quiet_interface_is_slept_on() {
    lab(&[], || {
        let child = listening("-w /dev/null");
        std::thread::sleep(Duration::from_secs(2));
        let ran = stopped(child);
        let poll = &ran.succeeds().json()["poll"];
        assert!(poll["asleep_seconds"].as_f64().unwrap() > poll["busy_seconds"].as_f64().unwrap());
        assert!(count(&poll["looks"]) < 1000, "{poll}");
        contains(ran.log(), "asleep ");
    });
}
