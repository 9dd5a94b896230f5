//! The arguments of the command `forebay`, one file for each subcommand.
//!
//! Its help, its manual pages, its completions and the tables of flags in `docs/` are made from them. Only the command uses this
//! crate; it is not meant for other programs.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod bridge;
mod capture;
mod completions;
mod control;
mod doctor;
mod extcap;
mod flows;
mod generate;
mod get;
mod help;
#[cfg(test)]
mod help_tests;
mod info;
mod interfaces;
mod man;
#[cfg(test)]
mod parse_tests;
mod pipe;
mod print;
mod queue;
mod recorder;
mod records;
mod repair;
mod replay;
mod sandbox;
mod sending;
mod share;
#[cfg(test)]
mod tables_tests;
mod threads;
mod top;
mod values;
mod verify;
mod with;

pub use bridge::Bridge;
pub use capture::{Capture, Criterion};
pub use completions::Completions;
pub use control::{Control, ControlCommand, Trigger};
pub use doctor::Doctor;
pub use extcap::Extcap;
pub use flows::{End, Flows, Table};
pub use generate::Generate;
pub use get::Get;
pub use info::Info;
pub use interfaces::Interfaces;
pub use man::Man;
pub use pipe::{Input, Pipe};
pub use print::Print;
pub use queue::{Queue, QueueCommand, QueueList, Recv, Send, Stat};
pub use records::{Check, Dump, Records, RecordsCommand};
pub use repair::Repair;
pub use replay::Replay;
pub use sandbox::Sandbox;
pub use sending::Sending;
pub use share::Shares;
pub use top::Top;
pub use verify::Verify;
pub use with::With;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// The version, and the commit that was built where it is known.
pub const VERSION: &str = env!("FOREBAY_VERSION");

/// The day of that commit; empty where it is not known.
pub const DATE: &str = env!("FOREBAY_DATE");

const HELP: &str = "\
Examples:
  forebay capture -i eth0 -w today.pcapng tcp port 80
  forebay info today.pcapng
  tar c . | forebay pipe -m 1G | ssh host 'cat > a.tar'
  forebay capture --help";

/// Captures packets and buffers data between programs, and counts whatever is lost
#[derive(Parser)]
#[command(name = "forebay", version = VERSION, after_long_help = HELP)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Capture packets, print them or write them to a file, and account for every one
    #[command(after_long_help = capture::HELP, version = VERSION, disable_version_flag = true)]
    Capture(Box<Capture>),
    /// Watch an interface: rates, losses, and the busiest flows, hosts, ports and protocols
    #[command(after_long_help = top::HELP)]
    Top(Top),
    /// Forward frames between two interfaces, both ways, and account for every one
    #[command(after_long_help = bridge::HELP)]
    Bridge(Box<Bridge>),
    /// List the interfaces: driver, queues, offloads, time stamps, and what can be captured with
    #[command(after_long_help = interfaces::HELP, visible_alias = "ports")]
    Interfaces(Interfaces),
    /// Send numbered frames on an interface, for verify at the other end of a path
    #[command(after_long_help = generate::HELP)]
    Generate(Box<Generate>),
    /// Count what was lost, repeated, reordered or corrupted of generated frames
    #[command(after_long_help = verify::HELP)]
    Verify(Verify),
    /// List the captures of this machine whose packets can be read with -i share:NAME
    #[command(after_long_help = share::SHARES_HELP)]
    Shares(Shares),
    /// Watch and steer a running capture: status, stop, rotate, flush, trigger
    #[command(after_long_help = control::HELP)]
    Control(Control),
    /// Let the recorder of a running capture write a file
    #[command(after_long_help = control::TRIGGER_HELP)]
    Trigger(Trigger),
    /// Print what capture files hold: counts, times, rates, interfaces, losses, checksum
    #[command(after_long_help = info::HELP)]
    Info(Info),
    /// Add up what capture files hold by conversation, end point, protocol, length and time
    #[command(after_long_help = flows::HELP, override_usage = "forebay flows [OPTIONS] <FILE>... [EXPRESSION]...")]
    Flows(Flows),
    /// Cut torn capture files to what is whole in them
    #[command(after_long_help = repair::HELP)]
    Repair(Repair),
    /// Send the packets of capture files on an interface, with their gaps or at a rate
    #[command(after_long_help = replay::HELP)]
    Replay(Box<Replay>),
    /// Check rights, kernel, interfaces and disk for what would lose packets, and print what to change
    #[command(after_long_help = doctor::HELP)]
    Doctor(Doctor),
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
    /// Run a program that uses libpcap, such as tcpdump, on forebay
    #[command(after_long_help = with::HELP)]
    With(With),
    /// List and capture what forebay can for Wireshark, tshark and termshark
    #[command(after_long_help = extcap::HELP)]
    Extcap(Box<Extcap>),
    /// Print the manual page, or write the pages of all subcommands to a folder
    #[command(after_long_help = man::HELP)]
    Man(Man),
    /// Print the script that lets a shell complete subcommands and flags
    #[command(after_long_help = completions::HELP)]
    Completions(Completions),
}

/// The command line of `forebay`, with its help.
pub fn command() -> clap::Command {
    help::helpful(Args::command())
}

/// The command line of this process, the name of the program first.
pub fn words() -> Vec<OsString> {
    extcap::with_subcommand(std::env::args_os())
}

/// The arguments in a command line, whose first word is the name of the program.
///
/// # Errors
/// They are wrong, or ask for the help or the version.
pub fn parse(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Args, clap::Error> {
    Args::from_arg_matches(&command().try_get_matches_from(words)?)
}
