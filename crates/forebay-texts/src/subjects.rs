//! What can be measured, and what the report measures.

use crate::{append, descriptor, header, mirror};
use anyhow::Result;
use clap::ValueEnum;
use forebay_bench::{
    cache, driver, measure,
    method::{Effort, table::Table},
    pool, ring, stream,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// A textbook's network driver, improved step by step
    Driver,
    /// Numbers of eight bytes from thread to thread, as in `forebay-bench`
    Ring,
    /// Buffers taken and returned by one thread, and by two, as in `forebay-bench`
    Pool,
    /// A header added to packets and removed
    Header,
    /// Seven layouts of a packet descriptor, and one by columns
    Descriptor,
    /// Streams of bytes in one thread and in two, as in `forebay-bench`
    Stream,
    /// Entries of 28 and 32 bytes appended to a buffer that is flushed when it is full
    Append,
    /// Messages through a circular buffer, also across its end
    Mirror,
    /// Cache misses of one thread, simulated by valgrind
    Cache,
    /// Everything
    All,
}

impl measure::Subject for Subject {
    const ALL: Self = Subject::All;
    /// In the order in which the report measures them.
    const EACH: &[Self] = &[
        Subject::Mirror,
        Subject::Stream,
        Subject::Append,
        Subject::Driver,
        Subject::Ring,
        Subject::Pool,
        Subject::Header,
        Subject::Descriptor,
        Subject::Cache,
    ];

    fn run(self, effort: Effort) -> Result<Vec<Table>> {
        match self {
            Subject::Driver => driver::run(effort),
            Subject::Ring => ring::run(effort),
            Subject::Pool => pool::run(effort),
            Subject::Header => header::run(effort),
            Subject::Descriptor => descriptor::run(effort),
            Subject::Stream => stream::run(effort),
            Subject::Append => append::run(effort),
            Subject::Cache => cache::run(effort),
            Subject::Mirror => mirror::run(effort),
            Subject::All => unreachable!("replaced by its members"),
        }
    }
}
