//! The flags of `capture`, with tcpdump's letters wherever tcpdump has one.

use super::{
    print::Print,
    recorder::Recording,
    share::Share,
    threads::Threads,
    values::{self, Parsed},
};
use clap::Args as ClapArgs;
use forebay::store::{self, Limit, SyncPolicy};
use forebay_net::{
    format::Format,
    open::Name,
    port::{DEFAULT_SNAPLEN, MAX_SNAPLEN, TimeSource},
    session::KeepFree,
    units,
};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub const HELP: &str = "\
The simulated card: sim:KEY=VALUE,…
  rate=RATE          rate at which frames arrive: 10G (bits
                     a second), 500kpps (frames a second),
                     or max [default: 1G]
  size=BYTES|imix    length of the frames: 64 to 9018 bytes,
                     or a mixture [default: 64]
  count=FRAMES       end after this number of frames
  flows=N            number of flows: 1, 2, 4, 8, 16, 32 or
                     64 [default: 64]
  sender=N           sender number to write into each
                     frame, for --verify
  seed=N             the same seed gives the same addresses,
                     ports and, with size=imix, the same order
                     of frame sizes [default: 1]
  ring=FRAMES        size of the card's ring [default: 1024]
  host=FRAMES|none   size of the kernel's ring. The simulated
                     kernel (the host) moves frames from the
                     card's ring into this second ring, from
                     which forebay reads them. -B also sets it,
                     as an amount of memory. none: forebay reads
                     directly from the card's ring
                     [default: one second of frames]
  stall=2ms@100ms    for 2 ms in every 100 ms, the host does
                     not empty the card's ring
  clock=real|virtual virtual: simulated time, so that every
                     run has the same counts [default: real]
  cost=TIME          with clock=virtual: the clock advances by
                     TIME for each frame that forebay takes
                     [default: 0]

AF_XDP: xdp:INTERFACE,KEY=VALUE,…
  pass=yes           copy packets, and pass them on to this
                     machine; without it, they are taken
                     away from the machine
  queue=N            read only this receive queue
                     [default: all]
  mode=native|generic
                     native: the driver hands over the frames;
                     generic: the kernel's network code hands
                     them over, with any driver
                     [default: native if possible]
  copy=yes           do not use zero-copy, even if the
                     driver supports it
  busy-poll=TIME     poll the hardware for up to TIME before
                     each sleep

Signals: INT (Ctrl-C) and TERM end the capture: forebay writes all packets that have arrived, those in \
the receive ring included, and then syncs the file unless --sync is none. After a second INT or TERM, forebay no longer syncs, and \
stops writing after at most one second. A third one ends writing at once. Packets that are then still in the receive ring are counted \
as unread, and those that were taken from it but not written as dropped. HUP starts the \
next file of a series (-b, -C, -G); without a series, HUP is like TERM. USR1 prints the counts; with --recorder, it is a trigger \
instead. USR2 writes buffered packets at once.

Units: in counts and rates, K, M and G are powers of 1000. In sizes, K, M and G are powers of 1024, and kB, MB and GB are powers of \
1000. Without a unit, a size is in bytes and a time in seconds, unless \
the flag says otherwise.

Exit codes: 0 success, 1 failure, 2 invalid arguments or filter, 3 packets lost and --fail-on-drop given, 4 capture ended by \
--keep-free.

Examples:
  # A simulated card with 1 Gb/s; needs no privileges
  forebay capture -i sim -c 5M -w first.pcapng
  # A real interface (needs CAP_NET_RAW)
  forebay capture -i eth0 -w today.pcapng
  # Only matching packets
  forebay capture -i eth0 -w web.pcapng tcp port 80
  # Packets on the terminal, as tcpdump prints them
  forebay capture -i eth0 port domain
  # Count packets, and neither write nor print them
  forebay capture -i sim:rate=10G,size=imix -c 1M --count
  # Into another program
  forebay capture -i eth0 -w - | tshark -r -
  # Into a program that reads only pcap with microseconds
  forebay capture -i eth0 -w - --format pcap-us | prog
  # Compressed
  forebay capture -i eth0 -w today.pcapng.zst
  # Filter a file
  forebay capture -r old.pcap.gz -w dns.pcapng port domain
  # Cut ten minutes out of a file
  forebay capture -r day.pcapng --from '2026-11-23 14:00' \\
    --to '2026-11-23 14:10' -w part.pcapng
  # On each signal USR1, write the last 30 seconds
  forebay capture -i eth0 --recorder 30s -w a.pcapng
  # Receive with two threads, on processors 2 and 3
  forebay capture -i eth0 -w a.pcapng --threads 2 --cpus 2,3
  # Share packets with the group staff, then read them
  forebay capture -i eth0 --share lan --share-group staff
  forebay capture -i share:lan port domain
  # An interface of another machine, without its own ssh
  forebay capture -i ssh:root@host/eth0 -w there.pcapng
  # One file an hour; keep the newest 24
  forebay capture -i eth0 -w a.pcapng \\
    -b duration:3600 -b files:24
  # One file an hour, or every 100 MB; keep 1 GB in all
  forebay capture -i eth0 -w a.pcapng \\
    -b interval:3600 -b filesize:100000 -b total:1000000
  # One file an hour; keep 10% of the disk free
  forebay capture -i eth0 -w a.pcapng \\
    -b duration:3600 --keep-free 10%
  # One file a day, with names as tcpdump makes them
  forebay capture -i eth0 -w day-%d.pcap -G 86400";

#[derive(ClapArgs)]
pub struct Capture {
    /// Interface to capture from: eth0, any, sim (simulated), share:NAME, xdp:eth0 or ssh:HOST/eth0. May be repeated. any is all interfaces, sim
    /// a simulated card (also sim:rate=10G), and share:NAME the packets that another capture shares with --share. xdp:eth0 uses
    /// AF_XDP, which takes packets away from this machine's network stack, and xdp:eth0,pass=yes copies them before the stack.
    /// ssh:HOST/eth0 runs forebay on another machine, with ssh
    #[arg(
        help_heading = "Input",
        short = 'i',
        long = "interface",
        value_name = "INTERFACE"
    )]
    pub interfaces: Vec<Name>,

    /// Read packets from FILE, in the format pcap or pcapng, uncompressed or compressed with gzip or zstd; - is standard input;
    /// may be repeated: files are read one after another
    #[arg(help_heading = "Input", short = 'r', value_name = "FILE")]
    pub read: Vec<PathBuf>,

    /// With -r, only packets from this time on, as in forebay-archive: 2026-11-23T14:00:00Z, '2026-11-23 14:00' (local), 14:00, 2026-11-23,
    /// -2h, yesterday, @SECONDS. Packets of other times are in no count. A pcapng file that forebay wrote is read only where its index
    /// names these times
    #[arg(help_heading = "Input", long, value_name = "TIME", allow_hyphen_values = true, value_parser = values::moment)]
    pub from: Option<u64>,

    /// With -r, only packets before this time
    #[arg(help_heading = "Input", long, value_name = "TIME", allow_hyphen_values = true, value_parser = values::moment)]
    pub to: Option<u64>,

    /// Write packets to FILE, whose name selects the format: a.pcapng, a.pcap, a.pcapng.zst or a.pcap.gz. - is standard output.
    /// If none of -w, --share, --serve and --count is given, packets are printed
    ///
    /// A name that ends in .pcap or .cap selects the format pcap; every other name selects pcapng. With a further .gz or .zst
    /// at the end, the file is compressed
    #[arg(help_heading = "Output", short = 'w', value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Format to write, whatever the name of FILE selects: pcapng, pcap (with nanoseconds), or pcap-us (pcap with microseconds).
    /// It must not contradict a name that ends in .pcap or .pcapng
    #[arg(help_heading = "Output", long, value_name = "FORMAT", value_parser = format)]
    pub format: Option<FileFormat>,

    /// Stop after COUNT packets (5M is five million)
    #[arg(help_heading = "When to stop", short = 'c', value_name = "COUNT", value_parser = values::count)]
    pub count: Option<u64>,

    /// Keep at most SNAPLEN bytes of each packet, up to 1000000; 0 means 262144
    #[arg(help_heading = "Input", short = 's', long = "snapshot-length", value_name = "SNAPLEN", default_value = "262144", value_parser = snaplen)]
    pub snaplen: u32,

    /// Start the next file when a file reaches SIZE. A number without a unit is in millions of bytes. The files are called
    /// FILE, FILE1, FILE2, …
    #[arg(help_heading = "Series of files", short = 'C', value_name = "SIZE", value_parser = |text: &str| values::size(text, 1_000_000))]
    pub file_size: Option<u64>,

    /// Start the next file every SECONDS. FILE may contain the % letters of strftime, such as %H. With -C as well, names also
    /// get a number. With -r, the times of the packets count, also for -a and -b
    #[arg(help_heading = "Series of files", short = 'G', value_name = "SECONDS", value_parser = values::time)]
    pub rotate_seconds: Option<Duration>,

    /// With -C, keep only COUNT files: once COUNT files exist, the oldest is overwritten. With -G, stop after COUNT files. -W
    /// cannot be used with both
    #[arg(help_heading = "Series of files", short = 'W', value_name = "COUNT", value_parser = values::count)]
    pub file_count: Option<u64>,

    /// Write a series of files, each up to duration:SECONDS, interval:SECONDS, filesize:KB or packets:COUNT, and keep files:COUNT
    /// or total:KB. May be repeated. The files are called NAME_00001_20261121143000.pcapng, …
    ///
    /// Keys that start the next file: duration:SECONDS (this long after the start of a file), interval:SECONDS (when the clock
    /// shows a multiple of this time; 3600: every full hour), filesize:KB and packets:COUNT (when a file has reached this
    /// size). Keys that delete older files: files:COUNT (keep the newest COUNT files), total:KB (keep the newest files that are
    /// together no larger than this). 1 KB is 1000 bytes; a size with a unit, such as total:1GB, is accepted, too
    #[arg(help_heading = "Series of files", short = 'b', long = "ring-buffer", value_name = "KEY:VALUE", value_parser = ring_buffer)]
    pub ring_buffer: Vec<Criterion>,

    /// Keep this much space free on the disk of -w: a percentage of the disk (10%) or a size (20G). When less is free, the
    /// oldest files of the series are deleted, including those of earlier captures. If there are none, or -w is a single file,
    /// the capture ends instead
    #[arg(help_heading = "Series of files", long, value_name = "PERCENT|SIZE", value_parser = keep_free)]
    pub keep_free: Option<KeepFree>,

    /// Stop after duration:SECONDS, packets:COUNT, filesize:KB or files:COUNT. May be repeated. With -b, filesize starts the next
    /// file instead. files needs -b, -C or -G
    #[arg(help_heading = "When to stop", short = 'a', long = "autostop", value_name = "KEY:VALUE", value_parser = autostop)]
    pub autostop: Vec<Criterion>,

    /// When to sync written data to the disk: none, interval[:SECONDS], file or always. Synced data survives a power cut.
    /// interval is 1 second if no SECONDS are given, file is the end of each file, and always is after every buffer
    #[arg(help_heading = "Output", long, value_name = "POLICY", default_value = "file", value_parser = sync)]
    pub sync: SyncPolicy,

    /// Compress each finished file of a series to NAME.zst, on a low-priority thread, with LEVEL 1 to 19 [default level: 3]. A
    /// single file is compressed while it is written, if its name ends in .zst or .gz
    #[arg(help_heading = "Output", long, value_name = "zstd[:LEVEL]", value_parser = compress)]
    pub compress: Option<i32>,

    /// Run the program CMD for each finished file. Its only argument is the name of the file. It runs without a shell, at low
    /// priority and without any capability
    #[arg(help_heading = "Series of files", short = 'z', value_name = "CMD")]
    pub command: Option<OsString>,

    /// Size of the receive ring, where packets wait until forebay takes them. A number without a unit is in KiB: 256
    /// is 256 KiB [default: 64M; for sim: one second of frames]
    #[arg(help_heading = "Memory", short = 'B', long = "buffer-size", value_name = "SIZE", value_parser = |text: &str| values::size(text, 1024))]
    pub ring: Option<u64>,

    /// Number and size of the buffers in memory between the receive ring and the output. If this flag or -r is given, forebay adds
    /// no buffers while the output is slow, unless --store-limit is given, too [default: 16x4M, or 4x4M if -r is given]
    #[arg(help_heading = "Memory", long, value_name = "COUNTxSIZE", value_parser = buffers)]
    pub store: Option<store::StoreConfig>,

    /// While the output is slow, add buffers until all of them together have this size (2G) or this share of the available memory
    /// (50%). 0: add none [default: 25%, or 0 if --store or -r is given]
    #[arg(help_heading = "Memory", long, value_name = "SIZE|PERCENT", value_parser = store_limit)]
    pub store_limit: Option<Limit>,

    /// Filter: which packets to capture, in the language of pcap-filter(7), such as tcp port 80 and host 10.0.0.1
    #[arg(help_heading = "Filter", value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    /// Read the filter expression from FILE instead of the command line
    #[arg(
        help_heading = "Filter",
        short = 'F',
        value_name = "FILE",
        conflicts_with = "expression"
    )]
    pub expression_file: Option<PathBuf>,

    /// Print the BPF program of the filter expression and exit; -dd prints it as C, -ddd as numbers
    #[arg(help_heading = "Filter", short = 'd', action = clap::ArgAction::Count)]
    pub dump: u8,

    /// List the interfaces that can be captured, and exit
    #[arg(help_heading = "Input", short = 'D', long = "list-interfaces")]
    pub list: bool,

    /// Do not print the summary; errors and losses are printed nevertheless. If packets are printed, print shorter lines
    #[arg(help_heading = "Output", short = 'q')]
    pub quiet: bool,

    /// Write each packet to the output about 10 ms after its arrival, instead of about a second. -U also turns on
    /// --immediate-mode
    #[arg(help_heading = "Output", short = 'U', long = "packet-buffered")]
    pub unbuffered: bool,

    /// The clock of time stamps: software (the system's) or hardware (the network card's). The card must be set up to stamp every
    /// packet; 'forebay interfaces' shows whether it does. If this flag is given, a pcapng file has a comment that names the
    /// clock [default: software]
    #[arg(help_heading = "Input", long, value_name = "CLOCK", value_parser = time_source)]
    pub time: Option<TimeSource>,

    /// Do not put interfaces into promiscuous mode
    #[arg(help_heading = "Input", short = 'p', long = "no-promiscuous-mode")]
    pub not_promiscuous: bool,

    /// When an interface goes down, end the capture with exit code 1. Without this flag, it waits until the interface is up again
    #[arg(help_heading = "Input", long)]
    pub stop_on_down: bool,

    /// Capture from xdp:INTERFACE even if this machine itself uses the interface. The machine's own connections over this
    /// interface then stop working. Not needed with xdp:INTERFACE,pass=yes
    #[arg(help_heading = "Input", long)]
    pub take_traffic: bool,

    /// Change to USER after opening the interfaces and before creating files. Only root can do this
    #[arg(
        help_heading = "Privileges",
        short = 'Z',
        long = "relinquish-privileges",
        value_name = "USER"
    )]
    pub user: Option<String>,

    /// Print the counts as one JSON object at the end. It goes to standard output, or to standard error if packets go to
    /// standard output
    #[arg(help_heading = "Monitoring", long)]
    pub json: bool,

    /// Print the counts every SECONDS; with --json, as one JSON object a line
    #[arg(help_heading = "Monitoring", long, value_name = "SECONDS", value_parser = stats_interval)]
    pub stats_interval: Option<Duration>,

    /// Create a socket through which 'forebay control NAME' shows the counts of this capture and controls it. Only this user
    /// and root can connect. A NAME without / is created in $XDG_RUNTIME_DIR/forebay, or for root in /run/forebay
    #[arg(help_heading = "Monitoring", long, value_name = "NAME")]
    pub control: Option<OsString>,

    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics. With port 0, the system chooses a free port [default
    /// address: 127.0.0.1]
    #[arg(help_heading = "Monitoring", long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,

    /// At the end, wait at most SECONDS until a server that has scraped the metrics has scraped the final counts; 0: do not wait
    #[arg(help_heading = "Monitoring", long, value_name = "SECONDS", default_value = "30", requires = "metrics", value_parser = metrics_wait)]
    pub metrics_wait: Duration,

    /// Write metrics to FILE every 5 seconds and at the end, for the textfile collector of the Prometheus node exporter
    #[arg(help_heading = "Monitoring", long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,

    /// With -r, do not copy the metadata of the files. These are comments, decryption secrets, host names, custom blocks, and the
    /// descriptions of the machine and the program that captured the packets
    #[arg(help_heading = "Input", long)]
    pub no_metadata: bool,

    /// Check the numbered frames that 'forebay generate' sends. Those that were lost, duplicated, reordered or corrupted are
    /// counted, as 'forebay verify' does
    #[arg(help_heading = "Output", long)]
    pub verify: bool,

    /// Exit with code 3 if any packet was lost. This includes packets that the interface itself reports as dropped and, with
    /// --verify, generated frames that did not arrive
    #[arg(help_heading = "Output", long)]
    pub fail_on_drop: bool,

    #[command(flatten)]
    pub sharing: Share,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub threading: Threads,

    #[command(flatten)]
    pub printing: Print,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,

    /// Print the version
    #[arg(help_heading = "Other", long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// The value of `--format`.
#[derive(Clone, Copy, Debug)]
pub struct FileFormat {
    pub format: Format,
    pub microseconds: bool,
}

fn format(text: &str) -> Parsed<FileFormat> {
    let (name, microseconds) = match text {
        "pcap-us" => ("pcap", true),
        name => (name, false),
    };
    match Format::named(name) {
        Some(format) => Ok(FileFormat {
            format,
            microseconds,
        }),
        None => Err(format!(
            "'{text}' is not a format. Use pcapng, pcap or pcap-us"
        )),
    }
}

/// A `KEY:VALUE` of `-b` or `-a`.
#[derive(Clone, Copy, Debug)]
pub enum Criterion {
    Duration(Duration),
    Interval(Duration),
    FileSize(u64),
    Packets(u64),
    Files(u64),
    Total(u64),
}

impl Criterion {
    /// The smallest number of packets, `count` included, and the shortest duration. Other criteria are ignored.
    pub fn limits(all: &[Criterion], count: Option<u64>) -> (Option<u64>, Option<Duration>) {
        let (mut count, mut time) = (count, None::<Duration>);
        for criterion in all {
            match *criterion {
                Criterion::Packets(most) => count = count.into_iter().chain([most]).min(),
                Criterion::Duration(most) => time = time.into_iter().chain([most]).min(),
                _ => {}
            }
        }
        (count, time)
    }
}

/// A criterion of `-b`.
fn ring_buffer(text: &str) -> Parsed<Criterion> {
    let (key, value) = text.split_once(':').unwrap_or((text, ""));
    match key {
        "interval" => values::time(value).map(Criterion::Interval),
        "total" => values::size(value, 1000).map(Criterion::Total),
        _ => criterion(key, value, ", interval, total"),
    }
}

/// A criterion of `-a`.
pub fn autostop(text: &str) -> Parsed<Criterion> {
    let (key, value) = text.split_once(':').unwrap_or((text, ""));
    criterion(key, value, "")
}

/// A criterion that both flags have; `more` are the other keys of the flag.
fn criterion(key: &str, value: &str, more: &str) -> Parsed<Criterion> {
    match key {
        "duration" => values::time(value).map(Criterion::Duration),
        "filesize" => values::size(value, 1000).map(Criterion::FileSize),
        "packets" => values::count(value).map(Criterion::Packets),
        "files" => values::count(value).map(Criterion::Files),
        _ => Err(format!(
            "no such criterion. Use KEY:VALUE with one of duration, filesize, packets, files{more}"
        )),
    }
}

fn time_source(text: &str) -> Parsed<TimeSource> {
    let all = [TimeSource::Software, TimeSource::Hardware];
    let found = all.into_iter().find(|it| it.name() == text);
    found.ok_or_else(|| format!("'{text}' is not a clock. Use software or hardware"))
}

fn snaplen(text: &str) -> Parsed<u32> {
    match text.parse() {
        Ok(0) => Ok(DEFAULT_SNAPLEN),
        Ok(bytes @ 1..=MAX_SNAPLEN) => Ok(bytes),
        _ => Err(format!(
            "'{text}' is not a snapshot length. Use 1 to {MAX_SNAPLEN}, or 0 for {DEFAULT_SNAPLEN}"
        )),
    }
}

fn metrics_wait(text: &str) -> Parsed<Duration> {
    match text.parse() {
        Ok(seconds @ 0..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("'{text}' is not a time. Use 0 to 3600 seconds")),
    }
}

fn stats_interval(text: &str) -> Parsed<Duration> {
    // With shorter intervals the process would only print reports.
    let every = units::duration(text).filter(|&every| every >= Duration::from_millis(1));
    every.ok_or_else(|| {
        format!("'{text}' is not a time of a millisecond or more. Use a value such as 5")
    })
}

fn address(text: &str) -> Parsed<SocketAddr> {
    let port = text.strip_prefix(':').unwrap_or(text);
    let port = port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse()).map_err(|_| {
        format!("'{text}' is not an address. Use a value such as 9870, 192.0.2.1:9870 or [::]:9870")
    })
}

fn sync(text: &str) -> Parsed<SyncPolicy> {
    match text.split_once(':') {
        Some(("interval", every)) => values::time(every).ok().map(SyncPolicy::Interval),
        Some(_) => None,
        None => match text {
            "none" => Some(SyncPolicy::None),
            "file" => Some(SyncPolicy::File),
            "always" => Some(SyncPolicy::Always),
            "interval" => Some(SyncPolicy::Interval(Duration::from_secs(1))),
            _ => None,
        },
    }
    .ok_or_else(|| {
        format!("'{text}' is not a policy. Use none, interval, interval:SECONDS, file or always")
    })
}

/// The compression level: `zstd`, which is `zstd:3`, or with another level.
fn compress(text: &str) -> Parsed<i32> {
    let (codec, level) = text.split_once(':').unwrap_or((text, "3"));
    match level.parse() {
        Ok(level @ 1..=19) if codec == "zstd" => Ok(level),
        _ => Err(format!(
            "'{text}' is not supported. Use zstd, or zstd:1 to zstd:19"
        )),
    }
}

/// A store of a fixed size.
fn buffers(text: &str) -> Parsed<store::StoreConfig> {
    let parsed = text.split_once('x').and_then(|(buffers, size)| {
        let bytes = units::bytes(size, 1)?;
        Some((buffers.parse().ok()?, usize::try_from(bytes).ok()?))
    });
    let (buffers, buffer_bytes) =
        parsed.ok_or_else(|| format!("'{text}' is not COUNTxSIZE. Use a value such as 16x4M"))?;
    let config = store::StoreConfig {
        buffers,
        buffer_bytes,
        limit: Limit::Fixed,
        ..store::StoreConfig::default()
    };
    let valid = config.validate().map_err(|error| error.to_string());
    valid.map(|()| config)
}

fn keep_free(text: &str) -> Parsed<KeepFree> {
    let keep = match text.strip_suffix('%') {
        Some(share) => share.parse().ok().map(KeepFree::Percent),
        // A bare 10 is more likely a share than 10 bytes.
        None => units::bytes(text, 1)
            .filter(|&bytes| bytes >= 1 << 20)
            .map(KeepFree::Bytes),
    };
    keep.filter(|keep| !matches!(keep, KeepFree::Percent(0 | 100..)))
        .ok_or_else(|| {
            format!("'{text}' is neither a share from 1% to 99% nor a size of 1M or more. Use a value such as 10% or 20G")
        })
}

fn store_limit(text: &str) -> Parsed<Limit> {
    let limit = match text.strip_suffix('%') {
        Some(share) => share.parse().ok().map(Limit::Percent),
        None => units::bytes(text, 1).map(|bytes| match bytes {
            0 => Limit::Fixed,
            bytes => Limit::Bytes(bytes),
        }),
    };
    let limit = limit.ok_or_else(|| {
        format!("'{text}' is neither a size nor a share. Use a value such as 2G or 50%")
    })?;
    let config = store::StoreConfig {
        limit,
        ..store::StoreConfig::default()
    };
    let valid = config.validate().map_err(|error| error.to_string());
    valid.map(|()| limit)
}
