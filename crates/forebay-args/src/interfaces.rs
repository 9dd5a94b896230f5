//! The flags of `interfaces`.

use clap::Args as ClapArgs;

pub const HELP: &str = "\
Needs no privilege. Changes nothing.

Columns:
  QUEUES  hardware queues that receive / send
  TIME    what can stamp every received frame: hard: the card; soft: the kernel;
          ptp: the card, but only frames of PTP
  PACKET  whether this user can capture with -i NAME (AF_PACKET)
  XDP     what AF_XDP would give: zero-copy, driver, generic

Exit codes: 0 success, 1 an interface does not exist, or failure; 2 bad request.

Examples:
  # All interfaces
  forebay interfaces
  # Every detail of one of them
  forebay interfaces -D eth0
  # Names of those that are up
  forebay interfaces --json |
    jq -r '.interfaces[] | select(.up) | .name'";

#[derive(ClapArgs)]
pub struct Interfaces {
    /// Interfaces to list; without any, all of them
    #[arg(help_heading = "Input", value_name = "INTERFACE")]
    pub interfaces: Vec<String>,

    /// Print every detail of each interface, in several lines
    #[arg(help_heading = "Output", short = 'D', long)]
    pub long: bool,

    /// Print one JSON object
    #[arg(help_heading = "Output", long)]
    pub json: bool,
}
