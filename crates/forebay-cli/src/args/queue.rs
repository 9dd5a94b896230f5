//! The flags of `queue`.

use clap::{Args as ClapArgs, Subcommand};

pub const HELP: &str = "\
Examples:
  forebay queue recv --create jobs &
  seq 3 | forebay queue send jobs                    prints 1, 2 and 3
  seq 9 | forebay queue send --close jobs            and ends the receiver
  forebay queue stat jobs; forebay queue remove jobs

A queue holds 1 MiB, in /dev/shm/forebay.NAME, for this user only, until it is removed. A file there that
belongs to another user, or that others may open, is refused. Do not cut the file while it is in use:
processes that touch what is gone die of SIGBUS.

Each message goes to one receiver, at least once: what a receiver had taken and not released when it was
killed goes to another one, even if it was already written. Each write to the output is of whole lines or
records; up to 4096 bytes of them reach a pipe completely or not at all.

Exit codes: 0 success, also where the reader of the output left; 1 failure; 2 bad request.";

#[derive(ClapArgs)]
pub struct Queue {
    #[command(subcommand)]
    pub command: QueueCommand,
}

#[derive(Subcommand)]
pub enum QueueCommand {
    /// Send each line of standard input as a message, waiting while the queue is full
    Send(Send),
    /// Print each message as a line, waiting while the queue is empty, until it is closed
    Recv(Recv),
    /// Print the counts of a queue
    Stat(Stat),
    /// Remove the name; processes that use the queue go on until they end
    Remove(Remove),
}

#[derive(ClapArgs)]
pub struct Send {
    /// Name of the queue, which is made if there is none
    pub name: String,

    /// Read records, each preceded by its length as 4 bytes, big-endian
    #[arg(long)]
    pub framed: bool,

    /// Close the queue at the end: receivers get what is left in it, and end
    #[arg(long)]
    pub close: bool,
}

#[derive(ClapArgs)]
pub struct Recv {
    /// Name of the queue
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
}

#[derive(ClapArgs)]
pub struct Stat {
    /// Name of the queue
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Remove {
    /// Name of the queue
    pub name: String,
}
