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
use forebay_net::{format::Format, open::Name, port::TimeSource, session::KeepFree, units};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub const HELP: &str = "\
The simulated card: sim:KEY=VALUE,…
  rate=BITS|max      bits a second, such as 10G, or 500kpps
  size=64..9018|imix bytes of a frame
  count=FRAMES       end after this many frames
  flows=1|2|…|64     flows of the generated traffic
  sender=N           number of the sender, for verify
  seed=N             of the generated traffic
  ring=FRAMES        slots of the card's ring
  host=FRAMES|none   slots of the host's ring, filled from the card's (as -B)
  stall=2ms@100ms    take nothing for 2 of each 100 ms
  clock=real|virtual virtual: counts repeat exactly
  cost=TIME          that taking a frame costs (with clock=virtual)

AF_XDP: xdp:INTERFACE,KEY=VALUE,…
  queue=N            only this receive queue [default: all]
  mode=native|generic
                     in the driver, or with any driver [default: native if possible]
  copy=yes           do not ask the driver for zero-copy
  busy-poll=TIME     poll the hardware for up to TIME before each sleep

Signals: the first INT or TERM finishes cleanly. The second skips syncing, and stops writing after at most \
one more second. The third stops at once. HUP starts the next file of a series (-b, -C, -G); without a series it is like TERM. USR1 prints \
the counts, or triggers --recorder; USR2 writes what waits in buffers.

Units: in counts, K, M, G are powers of 1000; in sizes, K, M, G are powers of 1024, and kB, MB, GB powers of 1000. \
For a number without a unit, see the flag.

Exit codes: 0 success, 1 failure, 2 invalid arguments or filter, 3 packets lost with --fail-on-drop, 4 ended by --keep-free.

Examples:
  # A simulated 1 Gb/s card, no privileges needed
  forebay capture -i sim -c 5M -w first.pcapng
  # A real interface (needs CAP_NET_RAW)
  forebay capture -i eth0 -w today.pcapng
  # Only matching packets
  forebay capture -i eth0 -w web.pcapng tcp port 80
  # Packets on the terminal, as tcpdump prints them
  forebay capture -i eth0 port domain
  # Only count
  forebay capture -i sim:rate=10G,size=imix -c 1M --count
  # To a pipe
  forebay capture -i eth0 -w - | tshark -r -
  # For a program that reads only the classic format
  forebay capture -i eth0 -w - --format pcap-us | prog
  # Compressed
  forebay capture -i eth0 -w today.pcapng.zst
  # From a file
  forebay capture -r old.pcap.gz -w dns.pcapng port domain
  # The 30 seconds before each signal USR1
  forebay capture -i eth0 --recorder 30s -w a.pcapng
  # With two threads, each on its own processor
  forebay capture -i eth0 -w a.pcapng --threads 2 --cpus 2,3
  # Share with other programs and users; then read it in one
  forebay capture -i eth0 --share lan --share-group staff
  forebay capture -i tap:lan port domain
  # The file being written and the 23 before it
  forebay capture -i eth0 -w a.pcapng \\
    -b duration:3600 -b files:24
  # An hour a file, for as long as the disk has room
  forebay capture -i eth0 -w a.pcapng \\
    -b duration:3600 --keep-free 10%
  # A file a day, named as tcpdump does
  forebay capture -i eth0 -w day-%d.pcap -G 86400";

#[derive(ClapArgs)]
pub struct Capture {
    /// Interface to capture from: eth0, any, sim (a simulated card, also sim:rate=10G), or tap:NAME (packets that another capture
    /// shares); may be repeated. xdp:eth0 uses AF_XDP, which takes packets away from this machine's network stack
    #[arg(short = 'i', long = "interface", value_name = "INTERFACE")]
    pub interfaces: Vec<Name>,

    /// Read packets from a pcap or pcapng FILE, plain, gzip or zstd; - is standard input; may be repeated: files are read
    /// one after another
    #[arg(short = 'r', value_name = "FILE")]
    pub read: Vec<PathBuf>,

    /// Write to FILE; - is standard output; without -w packets are printed
    ///
    /// A name that ends in .pcap or .cap gives the classic format, every other name pcapng; .gz or .zst at the end compresses
    #[arg(short = 'w', value_name = "FILE")]
    pub write: Option<PathBuf>,

    /// Format to write, instead of the one that FILE's name asks for: pcapng, pcap (with nanoseconds), pcap-us (with
    /// microseconds)
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub format: Option<FileFormat>,

    /// Stop after COUNT packets (5M is five million)
    #[arg(short = 'c', value_name = "COUNT", value_parser = values::count)]
    pub count: Option<u64>,

    /// Keep at most SNAPLEN bytes of each packet; 0 means 262144
    #[arg(short = 's', long = "snapshot-length", value_name = "SNAPLEN", default_value = "262144", value_parser = snaplen)]
    pub snaplen: u32,

    /// Start the next file at this SIZE, in millions of bytes or with a unit (100MB); the files are FILE, FILE1, FILE2, …
    #[arg(short = 'C', value_name = "SIZE", value_parser = |text: &str| values::size(text, 1_000_000))]
    pub file_size: Option<u64>,

    /// Start the next file every SECONDS; FILE may contain strftime's % letters; with -C, a number is appended
    #[arg(short = 'G', value_name = "SECONDS", value_parser = values::time)]
    pub rotate_seconds: Option<Duration>,

    /// With -C, reuse the first COUNT file names in rotation, so that the newest COUNT files remain; with -G, stop after COUNT
    /// files
    #[arg(short = 'W', value_name = "COUNT", value_parser = values::count)]
    pub file_count: Option<u64>,

    /// When to start the next file (NAME_00001_20261121143000.pcapng, …), and which files to keep; may be repeated
    ///
    /// duration:SECONDS, interval:SECONDS (at multiples of this time: with 3600 at every full hour), filesize:KB, packets:COUNT;
    /// files:COUNT keeps the newest COUNT files, total:KB the newest whose sizes add up to at most KB; 1 KB is 1000 bytes
    #[arg(short = 'b', long = "ring-buffer", value_name = "KEY:VALUE", value_parser = turn)]
    pub ring_buffer: Vec<Criterion>,

    /// Space to keep free on the disk of -w: a share of its size (10%) or a size (20G). When less is free, the oldest files of
    /// the series are deleted, also those of earlier captures; if there is none to delete, or -w is a single file, the capture
    /// ends
    #[arg(long, value_name = "PERCENT|SIZE", value_parser = keep_free)]
    pub keep_free: Option<KeepFree>,

    /// When to stop; may be repeated
    ///
    /// duration:SECONDS, packets:COUNT, filesize:KB (together with -b, it starts the next file and does not stop), files:COUNT (only with -b, -C or -G)
    #[arg(short = 'a', long = "autostop", value_name = "KEY:VALUE", value_parser = stop)]
    pub autostop: Vec<Criterion>,

    /// When to sync written data to the disk: none, interval[:SECONDS], file (at the end of each file), always (after every
    /// buffer)
    #[arg(long, value_name = "POLICY", default_value = "file", value_parser = sync)]
    pub sync: SyncPolicy,

    /// Compress finished files to NAME.zst on a low-priority thread, at LEVEL 1 to 19 [default level: 3]
    #[arg(long, value_name = "zstd[:LEVEL]", value_parser = compress)]
    pub compress: Option<i32>,

    /// Run the program CMD for each finished file, with the file's name as its only argument, without a shell, at low priority
    /// and without any capability
    #[arg(short = 'z', value_name = "CMD")]
    pub command: Option<OsString>,

    /// Size of the kernel's receive ring, in KiB or with a unit (256M) [default: 64M; for sim: one second of frames]
    #[arg(short = 'B', long = "buffer-size", value_name = "SIZE", value_parser = |text: &str| values::size(text, 1024))]
    pub ring: Option<u64>,

    /// Number and size of the memory buffers between the kernel's ring and the disk. With this flag their number is fixed, unless
    /// --store-limit is given too [default: 16x4M; with -r 4x4M]
    #[arg(long, value_name = "COUNTxSIZE", value_parser = buffers)]
    pub store: Option<store::StoreConfig>,

    /// Let the buffers grow while the output is slow, up to a size (2G) or a share of the available memory (50%); 0: never
    /// [default: 25%, or 0 if --store or -r is given]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = store_limit)]
    pub store_limit: Option<Limit>,

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

    /// Print no summary, only errors and losses; if packets are printed, shorter lines
    #[arg(short = 'q')]
    pub quiet: bool,

    /// Write captured packets after at most 10 ms instead of a second
    #[arg(short = 'U', long = "packet-buffered")]
    pub unbuffered: bool,

    /// The clock that stamps packets of interfaces: software (the system's) or hardware (the network card's, which must be set to
    /// stamp every packet: see forebay ports). If this flag is given, a comment in a pcapng file names the clock [default:
    /// software]
    #[arg(long, value_name = "CLOCK", value_parser = time_source)]
    pub time: Option<TimeSource>,

    /// Do not put interfaces into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode")]
    pub not_promiscuous: bool,

    /// End the capture with exit code 1 when an interface goes down, instead of waiting until it is up again
    #[arg(long)]
    pub stop_on_down: bool,

    /// Open xdp:INTERFACE even if this machine uses the interface. The machine's connections over it stop working
    #[arg(long)]
    pub take_traffic: bool,

    /// Become USER after opening the interfaces, before the first file is made (only root can)
    #[arg(short = 'Z', long = "relinquish-privileges", value_name = "USER")]
    pub user: Option<String>,

    /// Print the counts as one JSON object at the end, on standard output (on standard error if packets go to standard output)
    #[arg(long)]
    pub json: bool,

    /// Print the counts every SECONDS; with --json, one object a line
    #[arg(long, value_name = "SECONDS", value_parser = stats_interval)]
    pub stats_interval: Option<Duration>,

    /// Let this user watch and steer the capture through a socket, with forebay control NAME; a NAME without / is in
    /// $XDG_RUNTIME_DIR/forebay, for root in /run/forebay
    #[arg(long, value_name = "NAME")]
    pub control: Option<OsString>,

    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 chooses a free one [default address: 127.0.0.1]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,

    /// Write metrics to FILE every 5 seconds and at the end, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,

    /// With -r, do not copy comments, decryption secrets, names, custom blocks, or what the files say of the machine and program that
    /// made them
    #[arg(long)]
    pub no_metadata: bool,

    /// Check the numbered frames of 'forebay generate': count those lost, repeated, reordered or corrupted, as 'forebay verify'
    /// does
    #[arg(long)]
    pub verify: bool,

    /// Exit with code 3 if any packet was lost, including those that the interface itself reports as dropped and, with --verify,
    /// generated frames that did not arrive
    #[arg(long)]
    pub fail_on_drop: bool,

    #[command(flatten)]
    pub sandbox: super::Sandbox,

    #[command(flatten)]
    pub sharing: Share,

    #[command(flatten)]
    pub recording: Recording,

    #[command(flatten)]
    pub threading: Threads,

    #[command(flatten)]
    pub printing: Print,

    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// The value of `--format`.
#[derive(Clone, Copy, Debug)]
pub struct FileFormat {
    pub format: Format,
    pub microseconds: bool,
}

fn format(text: &str) -> Parsed<FileFormat> {
    let (format, microseconds) = match text {
        "pcapng" => (Format::Pcapng, false),
        "pcap" => (Format::Pcap, false),
        "pcap-us" => (Format::Pcap, true),
        _ => {
            return Err(format!(
                "'{text}' is not a format. Use pcapng, pcap or pcap-us"
            ));
        }
    };
    Ok(FileFormat {
        format,
        microseconds,
    })
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

/// A criterion of `-b`.
fn turn(text: &str) -> Parsed<Criterion> {
    let (key, value) = text.split_once(':').unwrap_or((text, ""));
    match key {
        "interval" => values::time(value).map(Criterion::Interval),
        "total" => values::size(value, 1000).map(Criterion::Total),
        _ => criterion(key, value, ", interval, total"),
    }
}

/// A criterion of `-a`.
pub fn stop(text: &str) -> Parsed<Criterion> {
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
        Ok(0) => Ok(262_144),
        Ok(bytes @ 1..=262_144) => Ok(bytes),
        _ => Err(format!(
            "'{text}' is not a snapshot length. Use 1 to 262144, or 0"
        )),
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
