//! Manual pages and completion scripts, made from the flags.

use crate::{
    args::{Args, Completions, Man},
    output,
};
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::process::ExitCode;

/// Prints the page of the command, or writes one page for each subcommand to a folder.
///
/// # Errors
/// The folder or standard output cannot be written.
pub fn man(flags: &Man) -> Result<ExitCode> {
    let command = Args::command();
    if let Some(folder) = &flags.folder {
        clap_mangen::generate_to(command, folder)
            .with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    output::answer(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completion script for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(flags: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Args::command(), "forebay", &mut script);
    output::answer(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
