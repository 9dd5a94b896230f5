//! Behaviour in two threads: order through stalls, early ends of either side, no lost wake-up.

use super::{tests::made, *};
use crate::{
    ring::ONE_VIEW,
    sync::{Eventfd, Park, Spin, Task},
};
use forebay_testing::dice::{Dice, rounds, times};
use std::{
    io::ErrorKind,
    thread,
    time::{Duration, Instant},
};

fn time_limits_end<W: Wait>() {
    for limit in [Duration::ZERO, Duration::from_millis(2)] {
        let (mut writer, mut reader) = made::<W>(2);
        let deadline = Instant::now() + limit;
        let late = Err(WaitError::TimedOut);
        assert_eq!(reader.wait_filled_timeout(1, limit), late);
        assert_eq!(reader.wait_filled_deadline(1, deadline), late);
        assert_eq!(reader.end(), None);
        assert_eq!(writer.push_all_timeout(b"abc", limit), 2);
        assert_eq!(writer.push_all_deadline(b"c", deadline), 0);
        assert_eq!(writer.wait_vacant_timeout(1, limit), late);
        assert_eq!(writer.wait_vacant_deadline(1, deadline), late);
        assert!(!writer.is_over());
        assert_eq!(reader.wait_filled_timeout(2, Duration::MAX), Ok(2));
        assert_eq!(reader.bytes_buffered(), 2);
        reader.consume(1);
        assert_eq!(writer.wait_vacant_timeout(2, limit), late);
        assert_eq!(reader.wait_filled_timeout(9, limit), late);
        assert_eq!(reader.peek(), b"b");
        assert_eq!(writer.wait_vacant_timeout(1, Duration::MAX), Ok(1));
    }
}

#[test]
fn time_limits_end_every_way_of_waiting() {
    time_limits_end::<Spin>();
    time_limits_end::<Park>();
    time_limits_end::<Eventfd>();
    time_limits_end::<Task>();
}

/// Sends numbered bytes through a stream in random steps with stalls. Either side may leave early. The reader requires
/// that the bytes it gets are the start of the bytes that were sent.
fn through_a_stream<W: Wait + 'static>(
    seed: u64,
    capacity: usize,
    sent: u64,
    taken: u64,
    end: Option<End>,
) {
    fn byte(number: u64) -> u8 {
        (number ^ number >> 8) as u8
    }
    let (mut writer, mut reader) = made::<W>(capacity);
    let sender = thread::spawn(move || {
        let mut dice = Dice(seed);
        let mut number = 0;
        while number < sent {
            let n = dice.below(2 * capacity as u64 + 2).min(sent - number);
            let bytes: Vec<u8> = (number..number + n).map(byte).collect();
            number += match dice.below(4) {
                0 => writer.push_slice(&bytes),
                1 => writer.push_all_timeout(&bytes, Duration::from_micros(dice.below(300))),
                2 => {
                    let mut room = writer.reserve(n as usize);
                    let k = room.len();
                    room.copy_from_slice(&bytes[..k]);
                    room.commit(k);
                    k
                }
                _ => match writer.write_some(&bytes) {
                    Ok(written) => written,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
                        0
                    }
                },
            } as u64;
            assert_eq!(writer.bytes_pushed(), number);
            if writer.reader_is_gone() {
                return;
            }
            dice.stall(100);
        }
        match end {
            Some(End::Closed) => writer.close(),
            Some(End::Failed) => writer.set_error(),
            _ => {}
        }
    });
    let mut dice = Dice(seed + 1);
    let mut number = 0;
    while number < taken && !reader.is_finished() {
        let n = 1 + dice.below(2 * capacity as u64);
        let mut target = vec![0; n as usize];
        let content: &[u8] = match dice.below(4) {
            0 => reader.peek(),
            1 => {
                let _ =
                    reader.wait_filled_timeout(n as usize, Duration::from_micros(dice.below(300)));
                reader.peek()
            }
            2 => {
                let popped = reader.pop_slice(&mut target);
                &target[..popped]
            }
            _ => match reader.read_some(&mut target) {
                Ok(read) => &target[..read],
                Err(error) => {
                    assert!(reader.is_finished(), "{error}");
                    &[]
                }
            },
        };
        assert!(
            content
                .iter()
                .copied()
                .eq((number..).map(byte).take(content.len()))
        );
        number += content.len() as u64;
        let ahead = (number - reader.bytes_popped()) as usize;
        assert_eq!(reader.consume(ahead), ahead);
        dice.stall(100);
    }
    assert!(number >= taken.min(sent));
    if taken > sent {
        assert_eq!((number, reader.end()), (sent, end));
    }
    drop(reader);
    sender.join().unwrap();
}

const ENDS: [Option<End>; 3] = [Some(End::Closed), Some(End::Failed), Some(End::WriterGone)];

#[test]
fn two_threads_agree_with_the_order_through_stalls_and_every_end() {
    for (seed, capacity) in [(1, 1), (2, 2), (3, 15), (4, 1500), (5, 32_768)] {
        let bytes = 300 * capacity.min(1000) as u64;
        for end in ENDS {
            through_a_stream::<Spin>(seed, capacity, bytes, u64::MAX, end);
            through_a_stream::<Park>(seed, capacity, bytes, u64::MAX, end);
            through_a_stream::<Eventfd>(seed, capacity, bytes, u64::MAX, end);
            through_a_stream::<Task>(seed, capacity, bytes, u64::MAX, end);
        }
    }
}

#[test]
fn a_side_that_leaves_early_is_noticed_by_the_other() {
    for seed in 1..times(40, 3) {
        through_a_stream::<Park>(seed, 16, 4000, seed * 90, Some(End::Closed));
        through_a_stream::<Eventfd>(seed, 16, 4000, seed * 90, Some(End::Closed));
        through_a_stream::<Park>(seed, 16, seed * 90, u64::MAX, Some(End::WriterGone));
    }
}

/// Sends `n` bytes that count up from `first`, waiting for room if they are more than the capacity.
fn say<W: Wait>(writer: &mut Writer<W>, first: u8, n: usize) {
    let mut bytes = [0; LONGEST];
    (0..n).for_each(|i| bytes[i] = first.wrapping_add(i as u8));
    assert_eq!(
        writer.push_all_timeout(&bytes[..n], FOR_EVER),
        n,
        "was never woken"
    );
}

/// Receives and checks such bytes.
fn hear<W: Wait>(reader: &mut Reader<W>, first: u8, n: usize) {
    let (mut bytes, mut heard) = ([0; LONGEST], 0);
    while heard < n {
        assert!(
            reader.wait_filled_timeout(1, FOR_EVER).is_ok(),
            "was never woken"
        );
        heard += reader.pop_slice(&mut bytes[heard..n]);
    }
    assert!((0..n).all(|i| bytes[i] == first.wrapping_add(i as u8)));
}

const LONGEST: usize = 40;

/// A limit, so that a lost wake-up fails a test instead of hanging it.
const FOR_EVER: Duration = Duration::from_secs(100);

#[test]
fn no_wake_up_is_lost_in_many_random_handshakes() {
    /// Sometimes waits about as long as an end checks before it sleeps: at these moments a wake-up could be lost.
    fn stall(dice: &mut Dice) {
        if dice.below(32) == 0 {
            (0..dice.below(600)).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Does `n` handshakes, in parts. On a busy machine it stops after a minute: each handshake then waits until the scheduler
    /// runs the other thread, which takes a thousand times as long.
    fn handshakes<W: Wait + 'static>(seed: u64, n: u32) {
        const AT_ONCE: u32 = 1000;
        let begun = Instant::now();
        for first in (0..n).step_by(AT_ONCE as usize) {
            if begun.elapsed() > Duration::from_secs(60) {
                return println!("a busy machine: {first} of {n} handshakes");
            }
            some_handshakes::<W>(seed + u64::from(first), AT_ONCE.min(n - first));
        }
    }

    fn some_handshakes<W: Wait + 'static>(seed: u64, n: u32) {
        let (mut question, mut questions) = made::<W>(32);
        let (mut answer, mut answers) = made::<W>(32);
        // Both sides use the same random lengths, but different stalls.
        let length = |lengths: &mut Dice| 1 + lengths.below(LONGEST);
        let echo = thread::spawn(move || {
            let (mut lengths, mut dice) = (Dice(seed), Dice(seed + 1));
            for i in 0..n {
                let n = length(&mut lengths);
                hear(&mut questions, i as u8, n);
                stall(&mut dice);
                say(&mut answer, !(i as u8), n);
            }
        });
        let (mut lengths, mut dice) = (Dice(seed), Dice(seed + 2));
        for i in 0..n {
            let n = length(&mut lengths);
            say(&mut question, i as u8, n);
            hear(&mut answers, !(i as u8), n);
            stall(&mut dice);
        }
        echo.join().unwrap();
    }

    let (many, fewer) = if ONE_VIEW {
        (times(1000, 30), times(500, 15))
    } else {
        (rounds(1_000_000), rounds(20_000))
    };
    handshakes::<Park>(5, many);
    handshakes::<Eventfd>(6, fewer);
    handshakes::<Task>(7, fewer);
}

#[test]
fn a_poll_loop_over_both_ends_moves_every_byte() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (mut writer, mut questions) = made::<Eventfd>(7);
    let (mut answer, mut reader) = made::<Eventfd>(5);
    let echo = thread::spawn(move || {
        while !questions.is_finished() {
            if questions.arm() {
                poll(&mut [PollFd::new(&questions, PollFlags::IN)], None).unwrap();
            }
            let n = answer.push_all(questions.peek());
            questions.consume(n);
        }
        answer.close();
    });
    let bytes: Vec<u8> = (0..if ONE_VIEW { times(5000, 100) } else { 50_000 })
        .map(|i: u32| i as u8)
        .collect();
    let (mut rest, mut received) = (&bytes[..], Vec::new());
    while !reader.is_finished() {
        rest = &rest[writer.push_slice(rest)..];
        if rest.is_empty() {
            writer.close();
        }
        received.extend_from_slice(reader.peek());
        reader.consume(received.len() - reader.bytes_popped() as usize);
        let wants_room = !rest.is_empty();
        // Both are armed before either is polled, and each `arm` checks again.
        if reader.arm() && (!wants_room || writer.arm()) {
            let mut fds = vec![PollFd::new(&reader, PollFlags::IN)];
            if wants_room {
                fds.push(PollFd::new(&writer, PollFlags::IN));
            }
            poll(&mut fds, None).unwrap();
        }
    }
    assert!(received == bytes);
    echo.join().unwrap();
}
