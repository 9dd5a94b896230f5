//! 802.11, alone and after each capture header: the tests of its header, and those of what data frames carry.

use crate::{
    Corpus, compiled,
    corpus::{self, Packet},
    layers::{STATIONS, snap},
    none_differ, oracle_is_there,
};
use forebay_testing::dice::Dice;

const LINKS: [u16; 5] = [105, 119, 127, 163, 192];

/// Each accepts some packets. `link[0] = 8 and ip` is not among them: libpcap keeps the 8 where it has the start of the payload.
const EXPRESSIONS: &str = "
    type mgt
    type management and not subtype beacon
    type ctl
    type data
    type 8
    type mgt subtype beacon
    type mgt subtype probe-req
    type control subtype ack
    type data subtype qos-data
    type data subtype 0x80
    type 4 subtype 0xb0
    wlan type mgt subtype deauth
    subtype beacon or subtype cts
    subtype data
    not subtype qos-data
    dir nods
    dir tods
    dir fromds or dir 1
    wlan dir dstods
    wlan host 02:00:00:00:00:01
    wlan src 02:00:00:00:00:01
    wlan dst 02:00:00:00:00:02
    wlan src and dst 02:00:00:00:00:01
    ether host 02:00:00:00:00:01 or 02:00:00:00:00:02
    not wlan host 02:00:00:00:00:01
    wlan addr1 02:00:00:00:00:01
    wlan addr2 02:00:00:00:00:01
    wlan address3 02:00:00:00:00:01
    wlan addr4 host 02:00:00:00:00:01
    wlan ra 02:00:00:00:00:01
    wlan ta 02:00:00:00:00:01 or 02:00:00:00:00:02
    not wlan ta 02:00:00:00:00:01
    broadcast
    wlan broadcast and type data
    multicast
    not ether multicast
    llc
    llc u
    ip
    ip6
    not ip
    arp
    tcp
    udp port 53 or tcp port 80
    host 10.0.0.1
    ip host 10.0.0.1 and type data
    net 10 and not port 22
    tcp[13] & 2 != 0
    ip[ip[0] & 0xf] > 5
    link[0] = 8
    vlan
    vlan 5 and ip
    vlan and not type mgt
    ether proto 0x0806
    stp
    iso
    ipx
    type mgt or ip
    ip or type mgt
    less 100 or udp
";

/// A frame of 802.11, after the capture header of this link type.
fn packet(dice: &mut Dice, link: u16, carried: &[Packet]) -> Packet {
    let extra = dice.one_of(&[0_u8, 0, 4, 16]);
    let mut data = Vec::new();
    let mut is_padded = false;
    match link {
        127 => {
            // Presence of the timer, of flags, of one more word; the flags follow the timer.
            let present = dice.one_of(&[0_u32, 2, 2, 3, 3, 1, 1 << 31 | 2]);
            let flags = dice.one_of(&[0_u8, 0x20, 0x20]);
            is_padded = flags != 0 && matches!(present, 2 | 3);
            data.extend([0, 0, 24 + extra, 0]);
            data.extend(present.to_le_bytes());
            data.extend([flags; 16]);
        }
        192 => {
            let inner = dice.one_of(&[105_u32, 105, 105, 1]);
            data.extend([0, 0, 8 + extra, 0]);
            data.extend(inner.to_le_bytes());
        }
        163 => data.extend([0x80, 0x21, 0x10, 1, 0, 0, 0, 8 + extra]),
        119 if dice.below(2) == 0 => data.extend([0x80, 0x21, 0x10, 2, 0, 0, 0, 8 + extra]),
        119 => data.extend(vec![0x41; 144 - usize::from(extra)]),
        _ => {}
    }
    if link != 105 {
        data.extend(vec![9; extra.into()]);
    }
    let control = match dice.below(3) {
        0 => dice.one_of(&[0x80_u8, 0x80, 0x40, 0xC0, 0x00]),
        1 => dice.one_of(&[0xB4, 0xC4, 0xD4, 0xA4]),
        _ => dice.one_of(&[0x08, 0x08, 0x88, 0x88, 0x48, 0xC8, 0x0C]),
    };
    let header = data.len();
    let direction = dice.one_of(&[0, 1, 2, 3, 0x41]);
    data.extend([control, direction, 0, 0]);
    for _ in 0..3 {
        data.extend(dice.one_of(&STATIONS));
    }
    data.extend([0, 0]);
    if direction == 3 && dice.below(2) == 0 {
        data.extend(dice.one_of(&STATIONS));
    }
    if control & 0x8C == 0x88 {
        data.extend([0, 0]);
    }
    if is_padded {
        data.resize(header + (data.len() - header).next_multiple_of(4), 0);
    }
    let frame = &carried[dice.below(carried.len())].data;
    match frame.get(12..14) {
        Some(&[first, second]) if first >= 6 => {
            let kind = u16::from_be_bytes([first, second]);
            data.extend(snap([0; 3], kind, &frame[14..]));
        }
        Some(_) => data.extend(&frame[14..]),
        None => data.extend(dice.bytes(40)),
    }
    data.resize(data.len().max(400), 0);
    let wire_len = data.len() as u32;
    // Some are cut: there, libpcap loads more.
    data.truncate(dice.one_of(&[30, 60, 4000, 4000, 4000]));
    Packet { data, wire_len }
}

#[test]
fn the_headers_of_802_11_and_their_payloads_are_found_as_by_libpcap() {
    if !oracle_is_there() {
        return;
    }
    let carried = corpus::ethernet();
    let mut wrong = Vec::new();
    for link in LINKS {
        let mut dice = Dice(0x80211 ^ u64::from(link));
        let packets = (0..4000)
            .map(|_| packet(&mut dice, link, &carried))
            .collect();
        let corpus = Corpus::with(link, packets);
        for expression in EXPRESSIONS
            .lines()
            .map(str::trim)
            .filter(|it| !it.is_empty())
        {
            let expected = match corpus.kept_by_tcpdump(expression) {
                Ok(expected) => expected,
                Err(error) => {
                    // libpcap has no types on PPI.
                    assert!(link == 192, "{link}: {expression}: {error}");
                    assert!(compiled(expression, link).is_ok(), "{expression}");
                    continue;
                }
            };
            let kept = compiled(expression, link).map(|program| corpus.kept(&program));
            let mut tell = |what: String| wrong.push(format!("link {link}: {expression}: {what}"));
            let kept = match kept {
                Ok(kept) => kept,
                Err(error) => {
                    tell(error.to_string());
                    continue;
                }
            };
            if expected.is_empty() || expected.len() == corpus.packets.len() {
                tell(format!("accepts {}", expected.len()));
            }
            let is_cut = |number: &usize| corpus.packets[*number].data.len() < 400;
            let missing = expected.iter().find(|it| !kept.contains(it));
            let extra = kept.iter().find(|it| !expected.contains(it) && !is_cut(it));
            if let Some(number) = missing.or(extra) {
                let data = &corpus.packets[*number].data;
                let shown = &data[..data.len().min(200)];
                tell(format!(
                    "missing {missing:?}, extra {extra:?}: {shown:02x?}"
                ));
            }
        }
    }
    none_differ(&wrong);
}
