//! Behaviour in one thread: every operation of a bounded stream of bytes, by example and against an oracle.
//! Tests with two threads are in `thread_tests`.

use super::*;
use crate::{
    ring::ONE_VIEW,
    sync::{Park, Spin, Task, Wait},
};
use forebay_testing::dice::{Dice, rounds, times};
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    io::{self, BufRead, ErrorKind, Read, Write},
    thread,
};

/// A stream with this capacity.
pub(super) fn made<W: Wait>(capacity_bytes: usize) -> (Writer<W>, Reader<W>) {
    stream_with(&StreamConfig {
        capacity_bytes,
        ..StreamConfig::default()
    })
    .unwrap()
}

/// Checks the content byte by byte, even if a slice ends at the seam.
#[track_caller]
fn holds<W: Wait>(reader: &mut Reader<W>, content: &[u8]) {
    assert_eq!(reader.bytes_buffered(), content.len());
    let slice = reader.peek();
    assert_eq!(slice, &content[..slice.len()]);
    assert!(ONE_VIEW && !slice.is_empty() || slice.len() == content.len());
}

/// Checks the counts of a stream after `pushed` bytes went in and `popped` bytes came out.
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
    assert_eq!(reader.consume(1), 0);
    assert_eq!(reader.end(), None);
}

#[test]
fn many_writes_are_one_content() {
    let (mut writer, mut reader) = stream(200_000).unwrap();
    let mut dice = Dice(3);
    let mut content = Vec::new();
    for _ in 0..times(1000, 20) {
        let part: Vec<u8> = (0..10 + dice.below(190)).map(|_| dice.byte()).collect();
        assert_eq!(writer.push_slice(&part), part.len());
        content.extend(part);
        holds(&mut reader, &content);
    }
    writer.close();
    assert_eq!(reader.consume(usize::MAX), content.len());
    assert!(reader.is_finished());
}

#[test]
fn a_push_takes_what_fits_and_the_capacity_is_exact() {
    for capacity in [1, 2, 15, 4095, 4096, 4097, 32_768] {
        let (mut writer, mut reader) = made::<Spin>(capacity);
        let bytes: Vec<u8> = (0..capacity + 1).map(|i| i as u8).collect();
        assert_eq!(writer.push_slice(&bytes), capacity);
        assert_eq!(writer.push_slice(&bytes), 0);
        holds(&mut reader, &bytes[..capacity]);
        assert_eq!(reader.consume(capacity + 1), capacity);
        counts(&writer, &reader, capacity as u64, capacity as u64);
    }
}

#[test]
fn a_long_stream_through_a_short_memory_is_whole() {
    for capacity in [1, 3, 15] {
        let (mut writer, mut reader) = made::<Spin>(capacity);
        let bytes: Vec<u8> = (0..times(100_000_u32, 300))
            .map(|i| (i * 7 / 3) as u8)
            .collect();
        let (mut rest, mut received) = (&bytes[..], Vec::new());
        while !reader.is_finished() {
            rest = &rest[writer.push_slice(rest)..];
            if rest.is_empty() {
                writer.close();
            }
            received.extend_from_slice(reader.peek());
            reader.consume(received.len() - reader.bytes_popped() as usize);
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

/// One step of either end; numbers are bytes.
#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Write(usize),
    /// Reserve the first number of bytes, write all of them, commit the second number.
    Commit(usize, usize),
    Pop(usize),
    PopSlice(usize),
    Read(usize),
    Consume(usize),
}

fn step(most: usize) -> impl Strategy<Value = Step> {
    let n = || 0..most;
    prop_oneof![
        n().prop_map(Step::Push),
        n().prop_map(Step::Write),
        (n(), n()).prop_map(|(n, k)| Step::Commit(n, k)),
        n().prop_map(Step::Pop),
        n().prop_map(Step::PopSlice),
        n().prop_map(Step::Read),
        n().prop_map(Step::Consume),
    ]
}

/// Runs a stream and the oracle through the same steps, then closes and empties it.
fn agrees_with_the_oracle<W: Wait>(capacity: usize, steps: &[Step]) {
    let (mut writer, mut reader) = made::<W>(capacity);
    let mut oracle = VecDeque::new();
    let mut pushed = 0_u64;
    let bytes =
        |from: u64, n: usize| -> Vec<u8> { (from..).map(|i| (i % 251) as u8).take(n).collect() };
    for step in steps {
        let vacant = capacity - oracle.len();
        match *step {
            Step::Push(n) => {
                let source = bytes(pushed, n);
                assert_eq!(writer.push_slice(&source), n.min(vacant));
                oracle.extend(&source[..n.min(vacant)]);
            }
            Step::Write(_) if vacant == 0 => assert_eq!(writer.write_some(b"").unwrap(), 0),
            Step::Write(n) => {
                let source = bytes(pushed, n);
                assert_eq!(writer.write_some(&source).unwrap(), n.min(vacant));
                oracle.extend(&source[..n.min(vacant)]);
            }
            Step::Commit(n, k) => {
                let mut room = writer.reserve(n);
                assert!(ONE_VIEW || room.len() == n.min(vacant));
                let k = k.min(room.len());
                let len = room.len();
                room.copy_from_slice(&bytes(pushed, len));
                oracle.extend(&room[..k]);
                room[k..].fill(0xff); // must not become visible
                room.commit(k);
            }
            Step::Pop(n) => {
                let n = n.min(oracle.len());
                assert_eq!(reader.consume(n), n);
                oracle.drain(..n);
            }
            Step::PopSlice(n) => {
                let mut target = vec![0; n];
                let n = n.min(oracle.len());
                assert_eq!(reader.pop_slice(&mut target), n);
                assert!(target[..n].iter().copied().eq(oracle.drain(..n)));
            }
            Step::Read(_) | Step::Consume(_) if oracle.is_empty() => {
                assert_eq!(reader.read_some(&mut []).unwrap(), 0);
            }
            Step::Read(n) => {
                let mut target = vec![0; n];
                let n = n.min(oracle.len());
                assert_eq!(reader.read_some(&mut target).unwrap(), n);
                assert!(target[..n].iter().copied().eq(oracle.drain(..n)));
            }
            Step::Consume(n) => {
                let content = reader.fill_some().unwrap();
                assert!(!content.is_empty() && content.len() <= oracle.len());
                assert!(content.iter().eq(oracle.range(..content.len())));
                let n = n.min(content.len());
                reader.consume(n);
                oracle.drain(..n);
            }
        }
        pushed = writer.bytes_pushed();
        let popped = reader.bytes_popped();
        assert_eq!(pushed - popped, oracle.len() as u64);
        counts(&writer, &reader, pushed, popped);
        holds(&mut reader, oracle.make_contiguous());
        assert!(!reader.is_finished());
    }
    writer.close();
    assert_eq!(reader.is_finished(), oracle.is_empty());
    while !oracle.is_empty() {
        let content = reader.fill_some().unwrap().to_vec();
        assert!(oracle.drain(..content.len()).eq(content.iter().copied()));
        reader.consume(content.len());
    }
    assert_eq!(reader.read_some(&mut [0]).unwrap(), 0);
    assert!(reader.is_finished() && writer.bytes_pushed() == pushed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(times(128, 1))))]

    #[test]
    fn small_streams_agree_with_the_oracle(
        capacity in 1_usize..40,
        steps in prop::collection::vec(step(50), 1..times(300, 60)),
    ) {
        agrees_with_the_oracle::<Park>(capacity, &steps);
    }

    #[test]
    fn streams_about_a_page_agree_with_the_oracle(
        capacity in 4080_usize..4112,
        steps in prop::collection::vec(step(5000), 1..times(100, 8)),
    ) {
        agrees_with_the_oracle::<Spin>(capacity, &steps);
    }

    #[test]
    fn streams_of_several_pages_agree_with_the_oracle(
        capacity in 8000_usize..40_000,
        steps in prop::collection::vec(step(9000), 1..times(100, 8)),
    ) {
        agrees_with_the_oracle::<Task>(capacity, &steps);
    }
}

#[test]
fn a_long_random_stress_agrees_with_the_oracle() {
    for (seed, capacity) in [(1, 1), (2, 15), (3, 1500), (4, 32_768)] {
        let mut dice = Dice(seed);
        let steps: Vec<Step> = (0..if ONE_VIEW {
            times(2000, 30)
        } else {
            rounds(20_000)
        })
            .map(|_| {
                let n = dice.below(capacity + 2);
                match dice.below(4) {
                    0 => Step::Push(n),
                    1 => Step::Commit(n, n / 2),
                    2 => Step::Pop(n),
                    _ => Step::PopSlice(n),
                }
            })
            .collect();
        agrees_with_the_oracle::<Spin>(capacity, &steps);
    }
}

#[test]
fn what_was_written_and_not_committed_never_shows() {
    let (mut writer, mut reader) = stream(4).unwrap();
    writer.reserve(4).fill(9);
    holds(&mut reader, b"");
    writer.push_slice(b"ab");
    let mut room = writer.reserve(9);
    room.fill(b'c');
    room.commit(1);
    holds(&mut reader, b"abc");
}

#[test]
fn a_new_stream_lends_zeros() {
    let (mut writer, _reader) = stream(3 * 4096).unwrap();
    assert!(writer.reserve(usize::MAX).iter().all(|&byte| byte == 0));
}

#[test]
fn no_more_is_committed_than_was_reserved() {
    let (mut writer, reader) = stream(2).unwrap();
    assert_eq!(writer.reserve(5).commit(3), 2);
    assert_eq!(reader.bytes_buffered(), 2);
    for (start, end) in [(0, 3), (2, 1)] {
        let error = writer.populate(start..end).unwrap_err();
        assert_eq!(error.code(), crate::error::Code::Invalid);
    }
}

#[test]
fn a_writer_that_panics_in_its_reservation_vanishes_and_publishes_nothing() {
    let (mut writer, mut reader) = stream(4).unwrap();
    writer.push_slice(b"a");
    let thread = thread::spawn(move || {
        let mut room = writer.reserve(3);
        room[0] = b'b';
        panic!("a planted panic");
    });
    thread.join().unwrap_err();
    assert_eq!(reader.end(), Some(End::WriterGone));
    holds(&mut reader, b"a");
}

#[test]
fn an_error_is_seen_by_both_ends_behind_the_content() {
    let (mut writer, mut reader) = stream(8).unwrap();
    writer.push_slice(b"abc");
    writer.set_error();
    assert!(writer.has_error() && reader.has_error() && !reader.is_closed());
    assert_eq!((writer.push_slice(b"d"), writer.reserve(1).len()), (0, 0));
    assert_eq!(writer.write(b"d").unwrap_err().kind(), ErrorKind::Other);
    let mut all = Vec::new();
    let error = reader.read_to_end(&mut all).unwrap_err();
    assert_eq!((all, error.kind()), (b"abc".to_vec(), ErrorKind::Other));
    assert_eq!(reader.end(), Some(End::Failed));
    assert!(reader.is_finished());
    writer.close(); // the error remains
    assert_eq!(reader.end(), Some(End::Failed));

    let (mut writer, mut reader) = stream(8).unwrap();
    writer.push_slice(b"abc");
    reader.set_error();
    assert!(writer.has_error() && reader.has_error());
    assert_eq!(writer.push_all(b"d"), 0);
    holds(&mut reader, b"abc");
}

#[test]
fn a_loop_until_finished_ends_and_learns_of_an_error_in_every_way_of_reading() {
    type Fails = fn(&mut Writer, &mut Reader);
    let ways: [Fails; 2] = [
        |writer, _| writer.set_error(),
        |_, reader| reader.set_error(),
    ];
    for (fails, content) in ways
        .into_iter()
        .flat_map(|fails| [(fails, &b""[..]), (fails, b"abc")])
    {
        let (mut writer, mut reader) = stream(8).unwrap();
        writer.push_slice(content);
        fails(&mut writer, &mut reader);
        let mut received = Vec::new();
        while !reader.is_finished() {
            reader.wait_filled(1);
            received.extend_from_slice(reader.peek());
            reader.consume(usize::MAX);
        }
        assert_eq!(received, content);
        assert_eq!(reader.end(), Some(End::Failed));
        assert!(reader.has_error() && !reader.is_closed());
        assert_eq!(reader.wait_filled(1), 0);
        let mut byte = [0];
        assert_eq!(reader.read(&mut byte).unwrap_err().kind(), ErrorKind::Other);
        assert_eq!(reader.fill_buf().unwrap_err().kind(), ErrorKind::Other);
    }
}

#[test]
fn what_was_reserved_before_the_reader_set_an_error_still_comes() {
    let (mut writer, mut reader) = stream(8).unwrap();
    let mut room = writer.reserve(3);
    room.copy_from_slice(b"abc");
    reader.set_error();
    assert!(reader.is_finished());
    room.commit(3);
    holds(&mut reader, b"abc");
    assert_eq!((writer.push_slice(b"d"), reader.consume(9)), (0, 3));
    assert!(reader.is_finished());
}

#[test]
fn a_close_is_told_from_a_writer_that_vanished() {
    let (mut writer, mut reader) = stream(8).unwrap();
    writer.push_slice(b"abc");
    drop(writer);
    assert!(!reader.is_closed() && !reader.is_finished());
    let mut all = Vec::new();
    let error = reader.read_to_end(&mut all).unwrap_err();
    assert_eq!(
        (&all[..], error.kind()),
        (&b"abc"[..], ErrorKind::UnexpectedEof)
    );
    assert_eq!(
        reader.fill_buf().unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    assert!(reader.is_finished());

    let (mut writer, mut reader) = stream(8).unwrap();
    writer.push_slice(b"abc");
    writer.close();
    drop(writer);
    let mut all = String::new();
    assert_eq!(reader.read_to_string(&mut all).unwrap(), 3);
    assert_eq!(reader.end(), Some(End::Closed));
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_writer_notices_that_its_reader_is_gone() {
    let (mut writer, reader) = stream(8).unwrap();
    assert!(!writer.reader_is_gone());
    drop(reader);
    assert!(writer.reader_is_gone() && writer.is_over());
    assert_eq!((writer.push_slice(b"a"), writer.push_all(b"a")), (0, 0));
    assert_eq!(writer.wait_vacant(1), 0);
    assert_eq!(
        writer.write(b"a").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    assert_eq!(writer.write(b"").unwrap(), 0);
    writer.flush().unwrap();
}

#[test]
fn a_closed_writer_refuses_to_write() {
    let (mut writer, _reader) = stream(8).unwrap();
    writer.close();
    let error = writer.write(b"a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("closed"), "{error}");
}

#[test]
fn lines_are_read_across_the_seam() {
    let (mut writer, mut reader) = stream(15).unwrap();
    let mut line = String::new();
    for i in 0..times(1000, 50) {
        writeln!(writer, "line {i}").unwrap();
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {i}\n"));
    }
}

#[test]
fn the_reason_of_a_failure_reaches_the_other_end_after_the_content() {
    use crate::error::Code;
    let (mut writer, mut reader) = stream(8).unwrap();
    writer.push_slice(b"ab");
    writer.fail(io::Error::from_raw_os_error(libc::ECONNRESET));
    writer.fail(Code::Io); // the first reason stays
    assert_eq!(
        (writer.push_slice(b"c"), reader.end()),
        (0, Some(End::Failed))
    );
    let mut text = Vec::new();
    let error = reader.read_to_end(&mut text).unwrap_err();
    assert_eq!(
        (&text[..], error.raw_os_error()),
        (&b"ab"[..], Some(libc::ECONNRESET))
    );
    assert_eq!(reader.error().unwrap().code(), Code::Closed);

    let (mut writer, mut reader) = stream(8).unwrap();
    reader.fail(crate::Error::coded(Code::Damaged, "line 7", "is no number"));
    let error = writer.write(b"c").unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string()),
        (io::ErrorKind::InvalidData, "line 7: is no number".into())
    );
    writer.set_error();
    assert_eq!(writer.error().unwrap().code(), Code::Damaged);

    let (mut writer, reader) = stream(8).unwrap();
    writer.set_error(); // without a reason
    assert!(reader.has_error() && reader.error().is_none());
}

#[test]
#[cfg_attr(miri, ignore = "mirrored memory")]
fn a_local_stream_keeps_the_reason_of_its_failure() {
    use crate::error::Code;
    let mut local = LocalStream::new(8).unwrap();
    local.fail(Code::TimedOut);
    assert_eq!(
        (local.end(), local.error().unwrap().code()),
        (Some(End::Failed), Code::TimedOut)
    );
}
