//! The text's micro-benchmark: 32 bytes written again and again to a buffer of 1024, and never read.
//!
//! Its message and its buffer are known when it is compiled, and its messages never straddle the end: what it measures is
//! what it costs that they might.

use anyhow::Result;
use forebay::memory::{MapConfig, Mirror};
use forebay_bench::method::{
    Effort,
    samples::{Side, contest},
    table::{Cell, Table},
};
use std::hint::black_box;

/// The text's.
const BUFFER: usize = 1024;
const MESSAGE: usize = 32;

/// A buffer that is written `writes` times, from an offset of 0 on.
type Writing = fn(&mut [u8], &[u8; MESSAGE], u64);

/// The text's two loops, the byte by byte that it compares them with, and ours.
pub fn run(effort: Effort) -> Result<Table> {
    let writes = effort.scaled(1_000_000);
    let of_text = |name: &str, write: Writing| {
        let mut buffer = [0; 2 * BUFFER];
        Side::new(name, move || {
            write(black_box(&mut buffer), &[7; MESSAGE], writes);
            writes
        })
    };
    let mut mirror = Mirror::new(BUFFER, &MapConfig::default())?;
    let mut sides = [
        of_text("the source text's, byte by byte", byte_by_byte),
        of_text("the source text's slow one: two copies", two_copies),
        of_text("the source text's fast one: one copy", one_copy),
        Side::new("forebay's mirror, one copy", move || {
            mirrored(&mut mirror, &[7; MESSAGE], writes);
            writes
        }),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let mut table = Table::new(
        format!(
            "mirror/micro: the text's own, {MESSAGE} bytes written to a buffer of {BUFFER}, a write"
        ),
        &["ns", "cycles", "two copies = 1"],
    );
    table.timed(&sides, &times, |_, time| {
        vec![Cell::number(times[1].ns.median / time.ns.median, 2)]
    });
    table.note("the source text's fast one writes to plain memory: it shows what a mirror would save, without one");
    Ok(table)
}

#[inline(never)]
fn byte_by_byte(buffer: &mut [u8], message: &[u8; MESSAGE], writes: u64) {
    // Not known when it is compiled: as in the text's queue, from which this loop is.
    let size = black_box(BUFFER);
    let mut offset = 0;
    for _ in 0..writes {
        for (i, &byte) in message.iter().enumerate() {
            buffer[(offset + i) % size] = byte;
        }
        offset = (offset + MESSAGE) % size;
        black_box(&mut *buffer);
    }
}

#[inline(never)]
fn two_copies(buffer: &mut [u8], message: &[u8; MESSAGE], writes: u64) {
    let mut offset = 0;
    for _ in 0..writes {
        let first = MESSAGE.min(BUFFER - offset);
        let (front, behind) = message.split_at(first);
        buffer[offset..offset + first].copy_from_slice(front);
        buffer[..behind.len()].copy_from_slice(behind);
        offset = (offset + MESSAGE) % BUFFER;
        black_box(&mut *buffer);
    }
}

#[inline(never)]
fn one_copy(buffer: &mut [u8], message: &[u8; MESSAGE], writes: u64) {
    let mut offset = 0;
    for _ in 0..writes {
        buffer[offset..offset + MESSAGE].copy_from_slice(message);
        offset = (offset + MESSAGE) % BUFFER;
        black_box(&mut *buffer);
    }
}

/// The same in memory that is there twice; it goes round where the text's does.
#[inline(never)]
fn mirrored(mirror: &mut Mirror, message: &[u8; MESSAGE], writes: u64) {
    let mut offset = 0;
    for _ in 0..writes {
        mirror.view_mut(offset, MESSAGE).copy_from_slice(message);
        offset = (offset + MESSAGE) % BUFFER;
        black_box(&mut *mirror);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_writes_the_whole_buffer_and_nothing_behind_it() {
        for write in [byte_by_byte, two_copies, one_copy] as [Writing; 3] {
            let mut buffer = [0; 2 * BUFFER];
            write(&mut buffer, &[7; MESSAGE], 100);
            assert_eq!(buffer[..BUFFER], [7; BUFFER]);
            assert_eq!(buffer[BUFFER..], [0; BUFFER]);
        }
    }
}
