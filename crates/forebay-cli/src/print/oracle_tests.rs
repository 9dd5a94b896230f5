//! Lines are those of `tcpdump -nt`, for captures of other programs, simulated packets and composed ones.

use super::{
    composed, messages,
    printer::{Dump, Form, Packet, Printer, Style},
    text::Text,
    times::Times,
};
use forebay_net::{
    open::{self, Name, Options},
    port::{Direction, LinkType, Wake},
};
use forebay_testing::{
    blocks::{classic, words},
    children,
    dice::{self, Dice},
    folder::Folder,
    foreign,
    lab::tool,
};
use rustls::quic::Version;
use std::path::PathBuf;

/// A packet of a test.
#[derive(Clone, Debug)]
pub struct Owned {
    pub link: u16,
    pub time_ns: u64,
    pub wire_len: u32,
    pub data: Vec<u8>,
}

impl Owned {
    pub fn of(data: Vec<u8>) -> Self {
        Owned {
            link: 1,
            time_ns: 0,
            wire_len: data.len() as u32,
            data,
        }
    }

    pub fn as_packet(&self) -> Packet<'_> {
        Packet {
            link: LinkType(self.link),
            interface: "",
            direction: Direction::Unknown,
            time_ns: self.time_ns,
            data: &self.data,
            captured: self.data.len() as u32,
            wire_len: self.wire_len,
        }
    }
}

/// The packets of a port, up to an error.
pub fn packets(name: Name) -> Vec<Owned> {
    let names = [name];
    let clock = open::clock(&names).unwrap();
    let Ok(mut ports) = open::ports(&names, &Options::default(), &clock) else {
        return Vec::new();
    };
    let port = &mut ports[0];
    let mut found = Vec::new();
    loop {
        match port.arm() {
            Ok(Wake::End) => return found,
            Ok(Wake::At(at)) => clock.sleep_until(at),
            _ => {}
        }
        let Ok(mut burst) = port.receive(256) else {
            return found;
        };
        let mut interfaces = Vec::new();
        while let Some(frame) = burst.next_frame() {
            interfaces.push(frame.interface as usize);
            found.push(Owned {
                link: 0,
                time_ns: frame.time_ns,
                wire_len: frame.wire_len,
                data: frame.data.to_vec(),
            });
        }
        drop(burst);
        let first = found.len() - interfaces.len();
        for (packet, interface) in found[first..].iter_mut().zip(interfaces) {
            packet.link = port.interfaces()[interface].link.0;
        }
    }
}

/// The captures of other programs, if they are there.
pub fn corpus() -> Vec<PathBuf> {
    let kinds = ["pcap", "pcapng"];
    kinds.into_iter().flat_map(foreign::captures).collect()
}

/// A file with these packets.
fn file(folder: &Folder, packets: &[Owned]) -> String {
    const SECOND: u64 = 1_000_000_000;
    let mut file = classic(0xa1b2_3c4d, 262_144, packets[0].link.into());
    for packet in packets {
        let (seconds, ns) = (packet.time_ns / SECOND, packet.time_ns % SECOND);
        let len = packet.data.len() as u32;
        file.extend(words(&[seconds as u32, ns as u32, len, packet.wire_len]));
        file.extend(&packet.data);
    }
    folder.file("packets.pcap", file)
}

/// What `tcpdump -n` with these flags prints for each packet; `None` if it is not installed.
fn tcpdump(packets: &[Owned], flags: &[&str]) -> Option<Vec<String>> {
    let folder = Folder::new();
    let path = file(&folder, packets);
    let mut tcpdump = tool("tcpdump");
    tcpdump.env("TZ", "UTC").args(flags);
    let ran = tcpdump.args(["-n", "-#", "-r", &path]).output();
    let Ok(ran) = ran else {
        children::skip("tcpdump");
        return None;
    };
    let text = String::from_utf8_lossy(&ran.stdout);
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let number = format!("{:5}  ", found.len() + 1);
        match line.strip_prefix(&number) {
            Some(line) => found.push(line.to_owned()),
            None => {
                let last = found.last_mut().unwrap_or_else(|| panic!("{line}"));
                *last += "\n";
                *last += line;
            }
        }
    }
    Some(found)
}

pub fn ours(packets: &[Owned], style: &Style) -> Vec<String> {
    let mut printer = Printer::new(style.clone());
    let one = |packet: &Owned| {
        let mut text = Text::default();
        printer.line(&packet.as_packet(), &mut text);
        let text = std::str::from_utf8(text.bytes()).unwrap();
        text.trim_end_matches('\n').to_owned()
    };
    packets.iter().map(one).collect()
}

pub fn untimed() -> Style {
    Style {
        times: Times::None,
        ..Style::default()
    }
}

/// Differences that are accepted: the reason, and for each of them part of tcpdump's text and part of ours.
const ACCEPTED: &[(&str, &[(&str, &str)])] = &[
    (
        "a payload decoder of tcpdump",
        &[
            ("STP 802.1d", "STP, length"),
            ("UDLDv1", "SNAP, oui 0x00000c"),
            ("PTPv", "ethertype PTP"),
            ("[|macsec]", "ethertype MACsec"),
            ("BGP", "length 171"),
            ("DCCP DCCP-", "DCCP, length"),
            ("Null Information", "LLC, dsap Null"),
            ("LISP-Map-Notify", "UDP, length"),
            ("NFS request", "UDP, length"),
            ("PGM, length", "PGM, length"),
            ("RIPv2", "UDP, length"),
            ("TSP_LOOP", "UDP, length"),
            ("[|ipcomp]", "Compressed IP, length"),
        ],
    ),
    (
        "a payload decoder of tcpdump: we print the kind of message only",
        &[("mobility: ", "mobility: ")],
    ),
    (
        "a link type that we do not decode: name and length",
        &[
            ("IS-IS", "FRELAY, length"),
            ("[|juniper_atm1]", "link-type 137, length"),
            ("Mb/s", "IEEE802_11_RADIO, length"),
        ],
    ),
    (
        "we add the kind of message, which tcpdump prints with -v",
        &[("BOOTP/DHCP, ", ": DHCP ")],
    ),
    (
        "tcpdump has no decoder for it",
        &[("UDP, length", ": SSDP: "), ("UDP, length", "quic, ")],
    ),
    (
        "the first release of tcpdump with QUIC has no server names",
        &[("quic, ", ", server name ")],
    ),
    (
        "the server's code in NTP: tcpdump prints it in other letters, or not at all",
        &[("Reference-ID: ", "Reference-ID: ")],
    ),
    (
        "options of Multipath TCP: we print their bytes",
        &[("[mptcp ", "mptcp 0x"), (",mptcp ", "mptcp 0x")],
    ),
    (
        "tcpdump prints bytes instead of the length",
        &[("unknown unreach code", "unknown unreach code")],
    ),
    (
        "captured bytes that end within a field: the same protocol, one word more or less before it",
        &[(" [|", " [|")],
    ),
    (
        "captured bytes that end within a field: we need fewer of them",
        &[("[|icmp6]", "code-#")],
    ),
    (
        "-q with an impossible header length: tcpdump prints a negative number without its sign",
        &[(": tcp 42949", ": tcp -")],
    ),
];

fn is_accepted(theirs: &str, ours: &str) -> bool {
    let mut accepted = ACCEPTED.iter().flat_map(|(_, pairs)| *pairs);
    accepted.any(|(in_theirs, in_ours)| theirs.contains(in_theirs) && ours.contains(in_ours))
}

/// Compares the lines for these flags; returns how many are the same.
#[track_caller]
fn compare(packets: &[Owned], flags: &[&str], style: &Style) -> Option<usize> {
    let theirs = tcpdump(packets, flags)?;
    let ours = ours(packets, style);
    assert_eq!(ours.len(), theirs.len());
    let (mut same, mut odd) = (0, Vec::new());
    for ((ours, theirs), packet) in ours.iter().zip(&theirs).zip(packets) {
        if ours == theirs {
            same += 1;
            continue;
        }
        // A dump is only the same if the line is.
        let mut lines = ours.lines().zip(theirs.lines());
        let (ours, theirs) = lines
            .find(|(one, other)| one != other)
            .unwrap_or((ours, theirs));
        if !is_accepted(theirs, ours) {
            let lens = (packet.data.len(), packet.wire_len);
            odd.push(format!("{lens:?}\n tcpdump: {theirs}\n forebay: {ours}"));
        }
    }
    assert!(odd.is_empty(), "{flags:?}\n{}", odd.join("\n"));
    Some(same)
}

#[test]
fn captures_of_other_programs_look_as_in_tcpdump() {
    for path in corpus() {
        let all = packets(Name::File(path.clone()));
        let Some(first) = all.first() else {
            continue;
        };
        // tcpdump refuses files with several link types.
        let all: Vec<_> = all
            .iter()
            .filter(|it| it.link == first.link)
            .cloned()
            .collect();
        println!("{}", path.display());
        compare(&all, &["-t"], &untimed());
    }
}

/// Flags of tcpdump, and what they change in a style.
type Case = (&'static [&'static str], fn(&mut Style));

/// Compares the lines for each of these flags. `least` of them or more have to be the same.
#[track_caller]
fn compare_all(packets: &[Owned], cases: &[Case], least: usize) {
    for (flags, set) in cases {
        let mut style = untimed();
        set(&mut style);
        let same = compare(packets, flags, &style);
        let is_enough = same.is_none_or(|same| same >= least);
        assert!(is_enough, "{flags:?}: only {same:?} are the same");
    }
}

#[test]
fn simulated_packets_look_as_in_tcpdump() {
    let all = packets(Name::Sim(
        "clock=virtual,count=2000,size=imix".parse().unwrap(),
    ));
    let cases: [Case; 3] = [
        (&["-t"], |_| ()),
        (&["-tt", "--time-stamp-precision=nano"], |it| {
            (it.times, it.nanoseconds) = (Times::Epoch, true);
        }),
        (&["-t", "-vv", "-e"], |it| {
            (it.verbose, it.link_header) = (2, true);
        }),
    ];
    assert_eq!(all.len(), 2000);
    compare_all(&all, &cases, 2000);
}

#[test]
fn composed_packets_look_as_in_tcpdump() {
    let all = composed_packets(1, 4000);
    const fn dump(form: Form) -> Dump {
        let with_link = true;
        Dump { form, with_link }
    }
    let cases: [Case; 8] = [
        (&["-t"], |_| ()),
        (&["-t", "-S"], |it| it.absolute_sequence = true),
        (&["-t", "-q"], |it| it.brief = true),
        (&["-t", "-e"], |it| it.link_header = true),
        (&["-ttt"], |it| it.times = Times::SincePrevious),
        (&["-ttttt"], |it| it.times = Times::SinceFirst),
        (&["-t", "-xx"], |it| it.dump = dump(Form::Hex)),
        (&["-t", "-XX"], |it| it.dump = dump(Form::HexAndText)),
    ];
    compare_all(&all, &cases, 3851);
}

#[test]
fn the_packet_that_an_icmp_error_quotes_looks_as_in_tcpdump() {
    const FRAME: &str = "0202020202020404040404040800\
        4500003c00010000400166be0a0000020a000001 0303332300000000\
        4500002000010000401166ca0a0000010a000002 04d20035000c000061626364";
    let digits: Vec<_> = FRAME.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |it: &[u8]| u8::from_str_radix(std::str::from_utf8(it).unwrap(), 16).unwrap();
    let all = [Owned::of(digits.chunks(2).map(byte).collect())];
    let cases: [Case; 2] = [
        (&["-t", "-v"], |it| it.verbose = 1),
        (&["-t", "-ev"], |it| {
            (it.verbose, it.link_header) = (1, true);
        }),
    ];
    compare_all(&all, &cases, 1);
}

#[test]
fn messages_of_applications_look_as_in_tcpdump() {
    let mut dice = Dice(5);
    let rounds = (0..60).flat_map(|_| messages::all(&mut dice));
    let all: Vec<_> = rounds.map(Owned::of).collect();
    let cases: [Case; 5] = [
        (&["-t"], |_| ()),
        (&["-t", "-q"], |it| it.brief = true),
        (&["-t", "-vvv"], |it| it.verbose = 3),
        (&["-t", "-v"], |it| it.verbose = 1),
        (&["-t", "-vv"], |it| it.verbose = 2),
    ];
    compare_all(&all, &cases, all.len() * 9 / 13);
}

/// A ClientHello in one packet, and one that is spread over two, in the wrong order.
#[test]
fn servers_of_quic_have_the_names_that_tshark_finds() {
    let mut all = Vec::new();
    let mut add = |port, payload: &[u8]| {
        all.push(Owned::of(messages::udp([port, 443], payload)));
    };
    for (at, version) in [Version::V1, Version::V2].into_iter().enumerate() {
        let (whole, split) = ([at as u8; 8], [at as u8 + 2; 8]);
        let hello = messages::hello("one.example.org");
        add(5000, &messages::initial(version, &whole, 0, &hello));
        let hello = messages::hello("two.example.org");
        let (one, other) = hello.split_at(70);
        add(5001, &messages::initial(version, &split, 70, other));
        add(5001, &messages::initial(version, &split, 0, one));
    }
    let name = |line: &String| {
        line.split_once("server name ")
            .map(|(_, name)| name.to_owned())
    };
    let ours: Vec<_> = ours(&all, &untimed()).iter().filter_map(name).collect();
    let expected = ["one.example.org", "two.example.org"].repeat(2);
    assert_eq!(ours, expected);
    let folder = Folder::new();
    let path = file(&folder, &all);
    let mut tshark = tool("tshark");
    let field = "tls.handshake.extensions_server_name";
    tshark.args(["-r", &path, "-T", "fields", "-e", field]);
    let Ok(ran) = tshark.output() else {
        return children::skip("tshark");
    };
    let theirs = String::from_utf8_lossy(&ran.stdout);
    let theirs: Vec<_> = theirs.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(theirs, expected);
}

fn composed_packets(seed: u64, count: usize) -> Vec<Owned> {
    let mut dice = Dice(seed);
    let one = |number: usize| {
        let mut packet = Owned::of(composed::frame(&mut dice));
        packet.time_ns = 1_700_000_000_000_000_000 + number as u64 * 1_234_567_000;
        if dice.below(8u8) == 0 {
            let len = dice.below(packet.data.len()) + 1;
            packet.data.truncate(len);
        } else if dice.below(30u8) == 0 {
            packet.wire_len = packet.wire_len.min(dice.below(packet.wire_len + 1) + 1);
            packet.data.truncate(packet.wire_len as usize);
        }
        packet
    };
    (0..count).map(one).collect()
}

/// Packets of other programs and composed ones, with bytes changed, cut off and put in.
#[test]
fn no_packet_makes_printing_panic_or_controls_a_terminal() {
    let mut all: Vec<Vec<u8>> = composed_packets(3, 300)
        .into_iter()
        .map(|it| it.data)
        .collect();
    let mut dice = Dice(11);
    all.extend((0..20).flat_map(|_| messages::all(&mut dice)));
    for path in corpus() {
        all.extend(packets(Name::File(path)).into_iter().map(|it| it.data));
    }
    let mut dice = Dice(7);
    for _ in 0..dice::rounds(dice::times(40_000, 100)) {
        let mut bytes = dice.bytes(3);
        // Most are Ethernet frames.
        bytes[0] &= dice.one_of(&[0xf0, 0xf0, 0xff]);
        bytes.extend(dice.one_of(&all));
        for _ in 0..dice.below(6u8) {
            let at = 3 + dice.below(bytes.len() - 3 + 1).min(60);
            match dice.below(4u8) {
                _ if at >= bytes.len() => bytes.push(dice.byte()),
                0 => bytes[at] = dice.one_of(&[0, 1, 0x7f, 0x80, 0xff, 0xc0, 4, 17]),
                1 => bytes[at] = dice.byte(),
                2 => bytes.insert(at, dice.byte()),
                _ => bytes.truncate(at.max(4)),
            }
        }
        super::printing::check(&bytes);
    }
}
