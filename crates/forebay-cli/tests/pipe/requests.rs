//! Requests that make no sense.

use super::{
    pipe,
    support::{Folder, text},
};
use std::fs;

#[test]
fn each_wrong_request_gets_its_own_clear_answer_and_touches_nothing() {
    let folder = Folder::new();
    let untouched = folder.path("untouched");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["/nonexistent/file"],
            1,
            "/nonexistent/file: opening it: no such file",
        ),
        (&["/"], 1, "Name a file in it"),
        (
            &["-r", "10M"],
            2,
            "mbuffer's -p is --start-reading, its -r is --read-rate",
        ),
        (&["-m", "0"], 2, "-m 0 is not a size"),
        (&["-m", "much"], 2, "-m much is not a size"),
        (&["-m", "900T"], 1, "what is available"),
        (&["-m", "101%"], 2, "-m 101 is not a percentage"),
        (&["-m", "0%"], 2, "-m 0% is not a size"),
        (
            &["-m", "1M", "--block-size", "2M"],
            2,
            "the block does not fit",
        ),
        (&["-P", "101"], 2, "-P 101 is not a percentage"),
        (&["--start-reading", "x"], 2, "--start-reading x"),
        (&["-R", "fast"], 2, "-R fast is not a size"),
        (&["-L", "0"], 2, "-R 0 is not a size"),
        (&["--read-rate", "0"], 2, "--read-rate"),
        (&["-s", "x"], 2, "-s x is not a size"),
        (&["-i", "0"], 2, "-i 0 is not a time"),
        (&["--interval", "x"], 2, "--interval x is not a time"),
        (&["--watchdog", "0"], 2, "--watchdog 0 is not a time"),
        (&["--hash", "md4"], 2, "Use sha256 or crc32"),
        (&["-i", "-", "-i", "-"], 2, "only once"),
        (&["-o", "-", "-o", "-"], 2, "only once"),
        (&["-i", "tcp:nowhere"], 2, "tcp:HOST:PORT"),
        (&["-O", "9000"], 2, "tcp:HOST:PORT"),
        (&["-I", "x:y"], 2, "-I x:y is not a port"),
        (
            &["-i", "tcp-listen:256.0.0.1:9"],
            1,
            "tcp-listen:256.0.0.1:9: listening",
        ),
        (
            &["-o", "tcp:127.0.0.1:1"],
            1,
            "Does the other end listen already?",
        ),
        (&["-o", "/nonexistent/file"], 1, "Make the folder first"),
        (&["--truncate", "--append"], 2, "--append"),
        (&["--speed", "9"], 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        // The wrong part comes first: what is behind it has not been opened by then.
        let with_output = [args, &["-o", &untouched][..]].concat();
        let output = pipe(&with_output).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
        let has_content = fs::metadata(&untouched).is_ok_and(|meta| meta.len() > 0);
        assert!(!has_content, "{args:?}");
    }
}
