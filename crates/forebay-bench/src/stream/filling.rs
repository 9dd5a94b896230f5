//! Copying in, and nothing else: a stream is filled from a hot source, and emptied at once without a look.

use super::{
    ladder, others,
    sides::{Aligned, CAPACITY, Stream, WRITE, compared, each_of_ours, each_rung},
};
use crate::method::{Effort, samples::Side, table::Table};
use anyhow::Result;
use forebay::sync::{Park, Spin};
use std::{hint::black_box, time::Instant};

/// Ours and others beside the same copies into plain memory as large.
pub fn run(effort: Effort) -> Result<Table> {
    let bytes = effort.scaled(64_000_000);
    let mut sides = Vec::new();
    macro_rules! add {
        ($name:literal, $part:literal, $make:expr) => {
            sides.push(side($name, bytes, $make));
        };
    }
    each_rung!(blocks add);
    let text = sides.len();
    sides.push(side("ringbuf", bytes, others::Ringbuf::default));
    sides.push(side("rtrb", bytes, others::Rtrb::default));
    each_of_ours!(add);
    sides.push(Side::new("memcpy", move || memcpy(bytes)));
    let title = format!(
        "stream/copying in: from a hot source, emptied without a look; capacity {CAPACITY}, write {WRITE}, one thread"
    );
    let ours = sides.len() - 2;
    let mut table = compared(title, sides, (0..text, ours), effort)?;
    table.note("memcpy: as many bytes a call, one after another through a buffer of the capacity");
    table.note("a sliding vector that is emptied begins at its front again when its head has come far enough: the smaller, the sooner");
    Ok(table)
}

fn side<'a, S: Stream>(name: &str, bytes: u64, make: impl Fn() -> S + 'a) -> Side<'a> {
    Side::timed(name, move || Ok(go(&make, bytes)))
}

#[inline(never)]
fn go<S: Stream>(make: impl Fn() -> S, bytes: u64) -> (f64, u64) {
    let mut stream = make();
    fill(&mut stream, 8 * CAPACITY as u64);
    let begun = Instant::now();
    let filled = fill(&mut stream, bytes);
    (begun.elapsed().as_nanos() as f64, filled)
}

#[inline(always)]
fn fill<S: Stream>(stream: &mut S, bytes: u64) -> u64 {
    let source = Aligned([7_u8; WRITE]);
    let mut filled = 0;
    while filled < bytes {
        while stream.vacant() >= WRITE {
            stream.push(&black_box(&source).0);
            filled += WRITE as u64;
        }
        while stream.take(CAPACITY, &mut |shown| {
            black_box(shown.as_ptr());
        }) > 0
        {}
    }
    filled
}

/// The copies of [`fill`] and nothing else.
#[inline(never)]
fn memcpy(bytes: u64) -> u64 {
    let source = Aligned([7_u8; WRITE]);
    let mut buffer = vec![0_u8; CAPACITY + WRITE];
    let (mut filled, mut at) = (0, 0);
    while filled < bytes {
        buffer[at..at + WRITE].copy_from_slice(&black_box(&source).0);
        black_box(buffer.as_ptr());
        filled += WRITE as u64;
        at += WRITE;
        if at >= CAPACITY {
            at -= CAPACITY;
        }
    }
    filled
}
