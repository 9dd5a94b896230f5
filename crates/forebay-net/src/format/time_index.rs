//! An index at the end of a pcapng file: the times of the packets in each part of the file.
//!
//! ```text
//!  section │ interface │ packet … │ packet … │ packet … │ statistics │ index
//!                      └ stretch 0 └ stretch 1 └ stretch 2            └ its own offset, a checksum, and for each stretch:
//!                                                                       its offset, and the earliest and the latest time
//! ```
//! - A stretch begins at a block, and ends where the next one begins. A stretch with another block than packets counts as one with every
//!   time, so that no reader passes over it.
//! - Packets may be out of order, in a stretch and in the file: the index has what is there, and assumes nothing.
//! - The type of the block is for local use: other readers skip it, and programs that rewrite a file leave it out. An index that does not
//!   name its own offset, as in a file that another one was appended to, is not used.

use super::sizes::word;

/// The local-use range has the top bit set. The types below this one are the padding, and the directory of a segment of `forebay-archive`.
pub(super) const TIME_INDEX: u32 = 0x8000_f0b6;
const VERSION: u32 = 1;
/// Type, length, version, number of stretches, own offset, checksum; and the length again.
const HEAD: usize = 32;
const TAIL: usize = 4;
const ENTRY: usize = 24;
/// The largest number of stretches. With more, two become one, and later ones are twice as long.
const MAX_STRETCHES: usize = 4096;
/// Bytes after which the first stretches end.
const MIN_STRETCH_BYTES: u64 = 1 << 20;
/// The largest index, in bytes.
pub(crate) const MAX_BYTES: usize = HEAD + MAX_STRETCHES * ENTRY + TAIL;

/// A part of a file, and the times of its packets, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The offset at which it begins.
    pub begin: u64,
    pub earliest: u64,
    pub latest: u64,
}

/// The index of a file that is being written.
#[derive(Debug)]
pub(crate) struct TimeIndex {
    stretches: Vec<Stretch>,
    /// The last stretch goes on.
    is_open: bool,
    stretch_bytes: u64,
    /// The times of some packets are unknown, so the file has no index.
    is_unknown: bool,
}

impl TimeIndex {
    /// Of a file without packets.
    pub fn new() -> Self {
        TimeIndex {
            stretches: Vec::new(),
            is_open: false,
            stretch_bytes: MIN_STRETCH_BYTES,
            is_unknown: false,
        }
    }

    /// Adds packets whose blocks are in `begin..end`, with these earliest and latest times.
    pub fn add_packets(&mut self, begin: u64, end: u64, (earliest, latest): (u64, u64)) {
        if !self.is_open {
            if self.stretches.len() == MAX_STRETCHES {
                self.join_pairs();
            }
            self.stretches.push(Stretch {
                begin,
                earliest,
                latest,
            });
        }
        if let Some(last) = self.stretches.last_mut() {
            last.earliest = last.earliest.min(earliest);
            last.latest = last.latest.max(latest);
            self.is_open = end.saturating_sub(last.begin) < self.stretch_bytes;
        }
    }

    /// Adds another block than a packet, at `begin`. Those before the first packet need no attention: every reader reads them.
    pub fn add_other(&mut self, begin: u64) {
        if !self.stretches.is_empty() {
            self.add_packets(begin, begin, (0, u64::MAX));
        }
    }

    /// Leaves the file without an index: it has packets whose times the writer does not look at.
    pub fn give_up(&mut self) {
        self.is_unknown = true;
    }

    #[cold]
    fn join_pairs(&mut self) {
        let pairs = self.stretches.chunks(2).map(|pair| {
            let (first, last) = (pair[0], pair[pair.len() - 1]);
            Stretch {
                begin: first.begin,
                earliest: first.earliest.min(last.earliest),
                latest: first.latest.max(last.latest),
            }
        });
        self.stretches = pairs.collect();
        self.stretch_bytes *= 2;
    }

    /// The length of its block in bytes; `None`: the file is too small to need one, or times are unknown.
    pub fn len(&self) -> Option<usize> {
        (self.stretches.len() > 1 && !self.is_unknown)
            .then(|| HEAD + self.stretches.len() * ENTRY + TAIL)
    }

    /// Encodes the block into `slot`, which has [`len`](TimeIndex::len) bytes and will be at `offset` in the file.
    pub fn encode(&self, slot: &mut [u8], offset: u64) {
        let len = slot.len() as u32;
        let head = [TIME_INDEX, len, VERSION, self.stretches.len() as u32];
        let words = head.into_iter().flat_map(u32::to_le_bytes);
        let entry = |it: &Stretch| [it.begin, it.earliest, it.latest];
        let entries: Vec<_> = self.stretches.iter().flat_map(entry).collect();
        let numbers = [offset, checksum(&entries)].into_iter().chain(entries);
        let bytes = words
            .chain(numbers.flat_map(u64::to_le_bytes))
            .chain(len.to_le_bytes());
        slot.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
}

/// FNV-1a, over words: it finds damage, not intent.
fn checksum(numbers: &[u64]) -> u64 {
    let add = |sum: u64, number: &u64| (sum ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    numbers.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// The length of the block that ends with these four bytes, if it can be an index.
pub(crate) fn len_of(end: [u8; 4]) -> Option<usize> {
    let len = u32::from_le_bytes(end) as usize;
    let entries = len.checked_sub(HEAD + TAIL)?;
    (len <= MAX_BYTES && entries.is_multiple_of(ENTRY)).then_some(len)
}

/// Decodes a block that is at `offset` in a file; `None`: it is not an index, or not the one of this file.
pub(crate) fn decode(block: &[u8], offset: u64) -> Option<Vec<Stretch>> {
    let number = |at: usize| {
        let bytes = block.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let len = block.len() as u32;
    let entries = block.get(HEAD..block.len().checked_sub(TAIL)?)?;
    let head = [TIME_INDEX, len, VERSION, (entries.len() / ENTRY) as u32];
    let is_index = (0..4).all(|at| word(block, 4 * at) == Some(head[at]))
        && number(16) == Some(offset)
        && entries.len().is_multiple_of(ENTRY)
        && word(block, block.len() - TAIL) == Some(len);
    let numbers = (HEAD..block.len() - TAIL).step_by(8).map(number);
    let numbers: Vec<_> = numbers.collect::<Option<_>>()?;
    if !is_index || number(24) != Some(checksum(&numbers)) {
        return None;
    }
    let stretches = numbers.chunks_exact(3).map(|entry| Stretch {
        begin: entry[0],
        earliest: entry[1],
        latest: entry[2],
    });
    let stretches: Vec<_> = stretches.collect();
    let is_in_order = stretches.is_sorted_by(|a, b| a.begin < b.begin);
    let is_before = stretches.last().is_some_and(|last| last.begin < offset);
    (is_in_order && is_before).then_some(stretches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(index: &TimeIndex, offset: u64) -> Vec<u8> {
        let mut block = vec![0; index.len().unwrap()];
        index.encode(&mut block, offset);
        block
    }

    #[test]
    fn stretches_hold_the_times_of_their_packets_whatever_the_order() {
        let mut index = TimeIndex::new();
        index.add_other(40); // before the first packet
        assert_eq!(index.len(), None);
        for (begin, end, times) in [
            (100, 1000, (5, 9)),
            (1000, 1 << 20, (3, 7)),
            (1 << 20, 2 << 20, (20, 30)),
            (2 << 20, 3 << 20, (8, 8)),
        ] {
            index.add_packets(begin, end, times);
        }
        index.add_other(4 << 20);
        let offset = 5 << 20;
        let block = encoded(&index, offset);
        assert_eq!(len_of(*block.last_chunk().unwrap()), Some(block.len()));
        let stretches = decode(&block, offset).unwrap();
        let all: Vec<_> = stretches
            .iter()
            .map(|it| (it.begin, it.earliest, it.latest))
            .collect();
        let other = (4 << 20, 0, u64::MAX);
        let expected = [(100, 3, 30), (2 << 20, 8, 8), other];
        assert_eq!(all, expected);
        assert_eq!(decode(&block, offset + 4), None, "another file precedes it");
    }

    #[test]
    fn an_index_stays_small_and_covers_everything() {
        let mut index = TimeIndex::new();
        let many = 5 * MAX_STRETCHES as u64;
        for at in 0..many {
            let begin = 100 + (at << 20);
            index.add_packets(begin, begin + (1 << 20), (at, at + 1));
        }
        let offset = 100 + (many << 20);
        let block = encoded(&index, offset);
        assert!(block.len() <= MAX_BYTES);
        let stretches = decode(&block, offset).unwrap();
        assert_eq!((stretches[0].begin, stretches[0].earliest), (100, 0));
        for pair in stretches.windows(2) {
            assert_eq!(pair[0].latest, pair[1].earliest);
            assert_eq!((pair[1].begin - 100) >> 20, pair[1].earliest);
        }
        assert_eq!(stretches.last().unwrap().latest, many);
    }

    #[test]
    fn a_damaged_index_is_none() {
        let mut index = TimeIndex::new();
        for at in 0..3 {
            index.add_packets(100 + (at << 20), (at + 1) << 21, (at, at));
        }
        let offset = 9 << 20;
        let block = encoded(&index, offset);
        assert!(decode(&block, offset).is_some());
        for len in 0..block.len() {
            assert_eq!(decode(&block[..len], offset), None);
        }
        for at in 0..block.len() {
            let mut block = block.clone();
            block[at] ^= 1;
            assert_eq!(decode(&block, offset), None, "byte {at}");
        }
        // The second stretch begins before the first one, and the last one after the index.
        for (stretch, begin) in [(1, 1), (2, offset)] {
            index.stretches[stretch].begin = begin;
            assert_eq!(decode(&encoded(&index, offset), offset), None, "{begin}");
        }
        for end in [0_u32, 35, 37, u32::MAX] {
            assert_eq!(len_of(end.to_le_bytes()), None, "{end}");
        }
    }
}
