//! One JSON object a packet, for `jq` and other programs: `--json-lines`.

use super::{
    address::Address,
    printer::{Packet, Printer},
    text::Text,
};
use etherparse::{EtherType, LaxPacketHeaders, LinkHeader, NetHeaders, TransportHeader};
use forebay_net::port::Direction;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// Escapes what a terminal would obey.
pub type Escape = fn(&Value) -> String;

/// Appends the object of `packet`, and a newline, to `out`.
pub fn line(printer: &mut Printer, packet: &Packet<'_>, escape: Escape, out: &mut Text) {
    let object = object(printer, packet);
    out.put(&escape(&Value::Object(object))).byte(b'\n');
}

/// The object of `packet`. `printer` makes the text of `info`; its style has no time.
pub fn object(printer: &mut Printer, packet: &Packet<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    let mut add = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    add("time_ns", packet.time_ns.into());
    if !packet.interface.is_empty() {
        add("interface", packet.interface.into());
    }
    match packet.direction {
        Direction::Inbound => add("direction", "in".into()),
        Direction::Outbound => add("direction", "out".into()),
        Direction::Unknown => {}
    }
    add("link_type", packet.link.0.into());
    add("captured", packet.captured.into());
    add("length", packet.wire_len.into());
    let ends = add_headers(packet, &mut add);
    let mut info = Text::default();
    printer.facts.are_wanted = true;
    printer.line(packet, &mut info);
    let info = String::from_utf8_lossy(info.bytes());
    add("info", info.trim_end().into());
    let keys = ["source_name", "destination_name"];
    for (key, address) in keys.into_iter().zip(ends.into_iter().flatten()) {
        let name = printer.hosts.as_ref().and_then(|it| it.name(address));
        if let Some(name) = name {
            add(key, name.into());
        }
    }
    printer.facts.add_to(&mut object);
    object
}

/// Adds what etherparse finds in the packet, and returns its addresses.
fn add_headers(packet: &Packet<'_>, add: &mut dyn FnMut(&str, Value)) -> Option<[Address; 2]> {
    let parsed = match packet.link.0 {
        1 => LaxPacketHeaders::from_ethernet(packet.data).ok(),
        113 => cooked(packet.data, 14, 16),
        276 => cooked(packet.data, 0, 20),
        12 | 14 | 101 | 228 | 229 => LaxPacketHeaders::from_ip(packet.data).ok(),
        0 | 108 => LaxPacketHeaders::from_ip(packet.data.get(4..).unwrap_or_default()).ok(),
        _ => None,
    };
    let parsed = parsed?;
    if let Some(LinkHeader::Ethernet2(header)) = &parsed.link {
        add("source_mac", mac(&header.source).into());
        add("destination_mac", mac(&header.destination).into());
        add("ethertype", header.ether_type.0.into());
    }
    let vlans = parsed.vlan_ids();
    if !vlans.is_empty() {
        let ids: Vec<_> = vlans.iter().map(|id| id.value()).collect();
        add("vlans", json!(ids));
    }
    let ip = match &parsed.net {
        Some(NetHeaders::Ipv4(header, _)) => Some((
            IpAddr::from(header.source),
            IpAddr::from(header.destination),
            header.protocol,
            header.time_to_live,
        )),
        Some(NetHeaders::Ipv6(header, _)) => Some((
            IpAddr::from(header.source),
            IpAddr::from(header.destination),
            header.next_header,
            header.hop_limit,
        )),
        _ => None,
    };
    if let Some((source, destination, protocol, ttl)) = ip {
        add("source", source.to_string().into());
        add("destination", destination.to_string().into());
        add("ip_protocol", protocol.0.into());
        add("ttl", ttl.into());
    }
    match &parsed.transport {
        Some(TransportHeader::Tcp(header)) => {
            add("source_port", header.source_port.into());
            add("destination_port", header.destination_port.into());
            let flags = [
                (header.fin, "FIN"),
                (header.syn, "SYN"),
                (header.rst, "RST"),
                (header.psh, "PSH"),
                (header.ack, "ACK"),
                (header.urg, "URG"),
                (header.ece, "ECE"),
                (header.cwr, "CWR"),
            ];
            let set = flags
                .iter()
                .filter(|(is_set, _)| *is_set)
                .map(|(_, name)| *name);
            add("tcp_flags", json!(set.collect::<Vec<_>>()));
            add("sequence", header.sequence_number.into());
            add("acknowledgment", header.acknowledgment_number.into());
            add("window", header.window_size.into());
        }
        Some(TransportHeader::Udp(header)) => {
            add("source_port", header.source_port.into());
            add("destination_port", header.destination_port.into());
        }
        Some(TransportHeader::Icmpv4(header)) => add("icmp_type", header.to_bytes()[0].into()),
        Some(TransportHeader::Icmpv6(header)) => add("icmp_type", header.to_bytes()[0].into()),
        Some(TransportHeader::Igmp(_)) | None => {}
    }
    let address = |it| match it {
        IpAddr::V4(it) => Address::V4(it.octets()),
        IpAddr::V6(it) => Address::V6(it.octets()),
    };
    ip.map(|(source, destination, ..)| [source, destination].map(address))
}

/// What follows a Linux "cooked" header, whose type is at this place.
fn cooked(data: &[u8], kind_at: usize, header: usize) -> Option<LaxPacketHeaders<'_>> {
    let kind = data.get(kind_at..kind_at + 2)?;
    let kind = EtherType(u16::from_be_bytes([kind[0], kind[1]]));
    Some(LaxPacketHeaders::from_ether_type(kind, data.get(header..)?))
}

fn mac(address: &[u8; 6]) -> String {
    let pairs = address.map(|byte| format!("{byte:02x}"));
    pairs.join(":")
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            messages::{self, dns, name, tcp, udp},
            printer::Style,
            times::Times,
        },
        *,
    };
    use forebay_net::port::LinkType;
    use forebay_testing::dice::Dice;

    fn object(frame: &[u8], verbose: u8) -> Value {
        let packet = Packet {
            link: LinkType::ETHERNET,
            interface: "",
            direction: Direction::Unknown,
            time_ns: 0,
            data: frame,
            captured: frame.len() as u32,
            wire_len: frame.len() as u32,
        };
        let style = Style {
            times: Times::None,
            verbose,
            ..Style::default()
        };
        let mut out = Text::default();
        line(
            &mut Printer::new(style),
            &packet,
            Value::to_string,
            &mut out,
        );
        serde_json::from_slice(out.bytes()).unwrap()
    }

    fn answer() -> Vec<u8> {
        let alias = name("b.example.org");
        let answers: &[(_, _, _, &[u8])] = &[
            ("a.example.org", 5, 1, &alias),
            ("b.example.org", 1, 1, &[192, 0, 2, 1]),
        ];
        udp([53, 4000], &dns(0x8180, ("a.example.org", 1, 1), answers))
    }

    const REQUEST: &[u8] = b"GET /a?b HTTP/1.1\r\nAccept: c\r\nhost: d.example.org\r\n\r\n";

    #[test]
    fn messages_of_dns_http_and_tls_have_keys() {
        let expected = json!({
            "id": 7, "query": "a.example.org.", "type": "A", "result": "NoError", "name": "a.example.org.",
            "answers": ["b.example.org.", "192.0.2.1"],
        });
        assert_eq!(object(&answer(), 0)["dns"], expected);
        let query = udp([4000, 53], &dns(0x100, ("a.example.org", 28, 1), &[]));
        let expected = json!({ "id": 7, "query": "a.example.org.", "type": "AAAA" });
        assert_eq!(object(&query, 0)["dns"], expected);
        let expected = json!({
            "request": "GET /a?b HTTP/1.1", "method": "GET", "target": "/a?b", "host": "d.example.org",
        });
        assert_eq!(object(&tcp([4000, 80], REQUEST), 0)["http"], expected);
        let response = tcp([80, 4000], b"HTTP/1.1 404 Not Found\r\n\r\n");
        let expected = json!({ "response": "HTTP/1.1 404 Not Found", "status": 404 });
        assert_eq!(object(&response, 0)["http"], expected);
        let hello = messages::hello("e.example.org");
        let len = (hello.len() as u16).to_be_bytes();
        let record = [&[22, 3, 1][..], &len, &hello].concat();
        let expected = json!({ "message": "ClientHello", "server_name": "e.example.org" });
        assert_eq!(object(&tcp([4000, 443], &record), 0)["tls"], expected);
    }

    #[test]
    fn facts_are_what_the_line_prints_and_do_not_depend_on_flags() {
        let mut dice = Dice(3);
        let mut all: Vec<_> = (0..20).flat_map(|_| messages::all(&mut dice)).collect();
        all.extend([answer(), tcp([4000, 80], REQUEST)]);
        let mut count = 0;
        for frame in all {
            let (brief, long) = (object(&frame, 0), object(&frame, 2));
            let info = long["info"].as_str().unwrap();
            for protocol in ["dns", "http", "tls"] {
                assert_eq!(brief[protocol], long[protocol]);
                for (key, value) in brief[protocol].as_object().into_iter().flatten() {
                    let is_printed = match value {
                        _ if ["host", "result"].contains(&&**key) => true,
                        Value::Array(all) => {
                            all.iter().all(|it| info.contains(it.as_str().unwrap()))
                        }
                        Value::String(text) => info.contains(&**text),
                        number => info.contains(&number.to_string()),
                    };
                    assert!(is_printed, "{key} {value} {info}");
                    count += 1;
                }
            }
        }
        assert!(count > 100, "{count}");
    }
}
