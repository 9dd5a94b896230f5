//! `forebay info` as users run it, compared with capinfos and sha256sum.

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use support::{Folder, fails, has, run, text};

mod support;

fn info(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("info").args(args).stdin(Stdio::null());
    command.output().unwrap()
}

fn recorded(folder: &Folder, name: &str, port: &str) -> String {
    let path = folder.path(name);
    let ran = run(&["-i", port, "-q", "-w", &path]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    path
}

/// The value that capinfos prints after `label` in its machine-readable form.
fn capinfos(path: &str, label: &str) -> String {
    let output = Command::new("capinfos")
        .args(["-M", path])
        .output()
        .unwrap();
    let line = text(&output.stdout)
        .lines()
        .find(|line| line.starts_with(label));
    let (_, value) = line.expect(label).split_once(':').unwrap();
    value.trim().to_owned()
}

#[test]
fn it_counts_what_capinfos_counts() {
    if !has("capinfos") {
        return;
    }
    let folder = Folder::new();
    let port = "sim:clock=virtual,size=imix,rate=10G,ring=32,host=none,cost=400ns,count=30000";
    for name in ["a.pcapng", "a.pcap"] {
        let path = recorded(&folder, name, port);
        let json: Value = serde_json::from_slice(&info(&["--json", &path]).stdout).unwrap();
        let number = |key: &str| json[key].as_u64().unwrap().to_string();
        assert_eq!(number("packets"), capinfos(&path, "Number of packets"));
        assert_eq!(
            format!("{} bytes", number("bytes")),
            capinfos(&path, "File size")
        );
        assert_eq!(
            format!("{} bytes", number("wire_bytes")),
            capinfos(&path, "Data size")
        );
        assert_eq!(json["sha256"], capinfos(&path, "SHA256"));
        assert_eq!(json["in_order"], true);
        let seconds = format!("{:.9} seconds", json["seconds"].as_f64().unwrap());
        assert_eq!(seconds, capinfos(&path, "Capture duration"));
        // 2026-11-21T07:20:26.427258433Z here, 2026-11-21 07:20:26.427258433 in local time there.
        let fraction = |time: &str| {
            time.trim_end_matches('Z')
                .rsplit_once('.')
                .unwrap()
                .1
                .to_owned()
        };
        let first = json["first"].as_str().unwrap();
        assert_eq!(
            fraction(first),
            fraction(&capinfos(&path, "First packet time"))
        );
        assert_eq!(json["format"], name.split_once('.').unwrap().1);
        assert_eq!(json["interfaces"][0]["link_name"], "EN10MB");
    }
}

#[test]
fn losses_recorded_in_the_file_are_reported() {
    let folder = Folder::new();
    let port = "sim:clock=virtual,ring=64,host=none,cost=1us,count=50000";
    let path = recorded(&folder, "lossy.pcapng", port);
    let json: Value = serde_json::from_slice(&info(&["--json", &path]).stdout).unwrap();
    let interface = &json["interfaces"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    let recorded = &interface["recorded"];
    let dropped = number(&recorded["dropped"]);
    assert!(
        dropped > 1000 && number(&interface["lost_in_gaps"]) <= dropped,
        "{json}"
    );
    assert_eq!(number(&recorded["received"]), 50_000);
    assert_eq!(number(&recorded["delivered"]) + dropped, 50_000);
    assert_eq!(interface["name"], "sim");
    let log = info(&[&path]);
    let log = text(&log.stdout);
    assert!(
        log.contains(&format!("Dropped by kernel:   {dropped}\n")),
        "{log}"
    );
}

#[test]
fn compressed_and_several_files_are_reported() {
    let folder = Folder::new();
    let path = recorded(&folder, "a.pcapng", "sim:clock=virtual,count=1000");
    assert!(Command::new("gzip").arg(&path).status().unwrap().success());
    let path = path + ".gz";
    let sum = Command::new("sha256sum").arg(&path).output().unwrap();
    let log = info(&[&path, &path]);
    let log = text(&log.stdout);
    assert_eq!(log.matches("pcapng (gzip)\n").count(), 2);
    assert_eq!(log.matches("Packets:               1000\n").count(), 2);
    assert!(log.contains(&text(&sum.stdout)[..64]), "{log}");
    let lines = info(&["--json", &path, &path]);
    assert_eq!(text(&lines.stdout).lines().count(), 2);
}

#[test]
fn an_unreadable_file_is_an_error_and_the_others_are_reported() {
    let folder = Folder::new();
    let whole = recorded(&folder, "a.pcapng", "sim:clock=virtual,count=1000");
    let torn = folder.path("torn.pcapng");
    std::fs::write(&torn, &std::fs::read(&whole).unwrap()[..50_000]).unwrap();
    let ran = info(&["--json", &folder.path("none"), &torn, &whole]);
    assert_eq!(ran.status.code(), Some(1));
    let log = text(&ran.stderr);
    assert!(
        log.contains("none: ") && log.contains("ends in the middle of a block"),
        "{log}"
    );
    let lines = text(&ran.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let message: Vec<_> = lines
        .map(|json| (json["packets"].clone(), json["error"].is_null()))
        .collect();
    assert!(message[0].0.is_null() && !message[0].1, "{message:?}");
    assert!(
        message[1].0.as_u64().unwrap() > 500 && !message[1].1,
        "{message:?}"
    );
    assert_eq!(message[2], (1000.into(), true));
}

#[test]
fn names_in_a_file_are_shown_and_not_obeyed() {
    let folder = Folder::new();
    let path = recorded(&folder, "a.pcapng", "sim:clock=virtual,count=10");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|five| five == b"1 Gb/").unwrap();
    bytes[at..at + 5].copy_from_slice(b"\x1b[2J\n");
    std::fs::write(&path, bytes).unwrap();
    let log = info(&[&path]);
    let log = text(&log.stdout);
    assert!(log.contains("\\u{1b}[2J\\n"), "{log}");
    assert!(!log.contains('\x1b'), "{log}");
}

#[test]
fn a_pipe_that_ended_is_reported_and_a_full_disk_is_an_error() {
    let folder = Folder::new();
    let path = recorded(&folder, "a.pcapng", "sim:clock=virtual,count=10");
    let pipe = folder.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (from, to) = (path.clone(), pipe.clone());
    let writer = std::thread::spawn(move || std::fs::copy(from, to).unwrap());
    assert!(text(&info(&[&pipe]).stdout).contains("Packets:               10\n"));
    writer.join().unwrap();
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let ran = command.args(["info", &path]).stdout(full).output().unwrap();
    fails(&ran, 1, "standard output cannot be written");
}

#[test]
fn standard_input_is_reported_too() {
    let folder = Folder::new();
    let path = recorded(&folder, "a.pcapng", "sim:clock=virtual,count=1000");
    let ran = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["info", "--json", "-"])
        .stdin(std::fs::File::open(&path).unwrap())
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (json["packets"].as_u64(), json["sha256"].is_null()),
        (Some(1000), true)
    );
}
