//! The roles of our processes, given as JSON on the command line of this program. They end with their standard input.

use super::burst::Burst;
use crate::method::{
    process::{Fate, Running, in_role},
    processors::processors,
};
use anyhow::Result;
use forebay_net::session::Control;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    stdio::stdin,
};
use serde::{Deserialize, Serialize};
use std::{io::Read, path::PathBuf, process::Stdio, thread, time::Duration};

/// What each side gets of the kernel's memory.
pub const RING_BYTES: u32 = 64 << 20;

/// A process of ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Makes these folders, and removes them at the end.
    Keep { folders: Vec<PathBuf> },
    /// Holds the network.
    Hold,
    /// Sends these bursts over and over, for this time: `rate` frames a second, or as many as possible.
    Send {
        bursts: Vec<Burst>,
        rate: Option<f64>,
        time: Duration,
    },
    /// Walks the kernel's ring, and drops all.
    Walk,
    /// Captures from a port until it has `count` packets or its input ends; to a file, or only counts.
    Capture {
        port: String,
        file: Option<PathBuf>,
        count: Option<u64>,
    },
    /// Receives frames that were to arrive with these gaps, until its input ends.
    Receive { gap_ns: Option<f64> },
    /// Sends this number of frames of a file, over and over.
    Replay {
        port: String,
        file: PathBuf,
        rate: Option<u64>,
        count: u64,
    },
    /// Sends generated frames.
    Generate { port: String, spec: String },
}

/// Starts a process that plays `role` and ends with this one, cleaning up, and waits until it is ready.
pub fn keeper(name: &str, role: &Role) -> Result<Running> {
    let mut command = in_role("wire", role)?;
    command.stdin(Stdio::piped());
    let mut keeper = Running::start(name, command, None, &processors()?, Fate::CleansUp)?;
    keeper.hear("ready", Duration::from_secs(20))?;
    Ok(keeper)
}

/// Stops the session of `control` when the standard input ends.
pub fn stop_at_end_of_input(control: Control) {
    thread::spawn(move || {
        wait_for_end_of_input();
        control.stop();
    });
}

/// Returns when the standard input ends: we are asked to end, or the process that started us has ended.
pub fn wait_for_end_of_input() {
    let mut rest = Vec::new();
    // Where it cannot be read it has ended.
    let _ = std::io::stdin().read_to_end(&mut rest);
}

/// Whether that has happened.
pub fn has_input_ended() -> bool {
    let stdin = stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
    poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
