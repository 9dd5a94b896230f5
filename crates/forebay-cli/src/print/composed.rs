//! Ethernet frames of every protocol that is compared with tcpdump: valid headers, with fields at random.

use super::data::checksum;
use forebay_testing::dice::Dice;

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

fn ipv4(dice: &mut Dice, protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let options = match dice.below(12) {
        0 => vec![1, 1, 1, 0],
        1 => vec![148, 4, 0, 0],
        2 => vec![7, 7, 8, 10, 9, 8, 7, 0],
        _ => Vec::new(),
    };
    let header = 20 + options.len();
    let mut packet = vec![0x40 | (header / 4) as u8, dice.one_of(&[0, 0, 3, 0xb8])];
    packet.extend(((header + payload.len()) as u16).to_be_bytes());
    packet.extend((dice.any() as u16).to_be_bytes());
    packet.extend(flags.to_be_bytes());
    packet.extend([dice.one_of(&[0, 1, 64, 255]), protocol, 0, 0]);
    packet.extend([10, 0, 0, dice.below(4u8), 10, 0, 1, dice.below(4u8)]);
    packet.extend(options);
    let sum = checksum(&[&packet]) ^ u16::from(dice.below(9u8) == 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    ethernet(0x0800, &packet)
}

fn address(dice: &mut Dice) -> [u8; 16] {
    let mut address = [0; 16];
    match dice.below(6u8) {
        0 => address[15] = 1,
        1 => address[10..].copy_from_slice(&[255, 255, 1, 2, 3, 4]),
        2 => address[12..].copy_from_slice(&[1, 2, 3, 4]),
        3 => address.copy_from_slice(&dice.bytes(16)),
        _ => {
            address[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
            address[15] = dice.byte();
        }
    }
    address
}

fn ipv6(dice: &mut Dice, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = dice
        .one_of(&[0x6000_0000_u32, 0x6f01_2345])
        .to_be_bytes()
        .to_vec();
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(address(dice));
    packet.extend(address(dice));
    packet.extend(payload);
    ethernet(0x86dd, &packet)
}

fn tcp(dice: &mut Dice) -> Vec<u8> {
    let options: &[&[u8]] = &[
        &[],
        &[],
        &[],
        &[
            2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
        ],
        &[1, 1, 8, 10, 1, 2, 3, 4, 9, 8, 7, 6],
        &[1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 20],
        &[5, 18, 0, 0, 0, 9, 0, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0],
        &[2, 4, 5],
        &[3, 4, 7, 7],
        &[8, 6, 1, 2, 3, 4, 0, 0],
        &[99, 4, 1, 2],
        &[34, 2, 0, 0],
        &[34, 8, 1, 2, 3, 4, 5, 6],
        &[30, 4, 1, 2],
        &[1, 1, 1, 9],
        &[4, 3, 1, 0],
        &[0, 1, 1, 1],
        &[6, 6, 0, 0, 1, 2, 0, 0],
        &[254, 4, 0xf9, 0x89],
        &[5, 4, 1, 1],
    ];
    let mut options = dice.one_of(options).to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut segment = Vec::new();
    let low_port = dice.below(3u16) + 4000;
    let ports = if dice.below(2u8) == 0 {
        [low_port, 5555]
    } else {
        [5555, low_port]
    };
    ports
        .iter()
        .for_each(|port| segment.extend(port.to_be_bytes()));
    segment.extend((dice.below(5000u32).wrapping_sub(100)).to_be_bytes());
    segment.extend((dice.below(5000u32)).to_be_bytes());
    let words = match dice.below(40u8) {
        0 => dice.below(16u8),
        _ => (5 + options.len() / 4) as u8,
    };
    let flags = dice.one_of(&[2, 18, 16, 16, 16, 24, 24, 17, 4, 20, 1, 0, 0xff, 48]);
    segment.extend([words << 4, flags]);
    segment.extend((dice.any() as u16).to_be_bytes());
    segment.extend([0, 0, 0, dice.byte()]);
    segment.extend(options);
    let payload = dice.one_of(&[0, 0, 1, 17, 400]);
    segment.extend(dice.bytes(payload).iter().map(|byte| byte | 0x80));
    segment
}

fn udp(dice: &mut Dice) -> Vec<u8> {
    let payload_len = dice.one_of(&[0, 1, 18, 300]);
    let payload = dice.bytes(payload_len);
    let mut datagram = Vec::new();
    for port in [6000 + dice.below(9u16), 6500] {
        datagram.extend(port.to_be_bytes());
    }
    let len = match dice.below(20u8) {
        0 => dice.below(400u16),
        _ => payload.len() as u16 + 8,
    };
    datagram.extend(len.to_be_bytes());
    datagram.extend(dice.one_of(&[[0, 0], [1, 2]]));
    datagram.extend(payload);
    datagram
}

fn icmp(dice: &mut Dice) -> Vec<u8> {
    let kind = dice.one_of(&[
        0, 8, 3, 3, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 30, 40,
    ]);
    let mut message = vec![kind, dice.one_of(&[0, 0, 1, 2, 3, 4, 5, 9, 13, 17]), 0, 0];
    message.extend(dice.bytes(4));
    if kind == 9 {
        message[4..6].copy_from_slice(&[2, dice.one_of(&[2, 3])]);
    }
    if matches!(kind, 3 | 4 | 5 | 11 | 12) {
        let inner = dice.one_of(&[6, 17, 47]);
        let udp = udp(dice);
        message.extend(&ipv4(dice, inner, 0, &udp)[14..]);
    } else {
        let more = dice.one_of(&[0, 4, 12, 56]);
        message.extend(dice.bytes(more));
    }
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

fn icmp6(dice: &mut Dice) -> Vec<u8> {
    let kind = dice.one_of(&[
        1, 1, 2, 3, 4, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 143, 200, 77,
    ]);
    let mut message = vec![kind, dice.below(6u8), 0, 0];
    message.extend(dice.bytes(4));
    match kind {
        1..=4 => {
            let inner = dice.one_of(&[6, 17, 47]);
            let udp = udp(dice);
            message.extend(&ipv6(dice, inner, &udp)[14..]);
        }
        130..=132 => message.extend(address(dice)),
        134 => {
            message.extend(dice.bytes(8));
            message.extend([1, 1, 2, 0, 0, 0, 0, 9, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
        }
        135 | 136 => {
            message.extend(address(dice));
            message.extend([1, 1, 2, 0, 0, 0, 0, 9]);
        }
        137 => {
            message.extend(address(dice));
            message.extend(address(dice));
        }
        143 => {
            message[4..8].copy_from_slice(&[0, 0, 0, 1]);
            message.extend([4, 0, 0, 0]);
            message.extend(address(dice));
        }
        _ => message.extend(dice.bytes(20)),
    }
    message
}

fn arp(dice: &mut Dice) -> Vec<u8> {
    let mut packet = vec![
        0,
        dice.one_of(&[1, 1, 1, 6, 99]),
        8,
        dice.one_of(&[0, 0, 0, 6]),
    ];
    packet.extend([dice.one_of(&[6, 6, 6, 0, 8]), dice.one_of(&[4, 4, 4, 6])]);
    packet.extend([0, dice.one_of(&[1, 1, 2, 2, 3, 4, 8, 9])]);
    packet.extend(dice.bytes(40));
    if dice.below(2u8) == 0 {
        packet[18..24].fill(0);
    }
    packet
}

pub fn frame(dice: &mut Dice) -> Vec<u8> {
    let payload = match dice.below(20u8) {
        0..4 => return in_vlan(dice),
        4 => {
            let arp = arp(dice);
            return ethernet(dice.one_of(&[0x0806, 0x8035]), &arp);
        }
        5..8 => (6, tcp(dice)),
        8..11 => (17, udp(dice)),
        11..13 => (1, icmp(dice)),
        13 => (dice.one_of(&[59, 200, 61, 4, 41, 58, 255]), udp(dice)),
        14 => {
            let all = [(6, tcp(dice)), (17, udp(dice)), (58, icmp6(dice))];
            let (next, inner) = dice.one_of(&all);
            let (kind, header) = match dice.below(5u8) {
                0 => (0, vec![next, 0, 5, 2, 0, 0, 1, 0]),
                1 => (60, vec![next, 0, 1, 4, 0, 0, 0, 0]),
                2 => (44, vec![next, 0, 0, dice.below(2u8), 1, 2, 3, 4]),
                3 => (44, vec![next, 0, 1, dice.one_of(&[0, 8, 9]), 1, 2, 3, 4]),
                _ => {
                    let mut header = vec![next, 2, 0, 1, 0, 0, 0, 0];
                    header.extend(address(dice));
                    (43, header)
                }
            };
            return ipv6(dice, kind, &[header, inner].concat());
        }
        15 => {
            let tcp = tcp(dice);
            return ipv6(dice, 6, &tcp);
        }
        16 => {
            let udp = udp(dice);
            return ipv6(dice, 17, &udp);
        }
        17 => {
            let icmp = icmp6(dice);
            return ipv6(dice, 58, &icmp);
        }
        18 => {
            let (next, udp) = (dice.one_of(&[59, 1, 200]), udp(dice));
            return ipv6(dice, next, &udp);
        }
        _ => {
            let payload = dice.bytes(30);
            return ethernet(dice.one_of(&[0x9999, 0x0700, 0x86dd, 0x0800]), &payload);
        }
    };
    let flags = dice.one_of(&[0, 0x4000, 0x4000, 0x2000, 0x8000, 0x2001, 7]);
    ipv4(dice, payload.0, flags, &payload.1)
}

fn in_vlan(dice: &mut Dice) -> Vec<u8> {
    let mut inner = frame(dice);
    let tag = [0x81, 0, dice.byte(), dice.byte()];
    inner.splice(12..12, tag);
    inner
}
