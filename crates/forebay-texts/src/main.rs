//! `forebay-texts`: measures the code of five source texts (docs/background.md), other crates and forebay side by side in one run, and
//! writes the report on the texts' claims.
//!
//! Each module returns the tables of one subject. The crate `forebay-bench` has how things are measured, and the subjects that the texts
//! share with what ships.

mod append;
mod descriptor;
mod header;
mod mirror;
mod report;
mod subjects;

use anyhow::Result;
use clap::Parser;
use forebay_bench::{
    measure::{self, Flags},
    method::process::ROLE,
};
use std::{ffi::OsString, process::ExitCode};
use subjects::Subject;

/// Measure the code of the five source texts beside forebay and others: alternating samples, medians and ratios.
/// `forebay-texts report` writes a page on the texts' claims: see `forebay-texts report --help`.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// What to measure
    #[arg(value_enum, required = true)]
    subjects: Vec<Subject>,

    #[command(flatten)]
    flags: Flags,
}

fn run() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == ROLE => forebay_bench::play(args),
        Some(first) if first == "report" => report::main(
            [OsString::from("forebay-texts report")]
                .into_iter()
                .chain(args),
        ),
        _ => {
            let args = Args::parse();
            measure::measure(&args.subjects, &args.flags)
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-texts: {error:#}");
            ExitCode::FAILURE
        }
    }
}
