//! What is remembered of QUIC's connections: their IDs, and parts of a ClientHello that is spread over packets.

use std::collections::{BTreeMap, VecDeque};

/// The number of connection IDs that are remembered, to recognise them in short headers.
const IDS: usize = 512;
/// The number of connections with parts of a ClientHello that are kept.
const HELLOS: usize = 32;
/// The largest ClientHello.
const MAX_HELLO: usize = 16 << 10;
const MAX_PARTS: usize = 256;
/// The bytes in all parts of one, which may overlap.
const MAX_BYTES: usize = 32 << 10;

/// What is remembered of connections.
#[derive(Default)]
pub struct Connections {
    ids: VecDeque<Box<[u8]>>,
    hellos: VecDeque<(Box<[u8]>, Hello)>,
}

/// Parts of a ClientHello by their offsets.
#[derive(Default)]
pub struct Hello {
    parts: BTreeMap<usize, Vec<u8>>,
    bytes: usize,
}

impl Connections {
    pub fn remember(&mut self, id: &[u8]) {
        if id.is_empty() || self.known(id).is_some() {
            return;
        }
        self.ids.truncate(IDS - 1);
        self.ids.push_front(id.into());
    }

    /// The connection ID with which this begins.
    pub fn known(&self, bytes: &[u8]) -> Option<&[u8]> {
        let mut ids = self.ids.iter().map(|id| &**id);
        ids.find(|id| bytes.starts_with(id))
    }

    pub fn hello(&mut self, id: &[u8]) -> &mut Hello {
        let known = self.hellos.iter().position(|(of, _)| **of == *id);
        let hello = match known.and_then(|at| self.hellos.remove(at)) {
            Some(hello) => hello,
            None => (id.into(), Hello::default()),
        };
        self.hellos.truncate(HELLOS - 1);
        self.hellos.push_front(hello);
        &mut self.hellos[0].1
    }
}

impl Hello {
    /// Keeps the longest of several parts that begin at the same place.
    pub fn add(&mut self, offset: usize, part: &[u8]) {
        let known = self.parts.get(&offset).map_or(0, Vec::len);
        let bytes = self.bytes - known + part.len();
        let fits = offset + part.len() <= MAX_HELLO && bytes <= MAX_BYTES;
        let has_place = known > 0 || self.parts.len() < MAX_PARTS;
        if part.len() > known && fits && has_place {
            self.parts.insert(offset, part.to_vec());
            self.bytes = bytes;
        }
    }

    /// The parts from the beginning up to the first gap.
    pub fn beginning(&self) -> Vec<u8> {
        let mut whole = Vec::new();
        for (&offset, part) in &self.parts {
            match whole.len().checked_sub(offset) {
                None => break,
                Some(known) => whole.extend(part.get(known..).unwrap_or_default()),
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_part_replaces_a_shorter_one_and_all_parts_are_bounded() {
        let mut hello = Hello::default();
        hello.add(0, b"ab");
        hello.add(0, b"abcd");
        hello.add(0, b"x");
        hello.add(4, b"ef");
        assert_eq!(hello.beginning(), b"abcdef");
        for offset in 0..200 {
            hello.add(offset, &[0; 1000]);
        }
        assert!((MAX_BYTES - 1000..=MAX_BYTES).contains(&hello.bytes));
        let bytes: usize = hello.parts.values().map(Vec::len).sum();
        assert_eq!(hello.bytes, bytes);
    }
}
