//! `-D`: what can be captured from.

use anyhow::Result;
use forebay_net::link::Link;
use std::{io::Write, process::ExitCode};

pub fn print() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for link in forebay_net::link::interfaces()? {
        // A reader that went away has read what it wanted.
        let _ = writeln!(out, "{} [{}]", link.name, states(&link));
    }
    let _ = writeln!(out, "sim [simulated card, no privileges needed]");
    Ok(ExitCode::SUCCESS)
}

/// `Up, Running, Loopback`, as tcpdump says it.
fn states(link: &Link) -> String {
    let states = [
        (link.is_up(), "Up"),
        (link.is_running(), "Running"),
        (link.is_loopback(), "Loopback"),
    ];
    let said = states.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
    match said.collect::<Vec<_>>() {
        none if none.is_empty() => "Down".into(),
        words => words.join(", "),
    }
}
