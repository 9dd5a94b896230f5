//! Headers that are found after others: tags that were put back, extension headers, tunnels.

use super::{
    Programs,
    tests::{ethernet, matches, packet, parse},
};
use crate::port::{Direction, Frame, Interface};

#[test]
fn a_frame_with_its_tag_put_back_is_seen_as_by_a_socket() {
    let mut data = packet(17, [10, 0, 0, 1], [10, 0, 0, 2], [1, 53]);
    let untagged = data.clone();
    data.splice(12..12, [0x81, 0, 0x60, 5]);
    let interface = Interface {
        socket_view: true,
        ..Interface::default()
    };
    let accepts = |text: &str, data: &[u8], direction| {
        let program = Programs::new(parse(text).unwrap()).of_interface(&interface);
        let frame = Frame::whole(data);
        program.accepts(&Frame { direction, ..frame })
    };
    use Direction::*;
    for text in ["udp port 53", "vlan 5 and host two", "ether[14] = 0x45"] {
        assert!(accepts(text, &data, Inbound), "{text}");
    }
    assert!(accepts("ether[11:4] != 0", &data, Inbound));
    assert!(!accepts("vlan", &untagged, Inbound) && !accepts("vlan 6", &data, Inbound));
    for (direction, expected) in [
        (Inbound, [true, false]),
        (Outbound, [false, true]),
        (Unknown, [false, false]),
    ] {
        let answers = ["inbound", "outbound"].map(|text| accepts(text, &data, direction));
        assert_eq!(answers, expected, "{direction:?}");
    }
    let refused =
        Programs::new(parse("ifindex 3").unwrap()).check(std::slice::from_ref(&interface));
    assert!(refused.unwrap_err().what().contains("only a live capture"));
    for len in 0..data.len() {
        accepts("vlan 5 and udp port 53", &data[..len], Inbound);
    }
}

#[test]
fn protochain_passes_authentication_headers_and_a_limited_number_of_others() {
    let ip6 = |headers: &[(u8, u8)], last: u8| {
        let mut frame = vec![0; 12];
        let next = |at: usize| headers.get(at).map_or(last, |header| header.0);
        frame.extend([0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, next(0), 64]);
        frame.resize(54, 51); // addresses that look like authentication headers
        for (at, (kind, len)) in headers.iter().enumerate() {
            let end = frame.len()
                + if *kind == 51 {
                    8 + 4 * *len as usize
                } else {
                    8 + 8 * *len as usize
                };
            frame.extend([next(at + 1), *len]);
            frame.resize(end, 51);
        }
        frame
    };
    for headers in [
        &[][..],
        &[(51, 4)],
        &[(0, 0), (51, 1), (60, 3)],
        &[(44, 0); 16],
    ] {
        let frame = ip6(headers, 6);
        assert!(matches("ip6 protochain 6", &frame) && matches("protochain \\tcp", &frame));
        assert!(matches("tcp", &frame) == headers.is_empty() || headers[0].0 == 44);
        assert!(!matches("ip6 protochain 17 or ip protochain 6", &frame));
        if let Some((kind, _)) = headers.last() {
            assert!(matches(&format!("protochain {kind}"), &frame));
        }
    }
    assert!(!matches("ip6 protochain 6", &ip6(&[(60, 0); 17], 6)));
    let short = ip6(&[(60, 0); 3], 6);
    assert!(!matches("protochain 6", &short[..short.len() - 8]));
    let mut ip = packet(51, [51; 4], [51; 4], [0x0604, 0]);
    assert!(matches("ip protochain 6", &ip) && !matches("tcp", &ip));
    ip[34] = 51;
    assert!(!matches("ip protochain 6", &ip)); // the next one is beyond the end
    let both = ethernet("protochain 6 or protochain 17 or vlan and protochain 58");
    assert!(both.instructions().len() < 2_000);
}

/// libpcap 1.10.3 does not know it.
#[test]
fn vxlan_moves_the_headers_to_the_inner_frame() {
    let inner = packet(6, [10, 0, 0, 3], [10, 0, 0, 4], [5000, 80]);
    let tunnel = |flags: u8, port: u16, header: &[u8], inner: &[u8]| {
        let ports = [9_u16, port, 0, 0].map(u16::to_be_bytes).concat();
        let vxlan = [flags, 0, 0, 0, 0, 0, 5, 0];
        [header, &ports, &vxlan, inner].concat()
    };
    let outer = packet(17, [10, 0, 0, 1], [10, 0, 0, 2], [0; 2]);
    let over_ipv4 = &outer[..34];
    let mut options = over_ipv4.to_vec();
    options[14] = 0x46;
    options.extend([1; 4]);
    let over_ipv6 = [
        &outer[..12],
        &[0x86, 0xDD, 0x60, 0, 0, 0, 0, 0, 17, 64],
        &[1; 32],
    ]
    .concat();
    let tagged = [&inner[..12], &[0x81, 0, 0, 7], &inner[12..]].concat();
    let tag_outside = [&over_ipv4[..12], &[0x81, 0, 0, 7], &over_ipv4[12..]].concat();
    for header in [over_ipv4, &options, &over_ipv6] {
        let frame = tunnel(0x08, 4789, header, &inner);
        for text in "vxlan;vxlan 5;vxlan 5 and tcp port 80;vxlan and host four;vxlan and ether src 2:0:0:0:0:2;vxlan and ether[14] = 0x45;\
            vxlan and tcp[2:2] = 80".split(';')
        {
            assert!(matches(text.trim(), &frame), "{text}");
        }
        for text in [
            "vxlan 6",
            "tcp",
            "vxlan and udp",
            "vxlan and vlan",
            "vxlan and vxlan",
        ] {
            assert!(!matches(text, &frame), "{text}");
        }
        assert!(!matches("vxlan", &tunnel(0, 4789, header, &inner)));
        assert!(!matches("vxlan", &tunnel(0x88, 4789, header, &inner)));
        assert!(!matches("vxlan", &tunnel(0x08, 4790, header, &inner)));
        assert!(matches(
            "vxlan and vlan 7 and tcp",
            &tunnel(0x08, 4789, header, &tagged)
        ));
        let twice = tunnel(0x08, 4789, header, &frame);
        assert!(matches("vxlan and vxlan 5 and port 80", &twice));
        for len in 0..frame.len() {
            assert_eq!(
                matches("vxlan 5 and tcp port 80", &frame[..len]),
                len >= header.len() + 54
            );
        }
    }
    let frame = tunnel(0x08, 4789, &tag_outside, &inner);
    assert!(matches("vlan 7 and vxlan 5 and tcp", &frame) && !matches("vxlan", &frame));
}
