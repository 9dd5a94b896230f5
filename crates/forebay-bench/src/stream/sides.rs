//! What every stream that is compared does, which streams these are, and their table.

use crate::method::{
    Effort,
    samples::{Side, Times, contest},
    table::{Cell, Table},
};
use anyhow::Result;

/// The text's test: capacity, bytes a write, bytes a read.
pub const CAPACITY: usize = 32_768;
pub const WRITE: usize = 1500;
pub const READ: usize = 128;

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
pub struct Aligned<const N: usize>(pub [u8; N]);

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

/// Has the sides compete; `text` and `ours` are the numbers of the text's and of our own ones.
pub fn compared(
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
