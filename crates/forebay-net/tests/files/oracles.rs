//! Captures of other programs, read by us and by tcpdump and tshark.
//!
//! If the files ([`foreign::captures`]) or a tool are missing, the test prints `skipped: needs …`.

use super::{Packet, Reading, open, read};
use forebay_net::port::Port;
use forebay_testing::{dice::Dice, folder::Folder, foreign, lab};
use pcap_parser::{PcapBlockOwned, PcapError, traits::PcapReaderIterator};
use std::{
    path::Path,
    process::{Output, Stdio},
};

/// Runs a tool on a file, which `FILE` stands for. If it is not installed, prints that and returns `None`; in CI the test fails.
fn run(words: &str, file: &Path) -> Option<Output> {
    let mut words = words.split(' ');
    let program = words.next().unwrap();
    if !lab::have(program) {
        lab::skip(&format!("the tool `{program}`"));
        return None;
    }
    let mut command = lab::tool(program);
    Some(
        command
            .args(words.map(|word| match word {
                "FILE" => file.as_os_str(),
                word => word.as_ref(),
            }))
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    )
}

fn read_path(path: &Path) -> Reading {
    open(std::fs::File::open(path).unwrap())
}

/// The same file with a snapshot length that no packet exceeds, because tcpdump truncates longer packets.
fn uncut(mut bytes: Vec<u8>) -> Vec<u8> {
    let longest = 262_144_u32;
    let is_big = bytes.first() == Some(&0xa1);
    if let Some(field) = bytes.get_mut(16..20) {
        field.copy_from_slice(&match is_big {
            true => longest.to_be_bytes(),
            false => longest.to_le_bytes(),
        });
    }
    bytes
}

/// Data, length on the wire, and time in units of `unit` nanoseconds.
type Plain = (Vec<u8>, u32, u64);

fn plain(packets: &[Packet], unit: u64) -> Vec<Plain> {
    let one = |p: &Packet| (p.data.clone(), p.wire_len, p.time_ns / unit);
    packets.iter().map(one).collect()
}

/// The packets of a classic capture, as the pcap-parser crate finds them.
fn parsed(bytes: &[u8], unit: u64) -> Vec<Plain> {
    let mut found = Vec::new();
    let mut reader = pcap_parser::LegacyPcapReader::new(1 << 20, bytes).unwrap();
    loop {
        match reader.next() {
            Ok((len, block)) => {
                if let PcapBlockOwned::Legacy(b) = block {
                    let time = b.ts_sec as u64 * (1_000_000_000 / unit) + b.ts_usec as u64;
                    found.push((b.data.to_vec(), b.origlen, time));
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => return found,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(e) => panic!("{e:?}"),
        }
    }
}

#[test]
fn classic_files_have_the_packets_that_tcpdump_finds() {
    let files = foreign::captures("pcap");
    let folder = Folder::new();
    let scratch = folder.join("uncut.pcap");
    for path in files {
        let ours = read_path(&path);
        std::fs::write(&scratch, uncut(std::fs::read(&path).unwrap())).unwrap();
        for (precision, unit) in [("micro", 1000), ("nano", 1)] {
            let words = format!("tcpdump --time-stamp-precision={precision} -w - -r FILE");
            let Some(theirs) = run(&words, &scratch) else {
                return;
            };
            let printed = String::from_utf8_lossy(&theirs.stderr);
            let found = parsed(&theirs.stdout, unit);
            assert_eq!(plain(&ours.packets, unit), found, "{path:?}");
            let again = read(&theirs.stdout).packets;
            assert_eq!(plain(&again, unit), found, "{path:?}");
            let fails = !theirs.status.success();
            assert_eq!(ours.error.is_some(), fails, "{path:?}: {printed}");
        }
    }
}

/// Truncates and garbles files of other programs, and compares with tcpdump again.
#[test]
fn broken_classic_files_give_what_tcpdump_gives_before_it_stops() {
    let files = foreign::captures("pcap");
    let folder = Folder::new();
    let scratch = folder.join("broken.pcap");
    let mut dice = Dice(1);
    for path in files {
        let whole = std::fs::read(&path).unwrap();
        for round in 0..6 {
            let mut bytes = whole.clone();
            let at = dice.below(bytes.len());
            match round {
                0 => bytes.truncate(at),
                1..3 => bytes[dice.below(whole.len().min(60))] = dice.byte(),
                _ => bytes[at] = dice.byte(),
            }
            std::fs::write(&scratch, uncut(bytes.clone())).unwrap();
            let Some(theirs) = run("tcpdump -w - -r FILE", &scratch) else {
                return;
            };
            let printed = String::from_utf8_lossy(&theirs.stderr).into_owned();
            let ours = read(&bytes);
            if printed.contains("not supported") || printed.contains("unknown data link type") {
                continue;
            }
            let context = format!("{path:?} {round}: {printed} {:?}", ours.error);
            let found = match &theirs.stdout[..] {
                [] => Vec::new(),
                bytes => read(bytes).packets,
            };
            assert_eq!(plain(&ours.packets, 1000), plain(&found, 1000), "{context}");
            assert_eq!(ours.error.is_some(), !theirs.status.success(), "{context}");
        }
    }
}

/// What tshark prints for each packet, with interfaces numbered as in their section. With several sections tshark prints the
/// interface names of the first one, so names are omitted then.
fn fields(ours: &Reading) -> Vec<String> {
    let Some(file) = &ours.file else {
        return Vec::new();
    };
    let line = |packet: &Packet| {
        let second = 1_000_000_000;
        let (seconds, ns) = (packet.time_ns / second, packet.time_ns % second);
        let firsts = file.sections().iter().map(|s| s.first_interface);
        let first = firsts.filter(|&first| first <= packet.interface).max();
        let name = match file.sections() {
            [_] => &file.interfaces()[packet.interface as usize].name,
            _ => "",
        };
        let encapsulation = match packet.link {
            0 => "15", // BSD loopback
            1 => "1",
            _ => "?",
        };
        format!(
            "{seconds}.{ns:09}|{}|{}|{}|{}|{}|{}|{encapsulation}",
            packet.data.len(),
            packet.wire_len,
            packet.interface - first.unwrap(),
            name.escape_default(),
            packet.direction as u8,
            packet.dropped_before,
        )
    };
    ours.packets.iter().map(line).collect()
}

/// A line of tshark with the omitted fields filled in; `None` for blocks that are not packets.
fn filled(line: &str, sections: usize) -> Option<String> {
    let mut cells: Vec<&str> = line.split('|').collect();
    if cells[3].is_empty() {
        return None;
    }
    if cells[0].is_empty() {
        cells[0] = "0.000000000";
    }
    if sections > 1 {
        cells[4] = "";
    }
    if cells[6].is_empty() {
        cells[6] = "0";
    }
    let digits = cells[5].trim_start_matches("0x");
    let direction = u8::from_str_radix(digits, 16).unwrap_or(0).to_string();
    cells[5] = &direction;
    Some(cells.join("|"))
}

/// Compares with the fields that tshark prints, and with its copy of the file.
#[test]
fn pcapng_files_have_the_packets_that_tshark_finds() {
    let files = foreign::captures("pcapng");
    for path in files {
        let ours = read_path(&path);
        let fields = "frame.time_epoch -e frame.cap_len -e frame.len -e frame.interface_id -e frame.interface_name \
            -e frame.packet_flags_direction -e frame.drop_count -e frame.encap_type";
        let words = format!("tshark -T fields -E separator=| -e {fields} -r FILE");
        let Some(theirs) = run(&words, &path) else {
            return;
        };
        let text = String::from_utf8_lossy(&theirs.stdout);
        let sections = ours.file.as_ref().map_or(0, |file| file.sections().len());
        let found = text.lines().filter_map(|line| filled(line, sections));
        assert_eq!(self::fields(&ours), found.collect::<Vec<_>>(), "{path:?}");
        assert_eq!(ours.error.is_some(), !theirs.status.success(), "{path:?}");

        // The bytes, from a copy that tshark's library writes. editcap does so in a fiftieth of tshark's time, but refuses some
        // files. A copy lacks what the library does not know; without one, nothing is compared.
        let mut copy = run("editcap -F pcapng FILE -", &path);
        if copy.as_ref().is_some_and(|copy| !copy.status.success()) {
            copy = run("tshark -F pcapng -w - -r FILE", &path);
        }
        let Some(copy) = copy else {
            return;
        };
        if copy.status.success() && !ours.packets.is_empty() {
            let copied = read(&copy.stdout).packets;
            assert_eq!(plain(&copied, 1), plain(&ours.packets, 1), "{path:?}");
        }
    }
}
