//! What a capture says beyond its packets stays in a copy, by one thread or several; what cannot stay is counted.

use crate::read::law;
use crate::support::*;
use forebay_testing::blocks::{self, block, option, words};
use serde_json::Value;

/// The output of a tool that has to succeed.
fn output_of(line: &str) -> String {
    let output = foreign(line).expect(line);
    output.succeeds().text().to_owned()
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
    let about_section = [
        option(1, b"about the section"),
        option(1, b"and more"),
        option(2, b"a machine"),
        option(3, b"a system"),
        option(4, b"a program"),
        option(2988, b"\x39\x30\0\0text"),
        option(19_372, b"\x39\x30\0\0not to be copied"),
    ];
    let about_interface = [
        option(2, b"eth7"),
        option(3, b"the seventh"),
        option(1, b"about the interface"),
        option(4, [10, 0, 0, 1, 255, 0, 0, 0]),
        option(11, b"\0tcp port 80"),
        option(12, b"another system"),
        option(13, [0]),
        option(15, b"a card"),
    ];
    let name = [&[1, 0, 15, 0, 10, 0, 0, 1][..], b"our-server\0\0", &[0; 4]].concat();
    let about_packet = [
        option(1, b"about a packet"),
        option(2, words(&[2])),
        option(5, [7; 8]),
        option(6, words(&[3])),
        option(7, [0, 1, 2, 3]),
        option(3, [2, 1, 2, 3, 4]),
    ];
    let mut file = [
        blocks::section(&about_section.concat()),
        block(1, &[words(&[1, 65_535]), about_interface.concat()].concat()),
        secrets(b"CLIENT_RANDOM 00 11\n"),
        block(4, &name),
        custom(b"custom"),
        block(0x4000_0bad, &words(&[12_345, 1])),
        block(6, &packet(0, 1, 7, &about_packet.concat())),
        block(6, &packet(0, 2, 8, &option(1, b"about another"))),
    ]
    .concat();
    for number in 0..many {
        file.extend(block(6, &packet(0, 3 + number, (number % 3) as u8, &[])));
        if number % 50_000 == 49_999 {
            file.extend(custom(&number.to_le_bytes()));
        }
    }
    file
}

fn secrets(secrets: &[u8]) -> Vec<u8> {
    let head = words(&[0x544c_534b, secrets.len() as u32]);
    block(10, &[&head, secrets].concat())
}

fn custom(content: &[u8]) -> Vec<u8> {
    block(0xbad, &[&words(&[12_345]), content].concat())
}

fn copied(input: &str, output: &str, more: &str) -> (Value, String) {
    let ran = run!("capture -q -r {input} -w {output} --json {more}");
    law(ran.succeeds());
    (ran.json(), ran.log().to_owned())
}

/// A file with this content in a folder, and the path of a copy.
fn to_copy(content: impl AsRef<[u8]>) -> (Folder, String, String) {
    let folder = Folder::new();
    let input = folder.file("in.pcapng", content);
    let output = folder.path("out.pcapng");
    (folder, input, output)
}

/// The bodies of a file's blocks of this kind.
fn bodies(path: &str, wanted: u32) -> Vec<Vec<u8>> {
    let found = blocks::found(path).into_iter();
    let found = found.filter(|(kind, _)| *kind == wanted);
    found.map(|(_, body)| body).collect()
}

fn occurrences(bytes: &[u8], text: &str) -> usize {
    let windows = bytes.windows(text.len());
    windows.filter(|window| *window == text.as_bytes()).count()
}

fn info(path: &str) -> Value {
    run!("info --json {path}").json()
}

/// Everything that tshark and capinfos find besides the bytes. To tshark custom blocks are frames, too, but no packets.
fn found_by_others(path: &str) -> [String; 2] {
    let fields = "frame.comment frame.packet_flags frame.packet_id frame.interface_queue frame.interface_name \
        frame.interface_description frame.interface_id frame.time_epoch arp.hw.type";
    let fields = fields
        .replace(" frame", " -e frame")
        .replace(" arp", " -e arp");
    let packets = output_of(&format!("tshark -r {path} -Y arp -T fields -e {fields}"));
    // Its other lines are about bytes, or about custom blocks, which have no time.
    let kept = "File encapsulation|Number of|Data size|Capture hardware|Capture oper-sys|Capture comment|Interface| ";
    let is_kept = |line: &&str| {
        kept.split('|').any(|kept| line.starts_with(kept)) && !line.contains("Time resolution")
    };
    let about = output_of(&format!("capinfos {path}"));
    let about = about.lines().filter(is_kept);
    [packets, about.collect::<Vec<_>>().join("\n")]
}

#[test]
fn all_that_other_tools_find_in_a_file_they_find_in_its_copy() {
    if !has("tshark") || !has("capinfos") {
        return;
    }
    let (folder, input, output) = to_copy(everything(10));
    let (json, log) = copied(&input, &output, "");
    contains(log, "forebay: 1 option, 1 custom block not copied");
    assert_eq!(count(&json["not_copied"]["custom"]), 1);
    let (before, after) = (found_by_others(&input), found_by_others(&output));
    assert!(before[0].contains("about another") && before[1].contains("about the section"));
    assert_eq!(before, after);
    // These they do not show: secrets, names, custom blocks, bodies as they were and where they were.
    for kind in [10, 4, 0xbad] {
        assert_eq!(bodies(&input, kind), bodies(&output, kind));
    }
    let raw = std::fs::read(&output).unwrap();
    for text in [
        "a machine",
        "a system",
        "another system",
        "a card",
        "tcp port 80",
        "and more",
        "copied from a program",
    ] {
        assert!(occurrences(&raw, text) > 0, "{text}");
    }
    assert_eq!(occurrences(&raw, "not to be copied"), 0);
    // The copy of a copy is the same.
    let again = folder.path("again.pcapng");
    let (json, log) = copied(&output, &again, "");
    assert_eq!(json["not_copied"]["options"], 0, "{log}");
    assert!(std::fs::read(&again).unwrap() == raw);
}

#[test]
fn a_copy_without_metadata_has_none_and_a_classic_one_reports_what_it_lacks() {
    let (folder, input, output) = to_copy(everything(10));
    let (json, log) = copied(&input, &output, "--no-metadata");
    lacks(log, "not copied");
    assert_eq!(count(&json["not_copied"]["comments"]), 5);
    let kinds: Vec<_> = blocks::found(&output)
        .iter()
        .map(|(kind, _)| *kind)
        .collect();
    assert_eq!(kinds, [&[0x0a0d_0d0a, 1][..], &[6; 12]].concat());
    assert_eq!(occurrences(&std::fs::read(&output).unwrap(), "about"), 0);

    let (_, log) = copied(&input, &folder.path("out.pcap"), "");
    let expected = "forebay: 5 comments, 11 options, 1 name resolution block, 1 decryption secrets block, \
        2 custom blocks not copied";
    contains(log, expected);
}

/// Several threads read a large file with a filter, and hand on most packets without looking at them.
#[test]
fn a_large_file_has_the_same_copy_whichever_way_it_is_read() {
    let folder = Folder::new();
    let input = folder.file("in.pcapng", everything(200_000));
    for (filter, comments) in [("", 2), ("ether[14] >= 1", 2), ("ether[14] = 7", 1)] {
        let (large, piped) = (folder.path("large.pcapng"), folder.path("piped.pcapng"));
        copied(&input, &large, filter);
        let cat = format!("cat {input} | forebay capture -q -r - -w {piped} '{filter}'");
        shell(cat).output().unwrap().succeeds();
        // Except padding, which depends on where buffers end, and the index, which copied runs have not.
        let but_padding = |path: &str| {
            let mut blocks = blocks::found(path);
            blocks.retain(|(kind, _)| !matches!(*kind, 0x8000_f0b4 | 0x8000_f0b6));
            blocks
        };
        assert!(but_padding(&large) == but_padding(&piped), "{filter}");
        assert_eq!(bodies(&large, 0xbad).len(), 5, "{filter}");
        assert_eq!(info(&large)["comments"], comments);
    }
}

#[test]
fn every_file_of_a_series_has_the_secrets_and_blocks_may_be_large() {
    let key = b"CLIENT_RANDOM 00 11\n".repeat(100_000);
    let file = [
        everything(100),
        secrets(&key),
        block(6, &packet(0, 900, 1, &[])),
    ];
    let (folder, input, output) = to_copy(file.concat());
    copied(&input, &output, "");
    // Longer ones become several, each of whole lines.
    let kept = bodies(&output, 10).into_iter().map(|body| {
        let len = u32::from_le_bytes(body[4..8].try_into().unwrap());
        body[8..8 + len as usize].to_vec()
    });
    let kept: Vec<_> = kept.collect();
    assert!(kept.len() > 2 && kept.iter().all(|part| part.ends_with(b"\n")));
    assert!(kept[1..].concat() == key);

    copied(&input, &folder.path("series.pcapng"), "-b packets:50");
    let mut names = folder.names();
    names.retain(|name| name.contains("series_"));
    assert_eq!(names.len(), 3);
    for name in names {
        assert_eq!(bodies(&folder.path(&name), 10)[0].len(), 28, "{name}");
    }
}

#[test]
fn later_sections_and_files_use_their_own_interfaces() {
    if !has("tshark") {
        return;
    }
    let folder = Folder::new();
    let mut other = everything(1);
    let mut windows = other.windows(9);
    let at = windows.position(|it| it == b"a machine").unwrap();
    other[at..at + 9].copy_from_slice(b"computer!");
    let one = folder.file("one.pcapng", everything(1));
    let two = folder.file("two.pcapng", &other);
    let both = folder.file("both.pcapng", [everything(1), other].concat());
    for inputs in [format!("-r {one} -r {two}"), format!("-r {both}")] {
        let output = folder.path("out.pcapng");
        run!("capture {inputs} -q -w {output} --json").succeeds();
        let raw = std::fs::read(&output).unwrap();
        for (text, times) in [
            ("a machine", 1),
            ("computer!", 0), // the interface has another card
            ("about the section", 2),
            ("about a packet", 2),
        ] {
            assert_eq!(occurrences(&raw, text), times, "{text}");
        }
        let comments = output_of(&format!("tshark -r {output} -Y frame.comment"));
        assert_eq!(comments.lines().count(), 4);
    }
}

/// With the secrets that editcap puts into a file Wireshark's tools read it; a copy made by forebay still has them.
#[test]
fn secrets_that_editcap_put_into_a_file_are_found_in_the_copy() {
    if !has("editcap") {
        return;
    }
    let (folder, input) = captured("in.pcapng", "count=9");
    let [with, output, kept] = ["with.pcapng", "out.pcapng", "kept"].map(|name| folder.path(name));
    let key = format!("CLIENT_RANDOM {} {}\n", "ab".repeat(32), "cd".repeat(48));
    let keys = folder.file("keys", &key);
    output_of(&format!(
        "editcap --discard-all-secrets --inject-secrets tls,{keys} {input} {with}"
    ));
    copied(&with, &output, "udp");
    let secrets = &bodies(&output, 10)[0];
    assert!(secrets.ends_with(key.as_bytes()) || text(&secrets[8..]).contains(&key));
    if output_of("sh -c 'editcap --help 2>&1; true'").contains("--extract-secrets") {
        output_of(&format!("editcap --extract-secrets {output} {kept}"));
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), key);
    }
}

#[test]
fn a_torn_first_packet_gives_an_output_and_counts() {
    let folder = Folder::new();
    let whole = everything(1);
    let classic = [blocks::classic(0xa1b2_c3d4, 65_535, 1), vec![0; 3]].concat();
    let first_packet = whole.windows(4).position(|it| it == [0xff; 4]).unwrap();
    let mut rest = whole[first_packet..].windows(14);
    let first_packet = rest.position(|it| it == [0xff; 14]);
    let torn = &whole[..first_packet.unwrap_or(400) + 40];
    for (name, bytes) in [("in.pcapng", torn), ("in.pcap", &classic[..])] {
        let (input, output) = (
            folder.file(name, bytes),
            folder.path(&format!("out-{name}")),
        );
        let ran = run!("capture -r {input} -w {output} --json");
        assert_eq!(ran.status.code(), Some(1));
        assert_eq!(law(&ran), [0, 0, 0]);
        contains(
            ran.json()["error"].as_str().unwrap(),
            "ends in the middle of a",
        );
        let found = info(&output);
        assert_eq!(found["packets"], 0);
        assert_eq!(found["error"], Value::Null);
        let found = info(&input);
        assert_eq!(found["packets"], 0);
        contains(
            found["error"].as_str().unwrap(),
            "read 0 packets up to there",
        );
    }
}

#[test]
fn packets_that_had_to_be_changed_are_counted_and_reported() {
    let mut odd = packet(0, 1, 1, &[]);
    odd[16] = 59;
    let file = [
        everything(0),
        block(6, &odd),
        block(6, &odd),
        block(6, &packet(0, 1, 1, &[1, 0, 9, 0])),
        block(1, &[words(&[1, 0]), option(9, [0])].concat()),
        block(6, &packet(1, 1, 1, &[])),
    ];
    let (_folder, input, output) = to_copy(file.concat());
    let kinds = ["raised_lengths", "limited_times", "broken_options"];
    for (filter, odd) in [("", [2, 1, 1]), ("'ether[14] = 7'", [0; 3])] {
        let (json, log) = copied(&input, &output, filter);
        assert_eq!(counts(&json["odd_packets"], kinds), odd);
        let messages = [
            "forebay: 2 packets with fewer bytes on the wire than captured",
            "forebay: 1 packet with a time before 1970 or after 2554",
            "forebay: 1 block with a broken option",
        ];
        for (message, odd) in messages.into_iter().zip(odd) {
            assert_eq!(log.contains(message), odd > 0, "{log}");
        }
    }
    assert_eq!(counts(&info(&input)["odd_packets"], kinds), [2, 1, 1]);
}

#[test]
fn a_packet_of_an_unknown_interface_is_counted_and_everything_after_it_is_read() {
    let unknown = block(6, &packet(7, 1, 2, &[]));
    for many in [0, 100_000] {
        let before = everything(many);
        let after = block(6, &packet(0, 9, 9, &[]));
        let (folder, input, output) = to_copy([&before[..], &unknown, &after, &unknown].concat());
        let other = folder.file("other.pcapng", everything(0));
        let packets = u64::from(many) + 5;
        for filter in ["", "'arp'"] {
            let ran = run!("capture -r {input} -r {other} -w {output} --json {filter}");
            assert_eq!(ran.status.code(), Some(1));
            assert_eq!(law(&ran), [packets, packets, 0]);
            assert_eq!(ran.json()["odd_packets"]["unknown_interfaces"], 2);
            let expected = format!(
                "block at byte {} is of interface 7, its section has 1 so far: 2 such packets are skipped",
                before.len()
            );
            contains(ran.json()["error"].as_str().unwrap(), &expected);
            contains(ran.log(), &expected);
        }
        let found = info(&input);
        assert_eq!(found["packets"], packets - 2);
        assert_eq!(found["odd_packets"]["unknown_interfaces"], 2);
        contains(run!("repair {input}").succeeds().text(), "is whole");
    }
}

/// A classic file whose packets are longer than it says; tshark reads them whole.
#[test]
fn packets_longer_than_the_snapshot_length_of_their_file_stay_whole() {
    let folder = Folder::new();
    let mut file = blocks::classic(0xa1b2_c3d4, 100, 0x2400_0001);
    for len in [60_u32, 1514, 100, 101] {
        file.extend(words(&[1, 2, len, len]));
        file.extend(vec![len as u8; len as usize]);
    }
    let input = folder.file("in.pcap", &file);
    assert_eq!(info(&input)["packets_cut"], 0);
    let output = folder.path("out.pcap");
    copied(&input, &output, "");
    // Its snapshot length and the length of its check sequences, too.
    assert!(std::fs::read(&output).unwrap() == file);
    let pcapng = folder.path("out.pcapng");
    copied(&input, &pcapng, "");
    assert_eq!(info(&pcapng)["packets_cut"], 0);
    let back = folder.path("back.pcap");
    copied(&pcapng, &back, "");
    let back = std::fs::read(&back).unwrap();
    assert!(
        back[20..] == file[20..],
        "the check sequences survive pcapng"
    );
    copied(&input, &output, "-s 80");
    assert_eq!(
        std::fs::read(&output).unwrap()[16..20],
        80_u32.to_le_bytes()
    );
}
