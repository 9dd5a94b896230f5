//! Display filters of Wireshark, where a capture filter is expected.

use forebay_net::filter::Filter;

/// Fields that a capture filter can test, and the words for them.
const FIELDS: &[(&str, &str)] = &[
    ("eth.addr", "ether host"),
    ("eth.dst", "ether dst"),
    ("eth.src", "ether src"),
    ("eth.type", "ether proto"),
    ("frame.len", "len ="),
    ("ip.addr", "host"),
    ("ip.dst", "dst host"),
    ("ip.host", "host"),
    ("ip.proto", "ip proto"),
    ("ip.src", "src host"),
    ("ip.ttl", "ip[8] ="),
    ("ipv6.addr", "host"),
    ("ipv6.dst", "dst host"),
    ("ipv6.src", "src host"),
    ("tcp.dstport", "tcp dst port"),
    ("tcp.port", "tcp port"),
    ("tcp.srcport", "tcp src port"),
    ("udp.dstport", "udp dst port"),
    ("udp.port", "udp port"),
    ("udp.srcport", "udp src port"),
    ("vlan.id", "vlan"),
];

/// Names of protocols that a capture filter knows only by their ports.
const PROTOCOLS: &[(&str, &str)] = &[
    ("bootp", "udp port 67 or 68"),
    ("dhcp", "udp port 67 or 68"),
    ("dns", "port 53"),
    ("http", "tcp port 80"),
    ("ipv6", "ip6"),
    ("icmpv6", "icmp6"),
    ("ntp", "udp port 123"),
    ("quic", "udp port 443"),
    ("ssh", "tcp port 22"),
    ("ssl", "tcp port 443"),
    ("tls", "tcp port 443"),
];

/// Protocols whose fields display filters test most.
const FAMILIES: &str =
    "arp bootp dhcp dns eth frame http http2 icmp icmpv6 ip ipv6 quic ssh tcp tls udp vlan wlan";

fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    Some(table.iter().find(|(it, _)| *it == name)?.1)
}

/// What to write instead of `text`, if it is a display filter.
pub fn advice(text: &str) -> Option<String> {
    let what = format!("'{text}' looks like a display filter of Wireshark");
    if let Some(filter) = as_capture_filter(text) {
        return Some(format!("{what}. The capture filter for it is: {filter}"));
    }
    let mut words =
        text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')));
    let is_field = words.any(|word| {
        let family = word.split_once('.').map(|(family, _)| family);
        family.is_some_and(|it| FAMILIES.split(' ').any(|known| known == it))
    });
    is_field.then(|| {
        format!("{what}. Capture filters are written as: tcp port 80 and host 192.0.2.1 (see forebay-filter(7))")
    })
}

/// The same test in the language of capture filters; `None` if there is no such test, or `text` is not a display filter.
pub fn as_capture_filter(text: &str) -> Option<String> {
    let mut spaced = text.to_owned();
    for operator in ["==", "!=", "&&", "||", "(", ")"] {
        spaced = spaced.replace(operator, &format!(" {operator} "));
    }
    // Not the one of `!=`.
    let spaced = spaced.replace('!', " ! ").replace("! =", "!=");
    let mut words = spaced.split_whitespace().peekable();
    let mut parts: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        let part = match word {
            "&&" | "and" => "and".into(),
            "||" | "or" => "or".into(),
            "!" | "not" => "not".into(),
            "(" | ")" => word.into(),
            field if let Some(test) = find(FIELDS, field) => {
                let not = match words.next()? {
                    "==" | "eq" => "",
                    "!=" | "ne" => "not ",
                    _ => return None,
                };
                let value = words.next()?;
                let test = match value.contains('/') {
                    true => test.replace("host", "net"),
                    false => test.into(),
                };
                format!("{not}{test} {value}")
            }
            name => find(PROTOCOLS, name).unwrap_or(name).into(),
        };
        parts.push(part);
    }
    let filter = parts.join(" ").replace("( ", "(").replace(" )", ")");
    (filter != text && filter.parse::<Filter>().is_ok()).then_some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_display_filters_are_translated() {
        for (typed, meant) in [
            ("tcp.port==80", "tcp port 80"),
            (
                "tcp.port == 80 && ip.addr == 10.0.0.1",
                "tcp port 80 and host 10.0.0.1",
            ),
            ("ip.addr==10.0.0.0/8", "net 10.0.0.0/8"),
            ("!(ip.src eq 10.0.0.1)", "not (src host 10.0.0.1)"),
            ("ip.src!=10.0.0.1", "not src host 10.0.0.1"),
            ("ipv6.addr==2001:db8::1", "host 2001:db8::1"),
            (
                "eth.addr==02:00:00:00:00:01",
                "ether host 02:00:00:00:00:01",
            ),
            ("vlan.id==5 and dns", "vlan 5 and port 53"),
            ("frame.len==60", "len = 60"),
            ("http", "tcp port 80"),
        ] {
            assert_eq!(as_capture_filter(typed).as_deref(), Some(meant), "{typed}");
        }
    }

    #[test]
    fn other_display_filters_are_recognised_and_other_text_is_not() {
        for typed in [
            "http.request",
            "tcp.flags.syn==1",
            "dns.qry.name contains x",
            "!tls.record",
        ] {
            assert_eq!(as_capture_filter(typed), None, "{typed}");
            assert!(advice(typed).unwrap().contains("tcp port 80"), "{typed}");
        }
        for typed in ["tcp prot 80", "www.example.org", "10.0.0.1", "port 80", ""] {
            assert_eq!(advice(typed), None, "{typed}");
        }
    }
}
