//! The flag of every subcommand that reads bytes of others.

use clap::Args as ClapArgs;

#[derive(ClapArgs, Default)]
pub struct Sandbox {
    /// Turn off the sandbox. Without this flag, before it reads any input, the process gives up all access except to the files
    /// and system calls that it needs
    #[arg(long)]
    pub no_sandbox: bool,
}
