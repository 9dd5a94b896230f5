//! Streams of bytes in one thread and in two: the versions of *CS 144 Checkpoint 0 – Byte Stream*, other crates, ours, and the
//! machine's own limit for copying.
//!
//! `ladder` has the text's versions, `others` the crates and the kernel's pipe, both with the trait below. `one` reads bytes in
//! place or copies them, `filling` only copies in, `course` is the text's own test, `profile` its parts, and `two` has two threads.

mod course;
mod filling;
mod ladder;
mod one;
mod others;
mod profile;
mod two;

pub use profile::play;

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

/// Calls `$side!("name", part, make)` for each rung of the text's ladder, slowest first: it does `part` hundredths of the work.
macro_rules! each_rung {
    ($side:ident) => {
        $side!("queue of characters, popped one by one", 5, ladder::Characters::default);
        $side!("deque, copied out to be read", 2, ladder::DequeCopied::default);
        $side!("string, erased at the front", 10, ladder::StringErased::default);
        $side!("sliding vector, loops, 2×", 25, || ladder::Sliding::looping(2.0));
        each_rung!(blocks $side);
    };
    (blocks $side:ident) => {
        $side!("sliding vector, block copies, 1.25×", 100, || ladder::Sliding::new(1.25));
        $side!("sliding vector, block copies, 2×", 100, || ladder::Sliding::new(2.0));
        $side!("sliding vector, block copies, 4×", 100, || ladder::Sliding::new(4.0));
    };
}
pub(crate) use each_rung;

/// As [`each_rung`], for other crates and the kernel's pipe.
macro_rules! each_other {
    ($side:ident) => {
        $side!("VecDeque", 25, others::Deque::default);
        $side!("bytes::BytesMut", 100, others::Mutable::default);
        $side!("ringbuf", 100, others::Ringbuf::default);
        $side!("rtrb", 100, others::Rtrb::default);
        $side!("tokio's simplex", 100, others::Simplex::default);
        $side!("a pipe of the system", 10, others::Pipe::new);
    };
}
pub(crate) use each_other;

/// As [`each_rung`], for ours.
macro_rules! each_of_ours {
    ($side:ident) => {
        $side!("forebay's LocalStream, for one thread", 100, others::local);
        $side!("forebay, spinning", 100, others::Forebay::<Spin>::new);
        $side!("forebay", 100, others::Forebay::<Park>::new);
    };
}
pub(crate) use each_of_ours;

/// One table a way of reading, and those for two threads.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = one::run(effort)?;
    tables.push(filling::run(effort)?);
    tables.push(course::run(effort)?);
    tables.push(profile::run(effort)?);
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
        macro_rules! carry {
            ($name:literal, $part:literal, $make:expr) => {
                carries($make());
            };
        }
        each_rung!(carry);
        each_other!(carry);
        each_of_ours!(carry);
    }
}
