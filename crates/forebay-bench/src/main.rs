//! `forebay-bench`: measures forebay, other crates and programs, and the code of five source texts (docs/background.md) side by
//! side in one run.
//!
//! Each module returns the tables of one subject. [`method`] has how things are measured.

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

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Parser, ValueEnum};
use method::{
    Effort,
    machine::{Machine, OneProcessor},
    process::ROLE,
    table::Table,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Display,
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

/// Measure forebay and its rivals in one run: alternating samples, medians and ratios. `forebay-bench report` writes a page
/// on the claims of the five texts: see `forebay-bench report --help`.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What to measure
    #[arg(value_enum, required = true)]
    rooms: Vec<Room>,

    /// Samples of each side
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// A tenth of the work in each sample, and less memory: to check that it runs, not for figures
    #[arg(long)]
    quick: bool,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Room {
    /// A textbook's network driver, improved step by step
    Driver,
    /// Numbers of eight bytes from thread to thread
    Ring,
    /// Buffers taken and returned by one thread, and by two
    Pool,
    /// A header added to packets and removed
    Header,
    /// Seven layouts of a packet descriptor, and one by columns
    Descriptor,
    /// Streams of bytes in one thread and in two
    Stream,
    /// Entries of 28 and 32 bytes appended to a buffer that is flushed when it is full
    Append,
    /// Queues of messages between threads and between processes
    Queue,
    /// Messages through a circular buffer, also across its end
    Mirror,
    /// Adaptive polling, interrupts and spinning at several loads; wake-ups
    Poll,
    /// Bytes from process to process through a program in between
    Pipe,
    /// Packets from an interface to a file, and other tools
    Wire,
    /// Packets from a file or a generator to an interface, and other tools
    Send,
    /// Everything
    All,
}

impl Room {
    const EACH: [Room; 13] = [
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
        Room::Send,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Its tables, or one that says that it needs two processors.
    fn tables(self, effort: Effort) -> Result<Vec<Table>> {
        self.run(effort).or_else(|why| {
            ensure!(why.is::<OneProcessor>(), why);
            let mut table = Table::new(self.name(), &[]);
            table.skipped("all", &why);
            Ok(vec![table])
        })
    }

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
            Room::Wire => wire::captures(effort),
            Room::Send => wire::senders(effort),
            Room::All => unreachable!("replaced by its members"),
        }
    }
}

/// The results of one run.
#[derive(Serialize)]
struct Report {
    schema: u32,
    machine: Machine,
    rounds: usize,
    quick: bool,
    rooms: BTreeMap<String, Vec<Table>>,
    /// How a report was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<report::Run>,
}

/// Some subjects need processes of ours: this program again, with the subject and the role as arguments.
fn play(args: impl Iterator<Item = OsString>) -> Result<()> {
    let args: Result<Vec<_>, _> = args.map(OsString::into_string).collect();
    let args = args.map_err(|args| anyhow!("a role that is not UTF-8: {args:?}"))?;
    match &args[..] {
        [room, role] if room == "pipe" => pipe::play(role),
        [room, role] if room == "wire" => wire::play(role),
        [room, role] if room == "stream" => stream::play(role),
        _ => bail!("no such role: {args:?}"),
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let done = match args.next() {
        Some(first) if first == ROLE => play(args),
        Some(first) if first == "report" => report::main(args),
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

/// The standard output, and whether it is still open: a reader that closes it early, such as `head`, is not a failure.
struct Reader {
    reads: bool,
}

impl Reader {
    /// Prints a line, or lines.
    fn tell(&mut self, line: impl Display) -> Result<()> {
        match writeln!(io::stdout(), "{line}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.reads = false,
            result => result.context("writing to the standard output")?,
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
        run: None,
    };
    for room in rooms {
        if !reader.reads {
            return Ok(());
        }
        let tables = room.tables(effort)?;
        if !args.json {
            tables.iter().try_for_each(|table| reader.tell(table))?;
        }
        report.rooms.insert(room.name(), tables);
    }
    if args.json {
        reader.tell(serde_json::to_string(&report)?)?;
    }
    Ok(())
}
