//! `forebay-bench`: measures forebay, other crates and programs side by side in one run.

use anyhow::Result;
use clap::{Parser, ValueEnum};
use forebay_bench::{
    measure::{self, Flags},
    method::{Effort, process::ROLE, table::Table},
    pipe, poll, pool, queue, ring, stream, wire,
};
use std::process::ExitCode;

/// Measure forebay and its rivals in one run: alternating samples, medians and ratios. `forebay-texts` measures the code of the
/// source texts, and writes a page on their claims.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What to measure
    #[arg(value_enum, required = true)]
    subjects: Vec<Subject>,

    #[command(flatten)]
    flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Numbers of eight bytes from thread to thread
    Ring,
    /// Buffers taken and returned by one thread, and by two
    Pool,
    /// Streams of bytes in one thread and in two
    Stream,
    /// Queues of messages between threads and between processes
    Queue,
    /// Adaptive polling, interrupts and spinning at several loads; wake-ups
    Poll,
    /// Bytes from process to process through a program in between
    Pipe,
    /// Packets from an interface to a file, and other tools
    Wire,
    /// Packets from a file or a generator to an interface, and other tools
    Send,
    /// Everything except ring, pool and stream, which `forebay-texts report` measures
    All,
}

impl measure::Subject for Subject {
    const ALL: Self = Subject::All;
    const EACH: &[Self] = &[
        Subject::Queue,
        Subject::Poll,
        Subject::Pipe,
        Subject::Wire,
        Subject::Send,
    ];

    fn run(self, effort: Effort) -> Result<Vec<Table>> {
        match self {
            Subject::Ring => ring::run(effort),
            Subject::Pool => pool::run(effort),
            Subject::Stream => stream::run(effort),
            Subject::Queue => queue::run(effort),
            Subject::Poll => poll::run(effort),
            Subject::Pipe => Ok(pipe::run(effort)),
            Subject::Wire => wire::captures(effort),
            Subject::Send => wire::senders(effort),
            Subject::All => unreachable!("replaced by its members"),
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let done = match args.next() {
        Some(first) if first == ROLE => forebay_bench::play(args),
        _ => {
            let args = Args::parse();
            measure::measure(&args.subjects, &args.flags)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
