//! The roles of our processes: produce, consume, `forebay pipe`, and the kernel's limits.
//!
//! A role is given as JSON on the command line of this program, and prints its result as JSON on standard error.
#![allow(unsafe_code)]

use crate::method::process::tell;
use anyhow::{Context, Result, bail};
use forebay_io::pipe::{Control, Existing, Input, Output, Pipe, PipeConfig, Place};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::{Errno, read, write},
    pipe::{IoSliceRaw, SpliceFlags, fcntl_setpipe_size, splice, vmsplice},
    stdio::{stdin, stdout},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{Seek, Write},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

/// Bytes that a consumer asks for, and a copy of ours.
pub const READS: usize = 128 << 10;

/// A pipe as large as everybody may have.
const LARGE: usize = 1 << 20;

/// What a process of ours is in a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Writes `bytes` bytes, `block` at a time; `large`: into a pipe of 1 MiB.
    Produce {
        bytes: u64,
        block: usize,
        large: bool,
    },
    /// Reads to the end, at most `rate` bytes in any second, and reports their number.
    Consume { rate: Option<u64> },
    /// Writes `count` bursts of `bytes` bytes at the interval `every`, and reports the milliseconds of each; into a file in
    /// memory, if `into_memory`.
    Bursts {
        count: usize,
        bytes: usize,
        every: Duration,
        into_memory: bool,
    },
    /// `forebay pipe -q -m 64M`, and without `splice` `-C`.
    Forebay { splice: bool },
    /// Reads and writes this number of bytes at a time, in pipes of 1 MiB.
    Copy { block: usize },
    /// Lends the pipe this number of bytes, the same ones over and over.
    Lend { bytes: u64 },
    /// Drops pages unseen, and reports the number of bytes.
    Discard,
}

/// Plays the role that `role` has as JSON.
pub fn play(role: &str) -> Result<()> {
    match serde_json::from_str(role).context("a role in a pipeline")? {
        Role::Produce {
            bytes,
            block,
            large,
        } => produce(bytes, block, large),
        Role::Consume { rate } => consume(rate),
        Role::Bursts {
            count,
            bytes,
            every,
            into_memory,
        } => bursts(count, bytes, every, into_memory),
        Role::Forebay { splice } => forebay(splice),
        Role::Copy { block } => copy(block),
        Role::Lend { bytes } => lend(bytes),
        Role::Discard => discard(),
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        bytes = &bytes[write(&to, bytes).context("writing")?..];
    }
    Ok(())
}

fn produce(bytes: u64, block: usize, large: bool) -> Result<()> {
    if large {
        fcntl_setpipe_size(stdout(), LARGE).context("asking for a pipe of 1 MiB")?;
    }
    let content = vec![7; block];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(block as u64);
        write_all(stdout(), &content[..len as usize])?;
        left -= len;
    }
    Ok(())
}

/// The lag that a consumer may make up for, because it oversleeps. Bytes that it missed in a longer pause are not made up for.
const BEHIND: Duration = Duration::from_millis(2);

fn consume(rate: Option<u64>) -> Result<()> {
    let mut buffer = vec![0; READS];
    let (mut taken, mut due) = (0, Instant::now());
    loop {
        let len = read(stdin(), &mut buffer[..]).context("reading")?;
        if len == 0 {
            return tell(&taken);
        }
        taken += len as u64;
        if let Some(rate) = rate {
            let now = Instant::now();
            if due + BEHIND < now {
                due = now;
            }
            due += Duration::from_secs_f64(len as f64 / rate as f64);
            thread::sleep(due.saturating_duration_since(now));
        }
    }
}

fn bursts(count: usize, bytes: usize, every: Duration, into_memory: bool) -> Result<()> {
    let burst = vec![7; bytes];
    let mut memory = File::from(memfd_create(c"bursts", MemfdFlags::CLOEXEC)?);
    if into_memory {
        memory.write_all(&burst)?; // its pages are there from now on
    }
    let begun = Instant::now();
    let mut took = Vec::with_capacity(count);
    for number in 0..count {
        let due = begun + every * number as u32;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let from = Instant::now();
        match into_memory {
            true => {
                memory.rewind()?;
                write_all(&memory, &burst)?;
            }
            false => write_all(stdout(), &burst)?,
        }
        took.push(from.elapsed().as_secs_f64() * 1e3);
    }
    tell(&took)
}

/// As the command does it.
fn forebay(splice: bool) -> Result<()> {
    let input = Input::open(&Place::Standard, &mut |_| {})?;
    let output = Output::open(&Place::Standard, Existing::Refuse, &mut |_| {})?;
    let config = PipeConfig {
        splice,
        ..PipeConfig::default()
    };
    let pipe = Pipe::open(vec![input], vec![output], config, Control::new()?)?;
    let summary = pipe.run(&mut |_| {});
    if !summary.is_fine() {
        bail!("{summary:?}");
    }
    Ok(())
}

fn copy(block: usize) -> Result<()> {
    for end in [stdin(), stdout()] {
        fcntl_setpipe_size(end, LARGE).context("asking for a pipe of 1 MiB")?;
    }
    let mut buffer = vec![0; block];
    loop {
        let len = read(stdin(), &mut buffer[..]).context("reading")?;
        if len == 0 {
            return Ok(());
        }
        write_all(stdout(), &buffer[..len])?;
    }
}

fn lend(bytes: u64) -> Result<()> {
    fcntl_setpipe_size(stdout(), LARGE).context("asking for a pipe of 1 MiB")?;
    let content = vec![7_u8; LARGE];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(LARGE as u64) as usize;
        let slice = [IoSliceRaw::from_slice(&content[..len])];
        // SAFETY: nothing writes into what is lent as long as this process lives, and its pages outlive it in the pipe.
        let lent = unsafe { vmsplice(stdout(), &slice, SpliceFlags::empty()) };
        left -= lent.context("lending pages")? as u64;
    }
    Ok(())
}

fn discard() -> Result<()> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null");
    let nowhere = nowhere.context("opening /dev/null")?;
    let mut taken = 0;
    loop {
        match splice(stdin(), None, &nowhere, None, LARGE, SpliceFlags::empty()) {
            Ok(0) => return tell(&taken),
            Ok(len) => taken += len as u64,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("dropping pages"),
        }
    }
}
