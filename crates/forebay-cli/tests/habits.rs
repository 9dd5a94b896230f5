//! First steps: a capture without the subcommand, manual pages, completions.

mod support;

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
use support::*;

#[test]
fn a_capture_typed_as_with_tcpdump_is_answered_by_the_line_to_type() {
    for (typed, meant) in [
        ("-i lo", "forebay capture -i lo"),
        ("lo -c 1", "forebay capture -i lo -c 1"),
        ("-D", "forebay capture -D"),
        // It looks like 'get' to a parser that compares letters.
        ("eth0", "forebay capture -i eth0"),
    ] {
        let output = run!("{typed}");
        output.fails(2, format!("did you mean '{meant}'?"));
        assert!(!text(&output.stderr).contains("tip:"), "{typed}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn words_that_are_not_unicode_are_refused_and_do_not_panic() {
    let mut command = forebay!("");
    let output = command.arg(OsStr::from_bytes(b"\xff\xfe")).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = Folder::new();
    run!("man {}", folder.path("")).succeeds();
    for name in [
        "forebay",
        "forebay-capture",
        "forebay-pipe",
        "forebay-queue-send",
    ] {
        let page = std::fs::read_to_string(folder.path(&format!("{name}.1"))).unwrap();
        contains(page, ".SH NAME");
    }
    contains(run!("man").text(), ".SH NAME");
    run!("man {}", folder.path("missing")).fails(1, "missing");
}

#[test]
fn each_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        contains(run!("completions {shell}").succeeds().text(), "capture");
    }
    assert_eq!(run!("completions tcsh").status.code(), Some(2));
}
