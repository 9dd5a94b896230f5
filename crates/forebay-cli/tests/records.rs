//! `forebay records` as its users run it, on files that the store wrote and that crashes and disks have changed.

mod support;

use forebay::store::{FileConfig, FileSink, Records, StoreConfig};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    process::{Output, Stdio},
};
use support::{Folder, subcommand, text};

fn records(args: &[&str]) -> Output {
    subcommand("records", args).output().unwrap()
}

fn checked(path: &str) -> Value {
    let output = records(&["check", "--json", path]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_whole = value["cut"].is_null();
    assert_eq!(output.status.code(), Some(i32::from(!is_whole)));
    value
}

/// Numbers from 0 to `count`, 8 bytes each, with a block a hundred of them.
fn numbers(folder: &Folder, count: u64) -> String {
    let path = folder.path("numbers");
    let config = StoreConfig {
        huge_pages: false,
        ..StoreConfig::default()
    };
    let sink = FileSink::create(
        path.as_ref(),
        &FileConfig {
            direct: false,
            ..FileConfig::default()
        },
    )
    .unwrap();
    let mut log = Records::<u64>::in_blocks(sink, &config).unwrap();
    for number in 0..count {
        log.append(&number.to_be()).unwrap();
        if number % 100 == 99 {
            log.flush().unwrap();
        }
    }
    assert_eq!(log.close().finish().totals.durable, count);
    path
}

#[test]
fn a_whole_file_is_reported_and_dumped() {
    let folder = Folder::new();
    let path = numbers(&folder, 1000);
    let message = checked(&path);
    assert_eq!(
        (&message["records"], &message["record_bytes"]),
        (&1000.into(), &8.into())
    );
    assert_eq!(
        (&message["first"], &message["blocks"]),
        (&0.into(), &10.into())
    );
    let len = fs::metadata(&path).unwrap().len();
    assert_eq!(
        (message["bytes"].as_u64(), len),
        (Some(len), 10 * 64 + 8000)
    );
    let output = records(&["check", &path]);
    let log = text(&output.stdout);
    assert!(log.contains("Records:         1000 of 8 bytes\n"), "{log}");
    assert!(log.contains("Numbers:         0 to 999\n"), "{log}");
    assert!(!log.contains("Not to rely on"), "{log}");

    let output = records(&["dump", &path]);
    assert!(output.status.success());
    let lines: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
    let expected = (0..1000).map(|number| format!("{number} {number:016x}"));
    assert_eq!(lines, expected.collect::<Vec<_>>());
    let raw = records(&["dump", "--raw", &path]).stdout;
    let expected: Vec<u8> = (0..1000_u64).flat_map(u64::to_be_bytes).collect();
    assert_eq!(raw, expected);
}

#[test]
fn a_torn_file_is_dumped_up_to_the_cut_and_the_cut_is_reported() {
    let folder = Folder::new();
    let path = numbers(&folder, 1000);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..5 * 864 + 300]).unwrap();
    let message = checked(&path);
    assert_eq!(
        (message["records"].as_u64(), message["bytes"].as_u64()),
        (Some(500), Some(5 * 864))
    );
    assert_eq!(
        (
            message["cut"]["at"].as_u64(),
            message["cut"]["bytes"].as_u64()
        ),
        (Some(5 * 864), Some(300))
    );
    assert_eq!(message["cut"]["fault"], "torn");
    let output = records(&["dump", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).lines().count(), 500);
    let log = text(&output.stderr);
    assert!(
        log.contains("300 bytes from byte 4320 on are left out: the file ends inside of a block"),
        "{log}"
    );
}

#[test]
fn damage_in_the_middle_is_reported_with_what_follows_it() {
    let folder = Folder::new();
    let path = numbers(&folder, 1000);
    let mut bytes = fs::read(&path).unwrap();
    bytes[864 + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = records(&["check", &path]);
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stdout);
    assert!(log.contains("Records:         100 of 8 bytes\n"), "{log}");
    assert!(
        log.contains("Because:         a block does not match its check sum\n"),
        "{log}"
    );
    assert!(
        log.contains("After it:        8 blocks with 800 records according to their headers\n"),
        "{log}"
    );
}

#[test]
fn framed_records_of_any_length_are_dumped_with_their_length() {
    let folder = Folder::new();
    let path = folder.path("words");
    let sink = FileSink::create(
        path.as_ref(),
        &FileConfig {
            direct: false,
            ..FileConfig::default()
        },
    )
    .unwrap();
    let mut log = Records::<[u8]>::in_blocks(sink, &StoreConfig::default()).unwrap();
    log.append(b"one").unwrap();
    log.append(b"").unwrap();
    log.append(b"three").unwrap();
    drop(log);
    let framed = records(&["dump", "--framed", &path]).stdout;
    assert_eq!(framed, b"\0\0\0\x03one\0\0\0\0\0\0\0\x05three");
    assert_eq!(
        records(&["dump", &path]).stdout,
        b"0 6f6e65\n1 \n2 7468726565\n"
    );
    assert!(checked(&path)["record_bytes"].is_null());
}

#[test]
fn files_that_are_not_record_files_or_are_missing_are_reported() {
    let folder = Folder::new();
    let path = folder.path("text");
    fs::write(&path, "x".repeat(1000)).unwrap();
    let message = checked(&path);
    assert_eq!(
        (message["records"].as_u64(), &message["cut"]["fault"]),
        (Some(0), &"no_block".into())
    );
    let missing = folder.path("missing");
    let output = records(&["check", &missing, &path]);
    assert_eq!(output.status.code(), Some(1));
    let log = text(&output.stderr);
    assert!(log.contains("missing cannot be opened"), "{log}");
    assert!(
        text(&output.stdout).contains("are not a block"),
        "the other one is reported"
    );
    assert_eq!(records(&["dump", &missing]).status.code(), Some(1));
    // A folder: the cause is reported once.
    for command in ["check", "dump"] {
        let output = records(&[command, &folder.path("")]);
        let log = text(&output.stderr).to_lowercase();
        assert_eq!(log.matches("is a directory").count(), 1, "{log}");
    }
    assert_eq!(
        records(&["dump", "--raw", "--framed", &path]).status.code(),
        Some(2)
    );
}

#[test]
fn the_last_number_that_there_is_is_a_number_like_any_other() {
    let folder = Folder::new();
    let path = folder.path("last");
    // A block of one record of a byte, whose number is the largest but one.
    let mut block = [0; 65];
    block[..8].copy_from_slice(b"fbrecs\x01\xfb");
    block[24..32].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    for at in [32, 36, 40] {
        block[at] = 1;
    }
    let content = crc32c::crc32c(&block[64..]).to_le_bytes();
    block[12..16].copy_from_slice(&content);
    let head = crc32c::crc32c(&block[12..64]).to_le_bytes();
    block[8..12].copy_from_slice(&head);
    fs::write(&path, block).unwrap();
    let output = records(&["dump", &path]);
    assert_eq!(text(&output.stdout), "18446744073709551614 00\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let log = text(&records(&["check", &path]).stdout).to_owned();
    assert!(
        log.contains("18446744073709551614 to 18446744073709551614"),
        "{log}"
    );
}

#[test]
fn it_reads_standard_input_and_a_reader_that_leaves_is_no_failure() {
    let folder = Folder::new();
    let path = numbers(&folder, 100_000);
    let mut child = subcommand("records", &["dump", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = fs::read(&path).unwrap();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let mut begun = [0; 18];
    child.stdout.take().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(begun, *b"0 0000000000000000");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let _ = writing.join().unwrap();
}
