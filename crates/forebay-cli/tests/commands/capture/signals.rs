//! Signals: the first one ends a capture cleanly, the second one gives up on a reader or disk that does not move.

use crate::capture::check;
use crate::support::*;
use std::{io::Read, process::Command, time::Duration};

#[test]
fn signals_finish_cleanly_and_report() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let (_folder, file) = Folder::with("stopped.pcapng");
        let child = start!("capture -i sim -w {file} --json -U");
        wait_until(|| file_len(&file) >= 100_000);
        interrupt(&child, "-USR1");
        interrupt(&child, "-USR2");
        std::thread::sleep(Duration::from_millis(50));
        interrupt(&child, signal);
        let output = child.wait_with_output().unwrap();
        let json = output.keeps_the_law();
        contains(output.log(), "pps"); // of USR1
        assert_eq!(json["unread"], 0, "a clean stop drains");
        check(&json, output.log(), &found::open(&file));
    }
}

#[test]
fn a_second_interrupt_gives_up_a_reader_that_stands_still() {
    let mut child = start!("capture -i sim:rate=max -w - --json");
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    std::thread::sleep(Duration::from_millis(200));
    let is_waiting = child.try_wait().unwrap().is_none();
    assert!(is_waiting, "the first one waits for the reader");
    // On a busy machine, two that come together may count as one.
    while child.try_wait().unwrap().is_none() {
        interrupt(&child, "-INT");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = child.wait_with_output().unwrap();
    let json = output.lawful();
    assert!(count(&json["dropped"]["writer"]) > 0, "{json}");
    let found = found::read(&output.stdout[..]).packets.len();
    assert_eq!(found as u64, count(&json["written"]), "to the packet");
}

#[test]
fn a_slow_end_reports_what_it_waits_for_and_what_was_given_up() {
    let mut child = start!("capture -i sim:rate=max -w -");
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&child, "-INT");
    let log = heard(&mut child, "interrupt again to give up");
    contains(&log, "writing what is left, ");
    interrupt(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let log = heard(&mut child, "when an interrupt gave up\n");
    contains(&log, "packets were not written");
    contains(&log, "packets were lost");
    lacks(log, "The output stopped");
}

#[test]
fn a_second_interrupt_discards_nothing_that_can_be_written() {
    let mut child = start!("capture -i sim:rate=10M -w - --json --store 2x1M");
    // More than the pipe holds.
    std::thread::sleep(Duration::from_millis(500));
    interrupt(&child, "-INT");
    interrupt(&child, "-INT");
    let mut bytes = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let json = output.keeps_the_law();
    assert_eq!(json["unread"], 0, "{json}");
    check(&json, output.log(), &found::read(&bytes[..]));
    assert_eq!(json["received"], json["written"], "{json}");
}

#[test]
fn in_virtual_time_too_a_second_interrupt_gives_up() {
    let mut child = start!("capture -i sim:clock=virtual -c 1M -w - --json -v");
    heard(&mut child, "polling\n");
    // Nobody reads: the pipe fills up, and the first interrupt cannot end it.
    while rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap() < 60_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    // On a busy machine, two signals may arrive as one.
    while child.try_wait().unwrap().is_none() {
        interrupt(&child, "-INT");
        std::thread::sleep(Duration::from_secs(3));
    }
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.json()["law_holds"], true);
}

#[test]
fn a_fifo_without_a_reader_can_be_interrupted() {
    let (_folder, fifo) = Folder::with("fifo");
    mkfifo(&fifo);
    // A shell that runs the tests in the background has them ignore the signal.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", FOREBAY]);
    command.args(["capture", "-i", "sim", "-w", &fifo]);
    let mut child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    interrupt(&child, "-INT");
    assert!(!child.wait().unwrap().success());
}
