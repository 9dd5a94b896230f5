//! The ways in which intrusion detection systems use libpcap, each imitated by a program in C: Zeek waits on the descriptor, Suricata
//! dispatches batches until another thread stops it.

use crate::support::{command, compiled, has_debians, installed};
use forebay_testing::{
    children::Mortal,
    folder::Folder,
    lab::{classic, lab},
    sender::{Sender, frame},
};
use std::{
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

/// Runs a program on both libraries while numbered frames arrive on `vb`, and requires the same output.
fn same(source: &str, words: &[&str]) {
    lab(&[], || {
        if !has_debians() {
            return;
        }
        let (folder, library) = (Folder::new(), installed());
        let program = compiled(&folder, source);
        let frames: Vec<_> = (0..700).map(|n| frame(n, 60 + n as usize % 900)).collect();
        let file = folder.file("a.pcap", classic(&frames));
        let run = |library| {
            let mut program = command(&program, library);
            program.args(words).args(["vb", "1000", &file]);
            let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut program = Mortal(program.spawn().unwrap());
            let mut messages = BufReader::new(program.0.stderr.take().unwrap());
            let mut listening = String::new();
            messages.read_line(&mut listening).unwrap();
            if listening == "listening\n" {
                Sender::pinned("va").numbers(0..1000, 200).unwrap();
            }
            let mut printed = listening;
            let mut stdout = program.0.stdout.take().unwrap();
            stdout.read_to_string(&mut printed).unwrap();
            (printed, program.0.wait().unwrap().code())
        };
        let (ours, theirs) = (run(Some(&library)), run(None));
        assert_eq!(ours, theirs);
        assert_eq!(ours.1, Some(0), "{}", ours.0);
    });
}

#[test]
fn zeeks_wait_for_the_descriptor_with_epoll_is_as_on_debians_library() {
    same("zeek.c", &["epoll"]);
}

#[test]
fn zeeks_wait_for_the_descriptor_with_poll_is_as_on_debians_library() {
    same("zeek.c", &["poll"]);
}

#[test]
fn suricatas_batches_and_its_stop_are_as_on_debians_library() {
    same("suricata.c", &[]);
}
