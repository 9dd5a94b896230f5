//! `protochain` accepts the packets that libpcap's loop accepts. Packets with an authentication header are left out: libpcap loses
//! its place after one, and may loop forever.

use crate::{Corpus, compiled, corpus, none_differ, oracle, oracle_is_there};

const EXPRESSIONS: [&str; 12] = [
    "protochain 6",
    "protochain \\udp",
    "ip protochain 6",
    "ip protochain 51 or arp",
    "ip6 protochain 17",
    "ip6 protochain 58 and not tcp",
    "not ip6 protochain 44",
    "ip6 protochain 59",
    "ip6 protochain 0",
    "protochain 6 or protochain 17",
    "tcp[13] & 2 != 0 or protochain 132",
    "vlan and ip6 protochain 6",
];

#[test]
fn headers_are_passed_as_by_libpcap() {
    if !oracle_is_there() {
        return;
    }
    let mut wrong = Vec::new();
    for link in oracle::LINKS {
        let has_authentication = ["protochain 51", "vlan and protochain 51"]
            .map(|expression| compiled(expression, link).ok());
        let mut packets = match link {
            1 => corpus::ethernet(),
            link => corpus::under(link),
        };
        packets.retain(|packet| {
            let mut programs = has_authentication.iter().flatten();
            !programs.any(|program| program.run(&packet.data, packet.wire_len) > 0)
        });
        let corpus = Corpus::with(link, packets);
        for expression in EXPRESSIONS {
            let Ok(expected) = corpus.kept_by_tcpdump(expression) else {
                assert!(compiled(expression, link).is_err(), "{link}: {expression}");
                continue;
            };
            let ours = corpus.kept(&compiled(expression, link).unwrap());
            if ours != expected {
                let counts = (ours.len(), expected.len());
                wrong.push(format!("link {link}: {expression}: accepted {counts:?}"));
            }
            let is_idle = expected.is_empty() && !expression.contains("51");
            assert!(!is_idle || link != 1, "{expression} accepts nothing");
        }
    }
    none_differ(&wrong);
}
