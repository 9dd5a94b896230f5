//! Every byte read is written.

use super::{fed, fed_to, is_silent, sha256};
use crate::support::*;
use std::{
    fs,
    io::{Read, Write},
};

#[test]
fn bytes_of_any_amount_pass_through_buffers_of_any_size() {
    for len in [0, 1, 4095, 65_537, 3_000_001] {
        for memory in ["1", "5000", "1M", "64M"] {
            if memory == "1" && len > 70_000 {
                continue; // a system call a byte
            }
            let output = fed(format!("-m {memory}"), noise(len));
            is_silent(&output);
            assert!(output.stdout == noise(len), "{len} through {memory}");
        }
    }
}

#[test]
fn many_megabytes_come_out_as_they_went_in() {
    let mut child = start!("pipe --hash sha256");
    let mut stdin = child.stdin.take().unwrap();
    let piece = noise(1 << 20);
    let feeding = std::thread::spawn({
        let piece = piece.clone();
        move || (0..48).for_each(|_| stdin.write_all(&piece).unwrap())
    });
    let mut received = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut received).unwrap();
    feeding.join().unwrap();
    assert!(received == piece.repeat(48));
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.succeeds().log(),
        format!("sha256: {}\n", sha256(&received))
    );
}

#[test]
fn a_limited_rate_loses_nothing() {
    for rate in ["-R 4M", "-L 4M", "--read-rate 4M"] {
        let output = fed(rate, noise(1_000_000));
        is_silent(&output);
        assert!(output.stdout == noise(1_000_000));
    }
}

#[test]
fn blocks_are_written_whole_but_for_the_last() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let (log, file) = (folder.path("log"), folder.path("file"));
    let mut command = strace(
        &format!("-e trace=write -P {file}"),
        &log,
        &format!("pipe --block-size 10k -o {file}"),
    );
    fed_to(&mut command, noise(100_001)).succeeds();
    assert!(fs::read(&file).unwrap() == noise(100_001));
    let log = fs::read_to_string(&log).unwrap();
    // A call that another thread interrupts has two lines. The result is in the second one.
    let sizes = log.lines().filter(|line| line.contains("write"));
    let sizes = sizes.filter_map(|line| line.rsplit_once("= ")?.1.parse::<u64>().ok());
    assert_eq!(
        sizes.collect::<Vec<_>>(),
        [&[10_240; 9][..], &[7_841]].concat()
    );
}

#[test]
fn pages_are_spliced_from_pipe_to_pipe_except_with_no_splice_or_an_old_kernel() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    for (flag, tampering, expected) in [
        ("-q", "", true),
        ("-C", "", false),
        ("--no-splice", "", false),
        ("-q", "-e inject=splice:error=ENOSYS", true),
    ] {
        let log = folder.path("log");
        let options = format!("-e trace=splice {tampering}");
        let mut command = strace(&options, &log, &format!("pipe {flag}"));
        assert!(fed_to(&mut command, noise(100_000)).stdout == noise(100_000));
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains("splice("), expected, "{flag}");
    }
}
