//! One capture of a load, from its start to its end: what it lost, and the processor time of its steady state.

use super::{burst::Burst, lab::Lab, roles::Role, send::Sent, sides::CaptureSide};
use crate::method::{
    process::{Fate, Running, in_role},
    processors::{Cpus, pair},
};
use anyhow::{Context, Result, anyhow, bail};
use forebay_net::info::Info;
use std::{
    fs,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// How long a process may take for anything.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a program may take to write what it has received. RFC 2544 waits two seconds for the last frames.
const SETTLING: Duration = Duration::from_secs(5);

/// A program that has done nothing for this long has written all that it received.
const IDLE: Duration = Duration::from_millis(100);

/// How often a trial checks for that.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The network and two processors, or why one of them is missing.
pub fn ready(lab: &Result<Lab>) -> Result<(&Lab, Cpus)> {
    let lab = lab.as_ref().map_err(|why| anyhow!("{why:#}"))?;
    Ok((lab, pair()?))
}

/// What is sent.
#[derive(Clone, Debug)]
pub struct Load {
    pub bursts: Vec<Burst>,
    /// Frames a second; `None`: as many as possible.
    pub rate: Option<f64>,
    /// Frames for this time come first. Their cost does not count.
    pub warm_up: Duration,
    pub time: Duration,
}

/// What became of them.
pub struct Taken {
    /// Processor time for each frame in the file, without the warm-up.
    pub ns_per_packet: f64,
    /// Frames sent, and not in the file, warm-up included.
    pub lost: u64,
    pub lost_percent: f64,
    /// Without the warm-up.
    pub sent: Sent,
}

/// Captures the load into a file in `folder`, counts the frames in it, and removes it.
pub fn run(side: &CaptureSide, lab: &Lab, cpus: Cpus, load: &Load, folder: &Path) -> Result<Taken> {
    let file = folder.join("captured");
    let command = lab.inside(side.command(&file)?);
    let mut running = Running::start(side.name, command, None, &[cpus.1], Fate::Dies)?;
    running.hear(side.ready, LIMIT)?;
    let warm_up = match load.warm_up.is_zero() {
        true => 0,
        false => {
            let sent = send(lab, cpus.0, load, load.warm_up)?;
            settle(&running, side, &file)?;
            sent.frames
        }
    };
    let before = running.cpu_ns()?;
    let sent = send(lab, cpus.0, load, load.time)?;
    settle(&running, side, &file)?;
    let spent = running.cpu_ns()? - before;
    side.end(&mut running);
    let ended = running.wait(LIMIT)?;
    let kept = match side.writes() {
        true => {
            let kept = packets_in(&file);
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
            kept?
        }
        false => ended.result()?,
    };
    let all = warm_up + sent.frames;
    if kept == 0 || kept > all {
        let lines: Vec<_> = ended.said.split_whitespace().collect();
        bail!("{kept} packets of {all}: {}", lines.join(" "));
    }
    let part = kept as f64 / all as f64;
    Ok(Taken {
        ns_per_packet: spent as f64 / (part * sent.frames as f64),
        lost: all - kept,
        lost_percent: 100.0 * (1.0 - part),
        sent,
    })
}

/// Sends the load for this time, also without a capture.
pub fn send(lab: &Lab, cpu: usize, load: &Load, time: Duration) -> Result<Sent> {
    let role = Role::Send {
        bursts: load.bursts.clone(),
        rate: load.rate,
        time,
    };
    let mut command = in_role("wire", &role)?;
    command.stdin(Stdio::null());
    let sender = lab.inside(command);
    Running::start("the sender", sender, None, &[cpu], Fate::Dies)?
        .wait(LIMIT)?
        .result()
}

/// Waits until the kernel has handed over the last frames, and the program has neither worked nor made its file longer since.
fn settle(running: &Running, side: &CaptureSide, file: &Path) -> Result<()> {
    let len = || fs::metadata(file).map_or(0, |file| file.len()); // there may be no file
    let begun = Instant::now();
    let (mut last, mut idle_since) = (len(), begun);
    while begun.elapsed() < SETTLING {
        thread::sleep(LOOK_EVERY);
        let now = len();
        if now != last || running.has_work()? {
            idle_since = Instant::now();
        }
        if begun.elapsed() > side.holds + IDLE && idle_since.elapsed() > IDLE {
            break;
        }
        last = now;
    }
    Ok(())
}

fn packets_in(file: &Path) -> Result<u64> {
    let info = Info::of(file)?;
    match info.error {
        Some(error) => Err(error.into()),
        None => Ok(info.all.packets),
    }
}
