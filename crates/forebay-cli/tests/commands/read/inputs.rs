//! Inputs: several files, pipes, compressed files, torn files, and files together with an interface.

use crate::read::{law, packets};
use crate::support::*;
use std::io::Write;

#[test]
fn several_files_are_read_one_after_another() {
    let (folder, one) = captured("one.pcapng", "count=3000");
    let two = recorded(&folder, "two.pcap", "count=2000");
    let output = folder.path("out.pcapng");
    let ran = run!("capture -r {one} -r {two} -r {one} -s 54 -w {output} --json");
    assert_eq!(law(&ran), [8_000, 8_000, 0], "{}", ran.log());
    // 54 bytes end after the sequence number and before its complement, which `read` looks for.
    let packets = packets(&output);
    assert!(packets.iter().all(|it| it.3 == 60 && it.4.len() == 54));
    let sequences = packets
        .iter()
        .map(|it| u64::from(it.4[48]) << 8 | u64::from(it.4[49]));
    assert!(sequences.eq((0..3000).chain(0..2000).chain(0..3000)));
}

#[test]
fn a_torn_file_is_read_up_to_its_last_whole_packet() {
    let folder = Folder::new();
    for name in ["whole.pcapng", "whole.pcap"] {
        let whole = recorded(&folder, name, "count=1000");
        let bytes = std::fs::read(&whole).unwrap();
        // In the middle of a record: 92 and 76 bytes each.
        let input = folder.file(&format!("torn-{name}"), &bytes[..50_000]);
        let output = folder.path("out.pcapng");
        let ran = run!("capture -r {input} -w {output} --json");
        ran.fails(1, "ends in the middle of a");
        let packets = found::open(&output).packets.len() as u64;
        assert_eq!(law(&ran), [packets, packets, 0]);
        contains(ran.log(), format!("read {packets} packets up to there"));
        contains(ran.log(), "to cut off what is damaged: forebay repair FILE");
        assert!((540..660).contains(&packets));
    }
}

#[test]
fn compressed_files_and_pipes_are_read() {
    let (_folder, input) = captured("in.pcapng", "count=50000");
    let bytes = std::fs::read(&input).unwrap();
    let packed = foreign(format!("gzip -c {input}")).unwrap().stdout;
    assert!(packed.len() < bytes.len() / 2);
    for (bytes, log) in [(bytes, "read"), (packed, "read, gzip")] {
        let mut child = start!("capture -r - --count --json 'less 60'");
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let json = child.wait_with_output().unwrap().json();
        assert_eq!(counts(&json, ["received", "counted"]), [50_000; 2]);
        assert_eq!(json["got"]["sources"][0]["copy"], log);
    }
}

#[test]
fn files_are_read_to_the_last_beside_a_busy_port() {
    let (folder, one) = captured("one.pcapng", "count=300");
    let two = recorded(&folder, "two.pcapng", "count=200");
    // The frames of the port are longer, so that only files match; it never lets the poller sleep.
    let port = "sim:rate=max,size=512";
    let ran = run!("capture -i {port} -r {one} -r {two} -c 500 --count --json 'less 60'");
    assert_eq!(count(&ran.keeps_the_law()["counted"]), 500);
}
