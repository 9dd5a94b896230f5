//! The circular buffer of *Using black magic to make a fast circular buffer*: one thread puts a message in and gets it out, with
//! every version of the text, with other crates, with ours, and as bare copies.
//!
//! ```text
//!  one view:   │ ge.. . . . . mess│        a message across the end is two pieces
//!  mirror:     │ ge.. . . . . mess│ge.. . . . . mess│      it is one, from anywhere
//! ```
//! Every ring has 64 KiB and holds one message at a time; messages are so placed that one straddles the end in each round
//! of the ring. `ring` has what all of them do, `source_text` the text's own rings, `others` the crates and ours, `micro` the text's micro-benchmark, `pages` what
//! that leaves out.

mod micro;
mod others;
mod pages;
mod ring;
mod source_text;

use anyhow::{Context, Result};
use forebay::memory::{MapConfig, Region};
use forebay_bench::method::{
    Effort,
    samples::{Side, Times, contest},
    table::{Cell, Table},
};
use others::{Deque, InPlace, OurLocal, OurRing, OurStream, Ringbuf, Rtrb, Viewed};
use ring::{CAPACITY, Ring};
use source_text::{ByteByByte, Masked, Mirrored, TwoCopies};
use std::{hint::black_box, time::Instant};

/// Bytes of a message.
const SIZES: [usize; 5] = [8, 64, 256, 1500, 4096];

/// Room for the largest, and its start where a cache line starts.
#[repr(align(64))]
struct Aligned([u8; SIZES[SIZES.len() - 1]]);

/// One table a size, and the micro-benchmark.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for size in SIZES {
        tables.push(compare(size, effort)?);
    }
    tables.push(micro::run(effort)?);
    tables.push(pages::run(effort)?);
    Ok(tables)
}

/// The rings that copy in two pieces where a message straddles: the best of them is what a mirror must beat.
const TWO_COPIES: std::ops::Range<usize> = 1..6;

fn compare(size: usize, effort: Effort) -> Result<Table> {
    // A sample takes some milliseconds, whatever the size.
    let messages = effort.scaled(20_000_000 / (16 + size as u64 / 16));
    let mut sides = [
        side::<ByteByByte>("the source text's, byte by byte, %", size, messages / 10),
        side::<TwoCopies>("the source text's, two copies, %", size, messages),
        side::<Masked>("two copies, mask and branch", size, messages),
        side::<Deque>("VecDeque", size, messages),
        side::<Ringbuf>("ringbuf", size, messages),
        side::<Rtrb>("rtrb", size, messages),
        side::<Mirrored>("the source text's mirror", size, messages),
        side::<OurLocal>("forebay, a LocalStream, copied", size, messages),
        side::<OurRing>("forebay, a ring, copied", size, messages),
        side::<OurStream>("forebay, a stream, copied", size, messages),
        side::<Viewed<OurLocal>>("forebay, a LocalStream, read in place", size, messages),
        side::<Viewed<OurRing>>("forebay, a ring, read in place", size, messages),
        side::<Viewed<OurStream>>("forebay, a stream, read in place", size, messages),
        side::<InPlace>("forebay, a stream, made and read in place", size, messages),
        Side::timed("limit: the copies alone", move || limit(size, messages)),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let ns = |times: &Times| times.ns.median;
    let best = times[TWO_COPIES].iter().map(ns).fold(f64::MAX, f64::min);
    let limit = ns(times.last().context("the limit is a side")?);
    let mut table = Table::new(
        format!(
            "mirror/{size} B: a message put in and got out, a ring of {} KiB, one thread",
            CAPACITY >> 10
        ),
        &["ns", "cycles", "best of two copies = 1", "copies alone = 1"],
    );
    table.timed(&sides, &times, |_, times| {
        [best, limit]
            .map(|other| Cell::number(other / ns(times), 2))
            .into()
    });
    table.note("the last two columns: how many times as fast; two copies: the text's, with mask and branch, VecDeque, ringbuf, rtrb");
    table.note("the length is known when it runs, not when it is compiled; the ring holds one message at a time. What is for one thread: \
                the text's, the one with mask and branch, VecDeque, LocalStream; the others could have their ends in two");
    table.note("the source text's mirror wraps where its head reaches the end, not where it has passed it, as the text has it");
    Ok(table)
}

fn side<'a, R: Ring>(name: &str, size: usize, messages: u64) -> Side<'a> {
    Side::timed(name, move || go::<R>(size, messages))
}

/// Makes a ring, goes round in it some times, and then takes the time of this number of messages.
#[inline(never)]
fn go<R: Ring>(size: usize, messages: u64) -> Result<(f64, u64)> {
    let mut ring = R::new()?;
    let source = Aligned([7; _]);
    let mut target = Aligned([0; _]);
    // Half a message in front, so that messages straddle the end also where they divide the ring.
    rounds(&mut ring, &source, &mut target, size / 2, 1);
    rounds(
        &mut ring,
        &source,
        &mut target,
        size,
        2 * (CAPACITY / size) as u64,
    );
    let begun = Instant::now();
    rounds(&mut ring, &source, &mut target, size, messages);
    Ok((begun.elapsed().as_nanos() as f64, messages))
}

#[inline(always)]
fn rounds<R: Ring>(ring: &mut R, source: &Aligned, target: &mut Aligned, size: usize, times: u64) {
    for _ in 0..times {
        let size = black_box(size);
        assert!(ring.put(&black_box(source).0[..size]));
        assert!(ring.get(&mut target.0[..size]));
        black_box(&mut *target);
    }
}

/// The copies of [`go`] and nothing else: in, along a memory as large, and out.
#[inline(never)]
fn limit(size: usize, messages: u64) -> Result<(f64, u64)> {
    let mut memory = Region::new(2 * CAPACITY, &MapConfig::default())?;
    let source = Aligned([7; _]);
    let mut target = Aligned([0; _]);
    let mut pass = |times: u64| {
        let mut at = size / 2;
        for _ in 0..times {
            let size = black_box(size);
            memory[at..at + size].copy_from_slice(&black_box(&source).0[..size]);
            black_box(memory.base());
            target.0[..size].copy_from_slice(&memory[at..at + size]);
            black_box(&mut target);
            at += size;
            if at >= CAPACITY {
                at -= CAPACITY;
            }
        }
    };
    pass(2 * (CAPACITY / size) as u64);
    let begun = Instant::now();
    pass(messages);
    Ok((begun.elapsed().as_nanos() as f64, messages))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages come out as they went in, for several rounds of the ring; what has no room or is not there is refused.
    fn keeps<R: Ring>() {
        let mut ring = R::new().unwrap();
        let data: Vec<u8> = (0..1500_u32).map(|i| (i * 7 % 251) as u8).collect();
        assert!(!ring.get(&mut [0]));
        for round in 0..3 * CAPACITY / data.len() {
            let (first, second) = data.split_at(round * 13 % data.len());
            assert!(ring.put(first) && ring.put(second), "round {round}");
            let mut got = vec![0; data.len()];
            assert!(ring.get(&mut got), "round {round}");
            assert!(got == data, "round {round}");
        }
        assert!(ring.put(&vec![1; CAPACITY]));
        assert!(!ring.put(&[1]));
    }

    #[test]
    fn every_ring_keeps_messages_across_its_end() {
        keeps::<ByteByByte>();
        keeps::<TwoCopies>();
        keeps::<Masked>();
        keeps::<Mirrored>();
        keeps::<Deque>();
        keeps::<Ringbuf>();
        keeps::<Rtrb>();
        keeps::<OurLocal>();
        keeps::<OurRing>();
        keeps::<OurStream>();
    }

    #[test]
    fn what_is_read_in_place_is_all_there() {
        fn shows<R: Ring>() {
            let mut ring = R::new().unwrap();
            assert!(!ring.get(&mut [0]));
            assert!(ring.put(&[7; 100]));
            assert!(ring.get(&mut [0; 100]));
            assert!(!ring.get(&mut [0]));
        }
        shows::<Viewed<OurLocal>>();
        shows::<Viewed<OurRing>>();
        shows::<Viewed<OurStream>>();
        shows::<InPlace>();
    }
}
