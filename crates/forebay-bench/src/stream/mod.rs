//! Streams of bytes in one thread and in two: the versions of *CS 144 Checkpoint 0 – Byte Stream*, other crates, ours, and the
//! machine's own limit for copying.
//!
//! `ladder` has the text's versions, `others` the crates and the kernel's pipe, both with the trait in `sides`. `one` reads bytes in
//! place or copies them, `filling` only copies in, `course` is the text's own test, `profile` its parts, and `two` has two threads.

mod course;
mod filling;
mod ladder;
mod one;
mod others;
mod profile;
mod sides;
mod two;

pub use profile::play;

use crate::method::{Effort, table::Table};
use anyhow::Result;

/// One table a way of reading, and those for two threads.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = one::run(effort)?;
    tables.push(filling::run(effort)?);
    tables.push(course::run(effort)?);
    tables.push(profile::run(effort)?);
    tables.extend(two::run(effort)?);
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::{
        ladder, others,
        sides::{READ, Stream, WRITE, each_of_ours, each_other, each_rung},
    };
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
