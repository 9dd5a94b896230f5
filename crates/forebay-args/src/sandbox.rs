//! The flag of every subcommand that reads bytes of others.

use clap::Args as ClapArgs;

#[derive(ClapArgs, Default)]
pub struct Sandbox {
    /// Turn off the sandbox, which restricts this process to the files and system calls that it needs, before it reads any input
    #[arg(long)]
    pub no_sandbox: bool,
}
