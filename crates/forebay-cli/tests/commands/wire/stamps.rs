//! What a capture reports of its packets: the clock that stamped them, their direction, and whether they are as on the wire.

use crate::support::*;
use crate::wire::{
    Load,
    lab::{ip, lab},
    listening, listening_on,
};
use std::fs;

#[test]
fn hardware_that_takes_no_time_stamps_is_refused_with_what_to_do() {
    lab(&[], || {
        let ran = run!("capture -i va --time hardware -c 1");
        ran.fails(
            1,
            "va: stamping frames in hardware: its driver reports no support",
        );
        contains(ran.log(), "Leave --time hardware out");
        run!("capture -i any --time hardware -c 1").fails(1, "Name one interface".to_lowercase());
    });
    for (line, words) in [
        ("-i sim --time sundial", "Use software or hardware"),
        ("-i sim --time hardware", "interfaces such as eth0"),
        ("-i va --time hardware --threads 2", "leave --threads out"),
    ] {
        run!("capture {line} -c 1").fails(2, words);
    }
}

#[test]
fn the_file_names_the_clock_that_was_chosen() {
    lab(&["tcpreplay"], || {
        let (load, file) = Load::with_output(100);
        let comment = b"time stamps: software";
        for (flag, is_there) in [("--time software", true), ("", false)] {
            let json = load
                .through(listening(format!("-w {file} {flag}")))
                .keeps_the_law();
            let source = &json["got"]["sources"][0];
            assert_eq!(source["timestamps"], "kernel", "{json}");
            assert!(source["hardware_times"].is_null(), "{json}");
            let bytes = fs::read(&file).unwrap();
            let found = bytes.windows(comment.len()).any(|it| it == comment);
            assert_eq!(found, is_there, "{flag}");
            assert_eq!(found::open(&file).packets.len(), 100);
        }
    });
}

#[test]
fn the_direction_of_each_packet_is_in_the_file() {
    lab(&["tcpreplay", "tshark"], || {
        let (load, file) = Load::with_output(10);
        // Sent by this machine on one interface, received on the other one.
        let child = listening_on("vb -i va", format!("-w {file}"));
        load.through(child).keeps_the_law();
        let fields = "-e frame.interface_name -e frame.packet_flags_direction";
        let tshark = tool_output(format!("tshark -r {file} -T fields {fields}"));
        let mut lines: Vec<_> = tshark.text().lines().collect();
        lines.sort_unstable();
        let expected = [["va\t0x00000002"; 10], ["vb\t0x00000001"; 10]].concat();
        assert_eq!(lines, expected, "{}", tshark.log());
        // A copy of the file keeps them.
        let copy = load.path("copy.pcapng");
        run!("capture -r {file} -w {copy}").succeeds();
        let of = |file: &str| fs::read(file).unwrap();
        let flags = |file: &str| {
            let flag = [2, 0, 4, 0, 2, 0, 0, 0];
            of(file).windows(8).filter(|it| *it == flag).count()
        };
        assert_eq!((flags(&file), flags(&copy)), (10, 10));
    });
}

#[test]
fn packets_that_are_not_as_on_the_wire_are_announced_with_the_command_that_changes_it() {
    lab(&["ethtool"], || {
        let first = |arguments: &str| {
            let ran = run!("capture -a duration:1ms --count {arguments}");
            ran.succeeds().log().replace("\n  ", " ")
        };
        let log = first("-i va");
        let words = "packets of va may not be as on the wire, because of tso, gso, tx. To change that: sudo ";
        let (_, rest) = log.split_once(words).expect(&log);
        let command = rest.lines().next().unwrap();
        lacks(first("-q -i va"), "on the wire");
        lacks(first("-i lo"), "on the wire");
        contains(first("-i any"), "forebay interfaces -D");
        tool_output(command);
        lacks(first("-i va"), "on the wire");
        ip("link set va up");
    });
}
