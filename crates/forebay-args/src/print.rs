//! The flags of `capture` about printed packets, with tcpdump's letters.

use clap::{ArgAction, Args as ClapArgs};
use std::path::PathBuf;

#[derive(ClapArgs)]
#[command(next_help_heading = "Printing")]
pub struct Print {
    /// Print packets even if -w, --share or --serve is given. If none of -w, --share, --serve and --count is given, packets are
    /// printed without this flag
    #[arg(long)]
    pub print: bool,

    /// Only count packets, and print the count on standard output, as tcpdump does: 42 packets. With --json, the count is in
    /// the object
    #[arg(long = "count", conflicts_with_all = ["print", "write", "json_lines"])]
    pub only_count: bool,

    /// Print each packet as one JSON object on its own line, for jq and other programs
    #[arg(long)]
    pub json_lines: bool,

    /// Print these fields of each packet, separated by tabs, such as time,source,destination,length. An unknown one lists all
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', conflicts_with_all = ["json_lines", "only_count"])]
    pub fields: Vec<String>,

    /// Print packets as comma-separated values, with the names of the fields in the first line. --fields chooses them
    #[arg(long, conflicts_with_all = ["json_lines", "only_count"])]
    pub csv: bool,

    /// Print the names of addresses that DNS answers in the capture have named, and of well-known ports. Nothing is looked up
    #[arg(long, conflicts_with_all = ["numeric", "only_count"])]
    pub names: bool,

    /// No effect, because addresses and ports are printed as numbers without --names. Accepted because tcpdump has this flag
    #[arg(short = 'n', action = ArgAction::Count)]
    pub numeric: u8,

    /// Print more details of each packet, how the capture was set up, and how much processor time it used. -vv and -vvv print
    /// even more of each packet
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Print the link-layer header of each packet, too
    #[arg(short = 'e')]
    pub link_header: bool,

    /// Time at the start of each line, local unless TZ=UTC is set: -t none, -tt seconds since 1970, -ttt time since the previous
    /// line, -tttt date and time, -ttttt time since the first line [default: time of day]
    #[arg(short = 't', action = ArgAction::Count)]
    pub times: u8,

    /// Precision of printed times: micro (microseconds) or nano (nanoseconds). It does not affect files; for these see --format
    #[arg(long, value_name = "PRECISION", default_value = "micro", value_parser = ["micro", "nano"])]
    pub time_stamp_precision: String,

    /// Print the bytes of each packet in hexadecimal, without the link-layer header; -xx with it
    #[arg(short = 'x', action = ArgAction::Count)]
    pub hex: u8,

    /// Print the bytes of each packet in hexadecimal and as text, without the link-layer header; -XX with it
    #[arg(short = 'X', action = ArgAction::Count)]
    pub hex_and_text: u8,

    /// Print the bytes of each packet as text, without the link-layer header; -AA with it
    #[arg(short = 'A', action = ArgAction::Count)]
    pub text: u8,

    /// Print TCP sequence numbers as they are in the packet, not relative to the start of the connection
    #[arg(short = 'S', long)]
    pub absolute_tcp_sequence_numbers: bool,

    /// With -v, do not verify the checksums of IP, TCP, UDP and ICMP
    #[arg(short = 'K', long)]
    pub dont_verify_checksums: bool,

    /// Whether printed lines have colours. With auto, they have colours on a terminal, unless NO_COLOR is set
    #[arg(long, visible_alias = "colour", value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    pub color: String,

    /// Print a packet number at the start of each line
    #[arg(short = '#', long)]
    pub number: bool,

    /// Write each printed line at once, even if standard output is a pipe or a file
    #[arg(short = 'l')]
    pub line_buffered: bool,

    /// Receive packets from the kernel after at most 10 ms instead of 100 ms, so that they are printed sooner. Unlike -U, this
    /// does not change how often files are written
    #[arg(long)]
    pub immediate_mode: bool,

    /// Which packets to capture: in (received), out (sent) or inout (both). The values 'in' and 'out' need AF_PACKET:
    /// each -i must be an interface such as eth0, not xdp:, share: or sim
    #[arg(short = 'Q', long, value_name = "DIRECTION", default_value = "inout", value_parser = ["in", "out", "inout"])]
    pub direction: String,

    /// Require this link type, by tcpdump's name (see -L). If an input has another link type, the command fails before it
    /// captures
    #[arg(short = 'y', long, value_name = "LINKTYPE")]
    pub linktype: Option<String>,

    /// List the link types of the interfaces and files, and exit
    #[arg(short = 'L', long)]
    pub list_data_link_types: bool,

    /// Read packets from several files, as with -r. FILE lists their names, one a line. If FILE is -, the list is read from
    /// standard input
    #[arg(short = 'V', value_name = "FILE")]
    pub file_list: Option<PathBuf>,
}

impl Print {
    /// Whether packets are printed as objects or rows, not as lines.
    pub fn is_for_programs(&self) -> bool {
        self.json_lines || self.csv || !self.fields.is_empty()
    }
}
