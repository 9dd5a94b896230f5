//! Independent readers find every packet of a capture, whole, and the losses where they happened.

use crate::capture::check;
use crate::support::*;
use std::process::Stdio;

#[test]
fn the_first_minute_works_and_foreign_readers_agree() {
    let (_folder, file) = Folder::with("first.pcapng");
    let output = run!("capture -i sim:clock=virtual -c 200k -w {file} --json");
    contains(
        output.succeeds().log(),
        "listening on sim (1 Gb/s, 64-byte frames, seed 1",
    );
    check(&output.json(), output.log(), &found::open(&file));
    if let Some(info) = foreign(format!("capinfos -M -c {file}")) {
        contains(info.text(), "200000");
    }
    if let Some(dump) = foreign(format!("tcpdump -nr {file} --count")) {
        contains(dump.text(), "200000 packets");
    }
    let wrong = "ip.checksum.status != good || udp.checksum.status == bad || _ws.malformed";
    let verify = "-o ip.check_checksum:TRUE -o udp.check_checksum:TRUE";
    if let Some(shark) = foreign(format!("tshark -r {file} -Y '{wrong}' {verify}")) {
        assert_eq!(shark.text(), "");
    }
}

#[test]
fn millions_of_packets_are_each_there_once_and_in_order() {
    let count: u64 = rounds(5_000_000);
    let mut child = forebay!("capture -i sim:clock=virtual -c {count} -w - -q")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let found = found::read(child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(found.packets.len() as u64, count);
    assert_eq!(found.gaps(count), (0, 0));
}

#[test]
fn foreign_readers_see_the_drops_where_they_are() {
    let (_folder, file) = Folder::with("lossy.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run!("capture -i {port} -w {file} --json -q");
    let json = output.json();
    check(&json, output.log(), &found::open(&file));
    let drops = "-T fields -e frame.drop_count -Y frame.drop_count";
    let Some(shark) = foreign(format!("tshark -r {file} {drops}")) else {
        return;
    };
    let marks: Vec<u64> = shark.text().lines().map(|n| n.parse().unwrap()).collect();
    assert_eq!(marks.len() as u64, count(&json["gaps"]));
    assert!(marks.iter().sum::<u64>() <= count(&json["dropped"]["kernel"]));
}

#[test]
fn the_file_is_private_and_a_name_in_pcap_writes_the_classic_format() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, file) = Folder::with("old.pcap");
    run!("capture -i sim:clock=virtual -c 10 -w {file} -q").succeeds();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(bytes.len(), 24 + 10 * (16 + 60));
    if let Some(dump) = foreign(format!("tcpdump -nr {file} --count")) {
        contains(dump.text(), "10 packets");
    }
}

#[test]
fn a_classic_file_is_not_reported_to_mark_gaps() {
    let (_folder, file) = Folder::with("lossy.pcap");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run!("capture -i {port} -w {file} --json");
    contains(output.log(), "packets were lost");
    lacks(output.log(), "marked in the file");
    assert_eq!(output.json()["gaps"], 0);
}
