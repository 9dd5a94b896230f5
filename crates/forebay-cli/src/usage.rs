//! Requests that cannot be carried out.

use crate::{args::Args, habit, output::say};
use anyhow::Result;
use clap::{
    CommandFactory,
    builder::Styles,
    error::{ContextKind, ContextValue, ErrorKind},
};
use forebay_net::filter::{self, Filter};
use std::process::ExitCode;

/// A bad request: exit code 2.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit code after an error: 2 for a bad request, also if only a port or file could find that its filter makes no sense.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    let is_bad = error.is::<Usage>() || error.downcast_ref().is_some_and(refuses_filter);
    ExitCode::from(if is_bad { 2 } else { 1 })
}

/// Whether the error is about a filter.
pub fn refuses_filter(error: &forebay::Error) -> bool {
    filter::Error::of(error).is_some()
}

pub fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(Usage(what.into()).into())
}

/// The filter of the words at the end of a command line; `None` if there are none.
///
/// # Errors
/// The words are not a filter: a bad request.
pub fn filter(words: &[String]) -> Result<Option<Filter>> {
    match words.join(" ").trim() {
        "" => Ok(None),
        text => text
            .parse()
            .map(Some)
            .or_else(|error: filter::Error| refuse(error.to_string())),
    }
}

/// Prints why the command line cannot be parsed, and what to type instead if that is known.
pub fn print() {
    // Parsed once more without colours: to take them out of the text would also take out what looks like one in a foreign
    // argument, and everything after it.
    let command = Args::command().styles(Styles::plain());
    let words = std::env::args_os().skip(1);
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let suggestion = habit::suggestion(&words);
    if let Err(error) = command.try_get_matches() {
        let text = error.render().ansi().to_string();
        let text = match suggestion {
            // Its tips go by spelling only.
            Some(_) => without_tips(&text),
            None => text,
        };
        let instead = unknown_flag(&error).and_then(habit::instead);
        let text = if instead.is_some() {
            without_tips(&text)
        } else {
            text
        };
        format!("forebay: {}", text.trim_end())
            .lines()
            .for_each(say);
        if let Some(instead) = instead {
            say("");
            say(&format!("  {instead}"));
        }
    }
    if let Some(line) = suggestion {
        say("");
        say(&format!("  did you mean '{line}'?"));
    }
}

/// The flag that the error is about, if nothing here has it.
fn unknown_flag(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => Some(flag),
        _ => None,
    }
}

/// Removes the paragraphs that begin with `tip:`.
fn without_tips(text: &str) -> String {
    let paragraphs = text.split("\n\n");
    let kept = paragraphs.filter(|it| !it.trim_start().starts_with("tip:"));
    kept.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn tips_that_go_by_spelling_are_left_out() {
        let text = "error: unrecognized subcommand 'eth0'\n\n  tip: a similar subcommand exists: 'get'\n\nUsage: forebay\n";
        let expected = "error: unrecognized subcommand 'eth0'\n\nUsage: forebay\n";
        assert_eq!(super::without_tips(text), expected);
    }
}
