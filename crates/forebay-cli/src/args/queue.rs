//! The flags of `queue`.

use clap::{Args as ClapArgs, Subcommand};

pub const HELP: &str = "\
Examples:
  forebay queue recv jobs &
  seq 3 | forebay queue send jobs                    prints 1, 2 and 3
  seq 9 | forebay queue send --close jobs            and ends the receiver
  forebay queue stat jobs; forebay queue remove jobs

A queue holds 1 MiB, in /dev/shm/forebay.NAME, for this user only, until it is removed. Each message
goes to one receiver. What a killed receiver had taken and not released goes to another one.

Exit codes: 0 fine, also where the reader of the output went away; 1 failed; 2 bad request.";

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
    /// Tell what happened in a queue so far
    Stat(Stat),
    /// Take the name away; those who use the queue stay until they end
    Remove(Remove),
}

#[derive(ClapArgs)]
pub struct Send {
    /// Name of the queue, made if there is none
    pub name: String,

    /// Read records, each behind its length as 4 bytes, the highest first
    #[arg(long)]
    pub framed: bool,

    /// Close the queue at the end: receivers get what is left in it, and end
    #[arg(long)]
    pub close: bool,
}

#[derive(ClapArgs)]
pub struct Recv {
    /// Name of the queue, made if there is none
    pub name: String,

    /// Write records, each behind its length as 4 bytes, the highest first
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
