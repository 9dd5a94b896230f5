//! The flag of every subcommand that reads bytes of others.

use clap::Args as ClapArgs;

#[derive(ClapArgs, Default)]
pub struct Sandbox {
    /// Do not restrict this process to the files and system calls that it still needs, before it reads anything
    #[arg(long)]
    pub no_sandbox: bool,
}
