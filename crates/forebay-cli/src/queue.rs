//! `forebay queue`: messages between shells, over a queue in shared memory.
//!
//! It converts lines, or records with a length prefix, to messages of [`forebay::queue::shared`] and back.
//!
//! ```text
//!  stdin ─▶ send NAME ─▶ /dev/shm/forebay.NAME ─▶ recv NAME ─▶ stdout        stat NAME: counts
//! ```
//!
//! `recv` releases messages only after it has written them. If the reader of its output leaves, or if it is killed, the next
//! receiver gets them, including those that were written and not released yet: delivery is at least once.

use crate::{
    args::{Queue as Flags, QueueCommand, QueueList, Recv, Send, Stat},
    output::{self, answer},
    sandbox::{self, Needs},
};
use anyhow::{Context, Result, bail};
use forebay::queue::{
    Burst, RecvError, Stats,
    shared::{self, Shared, SharedQueueConfig},
};
use forebay::standard;
use serde_json::json;
use std::{
    io::{self, BufRead, ErrorKind, Read, Write},
    mem,
    process::ExitCode,
    time::Duration,
};

const SCHEMA: u32 = 1;

/// Messages that `recv` takes, writes and releases at a time.
const BURST: u64 = 64;

/// The largest write that a pipe accepts as a whole or not at all, even if the writer is killed meanwhile (`pipe(7)`).
const ATOMIC_WRITE: usize = 4096;

/// How long `list` waits for each queue.
const LISTING: Duration = Duration::from_millis(200);

/// How long `stat` waits for a process that holds the queue's locks.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `send`, `recv`, `list`, `stat` or `remove`.
///
/// # Errors
/// The name is not valid, the queue does not exist, there is not enough memory for one, or input or output fails.
pub fn run(flags: &Flags) -> Result<ExitCode> {
    match &flags.command {
        QueueCommand::Send(flags) => send(flags)?,
        QueueCommand::Recv(flags) => recv(flags)?,
        QueueCommand::List(flags) => list(flags)?,
        QueueCommand::Stat(flags) => stat(flags)?,
        QueueCommand::Remove(flags) => shared::remove(&flags.name)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Attaches to the queue with this name. If there is none and `creates` is set, makes one.
fn attach(name: &str, creates: bool) -> Result<Shared> {
    let is = |error: &forebay::Error, kind| error.cause().is_some_and(|cause| cause.kind() == kind);
    match shared::attach(name) {
        Err(error) if is(&error, ErrorKind::NotFound) && creates => {}
        Err(error) if is(&error, ErrorKind::NotFound) => bail!(
            "there is no queue `{name}`: `forebay queue send {name}` makes one, and so does \
             `forebay queue recv --create {name}`; `forebay queue list` lists the existing ones"
        ),
        answer => return Ok(answer?),
    }
    match shared::create(name, &SharedQueueConfig::default()) {
        // Another process made it in the meantime.
        Err(error) if is(&error, ErrorKind::AlreadyExists) => Ok(shared::attach(name)?),
        answer => {
            let queue = answer?;
            output::note(format_args!("made the queue `{name}`"));
            Ok(queue)
        }
    }
}

fn send(flags: &Send) -> Result<()> {
    let queue = attach(&flags.name, true)?;
    sandbox::enter(&flags.sandbox, &Needs::default());
    let sender = queue.sender();
    let mut input = io::BufReader::new(standard::input()?);
    let mut message = Vec::new();
    let mut sent = 0_u64;
    while read_message(&mut input, flags.framed, sender.largest(), &mut message)? {
        sender
            .send(&message)
            .with_context(|| format!("message {} was not sent", sent + 1))?;
        sent += 1;
    }
    if flags.close {
        sender.close();
    }
    Ok(())
}

/// Reads the next message; false at the end of the input.
fn read_message(
    input: &mut impl BufRead,
    framed: bool,
    largest: usize,
    message: &mut Vec<u8>,
) -> Result<bool> {
    const FAILED: &str = "standard input cannot be read";
    message.clear();
    if !framed {
        // One byte more than fits, and the newline: a longer line is never held in memory.
        let most = largest as u64 + 2;
        let read = input
            .take(most)
            .read_until(b'\n', message)
            .context(FAILED)?;
        if message.last() == Some(&b'\n') {
            message.pop();
        }
        if message.len() > largest {
            bail!("a line is too long: this queue holds messages of up to {largest} bytes");
        }
        return Ok(read > 0);
    }
    if input.fill_buf().context(FAILED)?.is_empty() {
        return Ok(false);
    }
    let mut len = [0; 4];
    input
        .read_exact(&mut len)
        .context("the last record's length is incomplete")?;
    let len = u32::from_be_bytes(len) as usize;
    if len > largest {
        bail!("a record has {len} bytes: this queue holds messages of up to {largest}");
    }
    message.resize(len, 0);
    input
        .read_exact(message)
        .context("the last record is incomplete")?;
    Ok(true)
}

fn recv(flags: &Recv) -> Result<()> {
    let queue = attach(&flags.name, flags.create)?;
    sandbox::enter(&flags.sandbox, &Needs::default());
    let receiver = queue.receiver();
    let mut left = flags.count.unwrap_or(u64::MAX);
    // Without the buffer of `Stdout`, which flushes at newlines: records may contain newlines.
    let mut out = standard::output()?;
    while left > 0 {
        let burst = match receiver.take_burst(left.min(BURST) as usize) {
            Err(RecvError::Closed) => break,
            answer => answer?,
        };
        left -= burst.len() as u64;
        if let Err(error) = write(&burst, flags.framed, &mut out) {
            // Not released: when this process has ended, another receiver gets these messages.
            mem::forget(burst);
            return match error.kind() {
                ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error).context("standard output cannot be written"),
            };
        }
    }
    Ok(())
}

/// Writes whole messages. One write has as many as a pipe accepts atomically; a longer message has a separate write.
fn write(burst: &Burst<'_>, framed: bool, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::with_capacity(ATOMIC_WRITE);
    for (_, message) in burst.iter() {
        let len = message.len() + if framed { 4 } else { 1 };
        if !text.is_empty() && text.len() + len > ATOMIC_WRITE {
            out.write_all(&text)?;
            text.clear();
        }
        if framed {
            // A message of this queue is shorter than 4 GiB.
            text.extend((message.len() as u32).to_be_bytes());
        }
        text.extend_from_slice(message);
        if !framed {
            text.push(b'\n');
        }
    }
    out.write_all(&text)
}

fn stat(flags: &Stat) -> Result<()> {
    let receiver = attach(&flags.name, false)?.receiver();
    sandbox::enter(&flags.sandbox, &Needs::default());
    let stats = (receiver.stats_timeout(PATIENCE))
        .with_context(|| format!("the counts of the queue `{}` are not available", flags.name))?;
    let capacity = receiver.capacity_bytes();
    let text = match flags.json {
        true => output::json(&as_json(&flags.name, &stats, capacity)) + "\n",
        false => as_text(&stats, capacity),
    };
    answer(&text)?;
    if !stats.adds_up() {
        bail!("these counts do not add up: another process has overwritten the queue's memory");
    }
    Ok(())
}

fn list(flags: &QueueList) -> Result<()> {
    let mut queues = Vec::new();
    for name in shared::list()? {
        match shared::attach(&name) {
            Ok(queue) => queues.push((name, queue)),
            Err(error) => output::note_wrapped(error),
        }
    }
    sandbox::enter(&flags.sandbox, &Needs::default());
    let mut rows = Vec::new();
    for (name, queue) in queues {
        let receiver = queue.receiver();
        // A process that was stopped may hold the locks.
        let stats = receiver.stats_timeout(LISTING).ok();
        rows.push(Listed {
            name,
            queued: stats.map(|it| it.queued),
            used_bytes: stats.map(|it| it.used_bytes),
            capacity_bytes: receiver.capacity_bytes(),
            processes: queue.processes().saturating_sub(1),
        });
    }
    if flags.json {
        let queues: Vec<_> = rows.iter().map(Listed::as_json).collect();
        let object = json!({ "schema": SCHEMA, "queues": queues });
        return answer(&(output::json(&object) + "\n"));
    }
    if rows.is_empty() {
        output::note("you have no queue. `forebay queue send NAME` makes one");
        return Ok(());
    }
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    let mut text = format!(
        "{:width$}  {:>10}  {:>10}  {:>10}  PROCESSES\n",
        "NAME", "MESSAGES", "USED", "SIZE"
    );
    for row in &rows {
        let busy = || "busy".to_owned();
        text += &format!(
            "{:width$}  {:>10}  {:>10}  {:>10}  {:>9}\n",
            row.name,
            row.queued.map_or_else(busy, |it| it.to_string()),
            row.used_bytes.map_or_else(busy, |it| it.to_string()),
            row.capacity_bytes,
            row.processes
        );
    }
    answer(&text)
}

/// A queue in the list; its counts are `None` if another process holds its locks.
struct Listed {
    name: String,
    queued: Option<u64>,
    used_bytes: Option<usize>,
    capacity_bytes: usize,
    /// Without this one.
    processes: usize,
}

impl Listed {
    fn as_json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "queued": self.queued,
            "used_bytes": self.used_bytes,
            "capacity_bytes": self.capacity_bytes,
            "processes": self.processes,
        })
    }
}

fn rows(stats: &Stats) -> [(&'static str, u64); 8] {
    [
        ("reserved", stats.reserved),
        ("received", stats.received),
        ("queued", stats.queued),
        ("dropped", stats.dropped),
        ("aborted", stats.aborted),
        ("torn", stats.torn),
        ("redelivered", stats.redelivered),
        ("abandoned", stats.abandoned),
    ]
}

fn as_text(stats: &Stats, capacity: usize) -> String {
    let mut text = String::new();
    for (label, count) in rows(stats) {
        text += &format!("{:<13}{count}\n", format!("{label}:"));
    }
    text + &format!(
        "{:<13}{} of {capacity} bytes\n",
        "in use:", stats.used_bytes
    )
}

fn as_json(name: &str, stats: &Stats, capacity: usize) -> serde_json::Value {
    let mut object = json!({ "schema": SCHEMA, "name": name });
    for (label, count) in rows(stats) {
        object[label] = count.into();
    }
    object["used_bytes"] = stats.used_bytes.into();
    object["capacity_bytes"] = capacity.into();
    object
}
