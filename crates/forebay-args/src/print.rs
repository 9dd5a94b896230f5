//! The flags of `capture` about printed packets, with tcpdump's letters.

use clap::{ArgAction, Args as ClapArgs};
use std::path::PathBuf;

#[derive(ClapArgs)]
#[command(next_help_heading = "Printing")]
pub struct Print {
    /// Print packets that are written with -w, shared or served, too; without these outputs they are printed anyway
    #[arg(long)]
    pub print: bool,

    /// Only count packets: print and write none
    #[arg(long = "count", conflicts_with_all = ["print", "write", "json_lines"])]
    pub only_count: bool,

    /// Print each packet as one JSON object on its own line, for jq and other programs
    #[arg(long)]
    pub json_lines: bool,

    /// Accepted because tcpdump has it, without effect: addresses and ports are always printed as numbers
    #[arg(short = 'n', action = ArgAction::Count)]
    pub numeric: u8,

    /// Print more of each packet; also print how the capture was set up, and how much processor time it used. -vv and -vvv print
    /// even more of each packet
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Print link-layer headers, too
    #[arg(short = 'e')]
    pub link_header: bool,

    /// Time before each line: -t none, -tt seconds since 1970, -ttt since the line before, -tttt with the date, -ttttt since the
    /// first line [default: time of day]
    #[arg(short = 't', action = ArgAction::Count)]
    pub times: u8,

    /// Digits of printed times: micro or nano. Files keep nanoseconds; --format pcap-us writes microseconds
    #[arg(long, value_name = "PRECISION", default_value = "micro", value_parser = ["micro", "nano"])]
    pub time_stamp_precision: String,

    /// Print each packet in hexadecimal digits; -xx with its link-layer header
    #[arg(short = 'x', action = ArgAction::Count)]
    pub hex: u8,

    /// Print each packet in hexadecimal digits and text; -XX with its link-layer header
    #[arg(short = 'X', action = ArgAction::Count)]
    pub hex_and_text: u8,

    /// Print each packet as text; -AA with its link-layer header
    #[arg(short = 'A', action = ArgAction::Count)]
    pub text: u8,

    /// Print sequence numbers of TCP as they are, not relative to the first of the connection
    #[arg(short = 'S', long)]
    pub absolute_tcp_sequence_numbers: bool,

    /// With -v, do not verify the checksums of IP, TCP, UDP and ICMP
    #[arg(short = 'K', long)]
    pub dont_verify_checksums: bool,

    /// Print a number before each line
    #[arg(short = '#', long)]
    pub number: bool,

    /// Print each line at once, also into a pipe
    #[arg(short = 'l')]
    pub line_buffered: bool,

    /// Capture and print packets after at most 10 ms instead of 100 ms
    #[arg(long)]
    pub immediate_mode: bool,

    /// Which packets to take: in, out or inout; in and out only with interfaces read by AF_PACKET (-i eth0)
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = ["in", "out", "inout"])]
    pub direction: String,

    /// Link type that the packets must have, by tcpdump's name (-L lists them)
    #[arg(short = 'y', long, value_name = "LINKTYPE")]
    pub linktype: Option<String>,

    /// List the link types of the interfaces and files
    #[arg(short = 'L', long)]
    pub list_data_link_types: bool,

    /// Like -r for each file that is named in FILE, one name a line; - is standard input
    #[arg(short = 'V', value_name = "FILE")]
    pub file_list: Option<PathBuf>,
}
