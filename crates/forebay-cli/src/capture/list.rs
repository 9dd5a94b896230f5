//! `-D`: lists the interfaces.

use crate::output::answer;
use anyhow::Result;
use forebay_net::link::Link;
use std::process::ExitCode;

pub fn print() -> Result<ExitCode> {
    let mut list = String::new();
    let links = forebay_net::link::interfaces()?;
    for link in &links {
        list += &format!("{} [{}]\n", link.name, states(link));
    }
    if links.iter().all(|link| link.name != "any") {
        list += "any [all interfaces that are up, and those that appear later]\n";
    }
    answer(&(list + "sim [simulated card, no privileges needed]\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `Up, Running, Loopback`, as tcpdump prints it.
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
