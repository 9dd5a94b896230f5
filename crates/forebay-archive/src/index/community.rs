//! The Community ID of a flow, version 1 with seed 0, as Zeek, Suricata and Wireshark compute it.
//!
//! Source: github.com/corelight/community-id-spec.

use super::flow::Flow;
use sha1::{Digest, Sha1};
use std::net::IpAddr;

/// The Community ID, `1:` and 28 letters. `None`: the flow has no addresses, or is ARP.
pub fn id(flow: &Flow) -> Option<String> {
    let mut text = String::with_capacity(30);
    put(flow, &mut text).then_some(text)
}

/// Appends [`id`] to a text. `false`: the flow has none.
pub(crate) fn put(flow: &Flow, text: &mut String) -> bool {
    let (Some(protocol), Some(hosts)) = (flow.protocol(), flow.hosts()) else {
        return false;
    };
    let mut ends = [0, 1].map(|end| {
        let (mut bytes, mut len) = ([0; 16], 16);
        match hosts[end] {
            IpAddr::V4(host) => {
                len = 4;
                bytes[..4].copy_from_slice(&host.octets());
            }
            IpAddr::V6(host) => bytes = host.octets(),
        }
        (bytes, len, flow.ports[end])
    });
    let [a, b] = &ends;
    if (&a.0[..a.1], a.2) > (&b.0[..b.1], b.2) && !flow.is_one_way() {
        ends.swap(0, 1);
    }
    // The seed, the addresses, the protocol and a zero, the ports.
    let mut hashed = [0; 40];
    let mut len = 2;
    let mut add = |bytes: &[u8]| {
        hashed[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    for (address, len, _) in &ends {
        add(&address[..*len]);
    }
    add(&[protocol, 0]);
    if flow.port_pair().is_some() {
        for (.., port) in &ends {
            add(&port.to_be_bytes());
        }
    }
    text.push_str("1:");
    base64(&Sha1::digest(&hashed[..len]), text);
    true
}

/// Appends the 20 bytes of a SHA-1 in base64.
fn base64(bytes: &[u8], text: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for letter in 0..4 {
            match letter <= three.len() {
                true => text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63].into()),
                false => text.push('='),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_net::port::LinkType;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A packet of this protocol; `ports` are the first four bytes of its payload, or type and code of ICMP.
    fn packet(from: &str, to: &str, protocol: u8, ports: [u16; 2]) -> Flow {
        let icmp = matches!(protocol, 1 | 58);
        let payload = match icmp {
            true => vec![ports[0] as u8, ports[1] as u8, 0, 0],
            false => [ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat(),
        };
        let mut bytes = match from.parse::<Ipv4Addr>() {
            Ok(from) => {
                let mut ip = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, protocol, 0, 0];
                ip.extend(from.octets());
                ip.extend(to.parse::<Ipv4Addr>().unwrap().octets());
                ip
            }
            Err(_) => {
                let mut ip = vec![0x60, 0, 0, 0, 0, 4, protocol, 64];
                ip.extend(from.parse::<Ipv6Addr>().unwrap().octets());
                ip.extend(to.parse::<Ipv6Addr>().unwrap().octets());
                ip
            }
        };
        bytes.extend(payload);
        Flow::of(LinkType::RAW, &bytes).0
    }

    /// Addresses, protocol, ports, and the ID that the reference implementation (`communityid` on PyPI, version 1.5.0) computes.
    const EXAMPLES: [&str; 14] = [
        "128.232.110.120 66.35.250.204 6 34855 80 1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
        "66.35.250.204 128.232.110.120 6 80 34855 1:LQU9qZlK+B5F3KDmev6m5PMibrg=",
        "192.168.1.52 8.8.8.8 17 54585 53 1:d/FP5EW3wiY1vCndhwleRRKHowQ=",
        "8.8.8.8 192.168.1.52 17 53 54585 1:d/FP5EW3wiY1vCndhwleRRKHowQ=",
        "192.168.170.8 192.168.170.20 132 7 80 1:gFaHI1laWtpQlwRSTE0djem/ECM=",
        "192.168.0.89 192.168.0.1 1 8 0 1:X0snYXpgwiv9TZtqg64sgzUn6Dk=",
        "192.168.0.1 192.168.0.89 1 0 0 1:X0snYXpgwiv9TZtqg64sgzUn6Dk=",
        "192.168.0.89 192.168.0.1 1 20 0 1:3o2RFccXzUgjl7zDpqmY7yJi8rI=",
        "192.168.0.89 192.168.0.1 1 20 1 1:tz/fHIDUHs19NkixVVoOZywde+I=",
        "192.168.0.1 192.168.0.89 1 20 0 1:xka8imJTHE0ZCHTDqMsnK5QKoh8=",
        "fe80::200:86ff:fe05:80da fe80::260:97ff:fe07:69ea 58 135 0 1:dGHyGvjMfljg6Bppwm3bg0LO8TY=",
        "fe80::260:97ff:fe07:69ea fe80::200:86ff:fe05:80da 58 136 0 1:dGHyGvjMfljg6Bppwm3bg0LO8TY=",
        "3ffe:507:0:1:260:97ff:fe07:69ea 3ffe:507:0:1:200:86ff:fe05:80da 58 3 0 1:NdobDX8PQNJbAyfkWxhtL2Pqp5w=",
        "10.1.24.4 10.1.12.1 46 0 0 1:/nQI4Rh/TtY3mf0R2gJFBkVlgS4=",
    ];

    #[test]
    fn published_examples_have_their_published_ids() {
        for example in EXAMPLES {
            let fields: Vec<&str> = example.split(' ').collect();
            let [from, to, protocol, one, other, expected] = fields[..] else {
                panic!("{example}");
            };
            let ports = [one, other].map(|it| it.parse().unwrap());
            let found = id(&packet(from, to, protocol.parse().unwrap(), ports));
            assert_eq!(found.as_deref(), Some(expected), "{example}");
        }
    }
}
