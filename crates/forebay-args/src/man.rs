//! The flags of `man`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

pub const HELP: &str = "\
Examples:
  forebay man | man -l -
  forebay man ~/.local/share/man/man1";

#[derive(ClapArgs)]
pub struct Man {
    /// Folder to write forebay.1, forebay-capture.1 and so on to; it must exist
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}
