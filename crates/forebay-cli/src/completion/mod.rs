//! Completes command lines for shells. Their scripts run `forebay __complete WORD…` at each Tab, so that interfaces, shares and
//! running captures are those of this moment.
//!
//! It prints one candidate a line, with a description after a tab. Exit code 3: names of files are candidates, too.

mod candidates;

use crate::{
    args::{self, Completions},
    output, privileges,
};
use anyhow::Result;
use candidates::Candidates;
use clap_complete::Shell;
use std::process::ExitCode;

/// The first argument of the scripts.
const COMPLETE: &str = "__complete";
/// Exit code: complete names of files, too.
const AND_FILES: u8 = 3;

/// Answers the script of a shell, if the first argument asks for that.
pub fn answer() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != COMPLETE {
        return None;
    }
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let ready = privileges::reject_setuid().and_then(|()| privileges::drop_all());
    if ready.is_err() {
        return Some(ExitCode::FAILURE);
    }
    let found = Candidates::of(&args::command(), &words);
    let lines = found
        .list
        .iter()
        .map(|(word, about)| match about.is_empty() {
            true => format!("{word}\n"),
            false => format!("{word}\t{about}\n"),
        });
    let printed = output::answer(&lines.collect::<String>());
    Some(match (printed, found.files) {
        (Err(_), _) => ExitCode::FAILURE,
        (Ok(()), true) => ExitCode::from(AND_FILES),
        (Ok(()), false) => ExitCode::SUCCESS,
    })
}

/// Prints the completion script for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn script(flags: &Completions) -> Result<ExitCode> {
    let own = match flags.shell {
        Shell::Bash => include_str!("forebay.bash"),
        Shell::Zsh => include_str!("forebay.zsh"),
        Shell::Fish => include_str!("forebay.fish"),
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut args::command(), "forebay", &mut script);
            output::answer(&String::from_utf8_lossy(&script))?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    output::answer(own)?;
    Ok(ExitCode::SUCCESS)
}
