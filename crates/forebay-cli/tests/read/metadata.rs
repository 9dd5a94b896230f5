//! What a capture says beyond its packets stays in a copy, by one thread or several; what cannot stay is counted.

use crate::{
    law,
    support::{Folder, count, has, run, subcommand, summary, text},
};
use serde_json::Value;
use std::process::Command;

/// The output of a tool that has to succeed.
fn message(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout).to_owned()
}

struct Built(Vec<u8>);

impl Built {
    fn block(&mut self, kind: u32, body: &[u8]) -> &mut Self {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = (12 + body.len() as u32).to_le_bytes();
        self.0
            .extend([&kind.to_le_bytes()[..], &len, &body, &len].concat());
        self
    }
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [code.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An ARP packet with these options; `kind` lets filters distinguish it from others.
fn packet(interface: u32, number: u32, kind: u8, options: &[u8]) -> Vec<u8> {
    let mut data = [0xff; 60];
    data[12..15].copy_from_slice(&[8, 6, kind]);
    let head = words(&[interface, 0x6_0000, number, 60, 60]);
    [&head[..], &data, options].concat()
}

/// A file with all that there is, and `many` plain packets after it.
fn everything(many: u32) -> Vec<u8> {
    let mut file = Built(Vec::new());
    let about = [
        option(1, b"about the section"),
        option(1, b"and more"),
        option(2, b"a machine"),
        option(3, b"a system"),
        option(4, b"a program"),
        option(2988, b"\x39\x30\0\0text"),
        option(19_372, b"\x39\x30\0\0not to be copied"),
    ];
    let head = [words(&[0x1a2b_3c4d, 1]), vec![0xff; 8]].concat();
    file.block(0x0a0d_0d0a, &[head, about.concat()].concat());
    let about = [
        option(2, b"eth7"),
        option(3, b"the seventh"),
        option(1, b"about the interface"),
        option(4, &[10, 0, 0, 1, 255, 0, 0, 0]),
        option(11, b"\0tcp port 80"),
        option(12, b"another system"),
        option(13, &[0]),
        option(15, b"a card"),
    ];
    file.block(1, &[words(&[1, 65_535]), about.concat()].concat());
    let secrets = b"CLIENT_RANDOM 00 11\n";
    let head = words(&[0x544c_534b, secrets.len() as u32]);
    file.block(10, &[&head[..], secrets].concat());
    let name = [&[1, 0, 15, 0, 10, 0, 0, 1][..], b"our-server\0\0", &[0; 4]].concat();
    file.block(4, &name);
    file.block(0xbad, &[words(&[12_345]), b"custom".to_vec()].concat());
    file.block(0x4000_0bad, &words(&[12_345, 1]));
    let about = [
        option(1, b"about a packet"),
        option(2, &words(&[2])),
        option(5, &[7; 8]),
        option(6, &words(&[3])),
        option(7, &[0, 1, 2, 3]),
        option(3, &[2, 1, 2, 3, 4]),
    ];
    file.block(6, &packet(0, 1, 7, &about.concat()));
    file.block(6, &packet(0, 2, 8, &option(1, b"about another")));
    for number in 0..many {
        file.block(6, &packet(0, 3 + number, (number % 3) as u8, &[]));
        if number % 50_000 == 49_999 {
            file.block(0xbad, &[words(&[12_345]), words(&[number])].concat());
        }
    }
    file.0
}

fn copied(input: &str, output: &str, more: &[&str]) -> (Value, String) {
    let ran = run(&[&["-q", "-r", input, "-w", output, "--json"], more].concat());
    let log = text(&ran.stderr).to_owned();
    assert!(ran.status.success(), "{log}");
    let json = summary(&ran.stdout);
    law(&json);
    (json, log)
}

/// The blocks of a little-endian pcapng file: kinds and bodies.
fn blocks(path: &str) -> Vec<(u32, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!(len, word(at + len - 4) as usize);
        found.push((word(at), bytes[at + 8..at + len - 4].to_vec()));
        at += len;
    }
    found
}

fn info(path: &str) -> Value {
    let output = subcommand("info", &["--json", path]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Everything that tshark and capinfos find besides the bytes. To tshark custom blocks are frames, too, but no packets.
fn found_by_others(path: &str) -> [String; 2] {
    let fields = "frame.comment frame.packet_flags frame.packet_id frame.interface_queue frame.interface_name \
        frame.interface_description frame.interface_id frame.time_epoch arp.hw.type";
    let fields = fields.split_whitespace().flat_map(|field| ["-e", field]);
    let words = ["tshark", "-r", path, "-Y", "arp", "-T", "fields"]
        .into_iter()
        .chain(fields);
    let about = message(&["capinfos", path]);
    // Its other lines are about bytes, or about custom blocks, which have no time.
    let kept = [
        "File encapsulation",
        "Number of",
        "Data size",
        "Capture hardware",
        "Capture oper-sys",
        "Capture comment",
        "Interface",
        " ",
    ];
    let is_kept = |line: &&str| {
        kept.iter().any(|kept| line.starts_with(kept)) && !line.contains("Time resolution")
    };
    let about = about.lines().filter(is_kept);
    let about = about.collect::<Vec<_>>().join("\n");
    [message(&words.collect::<Vec<_>>()), about]
}

#[test]
fn all_that_other_tools_find_in_a_file_they_find_in_its_copy() {
    if !has("tshark") || !has("capinfos") {
        return;
    }
    let folder = Folder::new();
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    std::fs::write(&input, everything(10)).unwrap();
    let (json, log) = copied(&input, &output, &[]);
    assert!(
        log.contains("forebay: 1 option, 1 custom block not copied"),
        "{log}"
    );
    assert_eq!(count(&json["not_copied"]["custom"]), 1);
    let (before, after) = (found_by_others(&input), found_by_others(&output));
    assert!(before[0].contains("about another") && before[1].contains("about the section"));
    assert_eq!(before, after);
    // These they do not show: secrets, names, custom blocks, bodies as they were and where they were.
    let others = |path: &str| {
        let of_kind = |(kind, _): &(u32, Vec<u8>)| [10, 4, 0xbad].contains(kind);
        blocks(path).into_iter().filter(of_kind).collect::<Vec<_>>()
    };
    assert_eq!(others(&input), others(&output));
    let raw = std::fs::read(&output).unwrap();
    let has_text = |text: &str| {
        raw.windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    let texts = [
        "a machine",
        "a system",
        "another system",
        "a card",
        "tcp port 80",
        "and more",
    ];
    assert!(texts.iter().all(|text| has_text(text)));
    assert!(has_text("copied from a program") && !has_text("not to be copied"));
    // The copy of a copy is the same.
    let again = folder.path("again.pcapng");
    let (json, log) = copied(&output, &again, &[]);
    assert_eq!(json["not_copied"]["options"], 0, "{log}");
    assert!(std::fs::read(&again).unwrap() == raw);
}

#[test]
fn a_copy_without_metadata_has_none_and_a_classic_one_reports_what_it_lacks() {
    let folder = Folder::new();
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    std::fs::write(&input, everything(10)).unwrap();
    let (json, log) = copied(&input, &output, &["--no-metadata"]);
    assert!(!log.contains("not copied"), "{log}");
    assert_eq!(count(&json["not_copied"]["comments"]), 5);
    let kinds: Vec<_> = blocks(&output).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [&[0x0a0d_0d0a, 1][..], &[6; 12]].concat());
    let raw = std::fs::read(&output).unwrap();
    assert!(!raw.windows(5).any(|window| window == b"about"));

    let (_, log) = copied(&input, &folder.path("out.pcap"), &[]);
    let expected = "forebay: 5 comments, 11 options, 1 name resolution block, 1 decryption secrets block, \
        2 custom blocks not copied";
    assert!(log.contains(expected), "{log}");
}

/// Several threads read a large file with a filter, and hand on most packets without looking at them.
#[test]
fn a_large_file_has_the_same_copy_whichever_way_it_is_read() {
    let folder = Folder::new();
    let input = folder.path("in.pcapng");
    std::fs::write(&input, everything(200_000)).unwrap();
    for filter in ["", "ether[14] >= 1", "ether[14] = 7"] {
        let (large, piped) = (folder.path("large.pcapng"), folder.path("piped.pcapng"));
        copied(&input, &large, &[filter]);
        let cat = format!(
            "cat {input} | {} capture -q -r - -w {piped} '{filter}'",
            env!("CARGO_BIN_EXE_forebay")
        );
        message(&["sh", "-c", &cat]);
        // Except padding, which depends on where buffers end.
        let but_padding = |path: &str| {
            let is_told = |(kind, _): &(u32, Vec<u8>)| *kind != 0x8000_f0b4;
            blocks(path).into_iter().filter(is_told).collect::<Vec<_>>()
        };
        assert!(but_padding(&large) == but_padding(&piped), "{filter}");
        let custom = blocks(&large)
            .iter()
            .filter(|(kind, _)| *kind == 0xbad)
            .count();
        assert_eq!(custom, 5, "{filter}");
        assert_eq!(
            info(&large)["comments"],
            if filter == "ether[14] = 7" { 1 } else { 2 }
        );
    }
}

#[test]
fn every_file_of_a_series_has_the_secrets_and_blocks_may_be_large() {
    let folder = Folder::new();
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    let mut file = Built(everything(100));
    let key = b"CLIENT_RANDOM 00 11\n".repeat(100_000);
    let head = words(&[0x544c_534b, key.len() as u32]);
    file.block(10, &[&head[..], &key].concat());
    file.block(6, &packet(0, 900, 1, &[]));
    std::fs::write(&input, &file.0).unwrap();
    copied(&input, &output, &[]);
    let secrets = |path: &str| {
        let found = blocks(path).into_iter().filter(|(kind, _)| *kind == 10);
        found.map(|(_, body)| body.len()).collect::<Vec<_>>()
    };
    // Longer ones become several, each of whole lines.
    let kept = blocks(&output)
        .into_iter()
        .filter(|(kind, _)| *kind == 10)
        .map(|(_, body)| {
            let len = u32::from_le_bytes(body[4..8].try_into().unwrap());
            body[8..8 + len as usize].to_vec()
        });
    let kept: Vec<_> = kept.collect();
    assert!(kept.len() > 2 && kept.iter().all(|part| part.ends_with(b"\n")));
    assert!(kept[1..].concat() == key);

    let series = folder.path("series.pcapng");
    copied(&input, &series, &["-b", "packets:50"]);
    let folder = std::path::Path::new(&series).parent().unwrap();
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path());
    let names = names.filter(|name| name.to_str().unwrap().contains("series_"));
    let names: Vec<_> = names.collect();
    assert_eq!(names.len(), 3);
    for name in names {
        assert_eq!(secrets(name.to_str().unwrap())[0], 28, "{name:?}");
    }
}

#[test]
fn later_sections_and_files_use_their_own_interfaces() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let (one, two) = (folder.path("one.pcapng"), folder.path("two.pcapng"));
    std::fs::write(&one, everything(1)).unwrap();
    let other = everything(1);
    let text = b"a machine";
    let at = other.windows(text.len()).position(|it| it == text).unwrap();
    let mut other = other;
    other[at..at + 9].copy_from_slice(b"computer!");
    std::fs::write(&two, &other).unwrap();
    let both = folder.path("both.pcapng");
    std::fs::write(&both, [everything(1), other].concat()).unwrap();
    for inputs in [vec!["-r", &one, "-r", &two], vec!["-r", &both]] {
        let output = folder.path("out.pcapng");
        let ran = run(&[&inputs[..], &["-q", "-w", &output, "--json"]].concat());
        assert!(ran.status.success());
        let raw = std::fs::read(&output).unwrap();
        let times = |text: &[u8]| raw.windows(text.len()).filter(|it| *it == text).count();
        assert_eq!(
            [times(b"a machine"), times(b"computer!")],
            [1, 0],
            "the interface has another card"
        );
        assert_eq!(times(b"about the section"), 2);
        assert_eq!(times(b"about a packet"), 2);
        let comments = message(&["tshark", "-r", &output, "-Y", "frame.comment"]);
        assert_eq!(comments.lines().count(), 4);
    }
}

/// With the secrets that editcap puts into a file Wireshark's tools read it; a copy made by forebay still has them.
#[test]
fn secrets_that_editcap_put_into_a_file_are_found_in_the_copy() {
    if !has("editcap") {
        return;
    }
    let folder = Folder::new();
    let paths = [
        "in.pcapng",
        "with.pcapng",
        "out.pcapng",
        "keys",
        "kept",
        "in.pcap",
    ];
    let [input, with, output, keys, kept, _] = paths.map(|name| folder.path(name));
    let made = run(&["-q", "-i", "sim:clock=virtual,count=9", "-w", &input]);
    assert!(made.status.success());
    let key = format!("CLIENT_RANDOM {} {}\n", "ab".repeat(32), "cd".repeat(48));
    std::fs::write(&keys, &key).unwrap();
    message(&[
        "editcap",
        "--discard-all-secrets",
        "--inject-secrets",
        &format!("tls,{keys}"),
        &input,
        &with,
    ]);
    copied(&with, &output, &["udp"]);
    let secrets = blocks(&output)
        .into_iter()
        .find(|(kind, _)| *kind == 10)
        .unwrap();
    assert!(secrets.1.ends_with(key.as_bytes()) || text(&secrets.1[8..]).contains(&key));
    if message(&["sh", "-c", "editcap --help 2>&1; true"]).contains("--extract-secrets") {
        message(&["editcap", "--extract-secrets", &output, &kept]);
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), key);
    }
}

#[test]
fn a_torn_first_packet_gives_an_output_and_counts() {
    let folder = Folder::new();
    let whole = everything(1);
    let classic = [
        words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]),
        vec![0; 3],
    ]
    .concat();
    let first_packet = whole.windows(4).position(|it| it == [0xff; 4]).unwrap();
    let first_packet = whole[first_packet..]
        .windows(14)
        .position(|it| it == [0xff; 14]);
    let torn = &whole[..first_packet.unwrap_or(400) + 40];
    for (name, bytes) in [("in.pcapng", torn), ("in.pcap", &classic[..])] {
        let (input, output) = (folder.path(name), folder.path(&format!("out-{name}")));
        std::fs::write(&input, bytes).unwrap();
        let ran = run(&["-r", &input, "-w", &output, "--json"]);
        assert_eq!(ran.status.code(), Some(1));
        let json = summary(&ran.stdout);
        assert_eq!(law(&json), [0, 0, 0]);
        let error = json["error"].as_str().unwrap();
        assert!(error.contains("ends in the middle of a"), "{error}");
        let found = info(&output);
        assert_eq!(
            (&found["packets"], &found["error"]),
            (&0.into(), &Value::Null)
        );
        let found = info(&input);
        assert_eq!(found["packets"], 0);
        assert!(
            found["error"]
                .as_str()
                .unwrap()
                .contains("read 0 packets up to there")
        );
    }
}

#[test]
fn packets_that_had_to_be_changed_are_counted_and_reported() {
    let folder = Folder::new();
    let (input, output) = (folder.path("in.pcapng"), folder.path("out.pcapng"));
    let mut file = Built(everything(0));
    let mut odd = packet(0, 1, 1, &[]);
    odd[16] = 59;
    file.block(6, &odd).block(6, &odd);
    file.block(6, &packet(0, 1, 1, &[1, 0, 9, 0]));
    file.block(1, &[words(&[1, 0]), option(9, &[0])].concat());
    file.block(6, &packet(1, 1, 1, &[]));
    std::fs::write(&input, &file.0).unwrap();
    for (filter, odd) in [("", [2, 1, 1]), ("ether[14] = 7", [0; 3])] {
        let (json, log) = copied(&input, &output, &[filter]);
        let found = &json["odd_packets"];
        let kinds = ["raised_lengths", "limited_times", "broken_options"];
        assert_eq!(kinds.map(|kind| count(&found[kind])), odd);
        let message = "forebay: 2 packets with fewer bytes on the wire than captured";
        assert_eq!(log.contains(message), odd[0] > 0, "{log}");
        assert_eq!(
            log.contains("forebay: 1 packet with a time before 1970 or after 2554"),
            odd[1] > 0
        );
        assert_eq!(
            log.contains("forebay: 1 block with a broken option"),
            odd[2] > 0
        );
    }
    let kinds = ["raised_lengths", "limited_times", "broken_options"];
    assert_eq!(
        kinds.map(|kind| count(&info(&input)["odd_packets"][kind])),
        [2, 1, 1]
    );
}

/// A classic file whose packets are longer than it says; tshark reads them whole.
#[test]
fn packets_longer_than_the_snapshot_length_of_their_file_stay_whole() {
    let folder = Folder::new();
    let input = folder.path("in.pcap");
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 100, 0x2400_0001]);
    for len in [60_u32, 1514, 100, 101] {
        file.extend(words(&[1, 2, len, len]));
        file.extend(vec![len as u8; len as usize]);
    }
    std::fs::write(&input, &file).unwrap();
    assert_eq!(info(&input)["packets_cut"], 0);
    let output = folder.path("out.pcap");
    copied(&input, &output, &[]);
    // Its snapshot length and the length of its check sequences, too.
    assert!(std::fs::read(&output).unwrap() == file);
    let pcapng = folder.path("out.pcapng");
    copied(&input, &pcapng, &[]);
    assert_eq!(info(&pcapng)["packets_cut"], 0);
    let back = folder.path("back.pcap");
    copied(&pcapng, &back, &[]);
    let back = std::fs::read(&back).unwrap();
    assert!(
        back[20..] == file[20..],
        "the check sequences survive pcapng"
    );
    copied(&input, &output, &["-s", "80"]);
    assert_eq!(
        std::fs::read(&output).unwrap()[16..20],
        80_u32.to_le_bytes()
    );
}
