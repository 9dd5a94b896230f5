//! The bytes of a share: the head of a packet, and the notes about interfaces and the end. All numbers are little-endian.
//!
//! ```text
//!  packet:     time_ns 8 │ lost 8 │ wire_len 4 │ interface 2 │ direction 1 │ 0 │ bytes kept …
//!  interface:  1 or 3 │ resolution 1 │ link 2 │ snaplen 4 │ bits_per_second 8 │ name_len 2 │ description_len 2 │ name │ description
//!  end:        2 │ failed 1 │ 0 ×6 │ lost 8
//! ```
//! 3 is an interface whose frames filters see as the kernel does: with their direction, and without the outer VLAN tag.
//!
//! A reader trusts none of these bytes: everything that a value may not be is a [`ShareDamage`].

use crate::port::{Direction, Frame, Interface, LinkType, MAX_SNAPLEN, Resolution};

/// Bytes before those of a packet.
pub(super) const HEAD: usize = 24;
/// The maximum bytes of a packet.
pub(super) const MAX_PACKET: usize = MAX_SNAPLEN as usize;
/// Interfaces that a share describes at most.
pub(super) const MAX_INTERFACES: usize = 4095;
/// Larger counts of lost packets are refused, so that sums over a thousand ports cannot overflow.
pub(super) const MAX_LOST: u64 = 1 << 52;

const NOTE: usize = 20;
const MAX_NAME: usize = 256;
const MAX_DESCRIPTION: usize = 1024;
/// Bytes of the longest note.
pub(super) const MAX_NOTE: usize = NOTE + MAX_NAME + MAX_DESCRIPTION;
const INTERFACE: u8 = 1;
const END: u8 = 2;
const INTERFACE_SOCKET_VIEW: u8 = 3;

/// Why the bytes of a share are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShareDamage(pub &'static str);

/// What precedes the bytes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub time_ns: u64,
    /// Packets that the capture had lost so far, before it could share them.
    pub lost: u64,
    pub wire_len: u32,
    /// Its number among the interfaces that are described.
    pub interface: u16,
    pub direction: Direction,
}

impl Head {
    #[inline]
    pub fn of(frame: &Frame<'_>, interface: u16, lost: u64) -> Head {
        Head {
            time_ns: frame.time_ns,
            lost,
            wire_len: frame.wire_len,
            interface,
            direction: frame.direction,
        }
    }

    #[inline]
    pub fn bytes(&self) -> [u8; HEAD] {
        let direction: u8 = match self.direction {
            Direction::Unknown => 0,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        let interface = u64::from(self.interface) | u64::from(direction) << 16;
        let last = u64::from(self.wire_len) | interface << 32;
        // Whole words, which cost a store each.
        let words = [self.time_ns, self.lost, last];
        let mut bytes = [0; HEAD];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Checks and decodes the head of a message.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<Head, ShareDamage> {
        let Some((head, data)) = message.split_first_chunk::<HEAD>() else {
            return Err(ShareDamage("a packet is shorter than its head"));
        };
        let direction = match head[22] {
            0 => Direction::Unknown,
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => return Err(ShareDamage("a packet has an unknown direction")),
        };
        let head = Head {
            time_ns: u64_at(head, 0),
            lost: u64_at(head, 8),
            wire_len: u32_at(head, 16),
            interface: u16_at(head, 20),
            direction,
        };
        if (head.wire_len as usize) < data.len() {
            return Err(ShareDamage("a packet has more bytes than were on the wire"));
        }
        if head.lost > MAX_LOST {
            return Err(ShareDamage("a count of lost packets is impossible"));
        }
        Ok(head)
    }
}

/// What a capture reports to its readers apart from packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The next interface.
    Interface(Interface),
    /// The capture has ended, after it had lost this many packets before it could share them.
    End {
        lost: u64,
        /// A source or its output failed.
        has_failed: bool,
    },
}

impl Note {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Note::Interface(it) => {
                let name = limited(&it.name, MAX_NAME);
                let description = limited(&it.description, MAX_DESCRIPTION);
                let kind = match it.socket_view {
                    true => INTERFACE_SOCKET_VIEW,
                    false => INTERFACE,
                };
                let mut bytes = vec![kind, it.resolution.0];
                bytes.extend(it.link.0.to_le_bytes());
                bytes.extend(it.snaplen.to_le_bytes());
                bytes.extend(it.bits_per_second.unwrap_or(0).to_le_bytes());
                bytes.extend((name.len() as u16).to_le_bytes());
                bytes.extend((description.len() as u16).to_le_bytes());
                bytes.extend(name.as_bytes());
                bytes.extend(description.as_bytes());
                bytes
            }
            Note::End { lost, has_failed } => {
                let mut bytes = vec![END, (*has_failed).into(), 0, 0, 0, 0, 0, 0];
                bytes.extend(lost.to_le_bytes());
                bytes
            }
        }
    }

    /// Checks and decodes a note.
    pub fn parse(note: &[u8]) -> Result<Note, ShareDamage> {
        const SHORT: ShareDamage = ShareDamage("a note is incomplete");
        match note.first() {
            Some(&kind @ (INTERFACE | INTERFACE_SOCKET_VIEW)) => {
                let (head, texts) = note.split_first_chunk::<NOTE>().ok_or(SHORT)?;
                let name_len = usize::from(u16_at(head, 16));
                let description_len = usize::from(u16_at(head, 18));
                if name_len > MAX_NAME || description_len > MAX_DESCRIPTION {
                    return Err(ShareDamage("the name of an interface is too long"));
                }
                if texts.len() != name_len + description_len {
                    return Err(SHORT);
                }
                let (name, description) = texts.split_at(name_len);
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let speed = u64_at(head, 8);
                Ok(Note::Interface(Interface {
                    name: text(name),
                    description: text(description),
                    link: LinkType(u16_at(head, 2)),
                    snaplen: u32_at(head, 4).clamp(1, MAX_PACKET as u32),
                    bits_per_second: (speed > 0).then_some(speed),
                    resolution: Resolution(head[1]),
                    socket_view: kind == INTERFACE_SOCKET_VIEW,
                    in_file: None,
                    time: None,
                }))
            }
            Some(&END) => {
                let bytes = note.first_chunk::<16>().ok_or(SHORT)?;
                match u64_at(bytes, 8) {
                    lost @ 0..=MAX_LOST => Ok(Note::End {
                        lost,
                        has_failed: bytes[1] != 0,
                    }),
                    _ => Err(ShareDamage("a count of lost packets is impossible")),
                }
            }
            _ => Err(ShareDamage("a note is of an unknown kind")),
        }
    }
}

/// As much of `text` as fits in `max` bytes.
fn limited(text: &str, max: usize) -> &str {
    let mut len = text.len().min(max);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heads_and_notes_are_read_as_they_were_written() {
        let head = Head {
            time_ns: u64::MAX,
            lost: 7,
            wire_len: 1500,
            interface: 3,
            direction: Direction::Outbound,
        };
        let mut message = head.bytes().to_vec();
        message.extend([0xab; 1500]);
        assert_eq!(Head::parse(&message), Ok(head));
        let interface = Interface {
            name: "eth0".into(),
            description: "1 Gb/s".into(),
            bits_per_second: Some(1_000_000_000),
            socket_view: true,
            ..Interface::default()
        };
        let end = |has_failed| Note::End {
            lost: 5,
            has_failed,
        };
        for note in [Note::Interface(interface), end(false), end(true)] {
            assert_eq!(Note::parse(&note.bytes()), Ok(note));
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        let head = Head {
            wire_len: 10,
            ..Head::default()
        };
        let mut message = head.bytes().to_vec();
        message.extend([0; 11]);
        let refused = |message: &[u8]| Head::parse(message).unwrap_err().0;
        assert!(refused(&message).contains("more bytes than were on the wire"));
        assert!(refused(&message[..HEAD - 1]).contains("shorter than its head"));
        message[22] = 3;
        assert!(refused(&message).contains("direction"));
        let lost = Head {
            lost: MAX_LOST + 1,
            ..Head::default()
        };
        assert!(refused(&lost.bytes()).contains("impossible"));
        let long = Interface {
            name: "ä".repeat(200),
            ..Interface::default()
        };
        let mut bytes = Note::Interface(long).bytes();
        let Ok(Note::Interface(read)) = Note::parse(&bytes) else {
            panic!("an interface");
        };
        assert_eq!(read.name, "ä".repeat(128));
        bytes.pop();
        assert!(Note::parse(&bytes).is_err());
        bytes[16] = 0xff;
        bytes[17] = 0xff;
        assert!(Note::parse(&bytes).unwrap_err().0.contains("too long"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_note_a_packet_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Note::parse(&bytes);
            if let Ok(head) = Head::parse(&bytes) {
                prop_assert!(head.wire_len as usize >= bytes.len() - HEAD);
            }
        }
    }
}
