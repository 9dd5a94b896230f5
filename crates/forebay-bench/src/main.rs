//! `forebay-bench`: the texts' textbook versions and rivals beside forebay, in one run, side by side.
//!
//! A room of the library is a module here; each gives tables. How things are measured is in [`method`]. Start with
//! `pool`, the shortest.

mod append;
mod descriptor;
mod driver;
mod header;
mod method;
mod mirror;
mod pipe;
mod poll;
mod pool;
mod queue;
mod report;
mod ring;
mod stream;
mod wire;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use method::{Effort, machine::Machine, process::ROLE, table::Table};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Display,
    io::{self, ErrorKind, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Measure forebay beside what else there is: medians of samples taken in turn, ratios from one run.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What to measure
    #[arg(value_enum, required = true)]
    rooms: Vec<Room>,

    /// Samples a side
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// A tenth of the work in each sample, and smaller memory: to see that it works, not to quote
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Also write one HTML page, with charts, into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Room {
    /// A textbook's network driver, and each step away from it
    Driver,
    /// Numbers of eight bytes from thread to thread
    Ring,
    /// Buffers taken and returned by one thread, and by two
    Pool,
    /// A header added to packets and removed
    Header,
    /// Seven layouts of a packet descriptor and one by columns, read and written
    Descriptor,
    /// Streams of bytes in one thread and in two
    Stream,
    /// Entries of 28 and 32 bytes appended to a buffer that is flushed when it is full
    Append,
    /// Queues of messages between threads and between processes
    Queue,
    /// Messages through a circular buffer, also where they straddle its end
    Mirror,
    /// Adaptive polling beside interrupts and spinning, by load, and wake-ups
    Poll,
    /// Bytes from one process to the next through a program between them
    Pipe,
    /// Packets from an interface to a file, beside other tools
    Wire,
    /// Everything
    All,
}

impl Room {
    const EACH: [Room; 12] = [
        Room::Driver,
        Room::Ring,
        Room::Pool,
        Room::Header,
        Room::Descriptor,
        Room::Stream,
        Room::Append,
        Room::Queue,
        Room::Mirror,
        Room::Poll,
        Room::Pipe,
        Room::Wire,
    ];

    fn run(self, effort: Effort) -> Result<Vec<Table>> {
        match self {
            Room::Driver => driver::run(effort),
            Room::Ring => ring::run(effort),
            Room::Pool => pool::run(effort),
            Room::Header => header::run(effort),
            Room::Descriptor => descriptor::run(effort),
            Room::Stream => stream::run(effort),
            Room::Append => append::run(effort),
            Room::Queue => queue::run(effort),
            Room::Mirror => mirror::run(effort),
            Room::Poll => poll::run(effort),
            Room::Pipe => Ok(pipe::run(effort)),
            Room::Wire => wire::run(effort),
            Room::All => unreachable!("it stands for the others"),
        }
    }
}

/// Everything said in one run.
#[derive(Serialize)]
struct Report {
    schema: u32,
    machine: Machine,
    rounds: usize,
    quick: bool,
    rooms: BTreeMap<Room, Vec<Table>>,
}

/// Some rooms need processes of ours: this program again, told which room's and what it is there.
fn play(told: impl Iterator<Item = OsString>) -> Result<()> {
    let told: Result<Vec<_>, _> = told.map(OsString::into_string).collect();
    let told = told.map_err(|told| anyhow!("a role that is no text: {told:?}"))?;
    match &told[..] {
        [room, role] if room == "pipe" => pipe::play(role),
        [room, role] if room == "wire" => wire::play(role),
        _ => bail!("no such role: {told:?}"),
    }
}

fn main() -> ExitCode {
    let mut told = std::env::args_os().skip(1);
    let done = match told.next() {
        Some(first) if first == ROLE => play(told),
        _ => measure(Args::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The standard output, and whether anybody reads it: who has read enough, as `head` does, is no failure.
struct Reader {
    reads: bool,
}

impl Reader {
    /// Prints a line, or lines.
    fn tell(&mut self, line: impl Display) -> Result<()> {
        match writeln!(io::stdout(), "{line}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.reads = false,
            told => told.context("writing to the standard output")?,
        }
        Ok(())
    }
}

fn measure(args: Args) -> Result<()> {
    let effort = Effort {
        rounds: args.rounds.into(),
        quick: args.quick,
    };
    let mut reader = Reader { reads: true };
    let machine = Machine::here()?;
    if let Some(&first) = machine.processors.first() {
        method::machine::pin(first)?;
    }
    if !args.json {
        reader.tell(format_args!("{}\n", machine.lines()))?;
    }
    let rooms = match args.rooms.contains(&Room::All) {
        true => Room::EACH.to_vec(),
        false => args.rooms,
    };
    let mut report = Report {
        schema: 1,
        machine,
        rounds: effort.rounds,
        quick: effort.quick,
        rooms: BTreeMap::new(),
    };
    for room in rooms {
        if !reader.reads && args.report.is_none() {
            return Ok(()); // nobody wants the rest
        }
        let tables = room.run(effort)?;
        if !args.json {
            tables.iter().try_for_each(|table| reader.tell(table))?;
        }
        report.rooms.insert(room, tables);
    }
    if args.json {
        reader.tell(serde_json::to_string(&report)?)?;
    }
    if let Some(folder) = args.report {
        let name = |room: &Room| room.to_possible_value().map(|it| it.get_name().to_owned());
        let rooms = Room::EACH.iter().filter_map(|room| {
            let tables = report.rooms.get(room)?;
            Some((name(room)?, &tables[..]))
        });
        let run = report::Run {
            machine: &report.machine,
            rounds: report.rounds,
            quick: report.quick,
            rooms: rooms.collect(),
        };
        let path = report::write(&folder, &run)?;
        eprintln!("forebay-bench: the report is in {}", path.display());
    }
    Ok(())
}
