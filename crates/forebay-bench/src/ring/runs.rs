//! What is done with a ring: numbers from one thread to another, one there and one back, and both in one thread.
//!
//! An end that finds no room, or nothing, retries, with a pause instruction before that (`PAUSES`) or without. Some rings are faster
//! with pauses, some without; the better one is reported.

use super::ends::{Pops, Pushes, Ring};
use crate::method::{simulated::counted, two::run_pair};
use anyhow::Result;
use std::{
    hint::{self, black_box},
    time::Instant,
};

/// Numbers of a burst.
pub const BURST: usize = 32;

/// A burst that begins where a cache line does: else the place of a stack decides how many lines its copies cross.
#[repr(align(64))]
struct Burst([u64; BURST]);

impl Burst {
    /// This number of numbers from `first` on.
    #[inline(always)]
    fn from(first: u64) -> Burst {
        Burst(std::array::from_fn(|place| first + place as u64))
    }
}

/// What both ends do with each number where they work: one multiplication and one addition, each needing the one before.
///
/// The producer passes the states of a linear congruential generator, and the consumer makes a polynomial of them.
#[inline(always)]
fn step(state: u64, number: u64) -> u64 {
    state
        .wrapping_mul(0x5851_F42D_4C95_7F2D)
        .wrapping_add(number)
}

/// What is added at the producer's end.
const ADDED: u64 = 0x1405_7B7E_F767_814F;

/// What the numbers come to at the consumer's end.
fn expected<const WORKS: bool>(numbers: u64) -> u64 {
    if !WORKS {
        return numbers * (numbers - 1) / 2;
    }
    let (mut made, mut found) = (0, 0);
    for _ in 0..numbers {
        made = step(made, ADDED);
        found = step(found, made);
    }
    found
}

/// Slots of those rings that carry single numbers there and back, or numbers within one thread.
const SMALL: usize = 1024;

/// How numbers travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// From one thread to another.
    Pass {
        /// Slots of the ring.
        capacity: usize,
        /// In bursts of [`BURST`], or one by one.
        in_bursts: bool,
        /// Each end multiplies and adds once for each number.
        works: bool,
    },
    /// One there, through one ring, and then it back, through another.
    Trips,
    /// In and out again by one thread.
    Alone {
        /// In bursts of [`BURST`], or one by one.
        in_bursts: bool,
    },
}

impl Task {
    /// Arguments of a program in C++: the task, the capacity, the burst size.
    pub fn words(self) -> String {
        let (what, capacity, in_bursts) = match self {
            Task::Pass {
                capacity,
                in_bursts,
                works,
            } => (if works { "work" } else { "pass" }, capacity, in_bursts),
            Task::Trips => ("trips", SMALL, false),
            Task::Alone { in_bursts } => ("alone", SMALL, in_bursts),
        };
        format!("{what} {capacity} {}", if in_bursts { BURST } else { 1 })
    }
}

/// Does `task` with this number of numbers, a multiple of [`BURST`]; returns the nanoseconds.
pub fn run<R: Ring, const PAUSES: bool>(
    task: Task,
    cpus: (usize, usize),
    numbers: u64,
) -> Result<f64> {
    match task {
        Task::Pass {
            capacity,
            in_bursts,
            works,
        } => match works {
            true => pass::<R, PAUSES, true>(capacity, in_bursts, cpus, numbers),
            false => pass::<R, PAUSES, false>(capacity, in_bursts, cpus, numbers),
        },
        Task::Trips => {
            let (there, away) = R::new(SMALL)?;
            let (back, home) = R::new(SMALL)?;
            run_pair(
                cpus,
                || ask::<PAUSES>(there, home, numbers),
                || answer::<PAUSES>(away, back, numbers),
            )
        }
        Task::Alone { in_bursts } => {
            let (producer, consumer) = R::new(SMALL)?;
            let begun = Instant::now();
            let sum = counted(|| match in_bursts {
                true => both_bursts(producer, consumer, numbers),
                false => both(producer, consumer, numbers),
            });
            let elapsed = begun.elapsed();
            assert_eq!(sum, numbers * (numbers - 1) / 2);
            Ok(elapsed.as_nanos() as f64)
        }
    }
}

fn pass<R: Ring, const PAUSES: bool, const WORKS: bool>(
    capacity: usize,
    in_bursts: bool,
    cpus: (usize, usize),
    numbers: u64,
) -> Result<f64> {
    let (producer, consumer) = R::new(capacity)?;
    let mut found = 0;
    let ns = run_pair(
        cpus,
        || match in_bursts {
            true => produce_bursts::<PAUSES, WORKS>(producer, numbers),
            false => produce::<PAUSES, WORKS>(producer, numbers),
        },
        || {
            found = match in_bursts {
                true => consume_bursts::<PAUSES, WORKS>(consumer, numbers),
                false => consume::<PAUSES, WORKS>(consumer, numbers),
            };
        },
    )?;
    assert_eq!(found, expected::<WORKS>(numbers));
    Ok(ns)
}

#[inline(always)]
fn wait<const PAUSES: bool>() {
    if PAUSES {
        hint::spin_loop();
    }
}

#[inline(always)]
fn pop<const PAUSES: bool>(consumer: &mut impl Pops) -> u64 {
    loop {
        match consumer.pop() {
            Some(number) => return number,
            None => wait::<PAUSES>(),
        }
    }
}

#[inline(always)]
fn push<const PAUSES: bool>(producer: &mut impl Pushes, number: u64) {
    while !producer.push(number) {
        wait::<PAUSES>();
    }
}

// Never inlined, and each loop first moves its ends into local variables: see docs/performance-notes.md.

/// The number that is passed: the `count`th, or the generator's next.
#[inline(always)]
fn next<const WORKS: bool>(state: &mut u64, count: u64) -> u64 {
    if !WORKS {
        return count;
    }
    *state = step(*state, ADDED);
    *state
}

#[inline(always)]
fn take<const WORKS: bool>(found: u64, number: u64) -> u64 {
    match WORKS {
        true => step(found, number),
        false => found + number,
    }
}

#[inline(never)]
fn produce<const PAUSES: bool, const WORKS: bool>(producer: impl Pushes, numbers: u64) {
    let mut producer = producer;
    let mut state = 0;
    for count in 0..numbers {
        push::<PAUSES>(&mut producer, next::<WORKS>(&mut state, count));
    }
}

#[inline(never)]
fn produce_bursts<const PAUSES: bool, const WORKS: bool>(producer: impl Pushes, numbers: u64) {
    let mut producer = producer;
    let mut state = 0;
    for first in (0..numbers).step_by(BURST) {
        let burst = match WORKS {
            true => Burst(std::array::from_fn(|_| next::<WORKS>(&mut state, 0))),
            false => Burst::from(first),
        };
        let mut rest = &burst.0[..];
        while !rest.is_empty() {
            match producer.push_burst(rest) {
                0 => wait::<PAUSES>(),
                pushed => rest = &rest[pushed..],
            }
        }
    }
}

#[inline(never)]
fn consume<const PAUSES: bool, const WORKS: bool>(consumer: impl Pops, numbers: u64) -> u64 {
    let mut consumer = consumer;
    (0..numbers).fold(0, |found, _| {
        take::<WORKS>(found, pop::<PAUSES>(&mut consumer))
    })
}

#[inline(never)]
fn consume_bursts<const PAUSES: bool, const WORKS: bool>(consumer: impl Pops, numbers: u64) -> u64 {
    let mut consumer = consumer;
    let mut burst = Burst([0; BURST]);
    let (mut found, mut taken) = (0, 0);
    while taken < numbers {
        let popped = consumer.pop_burst(&mut burst.0);
        if popped == 0 {
            wait::<PAUSES>();
        }
        let numbers = burst.0[..popped].iter();
        found = numbers.fold(found, |found, &number| take::<WORKS>(found, number));
        taken += popped as u64;
    }
    found
}

#[inline(never)]
fn ask<const PAUSES: bool>(there: impl Pushes, home: impl Pops, numbers: u64) {
    let (mut there, mut home) = (there, home);
    for number in 0..numbers {
        push::<PAUSES>(&mut there, number);
        assert_eq!(pop::<PAUSES>(&mut home), number);
    }
}

#[inline(never)]
fn answer<const PAUSES: bool>(away: impl Pops, back: impl Pushes, numbers: u64) {
    let (mut away, mut back) = (away, back);
    for _ in 0..numbers {
        let number = pop::<PAUSES>(&mut away);
        push::<PAUSES>(&mut back, number);
    }
}

/// The sum shows that all went through, and keeps the compiler from removing the loop.
#[inline(never)]
fn both(producer: impl Pushes, consumer: impl Pops, numbers: u64) -> u64 {
    let (mut producer, mut consumer) = (producer, consumer);
    let mut sum = 0;
    for number in 0..numbers {
        producer.push(number);
        sum += consumer.pop().unwrap_or(0);
    }
    sum
}

#[inline(never)]
fn both_bursts(producer: impl Pushes, consumer: impl Pops, numbers: u64) -> u64 {
    let (mut producer, mut consumer) = (producer, consumer);
    let mut taken = Burst([0; BURST]);
    let mut sum = 0;
    for first in (0..numbers).step_by(BURST) {
        let burst = Burst::from(first);
        producer.push_burst(&black_box(&burst).0);
        let popped = consumer.pop_burst(&mut taken.0);
        sum += taken.0[..popped].iter().sum::<u64>();
    }
    sum
}
