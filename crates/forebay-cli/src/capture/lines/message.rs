//! The messages in the queue: packets, or lines.
//!
//! ```text
//!  packet │ time_ns │ missed │ wire_len │ captured │ link │ direction │ len of name │ … │ name │ data │
//!  lines  │ packets │ text │
//! ```

use crate::print::Packet;
use forebay_net::port::{Direction, Frame, LinkType};

/// What precedes the name and the bytes of a packet.
pub const PACKET_HEADER: usize = 40;
/// What precedes lines.
pub const LINES_HEADER: usize = 8;

/// Fills a message of `PACKET_HEADER + name.len() + data.len()` bytes. `name`: of the interface, at most 255 bytes. `missed`: packets
/// that found no room since the last message.
pub fn put_packet(bytes: &mut [u8], frame: &Frame<'_>, link: LinkType, missed: u64, name: &[u8]) {
    let (header, rest) = bytes.split_at_mut(PACKET_HEADER);
    header[..8].copy_from_slice(&frame.time_ns.to_ne_bytes());
    header[8..16].copy_from_slice(&missed.to_ne_bytes());
    header[16..20].copy_from_slice(&frame.wire_len.to_ne_bytes());
    header[20..24].copy_from_slice(&(frame.data.len() as u32).to_ne_bytes());
    header[24..26].copy_from_slice(&link.0.to_ne_bytes());
    header[26] = frame.direction as u8;
    header[27] = name.len() as u8;
    let (name_bytes, data) = rest.split_at_mut(name.len());
    name_bytes.copy_from_slice(name);
    data.copy_from_slice(&frame.data[..data.len()]);
}

/// The packet of a message, and the number of packets missed before it.
pub fn packet(message: &[u8]) -> Option<(Packet<'_>, u64)> {
    let (header, rest) = message.split_first_chunk::<PACKET_HEADER>()?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
    let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| header[at + byte]));
    let (name, data) = rest.split_at_checked(usize::from(header[27]))?;
    let packet = Packet {
        link: LinkType(u16::from_ne_bytes([header[24], header[25]])),
        interface: std::str::from_utf8(name).unwrap_or_default(),
        direction: match header[26] {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        },
        time_ns: word(0),
        data,
        captured: half(20),
        wire_len: half(16),
    };
    Some((packet, word(8)))
}

/// Fills a message of `LINES_HEADER + text.len()` bytes.
pub fn put_lines(bytes: &mut [u8], text: &[u8], packets: u64) {
    let (header, rest) = bytes.split_at_mut(LINES_HEADER);
    header.copy_from_slice(&packets.to_ne_bytes());
    rest.copy_from_slice(text);
}

/// The text of a message, and the number of packets whose lines end with it.
pub fn lines(message: &[u8]) -> Option<(&[u8], u64)> {
    let (header, text) = message.split_first_chunk::<LINES_HEADER>()?;
    Some((text, u64::from_ne_bytes(*header)))
}
