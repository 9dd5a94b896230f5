//! The data of one direction of a TCP connection, in order and without repetitions.
//!
//! Data that arrives before the data in front of it waits. A gap is closed when the other end acknowledges what is missing, when
//! more waits than is allowed, or at the end: then the capture does not contain it.

use std::collections::BTreeMap;

/// Bytes that may wait for one direction, with `ENTRY` for each segment.
const MAX_WAITING: usize = 4 << 20;

/// The memory that a segment needs in addition to its data.
const ENTRY: usize = 96;

/// A segment or an acknowledgement this far ahead is not believed.
const MAX_AHEAD: i32 = 16 << 20;

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Data(Vec<u8>),
    /// This many bytes are missing.
    Gap(u64),
}

#[derive(Default)]
pub struct Stream {
    /// The sequence number of position 0.
    first: Option<u32>,
    /// The sequence number after everything so far, and how many bytes that is.
    next: Option<(u32, u64)>,
    /// Data by its position.
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: usize,
    /// The position of the end, if it is known.
    end: Option<u64>,
    /// Ignored segments, which are too far ahead.
    pub ignored: u64,
}

impl Stream {
    /// Takes a segment whose data begins at this number. `ends`: nothing follows it.
    pub fn data(&mut self, sequence: u32, data: &[u8], ends: bool, out: &mut Vec<Piece>) {
        self.first.get_or_insert(sequence);
        let (number, position) = *self.next.get_or_insert((sequence, 0));
        let ahead = sequence.wrapping_sub(number).cast_signed();
        if ahead >= MAX_AHEAD {
            self.ignored += u64::from(ends || !data.is_empty());
            return;
        }
        let Some(at) = position.checked_add_signed(ahead.into()) else {
            // From before the beginning of the capture.
            return;
        };
        if ends {
            self.end.get_or_insert(at + data.len() as u64);
        }
        if at > position {
            // The longest of several that begin at the same place.
            let known = self.waiting.get(&at).map_or(0, Vec::len);
            if data.len() > known {
                self.waiting_bytes += data.len() + ENTRY;
                if let Some(shorter) = self.waiting.insert(at, data.to_vec()) {
                    self.waiting_bytes -= shorter.len() + ENTRY;
                }
            }
        } else {
            self.take(at, data, out);
        }
        self.drain(out);
        while self.waiting_bytes > MAX_WAITING {
            self.skip(u64::MAX, out);
        }
    }

    /// The other end has everything before this number.
    pub fn acknowledged(&mut self, number: u32, out: &mut Vec<Piece>) {
        let Some((next, position)) = self.next else {
            return;
        };
        let ahead = number.wrapping_sub(next).cast_signed();
        if !(1..MAX_AHEAD).contains(&ahead) {
            return;
        }
        let to = position + u64::from(ahead.unsigned_abs());
        let to = match self.end {
            Some(end) => to.min(end),
            // It may be that of a FIN.
            None if ahead == 1 && self.waiting.is_empty() => return,
            None => to,
        };
        while self.next.is_some_and(|(_, position)| position < to) {
            self.skip(to, out);
        }
    }

    /// Whether a SYN with this number begins another connection.
    pub fn is_another(&self, sequence: u32) -> bool {
        self.first
            .is_some_and(|first| first != sequence.wrapping_add(1))
    }

    /// Everything that still waits, with the gaps before it.
    pub fn finish(&mut self, out: &mut Vec<Piece>) {
        while !self.waiting.is_empty() {
            self.skip(u64::MAX, out);
        }
        let (end, next) = (self.end.unwrap_or(0), self.next.map_or(0, |(_, it)| it));
        if end > next {
            out.push(Piece::Gap(end - next));
        }
    }

    /// Appends what is new of data that begins at or before the end so far.
    fn take(&mut self, at: u64, data: &[u8], out: &mut Vec<Piece>) {
        let Some((_, position)) = self.next else {
            return;
        };
        let new = data.get((position - at) as usize..).unwrap_or_default();
        if !new.is_empty() {
            out.push(Piece::Data(new.to_vec()));
            self.advance(new.len() as u64);
        }
    }

    fn drain(&mut self, out: &mut Vec<Piece>) {
        while let Some(first) = self.waiting.first_entry()
            && let Some((_, position)) = self.next
            && *first.key() <= position
        {
            let (at, data) = first.remove_entry();
            self.waiting_bytes -= data.len() + ENTRY;
            self.take(at, &data, out);
        }
    }

    /// Leaves out what is missing up to a position, or up to what waits.
    fn skip(&mut self, to: u64, out: &mut Vec<Piece>) {
        let first = self.waiting.keys().next().copied();
        let to = first.map_or(to, |first| first.min(to));
        if let Some((_, position)) = self.next
            && to > position
            && to != u64::MAX
        {
            out.push(Piece::Gap(to - position));
            self.advance(to - position);
        }
        self.drain(out);
    }

    fn advance(&mut self, by: u64) {
        if let Some((number, position)) = &mut self.next {
            *number = number.wrapping_add(by as u32);
            *position += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Missing bytes as `?`.
    fn text(pieces: &[Piece]) -> String {
        let one = |piece: &Piece| match piece {
            Piece::Data(data) => String::from_utf8_lossy(data).into_owned(),
            Piece::Gap(len) => "?".repeat(*len as usize),
        };
        pieces.iter().map(one).collect()
    }

    #[test]
    fn repeated_data_is_there_once_and_missing_data_is_a_gap() {
        let (mut stream, mut out) = (Stream::default(), Vec::new());
        let first = u32::MAX - 2;
        let at = |offset: u32| first.wrapping_add(offset);
        stream.data(at(0), b"abcd", false, &mut out);
        stream.data(at(0), b"abcd", false, &mut out);
        stream.data(at(2), b"cdef", false, &mut out);
        stream.data(at(8), b"ij", false, &mut out);
        stream.data(at(6), b"gh", false, &mut out);
        assert_eq!(text(&out), "abcdefghij");
        // The other end has k and l.
        stream.data(at(12), b"m", false, &mut out);
        stream.acknowledged(at(13), &mut out);
        assert_eq!(text(&out), "abcdefghij??m");
        // A keep-alive, and the end.
        stream.data(at(12), b"\0", false, &mut out);
        stream.data(at(13), b"n", true, &mut out);
        stream.acknowledged(at(15), &mut out);
        stream.finish(&mut out);
        assert_eq!(text(&out), "abcdefghij??mn");
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut stream, mut out) = (Stream::default(), Vec::new());
        stream.data(0, b"a", false, &mut out);
        for number in 1..200_u32 {
            stream.data(number * 100_000, &[b'x'; 50_000], false, &mut out);
            assert!(stream.waiting_bytes <= MAX_WAITING + 50_000);
        }
        stream.finish(&mut out);
        let data: usize = out
            .iter()
            .map(|it| text(std::slice::from_ref(it)).len())
            .sum();
        assert_eq!(data, 199 * 100_000 + 50_000);
        assert_eq!(stream.waiting_bytes, 0);
        for number in 0..100_000 {
            stream.data(20_000_000 + number * 2, b"x", false, &mut out);
        }
        assert!(stream.waiting.len() <= MAX_WAITING / ENTRY);
    }

    #[test]
    fn a_segment_far_ahead_is_ignored() {
        let (mut stream, mut out) = (Stream::default(), Vec::new());
        stream.data(0, b"ab", false, &mut out);
        stream.data(1 << 30, b"forged", true, &mut out);
        stream.data(1 << 30, b"", false, &mut out);
        stream.data(2, b"cd", true, &mut out);
        stream.finish(&mut out);
        assert_eq!((&*text(&out), stream.ignored), ("abcd", 1));
    }

    proptest! {
        /// Segments of a text, some twice, in any order.
        #[test]
        fn any_order_yields_the_text(first: u32, cuts in prop::collection::vec((0_usize..40, 0_usize..12), 0..60)) {
            let whole: Vec<u8> = (0..52).map(|it| b'A' + it).collect();
            let (mut stream, mut out) = (Stream::default(), Vec::new());
            let mut seen = [false; 52];
            stream.data(first, b"", false, &mut out);
            for (at, len) in cuts {
                stream.data(first.wrapping_add(at as u32), &whole[at..at + len], false, &mut out);
                seen[at..at + len].fill(true);
            }
            stream.finish(&mut out);
            let end = seen.iter().rposition(|&it| it).map_or(0, |it| it + 1);
            let expected = (0..end).map(|at| if seen[at] { whole[at] as char } else { '?' });
            prop_assert_eq!(text(&out), expected.collect::<String>());
        }

        #[test]
        fn any_numbers_are_survived(
            all in prop::collection::vec((any::<u32>(), prop::collection::vec(any::<u8>(), 0..9), any::<bool>(), any::<bool>()), 0..60),
        ) {
            let (mut stream, mut out) = (Stream::default(), Vec::new());
            for (number, data, is_ack, ends) in all {
                match is_ack {
                    true => stream.acknowledged(number, &mut out),
                    false => stream.data(number, &data, ends, &mut out),
                }
            }
            stream.finish(&mut out);
        }
    }
}
