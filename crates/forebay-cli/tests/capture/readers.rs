//! Independent readers find every packet of a capture, whole, and the losses where they happened.

use crate::{
    check,
    support::{Folder, count, forebay, found::read, has, run, summary, text, words},
};
use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

/// What a foreign reader finds; `None`, with a message, if it is not installed.
fn foreign(program: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    has(program).then(|| command.output().unwrap())
}

#[test]
fn the_first_minute_works_and_foreign_readers_agree() {
    let folder = Folder::new();
    let file = folder.path("first.pcapng");
    let output = run(&words(&format!(
        "-i sim:clock=virtual -c 200k -w {file} --json"
    )));
    let log = text(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(
        log.contains("listening on sim (1 Gb/s, 64-byte frames, seed 1"),
        "{log}"
    );
    check(
        &summary(&output.stdout),
        log,
        &read(File::open(&file).unwrap()),
    );
    if let Some(info) = foreign("capinfos", &["-M", "-c", &file]) {
        assert!(
            text(&info.stdout).contains("200000"),
            "{}",
            text(&info.stdout)
        );
    }
    if let Some(dump) = foreign("tcpdump", &["-nr", &file, "--count"]) {
        assert!(
            text(&dump.stdout).contains("200000 packets"),
            "{}",
            text(&dump.stdout)
        );
    }
    let wrong = "ip.checksum.status != good || udp.checksum.status == bad || _ws.malformed";
    let verify = [
        "-o",
        "ip.check_checksum:TRUE",
        "-o",
        "udp.check_checksum:TRUE",
    ];
    if let Some(shark) = foreign(
        "tshark",
        &[&["-r", &file, "-Y", wrong], &verify[..]].concat(),
    ) {
        let first = text(&shark.stdout).lines().next();
        assert_eq!(first, None);
    }
}

#[test]
fn five_million_packets_are_each_there_once_and_in_order() {
    let mut child = forebay(&["-i", "sim:clock=virtual", "-c", "5M", "-w", "-", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let found = read(child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(found.packets.len(), 5_000_000);
    assert_eq!(found.gaps(5_000_000), (0, 0));
}

#[test]
fn foreign_readers_see_the_drops_where_they_are() {
    let folder = Folder::new();
    let file = folder.path("lossy.pcapng");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run(&["-i", port, "-w", &file, "--json", "-q"]);
    let json = summary(&output.stdout);
    check(
        &json,
        text(&output.stderr),
        &read(File::open(&file).unwrap()),
    );
    let fields = [
        "-r",
        &file,
        "-T",
        "fields",
        "-e",
        "frame.drop_count",
        "-Y",
        "frame.drop_count",
    ];
    let Some(shark) = foreign("tshark", &fields) else {
        return;
    };
    let marks: Vec<u64> = text(&shark.stdout)
        .lines()
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(marks.len() as u64, count(&json["gaps"]));
    assert!(marks.iter().sum::<u64>() <= count(&json["dropped"]["kernel"]));
}

#[test]
fn the_file_is_private_and_a_name_in_pcap_writes_the_classic_format() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let file = folder.path("old.pcap");
    let output = run(&["-i", "sim:clock=virtual", "-c", "10", "-w", &file, "-q"]);
    assert!(output.status.success());
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_le_bytes());
    assert_eq!(bytes.len(), 24 + 10 * (16 + 60));
    if let Some(dump) = foreign("tcpdump", &["-nr", &file, "--count"]) {
        assert!(text(&dump.stdout).contains("10 packets"));
    }
}

#[test]
fn a_classic_file_is_not_reported_to_mark_gaps() {
    let folder = Folder::new();
    let file = folder.path("lossy.pcap");
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=20000";
    let output = run(&["-i", port, "-w", &file, "--json"]);
    let log = text(&output.stderr);
    assert!(
        log.contains("packets were lost") && !log.contains("marked in the file"),
        "{log}"
    );
    assert_eq!(summary(&output.stdout)["gaps"], 0);
}
