//! The flag of every subcommand that reads bytes of others.

use clap::Args as ClapArgs;

#[derive(ClapArgs, Default)]
pub struct Sandbox {
    /// Turn off the sandbox. Without this flag, the process keeps access only to the files and system calls that it needs, and
    /// gives up the rest before it reads any input
    #[arg(help_heading = "Other", long)]
    pub no_sandbox: bool,
}
