//! `forebay info` as users run it, compared with capinfos and sha256sum.

use crate::support::*;
use std::fs::{self, File};

/// The value that capinfos prints after `label` in its machine-readable form.
fn capinfos(path: &str, label: &str) -> String {
    let output = foreign(format!("capinfos -M {path}")).unwrap();
    let line = output.text().lines().find(|line| line.starts_with(label));
    let (_, value) = line.expect(label).split_once(':').unwrap();
    value.trim().to_owned()
}

#[test]
fn it_counts_what_capinfos_counts() {
    if !has("capinfos") {
        return;
    }
    let folder = Folder::new();
    let port = "size=imix,rate=10G,ring=32,host=none,cost=400ns,count=30000";
    for name in ["a.pcapng", "a.pcap"] {
        let path = recorded(&folder, name, port);
        let json = run!("info --json -H {path}").json();
        let [packets, bytes, wire] = counts(&json, ["packets", "bytes", "wire_bytes"]);
        assert_eq!(packets.to_string(), capinfos(&path, "Number of packets"));
        assert_eq!(format!("{bytes} bytes"), capinfos(&path, "File size"));
        assert_eq!(format!("{wire} bytes"), capinfos(&path, "Data size"));
        assert_eq!(json["sha256"], capinfos(&path, "SHA256"));
        assert_eq!(json["in_order"], true);
        let seconds = format!("{:.9} seconds", json["seconds"].as_f64().unwrap());
        assert_eq!(seconds, capinfos(&path, "Capture duration"));
        // 2026-11-21T07:20:26.427258433Z here, 2026-11-21 07:20:26.427258433 in local time there.
        let fraction = |time: &str| {
            let (_, fraction) = time.trim_end_matches('Z').rsplit_once('.').unwrap();
            fraction.to_owned()
        };
        let first = fraction(json["first"].as_str().unwrap());
        assert_eq!(first, fraction(&capinfos(&path, "First packet time")));
        assert_eq!(json["format"], name.split_once('.').unwrap().1);
        assert_eq!(json["interfaces"][0]["link_name"], "EN10MB");
    }
}

#[test]
fn losses_recorded_in_the_file_are_reported() {
    let folder = Folder::new();
    let port = "ring=64,host=none,cost=1us,count=50000";
    let path = recorded(&folder, "lossy.pcapng", port);
    let json = run!("info --json {path}").json();
    let interface = &json["interfaces"][0];
    let recorded = &interface["recorded"];
    let [received, delivered, dropped] = counts(recorded, ["received", "delivered", "dropped"]);
    assert!(
        dropped > 1000 && count(&interface["lost_in_gaps"]) <= dropped,
        "{json}"
    );
    assert_eq!((received, delivered + dropped), (50_000, 50_000));
    assert_eq!(interface["name"], "sim");
    let log = run!("info {path}");
    contains(log.text(), format!("Dropped by kernel:   {dropped}\n"));
}

#[test]
fn compressed_and_several_files_are_reported() {
    let (_folder, path) = captured("a.pcapng", "count=1000");
    foreign(format!("gzip {path}")).unwrap().succeeds();
    let path = path + ".gz";
    let sum = foreign(format!("sha256sum {path}")).unwrap();
    let output = run!("info -H {path} {path}");
    assert_eq!(output.text().matches("pcapng (gzip)\n").count(), 2);
    assert_eq!(
        output
            .text()
            .matches("Packets:               1000\n")
            .count(),
        2
    );
    contains(output.text(), &sum.text()[..64]);
    lacks(run!("info {path}").text(), "SHA-");
    let objects = run!("info --json {path} {path}").objects();
    assert_eq!(objects.len(), 2);
    assert!(
        objects
            .iter()
            .all(|json| json["sha256"].is_null() && json["sha1"].is_null())
    );
}

#[test]
fn an_unreadable_file_is_an_error_and_the_others_are_reported() {
    let (folder, whole) = captured("a.pcapng", "count=1000");
    let torn = folder.file("torn.pcapng", &fs::read(&whole).unwrap()[..50_000]);
    let ran = run!("info --json {} {torn} {whole}", folder.path("none"));
    ran.fails(1, "none: ");
    contains(ran.log(), "ends in the middle of a block");
    let found = ran.objects();
    assert!(found[0]["packets"].is_null() && found[0]["error"].is_string());
    assert!(count(&found[1]["packets"]) > 500 && found[1]["error"].is_string());
    assert!(found[2]["packets"] == 1000 && found[2]["error"].is_null());
}

#[test]
fn names_in_a_file_are_shown_and_not_obeyed() {
    let (_folder, path) = captured("a.pcapng", "count=10");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|five| five == b"1 Gb/").unwrap();
    bytes[at..at + 5].copy_from_slice(b"\x1b[2J\n");
    fs::write(&path, bytes).unwrap();
    let output = run!("info {path}");
    contains(output.text(), "\\u{1b}[2J\\n");
    lacks(output.text(), "\x1b");
}

#[test]
fn a_pipe_that_ended_is_reported_and_a_full_disk_is_an_error() {
    let (folder, path) = captured("a.pcapng", "count=10");
    let pipe = folder.path("pipe");
    mkfifo(&pipe);
    let (from, to) = (path.clone(), pipe.clone());
    let writer = std::thread::spawn(move || fs::copy(from, to).unwrap());
    contains(run!("info {pipe}").text(), "Packets:               10\n");
    writer.join().unwrap();
    let full = File::create("/dev/full").unwrap();
    let ran = forebay!("info {path}").stdout(full).output().unwrap();
    ran.fails(1, "standard output cannot be written");
}

#[test]
fn standard_input_is_reported_too() {
    let (_folder, path) = captured("a.pcapng", "count=1000");
    let mut command = forebay!("info --json -H -");
    let ran = command.stdin(File::open(&path).unwrap()).output().unwrap();
    let json = ran.json();
    assert!(
        json["packets"] == 1000 && json["sha256"].is_null(),
        "{json}"
    );
}

/// The line after the one with these names, by name.
fn columns(output: &[u8]) -> std::collections::HashMap<String, String> {
    let mut lines = text(output).lines();
    let mut line = || lines.next().unwrap().split('\t').map(str::to_owned);
    line().zip(line()).collect()
}

#[test]
fn the_table_holds_what_the_table_of_capinfos_holds() {
    if !has("capinfos") {
        return;
    }
    let folder = Folder::new();
    for name in ["a.pcapng", "a.pcap", "b.pcapng.gz"] {
        let path = recorded(&folder, name, "size=imix,count=3000");
        let theirs = foreign(format!("capinfos -TM {path}")).expect("it is there");
        let theirs = columns(&theirs.stdout);
        let ours = columns(&run!("info -TH {path}").stdout);
        for (our_name, their_name) in [
            ("File name", "File name"),
            ("Packets", "Number of packets"),
            ("File size (bytes)", "File size (bytes)"),
            ("Data on the wire (bytes)", "Data size (bytes)"),
            ("Duration (seconds)", "Capture duration (seconds)"),
            ("SHA-256", "SHA256"),
            ("SHA-1", "SHA1"),
        ] {
            let [ours, theirs] = [&ours[our_name], &theirs[their_name]];
            let is_equal = match (ours.parse::<f64>(), theirs.parse::<f64>()) {
                (Ok(ours), Ok(theirs)) => (ours - theirs).abs() < 1e-6 * theirs,
                _ => ours == theirs,
            };
            assert!(is_equal, "{name}: {our_name}: {ours} {theirs}");
        }
        let expected = format!("File name\tPackets\n{path}\t3000\n");
        assert_eq!(run!("info -Tc {path}").text(), expected);
        let count = run!("info -c {path}");
        assert_eq!(count.text().split_whitespace().last(), Some("3000"));
    }
}
