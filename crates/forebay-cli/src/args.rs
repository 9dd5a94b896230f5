//! The flags, with tcpdump's letters wherever tcpdump has one.

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// Bounded, zero-copy buffers for data that does not wait.
#[derive(Parser)]
#[command(name = "forebay", version, about, long_about = None)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Capture packets, and account for every one
    #[command(after_long_help = AFTER_HELP)]
    Capture(Box<Capture>),
    /// Tell what capture files hold: counts, times, rates, interfaces, losses, check sum
    Info(Info),
    /// Buffer bytes between programs: a large buffer, as in mbuffer, with pv's display
    #[command(after_long_help = AFTER_PIPE_HELP)]
    Pipe(Box<Pipe>),
    /// Pass messages between processes: lines, or records behind their length
    #[command(after_long_help = AFTER_QUEUE)]
    Queue(Queue),
}

#[derive(ClapArgs)]
pub struct Queue {
    #[command(subcommand)]
    pub command: QueueCommand,
}

#[derive(Subcommand)]
pub enum QueueCommand {
    /// Send each line of standard input as a message, waiting while the queue is full
    Send(Send),
    /// Print each message as a line, waiting while the queue is empty, until it is closed
    Recv(Recv),
    /// Tell what happened in a queue so far
    Stat(Stat),
    /// Take the name away; those who use the queue stay until they end
    Remove(Remove),
}

#[derive(ClapArgs)]
pub struct Send {
    /// Name of the queue, made if there is none
    pub name: String,

    /// Read records, each behind its length as 4 bytes, the highest first
    #[arg(long)]
    pub framed: bool,

    /// Close the queue at the end: receivers get what is left in it, and end
    #[arg(long)]
    pub close: bool,
}

#[derive(ClapArgs)]
pub struct Recv {
    /// Name of the queue, made if there is none
    pub name: String,

    /// Write records, each behind its length as 4 bytes, the highest first
    #[arg(long)]
    pub framed: bool,

    /// Stop after COUNT messages
    #[arg(short = 'c', value_name = "COUNT")]
    pub count: Option<u64>,
}

#[derive(ClapArgs)]
pub struct Stat {
    /// Name of the queue
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Remove {
    /// Name of the queue
    pub name: String,
}

const AFTER_QUEUE: &str = "\
Examples:
  forebay queue recv jobs &
  seq 3 | forebay queue send jobs                    prints 1, 2 and 3
  seq 9 | forebay queue send --close jobs            and ends the receiver
  forebay queue stat jobs; forebay queue remove jobs

A queue holds 1 MiB, in /dev/shm/forebay.NAME, for this user only, until it is removed. Each message
goes to one receiver. What a killed receiver had taken and not released goes to another one.

Exit codes: 0 fine, also where the reader of the output went away; 1 failed; 2 bad request.";

#[derive(ClapArgs)]
pub struct Info {
    /// pcap and pcapng files, plain, gzip or zstd; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print one JSON object a line for each file
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  forebay capture -i sim -c 5M -w first.pcapng       a simulated 1 Gb/s card, no privileges needed
  forebay capture -i eth0 -w today.pcapng            a real one (needs CAP_NET_RAW)
  forebay capture -i sim:rate=10G,size=imix -c 1M    count only
  forebay capture -i eth0 -w - | tshark -r -         into a pipe
  forebay capture -i eth0 -w web.pcapng tcp port 80  only what the filter lets pass
  forebay capture -r old.pcap.gz -w dns.pcapng port domain

The simulated card: sim:KEY=VALUE,…
  rate=1G|2.5G|max  size=64..9018|imix  seed=N  ring=FRAMES  host=FRAMES|none  count=FRAMES
  stall=LENGTH@PERIOD  clock=real|virtual  cost=TIME (a frame, on the virtual clock)

Signals: INT, TERM and HUP finish cleanly, a second one gives up what is not written yet; USR1
prints the counts; USR2 flushes.

Exit codes: 0 fine, 1 failed at run time, 2 bad request, 3 packets lost under --fail-on-drop.";

#[derive(ClapArgs)]
pub struct Capture {
    /// Interface or port to capture from: eth0, packet:eth0, sim, sim:rate=10G; may be repeated
    #[arg(short = 'i', value_name = "PORT")]
    pub interfaces: Vec<String>,

    /// Read packets from a pcap or pcapng FILE, plain, gzip or zstd, or from standard input if it is
    /// -; may be repeated: one after another
    #[arg(short = 'r', value_name = "FILE")]
    pub read: Vec<PathBuf>,

    /// Write to FILE, or to standard output if it is -; without it packets are only counted
    ///
    /// A name ending in .pcap or .cap writes the classic format, every other name pcapng.
    #[arg(short = 'w', value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Stop after COUNT packets (5M is five million)
    #[arg(short = 'c', value_name = "COUNT")]
    pub count: Option<String>,

    /// Keep at most SNAPLEN bytes of each packet (0 is the most, 262144)
    #[arg(
        short = 's',
        value_name = "SNAPLEN",
        default_value = "262144",
        hide_default_value = true
    )]
    pub snaplen: String,

    /// Size of the ring that the source fills while we are busy, in KiB or with a unit (64M)
    #[arg(short = 'B', value_name = "SIZE")]
    pub ring: Option<String>,

    /// Buffers between taking and writing, as COUNTxSIZE, such as 16x4M
    #[arg(long, value_name = "COUNTxSIZE", default_value = "16x4M")]
    pub store: String,

    /// Which packets to keep, in pcap-filter's language: tcp port 80 and host 10.0.0.1
    #[arg(value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    /// Read the expression from FILE; words on the command line are then refused
    #[arg(short = 'F', value_name = "FILE", conflicts_with = "expression")]
    pub expression_file: Option<PathBuf>,

    /// Print the program that the expression becomes, and stop; -dd for C, -ddd as numbers
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    pub dump: u8,

    /// List the interfaces that can be captured from
    #[arg(short = 'D', long = "list-interfaces")]
    pub list: bool,

    /// Say less: no start lines, no progress, only the counts and what went wrong
    #[arg(short = 'q')]
    pub quiet: bool,

    /// Hand packets to the file as they come, not once a second
    #[arg(short = 'U')]
    pub unbuffered: bool,

    /// Do not put interfaces into promiscuous mode
    #[arg(short = 'p')]
    pub not_promiscuous: bool,

    /// Print the counts as one JSON object at the end (on stdout; with -w - on stderr)
    #[arg(long)]
    pub json: bool,

    /// Print the counts every SECONDS (with --json one object a line)
    #[arg(long, value_name = "SECONDS")]
    pub stats_interval: Option<String>,

    /// Exit with 3 if a packet was lost, by the interface too where it tells
    #[arg(long)]
    pub fail_on_drop: bool,
}

const AFTER_PIPE_HELP: &str = "\
Examples:
  tar c . | forebay pipe -m 1G | ssh host 'cat > backup.tar'
  forebay pipe -m 256M -P 80 --block-size 256k -o /dev/nst0 < backup.tar    keep a tape streaming
  forebay pipe -i disk.img -o a.img -o b.img --hash sha256                  read once, write twice
  forebay pipe -I 9000 | zfs recv pool/copy        and    zfs send pool@now | forebay pipe -O host:9000

An input or output is a file, - (standard input, standard output), tcp:HOST:PORT, which connects, or
tcp-listen:PORT or tcp-listen:ADDRESS:PORT, which waits for one connection.

Letters are pv's and mbuffer's. Where the two clash, a letter is pv's, and mbuffer's -s, -p, -r, -W are
--block-size, --start-reading, --read-rate, --watchdog; -i with a number is pv's --interval, with
anything else mbuffer's --input (a file named 5 is ./5). -L is -R.

Sizes and rates: K, M, G, T are x1024, kB, MB, GB x1000. Nothing is displayed where stderr is no terminal,
unless -f or -n is given; errors and check sums are always told.

One output fails: the others go on, and the exit code is 1. A reader that leaves a pipe is no error.

Signals: INT, TERM and HUP end the reading and write what was read, a second one gives that up; USR1
prints the counts.

Exit codes: 0 fine, 1 failed at run time, 2 bad request.";

#[derive(ClapArgs)]
pub struct Pipe {
    /// Inputs, one after another; without any, standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,

    /// An input (may be repeated; come before FILEs); a number is the --interval instead
    #[arg(short = 'i', long = "input", value_name = "INPUT")]
    pub inputs: Vec<OsString>,

    /// Wait for a TCP connection and read from it; with HOST, only from there
    #[arg(short = 'I', long, value_name = "[HOST:]PORT")]
    pub listen: Vec<String>,

    /// An output (may be repeated: each gets everything); without any, standard output
    #[arg(short = 'o', long = "output", value_name = "OUTPUT")]
    pub outputs: Vec<OsString>,

    /// Connect by TCP, and write to that (may be repeated)
    #[arg(short = 'O', long, value_name = "HOST:PORT")]
    pub connect: Vec<String>,

    /// Empty output files that are there already; without it or --append they are refused
    #[arg(long, conflicts_with = "append")]
    pub truncate: bool,

    /// Write behind the end of output files that are there already
    #[arg(long)]
    pub append: bool,

    /// The buffer, as a size or in percent of the memory
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "64M")]
    pub memory: String,

    /// Read at most so much at once, and write exactly so much but at the end (mbuffer's -s)
    #[arg(long, value_name = "SIZE")]
    pub block_size: Option<String>,

    /// Begin to write when the buffer is so full, and again so after it ran empty
    #[arg(short = 'P', long, value_name = "PERCENT", default_value = "0")]
    pub start_writing: String,

    /// Once the buffer was full, go on reading when it is only so full (mbuffer's -p)
    #[arg(long, value_name = "PERCENT", default_value = "100")]
    pub start_reading: String,

    /// Read at most so many bytes a second (mbuffer's -r)
    #[arg(long, value_name = "RATE")]
    pub read_rate: Option<String>,

    /// Write at most so many bytes a second
    #[arg(
        short = 'R',
        long,
        value_name = "RATE",
        visible_short_alias = 'L',
        visible_alias = "rate-limit"
    )]
    pub write_rate: Option<String>,

    /// Tell the check sum of what was written: sha256 or crc32
    #[arg(long, value_name = "KIND")]
    pub hash: Option<String>,

    /// Make output files durable before the end
    #[arg(long)]
    pub sync: bool,

    /// Give up when no byte moves for so long (mbuffer's -W)
    #[arg(long, value_name = "SECONDS")]
    pub watchdog: Option<String>,

    /// Display a bar
    #[arg(short = 'p', long)]
    pub progress: bool,

    /// Display the time so far
    #[arg(short = 't', long)]
    pub timer: bool,

    /// Display how long it will take, where the size is known
    #[arg(short = 'e', long)]
    pub eta: bool,

    /// Display bytes a second
    #[arg(short = 'r', long)]
    pub rate: bool,

    /// Display bytes a second since the start
    #[arg(short = 'a', long)]
    pub average_rate: bool,

    /// Display the bytes written
    #[arg(short = 'b', long)]
    pub bytes: bool,

    /// Display how full the buffer is
    #[arg(short = 'T', long)]
    pub buffer_percent: bool,

    /// Expect so many bytes; regular files tell it themselves
    #[arg(short = 's', long, value_name = "SIZE")]
    pub size: Option<String>,

    /// Renew the display so often
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub interval: String,

    /// Display the percentage on a line of its own each time; bytes with -b or where the size is unknown, time with -t
    #[arg(short = 'n', long)]
    pub numeric: bool,

    /// Display nothing
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Display nothing before the first byte
    #[arg(short = 'W', long)]
    pub wait: bool,

    /// Begin the display with NAME
    #[arg(short = 'N', long, value_name = "NAME")]
    pub name: Option<String>,

    /// Display even where stderr is no terminal
    #[arg(short = 'f', long)]
    pub force: bool,
}
