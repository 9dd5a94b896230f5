//! Streams of bytes in one thread and in two: the versions of *CS 144 Checkpoint 0 – Byte Stream*, other crates, ours, and the
//! machine's own limit for copying.
//!
//! `ladder` has the text's versions, `others` the crates and the kernel's pipe, both with the trait below. `one` reads bytes in
//! place or copies them, `filling` only copies in, `course` is the text's own test and `two` has two threads.

mod course;
mod filling;
mod ladder;
mod one;
mod others;
mod two;

use crate::method::{
    Effort,
    samples::{Side, Times, contest},
    table::{Cell, Table},
};
use anyhow::Result;

/// The text's test: capacity, bytes a write, bytes a read.
const CAPACITY: usize = 32_768;
const WRITE: usize = 1500;
const READ: usize = 128;

/// A stream of bytes within one thread.
pub trait Stream {
    /// Bytes that a push would take.
    fn vacant(&self) -> usize;
    /// Puts all of `bytes` in: there is room.
    fn push(&mut self, bytes: &[u8]);
    /// Shows up to `n` bytes from the front, in one piece or in two, then takes them out; returns how many: 0 if there
    /// are none.
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize;
}

/// Bytes as a line of the cache has them: copies of theirs cross no more lines and pages in one run than in another.
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

/// One table a way of reading, and those for two threads.
///
/// # Errors
/// No memory for a stream.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = one::run(effort)?;
    tables.push(filling::run(effort)?);
    tables.push(course::run(effort)?);
    tables.extend(two::run(effort)?);
    Ok(tables)
}

/// Has the sides compete; `text` and `ours` are the numbers of the text's and of our own ones.
fn compared(
    title: String,
    mut sides: Vec<Side<'_>>,
    (text, ours): (std::ops::Range<usize>, usize),
    effort: Effort,
) -> Result<Table> {
    let times = contest(&mut sides, effort.rounds)?;
    let mut table = Table::new(title, &["Gbit/s", "best of the text = 1", "forebay = 1"]);
    let speed = |times: &Times| 8.0 / times.ns.median;
    let best = times[text].iter().map(speed).fold(0.0, f64::max);
    let ours = speed(&times[ours]);
    for (side, times) in sides.iter().zip(&times) {
        table.row(
            &side.name,
            vec![
                Cell::spread(Some(times.ns.in_each(8.0)), 1),
                Cell::number(speed(times) / best, 2),
                Cell::number(speed(times) / ours, 2),
            ],
        );
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::sync::{Park, Spin};

    /// Everything that goes in comes out once, in order.
    fn carries<S: Stream>(mut stream: S) {
        let data: Vec<u8> = (0..60_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        let (mut sent, mut got) = (data.chunks(WRITE), Vec::new());
        loop {
            if stream.vacant() >= WRITE
                && let Some(chunk) = sent.next()
            {
                stream.push(chunk);
            }
            if stream.take(READ, &mut |shown| got.extend_from_slice(shown)) == 0 {
                break;
            }
        }
        assert_eq!(got, data);
    }

    #[test]
    fn every_stream_carries_every_byte_in_order() {
        carries(ladder::DequeCopied::default());
        carries(ladder::StringErased::default());
        for slack in [1.25, 2.0, 4.0] {
            carries(ladder::Sliding::new(slack));
            carries(ladder::Sliding::looping(slack));
        }
        carries(others::Deque::default());
        carries(others::Mutable::default());
        carries(others::Ringbuf::default());
        carries(others::Rtrb::default());
        carries(others::Simplex::default());
        carries(others::Pipe::new());
        carries(others::fifo());
        carries(others::Forebay::<Park>::new());
        carries(others::Forebay::<Spin>::new());
    }
}
