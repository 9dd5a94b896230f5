//! The flags of `with`.

use super::values::Parsed;
use clap::{Args as ClapArgs, ValueHint};
use forebay_net::open::Name;
use std::{ffi::OsString, path::PathBuf};

pub const HELP: &str = "\
The loader of the system finds forebay's libpcap first, because with puts its folder first into LD_LIBRARY_PATH. The loader ignores that \
variable for programs with more rights than their user, static programs have no loader, and sudo removes it. In these cases, with \
prints the reason and does not run the program.

Exit codes: 1 forebay's libpcap is not installed, 2 bad request, 126 PROGRAM cannot run on it, 127 there is no such program; otherwise that of PROGRAM.

Examples:
  # Compressed files, and packets that a capture shares
  forebay with tcpdump -nr old.pcapng.zst
  forebay with tcpdump -ni share:lan
  # For a program that only knows names of interfaces
  forebay with --device share:lan ngrep -d eth0 GET
  # Privileges come first
  sudo forebay with tcpdump -ni eth0";

#[derive(ClapArgs)]
pub struct With {
    /// Folder with forebay's libpcap.so.0.8. Without it: ../lib/forebay, seen from the folder of this command, or
    /// /usr/lib/forebay
    #[arg(long, value_name = "DIR")]
    pub library: Option<PathBuf>,

    /// Source that replaces the device of every capture that PROGRAM opens: eth0, any, sim, share:NAME or xdp:NAME
    #[arg(long, value_name = "INTERFACE", value_parser = device)]
    pub device: Option<String>,

    /// Program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// The text of a source that can be understood.
fn device(text: &str) -> Parsed<String> {
    let name: Result<Name, _> = text.parse();
    name.map(|_| text.to_owned()).map_err(|it| it.to_string())
}
