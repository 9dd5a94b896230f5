//! Requests that make no sense.

use super::{
    pipe,
    support::{Folder, fails},
};
use std::fs;

#[test]
fn each_wrong_request_gets_its_own_clear_answer_and_touches_nothing() {
    let folder = Folder::new();
    let untouched = folder.path("untouched");
    let cases = [
        (
            "/nonexistent/file",
            1,
            "/nonexistent/file: opening it: no such file",
        ),
        ("/", 1, "Name a file in it"),
        (
            "-r 10M",
            2,
            "mbuffer's -p is --start-reading, its -r is --read-rate",
        ),
        ("-m 0", 2, "'0' for '--memory <SIZE>': '0' is not a size"),
        (
            "-m much",
            2,
            "'much' for '--memory <SIZE>': 'much' is not a size. Use a value such as 512k or 64M",
        ),
        ("-m 900T", 1, "what is available"),
        (
            "-m 101%",
            2,
            "'101%' for '--memory <SIZE>': '101' is not a percentage. Use 0 to 100",
        ),
        (
            "-m 0%",
            2,
            "'0%' for '--memory <SIZE>': '0%' is not a size. Use a value such as 256M",
        ),
        ("-m 1M --block-size 2M", 2, "the block does not fit"),
        (
            "--block-size 0",
            2,
            "'0' for '--block-size <SIZE>': '0' is not a size",
        ),
        (
            "-P 101",
            2,
            "'101' for '--start-writing <PERCENT>': '101' is not a percentage",
        ),
        (
            "--start-reading x",
            2,
            "'x' for '--start-reading <PERCENT>': 'x' is not a percentage",
        ),
        (
            "-R fast",
            2,
            "'fast' for '--write-rate <RATE>': 'fast' is not a size",
        ),
        (
            "-L 0",
            2,
            "'0' for '--write-rate <RATE>': '0' is not a size",
        ),
        (
            "--read-rate 0",
            2,
            "'0' for '--read-rate <RATE>': '0' is not a size",
        ),
        ("-s x", 2, "'x' for '--size <SIZE>': 'x' is not a size"),
        (
            "-i 0",
            2,
            "'0' for '--input <INPUT>': '0' is not a time. Use a value such as 10 or 500ms",
        ),
        (
            "--interval x",
            2,
            "'x' for '--interval <SECONDS>': 'x' is not a time",
        ),
        (
            "--watchdog 0",
            2,
            "'0' for '--watchdog <SECONDS>': '0' is not a time",
        ),
        (
            "--hash md4",
            2,
            "'md4' for '--hash <KIND>': md4 is not a supported checksum. Use sha256 or crc32",
        ),
        ("-i - -i -", 2, "only once"),
        ("-o - -o -", 2, "only once"),
        (
            "-i tcp:nowhere",
            2,
            "'tcp:nowhere' for '--input <INPUT>': tcp:nowhere: is not a valid address. Use tcp:HOST:PORT",
        ),
        (
            "-O 9000",
            2,
            "'9000' for '--connect <HOST:PORT>': tcp:9000: is not a valid address. Use tcp:HOST:PORT",
        ),
        (
            "-I x:y",
            2,
            "'x:y' for '--listen <[HOST:]PORT>': 'x:y' is not a port. Use a value such as 9000 or HOST:9000",
        ),
        (
            "-i tcp-listen:256.0.0.1:9",
            1,
            "tcp-listen:256.0.0.1:9: listening",
        ),
        (
            "-o tcp:127.0.0.1:1",
            1,
            "Does the other end listen already?",
        ),
        ("-o /nonexistent/file", 1, "Make the folder first"),
        ("--truncate --append", 2, "--append"),
        ("--speed 9", 2, "--speed"),
    ];
    for (args, code, expected) in cases {
        // The wrong part comes first: what follows it has not been opened by then.
        let args = args.split(' ').chain(["-o", &untouched]);
        let args: Vec<_> = args.collect();
        let output = pipe(&args).output().unwrap();
        fails(&output, code, expected);
        assert!(output.stdout.is_empty());
        let has_content = fs::metadata(&untouched).is_ok_and(|meta| meta.len() > 0);
        assert!(!has_content, "{args:?}");
    }
}
