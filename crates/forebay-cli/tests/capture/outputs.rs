//! Outputs that accept no more: readers that leave, full disks, limits, and an unwritable stderr.

use crate::{
    started,
    support::{Folder, count, forebay, found::read, into_full_disk, run, summary, text},
};
use std::{fs::File, io::Read, process::Command};

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let mut child = started(&["-i", "sim:rate=max", "-w", "-", "--json"]);
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(summary(&output.stderr)["law_holds"], true);
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
    let folder = Folder::new();
    let file = folder.path("limited.pcapng");
    let script = format!(
        "ulimit -f 100; exec {} capture -i sim:clock=virtual -c 20k -w {file} --json",
        env!("CARGO_BIN_EXE_forebay")
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains("file too large") && log.contains("ulimit -f"),
        "{log}"
    );
    let json = summary(&output.stdout);
    assert_eq!(json["law_holds"], true);
    let found = read(File::open(&file).unwrap());
    assert_eq!(found.packets.len() as u64, count(&json["written"]));
    assert!(found.packets.len() > 100);
}

#[test]
fn a_store_that_cannot_be_created_leaves_the_existing_file() {
    let folder = Folder::new();
    let path = folder.path("a.pcapng");
    for size in ["2x18446744073709547520", "2x900G"] {
        for flags in [&[][..], &["-C", "1"], &["-C", "1", "-W", "1"]] {
            std::fs::write(&path, "an earlier capture").unwrap();
            let args = ["-i", "sim", "-c", "1", "-w", &path, "--store", size];
            let output = run(&[&args, flags].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert_eq!(std::fs::read(&path).unwrap(), b"an earlier capture");
            let files = std::fs::read_dir(folder.path("")).unwrap().count();
            assert_eq!(files, 1, "no other file is left");
        }
    }
}

#[test]
fn an_unwritable_stderr_stops_nothing() {
    let folder = Folder::new();
    let file = folder.path("deaf.pcapng");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let args = ["-i", "sim:clock=virtual", "-c", "10k", "-w", &file];
    assert!(forebay(&args).stderr(full).status().unwrap().success());
    assert_eq!(read(File::open(&file).unwrap()).packets.len(), 10_000);
}

#[test]
fn an_output_that_is_closed_from_the_start_is_an_error_and_dev_null_is_none() {
    let folder = Folder::new();
    let file = folder.path("a.pcapng");
    let shell = |script: &str| {
        let script = script.replace("FOREBAY", env!("CARGO_BIN_EXE_forebay"));
        let mut shell = Command::new("sh");
        let ran = shell.args(["-c", &script]).output().unwrap();
        (ran.status.code(), text(&ran.stderr).to_owned())
    };
    let capture = format!("FOREBAY capture -i sim -c 10 -w {file}");
    assert_eq!(
        shell(&format!("{capture} >&- <&- 2>&-")).0,
        Some(0),
        "it needs none"
    );
    for writes in [
        "FOREBAY capture -i sim -c 10 -w -",
        "FOREBAY capture -i sim -c 10 --json",
        "FOREBAY capture -D",
        "FOREBAY capture -d tcp",
        &format!("FOREBAY info {file}"),
        &format!("FOREBAY info --json {file}"),
        &format!("FOREBAY repair -n {file}"),
        &format!("FOREBAY records check {file}"),
        &format!("FOREBAY pipe {file}"),
        "FOREBAY queue stat --json closed",
    ] {
        let (code, log) = shell(&format!("{writes} >&-"));
        assert!(matches!(code, Some(1 | 2)), "{writes}: {code:?} {log}");
        let (_, log) = (code, log);
        assert!(
            log.contains("closed") || writes.contains("queue"),
            "{writes}: {log}"
        );
        // As Python's DEVNULL and daemons open it, and as a shell does.
        for null in ["1<>/dev/null", ">/dev/null"] {
            let (_, log) = shell(&format!("{writes} {null}"));
            assert!(!log.contains("is closed"), "{writes} {null}: {log}");
        }
    }
    for reads in [
        "FOREBAY capture -r - -w /dev/null",
        "FOREBAY info -",
        "FOREBAY pipe -o /dev/null",
    ] {
        let (code, log) = shell(&format!("{reads} <&-"));
        assert!(
            code == Some(1) && log.contains("standard input: it is closed"),
            "{reads}: {log}"
        );
    }
}
