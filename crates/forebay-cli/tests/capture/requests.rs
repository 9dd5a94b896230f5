//! What can be asked for: help, counts at intervals, and a clear answer to each wrong request.

use crate::support::{run, text};
use serde_json::Value;
use std::process::Command;

#[test]
fn each_wrong_request_gets_its_own_clear_answer() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "-i sim"),
        (&["-i", "sim", "-c", "0"], 2, "-c 0"),
        (
            &[
                "-i",
                "sim",
                "-c",
                "340282366920938463463374607431768211.999K",
            ],
            2,
            "is no count",
        ),
        (
            &[
                "-i",
                "sim",
                "--store",
                "2x18446744073709547520",
                "-w",
                "/dev/null",
            ],
            1,
            "no address space",
        ),
        (&["-i", "sim", "-c", "many"], 2, "-c many"),
        (&["-i", "sim", "-s", "300000"], 2, "1 to 262144"),
        (&["-i", "sim", "-B", "0"], 2, "-B 0"),
        (&["-i", "sim", "--store", "1x4M"], 2, "at least 2"),
        (&["-i", "sim", "--store", "0x4M"], 2, "at least 2"),
        (&["-i", "sim", "--store", "2x0"], 2, "multiple of 4096"),
        (
            &["-i", "sim", "--store", "2x900G", "-w", "/dev/null"],
            1,
            "what is available",
        ),
        (
            &["-i", "sim", "--stats-interval", "0"],
            2,
            "--stats-interval 0",
        ),
        (
            &["-i", "sim", "-c", "5M", "--stats-interval", "1ns"],
            2,
            "--stats-interval 1ns",
        ),
        (&["-i", "nosuch0"], 1, "no interface 'nosuch0'"),
        (&["-i", "sim:rate=fast"], 2, "rate is bits a second"),
        (&["-i", "sim:ring=0"], 2, "1 or more"),
        (
            &["-i", "sim", "-i", "sim:clock=virtual"],
            2,
            "clock=virtual",
        ),
        (
            &["-i", "sim", "-w", "/nonexistent/x.pcapng"],
            1,
            "Make the folder first",
        ),
        (&["-i", "sim", "-w", "/"], 1, "Name a file in it"),
        (&["--speed", "9"], 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        let output = run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn counts_come_at_the_interval_and_json_is_one_object_a_line() {
    let args = [
        "-i",
        "sim:clock=virtual",
        "-c",
        "2M",
        "--json",
        "--stats-interval",
        "500ms",
        "-q",
    ];
    let output = run(&args);
    assert!(output.status.success());
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3, "two in 1.34 virtual seconds, and the end");
    assert!(lines.iter().all(|line| line["schema"] == 1));
    assert_eq!(lines[2]["counted"], 2_000_000);
    assert_eq!(lines[2]["running"], false);
    assert_eq!(
        text(&output.stderr).lines().count(),
        4,
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn help_version_and_the_list_go_to_stdout() {
    for args in [&["--help"][..], &["-h"], &["-D"]] {
        let output = run(args);
        assert!(output.status.success() && !output.stdout.is_empty());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(text(&output.stdout).starts_with("forebay "));
}
