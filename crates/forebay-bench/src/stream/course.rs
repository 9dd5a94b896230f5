//! The text's own speed test, as the course has it: ten million random bytes, split into strings before the clock runs,
//! pushed one after another, and appended to an output as they are read.
//!
//! What it measures beside the stream: strings that are freed, and the first touch of the output's pages.

use super::{
    ladder,
    others::{self, Forebay},
    sides::{CAPACITY, READ, Stream, WRITE, compared, each_of_ours, each_other, each_rung},
};
use crate::method::{Effort, samples::Side, table::Table};
use anyhow::{Result, ensure};
use forebay::{
    stream::LocalStream,
    sync::{Park, Spin, Wait},
};
use std::{collections::VecDeque, hint::black_box, time::Instant};

/// What the test asks of a stream beside its bytes.
pub trait Whole: Stream {
    fn close(&mut self);
    fn is_closed(&self) -> bool;
    fn is_finished(&self) -> bool;
    fn buffered(&self) -> usize;
}

/// A stream that knows no end, with a flag beside it: as the text's.
pub struct Flagged<S> {
    stream: S,
    closed: bool,
}

impl<S> Flagged<S> {
    pub fn new(stream: S) -> Flagged<S> {
        Flagged {
            stream,
            closed: false,
        }
    }
}

impl<S: Stream> Stream for Flagged<S> {
    #[inline(always)]
    fn vacant(&self) -> usize {
        self.stream.vacant()
    }
    #[inline(always)]
    fn push(&mut self, bytes: &[u8]) {
        self.stream.push(bytes);
    }
    #[inline(always)]
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        self.stream.take(n, show)
    }
}

impl<S: Stream> Whole for Flagged<S> {
    #[inline(always)]
    fn close(&mut self) {
        self.closed = true;
    }
    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.closed
    }
    #[inline(always)]
    fn is_finished(&self) -> bool {
        self.closed && self.buffered() == 0
    }
    #[inline(always)]
    fn buffered(&self) -> usize {
        CAPACITY - self.stream.vacant()
    }
}

impl<W: Wait> Whole for Forebay<W> {
    #[inline(always)]
    fn close(&mut self) {
        self.writer.close();
    }
    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.writer.is_closed()
    }
    #[inline(always)]
    fn is_finished(&self) -> bool {
        self.reader.is_finished()
    }
    #[inline(always)]
    fn buffered(&self) -> usize {
        self.reader.bytes_buffered()
    }
}

impl Whole for LocalStream {
    #[inline(always)]
    fn close(&mut self) {
        LocalStream::close(self);
    }
    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.end().is_some()
    }
    #[inline(always)]
    fn is_finished(&self) -> bool {
        LocalStream::is_finished(self)
    }
    #[inline(always)]
    fn buffered(&self) -> usize {
        self.bytes_buffered()
    }
}

/// The text's ladder, what else there is, and ours.
pub fn run(effort: Effort) -> Result<Table> {
    let data = &random(effort.scaled(10_000_000) as usize)[..];
    let mut sides = Vec::new();
    macro_rules! add {
        ($name:literal, $part:literal, $make:expr) => {
            sides.push(flagged($name, data, $make));
        };
    }
    each_rung!(add);
    let text = sides.len();
    each_other!(add);
    macro_rules! add {
        ($name:literal, $part:literal, $make:expr) => {
            sides.push(side($name, data, $make));
        };
    }
    each_of_ours!(add);
    let title = format!(
        "stream/test: the text's own, {} random bytes appended to an output; capacity {CAPACITY}, write {WRITE}, read {READ}",
        data.len()
    );
    let ours = sides.len() - 1;
    compared(title, sides, (0..text, ours), effort)
}

/// Bytes that no copy can guess (xorshift), the same in every run.
pub fn random(bytes: usize) -> Vec<u8> {
    let mut state = 789_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn flagged<'a, S: Stream + 'a>(name: &str, data: &'a [u8], make: impl Fn() -> S + 'a) -> Side<'a> {
    side(name, data, move || Flagged::new(make()))
}

fn side<'a, S: Whole>(name: &str, data: &'a [u8], make: impl Fn() -> S + 'a) -> Side<'a> {
    Side::timed(name, move || {
        let (ns, output) = go::<_, true>(&make, data);
        ensure!(output == data, "what came out is not what went in");
        Ok((ns, data.len() as u64))
    })
}

/// The test's nanoseconds and its output; without `OUTPUT`, bytes are only shown.
#[inline(never)]
pub fn go<S: Whole, const OUTPUT: bool>(make: impl Fn() -> S, data: &[u8]) -> (f64, Vec<u8>) {
    /// More than malloc ever keeps: so the pages are new in each sample, as in a test that is run once.
    const ALWAYS_MAPPED: usize = 64 << 20;
    let mut split: VecDeque<Vec<u8>> = data.chunks(WRITE).map(<[u8]>::to_vec).collect();
    let mut stream = make();
    let mut output = Vec::with_capacity(ALWAYS_MAPPED.max(data.len()));
    let begun = Instant::now();
    while !stream.is_finished() {
        match split.front() {
            Some(front) if front.len() <= stream.vacant() => {
                stream.push(front);
                split.pop_front();
            }
            Some(_) => {}
            None if !stream.is_closed() => stream.close(),
            None => {}
        }
        if stream.buffered() > 0 {
            let taken = stream.take(READ, &mut |shown| match OUTPUT {
                true => output.extend_from_slice(shown),
                false => {
                    black_box(shown.as_ptr());
                }
            });
            assert!(taken > 0, "a view of nothing");
        }
    }
    (begun.elapsed().as_nanos() as f64, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_bytes_come_out_of_both_kinds_of_stream() {
        let data = random(100_000);
        assert!(go::<_, true>(Forebay::<Park>::new, &data).1 == data);
        assert!(go::<_, true>(others::local, &data).1 == data);
        let flagged = || Flagged::new(ladder::Sliding::new(1.25));
        assert!(go::<_, true>(flagged, &data).1 == data);
    }
}
