//! `-D`: what can be captured from.

use anyhow::Result;
use std::process::ExitCode;

pub fn print() -> Result<ExitCode> {
    println!("sim  simulated card, no privileges needed; see forebay capture --help");
    Ok(ExitCode::SUCCESS)
}
