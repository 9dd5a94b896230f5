use super::{Error, Filter, View, bpf::Program, bpf::code, names::Names};
use crate::port::{Frame, LinkType};
use forebay_testing::dice::rounds;
use proptest::prelude::*;

fn names() -> Names {
    Names::asking(|name| match name {
        "two" => vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
        "four" => vec!["10.0.0.4".parse().unwrap()],
        _ => Vec::new(),
    })
}

pub(super) fn parse(text: &str) -> Result<Filter, Error> {
    Filter::parse(text, &names())
}

pub(super) fn ethernet(text: &str) -> Program {
    let filter = parse(text).unwrap_or_else(|error| panic!("{error}"));
    let program = filter.compile(LinkType::ETHERNET, View::Packet, 65_535);
    program.unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> Error {
    let compile = |f: Filter| f.compile(LinkType::ETHERNET, View::Packet, 65_535);
    parse(text).and_then(compile).expect_err(text)
}

/// A TCP or UDP packet over IPv4 on Ethernet.
pub(super) fn packet(protocol: u8, from: [u8; 4], to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    frame.extend([0x45, 0, 0, 46, 0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend(from.into_iter().chain(to));
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.resize(60, 0);
    frame
}

pub(super) fn matches(text: &str, frame: &[u8]) -> bool {
    ethernet(text).run(frame, frame.len() as u32) > 0
}

#[test]
fn nonsense_is_an_error_that_points_at_the_word() {
    let cases = r"
        tcp prot 80                 | prot                    | did you mean 'proto'?
        tcp porrt 80                | porrt                   | did you mean 'port'?
        foo                         | foo                     | needs a word before it
        1.2.3.4                     | 1.2.3.4                 | needs a word before it
        tcp or 80                   | 80                      | needs a word before it
        80                          | 80                      | compared with nothing
        len                         | len                     | compared with nothing
        (tcp                        | (                       | never closed
        host (four or two           | (                       | never closed
        tcp)                        | )                       | expected 'and' or 'or', found ')'
        )                           | )                       | has no matching '('
        tcp and                     |                         | expected a term, but the expression ends
        not                         |                         | expected a term, but the expression ends
        port                        |                         | expected a name or an address
        tcp udp                     | udp                     | expected 'and' or 'or', found
        tcp port 80 udp             | udp                     | expected 'and' or 'or', found
        ip proto tcp                | tcp                     | a name is written \tcp
        ip proto \nonsense          | \nonsense               | an unknown protocol
        tcp host two                | tcp host                | write tcp and host
        ip port 80                  | ip port                 | tcp, udp or sctp
        tcp proto 6                 | tcp proto               | has no 'proto'
        src proto 6                 | proto                   | has no direction
        src or host two             | host                    | expected 'dst', found
        host nowhere                | nowhere                 | an unknown host
        ip6 host four               | four                    | has no address for 'ip6'
        net nowhere                 | nowhere                 | /etc/networks
        port nothing                | nothing                 | an unknown service
        port 65536                  | 65536                   | at most 65535
        portrange 1-x               | 1-x                     | not a range of ports
        port 1.2.3.4                | 1.2.3.4                 | an address, not a port
        port fe80::1                | fe80::1                 | an address, not a port
        host 1.2.3.256              | 1.2.3.256               | 256 is greater than 255
        host 10.0.0.0/8             | 10.0.0.0/8              | write net 10.0.0.0/8
        net 10.0.0.1/8              | 10.0.0.1/8              | its address is 10.0.0.0
        net 10.0.0.0/33             | 33                      | 0 to 32 bits
        net 10.0.0.1 mask 255.0.0.0 | 10.0.0.1 mask 255.0.0.0 | bits set outside
        net fe80::1/64              | fe80::1/64              | its address is fe80::
        net fe80::/129              | 129                     | 0 to 128 bits
        ip host fe80::1             | fe80::1                 | no IPv6 addresses
        ip6 host 1.2.3.4            | 1.2.3.4                 | not an IPv6 address
        host fe80:::1               | fe80:::1                | neither an IPv6 nor an Ethernet address
        host 2:0:0:0:0:1            | 2:0:0:0:0:1             | write ether host
        ether host 1.2.3.4          | 1.2.3.4                 | not an Ethernet address
        ether host nobody           | nobody                  | /etc/ethers
        ether                       | ether                   | alone is not a test
        tcp[0:3] = 1                | 3                       | 1, 2 or 4 bytes, not 3
        tcp[] = 1                   | ]                       | expected a number, found
        tcp[0 = 1                   | =                       | expected ']', found
        tcp[0]                      | tcp[0]                  | compared with nothing
        ah[0] = 1                   | ah                      | cannot be read
        ip[0] / (2 - 2) = 1         | ip[0] / (2 - 2)         | divides by zero
        ip[0] / (ip[1] * 0) = 1     | ip[0] / (ip[1] * 0) = 1 | divides by zero
        ip[0] << 32 = 1             | ip[0] << 32             | the maximum is 31
        ip[0] = 4294967296          | 4294967296              | 32 bits
        ip[0] = 08                  | 08                      | octal
        ip[-1] = 8                  | -1                      | beyond the end of every packet
        byte 4294963200 = 8         | byte 4294963200 = 8     | beyond the end of every packet
        vlan 4096                   | 4096                    | at most 4095
        mpls (1048576)              | (1048576)               | at most 1048575
        pppoes 65536                | 65536                   | at most 65535
        geneve 16777216             | 16777216                | at most 16777215
        vxlan 16777216              | 16777216                | at most 16777215
        less tcp                    | tcp                     | expected a number, found
        llc foo                     | foo                     | not a kind of LLC frame
        ip and §                    | §                       | not part of the filter language
        ip proto \                  | \                       | must be followed by a name
        wlan type foo               | foo                     | is not a type; write one of mgt,
        type mgt subtype cts        | cts                     | is not a subtype of this type
        type 3                      | 3                       | is not a type
        subtype 128                 | 128                     | expected a subtype
        dir up                      | up                      | is not a direction
        addr1 2:0:0:0:0:1           | addr1                   | write wlan before it
        wlan addr2 2:0:0:0:0:1      | 2:0:0:0:0:1             | needs 802.11, and this is link type EN10MB
        type mgt                    | type mgt                | needs 802.11
        src host two and oam        | oam                     | ATM
        on eth0                     | on                      | packet filter
        hopc 5                      | hopc                    | SS7
        gateway two                 | gateway                 | not supported
        ip broadcast                | ip broadcast            | netmask
        tcp multicast               | tcp multicast           | no multicasts
        tcp protochain 6            | tcp protochain          | write ip or ip6 before it
        src protochain 6            | protochain              | no direction
        inbound                     | inbound                 | only a live capture knows it
        udp and ifindex 3           | ifindex 3               | only a live capture knows it
        mpls and arp                | arp                     | only IPv4 and IPv6 are recognized
        mpls and vlan               | vlan                    | after 'mpls'
        tcp and udp                 |                         | no packet of link type EN10MB (Ethernet) can match this
    ";
    for row in cases.lines().filter(|row| !row.trim().is_empty()) {
        let [text, word, what] = row.split(" | ").map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let error = refused(text);
        assert_eq!(&text[error.span()], word, "{error}");
        assert!(error.what().contains(what), "{error}");
    }
}

#[test]
fn an_error_shows_the_line_that_is_concerned() {
    let error = refused("tcp and\n\t( udp\n\t  adn icmp )\nor ip");
    let shown = error.to_string();
    assert!(shown.ends_with("\n     adn icmp )\n     ^^^"), "{shown}");
    let far = format!("{} adn ip", vec!["tcp"; 100].join(" or "));
    let error = refused(&far).to_string();
    let lines: Vec<_> = error.lines().collect();
    assert!(
        lines[1].starts_with("  …") && lines[1].len() < 140,
        "{error}"
    );
    let marked = lines[2].find('^').unwrap();
    assert!(lines[1].chars().skip(marked).take(3).eq("adn".chars()));
}

#[test]
fn an_id_alone_takes_the_qualifiers_before_it() {
    let to_443 = packet(6, [10, 0, 0, 1], [10, 0, 0, 2], [5000, 443]);
    for text in [
        "tcp port 80 or 443",
        "tcp dst port 80 or 443",
        "tcp port (80 or 443)",
        "tcp port 80 or (22 or 443)",
        "port 443 and not 80",
        "host 10.0.0.1 and 10.0.0.2",
        "src host 10.0.0.1 and not (10.0.0.2 or 10.0.0.3)",
        "net 10 and port 443",
        "port 443 or 443 = len",
        "host two and dst port 443",
    ] {
        assert!(matches(text, &to_443), "{text}");
    }
    for text in [
        "udp port 80 or 443",
        "tcp src port 80 or 443",
        "port 80 or 22",
        "not net 10",
    ] {
        assert!(!matches(text, &to_443), "{text}");
    }
}

#[test]
fn and_and_or_have_one_precedence() {
    let udp = packet(17, [10, 0, 0, 1], [10, 0, 0, 2], [1, 2]);
    assert!(!matches("udp or tcp and port 80", &udp));
    assert!(matches("udp or (tcp and port 80)", &udp));
    assert!(matches("not tcp and udp", &udp));
}

#[test]
fn nothing_accepts_everything() {
    let everything = ethernet(" \n\t");
    assert_eq!(everything.instructions().len(), 1);
    assert_eq!(everything.run(&[], 0), 65_535);
}

#[test]
fn fragments_behind_the_first_have_no_ports() {
    let mut frame = packet(6, [10, 0, 0, 1], [10, 0, 0, 2], [80, 80]);
    assert!(matches("port 80", &frame) && matches("tcp[0:2] = 80", &frame));
    frame[21] = 5;
    assert!(!matches("port 80", &frame) && !matches("tcp[0:2] = 80", &frame));
    assert!(matches("tcp", &frame));
}

#[test]
fn headers_move_behind_a_vlan_for_the_rest_of_the_text() {
    let mut tagged = packet(6, [10, 0, 0, 1], [10, 0, 0, 2], [5000, 80]);
    tagged.splice(12..12, [0x81, 0x00, 0x20, 0x05]);
    for text in "vlan;vlan 5;vlan 5 and tcp port 80;vlan 6 or ip;vlan 5 and host two".split(';') {
        assert!(matches(text, &tagged), "{text}");
    }
    for text in ["vlan 6", "ip", "port 80", "ip or vlan 6", "vlan and vlan"] {
        assert!(!matches(text, &tagged), "{text}");
    }
}

fn hosts(count: u32) -> String {
    let hosts = (0..count).map(|i| format!("10.0.{}.{}", i / 250, i % 250));
    hosts.collect::<Vec<_>>().join(" or ")
}

#[test]
fn five_hundred_hosts_need_far_jumps() {
    let program = ethernet(&format!("tcp and host {} and port 80", hosts(500)));
    assert!(program.instructions().iter().any(|i| i.code == code::JA));
    let run = |from, to, port| program.run(&packet(6, from, to, [1, port]), 60) > 0;
    assert!(run([10, 0, 0, 0], [1, 1, 1, 1], 80));
    assert!(run([10, 0, 1, 249], [1, 1, 1, 1], 80));
    assert!(run([1, 1, 1, 1], [10, 0, 1, 249], 80));
    assert!(!run([1, 1, 1, 1], [10, 0, 1, 250], 80));
    assert!(!run([10, 0, 0, 0], [1, 1, 1, 1], 81));
    assert!(program.run(&packet(17, [10, 0, 0, 0], [1, 1, 1, 1], [1, 80]), 60) == 0);
    let tagged = parse(&format!("vlan and host {}", hosts(100))).unwrap();
    let tagged = tagged.compile(LinkType::ETHERNET, View::Socket, 1).unwrap();
    let returns = tagged
        .instructions()
        .iter()
        .filter(|i| i.code == code::RET_K);
    assert_eq!(returns.count(), 2); // the kernel accepts no others before a scratch cell is read
}

#[test]
fn what_is_too_much_is_refused() {
    let deep = format!("{}tcp{}", "(".repeat(99), ")".repeat(99));
    assert!(parse(&deep).is_ok());
    for (open, close) in [
        ("(", ")"),
        ("not ", ""),
        ("tcp[", "]"),
        ("-", ""),
        ("1 % ", ""),
    ] {
        let deep = format!("{}1{} = 1", open.repeat(50_000), close.repeat(50_000));
        assert!(refused(&deep).what().contains("deep"), "{open}");
    }
    let ids = format!("host {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(refused(&ids).what().contains("deep"));
    let sum = refused(&format!("{}1 = 1", "len + ".repeat(30_000)));
    assert!(sum.what().contains("operators"), "{sum}");
    // Only the kernel has this limit.
    let hosts = parse(&format!("host {}", hosts(2500))).unwrap();
    let compiled = |view| hosts.compile(LinkType::ETHERNET, view, 65_535);
    let by_kernel = compiled(View::Socket).unwrap_err();
    assert!(
        by_kernel.what().contains("4096 instructions"),
        "{by_kernel}"
    );
    let here = compiled(View::Packet).unwrap();
    assert!(here.instructions().len() > Program::MOST);
    let run = |to| here.run(&packet(6, [1; 4], to, [1, 2]), 60) > 0;
    assert_eq!([run([10, 0, 9, 249]), run([10, 0, 10, 0])], [true, false]);
    let sum = |n: u32| format!("ip[{n}]+").repeat(150);
    let sums: Vec<_> = (0..150).map(|n| format!("{}1=0", sum(n))).collect();
    let long = refused(&sums.join(" or "));
    assert!(long.what().contains("65535 instructions"), "{long}");
    let many = refused(&format!("{}ip", "ip[0] = 1 or ".repeat(19_500)));
    assert!(many.what().contains("questions"), "{many}");
    assert!(refused(&"tcp or ".repeat(50_000)).what().contains("bytes"));
    let cells = format!("{}len{} = 0", "len - (".repeat(17), ")".repeat(17));
    assert!(refused(&cells).what().contains("scratch cells"));
}

#[test]
fn what_is_asked_twice_is_tested_once() {
    let count = |text| ethernet(text).instructions().len();
    assert_eq!(count("ip and ip and ip"), count("ip"));
    assert_eq!(count("tcp port 80 or tcp port 80"), count("tcp port 80"));
    assert_eq!(count("ip or not ip"), 1);
    let loads = |text, code| {
        let program = ethernet(text);
        let loads = program.instructions().iter().filter(|i| i.code == code);
        loads.count()
    };
    let hosts = "ip host 10.0.0.1 or 10.0.0.2 or 10.0.0.3";
    assert_eq!(loads(hosts, code::LD_ABS), 2);
    assert_eq!(loads("tcp port 80 or 443 or 22", code::LDX_MSH), 1);
}

#[test]
fn every_host_name_is_looked_up_once() {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let names = Names::asking(|_| {
        ASKED.fetch_add(1, Relaxed);
        vec!["10.0.0.1".parse().unwrap()]
    });
    assert!(Filter::parse("host a or b or src a and dst host b or a", &names).is_ok());
    assert_eq!(ASKED.load(Relaxed), 2);
    let many: Vec<_> = (0..300).map(|i| format!("h{i}")).collect();
    let error = Filter::parse(&format!("host {}", many.join(" or ")), &names).unwrap_err();
    assert!(error.what().contains("256"), "{error}");
}

#[test]
fn a_socket_has_the_outer_tag_beside_the_packet() {
    let compile = |text| {
        parse(text)
            .unwrap()
            .compile(LinkType::ETHERNET, View::Socket, 65_535)
    };
    let program = compile("vlan 5 and ip").unwrap();
    let loads = |k| {
        let mut instructions = program.instructions().iter();
        instructions.any(|i| i.code == code::LDB_ABS && i.k == k)
    };
    assert!(loads(code::KERNEL_VLAN_PRESENT) && loads(code::KERNEL_VLAN_TAG));
    for text in ["inbound", "outbound and tcp", "ifindex 3"] {
        assert!(compile(text).is_ok(), "{text}");
    }
}

#[test]
fn unknown_link_types_have_bytes_and_lengths_only() {
    let compile = |text: &str| parse(text).unwrap().compile(LinkType(147), View::Packet, 1);
    assert!(compile("len > 50 and link[0] = 5 or less 40").is_ok());
    let error = compile("less 40 or tcp").unwrap_err();
    assert_eq!(error.span(), 11..14);
    assert!(error.what().contains("USER0 (private use 0)"), "{error}");
    for text in [
        "llc",
        "vlan",
        "mpls",
        "ether host 2:0:0:0:0:1",
        "multicast",
        "ether broadcast",
        "inbound",
    ] {
        let error = compile(text).unwrap_err();
        assert!(
            error.what().contains("type USER0 (private use 0)"),
            "{error}"
        );
    }
}

/// Separated by blanks.
const WORDS: &str = r"
    ip ip6 tcp udp icmp6 arp ether host net port portrange proto src dst and or not ( ) [ ] : ! = != < >= & |
    + - * / % ^ << len less vlan mpls pppoes geneve vxlan broadcast multicast llc 10.0.0.1 192.168 10.0.0.0/8
    fe80::1 ::/0 2:0:0:0:0:1 two four http 80-90 0 1 2 4 5 80 0x800 tcpflags tcp-syn \tcp inbound iso isis
    decnet 1.1 mask 255.255.0.0 gateway protochain byte atalk ipx tcp[0] ip[6:2] ether[0]
";
const PHRASES: [&str; 6] = [
    "port 80",
    "host 10.0.0.1",
    "vlan 5",
    "protochain 6",
    "type mgt",
    "wlan addr2 2:0:0:0:0:1",
];

const LINKS: [u16; 14] = [
    1, 12, 101, 228, 229, 0, 108, 113, 276, 9, 104, 105, 127, 192,
];

#[test]
fn what_a_packet_computes_never_reads_the_metadata_of_the_kernel() {
    let mut frame = [0; 60];
    frame[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    let kept = |text: &str, link: LinkType| {
        let program = parse(text).unwrap();
        let program = program.compile(link, View::Restored, 100).unwrap();
        program.run_restored(&Frame::whole(&frame), link) > 0
    };
    assert!(kept("vlan 5", LinkType::ETHERNET));
    // 56 bytes without the tag, and -4048: whether there is a tag, for an absolute load.
    assert!(!kept("ether[len - 4104] = 1", LinkType::ETHERNET));
    // Bytes of another link layer that look like a tag are none.
    assert!(kept("link[12:4] = 0x81000005 and len = 60", LinkType::RAW));
}

/// Every text is a filter or an error that can be printed. A filter's programs are valid, and run over any packet.
fn whatever(text: &str) {
    let Ok(filter) = parse(text).map_err(|error| {
        assert!(text.get(error.span()).is_some(), "{text:?}");
        error.to_string()
    }) else {
        return;
    };
    for link in LINKS {
        for view in [View::Packet, View::Socket, View::Restored] {
            match filter.compile(LinkType(link), view, 100) {
                Ok(program) => [0, 13, 14, 40, 60].into_iter().for_each(|len| {
                    assert!(matches!(program.run(&[0x45; 60][..len], 60), 0 | 100));
                }),
                Err(error) => assert!(!error.what().contains("not valid"), "{error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(256)))]

    #[test]
    fn any_text_is_a_filter_or_an_error(text in "\\PC{0,60}") {
        whatever(&text);
    }

    #[test]
    fn any_words_are_a_filter_or_an_error(
        words in proptest::collection::vec(
            proptest::sample::select(WORDS.split_whitespace().chain(PHRASES).collect::<Vec<_>>()), 0..24,
        ),
    ) {
        whatever(&words.join(" "));
    }

    #[test]
    fn any_joined_terms_are_a_filter_or_an_error(
        terms in proptest::collection::vec((0..4_usize, 0..26_usize), 1..24),
    ) {
        const TERMS: &[&str] = &[
            "tcp", "udp port 53", "host 10.0.0.1", "src net 192.168", "ip6", "vlan", "vlan 5", "mpls",
            "pppoes 5", "geneve", "vxlan 5", "tcp[13] & 2 != 0", "ip[ip[0] & 0xf] > 5", "len > 100", "icmp6[0] = 1",
            "ether host 2:0:0:0:0:1", "broadcast", "portrange 80-90", "net fe80::/10", "arp", "isis",
            "ip multicast", "ip[2:2] - (ip[0] & 15) << 2 > tcp[12] >> 2", "not udp", "host two", "l1",
            "ipx",
        ];
        let mut text = String::new();
        for (i, (joint, term)) in terms.iter().enumerate() {
            let joint = ["and", "or", "and not", "or not"][*joint];
            if i > 0 || joint.ends_with("not") {
                text += joint.trim_start_matches(if i == 0 { "and " } else { "" });
                text = text.trim_start_matches("or ").to_owned() + " ";
            }
            text += TERMS[*term];
            text += " ";
        }
        whatever(&text);
    }
}

/// libpcap accepts both of these too, but never loads the byte: its `byte 0 & 5` rejects every packet.
#[test]
fn a_byte_may_be_asked_for_bits() {
    let kept = |expression: &str, byte: u8| {
        let filter: Filter = expression.parse().unwrap();
        let program = filter.compile(LinkType::RAW, View::Packet, 1).unwrap();
        program.run(&[9, byte], 2) > 0
    };
    for byte in 0..=255 {
        assert_eq!(kept("byte 1 & 5", byte), byte & 5 != 0, "{byte}");
        assert_eq!(kept("not byte 1 & 0x80", byte), byte & 0x80 == 0, "{byte}");
        assert_eq!(kept("byte 1 | 0", byte), byte != 0, "{byte}");
        assert!(kept("byte 1 | 4", byte));
    }
}
