//! The limit: nothing but cache lines handed from one core to the other, a quarter or an eighth of a ring at a time.
//!
//! ```text
//!   │ 8 numbers │ 8 numbers │ …  a part  │ …     full lines only, and one position a part
//! ```
//!
//! The producer fetches lines ahead for writing and says how far it has come when a part is full; the consumer does when it
//! has read one. So a line crosses once each way a lap, no thread loads a line that the other one works on, and hardly anything
//! else crosses: only where a part ends may the producer fetch a few lines that the consumer is still to read. A ring has to say
//! far more often that there is something, and comes as near as it can.

#![allow(unsafe_code)]

use crate::method::two::run_pair;
use anyhow::Result;
use forebay::sync::CachePadded;
use std::{
    cell::UnsafeCell,
    hint,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Acquire, Release},
    },
};

/// Numbers of a line.
const NUMBERS: usize = 8;

/// Lines that are fetched ahead.
const AHEAD: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Line(UnsafeCell<[u64; NUMBERS]>);

// SAFETY: a line belongs to the producer or to the consumer, as `filled` and `emptied` say.
unsafe impl Sync for Line {}

/// Asks for a line, to write to it soon.
#[inline(always)]
fn fetch(_line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) _line, options(nostack, preserves_flags));
    }
}

/// Hands over this number of numbers and a few, through as many lines as `capacity` numbers of eight bytes have, a power of two, in
/// `PARTS` parts; the nanoseconds.
pub fn pass<const PARTS: usize>(
    cpus: (usize, usize),
    capacity: usize,
    numbers: u64,
) -> Result<f64> {
    let lines: Box<[Line]> = (0..capacity / NUMBERS).map(|_| Line::default()).collect();
    let (part, mask) = (lines.len() / PARTS, lines.len() - 1);
    let parts = (numbers as usize).div_ceil(NUMBERS * part);
    // Parts, since the beginning.
    let filled = CachePadded(AtomicUsize::new(0));
    let emptied = CachePadded(AtomicUsize::new(0));
    let produce = || {
        let mut number = 0;
        for done in 0..parts {
            while done >= emptied.load(Acquire) + PARTS {
                hint::spin_loop();
            }
            let first = done % PARTS * part;
            for (which, line) in lines[first..][..part].iter().enumerate() {
                fetch(&lines[(first + which + AHEAD) & mask]);
                // SAFETY: the consumer is done with this part, and waits for it until it is published by `filled`.
                unsafe {
                    line.0
                        .get()
                        .write(std::array::from_fn(|place| number + place as u64));
                }
                number += NUMBERS as u64;
            }
            filled.store(done + 1, Release);
        }
    };
    let consume = || {
        let mut sum = 0;
        for done in 0..parts {
            while filled.load(Acquire) == done {
                hint::spin_loop();
            }
            for line in &lines[done % PARTS * part..][..part] {
                // SAFETY: the producer is done with this part, and waits until it is given back by `emptied`.
                sum += unsafe { line.0.get().read() }.iter().sum::<u64>();
            }
            emptied.store(done + 1, Release);
        }
        let all = (parts * part * NUMBERS) as u64;
        assert_eq!(sum, all * (all - 1) / 2);
    };
    let passed = (parts * part * NUMBERS) as f64;
    Ok(run_pair(cpus, produce, consume)? * numbers as f64 / passed)
}
