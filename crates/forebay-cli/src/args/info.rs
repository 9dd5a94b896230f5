//! The flags of `info`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Exit codes: 0 every file was read to its end, 1 failure, 2 bad request.

Examples:
  forebay info first.pcapng
  forebay info --json a.pcap.gz b.pcapng.zst";

#[derive(ClapArgs)]
pub struct Info {
    /// pcap or pcapng files, plain, gzip or zstd; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print one JSON object for each file, one a line
    #[arg(long)]
    pub json: bool,
}
