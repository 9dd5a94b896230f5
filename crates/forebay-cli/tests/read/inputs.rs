//! Inputs: several files, pipes, compressed files, torn files, and files together with an interface.

use crate::{
    found, law, packets, recorded,
    support::{Folder, count, forebay, run, summary, text},
};
use std::{
    io::Write,
    process::{Command, Stdio},
};

#[test]
fn several_files_are_read_one_after_another() {
    let folder = Folder::new();
    let one = recorded(&folder, "one.pcapng", "3000");
    let two = recorded(&folder, "two.pcap", "2000");
    let output = folder.path("out.pcapng");
    let ran = run(&[
        "-r", &one, "-r", &two, "-r", &one, "-s", "54", "-w", &output, "--json",
    ]);
    assert_eq!(
        law(&summary(&ran.stdout)),
        [8_000, 8_000, 0],
        "{}",
        text(&ran.stderr)
    );
    // 54 bytes end after the sequence number and before its complement, which `read` looks for.
    let packets = packets(&output);
    assert!(
        packets
            .iter()
            .all(|packet| packet.3 == 60 && packet.4.len() == 54)
    );
    let sequences = packets
        .iter()
        .map(|packet| u64::from(packet.4[48]) << 8 | u64::from(packet.4[49]));
    assert!(sequences.eq((0..3000).chain(0..2000).chain(0..3000)));
}

#[test]
fn a_torn_file_is_read_up_to_its_last_whole_packet() {
    let folder = Folder::new();
    for name in ["whole.pcapng", "whole.pcap"] {
        let whole = recorded(&folder, name, "1000");
        let bytes = std::fs::read(&whole).unwrap();
        let input = folder.path(&format!("torn-{name}"));
        // In the middle of a record: 92 and 76 bytes each.
        std::fs::write(&input, &bytes[..50_000]).unwrap();
        let output = folder.path("out.pcapng");
        let ran = run(&["-r", &input, "-w", &output, "--json"]);
        assert_eq!(ran.status.code(), Some(1));
        let packets = found(&output).packets.len() as u64;
        assert_eq!(law(&summary(&ran.stdout)), [packets, packets, 0]);
        let log = text(&ran.stderr);
        assert!(log.contains("ends in the middle of a"), "{log}");
        assert!(
            log.contains(&format!("read {packets} packets up to there")),
            "{log}"
        );
        assert!((540..660).contains(&packets));
    }
}

#[test]
fn compressed_files_and_pipes_are_read() {
    let folder = Folder::new();
    let input = recorded(&folder, "in.pcapng", "50000");
    let bytes = std::fs::read(&input).unwrap();
    let packed = Command::new("gzip")
        .args(["-c", &input])
        .output()
        .unwrap()
        .stdout;
    assert!(packed.len() < bytes.len() / 2);
    for (bytes, log) in [(bytes, "read"), (packed, "read, gzip")] {
        let mut child = forebay(&["-r", "-", "--json", "less 60"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&bytes).unwrap();
        drop(pipe);
        let ran = child.wait_with_output().unwrap();
        let json = summary(&ran.stdout);
        assert_eq!(
            (count(&json["received"]), count(&json["counted"])),
            (50_000, 50_000)
        );
        assert_eq!(json["got"]["sources"][0]["copy"], log);
    }
}

#[test]
fn files_are_read_to_the_last_beside_a_busy_port() {
    let folder = Folder::new();
    let one = recorded(&folder, "one.pcapng", "300");
    let two = recorded(&folder, "two.pcapng", "200");
    // The frames of the port are longer, so that only files match; it never lets the poller sleep.
    let port = "sim:rate=max,size=512";
    let ran = run(&[
        "-i", port, "-r", &one, "-r", &two, "-c", "500", "--json", "less 60",
    ]);
    let json = summary(&ran.stdout);
    assert_eq!(
        (count(&json["counted"]), json["law_holds"].as_bool()),
        (500, Some(true))
    );
}
