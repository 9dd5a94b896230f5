//! The flags that `replay` and `generate` share.

use super::values::Parsed;
use clap::Args as ClapArgs;
use forebay_net::units;
use std::time::Duration;

#[derive(ClapArgs)]
pub struct Sending {
    /// Send through a ring shared with the kernel; this is PACKET_TX_RING. Without this flag, packets are sent with sendmmsg
    #[arg(help_heading = "Output", long)]
    pub tx_ring: bool,

    /// Skip the interface's queueing discipline. This is faster, but ignores traffic control such as netem
    #[arg(help_heading = "Output", long)]
    pub bypass_qdisc: bool,

    /// How long to wait for an interface that is down or takes no packet: a time, or forever. Then replay and generate give up
    #[arg(help_heading = "Output", long, value_name = "TIME", default_value = "1", value_parser = patience)]
    pub wait: Duration,

    /// Print no summary; errors and packets that failed are printed nevertheless
    #[arg(help_heading = "Output", short = 'q', long)]
    pub quiet: bool,

    /// Print the counts as one JSON object; it goes to standard output
    #[arg(help_heading = "Output", long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

fn patience(text: &str) -> Parsed<Duration> {
    let time = match text {
        "forever" => Some(Duration::MAX),
        _ => units::duration(text),
    };
    time.ok_or_else(|| format!("'{text}' is not a time. Use a value such as 10, 500ms or forever"))
}
