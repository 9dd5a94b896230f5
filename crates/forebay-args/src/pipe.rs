//! The flags of `pipe`, with pv's letters, and mbuffer's where pv has none.

use super::values::{self, Parsed, bytes};
use clap::{
    Args as ClapArgs,
    builder::{OsStringValueParser, TypedValueParser},
};
use forebay_io::pipe::{Hash, Place, split_port};
use std::{
    ffi::{OsStr, OsString},
    time::Duration,
};

pub const HELP: &str = "\
An input or output is a file, - (standard input, standard output), tcp:HOST:PORT, which connects, or \
tcp-listen:PORT or tcp-listen:ADDRESS:PORT, which waits for one connection.

The short flags are pv's and mbuffer's. Where the two differ, a letter means what it means to pv, and mbuffer's -s, \
-p, -r, -W are --block-size, --start-reading, --read-rate, --watchdog. -i with a number is pv's --interval, with \
anything else mbuffer's --input (a file named 5 is ./5). -L is -R.

Sizes and rates: K, M, G, T are x1024; kB, MB, GB are x1000. Progress is displayed only if standard error is a \
terminal, or with -f or -n. Errors and checksums are always printed.

If one of several outputs fails, the others go on, and the exit code is 1. A reader that leaves is not an error.

Signals: INT, TERM and HUP stop reading and write what was read. A second one discards that, and a third one also \
ends a blocked write. USR1 prints the counts.

Exit codes: 0 success, 1 failure, 2 bad request.

Examples:
  # A buffer of 1 GiB
  tar c . | forebay pipe -m 1G | ssh host 'cat > a.tar'
  # Keep a tape streaming
  forebay pipe -m 256M -P 80 --block-size 256k \\
    -o /dev/nst0 < backup.tar
  # Read once, write twice
  forebay pipe -i disk.img -o a.img -o b.img --hash sha256
  # Over TCP: the receiver, then the sender
  forebay pipe -I 9000 | zfs recv pool/copy
  zfs send pool@now | forebay pipe -O host:9000";

#[derive(ClapArgs)]
pub struct Pipe {
    /// Inputs, one after another; without any, standard input
    #[arg(help_heading = "Input", value_name = "FILE", value_parser = OsStringValueParser::new().try_map(place))]
    pub files: Vec<Place>,

    /// An input, read before FILEs; may be repeated; a number is the --interval instead
    #[arg(help_heading = "Input", short = 'i', long = "input", value_name = "INPUT", value_parser = OsStringValueParser::new().try_map(input))]
    pub inputs: Vec<Input>,

    /// Wait for a TCP connection and read from it; with HOST, accept only connections from HOST
    #[arg(help_heading = "Input", short = 'I', long, value_name = "[HOST:]PORT", value_parser = listen)]
    pub listen: Vec<Place>,

    /// An output; may be repeated: each gets everything; without any, standard output
    #[arg(help_heading = "Output", short = 'o', long = "output", value_name = "OUTPUT", value_parser = OsStringValueParser::new().try_map(place))]
    pub outputs: Vec<Place>,

    /// Connect over TCP, and write to that; may be repeated
    #[arg(help_heading = "Output", short = 'O', long, value_name = "HOST:PORT", value_parser = connect)]
    pub connect: Vec<Place>,

    /// Empty existing output files; without this or --append they are refused
    #[arg(help_heading = "Output", long, conflicts_with = "append")]
    pub truncate: bool,

    /// Append to existing output files
    #[arg(help_heading = "Output", long)]
    pub append: bool,

    /// Size of the buffer; SIZE may be a percentage of the memory, such as 10%
    #[arg(help_heading = "Memory", short = 'm', long, value_name = "SIZE", default_value = "64M", value_parser = memory)]
    pub memory: usize,

    /// Size of reads and writes (mbuffer's -s). At most SIZE bytes are read at once, and exactly SIZE bytes are written, except
    /// at the end
    #[arg(help_heading = "Memory", long, value_name = "SIZE", value_parser = |text: &str| bytes(text).map(in_memory))]
    pub block_size: Option<usize>,

    /// Start writing at this fill level; it applies again after the buffer ran empty
    #[arg(help_heading = "Memory", short = 'P', long, value_name = "PERCENT", default_value = "0", value_parser = values::percent)]
    pub start_writing: u8,

    /// After the buffer was full, continue reading at this fill level (mbuffer's -p)
    #[arg(hide_short_help = true, help_heading = "Memory", long, value_name = "PERCENT", default_value = "100", value_parser = values::percent)]
    pub start_reading: u8,

    /// Read at most RATE bytes a second (mbuffer's -r)
    #[arg(hide_short_help = true, help_heading = "Memory", long, value_name = "RATE", value_parser = bytes)]
    pub read_rate: Option<u64>,

    /// Write at most RATE bytes a second. Also -L, as in pv
    #[arg(help_heading = "Memory", 
        short = 'R',
        long,
        value_name = "RATE",
        value_parser = bytes,
        short_alias = 'L',
        alias = "rate-limit"
    )]
    pub write_rate: Option<u64>,

    /// Print a checksum: sha256 or crc32. It is that of the written bytes
    #[arg(help_heading = "Output", long, value_name = "KIND")]
    pub hash: Option<Hash>,

    /// Sync output files to the disk before the end
    #[arg(hide_short_help = true, help_heading = "Output", long)]
    pub sync: bool,

    /// Copy every byte and resize no pipe: for a producer that overwrites memory or files it lent to its pipe (vmsplice, splice)
    #[arg(hide_short_help = true, help_heading = "Memory", short = 'C', long)]
    pub no_splice: bool,

    /// Give up when no byte has moved for SECONDS (mbuffer's -W)
    #[arg(hide_short_help = true, help_heading = "Memory", long, value_name = "SECONDS", value_parser = values::time)]
    pub watchdog: Option<Duration>,

    /// Display a bar
    #[arg(help_heading = "Display", short = 'p', long)]
    pub progress: bool,

    /// Display the elapsed time
    #[arg(help_heading = "Display", short = 't', long)]
    pub timer: bool,

    /// Display the time left, if the size is known. It is computed with the rate of the last 10 seconds
    #[arg(help_heading = "Display", short = 'e', long)]
    pub eta: bool,

    /// Display the current rate
    #[arg(help_heading = "Display", short = 'r', long)]
    pub rate: bool,

    /// Display the average rate
    #[arg(hide_short_help = true, help_heading = "Display", short = 'a', long)]
    pub average_rate: bool,

    /// Display the bytes written
    #[arg(help_heading = "Display", short = 'b', long)]
    pub bytes: bool,

    /// Count lines, not bytes, also for -s
    #[arg(help_heading = "Display", short = 'l', long)]
    pub line_mode: bool,

    /// Display the fill level of the buffer
    #[arg(hide_short_help = true, help_heading = "Display", short = 'T', long)]
    pub buffer_percent: bool,

    /// Expect SIZE bytes; not needed for regular files, whose sizes are known (mbuffer's -s is --block-size)
    #[arg(help_heading = "Display", short = 's', long, value_name = "SIZE", value_parser = bytes)]
    pub size: Option<u64>,

    /// Move nothing: display how far process PID is in its files, or in descriptor FD
    #[arg(help_heading = "Display", short = 'd', long = "watchfd", value_name = "PID[:FD]", value_parser = watched, conflicts_with_all = WATCHING_MOVES_NOTHING)]
    pub watched: Option<(i32, Option<i32>)>,

    /// Update the display every SECONDS
    #[arg(hide_short_help = true, help_heading = "Display", long, value_name = "SECONDS", default_value = "1", value_parser = values::time)]
    pub interval: Duration,

    /// Print numbers, one line each time. They are percent; bytes with -b or if the size is unknown; time with -t
    #[arg(help_heading = "Display", short = 'n', long)]
    pub numeric: bool,

    /// Display nothing
    #[arg(help_heading = "Display", short = 'q', long)]
    pub quiet: bool,

    /// Display nothing before the first byte
    #[arg(hide_short_help = true, help_heading = "Display", short = 'W', long)]
    pub wait: bool,

    /// Begin the display with NAME
    #[arg(
        hide_short_help = true,
        help_heading = "Display",
        short = 'N',
        long,
        value_name = "NAME"
    )]
    pub name: Option<String>,

    /// Display even if standard error is not a terminal
    #[arg(hide_short_help = true, help_heading = "Display", short = 'f', long)]
    pub force: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

/// Flags about bytes that are moved.
const WATCHING_MOVES_NOTHING: [&str; 19] = [
    "files",
    "listen",
    "outputs",
    "connect",
    "truncate",
    "append",
    "memory",
    "no_splice",
    "wait",
    "block_size",
    "start_writing",
    "start_reading",
    "read_rate",
    "write_rate",
    "hash",
    "sync",
    "watchdog",
    "line_mode",
    "buffer_percent",
];

/// pv's `-d PID` and `-d PID:FD`.
fn watched(text: &str) -> Parsed<(i32, Option<i32>)> {
    let (pid, fd) = text
        .split_once(':')
        .map_or((text, None), |it| (it.0, Some(it.1)));
    let pid = pid.parse().ok().filter(|&pid| pid > 0);
    let fd = fd.map(|fd| fd.parse().ok().filter(|&fd| fd >= 0));
    match (pid, fd) {
        (Some(pid), None) => Ok((pid, None)),
        (Some(pid), Some(Some(fd))) => Ok((pid, Some(fd))),
        _ => Err(format!(
            "'{text}' is not a process. Use its number, such as 1234, or 1234:3 for its descriptor 3"
        )),
    }
}

/// The value of `-i`, which is pv's with a number and mbuffer's with anything else.
#[derive(Clone, Debug)]
pub enum Input {
    Interval(Duration),
    Place(Place),
}

fn input(name: OsString) -> Parsed<Input> {
    let number = name.to_str().filter(|text| text.parse::<f64>().is_ok());
    match number {
        Some(text) => values::time(text).map(Input::Interval),
        None => place(name).map(Input::Place),
    }
}

fn place(name: impl AsRef<OsStr>) -> Parsed<Place> {
    Place::parse(name.as_ref()).map_err(|error| error.to_string())
}

/// mbuffer's `-I [HOST:]PORT`: only HOST may connect.
fn listen(text: &str) -> Parsed<Place> {
    let (host, port) = split_port(text)
        .ok_or_else(|| format!("'{text}' is not a port. Use a value such as 9000 or HOST:9000"))?;
    Ok(Place::Listen {
        at: None,
        port,
        only: host.map(str::to_owned),
    })
}

fn connect(text: &str) -> Parsed<Place> {
    place(format!("tcp:{text}"))
}

/// A size, or a percentage of the machine's memory.
fn memory(text: &str) -> Parsed<usize> {
    let Some(share) = text.strip_suffix('%') else {
        return bytes(text).map(in_memory);
    };
    match (values::percent(share)?, memory_of_the_machine()) {
        (percent @ 1.., Some(all)) => Ok(in_memory(all / 100 * u64::from(percent))),
        _ => Err(format!("'{text}' is not a size. Use a value such as 256M")),
    }
}

/// A size that does not fit into the address space is rejected when the buffer is created.
fn in_memory(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn memory_of_the_machine() -> Option<u64> {
    let report = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = report.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
