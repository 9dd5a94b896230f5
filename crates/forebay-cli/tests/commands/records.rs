//! `forebay records` as its users run it, on files that the store wrote and that crashes and disks have changed.

use crate::support::*;
use forebay::{
    records::Records,
    store::{FileConfig, FileSink, Sink, StoreConfig},
};
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
};

fn checked(path: &str) -> Value {
    let output = run!("records check --json {path}");
    let value = output.json();
    let is_whole = value["cut"].is_null();
    assert_eq!(output.status.code(), Some(i32::from(!is_whole)));
    value
}

fn sink(path: &str) -> Box<dyn Sink> {
    let config = FileConfig {
        direct: false,
        ..FileConfig::default()
    };
    FileSink::create(path, &config).unwrap()
}

/// Numbers from 0 to `count`, 8 bytes each, with a block a hundred of them.
fn numbers(folder: &Folder, count: u64) -> String {
    let path = folder.path("numbers");
    let config = StoreConfig {
        huge_pages: false,
        ..StoreConfig::default()
    };
    let mut log = Records::<u64>::in_blocks(sink(&path), &config).unwrap();
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
    let found = checked(&path);
    assert_eq!(
        counts(&found, ["records", "record_bytes", "first", "blocks"]),
        [1000, 8, 0, 10]
    );
    assert_eq!(count(&found["bytes"]), 10 * 64 + 8000);
    assert_eq!(file_len(&path), 10 * 64 + 8000);
    let output = run!("records check {path}");
    contains(output.text(), "Records:         1000 of 8 bytes\n");
    contains(output.text(), "Numbers:         0 to 999\n");
    lacks(output.text(), "Not to rely on");

    let output = run!("records dump {path}");
    let expected = (0..1000).map(|number| format!("{number} {number:016x}\n"));
    assert_eq!(output.succeeds().text(), expected.collect::<String>());
    let expected: Vec<u8> = (0..1000_u64).flat_map(u64::to_be_bytes).collect();
    assert_eq!(run!("records dump --raw {path}").stdout, expected);
}

#[test]
fn a_torn_file_is_dumped_up_to_the_cut_and_the_cut_is_reported() {
    let folder = Folder::new();
    let path = numbers(&folder, 1000);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..5 * 864 + 300]).unwrap();
    let found = checked(&path);
    assert_eq!(counts(&found, ["records", "bytes"]), [500, 5 * 864]);
    assert_eq!(counts(&found["cut"], ["at", "bytes"]), [5 * 864, 300]);
    assert_eq!(found["cut"]["fault"], "torn");
    let output = run!("records dump {path}");
    let cut = "300 bytes from byte 4320 on are left out: the file ends inside of a block";
    output.fails(1, cut);
    assert_eq!(output.text().lines().count(), 500);
}

#[test]
fn damage_in_the_middle_is_reported_with_what_follows_it() {
    let folder = Folder::new();
    let path = numbers(&folder, 1000);
    let mut bytes = fs::read(&path).unwrap();
    bytes[864 + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = run!("records check {path}");
    assert_eq!(output.status.code(), Some(1));
    for line in [
        "Records:         100 of 8 bytes\n",
        "Because:         a block does not match its check sum\n",
        "After it:        8 blocks with 800 records according to their headers\n",
    ] {
        contains(output.text(), line);
    }
}

#[test]
fn framed_records_of_any_length_are_dumped_with_their_length() {
    let (_folder, path) = Folder::with("words");
    let mut log = Records::<[u8]>::in_blocks(sink(&path), &StoreConfig::default()).unwrap();
    log.append(b"one").unwrap();
    log.append(b"").unwrap();
    log.append(b"three").unwrap();
    drop(log);
    let framed = run!("records dump --framed {path}").stdout;
    assert_eq!(framed, b"\0\0\0\x03one\0\0\0\0\0\0\0\x05three");
    let dumped = run!("records dump {path}").stdout;
    assert_eq!(dumped, b"0 6f6e65\n1 \n2 7468726565\n");
    assert!(checked(&path)["record_bytes"].is_null());
}

#[test]
fn files_that_are_not_record_files_or_are_missing_are_reported() {
    let folder = Folder::new();
    let path = folder.file("text", "x".repeat(1000));
    let found = checked(&path);
    assert_eq!(count(&found["records"]), 0);
    assert_eq!(found["cut"]["fault"], "no_block");
    let missing = folder.path("missing");
    let output = run!("records check {missing} {path}");
    output.fails(1, "missing cannot be opened");
    contains(output.text(), "are not a block"); // the other one is reported
    run!("records dump {missing}").fails(1, "missing");
    // A folder: the cause is reported once.
    for command in ["check", "dump"] {
        let output = run!("records {command} {}", folder.path(""));
        let log = output.log().to_lowercase();
        assert_eq!(log.matches("is a directory").count(), 1, "{log}");
    }
    run!("records dump --raw --framed {path}").fails(2, "--framed");
}

#[test]
fn the_last_number_that_there_is_is_a_number_like_any_other() {
    let (_folder, path) = Folder::with("last");
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
    let output = run!("records dump {path}");
    assert_eq!(output.succeeds().text(), "18446744073709551614 00\n");
    let numbers = "18446744073709551614 to 18446744073709551614";
    contains(run!("records check {path}").text(), numbers);
}

#[test]
fn it_reads_standard_input_and_a_reader_that_leaves_is_no_failure() {
    let folder = Folder::new();
    let path = numbers(&folder, 100_000);
    let mut child = start!("records dump -");
    let mut input = child.stdin.take().unwrap();
    let bytes = fs::read(&path).unwrap();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let mut begun = [0; 18];
    child.stdout.take().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(begun, *b"0 0000000000000000");
    child.wait_with_output().unwrap().succeeds();
    let _ = writing.join().unwrap();
}
