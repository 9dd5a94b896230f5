//! What the micro-benchmark leaves out: the first touch of each page, and address translation, with small and with huge pages.
//!
//! ```text
//!   first round   every page is touched for the first time: the kernel clears it and maps it, twice in a mirror
//!   later rounds  the same writes again
//!   scattered     messages of 64 bytes in any order: each needs the translation of another page
//! ```

use anyhow::Result;
use forebay::memory::{MapConfig, Mirror};
use forebay_bench::method::{
    Effort,
    counters::page_faults,
    samples::{Side, contest},
    table::{Cell, Table},
};
use std::{hint::black_box, time::Instant};

const PAGE: usize = 4096;
const LINE: usize = 64;

/// How a mirror is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    First,
    Later,
    Scattered,
}

const WAYS: [(&str, bool, Round); 6] = [
    ("first round, pages of 4 KiB", false, Round::First),
    ("first round, huge pages", true, Round::First),
    ("later rounds, pages of 4 KiB", false, Round::Later),
    ("later rounds, huge pages", true, Round::Later),
    ("scattered, pages of 4 KiB", false, Round::Scattered),
    ("scattered, huge pages", true, Round::Scattered),
];

pub fn run(effort: Effort) -> Result<Table> {
    let bytes = effort.scaled(64).next_power_of_two() as usize * (1 << 20);
    let side = |&(name, huge_pages, round)| {
        Side::timed(name, move || {
            let (ns, writes, _) = write(bytes, huge_pages, round)?;
            Ok((ns, writes))
        })
    };
    let mut sides: Vec<_> = WAYS.iter().map(side).collect();
    let times = contest(&mut sides, effort.rounds)?;
    let title = format!(
        "mirror/pages: {} MiB written, {PAGE} bytes at a time in order or {LINE} scattered, a write",
        bytes >> 20
    );
    let mut table = Table::new(title, &["ns", "page faults"]);
    for ((name, huge_pages, round), times) in WAYS.into_iter().zip(&times) {
        let (_, writes, faults) = write(bytes, huge_pages, round)?;
        let faults = Cell::number(faults as f64 / writes as f64, 3);
        table.row(name, vec![Cell::spread(Some(times.ns), 1), faults]);
    }
    let huge_pages = Mirror::new(bytes, &config(true))?.huge_pages();
    table.note(format!(
        "huge pages: 2 MiB each where the kernel maps them; here {huge_pages:?}"
    ));
    Ok(table)
}

fn config(huge_pages: bool) -> MapConfig {
    MapConfig {
        populate: false,
        huge_pages,
    }
}

/// Writes a new mirror of `bytes` bytes once round; returns the nanoseconds, the writes, and this thread's page faults.
#[inline(never)]
fn write(bytes: usize, huge_pages: bool, round: Round) -> Result<(f64, u64, u64)> {
    let mut mirror = Mirror::new(bytes, &config(huge_pages))?;
    let source = [7; PAGE];
    if round != Round::First {
        mirror.view_mut(0, bytes).fill(1);
    }
    let (len, writes) = match round {
        Round::Scattered => (LINE, bytes / PAGE * 4),
        _ => (PAGE, bytes / PAGE),
    };
    let faults = page_faults();
    let begun = Instant::now();
    for number in 0..writes {
        let at = match round {
            // Fibonacci hashing: any order, each time another page.
            Round::Scattered => {
                let hash = u64::from((number as u32).wrapping_mul(0x9E37_79B9));
                ((hash * (bytes / LINE) as u64) >> 32) as usize * LINE
            }
            _ => number * PAGE,
        };
        mirror
            .view_mut(at, len)
            .copy_from_slice(&black_box(&source)[..len]);
    }
    let elapsed = begun.elapsed();
    black_box(&mut mirror);
    Ok((
        elapsed.as_nanos() as f64,
        writes as u64,
        page_faults() - faults,
    ))
}
