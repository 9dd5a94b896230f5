//! Requests that cannot be carried out.

use crate::{args::Args, habit, output::say};
use anyhow::Result;
use clap::{CommandFactory, builder::Styles};

/// A bad request: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

pub fn refuse<T>(what: String) -> Result<T> {
    Err(Usage(what).into())
}

/// Prints why the command line cannot be parsed, and what to type instead if that is known.
pub fn print() {
    // Parsed once more without colours: to take them out of the text would also take out what looks like one in a foreign
    // argument, and everything after it.
    let command = Args::command().styles(Styles::plain());
    if let Err(error) = command.try_get_matches() {
        let text = error.render().ansi().to_string();
        format!("forebay: {}", text.trim_end())
            .lines()
            .for_each(say);
    }
    let words = std::env::args_os().skip(1);
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(line) = habit::suggestion(&words) {
        say("");
        say(&format!("  did you mean '{line}'?"));
    }
}
