//! The capturing programs: how each is started, when it listens, how it is ended, and what it kept.

use super::{CAPTURED, RING_BYTES, roles::Role};
use crate::method::process::{Running, in_role, program};
use anyhow::Result;
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// One of those compared.
pub struct Side {
    pub name: &'static str,
    /// What it says when it listens.
    pub ready: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Forebay,
    Walk,
    Tcpdump,
    Dumpcap,
    Netsniff,
}

/// Ours first, the limit last.
pub const SIDES: [Side; 5] = [
    Side::of("forebay", Kind::Forebay, "ready"),
    Side::of("tcpdump", Kind::Tcpdump, "listening on"),
    Side::of("dumpcap", Kind::Dumpcap, "File:"),
    Side::of("netsniff-ng", Kind::Netsniff, "Running!"),
    Side::of(
        "limit: the ring walked, nothing written",
        Kind::Walk,
        "ready",
    ),
];

impl Side {
    const fn of(name: &'static str, kind: Kind, ready: &'static str) -> Side {
        Side { name, ready, kind }
    }

    /// Whether it is another project's.
    pub fn is_rival(&self) -> bool {
        !matches!(self.kind, Kind::Forebay | Kind::Walk)
    }

    /// Whether it writes what it sees.
    pub fn writes(&self) -> bool {
        self.kind != Kind::Walk
    }

    /// The program, if it is one of the system's.
    pub fn program(&self) -> Option<Result<Command>> {
        match self.kind {
            Kind::Tcpdump => Some(program("tcpdump", "tcpdump")),
            Kind::Dumpcap => Some(program("dumpcap", "wireshark-common")),
            Kind::Netsniff => Some(program("netsniff-ng", "netsniff-ng")),
            Kind::Forebay | Kind::Walk => None,
        }
    }

    /// It, capturing into `file`.
    pub fn command(&self, file: &Path) -> Result<Command> {
        let mut command = match (self.program(), self.kind) {
            (Some(program), _) => program?,
            (None, Kind::Walk) => in_role("wire", &Role::Walk)?,
            (None, _) => {
                let role = Role::Capture {
                    port: format!("packet:{CAPTURED}"),
                    file: Some(file.into()),
                    count: None,
                };
                in_role("wire", &role)?
            }
        };
        let mebibytes = RING_BYTES >> 20;
        match self.kind {
            // As root it would become another user before it writes.
            Kind::Tcpdump => command
                .args(["-i", CAPTURED, "-n", "-Z", "root", "-B"])
                .arg((RING_BYTES >> 10).to_string())
                .arg("-w")
                .arg(file),
            Kind::Dumpcap => command
                .args(["-i", CAPTURED, "-q", "-B"])
                .arg(mebibytes.to_string())
                .arg("-w")
                .arg(file),
            Kind::Netsniff => command
                .args(["-i", CAPTURED, "-s", "--ring-size"])
                .arg(format!("{mebibytes}MiB"))
                .arg("-o")
                .arg(file),
            Kind::Forebay | Kind::Walk => &mut command,
        };
        command.stdin(if self.is_rival() {
            Stdio::null()
        } else {
            Stdio::piped()
        });
        Ok(command)
    }

    /// Asks it to end.
    pub fn end(&self, running: &mut Running) {
        match self.is_rival() {
            true => running.interrupt(),
            false => running.end_input(),
        }
    }
}
