//! The flags of `capture`, with tcpdump's letters wherever tcpdump has one.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Examples:
  forebay capture -i sim -c 5M -w first.pcapng       a simulated 1 Gb/s card, no privileges needed
  forebay capture -i eth0 -w today.pcapng            a real one (needs CAP_NET_RAW)
  forebay capture -i sim:rate=10G,size=imix -c 1M    only count
  forebay capture -i eth0 -w - | tshark -r -         to a pipe
  forebay capture -i eth0 -w web.pcapng tcp port 80  only what matches
  forebay capture -r old.pcap.gz -w dns.pcapng port domain
  forebay capture -i eth0 -w a.pcapng -b duration:3600 -b files:24
                                                     the last 24 hours
  forebay capture -i eth0 -w day-%d.pcap -G 86400    a file a day, named as tcpdump does

The simulated card: sim:KEY=VALUE,…
  rate=1G|2.5G|max  size=64..9018|imix  seed=N  ring=FRAMES  host=FRAMES|none  count=FRAMES
  stall=LENGTH@PERIOD  clock=real|virtual  cost=TIME (a frame, on the virtual clock)

Signals: INT, TERM and HUP finish cleanly. A second one skips syncs and writes for one more second;
a third one ends that too. USR1 prints the counts, USR2 flushes. With several files, HUP starts
the next one.

Exit codes: 0 success, 1 failure, 2 bad request, 3 packets lost with --fail-on-drop.";

#[derive(ClapArgs)]
pub struct Capture {
    /// Interface to capture from: eth0, any, or a simulated card: sim, sim:rate=10G; may be repeated
    #[arg(short = 'i', value_name = "PORT")]
    pub interfaces: Vec<String>,

    /// Read packets from a pcap or pcapng FILE, plain, gzip or zstd; - is standard input; may be repeated: files are read
    /// one after another
    #[arg(short = 'r', value_name = "FILE")]
    pub read: Vec<PathBuf>,

    /// Write to FILE; - is standard output; without -w packets are only counted
    ///
    /// A name that ends in .pcap or .cap gives the classic format, every other name pcapng
    #[arg(short = 'w', value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Stop after COUNT packets (5M is five million)
    #[arg(short = 'c', value_name = "COUNT")]
    pub count: Option<String>,

    /// Keep at most SNAPLEN bytes of each packet; 0 means 262144
    #[arg(
        short = 's',
        value_name = "SNAPLEN",
        default_value = "262144",
        hide_default_value = true
    )]
    pub snaplen: String,

    /// Start the next file after SIZE million bytes, or with a unit (100MB): FILE, FILE1, FILE2, …
    #[arg(short = 'C', value_name = "SIZE")]
    pub file_size: Option<String>,

    /// Start the next file every SECONDS; FILE may contain strftime's % letters; with -C a number follows
    #[arg(short = 'G', value_name = "SECONDS")]
    pub rotate_seconds: Option<String>,

    /// With -C, keep a ring of COUNT files; with -G, stop after COUNT files
    #[arg(short = 'W', value_name = "COUNT")]
    pub file_count: Option<String>,

    /// When to start the next file (NAME_00001_20261121143000.pcapng, …); may be repeated
    ///
    /// duration:SECONDS, interval:SECONDS (when the clock shows a multiple of it), filesize:KB, packets:COUNT; which files to
    /// keep: files:COUNT (the newest), total:KB (the newest of that size together)
    #[arg(short = 'b', long = "ring-buffer", value_name = "KEY:VALUE")]
    pub ring_buffer: Vec<String>,

    /// When to stop; may be repeated
    ///
    /// duration:SECONDS, packets:COUNT, filesize:KB; with several files also files:COUNT
    #[arg(short = 'a', long = "autostop", value_name = "KEY:VALUE")]
    pub autostop: Vec<String>,

    /// When to sync written data to the disk: none, interval[:SECONDS], file (at the end of each file), always
    #[arg(long, value_name = "POLICY", default_value = "file")]
    pub sync: String,

    /// Compress finished files to NAME.zst on a low-priority thread, at LEVEL 1 to 19 [default level: 3]
    #[arg(long, value_name = "zstd[:LEVEL]")]
    pub compress: Option<String>,

    /// Size of the source's ring, in KiB or with a unit (256M) [default: 64M; a simulated card: one second]
    #[arg(short = 'B', value_name = "SIZE")]
    pub ring: Option<String>,

    /// Buffers between capturing and writing; without --store-limit their number is fixed [default: 16x4M, for files 4x4M]
    #[arg(long, value_name = "COUNTxSIZE")]
    pub store: Option<String>,

    /// Let the buffers grow while the output is slow, up to a size (2G) or a share of the available memory (50%); 0: never
    /// [default: 25%; 0 with --store and for files]
    #[arg(long, value_name = "SIZE|PERCENT")]
    pub store_limit: Option<String>,

    /// Which packets to keep, in the language of pcap-filter(7): tcp port 80 and host 10.0.0.1
    #[arg(value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    /// Read the expression from FILE instead of the command line
    #[arg(short = 'F', value_name = "FILE", conflicts_with = "expression")]
    pub expression_file: Option<PathBuf>,

    /// Print the BPF program of the expression, and stop; -dd as C, -ddd as numbers
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    pub dump: u8,

    /// List the interfaces that can be captured
    #[arg(short = 'D', long = "list-interfaces")]
    pub list: bool,

    /// Print only the counts and errors: no start lines, no progress
    #[arg(short = 'q')]
    pub quiet: bool,

    /// Write packets within 10 ms, not once a second
    #[arg(short = 'U')]
    pub unbuffered: bool,

    /// Do not put interfaces into promiscuous mode
    #[arg(short = 'p')]
    pub not_promiscuous: bool,

    /// End the capture with exit code 1 when an interface goes down, instead of waiting until it is up again
    #[arg(long)]
    pub stop_on_down: bool,

    /// Become USER after opening the interfaces, before the first file is made (only root can)
    #[arg(short = 'Z', value_name = "USER")]
    pub user: Option<String>,

    /// Print the counts as one JSON object at the end, on standard output (with -w -, on standard error)
    #[arg(long)]
    pub json: bool,

    /// Print the counts every SECONDS; with --json, one object a line
    #[arg(long, value_name = "SECONDS")]
    pub stats_interval: Option<String>,

    /// Copy packets only, without comments, decryption secrets, names, custom blocks and origin
    #[arg(long)]
    pub no_metadata: bool,

    /// Exit with 3 if a packet was lost, also by the interface itself where that is known
    #[arg(long)]
    pub fail_on_drop: bool,
}
