//! Our own path, fed by a simulated card: as fast as possible, and at the line rate of *Device Driver Queues*.

use super::{
    folders::{Folders, file_system},
    roles::Role,
    session::Captured,
};
use crate::method::{
    Effort,
    process::{Fate, Running, in_role},
    processors::processors,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

/// How long a run may last: it takes a second or two.
const LIMIT: Duration = Duration::from_secs(60);

/// Packets a second of 64 bytes that 1 Gb/s carries, in millions.
const LINE_RATE: f64 = 1.488;

/// The simulated card at its limit, and at that rate.
const AT_THE_LIMIT: &str = "sim:rate=max";
const AT_LINE_RATE: &str = "sim";

/// What all samples of an end say.
struct Ran {
    /// Millions of packets a second.
    rate: Summary,
    /// Percent.
    lost: Summary,
    /// Processor time of a packet.
    ns: Summary,
}

/// Where packets end, and what a row calls that.
struct Destination {
    name: String,
    file: Option<PathBuf>,
}

/// Two tables.
pub fn run(folders: &Folders, effort: Effort) -> Vec<Table> {
    let to = |folder: &Path| Destination {
        name: format!("forebay, to a file on {}", file_system(folder)),
        file: Some(folder.join("simulated")),
    };
    let nowhere = Destination {
        name: "forebay, to /dev/null".into(),
        file: Some("/dev/null".into()),
    };
    let counted = Destination {
        name: "limit: frames composed and counted".into(),
        file: None,
    };
    let mut ends = vec![nowhere, to(&folders.memory), to(&folders.disk), counted];
    let fastest = effort.scaled(10_000_000);
    let mut limit = Table::new(
        format!(
            "wire/limit: {} million simulated frames of 64 bytes, composed and captured as fast as it goes",
            fastest as f64 / 1e6
        ),
        &["million/s", "limit = 1", "line rate = 1", "ns CPU/packet"],
    );
    compare(AT_THE_LIMIT, fastest, &ends, effort, &mut limit);
    ends.pop();
    let frames = effort.scaled(1_500_000);
    let mut line = Table::new(
        format!("wire/line rate: 1 Gb/s of 64-byte frames, {LINE_RATE} million a second"),
        &["lost %", "ns CPU/packet"],
    );
    compare(AT_LINE_RATE, frames, &ends, effort, &mut line);
    vec![limit, line]
}

fn compare(port: &str, count: u64, ends: &[Destination], effort: Effort, table: &mut Table) {
    let samples = in_turn(ends.len(), effort.few_rounds(), |which| {
        sample(port, count, &ends[which])
    });
    let results: Vec<_> = samples.into_iter().map(|it| summed(&it?)).collect();
    let fastest = results.last().and_then(|ran| ran.as_ref().ok());
    let fastest = fastest.map(|ran| ran.rate.median);
    let names = ends.iter().map(|end| &*end.name);
    table.results(names, &results, |ran| match port {
        AT_LINE_RATE => vec![
            Cell::spread(Some(ran.lost), 3),
            Cell::spread(Some(ran.ns), 1),
        ],
        _ => vec![
            Cell::spread(Some(ran.rate), 1),
            Cell::times(Some(ran.rate), fastest),
            Cell::times(Some(ran.rate), Some(LINE_RATE)),
            Cell::spread(Some(ran.ns), 1),
        ],
    });
    table.note(format!(
        "from the first look until all is in the file, on a disk past the page cache; all threads counted; rounds: {}",
        effort.few_rounds()
    ));
}

fn summed(samples: &[Captured]) -> Result<Ran> {
    let of = |figure: fn(&Captured) -> f64| {
        Summary::of(samples.iter().map(figure).collect()).context("no round, no sample")
    };
    Ok(Ran {
        rate: of(|it| it.kept as f64 / it.seconds / 1e6)?,
        lost: of(|it| 100.0 * it.dropped as f64 / (it.kept + it.dropped) as f64)?,
        ns: of(|it| it.cpu_seconds * 1e9 / it.kept as f64)?,
    })
}

fn sample(port: &str, count: u64, end: &Destination) -> Result<Captured> {
    let role = Role::Capture {
        port: port.into(),
        file: end.file.clone(),
        count: Some(count),
    };
    let mut command = in_role("wire", &role)?;
    command.stdin(Stdio::null());
    let running = Running::start(&end.name, command, None, &processors()?, Fate::Dies)?;
    let captured: Captured = running.wait(LIMIT)?.result()?;
    let file = end.file.as_deref();
    if let Some(file) = file.filter(|file| !file.starts_with("/dev/null")) {
        fs::remove_file(file).with_context(|| format!("removing {}", file.display()))?;
    }
    ensure!(
        captured.kept == count,
        "{} of {count} packets kept",
        captured.kept
    );
    Ok(captured)
}
