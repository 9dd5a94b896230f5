//! Manual pages, made from the flags and from `docs/filters.md`.

mod markdown;
mod page;
mod roff;

use crate::{
    args::{self, Man},
    output,
};
use anyhow::{Context, Result};
use clap::Command;
use page::title;
use roff::Page;
use std::{fs, path::Path, process::ExitCode};

/// The page about filters, which is also a page of `docs/`.
const FILTERS: &str = include_str!("filters.md");

/// Prints the page of the command, or writes one page for each subcommand to a folder.
///
/// # Errors
/// The folder or standard output cannot be written.
pub fn man(flags: &Man) -> Result<ExitCode> {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &flags.folder else {
        output::answer(&page(&command)?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let written = write_pages(&command, folder).and_then(|()| write_filters(folder));
    written.with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    for inner in command.get_subcommands() {
        write_pages(inner, folder)?;
    }
    let path = folder.join(format!("{}.1", title(command)));
    Ok(fs::write(path, page(command)?)?)
}

/// Writes the page about filters to `folder`, or next to it if `folder` is `man1`: man(1) looks for it in `man7`.
fn write_filters(folder: &Path) -> Result<()> {
    let mut folder = folder.to_owned();
    if folder.file_name().is_some_and(|name| name == "man1") {
        folder.set_file_name("man7");
        fs::create_dir_all(&folder)?;
    }
    let mut page = Page(heading("forebay-filter", 7));
    page.section("NAME");
    page.0 += "forebay\\-filter \\- the language of filter expressions\n";
    markdown::render(&mut page, FILTERS);
    page.section("SEE ALSO");
    page.paragraph("forebay-capture(1), pcap-filter(7)");
    Ok(fs::write(folder.join("forebay-filter.7"), page.0)?)
}

fn page(command: &Command) -> Result<String> {
    let mut page = Page(heading(&title(command), 1));
    page::render(&mut page, command)?;
    Ok(page.0)
}

/// The line that names the page.
fn heading(name: &str, section: u8) -> String {
    format!(
        ".TH {} {section} \"{}\" \"forebay {}\" \"Forebay\"\n",
        name.to_uppercase(),
        args::DATE,
        env!("CARGO_PKG_VERSION")
    )
}
