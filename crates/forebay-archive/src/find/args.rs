//! The flags of `find`.

use clap::Parser;
use std::path::PathBuf;

/// Find packets in an archive
///
/// Reads the index, then only the blocks of segments in which packets may match, and prints or writes the matching packets of all
/// sensors in the order of time.
///
/// Exit codes: 0 the search is complete, 1 it failed or a segment is damaged, 2 the command line is wrong, 3 the store did not
/// answer or refused a request, 130 it was interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "find", display_name = "forebay-find")]
pub struct Args {
    /// The filter: libpcap's language, as in `forebay capture`. Without it, every packet matches
    #[arg(value_name = "EXPR")]
    pub(super) expression: Vec<String>,
    /// The archive: a folder, or s3://…, gs://… or az://…
    #[arg(long = "in", value_name = "ARCHIVE")]
    pub(super) archive: String,
    /// Packets from this time on: 2026-11-23T14:00:00Z, '2026-11-23 14:00' (local), 14:00, 2026-11-23, -2h, yesterday, @SECONDS
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) from: Option<String>,
    /// Packets before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(super) to: Option<String>,
    /// Only packets of this sensor; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) sensor: Vec<String>,
    /// Write the packets to a pcapng file, or to a pcap file if the name ends with .pcap or .cap; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,
    /// Print the flows of the packets instead, as a table or with --json as lines. What the index knows for certain is not read
    #[arg(long, conflicts_with_all = ["write", "count"])]
    pub(super) flows: bool,
    /// Print only how many packets match
    #[arg(long, conflicts_with = "write")]
    pub(super) count: bool,
    /// Stop after this many packets, or print this many flows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "count")]
    pub(super) limit: Option<u64>,
    /// Show what is read and why. Without -w, --flows and --count, no segment is read
    #[arg(long)]
    pub(super) explain: bool,
    /// Print the summary as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}
