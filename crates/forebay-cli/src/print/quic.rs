//! QUIC: the headers of packets, and the server's name in the initial ones.
//!
//! Initial packets are encrypted with keys that follow from the first connection ID (RFC 9001, 5.2). The
//! ClientHello in them may be spread over several packets, so its parts are kept for the newest connections.

use super::{
    data::{Cut, Data, Printed},
    hellos::Hello,
    printer::Printer,
    text::Text,
    tls,
};
use rustls::{
    Side,
    crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
    quic::{Keys, Version},
};

/// The longest connection ID.
const MAX_ID: usize = 20;
/// The tag of the encryption at the end of a packet.
const TAG: usize = 16;
/// Initial packets of a datagram that are decrypted. A client puts its ClientHello into the first ones.
const MAX_DECRYPTED: usize = 4;
const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;

impl Printer {
    pub(super) fn quic(&mut self, data: Data<'_>, out: &mut Text) -> Printed {
        self.protocol = "quic";
        out.put("quic");
        let (mut rest, mut initials) = (data, 0);
        while let Some(first) = rest.captured.first() {
            let len = match first & 0x80 {
                0 => self.short_header(rest, out)?,
                _ => self.long_header(rest, &mut initials, out)?,
            };
            rest = rest.after(len);
            // Bytes of zero are padding.
            let zeros = rest.captured.iter().take_while(|&&byte| byte == 0);
            rest = rest.after(zeros.count());
        }
        Ok(())
    }

    fn short_header(&self, data: Data<'_>, out: &mut Text) -> Result<usize, Cut> {
        out.put(", protected");
        if data.captured.len() <= TAG + 1 {
            return Err(Cut);
        }
        if let Some(id) = self.quic.known(&data.captured[1..]) {
            bytes(id, out.put(", dcid "));
        }
        Ok(data.captured.len())
    }

    /// Returns the length of the packet. `initials` counts the initial packets of the datagram.
    fn long_header(
        &mut self,
        data: Data<'_>,
        initials: &mut usize,
        out: &mut Text,
    ) -> Result<usize, Cut> {
        let version = data.u32(1)?;
        let kind = data.u8(0)? >> 4 & 3;
        // Version 2 begins with another number.
        let kind = if version == V2 {
            kind.wrapping_sub(1) & 3
        } else {
            kind
        };
        out.put(match (version, kind) {
            (0, _) => ", version negotiation",
            (_, 0) => ", initial",
            (_, 1) => ", 0-rtt",
            (_, 2) => ", handshake",
            _ => ", retry",
        });
        if !matches!(version, 0 | V1) {
            out.put(", v").hex(version.into());
        }
        let mut at = 5;
        let mut ids = [&[][..]; 2];
        for (id, label) in ids.iter_mut().zip([", dcid ", ", scid "]) {
            let len = usize::from(data.u8(at)?);
            at += 1;
            if (1..=MAX_ID).contains(&len) {
                *id = data.slice(at, len)?;
                at += len;
                bytes(id, out.put(label));
                self.quic.remember(id);
            }
        }
        let all = data.captured.len();
        if version == 0 {
            while at < all {
                out.put(", version 0x").hex(data.u32(at)?.into());
                at += 4;
            }
            return Ok(all);
        }
        if kind == 3 {
            out.put(", token ");
            let len = all.saturating_sub(at + TAG);
            if len == 0 {
                return Err(Cut);
            }
            bytes(data.slice(at, len)?, out);
            return Ok(all);
        }
        if kind == 0 {
            let (len, next) = varint(data, at)?;
            at = next;
            if (1..1000).contains(&len) {
                bytes(data.slice(at, len)?, out.put(", token "));
                at += len;
            }
        }
        let (len, number_at) = varint(data, at)?;
        out.put(", length ").num(len);
        data.slice(number_at, len)?;
        let end = number_at + len;
        *initials += usize::from(kind == 0);
        if kind == 0
            && *initials <= MAX_DECRYPTED
            && let Some(name) = self.quic_server(version, ids[0], &data.captured[..end], number_at)
        {
            tls::print_server_name(&name, &mut self.facts, out);
        }
        Ok(end)
    }

    /// The server's name, if this initial packet completes what is needed of a ClientHello.
    fn quic_server(
        &mut self,
        version: u32,
        id: &[u8],
        packet: &[u8],
        at: usize,
    ) -> Option<Vec<u8>> {
        let payload = decrypted(version, id, packet, at)?;
        let hello = self.quic.hello(id);
        // What follows a frame that is not known is not read.
        let _ = crypto_frames(Data::from(&*payload), hello);
        let whole = hello.beginning();
        let is_hello = whole.first() == Some(&1);
        let name = tls::server_name(Data::from(&*whole).after(4)).ok()??;
        is_hello.then(|| name.to_vec())
    }
}

fn bytes(bytes: &[u8], out: &mut Text) {
    for &byte in bytes {
        out.hex_padded(byte.into(), 2);
    }
}

/// A number of variable length (RFC 9000, 16), and where it ends.
fn varint(data: Data<'_>, at: usize) -> Result<(usize, usize), Cut> {
    let first = data.u8(at)?;
    let len = 1 << (first >> 6);
    let (_, more) = data.slice(at, len)?.split_first().ok_or(Cut)?;
    let grow = |number: usize, &byte: &u8| number << 8 | usize::from(byte);
    let number = more.iter().fold(usize::from(first & 0x3f), grow);
    Ok((number, at + len))
}

/// The frames of a client's initial packet, whose number begins at `at`.
fn decrypted(version: u32, id: &[u8], packet: &[u8], at: usize) -> Option<Vec<u8>> {
    let version = match version {
        V1 => Version::V1,
        V2 => Version::V2,
        0xff00_001d..=0xff00_0020 => Version::V1Draft,
        _ => return None,
    };
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?;
    let keys = Keys::initial(version, suite, suite.quic_suite()?.quic, id, Side::Server).remote;
    let mut packet = packet.to_vec();
    let sample = packet.get(at + 4..at + 4 + TAG)?.to_vec();
    let (first, rest) = packet.split_first_mut()?;
    let number = rest.get_mut(at - 1..at + 3)?;
    keys.header.decrypt_in_place(&sample, first, number).ok()?;
    let number_len = usize::from(*first & 3) + 1;
    let grow = |all: u64, &byte: &u8| all << 8 | u64::from(byte);
    let number = number[..number_len].iter().fold(0, grow);
    let (header, payload) = packet.split_at_mut(at + number_len);
    let payload = keys.packet.decrypt_in_place(number, header, payload).ok()?;
    Some(payload.to_vec())
}

/// Adds what the frames carry of a ClientHello.
fn crypto_frames(frames: Data<'_>, hello: &mut Hello) -> Printed {
    let mut at = 0;
    while at < frames.captured.len() {
        let kind = frames.u8(at)?;
        at += 1;
        let mut next = || {
            let (number, end) = varint(frames, at)?;
            at = end;
            Ok(number)
        };
        match kind {
            0 | 1 => {}
            2 | 3 => {
                let (_largest, _delay, ranges, _first) = (next()?, next()?, next()?, next()?);
                // Each takes a byte or more, so that this ends with the packet.
                for _ in 0..ranges {
                    next()?;
                    next()?;
                }
                if kind == 3 {
                    for _ in 0..3 {
                        next()?;
                    }
                }
            }
            6 => {
                let (offset, len) = (next()?, next()?);
                hello.add(offset, frames.slice(at, len)?);
                at += len;
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::{Style, messages};

    #[test]
    fn only_the_first_initial_packets_of_a_datagram_are_decrypted() {
        let name_after = |others: usize| {
            let [other, hello] = [
                messages::initial(Version::V1, &[7; 8], 9000, b"x"),
                messages::initial(Version::V1, &[8; 8], 0, &messages::hello("one.example.org")),
            ];
            let datagram = [other.repeat(others), hello].concat();
            let (mut printer, mut out) = (Printer::new(Style::default()), Text::default());
            assert!(printer.quic(Data::from(&*datagram), &mut out).is_ok());
            String::from_utf8_lossy(out.bytes()).contains("server name one.example.org")
        };
        assert_eq!(
            [MAX_DECRYPTED - 1, MAX_DECRYPTED].map(name_after),
            [true, false]
        );
    }
}
