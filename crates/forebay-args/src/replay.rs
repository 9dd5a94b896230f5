//! The flags of `replay`, with tcpreplay's letters where it has them.

use super::values::{self, Parsed};
use clap::Args as ClapArgs;
use forebay_net::{
    open::Name,
    replay::{CutFrames, Rewrite},
    transmit::Rate,
    units,
};
use std::{path::PathBuf, time::Duration};

pub const HELP: &str = "\
Changes that --rewrite makes, several separated by commas:
  mac-src=MAC        or mac-dst=MAC
  mac=OLD=NEW        on both sides; also mac-src, mac-dst
  ip=OLD=NEW         addresses or prefixes of one length, also in
                     ARP, neighbour discovery and packets that
                     ICMP quotes; ip-src, ip-dst: on one side
  port=OLD=NEW       of TCP and UDP; also port-src, port-dst
  vlan=ID            sets the outer tag, or adds one
  vlan=OLD=NEW       changes the number of the outer tag
  vlan=none          removes all tags
  checksums          computes all checksums anew
Checksums of changed packets are updated by the difference: a right one stays right, and a wrong one wrong.

Signals: the first INT or TERM stops. The second abandons packets that the interface has not taken yet. HUP is like TERM, USR1 prints \
the counts.

Exit codes: 0 every packet was accepted by the interface, 1 failure, 2 bad request, 3 packets failed.

Examples:
  # With the gaps of the file (needs CAP_NET_RAW)
  forebay replay web.pcapng -i eth0
  # Twice as fast, without end
  forebay replay web.pcapng -i eth0 -x 2 -l 0
  # Gaps of more than 5 seconds become 5 seconds
  forebay replay night.pcapng -i eth0 --max-gap 5
  # 100,000 packets a second, from memory
  forebay replay web.pcapng -i eth0 -p 100k -K
  # Only DNS, to another network
  forebay replay a.pcap b.pcap -i eth0 -f 'udp port 53' \\
    --rewrite ip=10.0.0.0/8=11.0.0.0/8 \\
    --rewrite mac-dst=02:00:00:00:00:01";

#[derive(ClapArgs)]
pub struct Replay {
    /// pcap or pcapng files, plain, gzip or zstd, sent one after another; - is standard input
    #[arg(help_heading = "Input", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Interface to send on: eth0, or xdp:eth0 (AF_XDP). Also --intf1
    #[arg(
        help_heading = "Output",
        short = 'i',
        long = "interface",
        alias = "intf1",
        value_name = "INTERFACE"
    )]
    pub interface: Name,

    /// Send FACTOR times as fast as captured: 2, 0.5 [default: 1]
    #[arg(help_heading = "Speed", short = 'x', long, value_name = "FACTOR", value_parser = above_zero, group = "speed")]
    pub multiplier: Option<f64>,

    /// Send PPS packets a second: 1000, 0.5, 100k
    #[arg(help_heading = "Speed", short = 'p', long, value_name = "PPS", value_parser = |text: &str| rate(text, 1.0), group = "speed")]
    pub pps: Option<Rate>,

    /// Send MBPS million bits a second: 100, 2.5. The bytes of a frame count from its Ethernet header, without checksum, preamble
    /// and gap
    #[arg(help_heading = "Speed", short = 'M', long, value_name = "MBPS", value_parser = |text: &str| rate(text, 1e6), group = "speed")]
    pub mbps: Option<Rate>,

    /// Send as fast as possible
    #[arg(help_heading = "Speed", short = 't', long, group = "speed")]
    pub topspeed: bool,

    /// The longest wait between two packets: 10, 500ms. Longer gaps of the file are cut to TIME. The gaps after them are kept
    #[arg(help_heading = "Speed", long, value_name = "TIME", value_parser = values::time, conflicts_with_all = ["pps", "mbps", "topspeed"])]
    pub max_gap: Option<Duration>,

    /// Send all files LOOPS times; 0: until a signal
    #[arg(help_heading = "When to stop", short = 'l', long = "loop", value_name = "LOOPS", default_value = "1", value_parser = loops)]
    pub loops: u64,

    /// Stop after COUNT packets (5M is five million)
    #[arg(help_heading = "When to stop", short = 'L', long, value_name = "COUNT", value_parser = values::count)]
    pub limit: Option<u64>,

    /// Read all files into memory first. Also --preload-pcap
    #[arg(
        help_heading = "Input",
        short = 'K',
        long = "preload",
        alias = "preload-pcap"
    )]
    pub preload: bool,

    /// Which packets to send: 'tcp port 80'. The language is that of pcap-filter(7)
    #[arg(help_heading = "Input", short = 'f', long, value_name = "EXPRESSION")]
    pub filter: Option<String>,

    /// Change addresses, ports or VLAN tags, and update checksums; may be repeated; see the list of changes
    #[arg(help_heading = "Input", long, value_name = "CHANGES")]
    pub rewrite: Vec<Rewrite>,

    /// What to do with packets that the file holds only in part: send, pad or skip. send: the bytes that are there; pad: with
    /// zeros up to the original length
    #[arg(help_heading = "Input", long, value_name = "ACTION", default_value = "send", value_parser = cut_frames)]
    pub cut: CutFrames,

    #[command(flatten)]
    pub sending: super::sending::Sending,
}

fn above_zero(text: &str) -> Parsed<f64> {
    let number = text
        .parse()
        .ok()
        .filter(|it: &f64| *it > 0.0 && it.is_finite());
    number.ok_or_else(|| format!("'{text}' is not a number above 0. Use a value such as 2 or 0.5"))
}

/// A number, possibly with K, M or G, times `unit` a second.
fn rate(text: &str, unit: f64) -> Parsed<Rate> {
    let number = match units::count(text) {
        Some(count) => Some(count as f64),
        None => text.parse().ok(),
    };
    let rate = number.and_then(|number: f64| Rate::per_second(number * unit));
    rate.ok_or_else(|| {
        format!("'{text}' is not a rate above 0. Use a value such as 1000, 0.5 or 100k")
    })
}

fn loops(text: &str) -> Parsed<u64> {
    units::count(text)
        .ok_or_else(|| format!("'{text}' is not a count. Use a value such as 10, or 0"))
}

fn cut_frames(text: &str) -> Parsed<CutFrames> {
    match text {
        "send" => Ok(CutFrames::Send),
        "pad" => Ok(CutFrames::Pad),
        "skip" => Ok(CutFrames::Skip),
        _ => Err(format!("'{text}' is not an action. Use send, pad or skip")),
    }
}
