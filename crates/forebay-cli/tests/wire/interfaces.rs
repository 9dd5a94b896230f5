//! Interfaces that are listed, go away, or stay quiet.

use crate::{
    Load, check, ended, heard,
    lab::{carries, ip, lab},
    listening, listening_on,
    support::{count, forebay, found::read, interrupt},
};
use std::{fs::File, time::Duration};

#[test]
fn a_deleted_interface_ends_the_capture_and_with_stop_on_down_so_does_one_that_goes_down() {
    lab(&["tcpreplay"], || {
        for (flags, loss, words) in [
            (&["--stop-on-down"][..], "link set vb down", "went down"),
            (&[], "link del vb", "is gone"),
        ] {
            let load = Load::new("5k");
            let file = load.path("got.pcapng");
            ip("link set vb up");
            let child = listening(&[&["-w", &file], flags].concat());
            load.send();
            ip(loss);
            let (code, json, log) = ended(child);
            assert_eq!(code, 1, "{log}");
            assert!(
                log.contains("vb: the interface ") && log.contains(words),
                "{log}"
            );
            check(&json, &read(File::open(&file).unwrap()), 5000);
        }
    });
}

#[test]
fn a_capture_goes_on_after_its_interface_was_down_and_reports_it() {
    lab(&["tcpreplay"], || {
        let load = Load::new("5k");
        let file = load.path("got.pcapng");
        let mut child = listening(&["-w", &file]);
        load.send();
        ip("link set vb down");
        let mut log = heard(&mut child, "vb: the interface went down");
        ip("link set vb up");
        log += &heard(&mut child, "vb: the interface is up again");
        carries("va");
        load.send();
        // Too short to be noticed.
        ip("link set vb down");
        ip("link set vb up");
        carries("va");
        let (code, json, rest) = load.through(child);
        log += &rest;
        assert_eq!(code, 0, "{log}");
        assert_eq!(json["law_holds"], true, "{json}");
        let ledger = ["received", "written"].map(|key| count(&json[key]));
        assert_eq!(ledger, [15_000; 2], "{log}");
        let outages = &json["got"]["sources"][0]["outages"];
        assert_eq!(count(&outages["count"]), 2, "{json}");
        assert!(outages["seconds"].as_f64().unwrap() > 0.0, "{json}");
        assert!(log.contains("vb was down 2 times"), "{log}");
        let found = read(File::open(&file).unwrap());
        assert_eq!(found.packets.len(), 15_000);
    });
}

#[test]
fn a_capture_that_ends_while_its_interface_is_down_succeeds_and_reports_it() {
    lab(&["tcpreplay"], || {
        let load = Load::new("5k");
        let file = load.path("got.pcapng");
        let mut child = listening(&["-w", &file]);
        load.send();
        ip("link set vb down");
        heard(&mut child, "vb: the interface went down");
        interrupt(&child, "-INT");
        let (code, json, log) = ended(child);
        assert_eq!(code, 0, "{log}");
        check(&json, &read(File::open(&file).unwrap()), 5000);
        assert!(log.contains("vb was down 1 time"), "{log}");

        // One that is deleted while it is down.
        ip("link set vb up");
        let mut child = listening(&["-w", &file]);
        ip("link set vb down");
        heard(&mut child, "vb: the interface went down");
        ip("link del vb");
        let (code, _, log) = ended(child);
        assert_eq!(code, 1, "{log}");
        assert!(log.contains("vb: the interface is gone"), "{log}");
    });
}

#[test]
fn an_interface_that_flaps_all_the_time_does_not_fill_the_screen() {
    lab(&[], || {
        let mut child = listening(&["-w", "/dev/null"]);
        let mut log = String::new();
        for _ in 0..5 {
            ip("link set vb down");
            log += &heard(&mut child, "the interface went down");
            ip("link set vb up");
            log += &heard(&mut child, "the interface is up again");
        }
        for _ in 0..20 {
            ip("link set vb down");
            ip("link set vb up");
        }
        interrupt(&child, "-INT");
        let (code, json, rest) = ended(child);
        log += &rest;
        assert_eq!(code, 0, "{log}");
        let outages = count(&json["got"]["sources"][0]["outages"]["count"]);
        assert!((6..=25).contains(&outages), "{json}");
        assert!(log.matches("the interface").count() <= 12, "{log}");
    });
}

#[test]
fn the_list_shows_what_can_be_captured_from() {
    lab(&[], || {
        let output = forebay(&["-D"]).output().unwrap();
        let log = String::from_utf8(output.stdout).unwrap();
        assert!(
            log.contains("va [Up, Running]") && log.contains("lo [Up, Running, Loopback]"),
            "{log}"
        );
        assert!(log.contains("\nany ["), "{log}");
        let output = forebay(&["-i", "vc"]).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(
            log.contains("no interface 'vc'") && log.contains("did you mean va?"),
            "{log}"
        );
        assert_eq!(output.status.code(), Some(1));
        ip("link set vb down");
        let output = forebay(&["-i", "vb"]).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(log.contains("ip link set vb up"), "{log}");
    });
}

#[test]
fn all_interfaces_at_once_are_distinguished_in_each_file_of_a_series() {
    lab(&["tcpreplay"], || {
        let load = Load::new("5k");
        let file = load.path("got.pcapng");
        let child = listening_on("any", &["-w", &file, "-b", "packets:3000"]);
        load.send();
        // One that appears later, in the middle of a file.
        ip("link add vx type veth peer name vy");
        ip("link set vx up");
        ip("link set vy up");
        load.send_into("vx", 1000);
        let (code, json, log) = load.through(child);
        assert_eq!(code, 0, "{log}");
        let ledger = ["received", "written"].map(|key| count(&json[key]));
        assert_eq!(ledger, [22_000; 2], "{log}");
        assert_eq!(json["got"]["sources"][0]["interface"], "any");
        let files: Vec<_> = json["files"].as_array().unwrap().iter().collect();
        assert_eq!(files.len(), 8);
        let mut of_late = 0;
        for (place, file) in files.into_iter().enumerate() {
            let found = read(File::open(file.as_str().unwrap()).unwrap());
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
fn a_quiet_interface_is_slept_on() {
    lab(&[], || {
        let child = listening(&["-w", "/dev/null"]);
        std::thread::sleep(Duration::from_secs(2));
        interrupt(&child, "-INT");
        let (code, json, log) = ended(child);
        assert_eq!(code, 0, "{log}");
        let poll = &json["poll"];
        assert!(poll["asleep_seconds"].as_f64().unwrap() > poll["busy_seconds"].as_f64().unwrap());
        assert!(count(&poll["looks"]) < 1000, "{poll}");
        assert!(log.contains("asleep "), "{log}");
    });
}
