//! Filters of the whole language decide the same packets as those that Debian's library compiles, and what it refuses is refused.

use crate::support::{command, compiled, has_debians, installed};
use forebay_net::{
    file::File,
    filter::bpf::{Instruction, run_unchecked},
    port::{LinkType, Port, Wake},
};
use forebay_testing::{dice::Dice, folder::Folder, foreign::captures, sender::frame};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::Stdio,
};

const WORDS: &str = "ip ip6 arp rarp tcp udp icmp icmp6 igmp igrp pim ah esp vrrp carp sctp atalk aarp decnet iso esis isis clnp \
    stp ipx netbeui lat moprc mopdl sca l1 l2 iih lsp snp csnp psnp";
const ADDRESSES: [&str; 14] = [
    "host 10.0.0.1",
    "host 192.168.1.10",
    "10.0.2.15",
    "net 10.0.0.0/8",
    "net 192.168",
    "net 172.16.0.0/12",
    "net 10",
    "net 0.0.0.0/0",
    "net 192.168.1.0 mask 255.255.255.0",
    "host ::1",
    "host fe80::1",
    "net 2001:db8::/32",
    "net fe80::/10",
    "net ::/0",
];
const PORTS: [&str; 7] = [
    "port 80",
    "port 53",
    "port 443",
    "portrange 20-25",
    "portrange 1024-65535",
    "port 0",
    "portrange 53-53",
];
const DIRECTIONS: [&str; 6] = [
    "",
    "src ",
    "dst ",
    "src or dst ",
    "src and dst ",
    "dst or src ",
];
const OTHERS: [&str; 62] = [
    "ether host 02:00:00:00:00:01",
    "ether src 02:00:00:00:00:01",
    "ether dst ff:ff:ff:ff:ff:ff",
    "ether broadcast",
    "broadcast",
    "ether multicast",
    "multicast",
    "ip multicast",
    "ip6 multicast",
    "ether proto 0x88b5",
    "ether proto \\ip",
    "ether proto \\arp",
    "ether proto 2048",
    "ether proto 0x600",
    "ether proto 5",
    "ether proto 0x42",
    "ip proto 6",
    "ip proto \\udp",
    "ip proto 255",
    "ip6 proto 58",
    "ip6 proto \\tcp",
    "proto 17",
    "proto \\icmp",
    "vlan",
    "vlan 1",
    "vlan 100 and ip",
    "vlan and tcp port 80",
    "vlan and vlan",
    "vlan 4095",
    "mpls",
    "mpls 1000",
    "mpls and mpls",
    "mpls and ip",
    "mpls 5 and tcp",
    "pppoed",
    "pppoes",
    "pppoes 7",
    "pppoes and ip",
    "pppoes and udp port 53",
    "vlan and pppoes",
    "less 64",
    "greater 100",
    "len == 60",
    "len > 1000",
    "len & 1 != 0",
    "gateway",
    "iso proto \\esis",
    "isis proto 20",
    "tcp-syn != 0",
    "1 = 1",
    "1 = 2",
    "0x10 > 3",
    "len / 2 > 50",
    "-len < 0",
    "geneve",
    "geneve 5",
    "geneve and ip",
    "atalk or ipx",
    "not ip and not arp",
    "!(ip or ip6)",
    "ip && !tcp",
    "tcp || udp",
];
const HEADERS: &str = "ether ip ip6 tcp udp icmp icmp6 arp link igmp sctp";
const RELATIONS: [&str; 8] = [
    "= 0",
    "!= 0",
    "> 1",
    "< 100",
    ">= 4",
    "<= 64",
    "& 0x0f = 5",
    "& 7 != 0",
];
const FIELDS: [&str; 14] = [
    "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
    "tcp[tcpflags] & tcp-fin != 0",
    "tcp[tcpflags] & tcp-rst != 0",
    "tcp[13] = 0x18",
    "icmp[icmptype] = icmp-echo",
    "icmp[icmptype] != icmp-echoreply",
    "icmp[icmpcode] = 0",
    "icmp6[icmp6type] = icmp6-echo",
    "icmp6[icmp6type] = icmp6-routersolicit",
    "ip[2:2] - ((ip[0] & 0xf) << 2) > 20",
    "ip[6:2] & 0x1fff = 0",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
    "udp[4:2] * 2 > 100 or udp[4:2] % 3 = 1",
    "ip[8] ^ 0x40 = 0",
];

/// Every expression of the parts above, and combinations of them.
fn expressions() -> Vec<String> {
    let mut all: BTreeSet<String> = WORDS.split(' ').map(str::to_owned).collect();
    all.extend(OTHERS.iter().chain(&FIELDS).map(|it| it.to_string()));
    for direction in DIRECTIONS {
        for address in ADDRESSES {
            let family = if address.contains(':') { "ip6" } else { "ip" };
            all.insert(format!("{direction}{address}"));
            all.insert(format!("{family} {direction}{address}"));
            if family == "ip" {
                all.insert(format!("arp {direction}{address}"));
                all.insert(format!("rarp {direction}{address}"));
            }
        }
        for port in PORTS {
            for protocol in ["", "tcp ", "udp ", "sctp ", "ip ", "ip6 "] {
                all.insert(format!("{protocol}{direction}{port}"));
            }
        }
    }
    for header in HEADERS.split(' ') {
        for (at, relation) in ["0", "1", "2:2", "4:4", "12"].into_iter().zip(RELATIONS) {
            all.insert(format!("{header}[{at}] {relation}"));
        }
        for relation in RELATIONS {
            all.insert(format!("{header}[0] {relation}"));
        }
    }
    let (single, mut dice) = (all.iter().cloned().collect::<Vec<_>>(), Dice(7));
    for _ in 0..400 {
        let [a, b, c] = [(); 3].map(|()| dice.one_of(&single));
        all.insert(match dice.below(4_u8) {
            0 => format!("({a}) and ({b})"),
            1 => format!("({a}) or not ({b})"),
            2 => format!("not ({a}) and (({b}) or ({c}))"),
            _ => format!("(({a}) and ({b})) or ({c})"),
        });
    }
    all.into_iter().collect()
}

/// Expressions that are not in the language.
fn wrong() -> Vec<String> {
    let mut all: BTreeSet<String> = BTreeSet::new();
    for word in "ip ip6 arp tcp udp icmp ether vlan len".split(' ') {
        for rest in [
            "[",
            "]",
            "[]",
            "[0:3]",
            "[0",
            "[0:",
            "[-",
            "[0] =",
            "[0] = x",
            "[0] & = 1",
            "port",
            "host",
            "and",
            "or",
            "(",
            ")",
            "[0:5] = 1",
            "== ==",
        ] {
            all.insert(format!("{word} {rest}"));
        }
    }
    all.extend(
        "and|or|not|(|)|()|ip and|ip or|not not|host|net|port|portrange|src|dst|src or|port 65536|port -1|port x1y|portrange 5|portrange 1-|\
         portrange 1-70000|host 1.2.3.4.5|host 10.0.0.256|net 10.0.0.1/8|net 10.0.0.0/33|net 300|ip6 host 10.0.0.1|ip host ::1|\
         net ::1/64|net fe80::/129|ether host 10.0.0.1|ether host 1:2:3|ether port 5|less|greater x|less -|vlan 4096|mpls 1048576|\
         pppoes 65536|ip proto|ip proto x|ip proto 6 7|proto|len <|len < < 5|1 +|1 / 0 = 1|1 % 0 = 1|5 << 33 = 1|tcp net 10|udp host 1.2.3.4|\
         icmp port 5|arp port 5|igmp port 7|tcp[tcpflag] = 0|icmp[icmptipe] = 0|ip[0:1|ip[0] = = 1|(ip|ip)|((tcp)|tcp)|gateway 1.2.3.4|\
         ip ip6 arp|host 10.0.0.1 10|port 80 443 x|@|#|$|ip;tcp|ip`|10.0.0.1/|/8|::g|fe80:::1|mask 255.0.0.0|net 10 mask|net 10 mask 255.0.255.0.1|\
         ether proto 65536|ip6 proto|protochain|ip protochain|vlan vlan|ether[0:3] = 1|tcp-syn|len|5|0x|0xg = 1|1 = |= 1"
            .split('|')
            .map(str::to_owned),
    );
    all.into_iter().collect()
}

/// The bytes of a packet, and its length on the wire.
type Packet = (Vec<u8>, u32);

fn shown((data, _): &Packet) -> String {
    format!("{:02x?}", &data[..data.len().min(60)])
}

/// A program as it was printed, unless that is an error.
fn instructions(line: &str) -> Option<Vec<Instruction>> {
    let mut parts = line.split(',');
    parts.next()?.parse::<usize>().ok()?;
    let instruction = |part: &str| {
        let mut numbers = part.split(' ').map(|it| it.parse::<u32>().unwrap());
        let mut next = || numbers.next().unwrap();
        Instruction {
            code: next() as u16,
            jump_true: next() as u8,
            jump_false: next() as u8,
            k: next(),
        }
    };
    Some(parts.map(instruction).collect())
}

/// As `bpf_filter` decides, which checks no program.
fn keeps(program: &[Instruction], data: &[u8], len: u32) -> bool {
    run_unchecked(|at| program.get(at).copied(), data, len) > 0
}

/// What a library makes of these filters.
fn programs(library: Option<&Folder>, folder: &Folder, lines: &str) -> Vec<String> {
    let mut filters = command(folder.path("filters"), library);
    let filters = filters.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = filters.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Up to 12 packets of each file, by link type, composed ones, and what other link types make of the frames of Ethernet.
fn packets() -> BTreeMap<u16, Vec<Packet>> {
    let mut found: BTreeMap<u16, Vec<Packet>> = BTreeMap::new();
    for path in captures("pcap").into_iter().chain(captures("pcapng")) {
        let Ok(mut file) = File::open(&path) else {
            continue;
        };
        let mut packets = 0;
        while packets < 12 && matches!(file.arm(), Ok(Wake::Ready)) {
            let links: Vec<LinkType> = file.interfaces().iter().map(|it| it.link).collect();
            let Ok(mut burst) = file.receive(12) else {
                break;
            };
            while let Some(frame) = burst.next_frame() {
                let link = links.get(frame.interface as usize).map_or(1, |link| link.0);
                let of_link = found.entry(link).or_default();
                of_link.push((frame.data.to_vec(), frame.wire_len));
                packets += 1;
            }
        }
    }
    let ethernet = found.entry(1).or_default();
    let mut dice = Dice(3);
    for bytes in [
        [8, 0],
        [0x86, 0xdd],
        [0x81, 0],
        [0x88, 0x47],
        [0x88, 0x64],
        [8, 6],
    ] {
        for len in [60, 90, 120] {
            let mut frame = frame(dice.any(), 120);
            frame[12..14].copy_from_slice(&bytes);
            let body = dice.bytes(106);
            frame[14..].copy_from_slice(&body);
            frame[14] = dice.one_of(&[0x45, 0x46, 0x60, 0x11]);
            frame[23] = dice.one_of(&[6, 17, 1, 58, 132]);
            frame[20] = dice.one_of(&[6, 17, 0, 58, 44]);
            frame.truncate(len);
            ethernet.push((frame, 120));
        }
    }
    let ethernet = ethernet.clone();
    for (frame, len) in ethernet.iter().filter(|(frame, _)| frame.len() > 14) {
        let (kind, body) = (&frame[12..14], &frame[14..]);
        let mut add = |link: LinkType, header: &[u8]| {
            let len = len - 14 + header.len() as u32;
            let packets = found.entry(link.0).or_default();
            packets.push(([header, body].concat(), len));
        };
        if [[8, 0], [0x86, 0xdd]].iter().any(|ip| ip == kind) {
            add(LinkType::RAW, &[]);
        }
        // Received by an Ethernet interface, from the frame's sender.
        let (source, end) = (&frame[6..12], [0, 0]);
        let sll = [&[0, 0, 0, 1, 0, 6], source, &end, kind].concat();
        add(LinkType(113), &sll);
        let interface = [0, 0, 0, 0, 0, 7, 0, 1, 0, 6];
        add(LinkType(276), &[kind, &interface, source, &end].concat());
    }
    found
}

#[test]
fn filters_decide_as_debians_do() {
    if !has_debians() {
        return;
    }
    let (folder, library) = (Folder::new(), installed());
    compiled(&folder, "filters.c");
    let (expressions, wrong) = (expressions(), wrong());
    let links = [(1, 1), (12, 101), (113, 113), (276, 276)];
    let mut differing = Vec::new();
    let packets = packets();
    for (number, link) in links {
        let lines: String = expressions
            .iter()
            .map(|it| format!("{number} {it}\n"))
            .collect();
        let ours = programs(Some(&library), &folder, &lines);
        let theirs = programs(None, &folder, &lines);
        let mut same = 0;
        assert!(packets.get(&link).is_some_and(|packets| packets.len() > 12));
        for ((text, ours), theirs) in expressions.iter().zip(&ours).zip(&theirs) {
            let of_link = packets.get(&link).map_or(&[][..], Vec::as_slice);
            let differs = match (instructions(ours), instructions(theirs)) {
                (Some(ours), Some(theirs)) => {
                    same += 1;
                    let decides = |(data, len): &&Packet| {
                        keeps(&ours, data, *len) != keeps(&theirs, data, *len)
                    };
                    of_link.iter().find(decides).map(shown)
                }
                (None, None) => None,
                // Debian's compiler finds out for fewer of such filters.
                (None, Some(theirs)) if ours.starts_with("error no packet of link type") => {
                    let kept = of_link
                        .iter()
                        .find(|(data, len)| keeps(&theirs, data, *len));
                    kept.map(shown)
                }
                _ => Some(format!("{ours} / {theirs}")),
            };
            differing.extend(differs.map(|why| format!("{number} {text}: {why}")));
        }
        if number == 1 {
            assert!(same >= 900, "{same}");
        }
    }
    let lines: String = wrong.iter().map(|it| format!("1 {it}\n")).collect();
    let (ours, theirs) = (
        programs(Some(&library), &folder, &lines),
        programs(None, &folder, &lines),
    );
    let mut refused = 0;
    for ((text, ours), theirs) in wrong.iter().zip(&ours).zip(&theirs) {
        let (ours, theirs) = (ours.starts_with("error"), theirs.starts_with("error"));
        refused += usize::from(ours && theirs);
        if ours != theirs {
            differing.push(format!(
                "{text}: refused by {}",
                if ours { "ours" } else { "theirs" }
            ));
        }
    }
    assert!(differing.is_empty(), "{} {differing:#?}", differing.len());
    assert!(refused >= 150, "{refused}");
}
