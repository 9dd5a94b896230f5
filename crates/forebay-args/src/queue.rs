//! The flags of `queue`.

use super::values::Parsed;
use clap::{Args as ClapArgs, Subcommand};
use forebay::queue::shared;

pub const HELP: &str = "\
A queue holds 1 MiB, in /dev/shm/forebay.NAME, for this user only, until it is removed. A file there that belongs to \
another user, or that others may open, is refused. Do not cut the file while it is in use: processes that touch what \
is gone die of SIGBUS.

Each message goes to one receiver, at least once: what a receiver had taken and not released when it was killed goes \
to another one, even if it was already written. Each write to the output is of whole lines or records; up to 4096 \
bytes of them reach a pipe completely or not at all.

Exit codes: 0 success, also where the reader of the output left; 1 failure; 2 bad request.

Examples:
  forebay queue recv --create jobs &
  # The receiver prints 1, 2 and 3
  seq 3 | forebay queue send jobs
  # Close the queue, which ends the receiver
  seq 9 | forebay queue send --close jobs
  forebay queue stat jobs; forebay queue remove jobs";

const SEND_HELP: &str = "\
Examples:
  seq 3 | forebay queue send jobs";

const RECV_HELP: &str = "\
Examples:
  # Make the queue, and wait for messages
  forebay queue recv --create jobs
  # Take ten messages
  forebay queue recv -c 10 jobs";

const LIST_HELP: &str = "\
PROCESSES is 0 if no process uses the queue any more: its messages wait for the next one.

Examples:
  forebay queue list
  forebay queue list --json | jq '.queues[].name'";

const STAT_HELP: &str = "\
Examples:
  forebay queue stat --json jobs";

const REMOVE_HELP: &str = "\
Examples:
  forebay queue remove jobs";

#[derive(ClapArgs)]
pub struct Queue {
    #[command(subcommand)]
    pub command: QueueCommand,
}

#[derive(Subcommand)]
pub enum QueueCommand {
    /// Send each line of standard input as a message, waiting while the queue is full
    #[command(after_long_help = SEND_HELP)]
    Send(Send),
    /// Print each message as a line, waiting while the queue is empty, until it is closed
    #[command(after_long_help = RECV_HELP)]
    Recv(Recv),
    /// List your queues: messages that wait, memory, and how many processes use each
    #[command(after_long_help = LIST_HELP)]
    List(QueueList),
    /// Print the counts of a queue
    #[command(after_long_help = STAT_HELP)]
    Stat(Stat),
    /// Remove the name; processes that use the queue go on until they end
    #[command(after_long_help = REMOVE_HELP)]
    Remove(Remove),
}

#[derive(ClapArgs)]
pub struct Send {
    /// Name of the queue, which is made if there is none
    #[arg(value_parser = name)]
    pub name: String,

    /// Read records, each preceded by its length as 4 bytes, big-endian
    #[arg(long)]
    pub framed: bool,

    /// Close the queue at the end: receivers get what is left in it, and end
    #[arg(long)]
    pub close: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(ClapArgs)]
pub struct Recv {
    /// Name of the queue
    #[arg(value_parser = name)]
    pub name: String,

    /// Make the queue if there is none, and wait for its first message
    #[arg(long)]
    pub create: bool,

    /// Write records, each preceded by its length as 4 bytes, big-endian
    #[arg(long)]
    pub framed: bool,

    /// Stop after COUNT messages
    #[arg(short = 'c', value_name = "COUNT")]
    pub count: Option<u64>,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(ClapArgs)]
pub struct QueueList {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(ClapArgs)]
pub struct Stat {
    /// Name of the queue
    #[arg(value_parser = name)]
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(ClapArgs)]
pub struct Remove {
    /// Name of the queue
    #[arg(value_parser = name)]
    pub name: String,
}

fn name(text: &str) -> Parsed<String> {
    let valid = shared::check_name(text).map_err(|error| error.to_string());
    valid.map(|()| text.to_owned())
}
