//! Captures of the same load, side by side: processor time in the steady state, and what is missing in the file.
//!
//! A sample is a capture from its start to its end. Only the time after a warm-up counts: starting, mostly the
//! kernel clearing the ring, takes most of a capture of a few seconds, and is about the same for all.

use super::{
    folders::{Folders, file_system},
    lab::Lab,
    roles::Role,
    send::{Sent, batch},
    sides::{SIDES, Side},
};
use crate::method::{
    Effort,
    machine::pair,
    process::{Fate, Running, in_role, version},
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, anyhow, bail};
use forebay_net::info::Info;
use std::{fs, path::Path, process::Stdio, thread, time::Duration};

/// How long a process may take for anything.
const LIMIT: Duration = Duration::from_secs(30);

/// Two processors: the sender's, and the capturing program's.
type Cpus = (usize, usize);

/// What is sent in a sample, and where it is to go.
struct Load {
    /// What the table is called.
    name: &'static str,
    /// Bytes of a frame, without the check sequence, which no interface shows.
    frame_bytes: usize,
    /// Frames a second.
    rate: u64,
    warm_up: u64,
    frames: u64,
    /// Time that the capturing program gets to catch up: longer than the kernel keeps a block that is not full.
    pause: Duration,
}

impl Load {
    /// A second of warm-up, in which all buffers are filled once, and a second that counts.
    fn of(name: &'static str, frame_bytes: usize, rate: u64, effort: Effort) -> Load {
        let whole = |frames| {
            effort
                .scaled(frames)
                .next_multiple_of(batch(frame_bytes) as u64)
        };
        Load {
            name,
            frame_bytes,
            rate,
            warm_up: whole(rate),
            frames: whole(rate),
            pause: Duration::from_millis(if effort.quick { 150 } else { 300 }),
        }
    }
}

/// What a sample says.
struct Taken {
    ns_per_packet: f64,
    lost_percent: f64,
    sent: Sent,
}

/// One table a kind of file.
pub fn run(lab: &Result<Lab>, folders: &Folders, effort: Effort) -> Result<Vec<Table>> {
    let cpus = pair();
    let skip = |table: &mut Table, why: &anyhow::Error| {
        SIDES.iter().for_each(|side| table.skipped(side.name, why));
    };
    let mut loads = vec![
        (Load::of("memory", 60, 1_000_000, effort), &folders.memory),
        (Load::of("disk", 60, 1_000_000, effort), &folders.disk),
    ];
    if !effort.quick {
        let large = Load::of("disk, large frames", 1514, 200_000, effort);
        loads.push((large, &folders.disk));
    }
    let mut tables = Vec::new();
    for (load, folder) in loads {
        let kind = file_system(folder);
        let mut table = Table::new(
            format!(
                "wire/{}: {} bytes and the check sequence, {:.2} million frames a second, to files on {kind}",
                load.name,
                load.frame_bytes,
                load.rate as f64 / 1e6
            ),
            &["ns CPU/packet", "best rival = 1", "limit = 1", "lost %"],
        );
        match (lab, &cpus) {
            (Err(why), _) | (_, Err(why)) => skip(&mut table, why),
            _ if load.name != "memory" && kind == "tmpfs" => skip(
                &mut table,
                &anyhow!("needs a folder on a disk for temporary files: set TMPDIR"),
            ),
            (Ok(lab), Ok(cpus)) => compare(lab, *cpus, &load, folder, effort, &mut table),
        }
        tables.push(table);
    }
    Ok(tables)
}

fn compare(lab: &Lab, cpus: Cpus, load: &Load, folder: &Path, effort: Effort, table: &mut Table) {
    let samples = in_turn(SIDES.len(), effort.few_rounds(), |which| {
        sample(&SIDES[which], lab, cpus, load, folder)
    });
    let of = |samples: &[Taken], figure: fn(&Taken) -> f64| {
        Summary::of(samples.iter().map(figure).collect()).context("no round, no sample")
    };
    let results: Vec<_> = samples
        .iter()
        .map(|samples| match samples {
            Ok(samples) => Ok((
                of(samples, |taken| taken.ns_per_packet)?,
                of(samples, |taken| taken.lost_percent)?,
            )),
            Err(why) => Err(anyhow!("{why:#}")),
        })
        .collect();
    let least = |is: fn(&Side) -> bool| {
        let those = SIDES.iter().zip(&results).filter(|(side, _)| is(side));
        let ns = those.filter_map(|(_, result)| Some(result.as_ref().ok()?.0.median));
        ns.reduce(f64::min)
    };
    let (best, limit) = (least(Side::is_rival), least(|side| !side.writes()));
    for (side, result) in SIDES.iter().zip(&results) {
        let (ns, lost) = match result {
            Ok(figures) => figures,
            Err(why) => {
                table.skipped(side.name, why);
                continue;
            }
        };
        let cells = vec![
            Cell::spread(Some(*ns), 0),
            Cell::times(Some(*ns), best),
            Cell::times(Some(*ns), limit),
            Cell::spread(Some(*lost), 3),
        ];
        table.row(side.name, cells);
    }
    let all = || samples.iter().flatten().flatten().map(|taken| taken.sent);
    if let Some(rate) = Summary::of(all().map(|sent| sent.rate / 1e6).collect()) {
        let latest = all().map(|sent| sent.latest).max().unwrap_or_default();
        table.note(format!(
            "sent: {:.3} million a second ({:.3}–{:.3}), the latest batch {:.1} ms late; rounds: {}",
            rate.median,
            rate.low,
            rate.high,
            latest.as_secs_f64() * 1e3,
            effort.few_rounds()
        ));
    }
    table.note(format!(
        "all threads on one processor, the sender on another, rings of 64 MiB; behind {} frames of warm-up, {} frames; lost: what \
         was sent, warm-up included, and is not in the file; a tenth more or less is a tie",
        load.warm_up, load.frames
    ));
    table.note("what the kernel does later to bring cached pages to a disk is nobody's time here");
    let versions = SIDES
        .iter()
        .filter_map(|side| version(side.program()?.ok()?));
    table.note(versions.collect::<Vec<_>>().join(", "));
}

/// One capture, from start to end.
fn sample(side: &Side, lab: &Lab, cpus: Cpus, load: &Load, folder: &Path) -> Result<Taken> {
    let file = folder.join("captured");
    let command = lab.inside(side.command(&file)?);
    let mut running = Running::start(side.name, command, None, &[cpus.1], Fate::Dies)?;
    running.hear(side.ready, LIMIT)?;
    send(lab, cpus.0, load, load.warm_up)?;
    thread::sleep(load.pause);
    let before = running.cpu_ns()?;
    let sent = send(lab, cpus.0, load, load.frames)?;
    thread::sleep(load.pause);
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
    let all = load.warm_up + load.frames;
    if kept == 0 || kept > all {
        bail!("{kept} packets of {all}: {}", ended.said);
    }
    let part = kept as f64 / all as f64;
    Ok(Taken {
        ns_per_packet: spent as f64 / (part * load.frames as f64),
        lost_percent: 100.0 * (1.0 - part),
        sent,
    })
}

fn send(lab: &Lab, cpu: usize, load: &Load, frames: u64) -> Result<Sent> {
    let role = Role::Send {
        frames,
        frame_bytes: load.frame_bytes,
        rate: load.rate,
    };
    let mut command = in_role("wire", &role)?;
    command.stdin(Stdio::null());
    let sender = lab.inside(command);
    Running::start("the sender", sender, None, &[cpu], Fate::Dies)?
        .wait(LIMIT)?
        .result()
}

fn packets_in(file: &Path) -> Result<u64> {
    let info = Info::of(file)?;
    match info.error {
        Some(error) => Err(error.into()),
        None => Ok(info.all.packets),
    }
}
