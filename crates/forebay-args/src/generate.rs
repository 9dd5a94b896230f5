//! The flags of `generate`.

use super::{
    capture::Criterion,
    values::{self, Parsed},
    verify::limit,
};
use clap::Args as ClapArgs;
use forebay_net::{open::Name, sim::Spec};
use std::net::Ipv4Addr;

pub const HELP: &str = "\
The SPEC is KEY=VALUE,…, as for the simulated card:
  rate=BITS|max      bits a second on the wire, such as 10G; or
  rate=FRAMESpps     frames a second, such as 500kpps
  size=64..9018|imix bytes of a frame, with its check sequence
  flows=1|2|…|64     each with its own source address and port
  count=FRAMES       end after this many frames
  sender=N           0 to 65535, otherwise a random number
  seed=N             of addresses, ports and the order of sizes

Frames are Ethernet, IPv4 and UDP to port 9 (discard), from 198.18.0.0/15, which is reserved for tests. Markers before the first frame and \
after the last one let forebay verify count frames that are lost there, too.

Signals: the first INT or TERM stops and sends the end markers. The second abandons frames that the interface has not taken yet. HUP is like \
TERM, USR1 prints the counts.

Exit codes: 0 every frame was accepted by the interface, 1 failure, 2 bad request, 3 frames failed.

Examples:
  # A million frames at 100,000 a second (needs CAP_NET_RAW)
  forebay generate rate=100kpps,count=1M -i eth0
  # At the other end of the path
  forebay verify -i eth1 --until-end
  # A million frames of the Internet mix, routed
  forebay generate rate=1G,size=imix -i eth0 -c 1M \\
    --to 192.0.2.7 --to-mac 02:00:00:00:00:01";

#[derive(ClapArgs)]
pub struct Generate {
    /// Traffic to send: rate=1G,size=imix,count=5M; the keys are listed below
    #[arg(help_heading = "Frames", value_name = "SPEC", default_value = "rate=1G,size=64", value_parser = spec)]
    pub spec: Spec,

    /// Interface to send on: eth0, or xdp:eth0 (AF_XDP)
    #[arg(
        help_heading = "Output",
        short = 'i',
        long = "interface",
        value_name = "INTERFACE"
    )]
    pub interface: Name,

    /// Stop after COUNT frames (5M is five million)
    #[arg(help_heading = "When to stop", short = 'c', value_name = "COUNT", value_parser = values::count)]
    pub count: Option<u64>,

    /// When to stop: duration:SECONDS or packets:COUNT; may be repeated
    #[arg(help_heading = "When to stop", short = 'a', long = "autostop", value_name = "KEY:VALUE", value_parser = limit)]
    pub autostop: Vec<Criterion>,

    /// Destination address [default: 198.19.0.1]
    #[arg(help_heading = "Frames", long, value_name = "ADDRESS")]
    pub to: Option<Ipv4Addr>,

    /// Destination of the Ethernet header, such as that of the next router [default: 02:00:00:00:00:01]
    #[arg(help_heading = "Frames", long, value_name = "MAC", value_parser = mac)]
    pub to_mac: Option<[u8; 6]>,

    /// Source address of all flows, which then differ in their ports only [default: one for each flow]
    #[arg(help_heading = "Frames", long, value_name = "ADDRESS")]
    pub from: Option<Ipv4Addr>,

    /// Source of the Ethernet header [default: one for each flow, from 02:00:00:00:01:00]
    #[arg(help_heading = "Frames", long, value_name = "MAC", value_parser = mac)]
    pub from_mac: Option<[u8; 6]>,

    #[command(flatten)]
    pub sending: super::sending::Sending,
}

/// What a simulated card would receive, without the keys about receiving.
fn spec(text: &str) -> Parsed<Spec> {
    let text = text.strip_prefix("sim:").unwrap_or(text);
    let keys = text.split(',').filter_map(|part| part.split('=').next());
    for key in keys {
        if ["ring", "host", "stall", "clock", "cost"].contains(&key) {
            return Err(format!("{key}= is about receiving. Leave it out"));
        }
    }
    let text = if text == "sim" { "" } else { text };
    text.parse::<Spec>().map_err(|error| {
        let error = error.to_string();
        let error = error.strip_prefix("sim: ").unwrap_or(&error);
        let error = error.split_once(". Write key=").map_or(error, |(error, _)| error);
        let error = error.split_once(". The keys are").map_or(error, |(error, _)| error);
        format!(
            "{error}. The keys are rate, size, flows, count, sender and seed, such as rate=100kpps,size=imix,count=1M"
        )
    })
}

fn mac(text: &str) -> Parsed<[u8; 6]> {
    let bytes = text.split([':', '-']).map(|it| match it.len() {
        1..=2 => u8::from_str_radix(it, 16).ok(),
        _ => None,
    });
    let bytes: Option<Vec<_>> = bytes.collect();
    let bytes = bytes.and_then(|it| it.try_into().ok());
    bytes
        .ok_or_else(|| format!("'{text}' is not an address. Use a value such as 02:00:00:00:00:01"))
}
