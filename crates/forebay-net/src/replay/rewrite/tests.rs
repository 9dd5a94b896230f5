//! Rewritten frames: the expected bytes, and checksums that are computed here from the whole datagram.

use super::{Outcome, Rewrite};
use forebay::packet::{Pool, PoolConfig};
use forebay_testing::dice::Dice;

const V4: [u8; 8] = [10, 0, 0, 1, 10, 0, 1, 2];

fn total(bytes: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// The sum of a datagram and its pseudo-header: 0xffff if its checksum is right.
fn total_with(addresses: &[u8], protocol: u8, datagram: &[u8]) -> u16 {
    let len = (datagram.len() as u16).to_be_bytes();
    total(&[addresses, &len, &[0, protocol], datagram].concat())
}

/// A TCP, UDP or ICMPv6 datagram with a right checksum, for these addresses.
fn datagram(protocol: u8, addresses: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = match protocol {
        6 => vec![
            0, 80, 0x1f, 0x90, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
        ],
        17 => vec![0, 80, 0x1f, 0x90, 0, 0, 0, 0],
        _ => vec![128, 0, 0, 0, 0, 1, 0, 1],
    };
    bytes.extend_from_slice(payload);
    let len = bytes.len() as u16;
    if protocol == 17 {
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
    }
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let checksum = !total_with(addresses, protocol, &bytes);
    bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// `fragment`: the flags and offset.
fn ipv4(protocol: u8, fragment: u16, datagram: &[u8]) -> Vec<u8> {
    let mut header = vec![0x46, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0];
    header.extend(V4);
    header.extend([1, 1, 1, 0]); // options
    header[2..4].copy_from_slice(&((24 + datagram.len()) as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    let checksum = !total(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    ethernet(0x0800, &[&header[..], datagram].concat())
}

fn v6_addresses() -> Vec<u8> {
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    [address(1), address(2)].concat()
}

/// `extensions`: headers before the datagram. The first one is of the type `next`.
fn ipv6(next: u8, extensions: &[u8], datagram: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    header[4..6].copy_from_slice(&((extensions.len() + datagram.len()) as u16).to_be_bytes());
    header.extend(v6_addresses());
    ethernet(0x86dd, &[&header[..], extensions, datagram].concat())
}

fn rewritten_of(text: &str, frame: &[u8], wire_len: usize) -> (Vec<u8>, Outcome) {
    let config = PoolConfig {
        slots: 1,
        slot_bytes: 4096,
        ..PoolConfig::default()
    };
    let mut pool = Pool::new(&config).unwrap();
    let mut packet = pool.take().unwrap();
    let room = packet.put(frame.len() as u32).unwrap();
    room.copy_from_slice(frame);
    let rewrite: Rewrite = text.parse().unwrap();
    let outcome = rewrite.apply(&mut packet, wire_len as u32);
    (packet.to_vec(), outcome)
}

fn rewritten(text: &str, frame: &[u8]) -> Vec<u8> {
    let (bytes, outcome) = rewritten_of(text, frame, frame.len());
    assert_eq!(
        outcome,
        Outcome {
            changed: bytes != frame,
            incomplete: false
        },
        "{text}"
    );
    bytes
}

/// Whether the header checksum and the datagram's are right. The datagram begins at `at`.
fn is_right_v4(frame: &[u8], protocol: u8) -> bool {
    let (header, datagram) = (&frame[14..38], &frame[38..]);
    total(header) == 0xffff && total_with(&header[12..20], protocol, datagram) == 0xffff
}

fn is_right_v6(frame: &[u8], protocol: u8, at: usize) -> bool {
    total_with(&frame[22..54], protocol, &frame[at..]) == 0xffff
}

#[test]
fn addresses_and_ports_change_and_right_checksums_stay_right() {
    for protocol in [6, 17] {
        for payload in [&b"x"[..], b"even", &[0xff; 999]] {
            let frame = ipv4(protocol, 0x4000, &datagram(protocol, &V4, payload));
            assert!(is_right_v4(&frame, protocol));
            let text =
                "ip=10.0.0.0/16=172.16.0.0/16,port=80=65535,port-dst=8080=1,mac-src=6:5:4:3:2:1";
            let after = rewritten(text, &frame);
            assert_eq!(after[26..34], [172, 16, 0, 1, 172, 16, 1, 2]);
            assert_eq!(after[38..42], [0xff, 0xff, 0, 1]);
            assert_eq!(after[..12], [2, 0, 0, 0, 0, 1, 6, 5, 4, 3, 2, 1]);
            assert!(is_right_v4(&after, protocol));
            // And back again.
            let back = "ip=172.16.0.0/16=10.0.0.0/16,port=65535=80,port=1=8080,mac=6:5:4:3:2:1=2:0:0:0:0:2";
            assert_eq!(rewritten(back, &after), frame);
        }
    }
}

#[test]
fn ipv6_changes_as_ipv4_does_also_after_extension_headers() {
    let text = "ip-src=2001:db8::/32=fd00:1::/32,port=80=81";
    for protocol in [6, 17, 58] {
        let inner = datagram(protocol, &v6_addresses(), b"payload");
        let hop_by_hop = [protocol, 0, 1, 4, 0, 0, 0, 0];
        for (next, extensions) in [(protocol, &[][..]), (0, &hop_by_hop[..])] {
            let frame = ipv6(next, extensions, &inner);
            let at = 54 + extensions.len();
            assert!(is_right_v6(&frame, protocol, at));
            let after = rewritten(text, &frame);
            assert_eq!(after[22..26], [0xfd, 0, 0, 1]);
            assert_eq!(after[38..54], frame[38..54], "the destination stays");
            assert!(is_right_v6(&after, protocol, at), "protocol {protocol}");
        }
    }
}

#[test]
fn a_wrong_checksum_stays_wrong_unless_checksums_are_computed() {
    let mut frame = ipv4(6, 0, &datagram(6, &V4, b"text"));
    frame[54] ^= 1; // of TCP
    let after = rewritten("ip=10.0.0.1=10.0.0.9", &frame);
    assert!(!is_right_v4(&after, 6));
    assert_eq!(total(&after[14..38]), 0xffff);
    for protocol in [6, 17] {
        let right = ipv4(protocol, 0, &datagram(protocol, &V4, b"text"));
        let mut wrong = right.clone();
        wrong[24] ^= 7;
        wrong[if protocol == 6 { 54 } else { 44 }] ^= 9;
        assert_eq!(rewritten("checksums", &wrong), right);
        assert_eq!(rewritten("checksums", &right), right);
        assert!(is_right_v4(
            &rewritten("checksums,port=80=1", &wrong),
            protocol
        ));
    }
    let right = ipv6(58, &[], &datagram(58, &v6_addresses(), b"ping"));
    let mut wrong = right.clone();
    wrong[56] ^= 1;
    assert_eq!(rewritten("checksums", &wrong), right);
}

#[test]
fn udp_without_a_checksum_gets_none_and_a_sum_of_zero_is_written_as_ones() {
    let mut frame = ipv4(17, 0, &datagram(17, &V4, b"text"));
    frame[44..46].fill(0);
    let after = rewritten("ip=10.0.0.1=10.0.0.9,checksums", &frame);
    assert_eq!(after[44..46], [0, 0]);
    // Over all ports, some checksum becomes 0.
    let frame = ipv4(17, 0, &datagram(17, &V4, b"text"));
    let mut ones = 0;
    for port in 0..=u16::MAX {
        let after = rewritten(&format!("port=80={port}"), &frame);
        assert_ne!(after[44..46], [0, 0], "port {port}");
        ones += usize::from(after[44..46] == [0xff, 0xff]);
    }
    assert!(ones >= 1);
}

#[test]
fn the_checksum_in_a_first_fragment_is_mended_and_later_fragments_have_none() {
    let whole = datagram(17, &V4, &[7; 64]);
    let first = ipv4(17, 0x2000, &whole[..40]);
    let second = ipv4(17, 5, &whole[40..]);
    let text = "ip=10.0.0.0/8=11.0.0.0/8,port=80=8";
    let (first, second) = (rewritten(text, &first), rewritten(text, &second));
    let joined = [&first[38..], &second[38..]].concat();
    assert_eq!(total_with(&first[26..34], 17, &joined), 0xffff);
    assert_eq!(total(&second[14..38]), 0xffff);
    // They cannot be computed anew without the other part.
    let fragment = ipv4(17, 0x2000, &whole[..40]);
    assert!(
        rewritten_of("checksums", &fragment, fragment.len())
            .1
            .incomplete
    );
    // IPv6: the same with a fragment header.
    let whole = datagram(58, &v6_addresses(), &[7; 64]);
    let first = ipv6(44, &[58, 0, 0, 1, 0, 0, 0, 9], &whole[..40]);
    let second = ipv6(44, &[58, 0, 0, 40, 0, 0, 0, 9], &whole[40..]);
    let text = "ip-dst=2001:db8::2=2001:db8::7:2";
    let (first, second) = (rewritten(text, &first), rewritten(text, &second));
    let joined = [&first[62..], &second[62..]].concat();
    assert_eq!(total_with(&first[22..54], 58, &joined), 0xffff);
}

#[test]
fn cut_frames_are_mended_as_far_as_they_go_and_counted() {
    let frame = ipv4(6, 0, &datagram(6, &V4, &[3; 500]));
    let text = "ip=10.0.0.0/8=11.0.0.0/8,port=80=8";
    let whole = rewritten(text, &frame);
    for len in 0..frame.len() {
        let (after, outcome) = rewritten_of(text, &frame[..len], frame.len());
        assert_eq!(outcome.incomplete, len < 56, "{len} bytes");
        if len >= 56 {
            assert_eq!(after, whole[..len]);
        }
    }
    let (_, outcome) = rewritten_of("checksums", &frame[..100], frame.len());
    assert!(outcome.incomplete);
}

#[test]
fn only_the_address_of_a_routing_header_that_counts_is_in_the_checksum() {
    let mut last = v6_addresses();
    last[16..].copy_from_slice(&[9; 16]); // the final destination
    let inner = datagram(17, &last, b"text");
    let routing = [&[17, 2, 2, 1, 0, 0, 0, 0][..], &[9; 16]].concat();
    let frame = ipv6(43, &routing, &inner);
    let after = rewritten("ip=2001:db8::/64=2001:db9::/64", &frame);
    let addresses = [&after[22..38], &[9; 16]].concat();
    assert_eq!(total_with(&addresses, 17, &after[78..]), 0xffff);
}

#[test]
fn tags_are_set_changed_added_and_removed() {
    let plain = ipv4(17, 0, &datagram(17, &V4, b"text"));
    let tagged = |tags: &[[u8; 4]]| [&plain[..12], &tags.concat(), &plain[12..]].concat();
    let one = tagged(&[[0x81, 0, 0xa0, 5]]);
    let two = tagged(&[[0x88, 0xa8, 0, 9], [0x81, 0, 0xa0, 5]]);
    assert_eq!(rewritten("vlan=none", &two), plain);
    assert_eq!(rewritten("vlan=none", &plain), plain);
    assert_eq!(rewritten("vlan=7", &one), tagged(&[[0x81, 0, 0xa0, 7]]));
    assert_eq!(rewritten("vlan=7", &plain), tagged(&[[0x81, 0, 0, 7]]));
    assert_eq!(
        rewritten("vlan=5=7,vlan=7=5", &one),
        tagged(&[[0x81, 0, 0xa0, 7]])
    );
    assert_eq!(rewritten("vlan=5=7", &two), two, "only the outer tag");
    assert_eq!(rewritten("vlan=5=7", &plain), plain);
    let both = rewritten("vlan=none,ip=10.0.0.1=10.0.0.3", &two);
    assert_eq!(both[26..30], [10, 0, 0, 3]);
    assert!(is_right_v4(&both, 17));
}

#[test]
fn addresses_in_arp_change_and_other_protocols_are_left_alone() {
    let request = [
        &[0, 1, 8, 0, 6, 4, 0, 1][..],
        &[2; 6],
        &[10, 0, 0, 1],
        &[0; 6],
        &[10, 0, 0, 2],
    ]
    .concat();
    let after = rewritten(
        "mac-src=4:4:4:4:4:4,mac-dst=5:5:5:5:5:5",
        &ethernet(0x0806, &request),
    );
    assert_eq!((&after[22..28], &after[32..38]), (&[4; 6][..], &[0; 6][..]));
    let mut answer = request.clone();
    answer[18..24].fill(3);
    let after = rewritten("mac-dst=5:5:5:5:5:5", &ethernet(0x0806, &answer));
    assert_eq!((&after[22..28], &after[32..38]), (&[2; 6][..], &[5; 6][..]));
    let after = rewritten("ip=10.0.0.0/24=10.9.9.0/24", &ethernet(0x0806, &request));
    assert_eq!(
        (&after[28..32], &after[38..42]),
        (&[10, 9, 9, 1][..], &[10, 9, 9, 2][..])
    );
    let other = ethernet(0x88cc, &[10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(
        rewritten("ip=10.0.0.0/24=10.9.9.0/24,port=80=1,checksums", &other),
        other
    );
    // SCTP has a checksum that does not cover the addresses, and its ports are not changed.
    let sctp = ipv4(132, 0, &[0, 80, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(rewritten("port=80=1", &sctp), sctp);
}

/// An ICMP message over IPv4, with a right checksum.
fn icmp(kind: u8, rest: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 1, 0, 0], &rest[..], quoted].concat();
    let checksum = !total(&message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    ipv4(1, 0, &message)
}

/// The same over IPv6; `body` follows the checksum.
fn icmp6(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0], body].concat();
    let checksum = !total_with(&v6_addresses(), 58, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    ipv6(58, &[], &message)
}

#[test]
fn quoted_packets_change_as_they_would_themselves() {
    let text = "ip-src=10.0.0.1=172.16.0.9,ip=10.0.0.0/16=192.168.0.0/16,port=80=8,port-dst=8080=1,ip=2001:db8::/32=fd00::/32";
    for protocol in [6, 17] {
        let quoted = ipv4(protocol, 0x4000, &datagram(protocol, &V4, &[9; 71]));
        let itself = rewritten(text, &quoted);
        // 8 bytes of the datagram are quoted, or more; the last byte may have no partner.
        for len in [8, 18, 20, 31, 40] {
            for kind in [3, 4, 5, 11, 12] {
                let gateway = [10, 0, 9, 9];
                let after = rewritten(text, &icmp(kind, gateway, &quoted[14..38 + len]));
                assert_eq!(
                    after[46..],
                    itself[14..38 + len],
                    "type {kind}, {len} bytes"
                );
                assert_eq!(total(&after[38..]), 0xffff, "type {kind}, {len} bytes");
                assert_eq!(after[26..30], [172, 16, 0, 9]);
                let is_changed = after[42..46] == [192, 168, 9, 9];
                assert_eq!(is_changed, kind == 5, "only a redirect has a gateway");
            }
        }
        let quoted = ipv6(
            protocol,
            &[],
            &datagram(protocol, &v6_addresses(), &[9; 71]),
        );
        let itself = rewritten(text, &quoted);
        for kind in 1..=4 {
            let body = [&[0, 0, 5, 0], &quoted[14..90]].concat();
            let after = rewritten(text, &icmp6(kind, &body));
            assert_eq!(after[62..], itself[14..90], "type {kind}");
            assert!(is_right_v6(&after, 58, 54));
        }
    }
    // What only looks like a quoted packet stays, and so does a checksum that is not wanted.
    let quoted = ipv4(17, 0, &datagram(17, &V4, b""));
    let echo = icmp(0, [0; 4], &quoted[14..]);
    assert_eq!(rewritten(text, &echo)[46..], quoted[14..]);
    let mut unchecked = quoted.clone();
    unchecked[44..46].fill(0);
    let after = rewritten(text, &icmp(3, [0; 4], &unchecked[14..]));
    assert_eq!(after[76..78], [0, 0]);
    // With `checksums`, the checksums of quoted packets are still updated by the difference.
    let cut = &quoted[14..44];
    let after = rewritten(&format!("{text},checksums"), &icmp(3, [0; 4], cut));
    assert_eq!(total(&after[38..]), 0xffff);
    // A padded frame: what follows the datagram is no part of the quoted packet.
    let mut padded = icmp(3, [0; 4], &quoted[14..42]);
    let expected = rewritten(text, &padded);
    padded.extend([0; 9]);
    assert_eq!(rewritten(text, &padded), [&expected[..], &[0; 9]].concat());
}

#[test]
fn neighbour_discovery_names_the_new_addresses() {
    let [me, other, third] =
        [1, 2, 7].map(|last| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat());
    let moved = |address: &[u8]| [&[0xfd, 0, 0, 9], &address[4..]].concat();
    let link = |kind: u8, last: u8| vec![kind, 1, 2, 0, 0, 0, 0, last];
    let text =
        "ip=2001:db8::/32=fd00:9::/32,mac=2:0:0:0:0:1=6:0:0:0:0:1,mac=2:0:0:0:0:2=6:0:0:0:0:2";
    let prefix = |bits: u8, address: &[u8]| [&[3, 4, bits, 0xc0], &[7; 12][..], address].concat();
    let servers = |a: &[u8], b: &[u8]| [&[25, 5, 0, 0, 0, 0, 0, 9], a, b].concat();
    let quoted = ipv6(17, &[], &datagram(17, &v6_addresses(), b""));
    let header = [4, 7, 0, 0, 0, 0, 0, 0];
    let redirected = |ip: &[u8]| [&header[..], &ip[14..]].concat();
    let itself = rewritten(text, &quoted);
    let new = |kind: u8, last: u8| [kind, 1, 6, 0, 0, 0, 0, last].to_vec();
    let route = |bytes: &[u8]| [&[24, 2, 32, 0, 0, 0, 0, 1], bytes].concat();
    for (kind, before, after) in [
        (
            133,
            vec![vec![0; 4], link(1, 1)],
            vec![vec![0; 4], new(1, 1)],
        ),
        (
            134,
            vec![
                vec![5; 12],
                link(1, 2),
                prefix(64, &me),
                servers(&me, &third),
            ],
            vec![
                vec![5; 12],
                new(1, 2),
                prefix(64, &moved(&me)),
                servers(&moved(&me), &moved(&third)),
            ],
        ),
        // A change of longer prefixes says nothing about this one.
        (
            134,
            vec![vec![5; 12], prefix(16, &me)],
            vec![vec![5; 12], prefix(16, &me)],
        ),
        (
            134,
            vec![vec![5; 12], route(&me[..8])],
            vec![vec![5; 12], route(&moved(&me)[..8])],
        ),
        (
            135,
            vec![vec![0; 4], other.clone(), link(1, 1)],
            vec![vec![0; 4], moved(&other), new(1, 1)],
        ),
        (
            136,
            vec![vec![0; 4], me.clone(), link(2, 2)],
            vec![vec![0; 4], moved(&me), new(2, 2)],
        ),
        (
            137,
            vec![
                vec![0; 4],
                third.clone(),
                other.clone(),
                link(2, 1),
                redirected(&quoted),
            ],
            vec![
                vec![0; 4],
                moved(&third),
                moved(&other),
                new(2, 1),
                redirected(&itself),
            ],
        ),
        // Options that are not known stay.
        (
            136,
            vec![vec![0; 4], me.clone(), link(99, 2)],
            vec![vec![0; 4], moved(&me), link(99, 2)],
        ),
    ] {
        let frame = icmp6(kind, &before.concat());
        let changed = rewritten(text, &frame);
        assert_eq!(changed[58..], after.concat(), "type {kind}");
        assert!(is_right_v6(&changed, 58, 54), "type {kind}");
        // A frame that ends earlier is counted.
        for len in [56, 60, frame.len() - 9, frame.len() - 1] {
            let (_, outcome) = rewritten_of(text, &frame[..len], frame.len());
            assert!(outcome.incomplete, "type {kind}, {len} bytes");
        }
        // The check sequence after it is not an option.
        let longer = [&frame[..], &[1, 1, 2, 0]].concat();
        assert_eq!(
            rewritten(text, &longer),
            [&changed[..], &[1, 1, 2, 0]].concat()
        );
    }
    // Sides: the target of a solicitation is a destination, that of an advertisement a source.
    let [solicited, advertised] = [135, 136].map(|kind| {
        let frame = icmp6(
            kind,
            &[vec![0; 4], third.clone(), link(kind - 134, 9)].concat(),
        );
        let after = rewritten("ip-src=2001:db8::7=fd00::7,mac-src=4:4:4:4:4:4", &frame);
        assert_eq!(after[80..86], [4; 6], "both have the address of the sender");
        after[62] == 0xfd
    });
    assert_eq!([solicited, advertised], [false, true]);
    // The group of a solicitation has the last bytes of the target.
    let mut group = icmp6(135, &[vec![0; 4], third.clone()].concat());
    group[38..51].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
    for (text, incomplete) in [
        ("ip=2001:db8::7=fd00::7", false),
        ("ip=2001:db8::7=fd00::8", true),
    ] {
        let (_, outcome) = rewritten_of(text, &group, group.len());
        assert_eq!(
            (outcome.changed, outcome.incomplete),
            (true, incomplete),
            "{text}"
        );
    }
}

#[test]
fn messages_that_are_cut_or_damaged_are_counted_if_a_change_may_be_due() {
    let quoted = ipv4(6, 0, &datagram(6, &V4, b"text"));
    let frame = icmp(11, [0; 4], &quoted[14..46]);
    for len in 38..frame.len() {
        let (_, outcome) = rewritten_of("ip=10.0.0.0/8=11.0.0.0/8", &frame[..len], frame.len());
        assert!(outcome.incomplete, "{len} bytes");
        let (_, outcome) = rewritten_of("mac-src=2:0:0:0:0:9,vlan=7", &frame[..len], frame.len());
        assert!(!outcome.incomplete, "{len} bytes");
    }
    let no_packet = icmp(3, [0; 4], &[0; 28]);
    assert!(
        rewritten_of("ip=10.0.0.1=10.0.0.9", &no_packet, no_packet.len())
            .1
            .incomplete
    );
    // Options of a length that they cannot have: servers of names with half an address, and a prefix with a part of one.
    for option in [[25, 2], [25, 1], [3, 2]] {
        let mut body = [0; 12 + 16 + 8];
        body[12..14].copy_from_slice(&option);
        body[20..].fill(0x20);
        let frame = icmp6(134, &body);
        let (bytes, outcome) = rewritten_of("ip=2020::/16=fd00::/16", &frame, frame.len());
        assert!(outcome.incomplete && bytes == frame, "{option:?}");
    }
    let no_length = icmp6(133, &[0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 1]);
    assert!(
        rewritten_of("mac-src=2:0:0:0:0:9", &no_length, no_length.len())
            .1
            .incomplete
    );
}

#[test]
fn damaged_frames_do_no_harm() {
    let mut dice = Dice(26);
    let seeds = [
        ipv4(6, 0, &datagram(6, &V4, b"text")),
        ipv6(
            0,
            &[17, 0, 1, 4, 0, 0, 0, 0],
            &datagram(17, &v6_addresses(), b"text"),
        ),
        ethernet(0x8100, &[0, 5, 0x81, 0, 0, 6, 8, 6, 0, 1, 8, 0, 6, 4]),
        icmp(
            5,
            [10, 0, 0, 1],
            &ipv4(17, 0, &datagram(17, &V4, b"text"))[14..],
        ),
        icmp6(
            137,
            &[
                &[0; 36][..],
                &[1, 1, 2, 0, 0, 0, 0, 1, 25, 3],
                &[7; 22],
                &[24, 2],
                &[9; 14],
            ]
            .concat(),
        ),
    ];
    let text = "mac-dst=1:2:3:4:5:6,ip=0.0.0.0/0=1.2.3.4/0,ip=::/0=::1/0,port=80=1,vlan=none,vlan=7,checksums";
    for round in 0..20_000 {
        let mut frame = seeds[round % seeds.len()].clone();
        for _ in 0..dice.below(4u64) {
            let at = dice.below(frame.len());
            frame[at] = dice.byte();
        }
        frame.truncate(dice.below(frame.len() + 1));
        rewritten_of(text, &frame, frame.len() + round % 2);
    }
}
