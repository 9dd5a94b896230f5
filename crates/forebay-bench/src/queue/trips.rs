//! One message there and one back, each trip timed: what waiting for an answer costs, in the middle and at the worst.

use super::{
    crew::{self, Board, Kind, Meeting},
    rivals::{Receives, Rival, Sends, Shape},
};
use crate::method::processors::Cpus;
use anyhow::Result;
use std::sync::atomic::Ordering::Relaxed;

/// One sender and one receiver.
pub const SHAPE: Shape = Shape {
    senders: 1,
    receivers: 1,
    len: 8,
};

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

/// Where member `number` of `senders` and others runs: one of each has its own processor, more share both.
pub fn place(number: usize, shape: &Shape, cpus: Cpus) -> Vec<usize> {
    match (shape.senders, shape.receivers, number) {
        (1, 1, 0) => vec![cpus.0],
        (1, 1, _) => vec![cpus.1],
        _ => vec![cpus.0, cpus.1],
    }
}
