//! The flags of `doctor`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Changes nothing. The disk is tested with a file without a name, of at most 256 MiB and for at most a second, which is \
gone afterwards, also after a kill.

Exit codes: 0 nothing was found that loses packets, 1 something was, or failure; 2 bad request.

Examples:
  # This user, this kernel, all interfaces that are up
  forebay doctor
  # One interface, and the disk that captures go to
  forebay doctor eth0 --folder /srv/captures";

#[derive(ClapArgs)]
pub struct Doctor {
    /// Interfaces to look at; without any, all that are up, except the loopback interface
    #[arg(value_name = "INTERFACE")]
    pub interfaces: Vec<String>,

    /// Folder that captures are written to
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
