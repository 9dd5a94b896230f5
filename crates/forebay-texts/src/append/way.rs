//! A way to append entries, and how several are measured.

use super::{entry::ENTRIES, target::Flushes};
use anyhow::Result;
use forebay_bench::method::{
    Effort,
    counters::Count,
    samples::{Side, Times, contest},
    table::{Cell, Table},
};

/// Appends this number of entries, and returns the number.
pub type Work = Box<dyn FnMut() -> u64>;

/// One of those compared, before it is measured.
pub struct Way {
    pub name: &'static str,
    pub work: Work,
    pub flushes: Flushes,
}

/// Measures the ways in turns, and adds a row for each: the time of an entry, how often 100,000 of them are flushed, blocked
/// store-forwards, and the cells that `more` makes of the times of all ways and of this one.
pub fn measured(
    mut ways: Vec<Way>,
    effort: Effort,
    table: &mut Table,
    more: impl Fn(&[Times], &Times) -> Vec<Cell>,
) -> Result<()> {
    let counts = ways.iter_mut().map(|way| {
        let before = way.flushes.get();
        let counter = Count::blocked();
        let entries = (way.work)();
        let counted = counter.end();
        let per = |count: u64| count as f64 / entries as f64;
        [
            Cell::number(per(way.flushes.get() - before) * ENTRIES as f64, 0),
            counted.map_or(Cell::Unknown, |count| Cell::number(per(count), 2)),
        ]
    });
    let counts: Vec<_> = counts.collect();
    let sides = ways.into_iter().map(|way| Side::new(way.name, way.work));
    let mut sides: Vec<_> = sides.collect();
    let times = contest(&mut sides, effort.rounds)?;
    table.timed(&sides, &times, |which, time| {
        [counts[which].to_vec(), more(&times, time)].concat()
    });
    Ok(())
}

/// A loop around `append`, `iterations` times a hundred thousand entries with `flush` after each.
pub fn rounds<S>(
    iterations: u64,
    mut state: S,
    append: impl Fn(&mut S, u64),
    flush: impl Fn(&mut S),
) -> impl FnMut() -> u64 {
    move || {
        for _ in 0..iterations {
            for number in 0..ENTRIES {
                append(&mut state, number);
            }
            flush(&mut state);
        }
        iterations * ENTRIES
    }
}

/// A write that fails ends the measurement.
pub const FAILED: &str = "the target takes it";
