//! Sending programs side by side: the highest rate, and how well each keeps a rate and the gaps between its frames.
//!
//! ```text
//!  sender, first processor ─▶ va ◀── veth ──▶ vb ─▶ the kernel stamps each frame ─▶ the same receiver for all, second processor
//! ```

use super::{
    arrivals::Arrivals,
    folders::Folders,
    lab::Lab,
    roles::Role,
    senders::{Frames, SENDERS, Sender},
    trial::ready,
    verdict::{Better, Figure, TIE_OF_RATES, best, verdict},
};
use crate::method::{
    Effort,
    machine::ProcessorTime,
    process::{Fate, Running, in_role, version},
    processors::Cpus,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Result, ensure};
use std::{process::Stdio, thread, time::Duration};

/// How long a process may take for anything.
const LIMIT: Duration = Duration::from_secs(60);

/// How long the kernel keeps frames for the receiver, and some time for it to take them.
const PAUSE: Duration = Duration::from_millis(200);

/// The column of the time that the host gave to other machines during the samples, on all processors.
const STOLEN: &str = "stolen %";

/// Frames that are sent as fast as possible.
const COUNT: u64 = 500_000;

/// What a table measures.
struct Task {
    rate: Option<u64>,
    count: u64,
}

impl Task {
    /// The number of frames that this sender sends. trafgen sleeps between frames and reaches some ten thousand a second, so at a
    /// rate it sends fewer.
    fn count_of(&self, sender: Sender) -> u64 {
        match (sender, self.rate) {
            (Sender::Trafgen, Some(_)) => (self.count / 10).max(self.count.min(1000)),
            _ => self.count,
        }
    }
}

/// One table for each size at the highest rate, and one for each rate with the smallest frames.
pub fn run(lab: &Result<Lab>, folders: &Folders, effort: Effort) -> Vec<Table> {
    let sizes = ["64", "512", "1518", "imix"];
    let rates = [1_000, 100_000, 500_000];
    // A quick run has one of each.
    let (sizes, rates) = match effort.quick {
        true => (&sizes[3..], &rates[1..2]),
        false => (&sizes[..], &rates[..]),
    };
    let top = sizes.iter().map(|&size| {
        let title = format!("wire/send, size={size}: as fast as it goes");
        let task = Task {
            rate: None,
            count: effort.scaled(COUNT),
        };
        (
            title,
            size,
            task,
            &["million/s", "best rival = 1", STOLEN][..],
        )
    });
    let paced = rates.iter().map(|&rate| {
        let title =
            format!("wire/send, {rate} a second: how well the rate and the gaps are kept, size=64");
        let task = Task {
            rate: Some(rate),
            count: effort.scaled(rate).max(100),
        };
        let columns = &["rate error %", "gap error µs", "99 of 100 µs", STOLEN][..];
        (title, "64", task, columns)
    });
    let tables = top.chain(paced).map(|(title, size, task, columns)| {
        let mut table = Table::new(title, columns);
        let ready = ready(lab).and_then(|it| Ok((it, Frames::new(size, &folders.memory)?)));
        match ready {
            Ok(((lab, cpus), frames)) => compare(lab, cpus, &frames, &task, effort, &mut table),
            Err(why) => table.all_skipped(SENDERS.map(Sender::name), &why),
        }
        table
    });
    tables.collect()
}

fn compare(lab: &Lab, cpus: Cpus, frames: &Frames, task: &Task, effort: Effort, table: &mut Table) {
    let samples = in_turn(SENDERS.len(), effort.few_rounds(), |which| {
        sample(SENDERS[which], lab, cpus, frames, task)
    });
    let of = |samples: &Result<Vec<Sample>>, figure: &dyn Fn(&Sample) -> f64| {
        Summary::of(samples.as_ref().ok()?.iter().map(figure).collect())
    };
    let figures = |figure: &dyn Fn(&Sample) -> f64| -> Vec<(Sender, Figure)> {
        let each = SENDERS
            .iter()
            .zip(&samples)
            .filter_map(|(&sender, samples)| {
                let figure = Figure {
                    name: sender.name().into(),
                    value: of(samples, figure)?.median,
                    at_least: false,
                };
                Some((sender, figure))
            });
        each.collect()
    };
    let millions = |it: &Sample| it.arrivals.rate / 1e6;
    let fastest = best_rival(&figures(&millions), Better::Higher).map(|it| it.value);
    for (sender, samples) in SENDERS.iter().zip(&samples) {
        if let Err(why) = samples {
            table.skipped(sender.name(), why);
            continue;
        }
        let mut cells = match task.rate {
            None => {
                let rate = of(samples, &millions);
                vec![Cell::spread(rate, 2), Cell::times(rate, fastest)]
            }
            Some(rate) => {
                let error = |it: &Sample| 100.0 * (it.arrivals.rate / rate as f64 - 1.0).abs();
                let errors = of(samples, &error);
                // Small errors are compared with each other; a large one is only large.
                let decimals = if errors.is_some_and(|it| it.high >= 10.0) {
                    1
                } else {
                    3
                };
                vec![
                    Cell::spread(errors, decimals),
                    Cell::spread(of(samples, &|it| it.arrivals.median_ns / 1e3), 2),
                    Cell::spread(of(samples, &|it| it.arrivals.most_ns / 1e3), 1),
                ]
            }
        };
        cells.push(Cell::spread(of(samples, &|it| it.stolen_percent), 1));
        table.row(sender.name(), cells);
    }
    let arrived = "rates and gaps by the kernel's time stamps at the far side; stolen: by the host, of the time of all processors";
    table.note(format!(
        "{} frames; {arrived}; rounds: {}",
        task.count,
        effort.few_rounds()
    ));
    match task.rate {
        None => {
            let rates = figures(&millions);
            for (_, rival) in rates.iter().filter(|(sender, _)| sender.is_rival()) {
                conclude(table, "rate", &rates, rival, Better::Higher);
            }
        }
        Some(_) => {
            let medians = figures(&|it| it.arrivals.median_ns);
            let largest = figures(&|it| it.arrivals.most_ns);
            for (what, errors) in [("gap error", medians), ("99 of 100", largest)] {
                if let Some(rival) = best_rival(&errors, Better::Lower) {
                    conclude(table, what, &errors, &rival, Better::Lower);
                }
            }
        }
    }
    let versions = SENDERS
        .iter()
        .filter_map(|sender| version(sender.program().ok()?));
    table.note(versions.collect::<Vec<_>>().join(", "));
    if task.rate.is_some() {
        let frames = task.count_of(Sender::Trafgen);
        table.note(format!(
            "trafgen: {frames} frames with --gap, because --rate sends the frames of a second all at once"
        ));
    }
}

fn best_rival(figures: &[(Sender, Figure)], better: Better) -> Option<Figure> {
    let rivals = figures.iter().filter(|(sender, _)| sender.is_rival());
    best(rivals.map(|(_, figure)| figure.clone()), better)
}

/// Notes how each of ours compares with a rival.
fn conclude(
    table: &mut Table,
    what: &str,
    figures: &[(Sender, Figure)],
    rival: &Figure,
    better: Better,
) {
    for (_, ours) in figures.iter().filter(|(sender, _)| !sender.is_rival()) {
        let verdict = verdict(ours, rival, better, TIE_OF_RATES);
        table.note(format!("{what}: {verdict}"));
    }
}

/// What one run of a sender gave.
struct Sample {
    arrivals: Arrivals,
    stolen_percent: f64,
}

/// One sender's frames, from the first to the last.
fn sample(sender: Sender, lab: &Lab, cpus: Cpus, frames: &Frames, task: &Task) -> Result<Sample> {
    let gap_ns = task.rate.map(|rate| 1e9 / rate as f64);
    let mut receiver = in_role("wire", &Role::Receive { gap_ns })?;
    receiver.stdin(Stdio::piped());
    let (receiver, on) = (lab.inside(receiver), [cpus.1]);
    let mut receiver = Running::start("the receiver", receiver, None, &on, Fate::Dies)?;
    receiver.hear("ready", LIMIT)?;
    let count = task.count_of(sender);
    let command = lab.inside(sender.command(frames, task.rate, count)?);
    let before = ProcessorTime::now()?;
    Running::start(sender.name(), command, None, &[cpus.0], Fate::Dies)?.wait(LIMIT)?;
    let stolen_percent = ProcessorTime::now()?.stolen_percent(before);
    thread::sleep(PAUSE);
    receiver.end_input();
    let arrivals: Arrivals = receiver.wait(LIMIT)?.result()?;
    ensure!(
        arrivals.frames == count,
        "{} of {count} frames arrived",
        arrivals.frames
    );
    Ok(Sample {
        arrivals,
        stolen_percent,
    })
}
