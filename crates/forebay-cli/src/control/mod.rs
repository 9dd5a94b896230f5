//! `forebay control` and `forebay trigger`: one request to a running capture, and its answer.

mod client;
mod done;
mod list;
pub mod place;
mod text;

pub use client::Client;

use crate::{
    args::{self, Control as Flags, ControlCommand, Trigger},
    output,
    sandbox::{self, Needs},
};
use anyhow::{Result, bail};
use serde_json::Value;
use std::{ffi::OsStr, process::ExitCode};

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let command = match flags.command {
        ControlCommand::Status => "status",
        ControlCommand::Stop => "stop",
        ControlCommand::Rotate => "rotate",
        ControlCommand::Flush => "flush",
        ControlCommand::Trigger => "trigger",
    };
    match &flags.name {
        Some(name) => request(name, command, flags.json, &flags.sandbox),
        None => list::run(flags),
    }
}

pub fn trigger(flags: &Trigger) -> Result<ExitCode> {
    request(&flags.name, "trigger", flags.json, &flags.sandbox)
}

fn request(name: &OsStr, command: &str, is_json: bool, flags: &args::Sandbox) -> Result<ExitCode> {
    let mut client = Client::new(name)?;
    sandbox::enter(flags, &Needs::default());
    let before = match command {
        "rotate" | "flush" if !is_json => client.ask("status")?["status"].take(),
        _ => Value::Null,
    };
    let answer = client.ask(command)?;
    let counts = [&answer["status"], &answer["summary"]];
    let counts = counts.into_iter().find(|counts| counts.is_object());
    let shown = match counts {
        _ if is_json => output::json(counts.unwrap_or(&answer)) + "\n",
        Some(counts) => text::status(counts),
        None if before.is_object() => done::described(&mut client, command, &before)?,
        None if command == "trigger" => {
            "triggered: the capture prints the name of the file\n".into()
        }
        None => String::new(),
    };
    output::answer(&shown)?;
    let summary = &answer["summary"];
    // Captures of older versions do not report an exit code.
    let has_failed = summary["law_holds"] == false || summary["error"].is_string();
    match (answer["exit_code"].as_u64()).unwrap_or_else(|| has_failed.into()) {
        1 if summary["law_holds"] == false => bail!("the packet counts do not add up"),
        1 => {
            let error = summary["error"].as_str();
            bail!(
                "{}",
                error.unwrap_or("the capture failed. It printed the reason")
            )
        }
        code => Ok(ExitCode::from(code as u8)),
    }
}
