//! Manual pages and completion scripts, made from the flags.

use crate::{
    args::{self, Args, Completions, Man},
    output,
};
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use std::{fs, path::Path, process::ExitCode};

/// Prints the page of the command, or writes one page for each subcommand to a folder.
///
/// # Errors
/// The folder or standard output cannot be written.
pub fn man(flags: &Man) -> Result<ExitCode> {
    let Some(folder) = &flags.folder else {
        output::answer(&page(Args::command())?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, folder)
        .with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    for inner in command.get_subcommands() {
        write_pages(inner, folder)?;
    }
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let path = folder.join(format!("{name}.1"));
    Ok(fs::write(path, page(command.clone())?)?)
}

fn page(command: Command) -> Result<String> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let title = format!(
        ".TH {} 1 \"{}\" \"forebay {}\" \"Forebay\"",
        name.to_uppercase(),
        args::DATE,
        env!("CARGO_PKG_VERSION")
    );
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let lines = page.lines().map(|line| match line.starts_with(".TH ") {
        true => &title,
        false => line.trim_end(),
    });
    let lines: Vec<_> = lines.collect();
    // Blank lines between two breaks, and blanks at the ends of lines, are mistakes in roff.
    let page = lines.join("\n").replace("\n.br\n\n.br\n", "\n.sp\n");
    Ok(page + "\n")
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
