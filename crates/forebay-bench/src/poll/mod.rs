//! Polling that sleeps while idle, an interrupt for each packet, and endless polling, at several loads; and how fast a
//! sleeping thread is woken.
//!
//! ```text
//!   load:      1 % ───────────── 10 % ───────────── 100 %
//!   interrupts:  cheap                      all of a processor, and losses
//!   spinning:    all of a processor, always
//!   adaptive:    cheap ──────────────────────── no losses
//! ```
//! The card, the paths of packets and the sampling are those of `driver`. `asleep` measures what sleeping itself costs, `wake`
//! the wake-ups.

mod asleep;
mod wake;

use crate::{
    driver::{
        Asleep, Attendance, Figures, Gathered, INTERRUPT, LINE_RATE, Listed, Load, REST, Step,
        in_turn,
    },
    method::{
        Effort,
        processors::pair,
        samples::Summary,
        table::{Cell, Table},
    },
};
use anyhow::Result;
use std::time::Duration;

/// Parts of the line rate, in percent.
const LOADS: [u64; 3] = [100, 10, 1];

/// The poller by itself: the waiting of the processing thread is not counted.
const POLLER: Step = Step::of::<Gathered>("forebay's poller, worker spins", Attendance::Polling);

/// How the card is attended, and how the processing thread waits. The others are compared with the first.
const WAYS: [Step; 6] = [
    Step::of::<Listed>(
        "the source text's: an interrupt a packet, list and spinlock",
        Attendance::Interrupts,
    ),
    Step::of::<Gathered>(
        "an interrupt a packet, forebay's ring and pool",
        Attendance::Interrupts,
    ),
    Step::of::<Gathered>("spinning at both ends", Attendance::Spinning),
    POLLER,
    Step::of::<Gathered>("the same, resting at low load", Attendance::Resting),
    Step::of::<Asleep>("forebay's poller, worker parks", Attendance::Polling),
];

/// One table a load, and the wake-ups.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let cpus = pair()?;
    let mut tables = Vec::new();
    for percent in LOADS {
        tables.push(at(percent, effort, cpus)?);
    }
    tables.push(wake::run(effort, cpus)?);
    Ok(tables)
}

fn at(percent: u64, effort: Effort, cpus: (usize, usize)) -> Result<Table> {
    let load = Load {
        bits_per_second: LINE_RATE * percent / 100,
        length: Duration::from_millis(effort.scaled(50)),
    };
    let title = format!(
        "poll/{percent} % of 1 Gb/s of 64-byte frames: a card's ring of 1024, {} ms a sample",
        load.length.as_millis()
    );
    let columns = [
        "lost %",
        "million/s",
        "the source text's = 1",
        "CPU %",
        "of the text's",
        "samples",
        "discarded",
    ];
    let mut table = Table::new(title, &columns);
    let taken = in_turn(&WAYS, load, effort.rounds)?;
    let text = taken[0].figures();
    let beside = |of: fn(&Figures) -> Summary, now| {
        Cell::times(Some(now), text.as_ref().map(|text| of(text).median))
    };
    for (way, taken) in WAYS.iter().zip(&taken) {
        let Some(now) = taken.figures() else {
            let why = format!("no sample: {} discarded", taken.discarded);
            table.row(way.name, vec![Cell::Text(why)]);
            continue;
        };
        let cells = vec![
            Cell::spread(Some(now.lost), 2),
            Cell::spread(Some(now.rate), 4),
            beside(|text| text.rate, now.rate),
            Cell::spread(Some(now.busy), 1),
            beside(|text| text.busy, now.busy),
            Cell::number(taken.count() as f64, 0),
            Cell::number(taken.discarded as f64, 0),
        ];
        table.row(way.name, cells);
    }
    let poller = WAYS.iter().position(|way| way.name == POLLER.name);
    if let Some(poller) = poller.and_then(|poller| taken[poller].figures()) {
        let alone = asleep::percent(poller.sleeps.median, load.length, effort, cpus)?;
        let cells = vec![
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
            Cell::spread(Some(alone), 1),
            beside(|text| text.busy, alone),
            Cell::number(alone.samples as f64, 0),
            Cell::Unknown,
        ];
        table.row("limit: asleep as often, and nothing else", cells);
        table.note(format!(
            "the limit: {:.0} sleeps a second, as many as the poller's median where who processes spins, by a thread that does \
             nothing else; measured behind the others",
            poller.sleeps.median
        ));
    }
    table.note(format!(
        "CPU: of one processor, both threads together, an interrupt being {} ns of it; what stands for sleeping is left out: \
         waiting for an interrupt, and waiting by spinning of who processes; who parks is counted whole, with its system calls",
        INTERRUPT.as_nanos()
    ));
    table.note(format!(
        "resting: {} µs before it arms, where two packets or more and less than a budget of 64 are to be expected in that time; so \
         long a packet may wait, and as much longer as the sleep ends late. A rest ends without an interrupt",
        REST.as_micros()
    ));
    table.note(format!(
        "discarded: a thread was off its processor for more than half of the card's ring, {} µs",
        load.half_ring().as_micros()
    ));
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_accounts_for_every_packet_at_a_low_load() {
        let Ok(_) = pair() else {
            return eprintln!("skipped: needs two processors");
        };
        let load = Load {
            bits_per_second: LINE_RATE / 10,
            length: Duration::from_millis(20),
        };
        // A sample whose packets are neither processed nor lost is an error.
        let taken = in_turn(&WAYS, load, 1).unwrap();
        for (way, taken) in WAYS.iter().zip(&taken) {
            assert!(taken.count() + taken.discarded > 0, "{}", way.name);
        }
    }
}
