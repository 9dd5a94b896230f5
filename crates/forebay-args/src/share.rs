//! The flags of `capture` about readers in other programs, and those of `shares`.

use super::values::{self, Parsed};
use clap::Args as ClapArgs;
use forebay_net::share::{MIN_RING_BYTES, ShareName};
use std::net::{Ipv4Addr, SocketAddr};

pub const SHARES_HELP: &str = "\
Readers and packets are known only of shares that this user may read. Shares of other network namespaces are not seen.

Exit codes: 0 success, 1 failure, 2 bad request.

Examples:
  forebay shares
  # Read one of them, without any privilege
  forebay capture -i share:lan -w mine.pcapng tcp port 80";

#[derive(ClapArgs)]
#[command(next_help_heading = "Sharing")]
pub struct Share {
    /// Share captured packets under NAME. Other processes read them with -i share:NAME, without any capability. Shared packets
    /// are printed only if --print or --json-lines is given
    #[arg(long, value_name = "NAME")]
    pub share: Option<ShareName>,

    /// Let the members of GROUP read the shared packets, in addition to root and the user of this capture
    #[arg(long, value_name = "GROUP", requires = "share")]
    pub share_group: Option<String>,

    /// Memory for shared packets. A number without a unit is in MiB. New packets overwrite the oldest; a reader loses the
    /// packets that are overwritten before it has read them. With a pcapng file, readers see the buffers of --store; if these are
    /// smaller than SIZE, there are more of them [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = share_size)]
    pub share_size: Option<u64>,

    /// Serve captured packets as pcapng to up to 32 TCP clients. With port 0, the system chooses a free port. Without ADDR, the
    /// address is 127.0.0.1, to which every user of this machine can connect. In Wireshark: -i TCP@127.0.0.1:PORT
    #[arg(long, value_name = "tcp:[ADDR:]PORT", value_parser = address)]
    pub serve: Option<SocketAddr>,
}

#[derive(ClapArgs)]
pub struct Shares {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

fn share_size(text: &str) -> Parsed<u64> {
    match values::size(text, 1 << 20)? {
        bytes if bytes < MIN_RING_BYTES => Err("it is less than 1M, the least for packets".into()),
        bytes => Ok(bytes),
    }
}

fn address(text: &str) -> Parsed<SocketAddr> {
    let rest = text.strip_prefix("tcp:");
    let port = rest.and_then(|rest| rest.parse().ok());
    let loopback = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let parsed = loopback.or_else(|| rest?.parse().ok());
    parsed.ok_or_else(|| {
        format!("'{text}' is not an address. Use tcp:5555, tcp:127.0.0.1:5555 or tcp:[::1]:5555")
    })
}
