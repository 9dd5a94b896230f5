//! The highest rate at which each program loses nothing, and what a packet costs at a rate that all of them bear.
//!
//! ```text
//!  searches take turns, a trial each ─▶ highest rates ─▶ the lowest of them, less a fifth ─▶ all again at that rate: processor time
//! ```
//! A trial is a capture from its start to its end. Nothing is lost if the file has as many packets as were sent.

use super::{
    burst::Burst,
    folders::{Folders, NEEDS_DISK, file_system},
    lab::Lab,
    search::{self, Highest, Search, TOP},
    sides::{CaptureSide, WRITERS},
    trial::{self, Load, ready},
    verdict::{Better, Figure, TIE_OF_COSTS, TIE_OF_RATES, best, verdict},
};
use crate::method::{
    Effort,
    processors::Cpus,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::statvfs;
use std::{path::Path, time::Duration};

/// The part by which a result may be too low.
const RESOLUTION: f64 = 0.1;

/// The lowest rate to try, as a part of the sender's highest rate.
const FLOOR: f64 = 1.0 / 64.0;

/// The common rate, as a part of the lowest of the highest rates.
const COMMON: f64 = 0.8;

/// Free bytes that the files of trials may need for each second of sending: 3 million frames of 1514 bytes.
const BYTES_PER_SECOND: f64 = 4.5e9;

/// The lengths and the precision of trials.
struct Plan {
    time: Duration,
    /// Before the time that counts for the cost.
    warm_up: Duration,
    resolution: f64,
    floor: f64,
    rounds: usize,
}

impl Plan {
    fn of(effort: Effort) -> Plan {
        Plan {
            time: Duration::from_millis(effort.scaled(1000)),
            warm_up: Duration::from_millis(if effort.quick { 0 } else { 200 }),
            resolution: if effort.quick { 0.5 } else { RESOLUTION },
            floor: if effort.quick { 0.25 } else { FLOOR },
            rounds: effort.few_rounds(),
        }
    }

    fn load(&self, bursts: &[Burst], rate: Option<f64>) -> Load {
        Load {
            bursts: bursts.to_vec(),
            rate,
            warm_up: Duration::ZERO,
            time: self.time,
        }
    }
}

/// One table for each kind of file and each size.
pub fn run(lab: &Result<Lab>, folders: &Folders, effort: Effort) -> Vec<Table> {
    let plan = Plan::of(effort);
    let sizes = [
        ("64 bytes", vec![Burst::of(60)]),
        ("512 bytes", vec![Burst::of(508)]),
        ("1518 bytes", vec![Burst::of(1514)]),
        ("IMIX", Burst::imix()),
    ];
    // A quick run has one of each.
    let sizes = if effort.quick {
        &sizes[3..]
    } else {
        &sizes[..]
    };
    let mut targets = vec![("memory", &folders.memory)];
    if !effort.quick {
        targets.push(("disk", &folders.disk));
    }
    let mut tables = Vec::new();
    for (target, folder) in targets {
        for (size, bursts) in sizes {
            let mut table = Table::new(
                format!(
                    "wire/loss-free, {target}, {size}: the highest rate without a loss, and the cost of a packet at a common rate, files on {}",
                    file_system(folder)
                ),
                &["million/s", "ns CPU/packet", "lost %"],
            );
            let ready = ready(lab).and_then(|ready| {
                has_room(target, folder, plan.time)?;
                Ok(ready)
            });
            match ready {
                Ok((lab, cpus)) => compare(lab, cpus, &plan, bursts, folder, &mut table),
                Err(why) => table.all_skipped(WRITERS.each_ref().map(|side| side.name), &why),
            }
            tables.push(table);
        }
    }
    tables
}

fn has_room(target: &str, folder: &Path, time: Duration) -> Result<()> {
    ensure!(
        target == "memory" || file_system(folder) != "tmpfs",
        NEEDS_DISK
    );
    let stat =
        statvfs(folder).with_context(|| format!("asking for room in {}", folder.display()))?;
    let (free, needed) = (
        stat.f_bavail as f64 * stat.f_frsize as f64,
        BYTES_PER_SECOND * time.as_secs_f64(),
    );
    ensure!(
        free >= needed,
        "needs {:.1} GB free in {}",
        needed / 1e9,
        folder.display()
    );
    Ok(())
}

/// The results of one program.
struct Found {
    rate: Summary,
    /// In a round, nothing was lost at the sender's highest rate.
    at_least: bool,
    /// If there is no lossless rate in any round: the lowest rate that lost frames.
    lossy: Option<f64>,
}

fn compare(lab: &Lab, cpus: Cpus, plan: &Plan, bursts: &[Burst], folder: &Path, table: &mut Table) {
    let alone = trial::send(lab, cpus.0, &plan.load(bursts, None), plan.time);
    let begin = || Search::new(plan.resolution, plan.floor);
    let found: Vec<Result<Found>> =
        search::in_turn(WRITERS.len(), plan.rounds, begin, |which, rate| {
            let load = plan.load(bursts, (rate != TOP).then_some(rate));
            let taken = trial::run(&WRITERS[which], lab, cpus, &load, folder)?;
            Ok((taken.sent.rate, taken.lost > 0))
        })
        .into_iter()
        .map(|rounds| found(&rounds?))
        .collect();
    let lowest = found.iter().flatten().map(|it| it.rate.median);
    let lowest = lowest.filter(|&rate| rate > 0.0).reduce(f64::min);
    let load = Load {
        warm_up: plan.warm_up,
        ..plan.load(bursts, lowest.map(|rate| COMMON * rate))
    };
    let costs = in_turn(WRITERS.len(), plan.rounds, |which| {
        found[which].as_ref().map_err(|why| anyhow!("{why:#}"))?;
        lowest.context("no program has a rate without a loss")?;
        trial::run(&WRITERS[which], lab, cpus, &load, folder)
    });
    let of = |taken: &[trial::Taken], figure: fn(&trial::Taken) -> f64| {
        Summary::of(taken.iter().map(figure).collect())
    };
    let (mut rates, mut ns) = (Vec::new(), Vec::new());
    for ((side, found), cost) in WRITERS.iter().zip(&found).zip(&costs) {
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                table.skipped(side.name, why);
                continue;
            }
        };
        let cost = match cost {
            Ok(cost) => cost.as_slice(),
            Err(why) => {
                table.note(format!("no cost of {}: {why:#}", side.name));
                &[]
            }
        };
        let each = of(cost, |it| it.ns_per_packet);
        let cells = vec![
            rate_cell(found),
            Cell::spread(each, 0),
            Cell::spread(of(cost, |it| it.lost_percent), 2),
        ];
        table.row(side.name, cells);
        rates.push((side, figure(side, found.rate.median, found.at_least)));
        ns.extend(each.map(|each| (side, figure(side, each.median, false))));
    }
    table.note(format!(
        "a trial takes {} ms and a new process; a rate counts if two trials at it lost nothing; resolution {:.0} %; rounds: {}",
        plan.time.as_millis(),
        100.0 * plan.resolution,
        plan.rounds
    ));
    let alone = alone.map_or_else(
        |why| format!("unknown: {why:#}"),
        |sent| format!("{:.2} million/s", sent.rate / 1e6),
    );
    table.note(format!(
        "the sender alone: {alone}; at least: it could send no faster while this program captured, and nothing was lost"
    ));
    if let Some(rate) = load.rate {
        table.note(format!(
            "cost and loss: at {:.2} million/s for {} ms, after {} ms of warm-up",
            rate / 1e6,
            load.time.as_millis(),
            load.warm_up.as_millis()
        ));
    }
    conclude(table, "rate", &rates, Better::Higher, TIE_OF_RATES);
    conclude(table, "CPU", &ns, Better::Lower, TIE_OF_COSTS);
}

/// Notes how ours compares with the best rival, and AF_PACKET with AF_XDP.
fn conclude(
    table: &mut Table,
    what: &str,
    figures: &[(&CaptureSide, Figure)],
    better: Better,
    tie: f64,
) {
    let best = |is: fn(&CaptureSide) -> bool| {
        let those = figures.iter().filter(|(side, _)| is(side));
        best(those.map(|(_, figure)| figure.clone()), better)
    };
    let ours = best(|side| !side.is_rival() && !side.is_xdp());
    let others = [best(CaptureSide::is_rival), best(CaptureSide::is_xdp)];
    for other in others.into_iter().flatten() {
        if let Some(ours) = &ours {
            table.note(format!("{what}: {}", verdict(ours, &other, better, tie)));
        }
    }
}

fn found(rounds: &[Highest]) -> Result<Found> {
    let rate = |highest: &Highest| match *highest {
        Highest::Is(rate) | Highest::AtLeast(rate) => rate,
        Highest::None(_) => 0.0,
    };
    let lossy = rounds.iter().map(|highest| match *highest {
        Highest::None(rate) => Some(rate),
        _ => None,
    });
    let rates = Summary::of(rounds.iter().map(rate).collect()).context("no round, no result")?;
    // A round above the median may reach the sender's limit without moving the median.
    let is_bound = |it: &Highest| matches!(*it, Highest::AtLeast(rate) if rate <= rates.median);
    Ok(Found {
        at_least: rounds.iter().any(is_bound),
        rate: rates,
        lossy: lossy
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().reduce(f64::min)),
    })
}

fn rate_cell(found: &Found) -> Cell {
    match found.lossy {
        Some(lossy) => Cell::Text(format!("none: losses at {:.2}", lossy / 1e6)),
        None => {
            let rate = Cell::spread(Some(found.rate.scaled(1e-6)), 2);
            if found.at_least {
                rate.at_least()
            } else {
                rate
            }
        }
    }
}

fn figure(side: &CaptureSide, value: f64, at_least: bool) -> Figure {
    Figure {
        name: side.name.into(),
        value,
        at_least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_a_lower_bound_if_the_sender_limits_it() {
        let exact = found(&[Highest::Is(3.0), Highest::Is(1.0), Highest::Is(2.0)]).unwrap();
        assert_eq!(
            (exact.rate.median, exact.at_least, exact.lossy),
            (2.0, false, None)
        );
        let bound = found(&[Highest::Is(1.0), Highest::AtLeast(2.0), Highest::Is(3.0)]).unwrap();
        assert_eq!((bound.rate.median, bound.at_least), (2.0, true));
        let exact = found(&[Highest::AtLeast(3.0), Highest::Is(1.0), Highest::Is(1.0)]).unwrap();
        assert_eq!((exact.rate.median, exact.at_least), (1.0, false));
        assert!(found(&[]).is_err());
    }

    #[test]
    fn a_round_without_a_lossless_rate_counts_as_zero() {
        let some = found(&[Highest::None(1e6), Highest::Is(2e6), Highest::Is(2e6)]).unwrap();
        assert_eq!(
            (some.rate.low, some.rate.median, some.lossy),
            (0.0, 2e6, None)
        );
        assert_eq!(rate_cell(&some).to_string(), "2.00 (0.00–2.00)");
        let none = found(&[Highest::None(1e6), Highest::None(2e5)]).unwrap();
        assert_eq!(rate_cell(&none).to_string(), "none: losses at 0.20");
    }
}
