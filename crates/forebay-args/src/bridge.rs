//! The flags of `bridge`.

use super::values;
use clap::Args as ClapArgs;
use forebay_net::open::Name;
use std::{path::PathBuf, time::Duration};

pub const HELP: &str = "\
Frames that are not forwarded are counted, by cause: rejected by the expression, not accepted by the other \
interface, dropped by the kernel.

The system goes on handling the frames of both interfaces, too. Give them no addresses, and do not let the system route or \
bridge between them, or frames arrive twice.

Signals: the first INT or TERM forwards what has arrived, and prints the counts; the second discards it. USR1 \
prints the counts.

Exit codes: 0 success, 1 failure, 2 invalid arguments or filter.

Examples:
  # Between two interfaces (needs CAP_NET_RAW)
  forebay bridge eth1 eth2
  # Everything but telnet, with a capture of what passes
  forebay bridge eth1 eth2 --tap passed.pcapng \\
    not tcp port 23";

#[derive(ClapArgs)]
pub struct Bridge {
    /// One interface; xdp:eth0 receives with AF_XDP, which takes frames away from this machine's network stack
    #[arg(help_heading = "Input", value_name = "A")]
    pub first: Name,

    /// The other interface; also xdp:eth1
    #[arg(help_heading = "Input", value_name = "B")]
    pub second: Name,

    /// Which frames to forward, in the language of pcap-filter(7); without it, all
    #[arg(help_heading = "Filter", value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    /// Write the frames that are forwarded to FILE; a name that ends in .pcap selects the format pcap, every other name pcapng
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    pub tap: Option<PathBuf>,

    /// The longest time, 1 ms to 10 s, for which the kernel may hold frames back, to hand over many at once. A frame that arrives
    /// alone is delayed by this time
    #[arg(help_heading = "Memory", long, value_name = "TIME", default_value = "1ms", value_parser = values::time)]
    pub delay: Duration,

    /// Size of the receive ring of each interface, in KiB or with a unit (256M) [default: 64M]
    #[arg(help_heading = "Memory", short = 'B', long = "buffer-size", value_name = "SIZE", value_parser = |text: &str| values::size(text, 1024))]
    pub ring: Option<u64>,

    /// Open xdp:INTERFACE also if this machine uses the interface: its connections over it stop working
    #[arg(help_heading = "Input", long)]
    pub take_traffic: bool,

    /// Print only errors and losses
    #[arg(help_heading = "Output", short = 'q')]
    pub quiet: bool,

    /// Print the counts as one JSON object at the end
    #[arg(help_heading = "Output", long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
