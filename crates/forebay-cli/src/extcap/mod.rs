//! `forebay extcap`: what forebay captures from, for Wireshark's programs.
//!
//! Wireshark runs this command several times: to list the sources, their link types and their settings, and to capture into a pipe. The
//! protocol is described in Wireshark's extcap(4). `sentence` composes its lines, and `source` knows the sources.

mod install;
mod sentence;
mod source;

use crate::{
    args::{self, Extcap as Flags},
    capture, output,
    usage::{self, refuse},
};
use anyhow::Result;
use forebay_net::{
    open,
    port::{DEFAULT_SNAPLEN, LinkType},
};
use sentence::Sentence;
use source::Source;
use std::{ffi::OsString, path::Path, process::ExitCode};

/// Answers one of Wireshark's requests.
///
/// # Errors
/// There is no such source, it cannot be captured from, or the answer cannot be written.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    if let Some(folder) = &flags.install {
        return install::link(folder.as_deref());
    }
    let Some(name) = &flags.extcap_interface else {
        output::answer(&interfaces()?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let source: Source = name.parse()?;
    let filter = flags.extcap_capture_filter.as_deref().unwrap_or_default();
    match &flags.fifo {
        Some(fifo) if flags.capture => return capture(&source, flags, fifo, filter),
        _ => {}
    }
    let mut text = String::new();
    if flags.extcap_dlts {
        text += &link_type(&source, flags)?;
    }
    if flags.extcap_config {
        text += &source.settings();
    }
    if let Err(error) = check(&source, flags, filter) {
        text += &format!("{error}\n");
    }
    output::answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The lines for all sources.
fn interfaces() -> Result<String> {
    let about = Sentence::of("extcap")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("display", "Forebay");
    let sources = source::list()?;
    let lines = sources.iter().map(Source::sentence);
    Ok([about]
        .into_iter()
        .chain(lines)
        .map(|it| it.to_string())
        .collect())
}

/// The line for the link type of a source.
fn link_type(source: &Source, flags: &Flags) -> Result<String> {
    let link = match source.is_here() {
        true => open::link_of(&source.name(flags)?.parse()?)?.0,
        // Wireshark reads it from the packets.
        false => LinkType::ETHERNET,
    };
    let (name, text) = link.names().unwrap_or(("unknown", "unknown"));
    let line = Sentence::of("dlt")
        .with("number", &link.0.to_string())
        .with("name", name)
        .with("display", text);
    Ok(line.to_string())
}

/// What is wrong with a filter for a source.
fn check(source: &Source, flags: &Flags, filter: &str) -> Result<()> {
    if let Some(filter) = usage::filter(&[filter.to_owned()])?
        && source.is_here()
    {
        let (link, view) = open::link_of(&source.name(flags)?.parse()?)?;
        filter.compile(link, view, DEFAULT_SNAPLEN)?;
    }
    Ok(())
}

/// Captures into the pipe, until Wireshark closes it.
fn capture(source: &Source, flags: &Flags, fifo: &Path, filter: &str) -> Result<ExitCode> {
    let name = source.name(flags)?;
    let mut words: Vec<OsString> = ["forebay", "capture", "-q", "-U", "--format", "pcapng", "-i"]
        .map(Into::into)
        .into();
    words.extend([name.into(), "-w".into(), fifo.into(), "--".into()]);
    words.extend((!filter.is_empty()).then(|| filter.into()));
    match args::parse(words).map(|args| args.command) {
        Ok(args::Command::Capture(flags)) => capture::run(*flags),
        Ok(_) => refuse("not a capture"),
        Err(error) => refuse(error.to_string().trim_end().to_owned()),
    }
}
