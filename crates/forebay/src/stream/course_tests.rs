//! The tests of a byte stream as in the course CS 144 ("Checkpoint 0 – Byte Stream", see docs/background.md), and its long
//! random stress. After each step, all observable state is compared with an oracle. Other tests in one thread are in `tests`.

use super::{tests::made, *};
use crate::{ring::ONE_VIEW, sync::Park};
use forebay_testing::dice::{Dice, rounds, times};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Push(&'a [u8]),
    Pop(usize),
    Close,
    Fail,
}

use Step::{Close, Fail, Pop, Push};

/// A stream and its expected state.
struct Told {
    writer: Writer,
    reader: Reader,
    content: VecDeque<u8>,
    pushed: u64,
    popped: u64,
    closed: bool,
    failed: bool,
}

impl Told {
    fn new(capacity: usize) -> Told {
        let (writer, reader) = made::<Park>(capacity);
        let mut told = Told {
            writer,
            reader,
            content: VecDeque::new(),
            pushed: 0,
            popped: 0,
            closed: false,
            failed: false,
        };
        told.agrees();
        told
    }

    fn step(&mut self, step: Step<'_>) {
        let vacant = self.writer.capacity() - self.content.len();
        match step {
            Push(bytes) => {
                let over = self.closed || self.failed;
                let n = if over { 0 } else { bytes.len().min(vacant) };
                assert_eq!(self.writer.push_slice(bytes), n);
                self.content.extend(&bytes[..n]);
                self.pushed += n as u64;
            }
            Pop(n) => {
                let expected = n.min(self.content.len());
                assert_eq!(self.reader.consume(n), expected);
                self.content.drain(..expected);
                self.popped += expected as u64;
            }
            Close => {
                self.writer.close();
                self.closed = true;
            }
            Fail => {
                self.writer.set_error();
                self.failed = true;
            }
        }
        self.agrees();
    }

    fn agrees(&mut self) {
        let (writer, reader) = (&self.writer, &mut self.reader);
        assert_eq!(
            (writer.is_closed(), reader.is_closed()),
            (self.closed, self.closed)
        );
        assert_eq!(
            (writer.has_error(), reader.has_error()),
            (self.failed, self.failed)
        );
        // In the course a stream with an error is never finished. Here it is, so that a loop until the end terminates; `end`
        // returns the reason.
        let over = self.closed || self.failed;
        let end = match self.failed {
            true => Some(End::Failed),
            false => self.closed.then_some(End::Closed),
        };
        assert_eq!(reader.is_finished(), over && self.content.is_empty());
        assert_eq!(reader.end(), end);
        assert_eq!(
            (writer.bytes_pushed(), reader.bytes_popped()),
            (self.pushed, self.popped)
        );
        assert_eq!(reader.bytes_buffered(), self.content.len());
        assert_eq!(
            writer.available_capacity(),
            writer.capacity() - self.content.len()
        );
        for _ in 0..2 {
            let (content, peeked) = (self.content.make_contiguous(), reader.peek());
            assert!(ONE_VIEW || peeked.len() == content.len());
            assert_eq!(peeked.is_empty(), content.is_empty());
            assert!(content.starts_with(peeked));
        }
    }
}

#[test]
fn every_story_of_the_course_comes_out_as_told() {
    const EMPTY: Step<'_> = Push(b"");
    let (cat, tac, c, t) = (Push(b"cat"), Push(b"tac"), Push(b"c"), Push(b"t"));
    let stories: &[(usize, &[Step<'_>])] = &[
        // Basics: created, closed and failed without a byte.
        (15, &[]),
        (15, &[Close, Close, cat]),
        (15, &[cat, Close, Pop(3), Close, cat]),
        (15, &[Fail, cat, Close]),
        // Capacity: bytes that do not fit are not accepted, and pops make room.
        (2, &[cat, t]),
        (2, &[cat, Pop(2), tac]),
        (2, &[cat, Pop(1), tac]),
        (2, &[cat, t, Pop(2), tac, Pop(1), c, Pop(2)]),
        (2, &[EMPTY, c, EMPTY]),
        (2, &[EMPTY, EMPTY, cat, EMPTY, EMPTY, Pop(1), EMPTY, EMPTY]),
        // One write.
        (15, &[cat, Close, Pop(3)]),
        (15, &[cat, Pop(3), Close]),
        (15, &[cat, Pop(1), Pop(2), Close]),
        // Two writes.
        (15, &[cat, tac, Pop(2), Close, Pop(4)]),
        (15, &[cat, tac, Close, Pop(2), Pop(4)]),
        (15, &[cat, Pop(2), tac, Close, Pop(4)]),
        // Popping more than the content, which the course leaves undefined.
        (15, &[cat, Pop(9), Pop(1), tac, Pop(usize::MAX), Close]),
        (15, &[cat, Fail, Pop(2), tac, Pop(1)]),
    ];
    for (capacity, steps) in stories {
        eprintln!("capacity {capacity}: {steps:?}"); // shown if it fails
        let mut told = Told::new(*capacity);
        steps.iter().for_each(|&step| told.step(step));
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn many_writes_pile_up_as_told() {
    let mut dice = Dice(26);
    let mut told = Told::new(200 * 1000);
    for _ in 0..if ONE_VIEW { times(50, 10) } else { 1000 } {
        let len = 10 + dice.below(190);
        let bytes: Vec<u8> = (0..len).map(|_| b'a' + dice.byte() % 26).collect();
        told.step(Push(&bytes));
    }
}

/// Random pushes of up to all remaining bytes and random pops of up to the whole content, until every byte has passed.
fn stress(bytes: usize, capacity: usize, seed: u64) {
    let mut dice = Dice(seed);
    let data: Vec<u8> = (0..bytes).map(|_| dice.byte()).collect();
    let mut told = Told::new(capacity);
    while told.popped < bytes as u64 {
        let rest = &data[told.pushed as usize..];
        let n = dice.below(rest.len() + 1);
        told.step(Push(&rest[..n]));
        if told.pushed == bytes as u64 {
            told.step(Close);
        }
        let n = dice.below(told.content.len() + 1);
        told.step(Pop(n));
    }
    assert!(told.reader.is_finished());
}

#[test]
fn a_long_random_stress_comes_out_as_told() {
    for (bytes, capacity) in [(19, 3), (18, 17), (1111, 17), (4097, 4096)] {
        for seed in 1..=if ONE_VIEW { times(2, 1) } else { rounds(20) } {
            stress(bytes, capacity, seed);
        }
    }
    if !ONE_VIEW {
        stress(50_000, 15, 1);
        stress(2_000_000, 32_768, 2);
    }
}
