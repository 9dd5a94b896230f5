//! Capture files, read and written through the C interface by a program that prints what each function returns.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{
    blocks::{block, section, words},
    folder::Folder,
    foreign::captures,
    lab::{classic, have},
    sender::frame,
};
use std::{fs, path::PathBuf};

/// Files for the comparison: of other programs, if they are here, and one of ours.
fn files(folder: &Folder) -> Vec<PathBuf> {
    let frames: Vec<_> = (0..9).map(|n| frame(n, 60 + n as usize)).collect();
    let own = classic(&frames);
    // A fraction above a second, one below zero, and a packet that was shorter on the wire than it is here.
    let mut odd = own.clone();
    odd[28..32].copy_from_slice(&2_500_000_u32.to_le_bytes());
    odd[104..108].copy_from_slice(&(-3_i32).to_le_bytes());
    odd[36..40].copy_from_slice(&20_u32.to_le_bytes());
    let files = [("own.pcap", own), ("odd.pcap", odd)];
    let mut files: Vec<_> = files
        .map(|(name, file)| folder.file(name, file).into())
        .into();
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

/// What tcpdump prints of a file on our library: packets, messages, and its exit code.
fn printed(path: &str) -> (String, String, Option<i32>) {
    outcome(command("tcpdump", Some(&installed())).args(["-nttr", path]))
}

#[test]
fn compressed_files_are_read_as_if_they_were_not() {
    if !have("tcpdump") || !have("gzip") || !have("zstd") {
        return forebay_testing::children::skip("tcpdump, gzip and zstd");
    }
    let frames: Vec<_> = (0..2000).map(|n| frame(n, 200)).collect();
    let folder = Folder::new();
    let plain = folder.file("a.pcap", classic(&frames));
    let expected = printed(&plain);
    assert_eq!(
        (expected.0.lines().count() > 1999, expected.2),
        (true, Some(0))
    );
    for (tool, ending) in [("gzip", "gz"), ("zstd", "zst")] {
        let mut compress = std::process::Command::new(tool);
        let (_, errors, code) = outcome(compress.args(["-qk", &plain]));
        assert_eq!(code, Some(0), "{errors}");
        let found = printed(&format!("{plain}.{ending}"));
        assert_eq!(
            (found.0, found.2),
            (expected.0.clone(), Some(0)),
            "{}",
            found.1
        );
    }
}

#[test]
fn packets_of_other_link_types_are_left_out_and_reported() {
    if !have("tcpdump") {
        return forebay_testing::children::skip("tcpdump");
    }
    let interface = |link: u32, snaplen| block(1, &words(&[link, snaplen]));
    let packet = |interface, number| {
        let mut body = words(&[interface, 0, 1_000_000, 60, 60]);
        body.extend(frame(number, 60));
        block(6, &body)
    };
    let file = [
        section(&[]),
        interface(1, 96),
        interface(101, 0),
        interface(1, 2000),
        packet(0, 1),
        packet(1, 2),
        packet(2, 3),
    ];
    let folder = Folder::new();
    let path = folder.file("a.pcapng", file.concat());
    let (packets, messages, code) = printed(&path);
    let lines = packets.lines().filter(|line| line.starts_with("1.000000"));
    assert_eq!((lines.count(), code), (2, Some(1)), "{packets}{messages}");
    assert!(
        messages.contains("packets that were not delivered: 1 (link type RAW"),
        "{messages}"
    );
}

#[test]
fn a_request_to_stop_ends_the_reading_of_packets_that_the_filter_rejects() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let endless = compiled(&folder, "endless.c");
    let run = |library| outcome(&mut command(&endless, library));
    assert_eq!(run(Some(&library)), run(None));
}

#[test]
fn streams_are_used_as_debians_library_uses_them() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let streams = compiled(&folder, "streams.c");
    let run = |library| {
        let input = folder.file("in.pcap", classic(&[frame(0, 60), frame(1, 60)]));
        let mut streams = command(&streams, library);
        streams.stdin(fs::File::open(input).unwrap());
        outcome(streams.arg(folder.path("out.pcap")))
    };
    let (ours, theirs) = (run(Some(&library)), run(None));
    let line = ours.0.lines().zip(theirs.0.lines()).find(|(a, b)| a != b);
    assert!(ours == theirs, "{line:?}\n{ours:?}\n{theirs:?}");
    assert_eq!(ours.2, Some(0));
}

#[test]
fn other_calls_do_not_wait_for_the_bytes_of_a_pipe() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let pipe = compiled(&folder, "pipe.c");
    let run = |library| outcome(&mut command(&pipe, library));
    let (ours, theirs) = (run(Some(&library)), run(None));
    assert_eq!(ours, theirs);
    assert!(ours.0.contains("snapshots 50 "), "{ours:?}");
}

#[test]
fn programs_that_promise_too_much_are_no_danger() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let path = folder.file("a.pcap", classic(&[frame(0, 60)]));
    let mut careless = command(compiled(&folder, "careless.c"), Some(&library));
    let (text, errors, code) = outcome(careless.arg(path));
    let expected = "loop 5\nunset length -1 0\nsmall buffer 1 1\nname 1\n";
    assert_eq!((text.as_str(), code), (expected, Some(0)), "{errors}");
}

#[test]
fn no_packet_is_longer_than_the_snapshot_length() {
    if !has_debians() {
        return;
    }
    let interface = |snaplen| block(1, &words(&[1, snaplen]));
    let packet = |interface, len| {
        let mut body = words(&[interface, 0, 1_000_000, len, len]);
        body.extend(frame(0, len as usize));
        block(6, &body)
    };
    let file = [
        section(&[]),
        interface(40),
        interface(2000),
        interface(0),
        packet(0, 60),
        packet(1, 1500),
        packet(2, 70_000),
    ];
    let folder = Folder::new();
    let path = folder.file("a.pcapng", file.concat());
    let calls = compiled(&folder, "calls.c");
    let library = installed();
    let mut calls = command(calls, Some(&library));
    let (text, errors, code) = outcome(calls.args([&path, "0", "", &folder.path("out")]));
    assert_eq!(code, Some(0), "{text}{errors}");
    let lines: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("next_ex 1."))
        .collect();
    assert!(text.contains("snaplen 40 "), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    for (line, len) in lines.iter().zip([60, 1500, 70_000]) {
        assert!(line.contains(&format!(" 40/{len} ")), "{line}");
    }
}

#[test]
fn lookups_and_texts_are_those_of_debians_library() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let lookups = compiled(&folder, "lookups.c");
    let ethers = "# comment\n02:00:5e:10:00:ff first\n\n2:0:5e:1:0:1  second # more\nx y\n";
    let ethers = folder.file("ethers", ethers);
    let run = |library| outcome(command(&lookups, library).arg(&ethers));
    let (ours, theirs) = (run(Some(&library)), run(None));
    let lines = ours.0.lines().zip(theirs.0.lines());
    let differing: Vec<_> = lines.filter(|(a, b)| a != b).collect();
    assert!(differing.is_empty() && ours == theirs, "{differing:#?}");
}
