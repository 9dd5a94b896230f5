//! What users rely on: every behaviour of a bounded stream of bytes, against an oracle, in one thread and in two.

use super::*;
use crate::{
    ring::ONE_VIEW,
    sync::{Spin, Wait},
};

fn made<W: Wait>(capacity_bytes: usize) -> (Writer<W>, Reader<W>) {
    stream_with(&Config {
        capacity_bytes,
        ..Config::default()
    })
    .unwrap()
}

/// The content byte by byte in order, also where a slice ends at the seam.
#[track_caller]
fn holds<W: Wait>(reader: &mut Reader<W>, content: &[u8]) {
    assert_eq!(reader.bytes_buffered(), content.len());
    let slice = reader.peek();
    assert_eq!(slice, &content[..slice.len()]);
    assert!(ONE_VIEW && !slice.is_empty() || slice.len() == content.len());
}

/// What can be asked of a stream of which `pushed` bytes went in and `popped` came out.
#[track_caller]
fn counts<W: Wait>(writer: &Writer<W>, reader: &Reader<W>, pushed: u64, popped: u64) {
    let buffered = (pushed - popped) as usize;
    assert_eq!(writer.bytes_pushed(), pushed);
    assert_eq!(reader.bytes_popped(), popped);
    assert_eq!(reader.bytes_buffered(), buffered);
    assert_eq!(writer.available_capacity(), writer.capacity() - buffered);
}

#[test]
fn a_new_stream_is_open_and_empty() {
    let (writer, mut reader) = stream(15).unwrap();
    assert!(!writer.is_closed() && !reader.is_closed() && !reader.is_finished());
    assert!(!writer.has_error() && !reader.has_error() && !writer.is_over());
    assert_eq!((writer.capacity(), reader.capacity()), (15, 15));
    counts(&writer, &reader, 0, 0);
    holds(&mut reader, b"");
    assert_eq!(reader.pop(1), 0);
    assert_eq!(reader.end(), None);
}

#[test]
fn write_then_end_then_pop() {
    let (mut writer, mut reader) = stream(15).unwrap();
    assert_eq!(writer.push(b"cat"), 3);
    counts(&writer, &reader, 3, 0);
    writer.close();
    assert!(writer.is_closed() && reader.is_closed() && !reader.is_finished());
    holds(&mut reader, b"cat");
    counts(&writer, &reader, 3, 0);
    assert_eq!(reader.pop(3), 3);
    assert!(reader.is_finished());
    assert_eq!(reader.end(), Some(End::Closed));
    counts(&writer, &reader, 3, 3);
    writer.close();
    assert_eq!(writer.push(b"dog"), 0);
    counts(&writer, &reader, 3, 3);
}

#[test]
fn write_then_pop_in_parts_then_end() {
    let (mut writer, mut reader) = stream(15).unwrap();
    writer.push(b"cat");
    assert_eq!(reader.pop(1), 1);
    holds(&mut reader, b"at");
    assert_eq!(reader.pop(2), 2);
    assert!(!reader.is_finished());
    writer.close();
    assert!(reader.is_finished());
    counts(&writer, &reader, 3, 3);
}

#[test]
fn two_writes_are_one_content() {
    let (mut writer, mut reader) = stream(15).unwrap();
    writer.push(b"cat");
    writer.push(b"tac");
    holds(&mut reader, b"cattac");
    assert_eq!(reader.pop(2), 2);
    holds(&mut reader, b"ttac");
    writer.close();
    assert_eq!(reader.pop(4), 4);
    assert!(reader.is_finished());
    counts(&writer, &reader, 6, 6);
}

#[test]
fn many_writes_are_one_content() {
    let (mut writer, mut reader) = stream(200_000).unwrap();
    let mut dice = Dice(3);
    let mut content = Vec::new();
    for _ in 0..1000 {
        let part: Vec<u8> = (0..10 + dice.below(190)).map(|_| dice.byte()).collect();
        assert_eq!(writer.push(&part), part.len());
        content.extend(part);
        holds(&mut reader, &content);
    }
    writer.close();
    assert_eq!(reader.pop(usize::MAX), content.len());
    assert!(reader.is_finished());
}

#[test]
fn a_push_takes_what_fits_and_the_capacity_is_exact() {
    for capacity in [1, 2, 15, 4095, 4096, 4097, 32_768] {
        let (mut writer, mut reader) = made::<Spin>(capacity);
        let bytes: Vec<u8> = (0..capacity + 1).map(|i| i as u8).collect();
        assert_eq!(writer.push(&bytes), capacity);
        assert_eq!(writer.push(&bytes), 0);
        holds(&mut reader, &bytes[..capacity]);
        assert_eq!(reader.pop(capacity + 1), capacity);
        counts(&writer, &reader, capacity as u64, capacity as u64);
    }
}

#[test]
fn what_is_popped_makes_room_for_as_much() {
    let (mut writer, mut reader) = stream(2).unwrap();
    assert_eq!(writer.push(b"cat"), 2);
    holds(&mut reader, b"ca");
    assert_eq!(writer.push(b"t"), 0);
    assert_eq!(reader.pop(2), 2);
    assert_eq!(writer.push(b"tac"), 2);
    holds(&mut reader, b"ta");
    assert_eq!(reader.pop(1), 1);
    assert_eq!(writer.push(b"c"), 1);
    holds(&mut reader, b"ac");
    assert_eq!(reader.pop(2), 2);
    counts(&writer, &reader, 5, 5);
}

#[test]
fn an_empty_push_changes_nothing() {
    let (mut writer, mut reader) = stream(2).unwrap();
    assert_eq!(writer.push(b""), 0);
    writer.push(b"c");
    assert_eq!(writer.push(b""), 0);
    holds(&mut reader, b"c");
}

#[test]
fn a_long_stream_through_a_short_memory_is_whole() {
    for capacity in [1, 3, 15] {
        let (mut writer, mut reader) = made::<Spin>(capacity);
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i * 7 / 3) as u8).collect();
        let (mut rest, mut received) = (&bytes[..], Vec::new());
        while !reader.is_finished() {
            rest = &rest[writer.push(rest)..];
            if rest.is_empty() {
                writer.close();
            }
            received.extend_from_slice(reader.peek());
            reader.pop(received.len() - reader.bytes_popped() as usize);
        }
        assert!(received == bytes);
        counts(&writer, &reader, 100_000, 100_000);
    }
}

#[test]
fn a_stream_of_no_bytes_is_an_error_that_says_what_to_do() {
    let error = stream(0).unwrap_err().to_string();
    assert!(
        error.starts_with("stream: ") && error.contains("at least 1"),
        "{error}"
    );
    let error = stream(usize::MAX).unwrap_err().to_string();
    assert!(error.contains("smaller"), "{error}");
}

/// A small generator of numbers (xorshift), so that a failure repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }
}
