//! TLS: the kind of a handshake message, and the server's name in a ClientHello.

use super::{
    data::{Cut, Data, Printed},
    facts::Facts,
    text::Text,
};

/// `: TLS ClientHello, server name example.org`
pub fn tls(data: Data<'_>, facts: &mut Facts, out: &mut Text) -> Printed {
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
    facts.add("tls.message", name.as_bytes());
    if kind == 1
        && let Ok(Some(server)) = server_name(data.after(9))
    {
        print_server_name(server, facts, out);
    }
    Ok(())
}

/// `, server name example.org`
pub fn print_server_name(name: &[u8], facts: &mut Facts, out: &mut Text) {
    let start = out.put(", server name ").len();
    out.foreign(name);
    facts.add("tls.server_name", &out.bytes()[start..]);
}

/// The server's name in a ClientHello, from its version on.
pub fn server_name(hello: Data<'_>) -> Result<Option<&[u8]>, Cut> {
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
