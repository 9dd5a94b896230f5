//! The command `forebay`: parses, runs, prints, exits. All work is done in `forebay-net`.
//!
//! `args` are the flags. `capture` is the subcommand that everything is about: its `request` turns
//! flags into what the library wants, `text` and `json` turn what it answers into lines, `signals`
//! bring Ctrl-C and its relatives in. `info` tells what files hold. `output` is where both write.
//!
//! Exit codes: 0 fine, 1 something broke at run time, 2 the request makes no sense, 3 packets were
//! lost and `--fail-on-drop` was given.
#![forbid(unsafe_code)]

mod args;
mod capture;
mod info;
mod output;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers; a pipe that nobody reads is no failure.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let ran = match args.command {
        args::Command::Capture(flags) => capture::run(&flags),
        args::Command::Info(flags) => info::run(&flags),
    };
    match ran {
        Ok(code) => code,
        Err(error) => {
            output::say(&format!("forebay: {error:#}"));
            ExitCode::from(if error.is::<capture::Usage>() { 2 } else { 1 })
        }
    }
}
