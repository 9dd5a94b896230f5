//! Outputs that accept no more: readers that leave, full disks, limits, and an unwritable stderr. And the memory that a capture touches.

use crate::support::*;
use std::{fs::File, io::Read};

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let mut child = start!("capture -i sim:rate=max -w - --json");
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    child.wait_with_output().unwrap().keeps_the_law();
}

#[test]
fn a_full_disk_keeps_what_fits_and_reports_it() {
    let folder = Folder::new();
    if let Some(found) = into_full_disk(&folder, "-i sim:rate=max -c 1M") {
        assert!(found.packets.len() > 10_000);
    }
}

#[test]
fn the_file_size_limit_is_an_error_like_a_full_disk() {
    let (_folder, file) = Folder::with("limited.pcapng");
    let script =
        format!("ulimit -f 100; exec forebay capture -i sim:clock=virtual -c 20k -w {file} --json");
    let output = shell(script).output().unwrap();
    output.fails(1, "file too large");
    contains(output.log(), "ulimit -f");
    let json = output.lawful();
    let found = found::open(&file).packets.len();
    assert_eq!(found as u64, count(&json["written"]));
    assert!(found > 100);
}

#[test]
fn a_store_that_cannot_be_created_leaves_the_existing_file() {
    let (folder, path) = Folder::with("a.pcapng");
    for (size, error) in [
        ("2x18446744073709547520", "no address space"),
        ("2x900G", "what is available"),
    ] {
        for flags in ["", "-C 1", "-C 1 -W 1"] {
            std::fs::write(&path, "an earlier capture").unwrap();
            run!("capture -i sim -c 1 -w {path} --store {size} {flags}").fails(1, error);
            assert_eq!(std::fs::read(&path).unwrap(), b"an earlier capture");
            let files = std::fs::read_dir(folder.path("")).unwrap().count();
            assert_eq!(files, 1, "no other file is left");
        }
    }
}

#[test]
fn an_unwritable_stderr_stops_nothing() {
    let (_folder, file) = Folder::with("deaf.pcapng");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = forebay!("capture -i sim:clock=virtual -c 10k -w {file}");
    assert!(command.stderr(full).status().unwrap().success());
    assert_eq!(found::open(&file).packets.len(), 10_000);
}

#[test]
fn an_output_that_is_closed_from_the_start_is_an_error_and_dev_null_is_none() {
    let (_folder, file) = Folder::with("a.pcapng");
    let ran = |line: &str, streams: &str| {
        let output = shell(format!("forebay {line} {streams}")).output();
        output.unwrap()
    };
    ran(&format!("capture -i sim -c 10 -w {file}"), ">&- <&- 2>&-").succeeds(); // it needs none
    for writes in [
        "capture -i sim -c 10 -w -",
        "capture -i sim -c 10 --count --json",
        "capture -D",
        "capture -d tcp",
        &format!("info {file}"),
        &format!("info --json {file}"),
        &format!("repair -n {file}"),
        &format!("records check {file}"),
        &format!("pipe {file}"),
        "queue stat --json closed",
    ] {
        let output = ran(writes, ">&-");
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{writes}: {output:?}"
        );
        assert!(
            output.log().contains("closed") || writes.contains("queue"),
            "{writes}"
        );
        // As Python's DEVNULL and daemons open it, and as a shell does.
        for null in ["1<>/dev/null", ">/dev/null"] {
            lacks(ran(writes, null).log(), "is closed");
        }
    }
    for writes in ["-w -", "--print"] {
        let line = format!("capture -i sim -c 10 {writes} --json");
        let output = ran(&line, "2>&-");
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(output.stdout.is_empty(), "{line}");
        ran(&line, "2>/dev/null").succeeds();
    }
    for reads in ["capture -r - -w /dev/null", "info -", "pipe -o /dev/null"] {
        ran(reads, "<&-").fails(1, "standard input: it is closed");
    }
}

#[test]
fn memory_is_touched_as_packets_fill_it_and_not_at_the_start() {
    for recorder in ["", "--recorder 3s"] {
        let (_folder, file) = Folder::with("a.pcapng");
        let mut child = start!("capture -i sim:rate=100pps {recorder} -w {file}");
        match recorder {
            "" => wait_until(|| file_len(&file) > 0),
            _ => drop(heard(&mut child, "keeping the last 3s")),
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let touched = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kib.unwrap().parse::<u64>().unwrap()
        };
        let kib = touched("RssAnon:") + touched("RssShmem:");
        // The store has 64 MiB, and the recorder more.
        assert!(kib < 32 << 10, "{recorder}: {kib} KiB");
        stopped(child).succeeds();
    }
}
