//! Lines for people: notes, warnings and errors on standard error, answers on standard output.

use super::{
    escape::plain,
    printer::say,
    progress::{wrapped, wrapped_at},
    terminal::columns_of_messages,
};
use anyhow::{Context, Result};
use forebay::standard;
use forebay_net::units::counted;
use std::{fmt::Display, io, io::Write};

/// Prints lines on standard output, with foreign text made safe. A reader that left is not an error.
///
/// # Errors
/// It cannot be written, for any other reason.
pub fn answer(text: &str) -> Result<()> {
    let safe = |line: &str| line.split('\t').map(plain).collect::<Vec<_>>().join("\t");
    let lines: Vec<_> = text.split('\n').map(safe).collect();
    match standard::output()?.write_all(lines.join("\n").as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output cannot be written")
        }
        _ => Ok(()),
    }
}

pub fn packets(count: u64) -> String {
    counted(count, "packet", "packets")
}

/// The counts that are not 0, each with what was counted: `3 too long`.
pub fn some_of(counts: &[(u64, &str)]) -> Vec<String> {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}"))
        .collect()
}

/// Prints `forebay: TEXT` on standard error.
pub fn note(text: impl Display) {
    say_fitted(&format!("forebay: {text}"));
}

/// Prints a line for people on standard error, on several lines if it is too long for the terminal, or for 80 columns without one.
pub fn say_wrapped(text: &str) {
    match columns_of_messages() {
        Some(_) => say_fitted(text),
        None => wrapped(text).iter().for_each(|line| say(line)),
    }
}

/// Prints a line on standard error, on several lines if it is too long for the terminal. A program gets it as it is, and marks that point
/// into a line stay below it.
pub fn say_fitted(text: &str) {
    let Some(columns) = columns_of_messages().filter(|_| !text.contains('\n')) else {
        return say(text);
    };
    let words = text.trim_start_matches(' ');
    let indent = &text[..(text.len() - words.len()).min(columns / 2)];
    for line in wrapped_at(words, columns - indent.len(), "  ") {
        say(&format!("{indent}{line}"));
    }
}

/// The same with `forebay: ` before it.
pub fn note_wrapped(text: impl Display) {
    say_wrapped(&format!("forebay: {text}"));
}

/// Prints `forebay: warning: TEXT` on standard error.
pub fn warning(text: impl Display) {
    note(format_args!("warning: {text}"));
}

/// Prints `forebay: error: TEXT` on standard error.
pub fn error(text: impl Display) {
    note(format_args!("error: {text}"));
}

/// An error with its causes, in one line. An error of the library already contains its causes.
pub fn causes(error: &anyhow::Error) -> String {
    let mut texts = Vec::new();
    for cause in error.chain() {
        texts.push(cause.to_string());
        if cause.is::<forebay::Error>() {
            break;
        }
    }
    texts.join(": ")
}
