//! Filters that the kernel runs: what they let pass arrives, tags and all, and is counted.

use serde_json::Value;

use crate::support::*;
use crate::wire::{
    Load,
    lab::{classic, lab, skip},
    listening, listening_on, overloaded,
};

/// Checks the count of frames that the kernel's filter rejected.
fn rejected(json: &Value, expected: u64) {
    match json["filtered"].as_u64() {
        Some(filtered) => assert_eq!(filtered, expected, "{json}"),
        None => skip("eBPF, which root has outside of a user namespace"),
    }
}

#[test]
fn the_kernel_lets_pass_what_the_filter_keeps() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(10_000);
        let child = listening(format!("-w {file} udp and ether[49] & 3 = 1"));
        let ran = load.through(child);
        let json = ran.keeps_the_law();
        rejected(&json, 7_500);
        let line = json["filtered"].as_u64().map_or(
            "2500 received",
            |_| "10000 received = 2500 written + 7500 filtered",
        );
        contains(ran.log(), line);
        contains(ran.log(), "2500 packets received by filter");
        let found = found::open(&file);
        assert_eq!(found.statistics, [[2_500, 0, 2_500]]);
        let sequences = found.sequences().into_iter();
        assert!(sequences.eq((0..2_500).map(|k| 4 * k + 1)));
    });
}

#[test]
fn a_filter_that_is_refused_is_a_bad_request_and_only_the_kernel_limits_its_length() {
    lab(&[], || {
        let (folder, a) = captured("a.pcap", "count=10");
        let hosts: Vec<_> = (0..2000)
            .map(|n| format!("10.1.{}.{}", n / 250, n % 250))
            .collect();
        let long = folder.file("long", format!("not host {}", hosts.join(" or ")));
        let too_long = "instructions";
        for (command, wrong) in [
            ("capture -i va -F", too_long),
            ("capture -i any -F", too_long),
            ("capture -d -i va -F", too_long),
            ("capture --threads 2 -i va --count -F", too_long),
        ] {
            run!("{command} {long}").fails(2, wrong);
        }
        for command in [
            format!("capture -r {a} --count --json -F {long}"),
            format!("capture -i sim:count=10 --count --json -F {long}"),
        ] {
            let json = run!("{command}").keeps_the_law();
            assert_eq!(count(&json["filtered"]), 0, "{json}");
        }
        let listing = run!("capture -ddd -r {a} -F {long}");
        let first = listing.succeeds().text().lines().next().unwrap();
        assert!(first.parse::<u32>().unwrap() > 4096);
        let listing = run!("bridge va vb --tap /dev/null ifindex 3");
        listing.fails(2, "'ifindex' is not in");

        let refused = "is not supported on link type";
        let mut raw = std::fs::read(&a).unwrap();
        raw[20] = 101; // the link type of the classic format
        let raw = folder.file("raw.pcap", raw);
        for command in [
            format!("capture -r {raw} --count vlan"),
            format!("capture -r {raw} -d vlan"),
            format!("capture -r {raw} vlan"),
            format!("verify -r {raw} vlan"),
            format!("top --once -r {raw} vlan"),
        ] {
            run!("{command}").fails(2, refused);
        }
        run!("replay {a} -i va -f 'ip and ip6'").fails(2, "no packet of link type EN10MB");
        run!("capture -i va ip and ip6").fails(2, "no packet of link type EN10MB");
    });
}

#[test]
fn tags_are_filtered_where_the_kernel_keeps_them() {
    lab(&["tcpreplay"], || {
        let load = Load::new(1);
        let frame = |tags: &[u16], number: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
            for tag in tags {
                frame.extend([0x81, 0, (tag >> 8) as u8, *tag as u8]);
            }
            frame.extend([0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, number, 0, 53, 0, 53, 0, 26, 0, 0]);
            frame.resize(80, number);
            frame
        };
        let kinds: [&[u16]; 4] = [&[], &[5], &[6], &[5, 7]];
        let frames = (0..200).map(|n| frame(kinds[n % 4], n as u8));
        let frames: Vec<_> = frames.collect();
        std::fs::write(load.path("sent.pcap"), classic(&frames)).unwrap();
        for (expression, kept) in [
            ("vlan 5", &[1, 3][..]),
            ("vlan and udp", &[1, 2]),
            ("vlan 5 and vlan 7 and host 10.0.0.1", &[3]),
            ("not vlan", &[0]),
            ("inbound and vlan 6", &[2]),
            ("outbound", &[]),
        ] {
            let file = load.path("got.pcap");
            let child = listening(format!("-w {file} {expression}"));
            load.through(child).succeeds();
            let got = std::fs::read(&file).unwrap();
            let expected = frames.iter().enumerate();
            let expected: Vec<_> = expected
                .filter(|(n, _)| kept.contains(&(n % 4)))
                .map(|(_, frame)| frame.clone())
                .collect();
            // Records of 16 and 80 bytes: the frames as they were sent, tags put back.
            let got: Vec<_> = got[24..].chunks(96).map(|r| r[16..].to_vec()).collect();
            assert!(got == expected, "{expression}: {} frames", got.len());
        }
    });
}

#[test]
fn with_a_filter_overload_is_counted_and_marked_as_without() {
    lab(&["tcpreplay"], || {
        let load = Load::new(300_000);
        let flags = "-w - -B 1M --store 2x64KiB ether[49] & 1 = 1";
        let (found, ran) = overloaded(&load, flags);
        let json = ran.keeps_the_law();
        rejected(&json, 150_000);
        let [received, written] = counts(&json, ["received", "written"]);
        let received = received - json["filtered"].as_u64().unwrap_or(0);
        let kernel = count(&json["dropped"]["kernel"]);
        assert_eq!(received, 150_000);
        assert!(kernel > 50_000, "{json}");
        assert_eq!(found.statistics, [[received, kernel, written]]);
        let odd = found.packets.iter().all(|packet| packet.sequence % 2 == 1);
        assert!(odd && found.packets.len() as u64 == written);
    });
}

#[test]
fn a_filter_of_two_interfaces_counts_what_each_rejected_also_under_overload() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(120_000);
        // What is sent into `va` leaves there and arrives at `vb`: each of them sees every frame.
        for (flags, overload) in [("-B 256M", false), ("-B 1M", true)] {
            let child = listening_on("vb -i va", format!("-w {file} {flags} ether[49] & 1 = 1"));
            if overload {
                interrupt(&child, "-STOP");
            }
            load.send();
            if overload {
                interrupt(&child, "-CONT");
            }
            let ran = stopped(child);
            let json = ran.keeps_the_law();
            rejected(&json, 120_000);
            let filtered = json["filtered"].as_u64().unwrap_or(0);
            let [received, written] = counts(&json, ["received", "written"]);
            let kernel = count(&json["dropped"]["kernel"]);
            assert_eq!(received, 120_000 + filtered, "{json}");
            assert_eq!(received, written + filtered + kernel, "{json}");
            assert_eq!(kernel > 10_000, overload, "{json}");
            let found = found::open(&file);
            assert_eq!(found.statistics.len(), 2, "{json}");
            let mut dropped = 0;
            for (number, [passed, lost, delivered]) in (0..).zip(found.statistics) {
                let from_here = found.packets.iter().filter(|it| it.interface == number);
                assert_eq!(from_here.count() as u64, delivered, "{json}");
                assert_eq!([passed, lost + delivered], [60_000; 2], "{json}");
                dropped += lost;
            }
            assert_eq!(dropped, kernel, "{json}");
            let odd = found.packets.iter().all(|packet| packet.sequence % 2 == 1);
            assert!(odd, "a packet that the filter rejects is in the file");
        }
    });
}
