//! The capturing programs: how each is started, when it listens, how it is ended, and what it kept.

use super::{
    lab::CAPTURED,
    roles::{RING_BYTES, Role},
};
use crate::method::process::{Running, in_role, program};
use anyhow::{Result, bail};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// One of those compared.
pub struct CaptureSide {
    pub name: &'static str,
    /// What it says when it listens.
    pub ready: &'static str,
    /// How long the kernel holds frames back for it, because a block of its ring is not full.
    pub holds: Duration,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Ours over AF_PACKET.
    Packet,
    /// Ours with XDP, in this mode.
    Xdp(&'static str),
    Walk,
    Tcpdump,
    Dumpcap,
    Netsniff,
    Xdpdump,
}

const FOREBAY: CaptureSide = CaptureSide::of("forebay", Kind::Packet, "ready", 100);
const NATIVE: CaptureSide = CaptureSide::of("forebay xdp native", Kind::Xdp("native"), "ready", 0);
const GENERIC: CaptureSide =
    CaptureSide::of("forebay xdp generic", Kind::Xdp("generic"), "ready", 0);
/// Copies frames before the stack, as xdpdump does.
const PASSING: CaptureSide =
    CaptureSide::of("forebay xdp pass", Kind::Xdp("native,pass=yes"), "ready", 0);
const TCPDUMP: CaptureSide = CaptureSide::of("tcpdump", Kind::Tcpdump, "listening on", 1000);
const DUMPCAP: CaptureSide = CaptureSide::of("dumpcap", Kind::Dumpcap, "File:", 250);
const NETSNIFF: CaptureSide = CaptureSide::of("netsniff-ng", Kind::Netsniff, "Running!", 100);
/// It has no ring to size: the kernel passes frames to it by perf events.
const XDPDUMP: CaptureSide = CaptureSide::of("xdpdump", Kind::Xdpdump, "listening on", 100);
const WALK: CaptureSide = CaptureSide::of(
    "limit: the ring walked, nothing written",
    Kind::Walk,
    "ready",
    100,
);

/// Ours first, the limit last. stenotype is none: it writes blocks of the kernel's ring that only its own server reads, so its packets cannot be
/// counted in the file.
pub const SIDES: [CaptureSide; 8] = [
    FOREBAY, NATIVE, PASSING, TCPDUMP, DUMPCAP, NETSNIFF, XDPDUMP, WALK,
];

/// All that write files, with every backend of ours.
pub const WRITERS: [CaptureSide; 6] = [FOREBAY, NATIVE, GENERIC, TCPDUMP, DUMPCAP, NETSNIFF];

impl CaptureSide {
    const fn of(name: &'static str, kind: Kind, ready: &'static str, holds_ms: u64) -> CaptureSide {
        CaptureSide {
            name,
            ready,
            holds: Duration::from_millis(holds_ms),
            kind,
        }
    }

    /// Whether it is another project's.
    pub fn is_rival(&self) -> bool {
        !matches!(self.kind, Kind::Packet | Kind::Xdp(_) | Kind::Walk)
    }

    /// Whether it is ours, with XDP.
    pub fn is_xdp(&self) -> bool {
        matches!(self.kind, Kind::Xdp(_))
    }

    /// Whether it writes what it sees.
    pub fn writes(&self) -> bool {
        self.kind != Kind::Walk
    }

    /// The program, if it is one of the system's.
    pub fn program(&self) -> Result<Command> {
        match self.kind {
            Kind::Tcpdump => program("tcpdump", "tcpdump"),
            Kind::Dumpcap => program("dumpcap", "wireshark-common"),
            Kind::Netsniff => program("netsniff-ng", "netsniff-ng"),
            Kind::Xdpdump => program("xdpdump", "xdp-tools"),
            Kind::Packet | Kind::Xdp(_) | Kind::Walk => bail!("it is this program"),
        }
    }

    /// It, capturing into `file`.
    pub fn command(&self, file: &Path) -> Result<Command> {
        let capture = |port| Role::Capture {
            port,
            file: Some(file.into()),
            count: None,
        };
        let mut command = match self.kind {
            Kind::Packet => in_role("wire", &capture(format!("packet:{CAPTURED}")))?,
            Kind::Xdp(mode) => in_role("wire", &capture(format!("xdp:{CAPTURED},mode={mode}")))?,
            Kind::Walk => in_role("wire", &Role::Walk)?,
            Kind::Tcpdump | Kind::Dumpcap | Kind::Netsniff | Kind::Xdpdump => self.program()?,
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
            // No program is there whose frames it could copy, so it loads one that passes all.
            Kind::Xdpdump => command
                .args(["-i", CAPTURED, "--load-xdp-program", "-w"])
                .arg(file),
            Kind::Packet | Kind::Xdp(_) | Kind::Walk => &mut command,
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
