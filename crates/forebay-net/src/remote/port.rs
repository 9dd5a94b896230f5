//! The running ssh, and its output as a port.

use super::{
    command::{self, Asked},
    target::Target,
};
use crate::{
    file::File,
    format::read::Kind,
    port::{Burst, Counts, Interface, Port, PortInfo, Wake},
};
use forebay::{Error, Result, error::Code, time::Clock};
use std::{
    os::fd::OwnedFd,
    process::{Child, ChildStdin, ExitStatus, Stdio},
};

/// How often the end of ssh is looked for, once it has closed its output or was stopped.
const POLL_NS: u64 = 10_000_000;
/// How long the counts of a stopped capture may take to arrive.
const PATIENCE_NS: u64 = 5_000_000_000;

/// A started ssh. Nothing was read from it yet.
pub struct Connection {
    name: String,
    target: Target,
    child: Child,
    /// The capture there ends when this is closed.
    input: ChildStdin,
    output: OwnedFd,
    clock: Clock,
}

impl Connection {
    /// Starts ssh, which captures packets that match `filter`. ssh may ask for passwords on the terminal.
    ///
    /// # Errors
    /// There is no ssh, or the filter has control characters.
    pub fn start(target: &Target, filter: &str, asked: Asked, clock: &Clock) -> Result<Connection> {
        let name = target.to_string();
        let mut ssh = command::ssh(target, filter, asked)?;
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error| Error::new(&name, "starting ssh").because(error);
        let mut child = ssh.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(&name, "starting ssh: it has no pipes"));
        };
        Ok(Connection {
            target: target.clone(),
            clock: clock.clone(),
            output: output.into(),
            name,
            child,
            input,
        })
    }

    /// Waits for the beginning of the packets: the description of the first interface.
    ///
    /// # Errors
    /// ssh or the capture there failed, and has printed why.
    pub fn attach(self) -> Result<Remote> {
        let Connection {
            name,
            target,
            mut child,
            input,
            output,
            clock,
        } = self;
        match File::from_stream(output.into(), &name) {
            Ok(file) => Ok(Remote {
                file,
                name,
                child,
                input: Some(input),
                clock,
                deadline: None,
                seen: 0,
                has_ended: false,
            }),
            Err(error) => {
                drop(input);
                match child.wait() {
                    Ok(status) if !status.success() => Err(failure(&name, &target, status)),
                    _ => Err(error),
                }
            }
        }
    }
}

/// ssh's own code, and that of a shell that finds no program.
fn failure(name: &str, target: &Target, status: ExitStatus) -> Error {
    let (what, advice) = match status.code() {
        Some(255) => (
            "ssh cannot connect",
            format!("It printed why. Try: ssh {} true", target.words()),
        ),
        Some(127) => (
            "the program that captures is not installed there",
            format!(
                "Name the other one: {0},with=tcpdump or {0},with=forebay",
                target.source()
            ),
        ),
        _ => ("the capture there has failed", "It printed why".to_owned()),
    };
    Error::new(name, what)
        .of_kind(std::io::ErrorKind::NotConnected)
        .advise(advice)
}

/// A port that reads the packets of another machine ([`remote`](super)).
pub struct Remote {
    file: File,
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    clock: Clock,
    /// When to stop waiting for the end of ssh.
    deadline: Option<u64>,
    /// Packets up to the last of them after the stop.
    seen: u64,
    has_ended: bool,
}

impl Remote {
    /// The drops that packets or, at the end, the statistics record; `None`: the format has no place for them.
    fn dropped(&self) -> Option<u64> {
        if self.file.kind() == Kind::Pcap {
            return None;
        }
        let known = self.file.report().file_statistics.iter();
        let at_end = known.map(|it| it.and_then(|it| it.dropped).unwrap_or(0));
        let marked = |number| self.file.recorded_drops(number);
        let each = at_end
            .enumerate()
            .map(|(number, dropped)| dropped.max(marked(number)));
        Some(each.fold(0, u64::saturating_add))
    }

    /// After the last packet: whether ssh has ended, and well.
    fn ended(&mut self) -> Result<Wake<'_>> {
        let was_stopped = self.input.is_none();
        let now = self.clock.now();
        let deadline = *self.deadline.get_or_insert(now + PATIENCE_NS);
        match self.child.try_wait() {
            Ok(None) if now < deadline => return Ok(Wake::At(now + POLL_NS)),
            Ok(Some(status)) if status.code() == Some(255) || !status.success() && !was_stopped => {
                self.has_ended = true;
                let what = match status.code() {
                    Some(255) => "the connection was lost",
                    _ => "the capture there has failed",
                };
                return Err(Error::new(&self.name, what)
                    .of_kind(std::io::ErrorKind::NotConnected)
                    .advise("All packets that arrived are read"));
            }
            _ => {}
        }
        self.has_ended = true;
        Ok(Wake::End)
    }
}

impl Port for Remote {
    fn interfaces(&self) -> &[Interface] {
        self.file.interfaces()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.file.receive(budget)
    }

    fn arm(&mut self) -> Result<Wake<'_>> {
        if self.has_ended {
            return Ok(Wake::End);
        }
        let now = self.clock.now();
        let is_stopped = self.input.is_none();
        let received = self.file.counts().received;
        // After each packet that was under way, the next one has its time.
        if is_stopped && received != self.seen {
            self.seen = received;
            self.deadline = Some(now + PATIENCE_NS);
        }
        let is_at_end = match self.file.arm()? {
            Wake::End => true,
            Wake::Fd(_) => false,
            Wake::Ready | Wake::At(_) => return Ok(Wake::Ready),
        };
        if is_at_end {
            return self.ended();
        }
        if !is_stopped {
            return self.file.arm();
        }
        if self.deadline.is_some_and(|end| now >= end) {
            self.has_ended = true;
            let error = Error::coded(
                Code::TimedOut,
                &self.name,
                "the other machine does not answer",
            );
            return Err(error.advise("What it lost at the end is unknown"));
        }
        Ok(Wake::At(now + POLL_NS))
    }

    /// Ends the capture there. The packets that are under way, and its counts, still arrive.
    fn stop(&mut self) -> Result<()> {
        if self.input.take().is_some() {
            self.deadline = Some(self.clock.now() + PATIENCE_NS);
        }
        Ok(())
    }

    /// With the losses of the capture there, which are complete when it has ended.
    fn counts(&mut self) -> Counts {
        let dropped = self.dropped();
        let known = self.file.report().file_statistics;
        let missed = known
            .iter()
            .map(|it| it.and_then(|it| it.interface_dropped));
        let missed = missed
            .reduce(|sum, one| Some(sum?.saturating_add(one?)))
            .flatten();
        Counts {
            received: self
                .file
                .counts()
                .received
                .saturating_add(dropped.unwrap_or(0)),
            dropped,
            interface_dropped: missed,
            filtered: Some(0),
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "ssh",
            copy: "read",
            waits: true,
            timestamps: "the other machine's",
            ..PortInfo::default()
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Its end, too, ends ssh. Otherwise it stays until this process ends.
        drop(self.input.take());
        let _ = self.child.try_wait();
    }
}
