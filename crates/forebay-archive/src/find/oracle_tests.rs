//! Predicates against the filter itself, over packets of every kind, whole and cut anywhere.

use super::{
    flows::indexed,
    predicate::{self, Flow, Truth},
};
use crate::index::flow;
use forebay_net::{
    filter::{Filter, Programs},
    port::LinkType,
};
use forebay_testing::dice::Dice;

#[allow(dead_code)]
#[path = "../../../forebay-net/tests/filter/corpus.rs"]
mod corpus;
#[allow(dead_code)]
#[path = "../../../forebay-net/tests/filter/layers.rs"]
mod layers;

/// Expressions that people write, and those that go wrong easily.
const WRITTEN: [&str; 2] = [
    include_str!("../../../forebay-net/tests/filter/kept_and_left.txt"),
    include_str!("../../../forebay-net/tests/filter/all_or_nothing.txt"),
];

/// Each expression is tried with one of this number of packets.
pub const STEP: usize = 11;

/// Terms of random expressions.
const TERMS: [&str; 40] = [
    "tcp",
    "udp",
    "icmp",
    "ip",
    "ip6",
    "arp",
    "rarp",
    "sctp",
    "icmp6",
    "esp",
    "vlan",
    "vlan 5",
    "vlan 100",
    "host 10.0.0.1",
    "src host 10.0.0.2",
    "dst host 10.0.0.3",
    "net 10.0.0.0/8",
    "net 192.168.1",
    "ip6 host ::1",
    "net 2001:db8::/32",
    "port 80",
    "src port 53",
    "tcp dst port 443",
    "udp portrange 50-70",
    "portrange 1024-65535",
    "src and dst port 80",
    "ether proto 0x88cc",
    "ip proto 47",
    "ip6 proto 44",
    "proto 51",
    "tcp[13] & 2 != 0",
    "less 100",
    "ether[0] & 1 = 1",
    "mpls",
    "pppoes",
    "geneve",
    "host 10.9.9.9",
    "arp host 10.0.0.1",
    "ip host 10.0.0.1",
    "net 0.0.0.0/0",
];

fn random(dice: &mut Dice) -> String {
    let mut text = String::new();
    for n in 0..1 + dice.below(4) {
        if n > 0 {
            text += [" and ", " or "][dice.below(2)];
        }
        let term = dice.one_of(&TERMS);
        text += &match dice.below(6) {
            0 => format!("not {term}"),
            1 => format!("({term} or {})", dice.one_of(&TERMS)),
            2 => format!("not ({term} and {})", dice.one_of(&TERMS)),
            _ => term.to_owned(),
        };
    }
    text
}

/// All expressions of these tests.
pub fn expressions(random_ones: usize) -> Vec<Filter> {
    let mut dice = Dice(27);
    let written = WRITTEN
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.is_empty())
        .map(str::to_owned);
    let more: Vec<_> = (0..random_ones).map(|_| random(&mut dice)).collect();
    let parsed = written
        .chain(more)
        .filter_map(|text| Filter::without_hosts(&text).ok());
    parsed.collect()
}

/// Frames of many kinds, whole and cut anywhere.
pub fn frames() -> Vec<(LinkType, Vec<u8>, u32)> {
    let mut dice = Dice(1);
    let mut frames = Vec::new();
    for link in [1, 1, 1, 101, 113, 276, 0, 108] {
        let packets = match link {
            1 => corpus::ethernet(),
            link => corpus::under(link),
        };
        for packet in packets {
            let wire_len = packet.wire_len;
            frames.push((LinkType(link), packet.data.clone(), wire_len));
            if dice.below(3) == 0 {
                let cut = dice.below(packet.data.len() + 1).min(60);
                frames.push((LinkType(link), packet.data[..cut].to_vec(), wire_len));
            }
        }
    }
    frames
}

#[test]
fn a_packet_that_matches_is_never_left_out_and_a_certain_answer_is_right() {
    let frames = frames();
    let flows: Vec<_> = frames
        .iter()
        .map(|(link, data, _)| indexed(&flow::Flow::of(*link, data).0))
        .collect();
    // Of files with the next header of IPv6, and of older ones.
    let (mut certain, mut excluded, mut wrong) = ([0; 2], [0; 2], Vec::new());
    for (number, filter) in expressions(1000).into_iter().enumerate() {
        let tree = filter.tree();
        let mut programs = Programs::new(filter.clone());
        let some = frames.iter().zip(&flows).skip(number % STEP).step_by(STEP);
        for ((link, data, wire_len), flow) in some {
            let matches = programs.of(*link).run(data, *wire_len) > 0;
            let older = Flow {
                next_header: None,
                ..*flow
            };
            for (age, flow) in [*flow, older].iter().enumerate() {
                let expected = predicate::matching(&tree, flow);
                let is_certain = predicate::is_certain(&tree, flow);
                excluded[age] += u64::from(expected == Truth::No);
                certain[age] += u64::from(is_certain);
                let is_wrong = expected == Truth::No && matches
                    || is_certain && expected != Truth::from(matches);
                if is_wrong && wrong.len() < 20 {
                    wrong.push(format!(
                        "{}: {expected:?}, matches: {matches}, {link:?} {flow:?} {data:02x?}",
                        filter.text()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The index is worth something.
    assert!(
        certain[1] > 100_000 && excluded[1] > 100_000,
        "{certain:?} certain, {excluded:?} excluded"
    );
    assert!(
        certain[0] > certain[1] && excluded[0] > excluded[1],
        "{certain:?} certain, {excluded:?} excluded"
    );
}
