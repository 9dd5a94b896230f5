//! The display: a terminal shows it, other outputs do not.

use super::{
    feed, is_silent, pipe, run_with,
    support::{Folder, dice::noise, has, text},
};
use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

#[test]
fn a_terminal_shows_a_line_and_a_summary_and_nothing_else_does() {
    if !has("script") {
        return;
    }
    let folder = Folder::new();
    let file = folder.path("file");
    fs::write(&file, noise(1_000_000)).unwrap();
    let shown = |flags: &str| {
        let command = format!(
            "{} pipe {flags} {file} -o /dev/null",
            env!("CARGO_BIN_EXE_forebay")
        );
        let output = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .stdin(Stdio::null())
            .output();
        let output = output.unwrap();
        assert!(output.status.success());
        text(&output.stdout).to_owned()
    };
    let all = shown("");
    for part in [
        " 977 KiB 0:0",
        "buffer   0 %",
        "=] 100 %",
        "summary: 977 KiByte (1000000 bytes) in ",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let named = shown("-N tape -b -s 2000000");
    assert!(named.contains("\rtape:  977 KiB\r\n"), "{named:?}");
    assert_eq!(shown("-q"), "");
    assert_eq!(shown("-n"), "100\r\n");
    assert_eq!(shown("-nb -s 5M"), "1000000\r\n");

    is_silent(
        &pipe(&[&file, "-o", "/dev/null", "-pterb", "-N", "x"])
            .output()
            .unwrap(),
    );
    let forced = pipe(&[&file, "-o", "/dev/null", "-fp"]).output().unwrap();
    let forced = text(&forced.stderr);
    assert!(
        forced.starts_with("\r[=") && forced.contains("=] 100 %\nsummary: "),
        "{forced:?}"
    );
    let numbers = pipe(&[&file, "-o", "/dev/null", "-n", "-s", "4000000"])
        .output()
        .unwrap();
    assert_eq!(text(&numbers.stderr), "25\n");
}

#[test]
fn a_bar_is_not_complete_before_the_end_when_the_expected_size_is_too_small() {
    let folder = Folder::new();
    let file = folder.path("file");
    fs::write(&file, noise(1_000_000)).unwrap();
    // mbuffer's flags for "blocks of 128 KiB, from this file".
    let args = ["-f", "-s", "128k", "-i", &file, "-o", "/dev/null"];
    let log = pipe(&args).output().unwrap();
    let log = text(&log.stderr);
    let note = "-s expects 131072 bytes, but the inputs have 1000000";
    assert!(log.contains(note), "{log}");
    assert!(log.contains("=] 100 %\nsummary: "), "{log}");
    // The size of a pipe is unknown: beyond the expected size there is no percentage.
    let output = run_with(&["-fp", "-s", "128k"], noise(1_000_000));
    let log = text(&output.stderr);
    assert!(log.contains("\nsummary: "), "{log:?}");
    assert!(!log.contains('%'), "{log:?}");
}

#[test]
fn an_unwritable_stderr_stops_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut child = pipe(&["-f"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let feeding = feed(&mut child, noise(100_000));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert!(output.status.success() && output.stdout == noise(100_000));
}
