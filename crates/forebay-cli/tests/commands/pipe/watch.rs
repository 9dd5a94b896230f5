//! Lines instead of bytes, and a process that is watched.

use super::fed;
use crate::support::*;
use std::{
    io::Read,
    process::{Child, Command},
};

/// A process that has `file` open at `position` as descriptor 3, and lives until it is killed.
fn reader_of(file: &str, position: u32) -> Child {
    let script = format!("exec 3<{file}; head -c {position} <&3 >/dev/null; echo; exec sleep 1000");
    let mut child = piped(Command::new("bash").args(["-c", &script]));
    // It is there.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn lines_are_counted_instead_of_bytes() {
    let text = "one\ntwo\n".repeat(500) + "the last has no end";
    let output = fed("-l -fb", text.as_bytes());
    assert!(output.stdout == text.as_bytes());
    contains(output.log(), "\r   1000\n");
    contains(output.log(), "\nsummary: 1000 lines (4019 bytes) in ");
    contains(output.log(), " lines/s\n");
    assert_eq!(fed("-ln", text.as_bytes()).log(), "1000\n");
    assert_eq!(fed("-ln -s 4000", text.as_bytes()).log(), "25\n");
}

#[test]
fn a_process_is_watched_until_it_ends() {
    let folder = Folder::new();
    let file = folder.file("big", vec![b'x'; 400_000]);
    let mut process = Mortal(reader_of(&file, 100_000));
    let pid = process.0.id();
    for what in [format!("{pid}"), format!("{pid}:3")] {
        let mut watching = Mortal(start!("pipe -d {what} -f --interval 0.05 -N x"));
        let mut errors = watching.0.stderr.take().unwrap();
        let mut shown = String::new();
        while !shown.contains(" 25 %") {
            let mut bytes = [0; 4096];
            let count = errors.read(&mut bytes).unwrap();
            assert!(count > 0, "{shown}");
            shown += text(&bytes[..count]);
        }
        contains(&shown, "x 3:big: 97.7 KiB 0:00:0");
        if what.contains(':') {
            process.0.kill().unwrap();
            process.0.wait().unwrap();
            errors.read_to_string(&mut shown).unwrap();
            contains(
                &shown,
                format!("\nforebay: process {pid} ended, after 0:00:0"),
            );
            assert!(watching.0.wait().unwrap().success());
        }
    }
    run!("pipe -d {pid}").fails(1, format!("-d {pid}: there is no such process"));
}

#[test]
fn what_cannot_be_watched_is_named() {
    let folder = Folder::new();
    let process = Mortal(reader_of(&folder.file("big", "x"), 0));
    let pid = process.0.id();
    run!("pipe -d {pid}:99").fails(1, format!("process {pid} has no such descriptor"));
    run!("pipe -d {pid}:1").fails(1, "is no file, so its position is unknown");
    run!("pipe -d {pid} -l").fails(2, "cannot be used with");
    run!("pipe -d {pid} -i x").fails(2, "-d moves no bytes");
}
