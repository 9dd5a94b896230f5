//! The flags, one file for each subcommand.

mod capture;
mod get;
mod pipe;
mod queue;
mod records;
mod repair;
#[cfg(test)]
mod tables_tests;

pub use capture::Capture;
pub use get::Get;
pub use pipe::Pipe;
pub use queue::{Queue, QueueCommand, Recv, Remove, Send, Stat};
pub use records::{Check, Dump, Records, RecordsCommand};
pub use repair::Repair;

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

/// Captures packets, and accounts for every one of them.
#[derive(Parser)]
#[command(name = "forebay", version, about, long_about = None)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Capture packets to a file, and account for every one
    #[command(after_long_help = capture::HELP)]
    Capture(Box<Capture>),
    /// Print what capture files hold: counts, times, rates, interfaces, losses, checksum
    Info(Info),
    /// Cut torn capture files to what is whole in them
    #[command(after_long_help = repair::HELP)]
    Repair(Repair),
    /// Put a large buffer between programs, as mbuffer does, with pv's progress line
    #[command(after_long_help = pipe::HELP)]
    Pipe(Box<Pipe>),
    /// Fetch a URL over HTTP/1.1, and never report a part as the whole
    #[command(after_long_help = get::HELP)]
    Get(Get),
    /// Pass messages between processes: lines, or records preceded by their length
    #[command(after_long_help = queue::HELP)]
    Queue(Queue),
    /// Check or print record files: what is whole in them after a crash
    #[command(after_long_help = records::HELP)]
    Records(Records),
    /// Print the manual page, or write the pages of all subcommands to a folder
    Man(Man),
    /// Print the script that lets a shell complete subcommands and flags
    #[command(after_long_help = COMPLETIONS_HELP)]
    Completions(Completions),
}

const COMPLETIONS_HELP: &str = "\
Examples:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay
  forebay completions zsh > ~/.zfunc/_forebay
  forebay completions fish > ~/.config/fish/completions/forebay.fish";

#[derive(ClapArgs)]
pub struct Man {
    /// Folder to write forebay.1, forebay-capture.1 and so on to; it must exist
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Completions {
    /// The shell to complete for
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[derive(ClapArgs)]
pub struct Info {
    /// pcap or pcapng files, plain, gzip or zstd; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print one JSON object for each file, one a line
    #[arg(long)]
    pub json: bool,
}
