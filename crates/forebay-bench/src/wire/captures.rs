//! Captures of the same load, side by side: processor time in the steady state, and what is missing in the file.
//!
//! A sample is a capture from its start to its end. Only the time after a warm-up counts: starting, mostly the
//! kernel clearing the ring, takes most of a capture of a few seconds, and is about the same for all.

use super::{
    burst::Burst,
    folders::{Folders, NEEDS_DISK, file_system},
    lab::Lab,
    sides::{CaptureSide, SIDES},
    trial::{self, Load, Taken, ready},
};
use crate::method::{
    Effort,
    process::version,
    processors::Cpus,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, anyhow, ensure};
use std::{path::Path, time::Duration};

/// What is sent in a sample.
fn load(frame_bytes: usize, rate: f64, effort: Effort) -> Load {
    // In a second of warm-up all buffers are filled once.
    let time = Duration::from_millis(effort.scaled(1000));
    Load {
        bursts: vec![Burst::of(frame_bytes)],
        rate: Some(rate),
        warm_up: if effort.quick { Duration::ZERO } else { time },
        time,
    }
}

/// One table a kind of file.
pub fn run(lab: &Result<Lab>, folders: &Folders, effort: Effort) -> Result<Vec<Table>> {
    let mut loads = vec![
        ("memory", 60, 1e6, &folders.memory),
        ("disk", 60, 1e6, &folders.disk),
    ];
    if !effort.quick {
        loads.push(("disk, large frames", 1514, 2e5, &folders.disk));
    }
    let mut tables = Vec::new();
    for (name, frame_bytes, rate, folder) in loads {
        let load = load(frame_bytes, rate, effort);
        let kind = file_system(folder);
        let mut table = Table::new(
            format!(
                "wire/{name}: {frame_bytes} bytes and the check sequence, {:.2} million frames a second, to files on {kind}",
                rate / 1e6
            ),
            &["ns CPU/packet", "best rival = 1", "limit = 1", "lost %"],
        );
        let ready = ready(lab).and_then(|ready| {
            ensure!(name == "memory" || kind != "tmpfs", NEEDS_DISK);
            Ok(ready)
        });
        match ready {
            Ok((lab, cpus)) => compare(lab, cpus, &load, folder, effort, &mut table),
            Err(why) => table.all_skipped(SIDES.each_ref().map(|side| side.name), &why),
        }
        tables.push(table);
    }
    Ok(tables)
}

fn compare(lab: &Lab, cpus: Cpus, load: &Load, folder: &Path, effort: Effort, table: &mut Table) {
    let samples = in_turn(SIDES.len(), effort.few_rounds(), |which| {
        trial::run(&SIDES[which], lab, cpus, load, folder)
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
    let least = |is: fn(&CaptureSide) -> bool| {
        let those = SIDES.iter().zip(&results).filter(|(side, _)| is(side));
        let ns = those.filter_map(|(_, result)| Some(result.as_ref().ok()?.0.median));
        ns.reduce(f64::min)
    };
    let (best, limit) = (least(CaptureSide::is_rival), least(|side| !side.writes()));
    let names = SIDES.each_ref().map(|side| side.name);
    table.results(names, &results, |&(ns, lost)| {
        vec![
            Cell::spread(Some(ns), 0),
            Cell::times(Some(ns), best),
            Cell::times(Some(ns), limit),
            Cell::spread(Some(lost), 3),
        ]
    });
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
        "all threads on one processor, the sender on another, rings of 64 MiB; {} ms of warm-up, then {} ms that count; lost: \
         sent, warm-up included, and not in the file; a tenth more or less is a tie",
        load.warm_up.as_millis(),
        load.time.as_millis()
    ));
    table.note("the time in which the kernel later writes cached pages to a disk is not measured");
    let versions = SIDES
        .iter()
        .filter_map(|side| version(side.program().ok()?));
    table.note(versions.collect::<Vec<_>>().join(", "));
}
