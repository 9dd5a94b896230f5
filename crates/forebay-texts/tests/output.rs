//! What the program does if its output cannot be written. `forebay-bench` prints with the same code, but none of its subjects is as quick.

use std::process::{Command, Stdio};

fn texts(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-texts"));
    command.args(args).stdin(Stdio::null());
    command
}

#[test]
fn a_reader_that_closes_the_output_early_ends_it_without_an_error() {
    let mut running = texts(&["header", "--quick"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(running.stdout.take());
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    // A full disk is a failure.
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = texts(&["header", "--quick"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("writing to the standard output"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}
