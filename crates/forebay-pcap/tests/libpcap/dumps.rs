//! Files that programs write under names that ask for a format or a compression.

use crate::support::{command, compiled, has_debians, installed, outcome};
use forebay_testing::{
    folder::Folder,
    lab::{classic, have},
    sender::frame,
};
use std::{fs, process::Command};

/// Names, with the first bytes of their files, and whether a packet has a place there.
const NAMES: [(&str, [u8; 2], bool); 6] = [
    ("a.pcap", [0xd4, 0xc3], true),
    ("b.pcapng", [0x0a, 0x0d], true),
    ("c.gz", [0x1f, 0x8b], false),
    ("d.pcapng.gz", [0x1f, 0x8b], false),
    ("e.pcap.ZST", [0x28, 0xb5], false),
    ("f.pcapng.zst", [0x28, 0xb5], false),
];

/// The lines without places in the file.
fn without_places(text: &str) -> Vec<String> {
    let places =
        |word: &&str| !word.parse::<u64>().is_ok_and(|place| place > 100_000) && *word != "-1";
    let words = |line: &str| line.split(' ').filter(places).collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

#[test]
fn files_are_written_and_continued_as_their_names_ask() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let dumps = compiled(&folder, "dumps.c");
    let run = |library, name: &str| {
        let path = folder.path(name);
        let (text, errors, code) = outcome(command(&dumps, library).args([&path, "0"]));
        assert_eq!(code, Some(0), "{name}: {text}{errors}");
        (text.replace(&path, "FILE"), fs::read(&path).unwrap())
    };
    let (theirs, file) = run(None, "theirs");
    for (name, magic, has_places) in NAMES {
        let (ours, written) = run(Some(&library), name);
        assert_eq!(without_places(&ours), without_places(&theirs), "{name}");
        assert_eq!(ours.contains("place -1"), !has_places, "{name}");
        assert_eq!(written[..2], magic, "{name}");
        if name == "a.pcap" {
            assert!(ours == theirs && written == file);
        }
    }
}

#[test]
fn other_programs_read_what_tcpdump_writes_compressed() {
    if !have("tcpdump") || !have("gzip") || !have("zstd") {
        return forebay_testing::children::skip("tcpdump, gzip and zstd");
    }
    let (folder, library) = (Folder::new(), installed());
    let frames: Vec<_> = (0..2000).map(|n| frame(n, 200)).collect();
    let plain = folder.file("a.pcap", classic(&frames));
    let printed = |library, path: &str| {
        let mut tcpdump = command("tcpdump", library);
        outcome(tcpdump.args(["-Z", "root", "-nttr", path]))
    };
    for (tool, ending) in [("gzip", "gz"), ("zstd", "zst"), ("cat", "pcapng")] {
        let path = folder.path(&format!("b.pcapng.{ending}"));
        let mut tcpdump = command("tcpdump", Some(&library));
        let (_, errors, code) = outcome(tcpdump.args(["-Z", "root", "-r", &plain, "-w", &path]));
        assert_eq!(code, Some(0), "{errors}");
        let mut unpack = Command::new(tool);
        if tool != "cat" {
            unpack.arg("-dc");
        }
        let unpacked = unpack.arg(&path).output().unwrap();
        assert!(unpacked.status.success(), "{ending}");
        let unpacked = folder.file("c.pcapng", unpacked.stdout);
        let (lines, errors, code) = printed(None, &unpacked);
        let expected = printed(None, &plain).0;
        let differs = lines.lines().zip(expected.lines()).find(|(a, b)| a != b);
        assert_eq!(
            (differs, lines.len(), code),
            (None, expected.len(), Some(0)),
            "{errors}"
        );
    }
}

#[test]
fn a_compressed_file_is_not_continued_after_an_incomplete_packet() {
    if !has_debians() || !have("zstd") {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    let dumps = compiled(&folder, "dumps.c");
    let mut damaged = classic(&[frame(0, 100), frame(1, 100)]);
    damaged[16..20].copy_from_slice(&2000_u32.to_ne_bytes());
    damaged.truncate(damaged.len() - 10);
    let plain = folder.file("a.pcap", damaged);
    let path = folder.path("a.zst");
    let (_, errors, code) = outcome(Command::new("zstd").args(["-q", &plain, "-o", &path]));
    assert_eq!(code, Some(0), "{errors}");
    let before = fs::read(&path).unwrap();
    let (text, _, _) = outcome(command(&dumps, Some(&library)).args([&path, "0", "append"]));
    assert!(text.contains("truncated dump file"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
}
