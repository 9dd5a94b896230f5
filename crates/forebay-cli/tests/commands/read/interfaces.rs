//! Files put together by hand, whose interfaces differ or come late.

use crate::read::{law, packets};
use crate::support::*;
use forebay_testing::blocks::{self, block, words};
use std::fs::File;

fn section() -> Vec<u8> {
    blocks::section(&[])
}

/// An interface description with a resolution.
fn interface(link: u8, snaplen: u8, resolution: u8) -> Vec<u8> {
    let options = [9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0];
    let head = [link, 0, 0, 0, snaplen, 0, 0, 0];
    block(1, &[&head[..], &options[..]].concat())
}

/// An enhanced packet of four bytes, nine on the wire.
fn packet(interface: u32, ticks: u32) -> Vec<u8> {
    let head = words(&[interface, 0, ticks, 4, 9]);
    block(6, &[&head[..], &[0x45, 1, 2, 3]].concat())
}

#[test]
fn interfaces_may_come_while_the_output_has_no_room() {
    let folder = Folder::new();
    let mut file = section();
    for number in 0..20_000 {
        file.extend(interface(101, 80, 9));
        file.extend(packet(number, number));
        file.extend(packet(number / 2, number));
    }
    let input = folder.file("in.pcapng", file);
    let mut child = start!("capture -r {input} -w - --store 2x64KiB --json");
    // 3.5 MB that are not read for a while.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut stdout = child.stdout.take().unwrap();
    let output = folder.path("out.pcapng");
    let copying = std::thread::spawn(move || {
        std::io::copy(&mut stdout, &mut File::create(&output).unwrap()).unwrap();
        output
    });
    let ran = child.wait_with_output().unwrap();
    let output = copying.join().unwrap();
    assert_eq!(law(&ran), [40_000, 40_000, 0]);
    assert!(packets(&output).iter().all(|packet| packet.0 == 101));
    let interfaces = blocks::found(&output)
        .into_iter()
        .filter(|(kind, _)| *kind == 1);
    assert_eq!(interfaces.count(), 20_000);
}

#[test]
fn each_interface_keeps_its_name_link_type_and_resolution() {
    let folder = Folder::new();
    // Two interfaces: Ethernet with microseconds, raw IP with 2^-10 seconds.
    let file = [
        section(),
        interface(1, 96, 6),
        packet(0, 200),
        interface(101, 80, 0x80 | 10),
        packet(1, 7),
        packet(0, 201),
    ];
    let (input, output) = (
        folder.file("in.pcapng", file.concat()),
        folder.path("out.pcapng"),
    );
    run!("capture -r {input} -w {output}").succeeds();
    let expected = [(1, 6, 200), (101, 0x80 | 10, 7), (1, 6, 201)];
    let found: Vec<_> = packets(&output)
        .iter()
        .map(|it| (it.0, it.1, it.2))
        .collect();
    assert_eq!(found, expected);

    // The second interface appears after the first packet is written: too late.
    let output = folder.path("out.pcap");
    run!("capture -r {input} -w {output}").fails(1, "different link types. Name it .pcapng");
    assert_eq!(std::fs::read(&output).unwrap().len(), 24 + 16 + 4);
}

#[test]
fn a_classic_copy_holds_one_link_type_whatever_other_interfaces_there_are() {
    let folder = Folder::new();
    // Raw IP comes first, and once more after the packets; Ethernet has two time units.
    let file = [
        section(),
        interface(101, 80, 6),
        interface(1, 96, 6),
        interface(1, 96, 9),
        packet(1, 1),
        packet(0, 2),
        packet(2, 3),
        interface(113, 80, 9),
        packet(3, 4),
    ];
    let (input, output) = (
        folder.file("in.pcapng", file.concat()),
        folder.path("out.pcap"),
    );
    let ran = run!("capture -r {input} -w {output} --json 'ether[0] = 0x45 or vlan'");
    assert_eq!(law(&ran), [4, 2, 2], "{}", ran.log());
    contains(ran.log(), "2 interfaces of other link types not copied");
    assert_eq!(ran.json()["not_copied"]["interfaces"], 2);
    let copied = std::fs::read(&output).unwrap();
    let head = blocks::classic(0xa1b2_3c4d, 262_144, 1);
    assert_eq!((&copied[..24], copied.len()), (&head[..], 24 + 2 * 20));
    assert_eq!(copied[28..32], 1000_u32.to_le_bytes());
    assert_eq!(copied[48..52], 3_u32.to_le_bytes());
    // In a series, every file has the header; without packets, the first interface determines it.
    let series = folder.path("series.pcap");
    let line =
        format!("capture -r {input} -w {series} --json -b packets:1 'ether[0] = 0x45 or vlan'");
    assert_eq!(law(&run!("{line}")), [4, 2, 2]);
    let files = folder
        .names()
        .into_iter()
        .filter(|it| it.starts_with("series_"));
    let all: Vec<_> = files
        .map(|it| std::fs::read(folder.path(&it)).unwrap())
        .collect();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it[..24] == head && it.len() == 44));
    let none = run!("capture -r {input} -w {output} --json 'greater 100'");
    assert_eq!(law(&none), [4, 0, 4]);
    assert_eq!(
        std::fs::read(&output).unwrap(),
        blocks::classic(0xa1b2_c3d4, 262_144, 101)
    );
    // A mixture is refused at the first packet of another type.
    let two = "EN10MB (Ethernet), RAW (Raw IP): a .pcap file cannot hold packets of different link types. Name it .pcapng";
    run!("capture -r {input} -w {output}").fails(1, two);
    assert_eq!(std::fs::read(&output).unwrap().len(), 44);
    let ran = run!("capture -r {input} -y EN10MB --count");
    ran.fails(2, "in.pcapng has the link types RAW, EN10MB. Leave -y out");
}

#[test]
fn the_format_pcap_has_nanoseconds_also_if_only_a_late_interface_has_them() {
    let folder = Folder::new();
    let file = [
        section(),
        interface(1, 96, 6),
        packet(0, 5),
        interface(1, 96, 9),
        packet(1, 7),
    ];
    let (input, output) = (
        folder.file("in.pcapng", file.concat()),
        folder.path("out.pcap"),
    );
    // The name alone: in microseconds, as the source was when the file began.
    let late = "began with microseconds cannot hold nanoseconds. Name it .pcapng";
    run!("capture -r {input} -w {output}").fails(1, late);
    for (flags, magic, expected) in [
        ("--format pcap", 0xa1b2_3c4d, [5000, 7]),
        ("--format pcap-us", 0xa1b2_c3d4, [5, 0]),
    ] {
        run!("capture -r {input} -w {output} {flags}").succeeds();
        let copied = std::fs::read(&output).unwrap();
        assert_eq!(copied[..24], blocks::classic(magic, 262_144, 1));
        for (at, time) in [28, 48].into_iter().zip(expected) {
            assert_eq!(copied[at..at + 4], u32::to_le_bytes(time), "{flags}");
        }
    }
}

#[test]
fn where_a_filter_makes_no_sense_nothing_matches_and_the_rest_is_read() {
    let folder = Folder::new();
    let [ethernet, raw] = [interface(1, 96, 6), interface(101, 80, 6)];
    let file = [
        section(),
        ethernet,
        packet(0, 1),
        raw.clone(),
        packet(1, 2),
        packet(0, 3),
    ];
    let input = folder.file("in.pcapng", file.concat());
    let output = folder.path("out.pcapng");
    let ran = run!("capture -r {input} -w {output} --json 'ether[0] = 0x45 or vlan'");
    assert_eq!(law(&ran), [3, 2, 1], "{}", ran.log());
    // On none of them: then it is the filter that is wrong.
    folder.file("in.pcapng", [section(), raw, packet(0, 1)].concat());
    run!("capture -r {input} vlan").fails(2, "'vlan' is not supported on link type RAW");
}

#[test]
fn a_classic_copy_is_not_cut_by_what_an_interface_claims() {
    let folder = Folder::new();
    // An interface that says it keeps 2 bytes, and a packet of 4; then times after 2106.
    let late = words(&[0, 0x0100_0000, 0, 4, 9]);
    let late = block(6, &[&late[..], &[0x45; 4]].concat());
    let file = [section(), interface(1, 2, 6), packet(0, 1), late];
    let input = folder.file("in.pcapng", file.concat());
    let output = folder.path("out.pcap");
    run!("capture -r {input} -w {output}").fails(1, "times after February 2106. Name it .pcapng");
    let copied = std::fs::read(&output).unwrap();
    assert_eq!(copied.len(), 24 + 16 + 4);
    assert_eq!(copied[16..20], 262_144_u32.to_le_bytes());
}
