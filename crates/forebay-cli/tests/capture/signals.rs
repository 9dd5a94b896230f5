//! Signals: the first one ends a capture cleanly, the second one gives up on a reader or disk that does not move.

use crate::{
    check, started,
    support::{Folder, count, forebay, found::read, interrupt, summary, text},
};
use std::{fs::File, io::Read, process::Command, time::Duration};

/// Waits until `path` has at least `bytes` bytes, for at most 20 seconds.
fn wait_for_bytes(path: &str, bytes: u64) {
    for _ in 0..2000 {
        if std::fs::metadata(path).is_ok_and(|meta| meta.len() >= bytes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{path} does not grow");
}

#[test]
fn signals_finish_cleanly_and_report() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = Folder::new();
        let file = folder.path("stopped.pcapng");
        let mut child = started(&["-i", "sim", "-w", &file, "--json", "-U"]);
        wait_for_bytes(&file, 100_000);
        interrupt(&child, "-USR1");
        interrupt(&child, "-USR2");
        std::thread::sleep(Duration::from_millis(50));
        interrupt(&child, signal);
        assert!(child.wait().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let log = text(&output.stderr);
        assert!(log.contains("pps"), "USR1 reports: {log}");
        let json = summary(&output.stdout);
        assert_eq!(json["unread"], 0, "a clean stop drains");
        check(&json, log, &read(File::open(&file).unwrap()));
    }
}

#[test]
fn a_second_interrupt_gives_up_a_reader_that_stands_still() {
    let mut child = started(&["-i", "sim:rate=max", "-w", "-", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the first one waits for the reader"
    );
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = child.wait_with_output().unwrap();
    let json = summary(&output.stderr);
    assert_eq!(json["law_holds"], true, "{json}");
    assert!(count(&json["dropped"]["writer"]) > 0, "{json}");
    let found = read(&output.stdout[..]);
    assert_eq!(
        found.packets.len() as u64,
        count(&json["written"]),
        "to the packet"
    );
}

/// Reads lines until one holds `part`; returns all of them.
fn read_until(from: &mut impl std::io::BufRead, part: &str) -> String {
    let mut log = String::new();
    while !log.contains(part) {
        assert!(from.read_line(&mut log).unwrap() > 0, "{part}: {log}");
    }
    log
}

#[test]
fn a_slow_end_reports_what_it_waits_for_and_what_was_given_up() {
    let mut child = started(&["-i", "sim:rate=max", "-w", "-"]);
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    let log = read_until(&mut stderr, "interrupt again to give up");
    assert!(log.contains("writing what is left, "), "{log}");
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let log = read_until(&mut stderr, "packets were lost");
    assert!(log.contains("packets were not written"), "{log}");
    assert!(log.contains("when an interrupt gave up"), "{log}");
    assert!(!log.contains("The output stopped"), "{log}");
}

#[test]
fn a_second_interrupt_discards_nothing_that_can_be_written() {
    let small = ["--store", "2x1M"];
    let args = ["-i", "sim:rate=10M", "-w", "-", "--json"];
    let mut child = started(&[&args[..], &small].concat());
    // More than the pipe holds.
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child, "-INT");
    interrupt(&child, "-INT");
    let mut bytes = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let json = summary(&output.stderr);
    assert_eq!(json["unread"], 0, "{json}");
    check(&json, log, &read(&bytes[..]));
    assert_eq!(json["received"], json["written"], "{json}");
}

#[test]
fn in_virtual_time_too_a_second_interrupt_gives_up() {
    let mut child = started(&["-i", "sim:clock=virtual", "-c", "1M", "-w", "-", "--json"]);
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    std::thread::sleep(Duration::from_millis(100));
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = child.wait_with_output().unwrap();
    assert_eq!(summary(&output.stderr)["law_holds"], true);
}

#[test]
fn a_fifo_without_a_reader_can_be_interrupted() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut child = forebay(&["-i", "sim", "-w", &fifo]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child, "-INT");
    assert!(!child.wait().unwrap().success());
}
