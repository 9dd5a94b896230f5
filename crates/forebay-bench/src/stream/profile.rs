//! Where the time of the text's last version goes: push and pop with their copies and without, and the test with its output
//! and without.
//!
//! What a part costs is what the time falls by when the part is left out; the rest of the code stays as it is.

use super::{
    Aligned, CAPACITY, READ, WRITE,
    course::{self, Flagged, random},
    ladder,
};
use crate::method::{
    Effort,
    counters::page_faults,
    samples::{Side, contest},
    table::{Cell, Table},
};
use anyhow::Result;
use std::{hint::black_box, time::Instant};

/// The vector of the text: twice the capacity, moved to the front when the head has passed a half.
const ROOM: usize = 2 * CAPACITY;

/// Pushes writes; at a full stream everything is popped at once, which costs nothing. Nanoseconds and pushes.
#[inline(never)]
fn pushes<const COPY: bool>(writes: u64) -> (f64, u64) {
    let source = Aligned([7_u8; WRITE]);
    let mut buffer = vec![0_u8; ROOM];
    let mut tail = 0;
    let begun = Instant::now();
    for _ in 0..writes {
        if CAPACITY - tail < WRITE {
            tail = 0;
        }
        if COPY {
            buffer[tail..tail + WRITE].copy_from_slice(&black_box(&source).0);
        }
        tail = black_box(tail + WRITE);
    }
    black_box(&mut buffer);
    (begun.elapsed().as_nanos() as f64, writes)
}

/// Pops reads from a stream that is kept as full as writes of 1500 keep it, which are not copied. Nanoseconds and pops.
#[inline(never)]
fn pops<const COPY: bool>(reads: u64) -> (f64, u64) {
    let mut buffer = vec![7_u8; ROOM];
    let (mut head, mut tail) = (0, 0);
    let begun = Instant::now();
    for _ in 0..reads {
        if CAPACITY - (tail - head) >= WRITE {
            tail += WRITE;
        }
        head = black_box(head + READ.min(tail - head));
        if head >= ROOM - CAPACITY {
            if COPY {
                buffer.copy_within(head..tail, 0);
            }
            tail -= head;
            head = 0;
        }
    }
    black_box(&mut buffer);
    (begun.elapsed().as_nanos() as f64, reads)
}

pub fn run(effort: Effort) -> Result<Table> {
    let data = &random(effort.scaled(10_000_000) as usize)[..];
    let calls = effort.scaled(400_000);
    let bytes = data.len() as f64;
    let stream = || Flagged::new(ladder::Sliding::new(2.0));
    let mut sides = [
        Side::timed("push", || Ok(pushes::<true>(calls))),
        Side::timed("push without its copy", || Ok(pushes::<false>(calls))),
        Side::timed("pop", || Ok(pops::<true>(calls))),
        Side::timed("pop without its copy", || Ok(pops::<false>(calls))),
        Side::timed("the text's test, a KB", || {
            let (ns, output) = course::go::<_, true>(stream, data);
            black_box(output);
            Ok((ns, (bytes / 1e3) as u64))
        }),
        Side::timed("the text's test without its output, a KB", || {
            let (ns, _) = course::go::<_, false>(stream, data);
            Ok((ns, (bytes / 1e3) as u64))
        }),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let title = "stream/profile: the text's vector, 2×, its parts left out, a call; the test for each 1000 bytes";
    let mut table = Table::new(title, &["ns", "share of the copy"]);
    for (number, (side, time)) in sides.iter().zip(&times).enumerate() {
        let without = times.get(number + 1).filter(|_| number % 2 == 0);
        let share = without.map_or(Cell::Unknown, |without| {
            Cell::number(1.0 - without.ns.median / time.ns.median, 2)
        });
        table.row(&side.name, vec![Cell::spread(Some(time.ns), 1), share]);
    }
    drop(sides);
    for (name, output) in [
        ("page faults of the test", true),
        ("page faults without its output", false),
    ] {
        let before = page_faults();
        match output {
            true => drop(course::go::<_, true>(stream, data)),
            false => drop(course::go::<_, false>(stream, data)),
        }
        let faults = (page_faults() - before) as f64;
        table.row(name, vec![Cell::number(faults, 0), Cell::Unknown]);
    }
    table.note("the last two rows are counts, not times: pages of 4 KiB touched for the first time, by the kernel's counter");
    Ok(table)
}
