//! Streams of bytes in one thread and in two: text 001's ladder, what else there is, and ours, with the machine's own
//! limit for copying.
//!
//! `ladder` has the text's versions, `others` the crates and the system's pipe, both behind the trait below; `two` has
//! two threads.

mod ladder;
mod others;
mod two;

use crate::method::{
    Effort,
    samples::{Side, Summary, Times, contest},
    table::{Cell, Table},
};
use anyhow::Result;
use forebay::sync::{Park, Spin};
use std::hint::black_box;

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

/// What is done with the bytes that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// They are looked at where they lie: their address is all that is needed.
    View,
    /// They are copied to a place that stays in the first cache.
    Copy,
    /// They are appended to a string that grows, as in the text's own test.
    Append,
}

impl Reading {
    const ALL: [Reading; 3] = [Reading::View, Reading::Copy, Reading::Append];

    fn title(self) -> &'static str {
        match self {
            Reading::View => "stream/view: from a hot source, read where it lies",
            Reading::Copy => "stream/copy: from a hot source, copied to a hot target",
            Reading::Append => {
                "stream/append: the text's own test, appended to a string that grows"
            }
        }
    }
}

/// One table a way of reading, and those for two threads.
///
/// # Errors
/// No memory for a stream.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for reading in Reading::ALL {
        tables.push(in_one_thread(reading, effort)?);
    }
    tables.extend(two::run(effort)?);
    Ok(tables)
}

fn in_one_thread(reading: Reading, effort: Effort) -> Result<Table> {
    let bytes = match reading {
        // As much as the text's.
        Reading::Append => effort.scaled(10_000_000),
        _ => effort.scaled(64_000_000),
    };
    // The text's first versions copy everything for each read.
    let few = bytes / 50;
    let mut sides = vec![
        side(
            "deque, copied out to be read",
            few,
            reading,
            ladder::DequeCopied::default(),
        ),
        side(
            "string, erased at the front",
            bytes / 10,
            reading,
            ladder::StringErased::default(),
        ),
        side(
            "sliding vector, loops, 2×",
            bytes / 4,
            reading,
            ladder::Sliding::looping(2.0),
        ),
        side(
            "sliding vector, block copies, 1.25×",
            bytes,
            reading,
            ladder::Sliding::new(1.25),
        ),
        side(
            "sliding vector, block copies, 2×",
            bytes,
            reading,
            ladder::Sliding::new(2.0),
        ),
        side(
            "sliding vector, block copies, 4×",
            bytes,
            reading,
            ladder::Sliding::new(4.0),
        ),
        side("VecDeque", bytes / 4, reading, others::Deque::default()),
        side(
            "bytes::BytesMut",
            bytes,
            reading,
            others::Mutable::default(),
        ),
        side("ringbuf", bytes, reading, others::Ringbuf::default()),
        side("rtrb", bytes, reading, others::Rtrb::default()),
        side(
            "tokio's simplex",
            bytes,
            reading,
            others::Simplex::default(),
        ),
        side(
            "a pipe of the system",
            bytes / 10,
            reading,
            others::Pipe::new(),
        ),
        side(
            "forebay, spinning",
            bytes,
            reading,
            others::Forebay::<Spin>::new(),
        ),
        side("forebay", bytes, reading, others::Forebay::<Park>::new()),
        Side::new(
            "limit: the same copies and no stream",
            move || match reading {
                Reading::View => limit::<Viewed>(bytes),
                Reading::Copy => limit::<Copied>(bytes),
                Reading::Append => limit::<Appended>(bytes),
            },
        ),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let title = format!(
        "{}; capacity {CAPACITY}, write {WRITE}, read {READ}, one thread",
        reading.title()
    );
    let mut table = Table::new(title, &["Gbit/s", "best of the text = 1", "forebay = 1"]);
    let speed = |times: &Times| 8.0 / times.ns.median;
    let best = times[..6].iter().map(speed).fold(0.0, f64::max);
    let ours = speed(&times[times.len() - 2]);
    for (side, times) in sides.iter().zip(&times) {
        table.row(
            &side.name,
            vec![
                Cell::spread(Some(gigabits(times.ns)), 1),
                Cell::number(speed(times) / best, 2),
                Cell::number(speed(times) / ours, 2),
            ],
        );
    }
    table.note(
        "tokio's simplex and the pipe show no bytes where they lie: these are copied out first, and then viewed, copied or \
         appended",
    );
    Ok(table)
}

/// Nanoseconds a byte as gigabits a second.
fn gigabits(ns: Summary) -> Summary {
    Summary {
        median: 8.0 / ns.median,
        low: 8.0 / ns.high,
        high: 8.0 / ns.low,
        samples: ns.samples,
    }
}

fn side<'a, S: Stream + 'a>(name: &str, bytes: u64, reading: Reading, mut stream: S) -> Side<'a> {
    Side::new(name, move || match reading {
        Reading::View => go::<S, Viewed>(&mut stream, bytes),
        Reading::Copy => go::<S, Copied>(&mut stream, bytes),
        Reading::Append => go::<S, Appended>(&mut stream, bytes),
    })
}

/// Where shown bytes go.
trait Target: Default {
    fn take(&mut self, shown: &[u8]);
}

/// See [`Reading::View`].
#[derive(Default)]
struct Viewed;

/// See [`Reading::Copy`].
struct Copied([u8; READ]);

/// See [`Reading::Append`].
#[derive(Default)]
struct Appended(Vec<u8>);

impl Target for Viewed {
    #[inline(always)]
    fn take(&mut self, shown: &[u8]) {
        black_box(shown.as_ptr());
    }
}

impl Default for Copied {
    fn default() -> Self {
        Copied([0; READ])
    }
}

impl Target for Copied {
    #[inline(always)]
    fn take(&mut self, shown: &[u8]) {
        self.0[..shown.len()].copy_from_slice(shown);
        black_box(self.0.as_ptr());
    }
}

impl Target for Appended {
    #[inline(always)]
    fn take(&mut self, shown: &[u8]) {
        self.0.extend_from_slice(shown);
    }
}

/// The text's loop: a write where it fits, and a read where there is something.
#[inline(never)]
fn go<S: Stream, T: Target>(stream: &mut S, bytes: u64) -> u64 {
    let source = [7_u8; WRITE];
    let writes = bytes / WRITE as u64;
    let mut target = T::default();
    let mut written = 0;
    loop {
        if written < writes && stream.vacant() >= WRITE {
            stream.push(black_box(&source));
            written += 1;
        }
        if stream.take(READ, &mut |shown| target.take(shown)) == 0 && written == writes {
            break;
        }
    }
    black_box(&mut target);
    writes * WRITE as u64
}

/// The copies of [`go`] and nothing else: in, one after another through a buffer of the capacity, and out.
#[inline(never)]
fn limit<T: Target>(bytes: u64) -> u64 {
    let source = [7_u8; WRITE];
    let mut buffer = vec![0_u8; CAPACITY + WRITE];
    let mut target = T::default();
    let writes = bytes / WRITE as u64;
    let (mut at, mut from) = (0, 0);
    for _ in 0..writes {
        buffer[at..at + WRITE].copy_from_slice(black_box(&source));
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

#[cfg(test)]
mod tests {
    use super::*;

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
        carries(others::Forebay::<Park>::new());
    }
}
