//! Help, counts at intervals, and a clear answer to each wrong request.

use crate::support::{fails, run, text, words};
use serde_json::Value;
use std::process::Command;

#[test]
fn each_wrong_request_gets_its_own_clear_answer() {
    let cases = [
        ("", 2, "-i sim"),
        (
            "-i sim -c 0",
            2,
            "'0' for '-c <COUNT>': '0' is not a count. Use a value such as 1000 or 5M",
        ),
        (
            "-i sim -c 340282366920938463463374607431768211.999K",
            2,
            "is not a count",
        ),
        (
            "-i sim --store 2x18446744073709547520 -w /dev/null",
            1,
            "no address space",
        ),
        (
            "-i sim -c many",
            2,
            "'many' for '-c <COUNT>': 'many' is not a count",
        ),
        (
            "-i sim -s 300000",
            2,
            "'300000' for '-s <SNAPLEN>': '300000' is not a snapshot length. Use 1 to 262144, or 0",
        ),
        (
            "-i sim -B 0",
            2,
            "'0' for '-B <SIZE>': '0' is not a size. Use a value such as 512k or 64M",
        ),
        (
            "-i sim --store 1x4M",
            2,
            "'1x4M' for '--store <COUNTxSIZE>': store: 1 buffers are too few. Use at least 2",
        ),
        ("-i sim --store 0x4M", 2, "at least 2"),
        ("-i sim --store 2x0", 2, "multiple of 4096"),
        (
            "-i sim --store many",
            2,
            "'many' is not COUNTxSIZE. Use a value such as 16x4M",
        ),
        ("-i sim --store 2x900G -w /dev/null", 1, "what is available"),
        (
            "-i sim --stats-interval 0",
            2,
            "'0' for '--stats-interval <SECONDS>': '0' is not a time of a millisecond or more. Use a value such as 5",
        ),
        (
            "-i sim -c 5M --stats-interval 1ns",
            2,
            "'1ns' for '--stats-interval <SECONDS>'",
        ),
        ("-i nosuch0", 1, "no interface 'nosuch0'"),
        (
            "-i sim:rate=fast",
            2,
            "'sim:rate=fast' for '-i <INTERFACE>': sim: cannot understand 'rate=fast'. rate is bits a second",
        ),
        ("-i sim:ring=0", 2, "1 or more"),
        ("-i sim -i sim:clock=virtual", 2, "clock=virtual"),
        (
            "-i sim -w /nonexistent/x.pcapng",
            1,
            "Make the folder first",
        ),
        ("-i sim -w /", 1, "Name a file in it"),
        ("--speed 9", 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        let output = run(&words(args));
        fails(&output, code, expected);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn counts_are_printed_at_the_interval_and_json_is_one_object_a_line() {
    let args = words("-i sim:clock=virtual -c 2M --json --stats-interval 500ms -q");
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

#[test]
fn the_limit_of_the_buffers_is_printed_first_and_is_in_the_json_with_what_was_needed() {
    let folder = crate::support::Folder::new();
    let file = folder.path("a.pcapng");
    let capture = |arguments: &str| {
        let all = format!("-i sim:clock=virtual -c 20k -w {file} --json {arguments}");
        run(&all.split_whitespace().collect::<Vec<_>>())
    };
    let store = |arguments: &str| {
        let output = capture(arguments);
        let log = text(&output.stderr).to_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments}: {log}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let store = summary["got"]["store"].clone();
        let number = |name: &str| store[name].as_u64().unwrap();
        (
            number("bytes"),
            number("limit_bytes"),
            number("high_water_bytes"),
            log,
        )
    };
    let (bytes, limit, needed, log) = store("");
    assert!(bytes == 64 << 20 && limit >= bytes, "{limit}");
    assert!((1..=bytes).contains(&needed), "{needed}");
    assert_eq!(limit > bytes, log.contains("growing to"), "{log}");
    let (bytes, limit, _, log) = store("--store 4x1M");
    assert_eq!(
        (bytes, limit),
        (4 << 20, 4 << 20),
        "--store alone is a fixed size"
    );
    assert!(!log.contains("growing"), "{log}");
    let (bytes, limit, _, log) = store("--store 4x1M --store-limit 100M");
    assert_eq!((bytes, limit), (4 << 20, 100 << 20));
    assert!(
        log.contains("buffers 4 MiB growing to 100 MiB if needed"),
        "{log}"
    );
    assert_eq!(store("--store-limit 0").1, 64 << 20);
    for (wrong, answer) in [
        (
            "--store-limit 1M",
            "--store-limit 1 MiB is less than the first buffers, 64 MiB. Raise it, or lower --store",
        ),
        (
            "--store-limit 95%",
            "'95%' for '--store-limit <SIZE|PERCENT>': store: a limit of 95 percent of the memory cannot be used. Use 1 to 90 percent",
        ),
        (
            "--store-limit much",
            "'much' is neither a size nor a share. Use a value such as 2G or 50%",
        ),
    ] {
        let output = capture(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let log = text(&output.stderr);
        assert!(log.contains(answer), "{wrong}: {log}");
    }
}
