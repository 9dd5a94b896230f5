//! Filters over files: what passes, what is counted, and where an expression comes from.

use crate::{
    found, law, recorded, sequences,
    support::{Folder, count, has, run, summary, text},
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
    let said = text(&ran.stderr);
    assert!(said.contains("10000 received = 2500 written + 7500 filtered + 0 dropped"));
    // It is a file: tcpdump's lines about a kernel would make no sense.
    assert!(!said.contains("kernel"), "{said}");
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
fn losses_that_rejected_packets_told_of_are_told_by_the_next_one_that_passes() {
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
    let told: u64 = found
        .packets
        .iter()
        .map(|packet| packet.dropped_before)
        .sum();
    // What is not told by a packet was lost behind the last one that passed.
    assert!(told <= kernel && kernel - told < received - found.packets.last().unwrap().sequence);
    let mut next = 0;
    for packet in &found.packets {
        assert!(packet.dropped_before <= packet.sequence - next);
        next = packet.sequence + 1;
    }
    // The statistics are about what passed the filter, those dropped before it included.
    assert_eq!(found.statistics, [[received - filtered, kernel, written]]);
}
