//! Every byte read is written.

use super::{
    feed, is_silent, run_with, started,
    support::{Folder, dice::noise, has, text},
};
use sha2::{Digest, Sha256};
use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

#[test]
fn bytes_of_any_amount_pass_through_buffers_of_any_size() {
    for len in [0, 1, 4095, 65_537, 3_000_001] {
        for memory in ["1", "5000", "1M", "64M"] {
            if memory == "1" && len > 70_000 {
                continue; // a system call a byte
            }
            let output = run_with(&["-m", memory], noise(len));
            is_silent(&output);
            assert!(output.stdout == noise(len), "{len} through {memory}");
        }
    }
}

#[test]
fn many_megabytes_come_out_as_they_went_in() {
    let mut child = started(&["--hash", "sha256"]);
    let mut stdin = child.stdin.take().unwrap();
    let piece = noise(1 << 20);
    let feeding = std::thread::spawn({
        let piece = piece.clone();
        move || (0..48).for_each(|_| stdin.write_all(&piece).unwrap())
    });
    let (mut hasher, mut bytes) = (Sha256::new(), vec![0; 1 << 16]);
    let mut stdout = child.stdout.take().unwrap();
    loop {
        match stdout.read(&mut bytes).unwrap() {
            0 => break,
            n => hasher.update(&bytes[..n]),
        }
    }
    feeding.join().unwrap();
    let log = child.wait_with_output().unwrap();
    assert!(log.status.success());
    let digest: String = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(text(&log.stderr), format!("sha256: {digest}\n"));
    let mut expected = Sha256::new();
    (0..48).for_each(|_| expected.update(&piece));
    let expected: String = expected
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, expected);
}

#[test]
fn a_limited_rate_loses_nothing() {
    for args in [["-R", "4M"], ["-L", "4M"], ["--read-rate", "4M"]] {
        let output = run_with(&args, noise(1_000_000));
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
    let mut child = Command::new("strace")
        .args(["-f", "-e", "trace=write", "-P", &file, "-o", &log])
        .args([
            env!("CARGO_BIN_EXE_forebay"),
            "pipe",
            "--block-size",
            "10k",
            "-o",
            &file,
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    feed(&mut child, noise(100_001)).join().unwrap();
    assert!(child.wait().unwrap().success());
    assert!(fs::read(&file).unwrap() == noise(100_001));
    let log = fs::read_to_string(&log).unwrap();
    let sizes = log.lines().filter(|line| line.contains("write("));
    let sizes: Vec<_> = sizes
        .map(|line| line.rsplit_once("= ").unwrap().1)
        .collect();
    assert_eq!(sizes, [&["10240"; 9][..], &["7841"]].concat());
}

#[test]
fn pages_are_spliced_from_pipe_to_pipe_except_with_no_splice_or_an_old_kernel() {
    if !has("strace") {
        return;
    }
    let folder = Folder::new();
    let refused = ["-e", "inject=splice:error=ENOSYS"];
    for (flag, tampering, expected) in [
        ("-q", &[][..], true),
        ("-C", &[], false),
        ("--no-splice", &[], false),
        ("-q", &refused, true),
    ] {
        let log = folder.path("log");
        let mut child = Command::new("strace")
            .args(["-f", "-e", "trace=splice", "-o", &log])
            .args(tampering)
            .args([env!("CARGO_BIN_EXE_forebay"), "pipe", flag])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let feeding = feed(&mut child, noise(100_000));
        let output = child.wait_with_output().unwrap();
        feeding.join().unwrap();
        assert!(output.stdout == noise(100_000));
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains("splice("), expected, "{flag}");
    }
}
