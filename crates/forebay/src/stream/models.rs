//! Models of a few steps: loom runs every order of them, other builds run one.
//!
//! `planted_bugs_are_found` tests these tests: it runs this binary again with a planted bug and requires the model to fail.

use super::*;
use crate::ring::spsc::{RingConfig, ring_with};
use crate::sync::{Eventfd, Park, Spin, Task, executor::Executor, model, planted, thread};
use std::task::{Context, Poll};

fn pair<W: Wait>() -> (Writer<W>, Reader<W>) {
    stream_with(&StreamConfig {
        capacity_bytes: 2,
        ..StreamConfig::default()
    })
    .unwrap()
}

/// Pops all available bytes, which count up from `next`.
fn take<W: Wait>(reader: &mut Reader<W>, next: &mut u8) {
    let content = reader.peek();
    let n = content.len();
    for &byte in content {
        assert_eq!(byte, *next);
        *next += 1;
    }
    assert_eq!(reader.consume(n), n);
}

#[test]
fn a_closed_stream_is_finished_only_when_its_last_byte_is_popped() {
    model(|| {
        let (mut writer, mut reader) = pair::<Spin>();
        let thread = thread::spawn(move || {
            assert_eq!(writer.push_slice(&[1, 2]), 2);
            writer.close();
            writer
        });
        let (end, buffered) = (reader.end(), reader.bytes_buffered());
        assert!(
            end.is_none() || buffered == 2,
            "{end:?} after {buffered} bytes"
        );
        let mut next = 1;
        while !reader.is_finished() {
            take(&mut reader, &mut next);
            thread::yield_now();
        }
        assert_eq!((next, reader.bytes_popped()), (3, 2));
        assert_eq!(reader.end(), Some(End::Closed));
        drop(thread.join().unwrap());
    });
}

/// A stream with a ring that bypasses it, as in a pipe of bytes. Numbers go through the ring while the stream is empty. Their
/// receiver checks the stream first, but takes from the ring before it takes from the stream.
#[test]
fn what_goes_past_a_stream_that_is_empty_comes_in_order() {
    model(|| {
        let (mut writer, mut reader) = pair::<Spin>();
        let (mut past, mut pieces) = ring_with::<u8, Spin>(&RingConfig::default()).unwrap();
        let thread = thread::spawn(move || {
            past.try_push(1).unwrap();
            writer.push_slice(&[2]);
            match writer.available_capacity() == writer.capacity() {
                true => past.try_push(3).unwrap(),
                false => assert_eq!(writer.push_slice(&[3]), 1),
            }
        });
        let (mut next, mut buffered) = (1, 0);
        while next <= 3 {
            if !planted("stream-looked-at-last") {
                buffered = reader.bytes_buffered();
            }
            let piece = pieces.try_pop().ok();
            if planted("stream-looked-at-last") {
                buffered = reader.bytes_buffered();
            }
            let number = match piece {
                Some(number) => number,
                None if buffered > 0 => {
                    let number = reader.peek()[0];
                    reader.consume(1);
                    number
                }
                None => {
                    thread::yield_now();
                    continue;
                }
            };
            assert_eq!(number, next);
            next += 1;
        }
        thread.join().unwrap();
    });
}

/// Bytes in every order of pushes, pops and the seam; `end` ends the stream.
fn a_reader_that_sleeps_gets_all<W: Wait + 'static>(end: fn(Writer<W>) -> Option<Writer<W>>) {
    model(move || {
        let (mut writer, mut reader) = pair::<W>();
        let thread = thread::spawn(move || {
            writer.push_slice(&[1]);
            writer.push_slice(&[2]);
            end(writer)
        });
        let mut next = 1;
        while reader.wait_filled(1) > 0 {
            take(&mut reader, &mut next);
        }
        assert_eq!(next, 3);
        assert!(reader.is_finished());
        drop(thread.join().unwrap());
    });
}

#[test]
fn a_sleeping_reader_is_woken_by_bytes_and_by_a_close() {
    a_reader_that_sleeps_gets_all::<Park>(|mut writer| {
        writer.close();
        Some(writer)
    });
}

#[test]
fn a_sleeping_reader_is_woken_by_bytes_and_by_an_error() {
    a_reader_that_sleeps_gets_all::<Park>(|mut writer| {
        writer.set_error();
        Some(writer)
    });
}

#[test]
fn a_sleeping_reader_is_woken_by_bytes_and_by_a_writer_that_vanishes() {
    a_reader_that_sleeps_gets_all::<Park>(|_| None);
}

#[test]
fn a_reader_that_sleeps_by_a_descriptor_or_beside_a_task_is_woken() {
    a_reader_that_sleeps_gets_all::<Eventfd>(|_| None);
    a_reader_that_sleeps_gets_all::<Task>(|_| None);
}

/// A writer that sleeps until there is room; `last` is the reader's last action.
fn a_writer_that_sleeps_is_woken(last: fn(Reader<Park>) -> Option<Reader<Park>>) {
    model(move || {
        let (mut writer, mut reader) = pair::<Park>();
        assert_eq!(writer.push_slice(&[1, 2, 3]), 2);
        let thread = thread::spawn(move || {
            assert_eq!(reader.consume(1), 1);
            last(reader)
        });
        let pushed = writer.push_all(&[3, 4]);
        assert!(pushed <= 1);
        assert!(writer.is_over());
        drop(thread.join().unwrap());
    });
}

#[test]
fn a_sleeping_writer_is_woken_by_room_and_by_a_reader_that_vanishes() {
    a_writer_that_sleeps_is_woken(|_| None);
}

#[test]
fn a_sleeping_writer_is_woken_by_room_and_by_an_error() {
    a_writer_that_sleeps_is_woken(|mut reader| {
        reader.set_error();
        Some(reader)
    });
}

#[test]
fn who_arms_a_descriptor_and_is_told_to_poll_is_woken() {
    model(|| {
        let (mut writer, mut reader) = pair::<Eventfd>();
        let thread = thread::spawn(move || {
            writer.push_slice(&[1]);
            writer.push_slice(&[2]);
            writer.close();
            writer
        });
        let mut next = 1;
        while !reader.is_finished() {
            if reader.arm() {
                reader.consumer.waits_at().sleep();
            }
            take(&mut reader, &mut next);
        }
        assert_eq!(next, 3);
        drop(thread.join().unwrap());
    });
}

#[test]
fn a_task_that_is_pending_is_woken() {
    model(|| {
        let (mut writer, mut reader) = pair::<Task>();
        let thread = thread::spawn(move || {
            writer.push_slice(&[1]);
            writer.push_slice(&[2]);
            writer.close();
            writer
        });
        let (executor, waker) = Executor::new();
        let mut context = Context::from_waker(&waker);
        let mut next = 1;
        loop {
            match reader.poll_peek(&mut context) {
                Poll::Ready([]) => break,
                Poll::Ready(_) => take(&mut reader, &mut next),
                Poll::Pending => executor.sleep(),
            }
        }
        assert_eq!(next, 3);
        drop(thread.join().unwrap());
    });
}

/// The checker of this build finds the planted bugs.
#[cfg(loom)]
#[test]
fn planted_bugs_are_found() {
    const PAST: &str = "what_goes_past_a_stream_that_is_empty_comes_in_order";
    const CLOSE: &str = "a_sleeping_reader_is_woken_by_bytes_and_by_a_close";
    const FINISHED: &str = "a_closed_stream_is_finished_only_when_its_last_byte_is_popped";
    const ROOM: &str = "a_sleeping_writer_is_woken_by_room_and_by_an_error";
    const DESCRIPTOR: &str = "who_arms_a_descriptor_and_is_told_to_poll_is_woken";
    const TASK: &str = "a_task_that_is_pending_is_woken";
    let plants = [
        ("end-relaxed", FINISHED),
        ("end-after-look", FINISHED),
        ("end-without-wake", CLOSE),
        ("end-without-wake", ROOM),
        ("park-without-second-look", CLOSE),
        ("arm-without-second-look", DESCRIPTOR),
        ("bell-arm-without-fence", DESCRIPTOR),
        ("task-without-second-look", TASK),
        ("bell-ring-without-fence", TASK),
        ("stream-looked-at-last", PAST),
    ];
    crate::sync::planted_bugs_are_found("stream::models", &plants);
}
