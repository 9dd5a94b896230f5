//! Filters over files: matching packets, counts, and the sources of an expression.

use crate::{
    found, law, recorded, sequences,
    support::{Folder, count, fails, has, run, summary, text},
};
use std::process::Command;

#[test]
fn what_the_filter_rejects_is_counted_exactly() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "10000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-w",
        &output,
        "--json",
        "udp",
        "and",
        "ether[49] & 3 = 1",
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(law(&summary(&ran.stdout)), [10_000, 2_500, 7_500]);
    let every_fourth: Vec<_> = (0..2_500).map(|k| 4 * k + 1).collect();
    assert_eq!(sequences(&found(&output)), every_fourth);
    let log = text(&ran.stderr);
    assert!(log.contains("10000 received = 2500 written + 7500 filtered + 0 dropped"));
    // It is a file: tcpdump's lines about a kernel would make no sense.
    assert!(!log.contains("kernel"), "{log}");
}

#[test]
fn a_count_is_a_count_of_what_passes() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "1000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-c",
        "10",
        "-w",
        &output,
        "--json",
        "ether[49] & 7 = 7",
    ]);
    assert_eq!(law(&summary(&ran.stdout)), [80, 10, 70]);
    assert_eq!(found(&output).packets.len(), 10);
}

#[test]
fn an_expression_may_come_from_a_file() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "1000");
    let expression = folder.path("expression");
    std::fs::write(
        &expression,
        "# the fifth\nudp # only\n  and ether[49]\n  = 5\n",
    )
    .unwrap();
    let ran = run(&["-r", &input, "-F", &expression, "--json"]);
    assert_eq!(count(&summary(&ran.stdout)["counted"]), 4);
}

#[test]
fn programs_are_printed_as_tcpdump_prints_them() {
    for (flag, begins) in [("-d", "(000) ld"), ("-dd", "{ 0x"), ("-ddd", "")] {
        let ran = run(&[flag, "len > 100"]);
        assert!(ran.status.success());
        assert!(
            text(&ran.stdout).starts_with(begins),
            "{}",
            text(&ran.stdout)
        );
        if has("tcpdump") {
            let args = ["-y", "EN10MB", flag, "len > 100"];
            let tcpdump = Command::new("tcpdump").args(args).output().unwrap();
            assert_eq!(text(&ran.stdout), text(&tcpdump.stdout));
        }
    }
}

#[test]
fn losses_marked_at_rejected_packets_are_marked_at_the_next_accepted_one() {
    let folder = Folder::new();
    let output = folder.path("out.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=50000";
    let ran = run(&["-i", port, "-w", &output, "--json", "ether[49] & 15 = 3"]);
    let json = summary(&ran.stdout);
    assert_eq!(json["law_holds"], true);
    let kernel = count(&json["dropped"]["kernel"]);
    let [received, written, filtered] =
        ["received", "written", "filtered"].map(|key| count(&json[key]));
    assert!(kernel > 1000 && written > 100, "{json}");
    let found = found(&output);
    let message: u64 = found
        .packets
        .iter()
        .map(|packet| packet.dropped_before)
        .sum();
    // Losses that no packet marks came after the last accepted packet.
    assert!(
        message <= kernel && kernel - message < received - found.packets.last().unwrap().sequence
    );
    let mut next = 0;
    for packet in &found.packets {
        assert!(packet.dropped_before <= packet.sequence - next);
        next = packet.sequence + 1;
    }
    // The statistics are about what passed the filter, those dropped before it included.
    assert_eq!(found.statistics, [[received - filtered, kernel, written]]);
}

/// A classic file of one packet with these bytes.
fn classic(folder: &Folder, name: &str, link: u32, data: &[u8]) -> String {
    let len = data.len() as u32;
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link, 1, 0, len, len];
    let path = folder.path(name);
    std::fs::write(
        &path,
        [&words.map(u32::to_le_bytes).concat()[..], data].concat(),
    )
    .unwrap();
    path
}

#[test]
fn a_filter_has_to_make_sense_for_one_of_several_files_only() {
    let folder = Folder::new();
    let mut arp = [0; 60];
    (arp[12], arp[13]) = (8, 6);
    let ethernet = classic(&folder, "eth.pcap", 1, &arp);
    let raw = classic(&folder, "raw.pcap", 101, &[0x45; 40]);
    for inputs in [[&ethernet, &raw], [&raw, &ethernet]] {
        let output = folder.path("out.pcapng");
        let args = ["-r", inputs[0], "-r", inputs[1], "-w", &output, "--json"];
        let ran = run(&[&args[..], &["ether[12:2] = 0x806 and arp"]].concat());
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert_eq!(law(&summary(&ran.stdout)), [2, 1, 1]);
        let vlan = run(&[&args[..], &["vlan"]].concat());
        assert_eq!(law(&summary(&vlan.stdout)), [2, 0, 2]);
    }
    // For none of them: the error is printed, and nothing is created.
    let output = folder.path("none.pcapng");
    let ran = run(&["-r", &raw, "-r", &raw, "-w", &output, "vlan"]);
    fails(&ran, 1, "'vlan' is not supported on link type RAW");
    assert!(!std::path::Path::new(&output).exists());
}

#[test]
fn a_filter_that_no_packet_can_match_is_warned_of_and_gives_an_empty_file() {
    let folder = Folder::new();
    let input = classic(&folder, "in.pcap", 1, &[0; 60]);
    for output in ["out.pcapng", "out.pcap"].map(|name| folder.path(name)) {
        for filter in ["ip and ip6", "1 = 2"] {
            let ran = run(&["-q", "-r", &input, "-w", &output, "--json", filter]);
            let message = text(&ran.stderr);
            assert!(ran.status.success(), "{message}");
            let warning = "forebay: warning: no packet of link type EN10MB (Ethernet) can match";
            assert!(message.contains(warning), "{message}");
            assert_eq!(law(&summary(&ran.stdout)), [1, 0, 1]);
            assert!(std::fs::metadata(&output).unwrap().len() >= 24);
        }
    }
}
