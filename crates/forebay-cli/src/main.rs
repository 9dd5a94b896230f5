//! The command `forebay`: parses, runs, prints, exits. All work is done in `forebay-net`.
//!
//! `forebay_args` holds the flags. `capture` and `pipe` have a `request` that turns flags into the library's configuration. `sending` is
//! what `replay` and `generate` share. `signals` handles Ctrl-C and other signals, `privileges` drops capabilities, `sandbox` gives up files
//! and system calls that are not needed any more, `output` prints everything, `print` turns packets into text, `usage` rejects
//! requests, `completion` answers shells, and `habit` recognises command lines of other programs.
//!
//! Exit codes: 0 success, 1 failure at run time, 2 bad request, 3 packets were lost, with `--fail-on-drop` or in `verify`, or `replay`
//! could not send some, 4 the capture ended because of
//! `--keep-free`.
#![forbid(unsafe_code)]

mod archive;
mod bridge;
mod capture;
mod completion;
mod control;
mod counts;
mod doctor;
mod extcap;
mod flow;
mod flows;
mod generate;
mod get;
mod habit;
mod info;
mod interfaces;
mod listening;
mod manual;
mod notify;
mod output;
mod pipe;
mod print;
mod privileges;
mod queue;
mod records;
mod repair;
mod replay;
mod sandbox;
mod sending;
mod shares;
mod signals;
mod top;
mod usage;
mod verify;
mod with;

use forebay_args as args;
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = capture::helper() {
        return code;
    }
    if let Some(code) = completion::answer() {
        return code;
    }
    if let Some(code) = archive::delegate() {
        return code;
    }
    let args = match args::parse(args::words()) {
        Ok(args) => args,
        Err(error) if error.use_stderr() => {
            usage::print();
            return ExitCode::from(2);
        }
        Err(help) => {
            // Help and version are results; a pipe that nobody reads is not a failure.
            let _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let ready = privileges::reject_setuid().and_then(|()| privileges::keep_for(&args.command));
    let ready = ready.and_then(|()| signals::survive_the_file_size_limit());
    let code = match ready.and_then(|()| run(args.command)) {
        Ok(code) => code,
        Err(error) => {
            output::error(output::causes(&error));
            usage::exit_code(&error)
        }
    };
    match output::finish() {
        true => code,
        false => ExitCode::FAILURE,
    }
}

fn run(command: args::Command) -> anyhow::Result<ExitCode> {
    match command {
        args::Command::Capture(flags) => capture::run(*flags),
        args::Command::Control(flags) => control::run(&flags),
        args::Command::Trigger(flags) => control::trigger(&flags),
        args::Command::Bridge(flags) => bridge::run(&flags),
        args::Command::Doctor(flags) => doctor::run(&flags),
        args::Command::Interfaces(flags) => interfaces::run(&flags),
        args::Command::Top(flags) => top::run(&flags),
        args::Command::Generate(flags) => generate::run(&flags),
        args::Command::Verify(flags) => verify::run(&flags),
        args::Command::Shares(flags) => shares::run(&flags),
        args::Command::Info(flags) => info::run(&flags),
        args::Command::Flows(flags) => flows::run(&flags),
        args::Command::Get(flags) => get::run(&flags),
        args::Command::Queue(flags) => queue::run(&flags),
        args::Command::Records(flags) => records::run(&flags),
        args::Command::Repair(flags) => repair::run(&flags),
        args::Command::Replay(flags) => replay::run(&flags),
        args::Command::Pipe(flags) => pipe::run(&flags),
        args::Command::With(flags) => with::run(&flags),
        args::Command::Extcap(flags) => extcap::run(&flags),
        args::Command::Man(flags) => manual::man(&flags),
        args::Command::Completions(flags) => completion::script(&flags),
    }
}
