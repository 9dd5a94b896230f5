//! The flags of `repair`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
A capture that was killed, or whose disk was full or lost its power, may end in the middle of a block, or in zeros; \
many programs then read none of it. Only zeros are thrown away. A file that a program still writes, or has open, is \
refused; so are files of other users.

A compressed file is cut after its last whole piece. capture -r also reads packets of the incomplete one: to keep these, copy the \
file instead. NAME.part, a file of a killed series, keeps this name: the next capture of the series finishes it, or rename it.

Exit codes: 0 the file is whole now; 1 failure, or with -n a part would be cut; 2 bad request.

Examples:
  # Only print what is whole
  forebay repair -n night.pcapng
  # Cut it there; the rest goes to night.pcapng.cut
  forebay repair night.pcapng
  # Copy what can be read, also of a compressed file
  forebay capture -r night.pcapng.zst -w copy.pcapng";

#[derive(ClapArgs)]
pub struct Repair {
    /// pcap and pcapng files
    #[arg(help_heading = "Input", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Only print what would be done
    #[arg(help_heading = "Output", short = 'n', long)]
    pub dry_run: bool,

    /// Print one JSON object for each file, one a line
    #[arg(help_heading = "Output", long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
