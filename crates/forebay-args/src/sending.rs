//! The flags that `replay` and `generate` share.

use super::values::Parsed;
use clap::Args as ClapArgs;
use forebay_net::units;
use std::time::Duration;

#[derive(ClapArgs)]
pub struct Sending {
    /// Copy packets into a ring shared with the kernel (PACKET_TX_RING), instead of sending them with sendmmsg
    #[arg(long)]
    pub tx_ring: bool,

    /// Skip the interface's queueing discipline: faster, but ignores traffic control such as netem
    #[arg(long)]
    pub bypass_qdisc: bool,

    /// How long to wait while the interface is down or takes no packet, before giving up: a time, or forever
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = patience)]
    pub wait: Duration,

    /// Print no summary, only errors and packets that failed
    #[arg(short = 'q', long)]
    pub quiet: bool,

    /// Print the counts as one JSON object on standard output
    #[arg(long)]
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
