//! Files put together by hand, whose interfaces differ or come late.

use crate::{
    law, packets,
    support::{Folder, fails, forebay, run, summary, text},
};
use std::{fs::File, process::Stdio};

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes(), &len, body, &len].concat()
}

fn section() -> Vec<u8> {
    let magic = [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    block(0x0a0d_0d0a, &[magic, [255; 8]].concat())
}

/// An interface description with a resolution.
fn interface(link: u8, snaplen: u8, resolution: u8) -> Vec<u8> {
    let options = [9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0];
    let head = [link, 0, 0, 0, snaplen, 0, 0, 0];
    block(1, &[&head[..], &options[..]].concat())
}

/// An enhanced packet of four bytes, nine on the wire.
fn packet(interface: u32, ticks: u32) -> Vec<u8> {
    let words = [interface, 0, ticks, 4, 9].map(u32::to_le_bytes);
    block(6, &[&words.concat()[..], &[0x45, 1, 2, 3]].concat())
}

fn found_interfaces(path: &str) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut interfaces) = (0, 0);
    while at < bytes.len() {
        interfaces += usize::from(word(at) == 1);
        at += word(at + 4) as usize;
    }
    interfaces
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
    let input = folder.path("in.pcapng");
    std::fs::write(&input, file).unwrap();
    let mut child = forebay(&["-r", &input, "-w", "-", "--store", "2x64KiB", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
    assert_eq!(law(&summary(&ran.stderr)), [40_000, 40_000, 0]);
    assert!(packets(&output).iter().all(|packet| packet.0 == 101));
    assert_eq!(found_interfaces(&output), 20_000);
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
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    std::fs::write(&input, file.concat()).unwrap();
    let ran = run(&["-r", &input, "-w", &output]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let expected = [(1, 6, 200), (101, 0x80 | 10, 7), (1, 6, 201)];
    let found = packets(&output);
    assert!(
        found.iter().map(|p| (p.0, p.1, p.2)).eq(expected),
        "{found:?}"
    );

    // The second interface appears after the first packet is written: too late.
    let output = folder.path("out.pcap");
    let ran = run(&["-r", &input, "-w", &output]);
    assert_eq!(ran.status.code(), Some(1));
    let log = text(&ran.stderr);
    assert!(
        log.contains("different link types. Name it .pcapng"),
        "{log}"
    );
    assert_eq!(std::fs::read(&output).unwrap().len(), 24 + 16 + 4);
}

#[test]
fn where_a_filter_makes_no_sense_nothing_matches_and_the_rest_is_read() {
    let folder = Folder::new();
    let [ethernet, raw] = [interface(1, 96, 6), interface(101, 80, 6)];
    let file = [
        section(),
        ethernet,
        packet(0, 1),
        raw,
        packet(1, 2),
        packet(0, 3),
    ];
    let input = folder.path("in.pcapng");
    std::fs::write(&input, file.concat()).unwrap();
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r",
        &input,
        "-w",
        &output,
        "--json",
        "ether[0] = 0x45 or vlan",
    ]);
    assert_eq!(
        law(&summary(&ran.stdout)),
        [3, 2, 1],
        "{}",
        text(&ran.stderr)
    );
    // On none of them: then it is the filter that is wrong.
    std::fs::write(
        &input,
        [section(), interface(101, 80, 6), packet(0, 1)].concat(),
    )
    .unwrap();
    let ran = run(&["-r", &input, "vlan"]);
    fails(&ran, 1, "'vlan' is not supported on link type RAW");
}

#[test]
fn a_classic_copy_is_not_cut_by_what_an_interface_claims() {
    let folder = Folder::new();
    // An interface that says it keeps 2 bytes, and a packet of 4; then times after 2106.
    let input = folder.path("in.pcapng");
    let late = [0, 0x0100_0000, 0, 4, 9].map(u32::to_le_bytes).concat();
    let late = block(6, &[&late[..], &[0x45; 4]].concat());
    let file = [section(), interface(1, 2, 6), packet(0, 1), late];
    std::fs::write(&input, file.concat()).unwrap();
    let output = folder.path("out.pcap");
    let ran = run(&["-r", &input, "-w", &output]);
    fails(&ran, 1, "times after February 2106. Name it .pcapng");
    let copied = std::fs::read(&output).unwrap();
    assert_eq!(
        (copied.len(), &copied[16..20]),
        (24 + 16 + 4, &262_144_u32.to_le_bytes()[..])
    );
}
