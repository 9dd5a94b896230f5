//! What TCP and UDP carry: which formatter prints it, and the first lines of text protocols.

use super::{
    data::{Data, Printed},
    facts::Facts,
    printer::Printer,
    text::Text,
    tls::tls,
};

type Ports = (u16, u16);

fn has(ports: Ports, port: u16) -> bool {
    ports.0 == port || ports.1 == port
}

/// Ports on which every line of text belongs to HTTP.
const HTTP_PORTS: [u16; 5] = [80, 591, 3128, 8008, 8080];
/// Beginnings of requests and answers.
const HTTP_WORDS: [&[u8]; 11] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PATCH ",
    b"TRACE ",
    b"HTTP/1.",
    b"NOTIFY ",
];

const SSDP_WORDS: [&[u8]; 3] = [b"M-SEARCH ", b"NOTIFY ", b"HTTP/1."];
const SIP_WORDS: [&[u8]; 15] = [
    b"SIP/2.0 ",
    b"ACK ",
    b"BYE ",
    b"CANCEL ",
    b"INFO ",
    b"INVITE ",
    b"MESSAGE ",
    b"NOTIFY ",
    b"OPTIONS ",
    b"PRACK ",
    b"REFER ",
    b"REGISTER ",
    b"SUBSCRIBE ",
    b"UPDATE ",
    b"PUBLISH ",
];

impl Printer {
    /// Appends a summary of the data of a TCP segment, if it is of a known kind. Data that is cut short is no error here: most
    /// messages continue in the next segment.
    pub(super) fn tcp_payload(&mut self, data: Data<'_>, ports: Ports, out: &mut Text) {
        let (start, facts) = (out.len(), self.facts.len());
        let printed = if has(ports, 53) && data.len > 2 {
            // The message follows its length.
            self.dns(data.after(2), false, out)
        } else if let Some(line) = http(data.captured) {
            let start = out.put(": HTTP: ").len();
            out.foreign(line);
            http_facts(&mut self.facts, &out.bytes()[start..], data.captured);
            Ok(())
        } else if let Some(banner) = ssh_banner(data.captured) {
            out.put(": SSH: ").foreign(banner).done()
        } else if HTTP_PORTS.iter().any(|&port| has(ports, port)) {
            out.put(": HTTP").done()
        } else if data.captured.starts_with(&[22, 3]) {
            tls(data, &mut self.facts, out)
        } else {
            Ok(())
        };
        if printed.is_err() {
            out.truncate(start);
            self.facts.truncate(facts);
        }
    }

    /// Prints the data of a UDP datagram; `None` if it is of no known kind.
    pub(super) fn udp_payload(
        &mut self,
        data: Data<'_>,
        ports: Ports,
        out: &mut Text,
    ) -> Option<Printed> {
        let known = match ports {
            _ if [53, 5353, 5355].iter().any(|&port| has(ports, port)) => Some(("domain", 12)),
            (_, 4789 | 8472) | (8472, _) => Some(("VXLAN", 8)),
            _ if has(ports, 6081) => Some(("Geneve", 8)),
            _ => None,
        };
        if let Some((name, header)) = known
            && data.len < header
        {
            // The packet is complete: its sender made it too short.
            out.put(name).put(" [length ").num(data.len);
            return Some(out.put(" < ").num(header).put("] (invalid)").done());
        }
        Some(match ports {
            _ if has(ports, 53) || has(ports, 5355) => self.dns(data, false, out),
            _ if has(ports, 5353) => self.dns(data, true, out),
            _ if has(ports, 123) => self.ntp(data, out),
            _ if has(ports, 161) || has(ports, 162) => self.snmp(data, out),
            _ if has(ports, 514) => self.syslog(data, out),
            // tcpdump prints the length only.
            _ if has(ports, 1900) => {
                let line = line_with(&SSDP_WORDS, data.captured)?;
                out.put("UDP, length ").num(data.len);
                out.put(": SSDP: ").foreign(line).done()
            }
            _ if has(ports, 5060) => {
                out.put("SIP");
                match line_with(&SIP_WORDS, data.captured) {
                    None => {}
                    Some(line) if self.style.verbose == 0 => drop(out.put(": ").foreign(line)),
                    Some(_) => {
                        out.put(", length: ").num(data.len);
                        lines(data.captured, out);
                    }
                }
                Ok(())
            }
            _ if has(ports, 443) && is_quic(data) => self.quic(data, out),
            _ if has(ports, 67) || has(ports, 68) => self.dhcp(data, out),
            (_, 4789 | 8472) | (8472, _) => self.nested(|it| it.vxlan(data, out)),
            _ if has(ports, 6081) => self.nested(|it| it.geneve(data, out)),
            _ => return None,
        })
    }
}

/// The first line of a message of HTTP.
fn http(data: &[u8]) -> Option<&[u8]> {
    line_with(&HTTP_WORDS, data)
}

/// Adds the parts of a first line, and the host of a request whose header has one.
fn http_facts(facts: &mut Facts, line: &[u8], message: &[u8]) {
    if !facts.are_wanted {
        return;
    }
    let mut words = line.split(|&byte| byte == b' ');
    let (first, second) = (words.next(), words.next());
    let keys = match line.starts_with(b"HTTP/") {
        true => ["http.response", "", "http.status"],
        false => ["http.request", "http.method", "http.target"],
    };
    for (key, text) in keys.into_iter().zip([Some(line), first, second]) {
        if let (Some(text), false) = (text, key.is_empty()) {
            facts.add(key, text);
        }
    }
    let mut lines = message.split(|&byte| byte == b'\n').skip(1);
    let host = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(5)?;
        let is_host = name.eq_ignore_ascii_case(b"host:");
        is_host.then(|| value.trim_ascii())
    });
    if let Some(host) = host {
        let mut text = Text::default();
        facts.add("http.host", text.foreign(host).bytes());
    }
}

/// The first line, if it begins with one of these words, which begin with a capital letter.
fn line_with<'a>(words: &[&[u8]], data: &'a [u8]) -> Option<&'a [u8]> {
    let first = data.first()?;
    let is_begun = |word: &&[u8]| word[0] == *first && data.starts_with(word);
    if !first.is_ascii_uppercase() || !words.iter().any(is_begun) {
        return None;
    }
    let end = data.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    Some(&data[..end.unwrap_or(data.len())])
}

/// Each line of text on a new line, up to bytes that are not text.
fn lines(text: &[u8], out: &mut Text) {
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
            return;
        }
        out.put("\n\t").foreign(line);
    }
}

/// The version of a server or a client, if the line is complete.
fn ssh_banner(data: &[u8]) -> Option<&[u8]> {
    if !data.starts_with(b"SSH-") {
        return None;
    }
    let end = data.iter().position(|&byte| byte == b'\n')?;
    let line = data[..end].strip_suffix(b"\r").unwrap_or(&data[..end]);
    let is_text = line.iter().all(|byte| matches!(byte, b' '..=b'~'));
    is_text.then_some(line)
}

fn is_quic(data: Data<'_>) -> bool {
    data.u8(0).is_ok_and(|first| first & 0x40 != 0)
}

#[cfg(test)]
mod tests {
    use super::super::oracle_tests::{Owned, ours, untimed};
    use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};

    fn line_of(link: u16, data: &[u8]) -> String {
        let mut packet = Owned::of(data.to_vec());
        packet.link = link;
        ours(&[packet], &untimed()).remove(0).trim_end().to_owned()
    }

    fn ip() -> PacketBuilderStep<IpHeaders> {
        PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    }

    fn tcp(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let tcp = ip().tcp(40_000, port, 7, 1000);
        tcp.write(&mut packet, payload).unwrap();
        packet
    }

    fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let udp = ip().udp(40_000, port);
        udp.write(&mut packet, payload).unwrap();
        packet
    }

    /// A ClientHello with a session, two cipher suites and two extensions, the second with the server's name.
    fn hello() -> Vec<u8> {
        let name = b"www.example.org\x1b";
        let len = name.len() as u8;
        let mut extensions = vec![0, 23, 0, 0, 0, 0, 0, len + 5, 0, len + 3, 0, 0, len];
        extensions.extend(name);
        let mut body = [
            &[3, 3][..],
            &[9; 32],
            &[4, 1, 2, 3, 4],
            &[0, 4, 19, 1, 19, 2],
            &[1, 0],
        ]
        .concat();
        body.extend([0, extensions.len() as u8]);
        body.extend(extensions);
        let len = body.len() as u8;
        [&[22, 3, 1, 0, len + 4, 1, 0, 0, len][..], &body].concat()
    }

    #[test]
    fn payloads_are_summed_up_on_the_line() {
        for (packet, end) in [
            (
                tcp(80, b"GET /a HTTP/1.1\r\nHost: b\r\n"),
                "length 26: HTTP: GET /a HTTP/1.1",
            ),
            (
                tcp(8000, b"HTTP/1.1 200 \x1b[2J\r\n"),
                "length 19: HTTP: HTTP/1.1 200 \\033[2J",
            ),
            (tcp(80, b"more of it"), "length 10: HTTP"),
            (
                tcp(443, &hello()),
                "length 87: TLS ClientHello, server name www.example.org\\033",
            ),
            (tcp(443, &hello()[..30]), "length 30: TLS ClientHello"),
            (tcp(443, &[23, 3, 3, 0, 1, 1]), "length 6"),
            (
                udp(53, b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01"),
                "10.0.0.2.53: 7+ A? a. (19)",
            ),
            (
                udp(53, b""),
                "10.0.0.2.53: domain [length 0 < 12] (invalid)",
            ),
            (
                udp(53, &[7; 11]),
                "10.0.0.2.53: domain [length 11 < 12] (invalid)",
            ),
            (
                udp(4789, b""),
                "10.0.0.2.4789: VXLAN [length 0 < 8] (invalid)",
            ),
            (
                udp(6081, &[0; 4]),
                "10.0.0.2.6081: Geneve [length 4 < 8] (invalid)",
            ),
        ] {
            let line = line_of(1, &packet);
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn names_that_overlap_do_not_print_megabytes() {
        // Labels of 191 bytes that begin in each other, and questions that all point to them.
        let mut payload = vec![0, 7, 1, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0];
        payload.extend([191; 500]);
        payload.extend([0xc0, 12, 0, 1, 0, 1].repeat(150));
        let line = line_of(1, &udp(53, &payload));
        assert!(line.len() < 1000, "{} bytes", line.len());
        assert!(line.ends_with("[|domain]"), "{line}");
    }

    #[test]
    fn packets_in_tunnels_are_on_the_same_line() {
        let inner = udp(9, b"x");
        let vxlan = [&[8, 0, 0, 0, 0, 0, 42, 0], &inner[..]].concat();
        let geneve = [&[0, 0, 0x65, 0x58, 0, 0, 7, 0], &inner[..]].concat();
        let line = "IP 10.0.0.1.40000 > 10.0.0.2.9: UDP, length 1";
        let expected = format!("10.0.0.2.4789: VXLAN, flags [I] (0x08), vni 42: {line}");
        assert!(line_of(1, &udp(4789, &vxlan)).ends_with(&expected));
        let expected = format!("10.0.0.2.6081: Geneve, Flags [none], vni 0x7: {line}");
        assert!(line_of(1, &udp(6081, &geneve)).ends_with(&expected));
        let mut gre = inner[14..34].to_vec();
        gre[9] = 47;
        gre[2..4].copy_from_slice(&[0, 57]);
        gre.extend([0x20, 0, 8, 0, 0, 0, 0, 5]);
        gre.extend(&inner[14..]);
        let expected = format!("IP 10.0.0.1 > 10.0.0.2: GREv0, key=0x5, length 37: {line}");
        assert_eq!(line_of(101, &gre), expected);
        // More tunnels than anybody needs.
        let mut deep = inner;
        for _ in 0..30 {
            deep = udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0], &deep[..]].concat());
        }
        let line = line_of(1, &deep);
        assert!(line.ends_with("[|udp]"), "{line}");
    }

    #[test]
    fn other_link_types_show_their_packets_or_their_length() {
        let ip = &udp(9, b"x")[14..];
        let line = "IP 10.0.0.1.40000 > 10.0.0.2.9: UDP, length 1";
        let with = |header: &[u8]| [header, ip].concat();
        for (link, packet, expected) in [
            (101, with(&[]), line.to_owned()),
            (228, with(&[]), line.to_owned()),
            (0, with(&[2, 0, 0, 0]), line.to_owned()),
            (0, with(&[0, 0, 0, 2]), line.to_owned()),
            (108, with(&[0, 0, 0, 2]), line.to_owned()),
            (
                113,
                with(&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0]),
                line.to_owned(),
            ),
            (
                276,
                with(&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0]),
                format!("if3 Out {line}"),
            ),
            (9, with(&[0xff, 3, 0, 0x21]), line.to_owned()),
            (147, with(&[]), "USER0, length 29".to_owned()),
        ] {
            assert_eq!(line_of(link, &packet), expected, "{link}");
        }
        let ethernet = |header: &[u8]| line_of(1, &[&[4; 12], header, ip].concat());
        assert_eq!(ethernet(&[0x81, 0, 0, 5, 8, 0]), line);
        let labelled = ethernet(&[0x88, 0x47, 0, 1, 1, 64]);
        assert_eq!(
            labelled,
            format!("MPLS (label 16, tc 0, [S], ttl 64) {line}")
        );
        let in_session = ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 31, 0, 0x21]);
        assert_eq!(in_session, format!("PPPoE  [ses 0x1] {line}"));
    }
}
