//! Packets of every kind that filters distinguish, the same in every run.

use super::layers::*;
use forebay_testing::dice::Dice;

/// A packet as in a file: its kept bytes, and its length on the wire.
#[derive(Clone, Debug)]
pub struct Packet {
    pub data: Vec<u8>,
    pub wire_len: u32,
}

const PORTS: [u16; 20] = [
    0, 1, 22, 53, 67, 68, 79, 80, 81, 443, 1023, 1024, 2000, 2010, 2011, 6081, 8080, 32768, 40000,
    65535,
];

/// A random payload for an IP packet of this protocol.
fn inside(dice: &mut Dice, protocol: u8) -> Vec<u8> {
    let (from, to) = (dice.one_of(&PORTS), dice.one_of(&PORTS));
    let len = dice.one_of(&[0, 1, 12, 40, 200, 600]);
    let load = dice.bytes(len);
    match protocol {
        6 => {
            let options = dice.one_of(&[0, 0, 12, 40]);
            tcp(from, to, dice.byte(), options, &load)
        }
        17 if dice.below(8) == 0 => {
            let network = dice.one_of(&[0, 5, 6, 0xFF_FFFF]);
            let options = dice.one_of(&[0, 4, 20]);
            let kind = dice.one_of(&[0x6558, 0x6558, 0x0800, 0x86DD, 0x8847]);
            let inner = match kind {
                0x6558 => plain(dice),
                0x0800 => ipv4(dice),
                0x86DD => ipv6(dice),
                _ => mpls(&[5], &ipv4(dice)),
            };
            udp(from, 6081, &geneve(network, options, kind, &inner))
        }
        17 => udp(from, to, &load),
        132 => sctp(from, to, &load),
        1 => icmp(dice.one_of(&[0, 3, 5, 8, 11]), dice.below(4) as u8, &load),
        58 => icmp(dice.one_of(&[1, 128, 129, 133, 134, 135, 136]), 0, &load),
        51 => ah(6, &tcp(from, to, 2, 0, &load)),
        4 => V4::new(from.into(), to.into(), 17).with(&udp(53, 53, &load)),
        41 => v6(from.into(), to.into(), 6, &tcp(80, 80, 2, 0, &load)),
        _ => load,
    }
}

/// ICMP, IGMP, IGRP, PIM, GRE and others; not TCP, UDP and SCTP.
const PROTOCOLS: [u8; 20] = [
    6, 6, 6, 6, 17, 17, 17, 17, 132, 132, 1, 1, 2, 4, 9, 41, 47, 50, 51, 58,
];

fn ipv4(dice: &mut Dice) -> Vec<u8> {
    let rare = [103, 112, 89];
    let protocol = match dice.below(10) {
        0 => dice.one_of(&rare),
        _ => dice.one_of(&PROTOCOLS),
    };
    let mut header = V4::new(dice.below(12), dice.below(12), protocol);
    header.ttl = dice.one_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 64, 64, 128, 255]);
    header.tos = dice.one_of(&[0, 0, 0x10, 0xB8, 0xFF]);
    header.fragment = dice.one_of(&[0, 0, 0, 0, 0x4000, 0x2000, 0x2001, 0x00B9, 0x1FFF, 0x8000]);
    header.options = vec![1; dice.one_of(&[0, 0, 0, 4, 40])];
    header.with(&inside(dice, protocol))
}

fn ipv6(dice: &mut Dice) -> Vec<u8> {
    let last = dice.one_of(&[6, 6, 17, 17, 132, 58, 89, 59, 51, 103, 112]);
    let (mut next, mut bytes) = (last, inside(dice, last));
    for _ in 0..dice.one_of(&[0, 0, 0, 1, 1, 2, 3]) {
        let kind = dice.one_of(&[0, 43, 44, 60, 51]);
        bytes = match kind {
            44 => fragment6(next, dice.one_of(&[0, 1, 8, 9, 0xFFF8]), &bytes),
            51 => ah(next, &bytes),
            _ => extension(next, dice.one_of(&[0, 1, 3]), &bytes),
        };
        next = kind;
    }
    v6(dice.below(7), dice.below(7), next, &bytes)
}

/// An 802.3 payload: SNAP, spanning tree, IPX, NetBEUI, OSI, supervisory frames…
fn body(dice: &mut Dice) -> Vec<u8> {
    let len = dice.one_of(&[3, 35, 100]);
    let load = dice.bytes(len);
    let start: &[u8] = match dice.below(9) {
        0 => {
            let organisation = dice.one_of(&[[0, 0, 0], [0, 0, 0xF8], [8, 0, 7], [0, 0, 0x0C]]);
            let kind = dice.one_of(&[0x0800, 0x86DD, 0x809B, 0x80F3, 0x0806, 0x8137, 0x2000]);
            let inner = ipv4(dice);
            return snap(organisation, kind, &inner);
        }
        1 => &[0x42, 0x42, 3],
        2 => &[0xE0, 0xE0, 3],
        3 => &[0xF0, 0xF0, 3],
        4 => {
            let network = dice.one_of(&[0x81, 0x82, 0x83]);
            let pdu = dice.one_of(&[15, 16, 17, 18, 20, 24, 25, 26, 27]);
            let isis = [0xFE, 0xFE, 3, network, 27, 1, 0, pdu, 1, 0, 0];
            return [&isis[..], &load].concat();
        }
        5 => &[0xFF, 0xFF, 0],
        6 => {
            let control = dice.one_of(&[0x01, 0x05, 0x09]);
            return [&[0x04, 0x05, control, 0x10], &load[..]].concat();
        }
        7 => {
            let control =
                dice.one_of(&[0x03, 0x43, 0x0F, 0x6F, 0x63, 0xE3, 0xAF, 0x87, 0x00, 0x02]);
            return [&[0x04, 0x04, control], &load[..]].concat();
        }
        _ => &[0x06, 0x06, 3],
    };
    [start, &load].concat()
}

/// An ARP or RARP request or its answer: this operation or the next one.
fn request(dice: &mut Dice, operation: u8) -> Vec<u8> {
    arp(
        operation + dice.below(2) as u8,
        dice.below(12),
        dice.below(12),
    )
}

/// A frame without tags.
fn plain(dice: &mut Dice) -> Vec<u8> {
    let (to, from) = (dice.one_of(&STATIONS), dice.one_of(&STATIONS[..3]));
    let (kind, inner) = match dice.below(26) {
        0..=9 => (0x0800, ipv4(dice)),
        10..=15 => (0x86DD, ipv6(dice)),
        16 => (0x0806, request(dice, 1)),
        17 => (0x8035, request(dice, 3)),
        18 | 19 => return llc(to, from, &body(dice)),
        20 => {
            let inner = [ipv4(dice), ipv6(dice)][dice.below(2)].clone();
            let labels = 0..1 + dice.below(3);
            let labels = labels.map(|_| dice.one_of(&[0, 5, 16, 100_000, 0xF_FFFF]));
            let labels: Vec<u32> = labels.collect();
            (
                dice.one_of(&[0x8847, 0x8847, 0x8848]),
                mpls(&labels, &inner),
            )
        }
        21 => {
            let (code, session) = (dice.one_of(&[9, 7, 0x19]), dice.one_of(&[0, 39]));
            (0x8863, pppoe(code, session, &[1, 1, 0, 0]))
        }
        22 => {
            let (kind, inner) = match dice.below(3) {
                0 => (0x0021_u16, ipv4(dice)),
                1 => (0x0057, ipv6(dice)),
                _ => (0xC021, vec![1; 8]),
            };
            let inner = [&kind.to_be_bytes()[..], &inner].concat();
            (0x8864, pppoe(0, dice.one_of(&[0, 39, 40]), &inner))
        }
        23 => {
            let routing = [0x1A, 0, 0x81, 0x0A, 0x01, 0x3C, 0x01, 0x3C];
            (0x6003, [&routing[..], &dice.bytes(30)].concat())
        }
        24 => {
            let kinds = [
                0x809B, 0x80F3, 0x6004, 0x6002, 0x6001, 0x8137, 0x88CC, 0x0600, 0x05DD, 0x888E,
            ];
            (dice.one_of(&kinds), dice.bytes(50))
        }
        _ => (0x9000, dice.bytes(46)),
    };
    ether(to, from, kind, &inner)
}

fn frame(dice: &mut Dice) -> Vec<u8> {
    let mut frame = plain(dice);
    for _ in 0..dice.one_of(&[0, 0, 0, 0, 1, 1, 2]) {
        let kind = dice.one_of(&[0x8100, 0x8100, 0x88A8, 0x9100]);
        let control = dice.one_of(&[0, 5, 100, 300, 400, 0xA064, 0x1FFF]);
        frame = tag(kind, control, &frame);
    }
    frame
}

/// Frames for long expressions, which random generation rarely produces.
fn wanted() -> Vec<Vec<u8>> {
    let [one, two, ..] = STATIONS;
    let frame = |kind: u16, inner: &[u8]| ether(one, two, kind, inner);
    let v4 = |protocol: u8, inner: &[u8]| V4::new(0, 1, protocol).with(inner);
    let web = v4(6, &tcp(80, 80, 2, 0, b"GET"));
    let name = v4(17, &udp(53, 53, &[0; 30]));
    let carried = |network: u32, kind: u16, inner: &[u8]| {
        let tunnel = geneve(network, 4, kind, inner);
        frame(0x0800, &v4(17, &udp(9, 6081, &tunnel)))
    };
    let mut frames = vec![
        frame(0x0800, &web),
        frame(0x86DD, &v6(1, 0, 6, &tcp(1024, 80, 2, 0, &[]))),
        frame(0x8847, &mpls(&[5], &web)),
        frame(0x8847, &mpls(&[100, 16], &name)),
        frame(0x8864, &pppoe(0, 39, &[&[0, 0x21], &name[..]].concat())),
        carried(5, 0x6558, &frame(0x0806, &arp(1, 0, 1))),
        carried(6, 0x6558, &tag(0x8100, 5, &frame(0x0800, &web))),
        carried(6, 0x6558, &frame(0x0800, &web)),
        carried(6, 0x0800, &name),
        // DECnet, the short header and the long one: to 15.2, from 10.1, low byte first.
        frame(0x6003, &[7, 0, 2, 2, 0x3C, 1, 0x28, 0, 0, 0]),
        frame(
            0x6003,
            &[
                &[22, 0, 6, 0, 0, 0, 0, 0, 0, 2, 0x3C][..],
                &[0; 6],
                &[1, 0x28, 0, 0],
            ]
            .concat(),
        ),
    ];
    for control in [0x03, 0x43, 0x0F, 0x6F, 0x63, 0xE3, 0xAF, 0x87] {
        frames.push(llc(one, two, &[4, 4, control, 0]));
        frames.push(llc(one, two, &[4, 4, control | 0x10, 0]));
    }
    for kind in [1, 128, 129, 133, 134, 135, 136] {
        frames.push(frame(0x86DD, &v6(1, 0, 58, &icmp(kind, 0, &[0; 16]))));
    }
    for pdu in [15, 16, 17, 18, 20, 24, 25, 26, 27] {
        let isis = [0xFE, 0xFE, 3, 0x83, 27, 1, 0, pdu, 1, 0, 0];
        frames.push(llc(one, two, &isis));
    }
    frames
}

/// Ethernet: every TCP flag and small TTL, and each kind of [`frame`] many times. Some are truncated at each offset, some
/// have wrong bytes.
pub fn ethernet() -> Vec<Packet> {
    let mut dice = Dice(0x5EED_F11E);
    let mut frames: Vec<_> = (0..=255)
        .map(|flags| {
            let mut header = V4::new(flags, flags / 12, 6);
            header.ttl = flags as u8 % 11;
            let segment = tcp(1024, 80, flags as u8, 0, &vec![0; flags]);
            ether(STATIONS[0], STATIONS[1], 0x0800, &header.with(&segment))
        })
        .collect();
    frames.extend(wanted());
    frames.extend((0..2200).map(|_| frame(&mut dice)));
    let whole = |data: &Vec<u8>| Packet {
        data: data.clone(),
        wire_len: data.len() as u32,
    };
    let mut packets: Vec<_> = frames.iter().map(whole).collect();
    for _ in 0..12 {
        let uncut = dice.one_of(&packets);
        let cuts = 0..uncut.data.len().min(90);
        packets.extend(cuts.map(|len| Packet {
            data: uncut.data[..len].to_vec(),
            ..uncut
        }));
    }
    for _ in 0..900 {
        let mut wrong = dice.one_of(&packets);
        if wrong.data.is_empty() {
            continue;
        }
        for _ in 0..1 + dice.below(4) {
            let at = dice.below(wrong.data.len().min(80));
            let any = dice.byte();
            wrong.data[at] = dice.one_of(&[0, 0xFF, 0x45, 0x81, any]);
        }
        packets.push(wrong);
    }
    packets
}

/// The same packets under the header of another link type, given by number; only those that it can carry.
pub fn under(link: u16) -> Vec<Packet> {
    let number = |kind: u16, [four, six]: [u32; 2]| match kind {
        0x0800 => Some(four),
        0x86DD => Some(six),
        _ => None,
    };
    let header = |kind: u16, frame: &[u8]| -> Option<Vec<u8>> {
        Some(match link {
            0 => number(kind, [2, 10])?.to_le_bytes().to_vec(),
            108 => number(kind, [2, 24])?.to_be_bytes().to_vec(),
            9 => {
                let [.., high, low] = number(kind, [0x21, 0x57]).unwrap_or(0xC021).to_be_bytes();
                vec![0xFF, 3, high, low]
            }
            101 => {
                number(kind, [4, 6])?;
                vec![]
            }
            113 => {
                // The packet type: to us, to all, to several, to others, from us.
                let direction = frame[5] % 5;
                let fixed = [0, direction, 0, 1, 0, 6];
                [&fixed, &frame[6..12], &[0, 0], &kind_or_llc(kind)].concat()
            }
            276 => {
                let direction = frame[5] % 5;
                let fixed = [0, 0, 0, 0, 0, 1 + frame[11] % 3, 0, 1, direction, 6];
                [&kind_or_llc(kind), &fixed[..], &frame[6..12], &[0, 0]].concat()
            }
            _ => unreachable!("no corpus for {link}"),
        })
    };
    let packets = ethernet();
    let moved = packets
        .iter()
        .filter(|packet| packet.data.len() >= 14)
        .filter_map(|packet| {
            let kind = u16::from_be_bytes([packet.data[12], packet.data[13]]);
            let data = [&header(kind, &packet.data)?, &packet.data[14..]].concat();
            let wire_len = packet.wire_len - 14 + (data.len() - (packet.data.len() - 14)) as u32;
            Some(Packet { data, wire_len })
        });
    moved.collect()
}

/// Cooked captures have 4 in place of an 802.3 frame's length.
fn kind_or_llc(kind: u16) -> [u8; 2] {
    if kind < 0x0600 {
        [0, 4]
    } else {
        kind.to_be_bytes()
    }
}
