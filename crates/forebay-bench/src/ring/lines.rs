//! The limit: nothing but cache lines handed from one core to the other, as many at once as there is room for.
//!
//! ```text
//!   │ 7 numbers, lap │ 7 numbers, lap │ …     a line is full when its last word says so
//! ```
//!
//! The producer fetches lines ahead for writing. The consumer looks at lines only; it says how far it has come once in a quarter of them. So a line crosses twice a lap,
//! once each way, and hardly anything else does: no ring that takes numbers of eight bytes can hand over more.

#![allow(unsafe_code)]

use crate::method::two::run_pair;
use anyhow::Result;
use forebay::sync::CachePadded;
use std::{
    hint,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Numbers of a line.
const NUMBERS: usize = 7;

#[derive(Default)]
#[repr(align(64))]
struct Line {
    numbers: [AtomicU64; NUMBERS],
    /// Written by the producer, read by the consumer: how often this line was filled.
    lap: AtomicU64,
}

/// Lines that are fetched ahead.
const AHEAD: usize = 16;

/// Asks for a line, to write to it soon.
#[inline(always)]
fn fetch(_line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch touches nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) _line, options(nostack, preserves_flags));
    }
}

/// Hands over so many numbers and a few, through as many lines as `capacity` numbers of eight bytes have; the nanoseconds.
///
/// # Errors
/// A thread may not run there.
pub fn pass(cpus: (usize, usize), capacity: usize, numbers: u64) -> Result<f64> {
    let lines: Box<[Line]> = (0..capacity / 8).map(|_| Line::default()).collect();
    let quarter = lines.len() / 4;
    let quarters = (numbers as usize).div_ceil(NUMBERS * quarter);
    let emptied = CachePadded(AtomicUsize::new(0)); // quarters
    let produce = || {
        let mut number = 0;
        for filled in 0..quarters {
            while filled >= emptied.load(Acquire) + 4 {
                hint::spin_loop();
            }
            let lap = (filled / 4 + 1) as u64;
            let first = filled % 4 * quarter;
            for (which, line) in lines[first..][..quarter].iter().enumerate() {
                fetch(&lines[(first + which + AHEAD) % lines.len()]);
                for place in &line.numbers {
                    place.store(number, Relaxed); // published by the lap
                    number += 1;
                }
                line.lap.store(lap, Release);
            }
        }
    };
    let consume = || {
        let mut sum = 0;
        for done in 0..quarters {
            let lap = (done / 4 + 1) as u64;
            for line in &lines[done % 4 * quarter..][..quarter] {
                while line.lap.load(Acquire) != lap {
                    hint::spin_loop();
                }
                for place in &line.numbers {
                    sum += place.load(Relaxed); // published before the lap
                }
            }
            emptied.store(done + 1, Release);
        }
        let all = (quarters * quarter * NUMBERS) as u64;
        assert_eq!(sum, all * (all - 1) / 2);
    };
    let passed = (quarters * quarter * NUMBERS) as f64;
    Ok(run_pair(cpus, produce, consume)? * numbers as f64 / passed)
}
