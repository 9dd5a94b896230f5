//! `forebay control` and `forebay trigger`: one request to a running capture, and its answer.

pub mod place;
mod text;

use crate::{
    args::{self, Control as Flags, ControlCommand, Trigger},
    output,
    sandbox::{self, Needs},
};
use anyhow::{Context, Result, bail};
use rustix::net::{SendFlags, send, sockopt};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, ErrorKind},
    os::fd::AsFd,
    process::ExitCode,
    time::Duration,
};

/// The longest wait for an answer that does not depend on the end of the capture.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a running capture.
pub struct Client {
    socket: BufReader<File>,
    name: String,
}

impl Client {
    /// Connects to the capture of this name.
    ///
    /// # Errors
    /// No capture answers there.
    pub fn new(name: &OsStr) -> Result<Client> {
        let socket = place::reach(&place::find(name)?)?;
        Ok(Client {
            socket: BufReader::new(socket.into()),
            name: name.to_string_lossy().into(),
        })
    }

    /// Sends a command and waits for the answer: for `stop` as long as the capture takes to end.
    ///
    /// # Errors
    /// The capture rejects the command, or does not answer.
    pub fn ask(&mut self, command: &str) -> Result<Value> {
        let name = &self.name;
        let patience = (command != "stop").then_some(PATIENCE);
        let socket = self.socket.get_ref();
        sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, patience)
            .context("a socket cannot be prepared")?;
        let request = format!("{}\n", json!({ "command": command }));
        let sent = send(socket.as_fd(), request.as_bytes(), SendFlags::NOSIGNAL);
        sent.with_context(|| format!("{name}: the capture takes no request"))?;
        let mut line = String::new();
        match self.socket.read_line(&mut line) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("{name}: the capture does not answer")
            }
            read => read.with_context(|| format!("{name}: the answer cannot be read"))?,
        };
        if line.is_empty() {
            bail!("{name}: the capture ended without an answer");
        }
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("{name}: not an answer"))?;
        match answer["ok"] == true {
            true => Ok(answer),
            false => bail!("{name}: {}", answer["error"].as_str().unwrap_or("failed")),
        }
    }
}

pub fn run(flags: &Flags) -> Result<ExitCode> {
    let command = match flags.command {
        ControlCommand::Status => "status",
        ControlCommand::Stop => "stop",
        ControlCommand::Rotate => "rotate",
        ControlCommand::Flush => "flush",
        ControlCommand::Trigger => "trigger",
    };
    request(&flags.name, command, flags.json, &flags.sandbox)
}

pub fn trigger(flags: &Trigger) -> Result<ExitCode> {
    request(&flags.name, "trigger", flags.json, &flags.sandbox)
}

fn request(name: &OsStr, command: &str, is_json: bool, flags: &args::Sandbox) -> Result<ExitCode> {
    let mut client = Client::new(name)?;
    sandbox::enter(flags, &Needs::default());
    let answer = client.ask(command)?;
    let counts = [&answer["status"], &answer["summary"]];
    let counts = counts.into_iter().find(|counts| counts.is_object());
    let shown = match counts {
        _ if is_json => output::json(counts.unwrap_or(&answer)) + "\n",
        Some(counts) => text::status(counts),
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
