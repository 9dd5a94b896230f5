//! Capture files, read and written through the C interface by a program that prints what each function returns.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{folder::Folder, foreign::captures, lab::classic, sender::frame};
use std::{fs, path::PathBuf};

/// Files for the comparison: of other programs, if they are here, and one of ours.
fn files(folder: &Folder) -> Vec<PathBuf> {
    let frames: Vec<_> = (0..9).map(|n| frame(n, 60 + n as usize)).collect();
    let mut files = vec![folder.file("own.pcap", classic(&frames)).into()];
    files.extend(captures("pcap"));
    files.extend(captures("pcapng"));
    files
}

#[test]
fn every_function_for_files_does_what_debians_does() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let calls = compiled(&folder, "calls.c");
    let mut differing = Vec::new();
    for (path, precision) in files(&folder)
        .iter()
        .flat_map(|path| [(path, "0"), (path, "1")])
    {
        let run = |library, output: &str| {
            let output = folder.path(output);
            let mut calls = command(&calls, library);
            calls.arg(path).args([precision, "ip and udp", &output]);
            let (text, errors, code) = outcome(&mut calls);
            (text, errors, code, fs::read(&output).ok())
        };
        let theirs = run(None, "theirs.pcap");
        // What Debian's library cannot read, ours may.
        if theirs.2 != Some(0) {
            continue;
        }
        let ours = run(Some(&library), "ours.pcap");
        if ours != theirs {
            let line = ours.0.lines().zip(theirs.0.lines()).find(|(a, b)| a != b);
            differing.push(format!(
                "{path:?} {precision}: {line:?} {} {:?}",
                ours.1, ours.2
            ));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}
