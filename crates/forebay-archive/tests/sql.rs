//! The questions of docs/archive-sql.md, asked with each engine that is in the virtual environment `FOREBAY_ARCHIVE_TOOLS`.

mod common;

use common::{block, done, ok, pcapng_head, python_or_skip, run, ship_as, spool, status};
use forebay_testing::{dice::Dice, folder::Folder};
use serde_json::Value;
use std::{collections::BTreeMap, fs, net::Ipv4Addr, path::Path, process::Command};

/// 22 November 2026, 00:00 UTC.
const MIDNIGHT_S: u64 = 1_795_305_600;

/// A frame of IPv4: `protocol`, the two endpoints, TCP flags.
fn frame(protocol: u8, from: (&str, u16), to: (&str, u16), flags: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    let header = if protocol == 6 { 20 } else { 8 };
    let len = (20 + header + payload) as u16;
    frame.extend([0x45, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    for host in [from.0, to.0] {
        frame.extend(host.parse::<Ipv4Addr>().unwrap().octets());
    }
    let mut transport = vec![0; header];
    if protocol == 1 {
        transport[0] = 8;
    } else {
        transport[..2].copy_from_slice(&from.1.to_be_bytes());
        transport[2..4].copy_from_slice(&to.1.to_be_bytes());
    }
    if protocol == 6 {
        transport[12..14].copy_from_slice(&[0x50, flags]);
    }
    frame.extend(transport);
    frame.resize(frame.len() + payload, 0);
    frame
}

fn tagged(mut frame: Vec<u8>, vlan: u16) -> Vec<u8> {
    let tag = [0x81, 0, (vlan >> 8) as u8, vlan as u8];
    frame.splice(12..12, tag);
    frame
}

/// A pcapng file with these packets (nanoseconds, frame, packets lost before it), and packets that the interface lost.
fn pcapng(packets: &[(u64, Vec<u8>, u64)], lost_interface: u64) -> Vec<u8> {
    let mut file = pcapng_head();
    let time = |ns: u64| [((ns >> 32) as u32).to_le_bytes(), (ns as u32).to_le_bytes()].concat();
    for (ns, frame, lost) in packets {
        let len = (frame.len() as u32).to_le_bytes();
        let mut body = [&[0; 4][..], &time(*ns), &len, &len, frame].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend([&[4, 0, 8, 0][..], &lost.to_le_bytes(), &[0; 4]].concat());
        file.extend(block(6, &body));
    }
    let last = packets.last().unwrap().0;
    let lost = lost_interface.to_le_bytes();
    let statistics = [&[0; 4][..], &time(last), &[4, 0, 8, 0], &lost, &[0; 4]];
    file.extend(block(5, &statistics.concat()));
    file
}

type Packets = BTreeMap<(usize, u64), Vec<(u64, Vec<u8>, u64)>>;

/// Five hours around midnight, seen by two sensors, by sensor and hour.
fn traffic() -> Packets {
    let begin = MIDNIGHT_S - 2 * 3600;
    let mut packets: Vec<(u64, usize, Vec<u8>, u64)> = Vec::new();
    let mut dice = Dice(25);
    let mut add = |second: u64, sensor: usize, frame: Vec<u8>| {
        let lost = if second.is_multiple_of(997) { 3 } else { 0 };
        let ns = second * 1_000_000_000 + packets.len() as u64;
        packets.push((ns, sensor, frame, lost));
    };
    for second in (begin..begin + 5 * 3600).step_by(7) {
        let client = format!("10.0.{}.{}", dice.below(2), 1 + dice.below(20));
        let server = format!("203.0.113.{}", 8 + dice.below(6));
        let (protocol, port) = [(6, 443), (6, 80), (17, 53), (17, 443)][dice.below(4) as usize];
        let (from, payload) = (40_000 + dice.below(500) as u16, dice.below(1200) as usize);
        let one = frame(protocol, (&client, from), (&server, port), 0x18, payload);
        let sensor = dice.below(2) as usize;
        let one = match dice.below(5) {
            0 => tagged(one, 100),
            _ => one,
        };
        add(second, sensor, one);
        let (client, server) = ((&*client, from), (&*server, port));
        let answer = frame(protocol, server, client, 0x18, 2 * payload);
        add(second, sensor, answer);
        if second.is_multiple_of(5) {
            let ping = frame(1, (client.0, 0), (server.0, 0), 0, 56);
            add(second, sensor, ping);
        }
    }
    for minute in 0..300 {
        let second = begin + 60 * minute;
        let beacon = ("10.0.0.66", 50_000 + minute as u16);
        let beacon = frame(6, beacon, ("198.51.100.9", 8443), 0x1a, 80);
        add(second, 0, beacon);
        let session = frame(6, ("10.0.1.5", 50_000), ("192.0.2.200", 22), 0x18, 36);
        add(second, 1, session);
        if minute == 200 {
            let arp = [&[2; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[10; 20]].concat();
            add(second, 1, arp);
            add(second, 0, vec![2; 60]);
            for target in 0..40 {
                let to = format!("192.0.2.{}", 1 + target);
                let probe = frame(6, ("10.0.0.99", 61_000), (&to, 445), 2, 0);
                add(second + target, 0, probe);
            }
        }
    }
    packets.sort();
    let mut by_hour = Packets::new();
    for (ns, sensor, frame, lost) in packets {
        let hour = ns / 3_600_000_000_000;
        by_hour
            .entry((sensor, hour))
            .or_default()
            .push((ns, frame, lost));
    }
    by_hour
}

#[test]
fn all_engines_answer_the_questions_of_the_page_as_a_plain_scan_does() {
    let python = python_or_skip!();
    let folder = Folder::new();
    let to = folder.path("to");
    for ((sensor, hour), packets) in traffic() {
        let name = ["hall", "roof"][sensor];
        let spool = spool(&folder, &format!("spool{sensor}"));
        let file = pcapng(&packets, if hour.is_multiple_of(2) { 5 } else { 0 });
        fs::write(format!("{spool}/{hour}.pcapng"), file).unwrap();
        ok(ship_as(name, &spool, &to, &[]));
        if sensor == 0 {
            ok(run(&["compact", &to]));
        }
    }
    status(&to);
    agree(&python, &to);
    // A table of an older version does not declare the columns that its new files have.
    let log = format!("{to}/index/_delta_log/{:020}.json", 0);
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| {
        let mut action: Value = serde_json::from_str(line).unwrap();
        if let Some(columns) = action["metaData"]["schemaString"].as_str() {
            let mut columns: Value = serde_json::from_str(columns).unwrap();
            let last = columns["fields"].as_array_mut().unwrap().pop();
            assert_eq!(last.unwrap()["name"], "next_header");
            action["metaData"]["schemaString"] = columns.to_string().into();
        }
        format!("{action}\n")
    });
    fs::write(&log, lines.collect::<String>()).unwrap();
    agree(&python, &to);
    ok(run(&["compact", &to]));
    status(&to);
}

/// Asks all engines.
fn agree(python: &Path, to: &str) {
    let here = env!("CARGO_MANIFEST_DIR");
    let page = format!("{here}/../../docs/archive-sql.md");
    let mut asking = Command::new(python);
    let script = format!("{here}/tests/sql.py");
    asking.args([script, page, format!("{to}/index")]);
    let (code, out, err) = done(asking.output().unwrap());
    println!("{out}");
    assert_eq!(code, 0, "{out}{err}");
    let is_fine =
        |line: &str| line.ends_with(": 10 of 10 answers agree") || line.ends_with("not installed");
    assert!(
        out.lines().count() == 5 && out.lines().all(is_fine),
        "{out}{err}"
    );
}
