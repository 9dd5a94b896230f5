//! Standard output and standard error, and text that is safe to show there.

use anyhow::{Context, Result};
use std::{borrow::Cow, io, io::Write};

/// A line on standard error. Where nobody can read it, the work goes on all the same.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Text on standard output. A reader that went away has read what it wanted.
///
/// # Errors
/// It cannot be written, for any other reason.
pub fn answer(text: &str) -> Result<()> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output cannot be written")
        }
        _ => Ok(()),
    }
}

/// An error with its causes, in one line. One of the library has told of its own already.
pub fn told(error: &anyhow::Error) -> String {
    let mut texts = Vec::new();
    for cause in error.chain() {
        texts.push(cause.to_string());
        if cause.is::<forebay::Error>() {
            break;
        }
    }
    texts.join(": ")
}

/// Text out of a file, without what would move a cursor or begin a line.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut shown = String::new();
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown.into()
}
