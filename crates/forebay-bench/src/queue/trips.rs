//! One message there and one back, each trip timed: what waiting for an answer costs, in the middle and at the worst.

use super::{
    Cpus, Entrant,
    crew::{self, Board, Kind, Meeting},
    entrants, name_of, place,
    rivals::{Receives, Rival, Sends, Shape},
};
use crate::method::{
    Effort,
    line::Mode,
    table::{Cell, Table},
    two::in_turn,
};
use anyhow::Result;
use std::sync::atomic::Ordering::Relaxed;

const SHAPE: Shape = Shape {
    senders: 1,
    receivers: 1,
    len: 8,
};

/// The reported quantiles: this part of all trips took at most that time.
const PARTS: [f64; 3] = [0.5, 0.99, 0.999];

/// The table of a kind.
pub fn compare(kind: Kind, effort: Effort, cpus: Cpus) -> Result<Table> {
    let title = format!(
        "queue/{}, round trips: a message of {} there and one back, ns",
        name_of(kind),
        SHAPE.len
    );
    let mut table = Table::new(
        title,
        &["NEAR 50 %", "99 %", "99.9 %", "FAR 50 %", "99 %", "99.9 %"],
    );
    let entrants = entrants(kind, &SHAPE, &mut table);
    let trips = effort.scaled(20_000) as usize;
    let samples = in_turn(entrants.len(), effort.rounds, cpus, |which| {
        let Entrant { trips: sample, .. } = entrants[which];
        sample(kind, cpus, trips)
    })?;
    for (one, samples) in entrants.iter().zip(samples) {
        let mut by_mode = samples.by_mode;
        let cells = [Mode::Near, Mode::Far].into_iter().flat_map(|mode| {
            let mut all = by_mode.remove(&mode).unwrap_or_default().concat();
            all.sort_unstable();
            PARTS.map(|part| match all.len().checked_sub(1) {
                Some(last) => Cell::number(all[(part * last as f64) as usize] as f64, 0),
                None => Cell::Unknown,
            })
        });
        table.row(one.name, cells.collect());
    }
    table.note("each trip on a clock that takes some 30 ns of it to read; a sender and a receiver a processor");
    Ok(table)
}

/// Nanoseconds of each of this number of trips.
pub fn sample<R: Rival>(kind: Kind, cpus: Cpus, trips: usize) -> Result<Vec<u64>> {
    let (there, back) = (R::new(&SHAPE)?, R::new(&SHAPE)?);
    let times = Board::new(trips)?;
    let message = [7; SHAPE.len];
    let work = |number: usize, meeting: &Meeting<'_>| {
        let (outwards, homewards) = match number {
            0 => (&there, &back),
            _ => (&back, &there),
        };
        let (mut sender, mut receiver) = (outwards.sender()?, homewards.receiver()?);
        meeting.begin(|| {
            sender.connect();
            receiver.connect();
        })?;
        for time in &*times {
            if number == 0 {
                let begun = crew::now();
                sender.send(&message);
                receiver.receive(|_| ());
                time.store(crew::now() - begun, Relaxed); // Relaxed: read when all are done
            } else {
                receiver.receive(|_| ());
                sender.send(&message);
            }
        }
        meeting.end();
        Ok(())
    };
    crew::run(kind, 2, &|number| place(number, &SHAPE, cpus), &work)?;
    Ok(times.iter().map(|time| time.load(Relaxed)).collect())
}
