//! `forebay capture` as `forebay_net` has it, in a separate process.

use super::roles::{RING_BYTES, stop_at_end_of_input};
use crate::method::process::tell;
use anyhow::{Result, bail};
use forebay_net::{
    open::{self, Options},
    session::{Control, Output, Session, SessionConfig},
};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Instant};

/// What became of a capture.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Captured {
    /// Packets in the file, or counted.
    pub kept: u64,
    /// Packets that were lost before.
    pub dropped: u64,
    /// From the first look to the file's end.
    pub seconds: f64,
    /// Processor time of all threads.
    pub cpu_seconds: f64,
}

/// Captures from a port until it has `count` packets or its standard input ends, and reports the result.
pub fn capture(port: &str, file: Option<PathBuf>, count: Option<u64>) -> Result<()> {
    let names = [port.parse()?];
    let clock = open::clock(&names)?;
    let options = Options {
        ring_bytes: (!port.starts_with("sim")).then_some(u64::from(RING_BYTES)),
        ..Options::default()
    };
    let ports = open::ports(&names, &options, &clock)?;
    let config = SessionConfig {
        count,
        ..SessionConfig::default()
    };
    let control = Control::new()?;
    let output = file.map_or(Output::Count, Output::File);
    let session = Session::open(ports, output, config, clock, control.clone())?;
    if count.is_none() {
        stop_at_end_of_input(control);
    }
    println!("ready");
    let begun = Instant::now();
    let summary = session.run(&mut |_| {});
    let seconds = begun.elapsed().as_secs_f64();
    if !summary.is_fine() {
        bail!("{summary:?}");
    }
    tell(&Captured {
        kept: summary.ledger.written + summary.ledger.counted,
        dropped: summary.ledger.dropped.known(),
        seconds,
        cpu_seconds: summary.cpu.as_secs_f64(),
    })
}
