//! The flags of `capture`, with tcpdump's letters wherever tcpdump has one.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Examples:
  forebay capture -i sim -c 5M -w first.pcapng       a simulated 1 Gb/s card, no privileges needed
  forebay capture -i eth0 -w today.pcapng            a real one (needs CAP_NET_RAW)
  forebay capture -i sim:rate=10G,size=imix -c 1M    count only
  forebay capture -i eth0 -w - | tshark -r -         into a pipe
  forebay capture -i eth0 -w web.pcapng tcp port 80  only what the filter lets pass
  forebay capture -r old.pcap.gz -w dns.pcapng port domain
  forebay capture -i eth0 -w a.pcapng -b duration:3600 -b files:24   the last 24 hours, one file each
  forebay capture -i eth0 -w day-%d.pcap -G 86400    a file a day, named as tcpdump does

The simulated card: sim:KEY=VALUE,…
  rate=1G|2.5G|max  size=64..9018|imix  seed=N  ring=FRAMES  host=FRAMES|none  count=FRAMES
  stall=LENGTH@PERIOD  clock=real|virtual  cost=TIME (a frame, on the virtual clock)

Signals: INT, TERM and HUP finish cleanly, a second one gives up what is not written yet; USR1
prints the counts; USR2 flushes. Where there are several files HUP goes on to the next one.

Exit codes: 0 fine, 1 failed at run time, 2 bad request, 3 packets lost under --fail-on-drop.";

#[derive(ClapArgs)]
pub struct Capture {
    /// Interface or port to capture from: eth0, packet:eth0, any, sim, sim:rate=10G; may be repeated
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

    /// Go on to another file when one has SIZE million bytes, or with a unit (100MB): FILE, FILE1, FILE2, …
    #[arg(short = 'C', value_name = "SIZE")]
    pub file_size: Option<String>,

    /// Go on to another file every SECONDS; strftime's % in FILE become the time, and with -C a number follows
    #[arg(short = 'G', value_name = "SECONDS")]
    pub rotate_seconds: Option<String>,

    /// With -C keep COUNT files, FILE0 … and again; with -G stop after COUNT files
    #[arg(short = 'W', value_name = "COUNT")]
    pub file_count: Option<String>,

    /// When to go on to another file, NAME_00001_20261121143000.pcapng and so on; may be repeated
    ///
    /// duration:SECONDS, interval:SECONDS (when the clock shows a multiple of it), filesize:KB, packets:COUNT; and what
    /// to keep: files:COUNT, total:KB.
    #[arg(short = 'b', long = "ring-buffer", value_name = "KEY:VALUE")]
    pub ring_buffer: Vec<String>,

    /// When to stop; may be repeated
    ///
    /// duration:SECONDS, packets:COUNT, filesize:KB, and where there are several, files:COUNT.
    #[arg(short = 'a', long = "autostop", value_name = "KEY:VALUE")]
    pub autostop: Vec<String>,

    /// When to make durable what is written: none, interval[:SECONDS], file (at the end of each), always
    #[arg(long, value_name = "POLICY", default_value = "file")]
    pub sync: String,

    /// Compress files as they are finished, NAME.zst for NAME, on a thread of low priority: zstd, or zstd:LEVEL, 1 to 19
    #[arg(long, value_name = "zstd[:LEVEL]")]
    pub compress: Option<String>,

    /// Size of the ring that the source fills while we are busy, in KiB or with a unit (64M)
    #[arg(short = 'B', value_name = "SIZE")]
    pub ring: Option<String>,

    /// First buffers between taking and writing, as COUNTxSIZE [default: 16x4M, and 4x4M where only files are read]; without
    /// --store-limit also the last ones
    #[arg(long, value_name = "COUNTxSIZE")]
    pub store: Option<String>,

    /// Let the buffers grow while the output is slow, up to a size or a share of the available memory, such as 2G or 50%; 0 for
    /// not at all [default: 25%, and 0 with --store or where only files are read]
    #[arg(long, value_name = "SIZE|PERCENT")]
    pub store_limit: Option<String>,

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

    /// Hand packets to the file as they come, within 10 ms, not once a second
    #[arg(short = 'U')]
    pub unbuffered: bool,

    /// Do not put interfaces into promiscuous mode
    #[arg(short = 'p')]
    pub not_promiscuous: bool,

    /// End the capture with exit code 1 when an interface goes down, instead of waiting until it is up again
    #[arg(long)]
    pub stop_on_down: bool,

    /// Become USER once the interfaces are open, before the first file is made
    #[arg(short = 'Z', value_name = "USER")]
    pub user: Option<String>,

    /// Print the counts as one JSON object at the end (on stdout; with -w - on stderr)
    #[arg(long)]
    pub json: bool,

    /// Print the counts every SECONDS (with --json one object a line)
    #[arg(long, value_name = "SECONDS")]
    pub stats_interval: Option<String>,

    /// Leave out of a copy what files say beyond their packets: comments, decryption secrets, names, custom blocks, provenance
    #[arg(long)]
    pub no_metadata: bool,

    /// Exit with 3 if a packet was lost, by the interface too where it tells
    #[arg(long)]
    pub fail_on_drop: bool,
}
