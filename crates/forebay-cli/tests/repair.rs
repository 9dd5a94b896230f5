//! `forebay repair` as its users run it, on captures that were cut, damaged and filled with zeros.

mod support;

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::{Command, Output, Stdio},
};
use support::{Folder, fails, forebay, has, interrupt, run, subcommand, text};

fn repair(args: &[&str]) -> Output {
    subcommand("repair", args).output().unwrap()
}

/// A capture of 1000 packets, and its bytes.
fn recorded(folder: &Folder, name: &str) -> (String, Vec<u8>) {
    let path = folder.path(name);
    let port = "sim:clock=virtual,count=1000,size=imix";
    let ran = run(&["-i", port, "-q", "-w", &path]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn message(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Packets that a foreign reader finds, which reads the file to its end without complaint.
fn packets_by_tshark(path: &str) -> Option<u64> {
    if !has("tshark") {
        return None;
    }
    let output = Command::new("tshark").args(["-r", path]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout).lines().count() as u64)
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
            let dry = repair(&["-n", "--json", &path]);
            let output = repair(&["--json", &path]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let (dry, log) = (message(&dry), message(&output));
            assert_eq!(dry["whole_bytes"], log["whole_bytes"]);
            let whole = log["whole_bytes"].as_u64().unwrap() as usize;
            let packets = log["packets"].as_u64().unwrap();
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
            let again = repair(&[&path]);
            assert!(text(&again.stdout).contains("is whole"));
        }
        assert!(packets_before > 900 && (foreign == 3 || !has("tshark")));
    }
}

#[test]
fn a_dry_run_changes_nothing_and_its_exit_code_reports_the_cut() {
    let folder = Folder::new();
    let (path, bytes) = recorded(&folder, "torn.pcapng");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let output = repair(&["-n", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("bytes would be cut off"));
    assert_eq!(fs::read(&path).unwrap().len(), bytes.len() / 2);
    fs::write(&path, &bytes).unwrap();
    let output = repair(&["-n", &path]);
    assert_eq!(output.status.code(), Some(0));
    let log = format!("{path}: is whole: 1000 packets, {} bytes\n", bytes.len());
    assert_eq!(text(&output.stdout), log);
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
            let output = repair(&[&path]);
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let log = text(&output.stdout);
            assert!(
                log.contains(&format!("the {zeros} bytes after it were zeros")),
                "{log}"
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
    let (path, bytes) = recorded(&folder, "torn.pcapng");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let log = folder.path("log");
    let status = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=fsync,ftruncate", "-o", &log])
        .args([env!("CARGO_BIN_EXE_forebay"), "repair", &path])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let log = fs::read_to_string(&log).unwrap();
    let calls = log.lines().filter_map(|line| {
        let (call, rest) = line.split_once('(')?;
        let name = rest.split_once('<')?.1.split_once('>')?.0;
        Some((call.rsplit(' ').next()?, name.rsplit('/').next()?))
    });
    let folder = folder.path("");
    let folder = folder.trim_end_matches('/').rsplit('/').next().unwrap();
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [
            ("fsync", "torn.pcapng.cut"),
            ("fsync", folder),
            ("ftruncate", "torn.pcapng"),
            ("fsync", "torn.pcapng")
        ]
    );
}

#[test]
fn zeros_that_break_off_are_reported_as_zeros() {
    let folder = Folder::new();
    let (path, mut bytes) = recorded(&folder, "torn.pcap");
    let len = bytes.len();
    bytes.resize(len + 1000, 0); // 62 packets of nothing and a half
    fs::write(&path, &bytes).unwrap();
    let log = text(&repair(&[&path]).stdout).to_owned();
    let expected = format!(
        "has zeros in place of packets from byte {len} on: read 1000 packets up to there. Cut to 1000 packets"
    );
    assert!(log.contains(&expected), "{log}");
}

#[test]
fn damage_in_the_middle_is_cut_there_and_all_after_it_is_kept() {
    let folder = Folder::new();
    let (path, bytes) = recorded(&folder, "damaged.pcapng");
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle..middle + 4096].fill(0xA5);
    fs::write(&path, &damaged).unwrap();
    let output = repair(&["--json", &path]);
    assert_eq!(output.status.code(), Some(0));
    let whole = message(&output)["whole_bytes"].as_u64().unwrap() as usize;
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
        let output = repair(&[path]);
        fails(&output, 1, expected);
    };
    // The name of the rest is taken.
    fs::write(&path, &bytes[..half]).unwrap();
    fs::write(format!("{path}.cut"), "somebody's").unwrap();
    refused(
        &path,
        "torn.pcapng.cut: saving the part to cut off: file exists (os error 17). It is from an earlier repair",
    );
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
    assert_eq!(repair(&[]).status.code(), Some(2));
    // Packed.
    fs::write(&path, &bytes[..half]).unwrap();
    let packed = Command::new("gzip").args(["-k", &path]).status();
    if packed.is_ok_and(|status| status.success()) {
        refused(
            &format!("{path}.gz"),
            "is compressed with gzip. Decompress as much of it",
        );
    }
    // One that fails does not keep the others from being repaired.
    fs::remove_file(format!("{path}.cut")).unwrap();
    let output = repair(&[&folder.path("missing"), &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("Cut to"));
}

#[test]
fn a_file_that_another_user_may_be_writing_is_not_cut() {
    let folder = Folder::new();
    let is_root = fs::metadata(folder.path("")).unwrap().uid() == 0;
    if !is_root || !has("setpriv") {
        println!("skipped: needs root and setpriv, to become nobody");
        return;
    }
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(""), all.clone()).unwrap();
    let (path, bytes) = recorded(&folder, "torn.pcapng");
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    fs::set_permissions(&path, all).unwrap();
    // Copied by another program: a file that a child of another test has open for writing cannot be executed.
    let copy = folder.path("forebay");
    let copied = Command::new("cp")
        .args([env!("CARGO_BIN_EXE_forebay"), &copy])
        .status();
    assert!(copied.unwrap().success());
    let _writing = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let as_nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &copy]);
        command.arg("repair").args(args).output().unwrap()
    };
    let dry = as_nobody(&["-n", &path]);
    assert!(text(&dry.stdout).contains("would be cut off"));
    let output = as_nobody(&[&path]);
    let log = text(&output.stderr);
    assert!(log.contains("is another user's: "), "{log}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&path).unwrap(), bytes[..bytes.len() / 2]);
}

#[test]
fn a_capture_that_still_runs_is_not_cut_and_one_that_was_killed_is_saved() {
    let folder = Folder::new();
    let path = folder.path("running.pcapng");
    let args = ["-i", "sim", "-U", "-q", "-w", &path];
    let mut child = forebay(&args).spawn().unwrap();
    while fs::metadata(&path).map_or(0, |about| about.len()) < 1 << 20 {
        std::thread::yield_now();
    }
    let output = repair(&[&path]);
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stderr).to_owned();
    interrupt(&child, "-KILL");
    child.wait().unwrap();
    assert!(
        log.contains("another process is writing it. Stop that process first"),
        "{log}"
    );
    let len = fs::metadata(&path).unwrap().len();
    let output = repair(&["--json", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(message(&output)["whole_bytes"].as_u64().unwrap() <= len);
    if let Some(found) = packets_by_tshark(&path) {
        assert_eq!(Value::from(found), message(&output)["packets"]);
    }
}
