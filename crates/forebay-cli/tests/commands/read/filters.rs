//! Filters over files: matching packets, counts, and the sources of an expression.

use crate::read::law;
use crate::support::*;
use forebay_testing::blocks::{self, words};

#[test]
fn what_the_filter_rejects_is_counted_exactly() {
    let (folder, input) = captured("in.pcapng", "count=10000");
    let output = folder.path("out.pcapng");
    let ran = run!("capture -r {input} -w {output} --json udp and 'ether[49] & 3 = 1'");
    ran.succeeds();
    assert_eq!(law(&ran), [10_000, 2_500, 7_500]);
    let every_fourth: Vec<_> = (0..2_500).map(|k| 4 * k + 1).collect();
    assert_eq!(found::open(&output).sequences(), every_fourth);
    contains(
        ran.log(),
        "10000 received = 2500 written + 7500 filtered + 0 dropped",
    );
    // It is a file: tcpdump's lines about a kernel would make no sense.
    lacks(ran.log(), "kernel");
}

#[test]
fn a_count_is_a_count_of_what_passes() {
    let (folder, input) = captured("in.pcapng", "count=1000");
    let output = folder.path("out.pcapng");
    let ran = run!("capture -r {input} -c 10 -w {output} --json 'ether[49] & 7 = 7'");
    assert_eq!(law(&ran), [80, 10, 70]);
    assert_eq!(found::open(&output).packets.len(), 10);
}

#[test]
fn an_expression_may_come_from_a_file() {
    let (folder, input) = captured("in.pcapng", "count=1000");
    let text = "# the fifth\nudp # only\n  and ether[49]\n  = 5\n";
    let expression = folder.file("expression", text);
    let ran = run!("capture -r {input} -F {expression} --count --json");
    assert_eq!(count(&ran.json()["counted"]), 4);
}

#[test]
fn programs_are_printed_as_tcpdump_prints_them() {
    for (flag, begins) in [("-d", "(000) ld"), ("-dd", "{ 0x"), ("-ddd", "")] {
        let ran = run!("capture {flag} 'len > 100'");
        ran.succeeds();
        assert!(ran.text().starts_with(begins), "{}", ran.text());
        if let Some(tcpdump) = foreign(format!("tcpdump -y EN10MB {flag} 'len > 100'")) {
            assert_eq!(ran.text(), tcpdump.text());
        }
    }
}

#[test]
fn losses_marked_at_rejected_packets_are_marked_at_the_next_accepted_one() {
    let (_folder, output) = Folder::with("out.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=50000";
    let ran = run!("capture -i {port} -w {output} --json 'ether[49] & 15 = 3'");
    let json = ran.keeps_the_law();
    let kernel = count(&json["dropped"]["kernel"]);
    let [received, written, filtered] = counts(&json, ["received", "written", "filtered"]);
    assert!(kernel > 1000 && written > 100, "{json}");
    let found = found::open(&output);
    let marked: u64 = found.packets.iter().map(|it| it.dropped_before).sum();
    // Losses that no packet marks came after the last accepted packet.
    let after = received - found.packets.last().unwrap().sequence;
    assert!(marked <= kernel && kernel - marked < after);
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
    let head = [
        blocks::classic(0xa1b2_c3d4, 65_535, link),
        words(&[1, 0, len, len]),
    ];
    folder.file(name, [&head.concat(), data].concat())
}

#[test]
fn a_filter_has_to_make_sense_for_one_of_several_files_only() {
    let folder = Folder::new();
    let mut arp = [0; 60];
    (arp[12], arp[13]) = (8, 6);
    let ethernet = classic(&folder, "eth.pcap", 1, &arp);
    let raw = classic(&folder, "raw.pcap", 101, &[0x45; 40]);
    let output = folder.path("out.pcapng");
    for inputs in [
        format!("-r {ethernet} -r {raw}"),
        format!("-r {raw} -r {ethernet}"),
    ] {
        let filtered = |by: &str| run!("capture {inputs} -w {output} --json '{by}'");
        assert_eq!(
            law(filtered("ether[12:2] = 0x806 and arp").succeeds()),
            [2, 1, 1]
        );
        assert_eq!(law(&filtered("vlan")), [2, 0, 2]);
    }
    // For none of them: the error is printed, and nothing is created.
    let output = folder.path("none.pcapng");
    run!("capture -r {raw} -r {raw} -w {output} vlan")
        .fails(2, "'vlan' is not supported on link type RAW");
    assert!(!std::path::Path::new(&output).exists());
}

#[test]
fn a_filter_that_no_packet_can_match_is_warned_of_and_gives_an_empty_file() {
    let folder = Folder::new();
    let input = classic(&folder, "in.pcap", 1, &[0; 60]);
    for output in ["out.pcapng", "out.pcap"].map(|name| folder.path(name)) {
        for filter in ["ip and ip6", "1 = 2"] {
            let ran = run!("capture -q -r {input} -w {output} --json '{filter}'");
            let warning = "forebay: warning: no packet of link type EN10MB (Ethernet) can match";
            contains(ran.succeeds().log(), warning);
            assert_eq!(law(&ran), [1, 0, 1]);
            assert!(std::fs::metadata(&output).unwrap().len() >= 24);
        }
    }
}
