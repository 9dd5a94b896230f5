//! What TCP and UDP carry: which formatter prints it, and the short ones (HTTP, TLS).

use super::{
    Data, Printer, Text,
    data::{Cut, Printed},
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

impl Printer {
    /// Appends a summary of the data of a TCP segment, if it is of a known kind. Data that is cut short is no error here: most
    /// messages continue in the next segment.
    pub(super) fn tcp_payload(&mut self, data: Data<'_>, len: usize, ports: Ports, out: &mut Text) {
        let start = out.len();
        let printed = if has(ports, 53) && len > 2 {
            // The message follows its length.
            self.dns(data.after(2), len - 2, false, out)
        } else if let Some(line) = http(data.0) {
            out.put(": HTTP: ").foreign(line);
            Ok(())
        } else if HTTP_PORTS.iter().any(|&port| has(ports, port)) {
            out.put(": HTTP");
            Ok(())
        } else if data.0.starts_with(&[22, 3]) {
            tls(data, out)
        } else {
            Ok(())
        };
        if printed.is_err() {
            out.truncate(start);
        }
    }

    /// Prints the data of a UDP datagram; `None` if it is of no known kind.
    pub(super) fn udp_payload(
        &mut self,
        data: Data<'_>,
        len: usize,
        ports: Ports,
        out: &mut Text,
    ) -> Option<Printed> {
        Some(match ports {
            _ if has(ports, 53) || has(ports, 5355) => self.dns(data, len, false, out),
            _ if has(ports, 5353) => self.dns(data, len, true, out),
            _ if has(ports, 67) || has(ports, 68) => self.dhcp(data, len, out),
            (_, 4789 | 8472) | (8472, _) => self.nested(|it| it.vxlan(data, len, out)),
            _ if has(ports, 6081) => self.nested(|it| it.geneve(data, len, out)),
            _ => return None,
        })
    }
}

/// The first line of a message of HTTP.
fn http(data: &[u8]) -> Option<&[u8]> {
    if !HTTP_WORDS.iter().any(|word| data.starts_with(word)) {
        return None;
    }
    let end = data.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    Some(&data[..end.unwrap_or(data.len())])
}

/// `: TLS ClientHello, server name example.org`
fn tls(data: Data<'_>, out: &mut Text) -> Printed {
    let kind = data.u8(5)?;
    let name = match kind {
        1 => "ClientHello",
        2 => "ServerHello",
        4 => "NewSessionTicket",
        11 => "Certificate",
        12 => "ServerKeyExchange",
        14 => "ServerHelloDone",
        16 => "ClientKeyExchange",
        // Encrypted handshakes have any number here.
        _ => return Ok(()),
    };
    out.put(": TLS ").put(name);
    if kind == 1
        && let Ok(Some(server)) = server_name(data.after(9))
    {
        out.put(", server name ").foreign(server);
    }
    Ok(())
}

/// The server's name in a ClientHello, from its version on.
fn server_name(hello: Data<'_>) -> Result<Option<&[u8]>, Cut> {
    let mut at = 34;
    at += 1 + usize::from(hello.u8(at)?); // session
    at += 2 + usize::from(hello.u16(at)?); // cipher suites
    at += 1 + usize::from(hello.u8(at)?); // compression
    let end = at + 2 + usize::from(hello.u16(at)?);
    at += 2;
    while at < end {
        let (kind, len) = (hello.u16(at)?, usize::from(hello.u16(at + 2)?));
        at += 4;
        if kind == 0 {
            let len = hello.u16(at + 3)?.into();
            return hello.slice(at + 5, len).map(Some);
        }
        at += len;
    }
    Ok(None)
}
