//! `forebay flows`: what files hold, added up.

use crate::support::*;
use etherparse::PacketBuilder;
use forebay_testing::blocks::{classic, words};
use std::process::Stdio;

/// A segment between a client (end 0, port 4000) and a server (end 1, port 80).
struct Segment {
    ms: u32,
    from: usize,
    flags: &'static str,
    sequence: u32,
    acknowledged: u32,
    data: &'static [u8],
}

fn segment(
    ms: u32,
    from: usize,
    flags: &'static str,
    [sequence, acknowledged]: [u32; 2],
    data: &'static [u8],
) -> Segment {
    Segment {
        ms,
        from,
        flags,
        sequence,
        acknowledged,
        data,
    }
}

/// A file with these segments, in IPv6, and then a datagram.
fn file(folder: &Folder, segments: Vec<Segment>) -> String {
    let mut file = classic(0xa1b2_c3d4, 65_535, 1);
    let mut put = |ms: u32, frame: Vec<u8>| {
        let len = frame.len() as u32;
        let seconds = 1_700_000_000 + ms / 1000;
        file.extend(words(&[seconds, ms % 1000 * 1000, len, len]));
        file.extend(frame);
    };
    let ends = [([0x20; 16], 4000), ([0xfd; 16], 80)];
    for it in segments {
        let [(from, source), (to, destination)] = [ends[it.from], ends[1 - it.from]];
        let mut tcp = PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6(from, to, 64)
            .tcp(source, destination, it.sequence, 1000);
        for flag in it.flags.chars() {
            tcp = match flag {
                'S' => tcp.syn(),
                'F' => tcp.fin(),
                _ => tcp.ack(it.acknowledged),
            };
        }
        let mut frame = Vec::new();
        tcp.write(&mut frame, it.data).unwrap();
        put(it.ms, frame);
    }
    let udp = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut frame = Vec::new();
    udp.udp(4000, 53).write(&mut frame, b"question").unwrap();
    put(5000, frame);
    folder.file("a.pcap", file)
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

/// A request that is sent twice, and an answer.
fn capture() -> (Folder, String) {
    let segments = vec![
        segment(0, 0, "S", [100, 0], b""),
        segment(40, 1, "SA", [900, 101], b""),
        segment(41, 0, "A", [101, 901], b""),
        segment(42, 0, "A", [101, 901], REQUEST),
        segment(90, 1, "A", [901, 119], b"HTTP/1.1 200 OK\r\n\r\n"),
        segment(300, 0, "A", [101, 901], REQUEST),
        segment(2000, 0, "FA", [119, 920], b""),
    ];
    let folder = Folder::new();
    let path = file(&folder, segments);
    (folder, path)
}

#[test]
fn conversations_end_points_and_the_rest_add_up_to_the_file() {
    let (_folder, file) = capture();
    let all = run!("flows {file} --json").succeeds().json();
    assert_eq!(all["packets"], 8);
    for table in ["conversations", "protocols", "lengths", "intervals"] {
        let rows = all[table].as_array().unwrap();
        let sum = |key: &str| {
            rows.iter()
                .map(|row| row[key].as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!(
            (sum("packets"), sum("bytes")),
            (8, count(&all["bytes"])),
            "{table}"
        );
    }
    let tcp = &all["conversations"][0];
    assert_eq!(tcp["b_port"], 80);
    assert_eq!(counts(tcp, ["packets_from_a", "packets_from_b"]), [5, 2]);
    assert_eq!(
        (count(&tcp["retransmissions"]), count(&tcp["reordered"])),
        (1, 0)
    );
    assert_eq!(tcp["start"], "2023-11-14T22:13:20.000000000Z");
    assert_eq!(tcp["seconds"], 2.0);
    assert_eq!(tcp["round_trip_ms"], 41.0);
    assert_eq!(tcp["tcp_flags"], "FS./S.");
    assert_eq!(
        all["conversations"][1]["retransmissions"],
        serde_json::Value::Null
    );
    let services = all["services"].as_array().unwrap();
    let services: Vec<_> = services.iter().map(|it| &it["name"]).collect();
    assert_eq!(services, ["http", "domain"]);
    let intervals = run!("flows {file} --json --interval 5").succeeds().json();
    let intervals = intervals["intervals"].as_array().unwrap();
    let packets: Vec<_> = intervals.iter().map(|it| count(&it["packets"])).collect();
    assert_eq!(packets, [7, 1]);
    assert_eq!(intervals[0]["packets_per_second"], 1.4);
}

#[test]
fn tables_fit_a_terminal_and_have_a_filter_and_a_form_for_spreadsheets() {
    let (_folder, file) = capture();
    let text = run!("flows {file}").succeeds().text().to_owned();
    for line in text.lines().filter(|line| !line.starts_with("tcp ")) {
        assert!(line.len() <= 80, "{line}");
    }
    contains(
        &text,
        "tcp [2020:2020:2020:2020:2020:2020:2020:2020]:4000 - [fdfd:",
    );
    contains(&text, "udp 10.0.0.1:4000 - 10.0.0.2:53 ");
    let one = run!("flows {file} -t conversations udp port 53");
    assert_eq!(one.succeeds().text().lines().count(), 2);
    let table = run!("flows {file} -t endpoints --csv ip");
    assert_eq!(
        table.succeeds().text(),
        "address,packets,bytes,packets_sent,bytes_sent,packets_received,bytes_received\n\
         10.0.0.1,1,50,1,50,0,0\n10.0.0.2,1,50,0,0,1,50\n"
    );
    let input = std::fs::File::open(&file).unwrap();
    let piped = command("flows - -t protocols")
        .stdin(input)
        .stdout(Stdio::piped())
        .output();
    contains(piped.unwrap().succeeds().text(), "tcp");
    run!("flows {file} --csv").fails(2, "--csv prints one table");
    run!("flows {file} nonsense").fails(2, "nonsense");
    run!("flows {file} absent.pcapng").fails(2, "there is no file 'absent.pcapng'");
    run!("flows {file} net 10.0.0.0/8 or x").fails(2, "x");
    run!("flows {file} --interval 1500ms").fails(2, "whole seconds");
    run!("flows nonexistent").fails(1, "nonexistent");
    let cut = std::fs::read(&file).unwrap();
    std::fs::write(&file, &cut[..cut.len() - 9]).unwrap();
    let torn = run!("flows {file} -t protocols");
    torn.fails(1, "");
    contains(torn.text(), "tcp");
}

#[test]
fn a_connection_is_followed_in_order_and_without_repetitions_as_tshark_does() {
    let folder = Folder::new();
    let segments = vec![
        segment(0, 0, "S", [100, 0], b""),
        segment(40, 1, "SA", [900, 101], b""),
        segment(41, 0, "A", [101, 901], REQUEST),
        segment(42, 0, "A", [101, 901], REQUEST),
        // The second part overtakes the first, and one part is sent again with more.
        segment(90, 1, "A", [907, 119], b"\x1b[2J second\n"),
        segment(91, 1, "A", [901, 119], b"first "),
        segment(92, 1, "A", [907, 119], b"\x1b[2J second\nthird\n"),
        segment(93, 0, "A", [119, 925], b"thanks"),
        segment(94, 0, "FA", [125, 925], b""),
        segment(95, 1, "FA", [925, 126], b""),
        segment(96, 0, "A", [126, 926], b""),
    ];
    let path = file(&folder, segments);
    let ends = [
        "[2020:2020:2020:2020:2020:2020:2020:2020]:4000",
        "[fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd]:80",
    ];
    let [a, b] = ends;
    let expected = format!(
        "--- {a} > {b}\nGET / HTTP/1.1\n\n--- {b} > {a}\nfirst .[2J second\nthird\n--- {a} > {b}\nthanks\n"
    );
    assert_eq!(run!("flows {path} --follow").succeeds().text(), expected);
    let raw = ["a", "b"].map(|end| {
        run!("flows {path} --follow --raw {end}")
            .succeeds()
            .stdout
            .clone()
    });
    let answer = b"first \x1b[2J second\nthird\n".to_vec();
    assert_eq!(raw, [[REQUEST, b"thanks"].concat(), answer]);
    let Some(theirs) = foreign(format!("tshark -r {path} -q -z follow,tcp,raw,0")) else {
        return;
    };
    let hex = |line: &str| -> Vec<u8> {
        let digits = line.trim().as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).ok();
        digits.map_while(byte).collect()
    };
    let is_hex = |line: &&str| {
        !line.trim().is_empty() && line.trim().bytes().all(|it| it.is_ascii_hexdigit())
    };
    let sides = [false, true].map(|is_answer| {
        let text = theirs.text();
        let lines = text.lines().filter(is_hex);
        let lines = lines.filter(|line| line.starts_with('\t') == is_answer);
        lines.flat_map(hex).collect::<Vec<u8>>()
    });
    assert_eq!(sides, raw);
}

#[test]
fn data_that_the_capture_does_not_contain_is_marked_and_other_connections_are_left_out() {
    let folder = Folder::new();
    let segments = vec![
        segment(0, 0, "A", [100, 900], b"one"),
        segment(1, 1, "A", [900, 103], b"yes"),
        segment(2, 0, "A", [110, 903], b"two"),
        segment(3, 1, "A", [903, 113], b"and more"),
        segment(4, 0, "S", [90_000, 0], b""),
        segment(5, 0, "A", [90_001, 911], b"three"),
    ];
    let path = file(&folder, segments);
    let text = run!("flows {path} --follow");
    contains(text.succeeds().text(), ":80\none\n--- [fdfd:");
    contains(text.text(), "\n[7 bytes missing]\ntwo\n--- [fdfd:");
    contains(text.log(), "2 packets of other connections are left out");
    lacks(text.text(), "three");
    let raw = run!("flows {path} --follow --raw a");
    raw.fails(1, "7 bytes are missing in the capture");
    assert_eq!(raw.text(), "onetwo");
    let segments = vec![
        segment(0, 0, "A", [100, 900], b"one"),
        segment(1, 0, "A", [1 << 30, 900], b"forged"),
        segment(2, 0, "A", [103, 900], b"two"),
    ];
    let path = file(&folder, segments);
    let raw = run!("flows {path} --follow --raw a");
    raw.fails(1, "1 segment ignored");
    assert_eq!(raw.text(), "onetwo");
    if let Some(shown) = foreign(format!(
        "script -qec '{FOREBAY} flows {path} --follow --raw a' /dev/null"
    )) {
        contains(shown.text(), "--raw would write bytes to your terminal");
        lacks(shown.text(), "onetwo");
    }
    let none = run!("flows {path} --follow udp");
    contains(none.succeeds().log(), "no packet of TCP matches");
}
