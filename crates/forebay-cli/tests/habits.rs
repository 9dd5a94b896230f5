//! First steps: a capture without the subcommand, manual pages, completions.

mod support;

use std::process::{Command, Output};
use support::{Folder, fails, text};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn a_capture_typed_as_with_tcpdump_is_answered_by_the_line_to_type() {
    for (typed, meant) in [
        (vec!["-i", "lo"], "forebay capture -i lo"),
        (vec!["lo", "-c", "1"], "forebay capture -i lo -c 1"),
        (vec!["-D"], "forebay capture -D"),
    ] {
        let output = run(&typed);
        assert_eq!(output.status.code(), Some(2), "{typed:?}");
        let expected = format!("did you mean '{meant}'?");
        assert!(
            text(&output.stderr).contains(&expected),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn words_that_are_not_unicode_are_refused_and_do_not_panic() {
    use std::os::unix::ffi::OsStrExt;
    let word = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg(word)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = Folder::new();
    let output = run(&["man", &folder.path("")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for name in [
        "forebay",
        "forebay-capture",
        "forebay-pipe",
        "forebay-queue-send",
    ] {
        let page = std::fs::read_to_string(folder.path(&format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
    }
    let page = run(&["man"]);
    assert!(text(&page.stdout).contains(".SH NAME"));
    let missing = run(&["man", &folder.path("missing")]);
    fails(&missing, 1, "missing");
}

#[test]
fn each_shell_gets_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("capture"), "{shell}");
    }
    assert_eq!(run(&["completions", "tcsh"]).status.code(), Some(2));
}
