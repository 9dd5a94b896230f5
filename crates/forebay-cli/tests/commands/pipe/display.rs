//! The display: a terminal shows it, other outputs do not.

use super::{fed, feed, is_silent};
use crate::support::*;
use std::{fs::File, process::Stdio};

#[test]
fn a_terminal_shows_a_line_and_a_summary_and_nothing_else_does() {
    if !has("script") {
        return;
    }
    let folder = Folder::new();
    let file = folder.file("file", noise(1_000_000));
    let shown = |flags: &str| {
        let command = format!("{FOREBAY} pipe {flags} {file} -o /dev/null");
        let output = foreign(format!("script -qec '{command}' /dev/null"));
        output.unwrap().succeeds().text().to_owned()
    };
    let all = shown("");
    let summary = "summary: 977 KiByte (1000000 bytes) in ";
    for part in [" 977 KiB 0:0", "buffer   0 %", "=] 100 %", summary] {
        contains(&all, part);
    }
    contains(shown("-N tape -b -s 2000000"), "\rtape:  977 KiB\r\n");
    assert_eq!(shown("-q"), "");
    assert_eq!(shown("-n"), "100\r\n");
    assert_eq!(shown("-nb -s 5M"), "1000000\r\n");

    is_silent(&run!("pipe {file} -o /dev/null -pterb -N x"));
    let forced = run!("pipe {file} -o /dev/null -fp");
    assert!(forced.log().starts_with("\r[="), "{forced:?}");
    contains(forced.log(), "=] 100 %\nforebay: producer waited ");
    contains(forced.log(), "\nsummary: ");
    let numbers = run!("pipe {file} -o /dev/null -n -s 4000000");
    assert_eq!(numbers.log(), "25\n");
}

#[test]
fn a_bar_is_not_complete_before_the_end_when_the_expected_size_is_too_small() {
    let folder = Folder::new();
    let file = folder.file("file", noise(1_000_000));
    // mbuffer's flags for "blocks of 128 KiB, from this file".
    let output = run!("pipe -f -s 128k -i {file} -o /dev/null");
    contains(
        output.log(),
        "-s expects 131072 bytes, but the inputs have 1000000",
    );
    contains(output.log(), "=] 100 %\nforebay: producer waited ");
    // The size of a pipe is unknown: beyond the expected size there is no percentage.
    let output = fed("-fp -s 128k", noise(1_000_000));
    contains(output.log(), "\nsummary: ");
    lacks(output.log(), "%");
}

#[test]
fn an_unwritable_stderr_stops_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = forebay!("pipe -f");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(full).spawn().unwrap();
    let feeding = feed(&mut child, noise(100_000));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert!(output.status.success() && output.stdout == noise(100_000));
}
