//! The flags of `repair`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Examples:
  forebay repair -n night.pcapng     what is whole in it, and what is not
  forebay repair night.pcapng        cut it there; the rest goes to night.pcapng.cut

A capture that was killed, or whose disk was full or lost its power, may end in the middle of a block, or in
zeros: many programs then read none of it. Nothing is thrown away but zeros. A file that somebody still writes is
refused; so is a packed one, and that of another user, who may be writing it.

Exit codes: 0 whole now; 1 something failed, or with -n something is to be cut; 2 bad request.";

#[derive(ClapArgs)]
pub struct Repair {
    /// pcap and pcapng files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Only tell what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Print one JSON object a line for each file
    #[arg(long)]
    pub json: bool,
}
