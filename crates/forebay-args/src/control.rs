//! The flags of `control` and `trigger`.

use clap::{Args as ClapArgs, ValueEnum};
use std::ffi::OsString;

pub const HELP: &str = "\
stop waits for the end of the capture and prints its final counts. The exit code is that of the capture.

Exit codes: 0 success, 1 failure, 2 bad request, 3 stop: packets were lost with --fail-on-drop, 4 stop: --keep-free ended the capture.

Examples:
  forebay capture -i eth0 -w a.pcapng --control lan &
  # The captures that run
  forebay control
  forebay control lan status
  # Counts for a program
  forebay control lan status --json | jq .dropped
  # Start the next file of a series (-b, -C, -G)
  forebay control lan rotate
  # Write what waits in buffers
  forebay control lan flush
  forebay control lan stop";

pub const TRIGGER_HELP: &str = "\
Examples:
  # The same as forebay control lan trigger
  forebay trigger lan";

#[derive(ClapArgs)]
pub struct Control {
    /// Name of the capture, as given to capture --control. Without it, the running captures are listed
    #[arg(value_name = "NAME")]
    pub name: Option<OsString>,

    /// What to do: print the counts, end the capture, start the next file (needs -b, -C or -G), write what waits in buffers, or
    /// let the recorder write a file
    #[arg(value_enum, default_value = "status")]
    pub command: ControlCommand,

    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ControlCommand {
    /// Print the counts so far
    Status,
    /// End the capture, and print its final counts
    Stop,
    /// Start the next file of a series
    Rotate,
    /// Write the packets that wait in buffers
    Flush,
    /// Let the recorder write a file
    Trigger,
}

#[derive(ClapArgs)]
pub struct Trigger {
    /// Name of the capture, as given to capture --control
    #[arg(value_name = "NAME")]
    pub name: OsString,

    /// Print the answer as one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub sandbox: super::sandbox::Sandbox,
}
