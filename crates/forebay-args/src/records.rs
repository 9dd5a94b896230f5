//! The flags of `records`.

use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

pub const HELP: &str = "\
Such files are written by forebay::records::Records (Rust): blocks of records, numbered, with check sums. Only what is \
whole and in order is accepted; nothing after the first fault is shown.

Exit codes: 0 whole, also if the reader of the output left; 1 a part is damaged, or failure; 2 bad request.

Examples:
  # What it holds, and what a crash damaged
  forebay records check orders.rec
  # One line a record: number and bytes
  forebay records dump orders.rec | head
  # The bytes as they were appended
  forebay records dump --raw orders.rec > orders";

const CHECK_HELP: &str = "\
Examples:
  forebay records check --json orders.rec trades.rec";

const DUMP_HELP: &str = "\
Examples:
  # One line a record: number and bytes
  forebay records dump orders.rec | head
  # The bytes as they were appended
  forebay records dump --raw orders.rec > orders";

#[derive(ClapArgs)]
pub struct Records {
    #[command(subcommand)]
    pub command: RecordsCommand,
}

#[derive(Subcommand)]
pub enum RecordsCommand {
    /// Print what record files hold, and which part cannot be relied on
    #[command(after_long_help = CHECK_HELP)]
    Check(Check),
    /// Print the records of a file, up to the first fault
    #[command(after_long_help = DUMP_HELP)]
    Dump(Dump),
}

#[derive(ClapArgs)]
pub struct Check {
    /// Record files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print one JSON object for each file, one a line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(ClapArgs)]
pub struct Dump {
    /// Record file; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Write the records' bytes, back to back
    #[arg(long)]
    pub raw: bool,

    /// Write the records' bytes, each preceded by its length as 4 bytes, big-endian
    #[arg(long, conflicts_with = "raw")]
    pub framed: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
