//! `forebay repair` as its users run it, on captures that were cut, damaged and filled with zeros.

use crate::support::*;
use serde_json::Value;
use std::fs;

/// A capture of 1000 packets, and its bytes.
fn recorded(folder: &Folder, name: &str) -> (String, Vec<u8>) {
    let path = crate::support::recorded(folder, name, "count=1000,size=imix");
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

/// A capture cut in its middle, and the bytes that it had before.
fn torn(folder: &Folder) -> (String, Vec<u8>) {
    let (path, bytes) = recorded(folder, "torn.pcapng");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    (path, bytes)
}

/// Packets that a foreign reader finds, which reads the file to its end without complaint.
fn packets_by_tshark(path: &str) -> Option<u64> {
    let output = foreign(format!("tshark -r {path}"))?;
    Some(output.succeeds().text().lines().count() as u64)
}

#[test]
fn wherever_a_file_is_cut_all_before_is_saved_and_nothing_is_lost() {
    let folder = Folder::new();
    for name in ["torn.pcapng", "torn.pcap"] {
        let (path, bytes) = recorded(&folder, name);
        let rest = format!("{path}.cut");
        let (mut packets_before, mut foreign) = (0, 0);
        for part in 1..40 {
            let len = bytes.len() * part / 40 + part;
            fs::write(&path, &bytes[..len]).unwrap();
            let dry = run!("repair -n --json {path}").json();
            let log = run!("repair --json {path}").succeeds().json();
            assert_eq!(dry["whole_bytes"], log["whole_bytes"]);
            let [whole, packets] = counts(&log, ["whole_bytes", "packets"]);
            let whole = whole as usize;
            assert!(packets >= packets_before);
            packets_before = packets;
            // Both parts together are what there was.
            assert_eq!(fs::read(&path).unwrap(), bytes[..whole]);
            if whole < len {
                assert_eq!(log["rest"], Value::from(rest.clone()));
                assert_eq!(fs::read(&rest).unwrap(), bytes[whole..len]);
                assert!(len - whole < 2000, "more than a packet was cut off");
                fs::remove_file(&rest).unwrap();
            }
            if part % 10 == 0
                && let Some(found) = packets_by_tshark(&path)
            {
                assert_eq!(found, packets);
                foreign += 1;
            }
            contains(run!("repair {path}").text(), "is whole");
        }
        assert!(packets_before > 900 && (foreign == 3 || !has("tshark")));
    }
}

#[test]
fn a_dry_run_changes_nothing_and_its_exit_code_reports_the_cut() {
    let folder = Folder::new();
    let (path, bytes) = torn(&folder);
    let output = run!("repair -n {path}");
    assert_eq!(output.status.code(), Some(1));
    contains(output.text(), "bytes would be cut off");
    assert_eq!(file_len(&path), bytes.len() as u64 / 2);
    fs::write(&path, &bytes).unwrap();
    let expected = format!("{path}: is whole: 1000 packets, {} bytes\n", bytes.len());
    assert_eq!(run!("repair -n {path}").succeeds().text(), expected);
}

#[test]
fn a_compressed_file_is_cut_after_its_last_whole_piece() {
    let folder = Folder::new();
    for name in ["torn.pcapng.gz", "torn.pcap.zst"] {
        let path = folder.path(name);
        // Each buffer of 16 KiB becomes a piece.
        let flags = "--store 4x16KiB -c 2000 -q";
        run!("capture -i sim:clock=virtual,size=imix {flags} -w {path}").succeeds();
        let bytes = fs::read(&path).unwrap();
        contains(
            run!("repair {path}").succeeds().text(),
            "is whole: 2000 packets",
        );
        let (mut before, mut refused) = (0, 0);
        for part in 1..20 {
            let len = bytes.len() * part / 20;
            fs::write(&path, &bytes[..len]).unwrap();
            let output = run!("repair --json {path}");
            if output.status.code() == Some(1) {
                // Not even the first piece is whole.
                refused += 1;
                continue;
            }
            let log = output.succeeds().json();
            let [whole, packets] = counts(&log, ["whole_bytes", "packets"]);
            assert_eq!(file_len(&path), whole);
            assert!(packets >= before, "{log}");
            before = packets;
            let read = run!("capture -r {path} --count --json").keeps_the_law();
            assert_eq!(count(&read["received"]), packets);
            let rest = format!("{path}.cut");
            assert_eq!(file_len(&rest), len as u64 - whole);
            let _ = fs::remove_file(&rest);
        }
        assert!(before > 1500 && refused < 4, "{before} {refused}");
    }
}

#[test]
fn zeros_after_the_packets_are_no_packets_and_need_not_be_kept() {
    let folder = Folder::new();
    for name in ["room.pcapng", "room.pcap"] {
        let (path, bytes) = recorded(&folder, name);
        for zeros in [16, 1 << 20, (1 << 20) + 5] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + zeros, 0);
            fs::write(&path, &longer).unwrap();
            let output = run!("repair {path}");
            contains(
                output.succeeds().text(),
                format!("the {zeros} bytes after it were zeros"),
            );
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert!(!fs::exists(format!("{path}.cut")).unwrap());
        }
    }
}

#[test]
fn what_is_cut_off_is_durable_before_it_is_cut() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (path, _) = torn(&folder);
    let log = folder.path("log");
    let line = format!("repair {path}");
    let mut command = strace("-y -e trace=fsync,ftruncate", &log, &line);
    command.output().unwrap().succeeds();
    let log = fs::read_to_string(&log).unwrap();
    let calls = log.lines().filter_map(|line| {
        let (call, rest) = line.split_once('(')?;
        let name = rest.split_once('<')?.1.split_once('>')?.0;
        Some((call.rsplit(' ').next()?, name.rsplit('/').next()?))
    });
    let folder = folder.path("");
    let folder = folder.trim_end_matches('/').rsplit('/').next().unwrap();
    let expected = [
        ("fsync", "torn.pcapng.cut.part"),
        ("fsync", folder),
        ("ftruncate", "torn.pcapng"),
        ("fsync", "torn.pcapng"),
    ];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[test]
fn zeros_that_break_off_are_reported_as_zeros() {
    let folder = Folder::new();
    let (path, mut bytes) = recorded(&folder, "torn.pcap");
    let len = bytes.len();
    bytes.resize(len + 1000, 0); // 62 packets of nothing and a half
    fs::write(&path, &bytes).unwrap();
    let expected = format!(
        "has zeros in place of packets from byte {len} on: read 1000 packets up to there. Cut to 1000 packets"
    );
    contains(run!("repair {path}").text(), expected);
}

#[test]
fn damage_in_the_middle_is_cut_there_and_all_after_it_is_kept() {
    let folder = Folder::new();
    let (path, bytes) = recorded(&folder, "damaged.pcapng");
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle..middle + 4096].fill(0xA5);
    fs::write(&path, &damaged).unwrap();
    let log = run!("repair --json {path}").succeeds().json();
    let whole = count(&log["whole_bytes"]) as usize;
    assert!(whole <= middle && whole > middle - 2000);
    let rest = fs::read(format!("{path}.cut")).unwrap();
    assert_eq!([fs::read(&path).unwrap(), rest].concat(), damaged);
}

#[test]
fn what_cannot_be_repaired_is_left_alone_and_reported() {
    let folder = Folder::new();
    let (path, bytes) = recorded(&folder, "torn.pcapng");
    let half = bytes.len() / 2 + 1;
    let refused = |path: &str, expected: &str| {
        run!("repair {path}").fails(1, expected);
    };
    // The name of the rest is taken.
    fs::write(&path, &bytes[..half]).unwrap();
    fs::write(format!("{path}.cut"), "somebody's").unwrap();
    let saving = "torn.pcapng.cut: saving the part to cut off: file exists (os error 17)";
    refused(&path, &format!("{saving}. It is from an earlier repair"));
    assert_eq!(fs::read(&path).unwrap().len(), half);
    assert_eq!(fs::read(format!("{path}.cut")).unwrap(), b"somebody's");
    // Nothing whole, nothing at all, no capture, no file.
    fs::write(&path, &bytes[..20]).unwrap();
    refused(&path, "has no whole header");
    fs::write(&path, "").unwrap();
    refused(&path, "is empty");
    fs::write(&path, "Dear diary, this is no capture").unwrap();
    refused(&path, "torn.pcapng");
    assert_eq!(fs::read(&path).unwrap().len(), 30);
    refused("/dev/null", "is not a regular file");
    refused(&folder.path("missing"), "o such file");
    assert_eq!(run!("repair").status.code(), Some(2));
    // Packed.
    fs::write(&path, &bytes[..half]).unwrap();
    if let Some(gzip) = foreign(format!("gzip -k {path}")) {
        gzip.succeeds();
        refused(
            &format!("{path}.gz"),
            "no whole piece of it ends with a whole packet",
        );
    }
    // One that fails does not keep the others from being repaired.
    fs::remove_file(format!("{path}.cut")).unwrap();
    let output = run!("repair {} {path}", folder.path("missing"));
    assert_eq!(output.status.code(), Some(1));
    contains(output.text(), "Cut to");
}

#[test]
fn a_file_that_another_user_may_be_writing_is_not_cut() {
    let folder = Folder::new();
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        println!("skipped: needs root and setpriv, to become nobody");
        return;
    }
    set_mode(folder.path(""), 0o777);
    let (path, bytes) = torn(&folder);
    set_mode(&path, 0o777);
    // Copied by another program: a file that a child of another test has open for writing cannot be executed.
    let copy = folder.path("forebay");
    foreign(format!("cp {FOREBAY} {copy}")).unwrap().succeeds();
    let _writing = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let as_nobody = |arguments: &str| {
        let user = "--reuid=65534 --regid=65534 --clear-groups";
        foreign(format!("setpriv {user} {copy} repair {arguments}")).unwrap()
    };
    contains(as_nobody(&format!("-n {path}")).text(), "would be cut off");
    as_nobody(&path).fails(1, "is another user's: ");
    assert_eq!(fs::read(&path).unwrap(), bytes[..bytes.len() / 2]);
}

#[test]
fn a_capture_that_still_runs_is_not_cut_and_one_that_was_killed_is_saved() {
    let (_folder, path) = Folder::with("running.pcapng");
    let child = Mortal(start!("capture -i sim:rate=100M -U -q -w {path}"));
    wait_until(|| file_len(&path) >= 1 << 20);
    let output = run!("repair {path}");
    drop(child);
    output.fails(1, "another process is writing it. Stop that process first");
    let len = file_len(&path);
    let log = run!("repair --json {path}").succeeds().json();
    assert!(count(&log["whole_bytes"]) <= len);
    if let Some(found) = packets_by_tshark(&path) {
        assert_eq!(found, count(&log["packets"]));
    }
}
