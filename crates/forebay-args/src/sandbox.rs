//! The flag of every subcommand that reads bytes of others.

use clap::Args as ClapArgs;

#[derive(ClapArgs, Default)]
pub struct Sandbox {
    /// Turn off the sandbox. Without this flag the process limits itself, before it reads any input, to the files and system
    /// calls that it needs
    #[arg(long)]
    pub no_sandbox: bool,
}
