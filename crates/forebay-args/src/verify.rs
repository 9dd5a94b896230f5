//! The flags of `verify`.

use super::{
    capture::{Criterion, autostop},
    values::{self, Parsed},
};
use clap::Args as ClapArgs;
use forebay_net::{open::Name, verify::VerifyConfig};
use std::path::PathBuf;

pub const HELP: &str = "\
Start verify before generate: frames that a sender sent before the first one that arrived count as lost only if the sender's \
beginning was received, too.

Exit codes: 0 no frame is missing among those that are known to be sent, 1 failure, 2 bad request, 3 frames were lost or corrupted, \
or no generated frame arrived.

Examples:
  # At the far end of a path (needs CAP_NET_RAW)
  forebay verify -i eth1 --until-end
  # For ten seconds, as one JSON object
  forebay verify -i eth1 -a duration:10 --json
  # What was captured before
  forebay verify -r today.pcapng
  # While capturing
  forebay capture -i eth1 -w today.pcapng --verify
  # What a simulated card loses while it is stalled
  forebay verify -i sim:ring=64,stall=2ms@100ms -c 1M";

#[derive(ClapArgs)]
pub struct Verify {
    /// Interface at which frames arrive: eth0, any, sim or share:NAME. May be repeated. sim is a simulated card (also
    /// sim:rate=10G), and share:NAME the packets that a capture shares
    #[arg(
        help_heading = "Input",
        short = 'i',
        long = "interface",
        value_name = "INTERFACE"
    )]
    pub interfaces: Vec<Name>,

    /// Read packets from a pcap or pcapng FILE, plain, gzip or zstd; - is standard input; may be repeated
    #[arg(
        help_heading = "Input",
        short = 'r',
        value_name = "FILE",
        conflicts_with = "interfaces"
    )]
    pub read: Vec<PathBuf>,

    /// Stop after COUNT packets of any kind (5M is five million)
    #[arg(help_heading = "When to stop", short = 'c', value_name = "COUNT", value_parser = values::count)]
    pub count: Option<u64>,

    /// When to stop: duration:SECONDS or packets:COUNT; may be repeated
    #[arg(help_heading = "When to stop", short = 'a', long = "autostop", value_name = "KEY:VALUE", value_parser = limit)]
    pub autostop: Vec<Criterion>,

    /// Stop when every sender has reported its end. That is at once if all of its frames have arrived, otherwise a second later
    #[arg(help_heading = "When to stop", long)]
    pub until_end: bool,

    /// How many numbers late a frame may be and still count as reordered; later ones remain lost
    #[arg(help_heading = "Output", long, value_name = "COUNT", default_value_t = VerifyConfig::default().window, value_parser = window)]
    pub window: u64,

    /// Size of the kernel's receive ring, in KiB or with a unit (256M) [default: 64M]
    #[arg(help_heading = "Input", short = 'B', long = "buffer-size", value_name = "SIZE", value_parser = |text: &str| values::size(text, 1024))]
    pub ring: Option<u64>,

    /// Do not put interfaces into promiscuous mode
    #[arg(help_heading = "Input", short = 'p', long = "no-promiscuous-mode")]
    pub not_promiscuous: bool,

    /// Print a line for each flow, too
    #[arg(help_heading = "Output", short = 'v', long)]
    pub verbose: bool,

    /// Print no progress, only the result and errors
    #[arg(help_heading = "Output", short = 'q', long)]
    pub quiet: bool,

    /// Print the result as one JSON object, with each flow
    #[arg(help_heading = "Output", long)]
    pub json: bool,

    /// Which packets to look at, in the language of pcap-filter(7): src net 198.18.0.0/15
    #[arg(help_heading = "Filter", value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

/// A criterion of `-a`, for commands that write no files.
pub fn limit(text: &str) -> Parsed<Criterion> {
    match autostop(text) {
        Ok(found @ (Criterion::Duration(_) | Criterion::Packets(_))) => Ok(found),
        Err(error) if text.starts_with("duration:") || text.starts_with("packets:") => Err(error),
        _ => Err("no such criterion. Use duration:SECONDS or packets:COUNT".into()),
    }
}

fn window(text: &str) -> Parsed<u64> {
    let window = values::count(text)?;
    match window {
        64..=1_073_741_824 => Ok(window),
        _ => Err(format!("'{text}' is not from 64 to 1Gi")),
    }
}
