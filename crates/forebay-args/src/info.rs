//! The flags of `info`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Exit codes: 0 every file was read to its end, 1 failure, 2 bad request.

Examples:
  forebay info first.pcapng
  # A table for a spreadsheet or awk
  forebay info -T *.pcapng > captures.tsv
  forebay info --json a.pcap.gz b.pcapng.zst";

#[derive(ClapArgs)]
pub struct Info {
    /// pcap or pcapng files, plain, gzip or zstd; - is standard input
    #[arg(help_heading = "Input", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print only the number of packets
    #[arg(help_heading = "Output", short = 'c', long)]
    pub count: bool,

    /// Print a table: a line of names, then one line a file, with tabs between the columns
    #[arg(help_heading = "Output", short = 'T', long, conflicts_with = "json")]
    pub table: bool,

    /// Also print the SHA-256 and the SHA-1 of the file, as capinfos -H does. This takes longer than reading the packets
    #[arg(help_heading = "Output", short = 'H', long)]
    pub hashes: bool,

    /// Print one JSON object for each file, one a line
    #[arg(help_heading = "Output", long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
