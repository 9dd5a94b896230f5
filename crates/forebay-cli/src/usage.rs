//! Requests that cannot be carried out.

use crate::{
    args, habit,
    output::{say, say_fitted},
};
use anyhow::Result;
use clap::{
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
            .or_else(|error| refuse_filter(text, &error)),
    }
}

/// # Errors
/// Always: `text` is not a filter.
pub fn refuse_filter<T>(text: &str, error: &filter::Error) -> Result<T> {
    refuse(habit::not_a_filter(text).unwrap_or_else(|| error.to_string()))
}

/// Prints why the command line cannot be parsed, and directly below it what to type instead, if that is known.
pub fn print() {
    // Parsed once more without colours: to take them out of the text would also take out what looks like one in a foreign
    // argument, and everything after it.
    let command = args::command().styles(Styles::plain());
    let words = args::words();
    let Err(error) = command.try_get_matches_from(&words) else {
        return;
    };
    let words: Vec<_> = words
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let text = error.render().ansi().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        text.trim_end().lines().for_each(say);
        return;
    }
    let hint = hint(&error, &words);
    let mut paragraphs = text.trim_end().split("\n\n");
    let what = format!("forebay: {}", paragraphs.next().unwrap_or_default());
    what.lines().for_each(say_fitted);
    match hint {
        Some(hint) => say_fitted(&format!("  {hint}")),
        None => paragraphs
            .filter(|it| is_about(it, error.kind()))
            .flat_map(str::lines)
            .for_each(say_fitted),
    }
}

/// What to type instead.
fn hint(error: &clap::Error, words: &[String]) -> Option<String> {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => flag,
        _ => return habit::suggestion(words),
    };
    let at = words.iter().position(|word| word.starts_with(unknown));
    let value = at.and_then(|at| words.get(at + 1));
    let first = words.first()?;
    habit::instead(first, unknown, value.map(String::as_str)).or_else(|| habit::suggestion(words))
}

/// Whether a paragraph of clap's text helps: its usage line only if words are missing, and no tip to pass a flag as a value.
fn is_about(paragraph: &str, kind: ErrorKind) -> bool {
    match paragraph.trim_start() {
        usage if usage.starts_with("Usage:") => kind == ErrorKind::MissingRequiredArgument,
        tip => !tip.starts_with("tip: to pass"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_helps_is_printed() {
        let kind = ErrorKind::UnknownArgument;
        assert!(is_about(
            "  tip: a similar argument exists: '--count'",
            kind
        ));
        assert!(!is_about(
            "  tip: to pass '-2' as a value, use '-- -2'",
            kind
        ));
        assert!(!is_about("Usage: forebay capture", kind));
        assert!(is_about(
            "Usage: forebay generate --interface",
            ErrorKind::MissingRequiredArgument
        ));
    }
}
