//! The flags of `flows`.

use super::values;
use clap::{Args as ClapArgs, ValueEnum};
use std::time::Duration;

pub const HELP: &str = "\
Exit codes: 0 every file was read to its end, 1 failure, 2 bad request.

Examples:
  forebay flows day.pcapng
  # Only what matches a filter
  forebay flows day.pcapng tcp port 443
  # Traffic in each minute, for a spreadsheet
  forebay flows a.pcapng -t intervals --interval 60 --csv
  # What a client and a server sent to each other
  forebay flows day.pcapng --follow tcp port 4000
  # The connections with the most retransmissions
  forebay flows day.pcapng --json |
    jq '.conversations | sort_by(-.retransmissions)[:3]'";

/// What is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    Conversations,
    Endpoints,
    Protocols,
    Services,
    Lengths,
    Intervals,
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum End {
    A,
    B,
}

#[derive(ClapArgs)]
pub struct Flows {
    /// pcap or pcapng files, plain, gzip or zstd, and after them a filter: day.pcapng tcp port 80. - is standard input. The filter is
    /// in the language of pcap-filter(7), and begins with the first word that is no file
    #[arg(value_name = "FILE", required = true)]
    pub words: Vec<String>,

    /// Print only this table; may be repeated [default: all]
    #[arg(short = 't', long = "table", value_name = "TABLE")]
    pub tables: Vec<Table>,

    /// Rows of each table of text: those with the most bytes, and the first intervals
    #[arg(long, value_name = "ROWS", default_value = "10")]
    pub top: usize,

    /// Length of an interval, in whole seconds [default: the shortest that needs no more rows than --top]
    #[arg(long, value_name = "SECONDS", value_parser = values::time)]
    pub interval: Option<Duration>,

    /// Print what the two ends of the first TCP connection that matches sent to each other, as text. Missing data is marked
    #[arg(long, conflicts_with_all = ["tables", "interval", "json", "csv"])]
    pub follow: bool,

    /// With --follow, print only what one end sent, byte for byte: a, which has the higher port, or b
    #[arg(long, value_name = "END", requires = "follow")]
    pub raw: Option<End>,

    /// Print one JSON object with every row
    #[arg(long)]
    pub json: bool,

    /// Print the table that -t chooses as comma-separated values, with every row
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
