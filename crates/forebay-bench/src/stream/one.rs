//! One thread, the source text's sizes, a hot source: bytes are read in place, or copied.
//!
//! Every stream is a local variable of the timed loop, as in the text's own test: see docs/performance-notes.md.

use super::{
    ladder, others,
    sides::{
        Aligned, CAPACITY, READ, Stream, WRITE, compared, each_of_ours, each_other, each_rung,
    },
};
use crate::method::{Effort, samples::Side, table::Table};
use anyhow::Result;
use forebay::sync::{Park, Spin};
use std::{hint::black_box, time::Instant};

/// Where shown bytes go.
trait Target: Default {
    const TITLE: &str;
    fn take(&mut self, shown: &[u8]);
}

/// They are read in place: only their address is used.
#[derive(Default)]
struct Viewed;

/// They are copied to a place that stays in the first cache.
struct Copied(Aligned<READ>);

impl Target for Viewed {
    const TITLE: &str = "stream/view: from a hot source, read where it lies";

    #[inline(always)]
    fn take(&mut self, shown: &[u8]) {
        black_box(shown.as_ptr());
    }
}

impl Default for Copied {
    fn default() -> Self {
        Copied(Aligned([0; READ]))
    }
}

impl Target for Copied {
    const TITLE: &str = "stream/copy: from a hot source, copied to a hot target";

    #[inline(always)]
    fn take(&mut self, shown: &[u8]) {
        self.0.0[..shown.len()].copy_from_slice(shown);
        black_box(self.0.0.as_ptr());
    }
}

/// One table for each way of reading.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![table::<Viewed>(effort)?, table::<Copied>(effort)?])
}

fn table<T: Target>(effort: Effort) -> Result<Table> {
    let bytes = effort.scaled(64_000_000);
    let mut sides = Vec::new();
    macro_rules! add {
        ($name:literal, $part:literal, $make:expr) => {
            sides.push(side::<_, T>($name, bytes * $part / 100, $make));
        };
    }
    each_rung!(add);
    let text = sides.len();
    each_other!(add);
    each_of_ours!(add);
    sides.push(Side::new(
        "limit: the same copies and no stream",
        move || limit::<T>(bytes),
    ));
    let title = format!(
        "{}; capacity {CAPACITY}, write {WRITE}, read {READ}, one thread",
        T::TITLE
    );
    let ours = sides.len() - 2;
    let mut table = compared(title, sides, (0..text, ours), effort)?;
    table.note(
        "tokio's simplex and the pipe show no bytes where they lie: these are copied out first, and then viewed or copied",
    );
    Ok(table)
}

fn side<'a, S: Stream, T: Target>(name: &str, bytes: u64, make: impl Fn() -> S + 'a) -> Side<'a> {
    Side::timed(name, move || Ok(go::<S, T>(&make, bytes / WRITE as u64)))
}

/// Makes a stream, goes round in it some times, and then takes the time of this number of `writes`.
#[inline(never)]
fn go<S: Stream, T: Target>(make: impl Fn() -> S, writes: u64) -> (f64, u64) {
    let mut stream = make();
    rounds::<S, T>(&mut stream, (8 * CAPACITY / WRITE) as u64);
    let begun = Instant::now();
    rounds::<S, T>(&mut stream, writes);
    (begun.elapsed().as_nanos() as f64, writes * WRITE as u64)
}

/// The text's loop: a write where it fits, and a read where there is something.
#[inline(always)]
fn rounds<S: Stream, T: Target>(stream: &mut S, writes: u64) {
    let source = Aligned([7_u8; WRITE]);
    let mut target = T::default();
    let mut written = 0;
    loop {
        if written < writes && stream.vacant() >= WRITE {
            stream.push(&black_box(&source).0);
            written += 1;
        }
        if stream.take(READ, &mut |shown| target.take(shown)) == 0 && written == writes {
            break;
        }
    }
    black_box(&mut target);
}

/// The copies of [`rounds`] and nothing else: in, one after another through a buffer of the capacity, and out.
#[inline(never)]
fn limit<T: Target>(bytes: u64) -> u64 {
    let source = Aligned([7_u8; WRITE]);
    let mut buffer = vec![0_u8; CAPACITY + WRITE];
    let mut target = T::default();
    let writes = bytes / WRITE as u64;
    let (mut at, mut from) = (0, 0);
    for _ in 0..writes {
        buffer[at..at + WRITE].copy_from_slice(&black_box(&source).0);
        at = if at + WRITE >= CAPACITY {
            0
        } else {
            at + WRITE
        };
        let mut left = WRITE;
        while left > 0 {
            let n = left.min(READ);
            target.take(&buffer[from..from + n]);
            from = if from + n + READ >= CAPACITY {
                0
            } else {
                from + n
            };
            left -= n;
        }
    }
    black_box(&mut target);
    writes * WRITE as u64
}
