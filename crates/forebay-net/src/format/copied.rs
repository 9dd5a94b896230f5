//! Copies options and blocks from one pcapng file to another, always in little-endian byte order.
//!
//! Most are copied without being parsed. From a big-endian section only options with a known layout can be copied. Options and
//! blocks that only their author may copy are not copied.
//!
//! Source: draft-ietf-opsawg-pcapng.

use super::sizes::padded;
use crate::port::{Frame, Left, Marks};

/// What options describe: the same code has different meanings in different blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    Section,
    Interface,
    Packet,
    Names,
    Secrets,
}

/// The maximum size of the options of one packet, interface or section in a copy.
pub(crate) const MAX_OPTIONS: usize = 64 << 10;

const COMMENT: u16 = 1;
/// Custom options, text and bytes: two that may be copied, and two that may not.
const CUSTOM_TEXT: u16 = 2988;
const CUSTOM_BYTES: u16 = 2989;
const UNCOPIED_TEXT: u16 = 19_372;
const UNCOPIED_BYTES: u16 = 19_373;
/// `epb_dropcount`, which a copy computes itself.
const DROP_COUNT: u16 = 4;

/// The numbers in the value of an option: `count` numbers of `bytes` bytes each, from `at` on.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    at: usize,
    bytes: usize,
    count: usize,
}

impl About {
    /// Where the numbers in an option are; `None`: unknown.
    fn numbers(self, code: u16, value: &[u8]) -> Option<Numbers> {
        let of = |at, bytes, count| Some(Numbers { at, bytes, count });
        let none = of(0, 0, 0);
        match (self, code) {
            (_, COMMENT) => none,
            (_, CUSTOM_TEXT) => of(0, 4, 1),
            (About::Section, 2..=4) => none,
            (About::Interface, 2..=7 | 9 | 12 | 13 | 15 | 18) => none,
            (About::Interface, 8 | 14 | 16 | 17) => of(0, 8, 1),
            (About::Interface, 10) => of(0, 4, 1),
            // A filter as text.
            (About::Interface, 11) if value.first() == Some(&0) => none,
            (About::Packet, 2 | 6) => of(0, 4, 1),
            (About::Packet, 3) => none,
            (About::Packet, 4 | 5) => of(0, 8, 1),
            (About::Packet, 7) if value.first() == Some(&0) => none,
            (About::Packet, 7) if matches!(value.first(), Some(1 | 2)) => of(1, 8, 1),
            (About::Packet, 8) => of(0, 4, 2),
            (About::Names, 2..=4) => none,
            _ => None,
        }
    }
}

pub(super) struct Copied<'a> {
    about: About,
    rest: &'a [u8],
    is_big: bool,
    /// Codes that are not copied, because the copy has them elsewhere.
    excluded: &'a [u16],
    bytes: usize,
    /// Options that are not copied.
    pub left: Left,
    /// An option does not fit in the list.
    pub is_broken: bool,
}

impl<'a> Copied<'a> {
    pub fn new(about: About, options: &'a [u8], is_big: bool, excluded: &'a [u16]) -> Self {
        Copied {
            about,
            rest: options,
            is_big,
            excluded,
            bytes: 0,
            left: Left::default(),
            is_broken: false,
        }
    }

    fn half(&self, bytes: [u8; 2]) -> u16 {
        match self.is_big {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        }
    }

    /// The next option to be copied: its code, its value, and the numbers in that.
    fn next(&mut self) -> Option<(u16, &'a [u8], Numbers)> {
        loop {
            let Some((&[a, b, c, d], rest)) = self.rest.split_first_chunk::<4>() else {
                self.is_broken |= !self.rest.is_empty();
                return None;
            };
            let (code, len) = (self.half([a, b]), usize::from(self.half([c, d])));
            if code == 0 {
                self.rest = &[];
                return None;
            }
            let Some(value) = rest.get(..len) else {
                (self.is_broken, self.rest) = (true, &[]);
                return None;
            };
            self.rest = &rest[padded(len).min(rest.len())..];
            if self.excluded.contains(&code) {
                continue;
            }
            let numbers = match code {
                UNCOPIED_TEXT | UNCOPIED_BYTES => None,
                CUSTOM_BYTES if self.is_big => None,
                _ if self.is_big => self.about.numbers(code, value),
                _ => Some(Numbers::default()),
            };
            let whole = 4 + padded(len);
            match numbers {
                Some(numbers) if self.bytes + whole <= MAX_OPTIONS => {
                    self.bytes += whole;
                    return Some((code, value, numbers));
                }
                _ => self.left.option(code),
            }
        }
    }

    /// Appends all options to be copied, without an end mark.
    pub fn append_to(&mut self, out: &mut Vec<u8>) {
        while let Some((code, value, numbers)) = self.next() {
            let begin = out.len();
            out.resize(begin + 4 + padded(value.len()), 0);
            self.put(&mut out[begin..], code, value, numbers);
        }
    }

    /// Writes an option into `slot`, which has exactly its size.
    fn put(&self, slot: &mut [u8], code: u16, value: &[u8], numbers: Numbers) {
        slot[..2].copy_from_slice(&code.to_le_bytes());
        slot[2..4].copy_from_slice(&(value.len() as u16).to_le_bytes());
        let (copy, padding) = slot[4..].split_at_mut(value.len());
        copy.copy_from_slice(value);
        padding.fill(0);
        if self.is_big && numbers.bytes > 0 {
            let numbered = copy.get_mut(numbers.at..).unwrap_or_default();
            let each = numbered.chunks_exact_mut(numbers.bytes);
            each.take(numbers.count).for_each(|number| number.reverse());
        }
    }
}

/// The options of a packet to be copied.
fn of_packet<'a>(frame: &Frame<'a>) -> Copied<'a> {
    let is_big = frame.marks.has(Marks::BIG_ENDIAN);
    Copied::new(About::Packet, frame.options, is_big, &[DROP_COUNT])
}

/// Size of a packet's options in a copy, without an end mark.
#[cold]
pub(super) fn packet_options_len(frame: &Frame<'_>) -> usize {
    let mut options = of_packet(frame);
    while options.next().is_some() {}
    options.bytes
}

/// Writes the options to the beginning of `slot`. Returns their length.
#[cold]
pub(super) fn put_packet_options(slot: &mut [u8], frame: &Frame<'_>) -> usize {
    let mut options = of_packet(frame);
    let mut at = 0;
    while let Some((code, value, numbers)) = options.next() {
        let end = at + 4 + padded(value.len());
        options.put(&mut slot[at..end], code, value, numbers);
        at = end;
    }
    at
}

/// Counts a packet's options that a copy lacks. `are_kept`: the copy keeps options.
#[cold]
pub(crate) fn left_of_packet(frame: &Frame<'_>, are_kept: bool) -> Left {
    left_of(of_packet(frame), are_kept)
}

/// Counts little-endian options that are not copied.
pub(crate) fn left_of_options(options: &[u8]) -> Left {
    left_of(Copied::new(About::Section, options, false, &[]), false)
}

fn left_of(mut options: Copied<'_>, are_kept: bool) -> Left {
    let mut left = Left::default();
    while let Some((code, ..)) = options.next() {
        if !are_kept {
            left.option(code);
        }
    }
    left += options.left;
    left
}

/// The little-endian option with this code.
pub(crate) fn option(options: &[u8], code: u16) -> Option<&[u8]> {
    let mut options = Copied::new(About::Section, options, false, &[]);
    while let Some((found, value, _)) = options.next() {
        if found == code {
            return Some(value);
        }
    }
    None
}

/// Options with the same meaning for interfaces and sections: comments and custom ones. Counts the others.
pub(crate) fn common_options(options: &[u8]) -> (Vec<u8>, Left) {
    let mut copied = Copied::new(About::Section, options, false, &[]);
    let (mut out, mut left) = (Vec::new(), Left::default());
    while let Some((code, value, _)) = copied.next() {
        match code {
            COMMENT | CUSTOM_TEXT | CUSTOM_BYTES => push_option(&mut out, code, value),
            _ => left.option(code),
        }
    }
    (out, left)
}

/// Appends an option. A value that is too long is truncated.
pub(crate) fn push_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(0xfffc)];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    out.resize(padded(out.len()), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big(code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [code.to_be_bytes(), (value.len() as u16).to_be_bytes()].concat();
        bytes.extend(value);
        bytes.resize(padded(bytes.len()), 0);
        bytes
    }

    #[test]
    fn numbers_are_byte_swapped_and_unknown_options_are_counted() {
        let options = [
            big(1, b"hi"),
            big(2, &[0, 0, 0, 1]),
            big(5, &[0, 0, 0, 0, 0, 0, 0, 9]),
            big(7, &[1, 0, 0, 0, 0, 0, 0, 0, 2]),
            big(4, &[0; 8]),
            big(2988, b"\x00\x00\x30\x39text"),
            big(2989, &[0, 0, 0x30, 0x39, 1]),
            big(19_372, &[0, 0, 0x30, 0x39, 1]),
            big(77, &[1]),
            big(1, &[])[..2].to_vec(),
        ]
        .concat();
        let mut copied = Copied::new(About::Packet, &options, true, &[DROP_COUNT]);
        let mut out = Vec::new();
        copied.append_to(&mut out);
        let expected = [
            &[1, 0, 2, 0, b'h', b'i', 0, 0][..],
            &[2, 0, 4, 0, 1, 0, 0, 0],
            &[5, 0, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0],
            &[7, 0, 9, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xac, 0x0b, 8, 0, 0x39, 0x30, 0, 0, b't', b'e', b'x', b't'],
        ]
        .concat();
        assert_eq!(out, expected);
        assert_eq!((copied.left.comments, copied.left.options), (0, 3));
        assert!(copied.is_broken);
    }
}
