//! The flags of `top`.

use super::values;
use clap::Args as ClapArgs;
use forebay_net::open::Name;
use std::{ffi::OsString, path::PathBuf, time::Duration};

pub const HELP: &str = "\
Keys: Tab changes the table, r b p sort, / filters, space holds the screen, ? shows all keys, q quits.

Exit codes: 0 success, 1 failure, 2 bad request.

Examples:
  # The busiest flows of an interface (needs CAP_NET_RAW)
  forebay top -i eth0
  # Only what matches
  forebay top -i eth0 not port 22
  # A simulated card, no privileges needed
  forebay top -i sim:rate=100M
  # The busiest hosts of ten seconds, for a script
  forebay top -i eth0 --once --interval 10 --json | \\
    jq '.hosts[:3]'
  # A running capture
  forebay top --control lan
  # Of a file
  forebay top -r today.pcapng --once";

#[derive(ClapArgs)]
pub struct Top {
    /// Interface to watch: eth0, any, sim, share:NAME or xdp:eth0. May be repeated. sim is a simulated card (also sim:rate=10G),
    /// and share:NAME the packets that another capture shares. xdp:eth0 uses AF_XDP, which takes packets away from this machine's
    /// network stack
    #[arg(help_heading = "Input", short = 'i', value_name = "INTERFACE")]
    pub interfaces: Vec<Name>,

    /// Read packets from a pcap or pcapng FILE, plain, gzip or zstd; rates are then averages; may be repeated
    #[arg(
        help_heading = "Input",
        short = 'r',
        value_name = "FILE",
        conflicts_with = "interfaces"
    )]
    pub read: Vec<PathBuf>,

    /// Watch the running capture NAME, started with capture --control NAME: its rates and losses; with capture --share, also its
    /// flows, hosts, ports and protocols
    #[arg(help_heading = "Input", long, value_name = "NAME", conflicts_with_all = ["interfaces", "read"])]
    pub control: Option<OsString>,

    /// Time between two updates of the screen; with --once, how long to count
    #[arg(help_heading = "Output", long, value_name = "SECONDS", default_value = "1", value_parser = values::time)]
    pub interval: Duration,

    /// Print the tables once, as text, after the interval or at the end of the files; needs no terminal
    #[arg(help_heading = "Output", long)]
    pub once: bool,

    /// With --once, print one JSON object
    #[arg(help_heading = "Output", long, requires = "once")]
    pub json: bool,

    /// Do not put interfaces into promiscuous mode
    #[arg(help_heading = "Input", short = 'p')]
    pub not_promiscuous: bool,

    /// Open xdp:INTERFACE also if this machine uses the interface: its connections over it stop working
    #[arg(help_heading = "Input", long)]
    pub take_traffic: bool,

    /// Which packets to count, in the language of pcap-filter(7): tcp port 80 and host 10.0.0.1
    #[arg(help_heading = "Filter", value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
