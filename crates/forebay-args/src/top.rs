//! The flags of `top`.

use super::values;
use clap::{ArgAction, Args as ClapArgs};
use forebay_net::{filter::Filter, open::Name};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

pub const HELP: &str = "\
Keys: Tab changes the table, r b p sort, R reverses, j k select a row, / filters, space holds the screen, Ctrl-Z suspends,
? shows all keys, q quits.

Exit codes: 0 success, 1 failure, 2 bad request.

Examples:
  # The busiest flows of an interface (needs CAP_NET_RAW)
  forebay top eth0
  # Only what matches
  forebay top -i eth0 not port 22
  # A simulated card, no privileges needed
  forebay top -i sim:rate=100M
  # The busiest hosts of ten seconds, for a script
  forebay top -i eth0 --once --interval 10 --json | \\
    jq '.hosts[:3]'
  # Enter and w write the selected flow to a file, here
  forebay top eth0 --write-flows .
  # With names of hosts and services
  forebay top eth0 --names
  # A running capture
  forebay top --control lan
  # Of a file
  forebay top -r today.pcapng --once";

#[derive(ClapArgs)]
pub struct Top {
    /// Interface to watch: eth0, any, sim, share:NAME or xdp:eth0. May be repeated. Without it, the first word of EXPRESSION can be
    /// the interface or a file; otherwise all interfaces are watched. sim is a simulated card (also sim:rate=10G), and share:NAME the
    /// packets that another capture shares. xdp:eth0 uses AF_XDP, which takes packets away from this machine's network stack, unless
    /// pass=yes follows
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

    /// Let the key w, in the details of a flow, write this flow to a new file in FOLDER. Packets are then read as a whole
    #[arg(
        help_heading = "Output",
        long,
        value_name = "FOLDER",
        conflicts_with = "once"
    )]
    pub write_flows: Option<PathBuf>,

    /// Do not put interfaces into promiscuous mode
    #[arg(help_heading = "Input", short = 'p')]
    pub not_promiscuous: bool,

    /// Show the names of addresses that DNS answers in the packets have named, and of well-known ports. Nothing is looked up
    #[arg(help_heading = "Output", long, conflicts_with = "numeric")]
    pub names: bool,

    /// No effect, because addresses and ports are shown as numbers without --names. Accepted because tcpdump and iftop have this flag
    #[arg(help_heading = "Input", short = 'n', action = ArgAction::Count)]
    pub numeric: u8,

    /// Open xdp:INTERFACE also if this machine uses the interface: its connections over it stop working
    #[arg(help_heading = "Input", long)]
    pub take_traffic: bool,

    /// Which packets to count, in the language of pcap-filter(7): tcp port 80 and host 10.0.0.1
    #[arg(help_heading = "Filter", value_name = "EXPRESSION")]
    pub expression: Vec<String>,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

impl Top {
    /// What is watched, and the words of the filter. Without a flag that names a source, the first word can be an interface or a file,
    /// unless all words are a filter; otherwise every interface is watched.
    pub fn sources(&self) -> (Vec<Name>, &[String]) {
        let files = self.read.iter().cloned().map(Name::File);
        let names: Vec<_> = self.interfaces.iter().cloned().chain(files).collect();
        if !names.is_empty() || self.control.is_some() {
            return (names, &self.expression);
        }
        let all = Name::Interface("any".into());
        let Some((first, rest)) = self.expression.split_first() else {
            return (vec![all], &[]);
        };
        let prefixes = ["sim:", "share:", "tap:", "xdp:", "packet:"];
        let has_prefix = prefixes.iter().any(|prefix| first.starts_with(prefix));
        let is_interface = !first.contains('/') && Path::new("/sys/class/net").join(first).exists();
        let is_name = has_prefix || is_interface || ["any", "sim"].contains(&first.as_str());
        let is_filter = || self.expression.join(" ").parse::<Filter>().is_ok();
        let name = match first.parse() {
            Ok(name) if is_name => name,
            _ if is_filter() => return (vec![all], &self.expression),
            _ if Path::new(first).is_file() => Name::File(first.into()),
            // A mistyped interface: opening it names those that exist.
            Ok(name) if rest.is_empty() && !first.contains(' ') => name,
            _ => return (vec![all], &self.expression),
        };
        (vec![name], rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Command};
    use clap::Parser;

    fn sources(line: &str) -> (Vec<Name>, String) {
        let args = Args::try_parse_from(
            ["forebay", "top"]
                .into_iter()
                .chain(line.split_whitespace()),
        );
        let Command::Top(top) = args.unwrap().command else {
            panic!("{line}");
        };
        let (names, filter) = top.sources();
        (names, filter.join(" "))
    }

    #[test]
    fn the_first_word_can_be_an_interface_or_a_file() {
        let interface = |name: &str| vec![Name::Interface(name.into())];
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for (line, names, filter) in [
            ("", interface("any"), ""),
            ("lo", interface("lo"), ""),
            ("lo tcp port 80", interface("lo"), "tcp port 80"),
            ("any udp", interface("any"), "udp"),
            ("tcp port 80", interface("any"), "tcp port 80"),
            ("-n -i lo udp", interface("lo"), "udp"),
            ("loo", interface("loo"), ""),
            ("sim udp", vec!["sim".parse().unwrap()], "udp"),
            (manifest, vec![Name::File(manifest.into())], ""),
            ("--control lan udp", vec![], "udp"),
        ] {
            let (found, rest) = sources(line);
            assert_eq!(format!("{found:?}"), format!("{names:?}"), "{line}");
            assert_eq!(rest, filter, "{line}");
        }
    }
}
