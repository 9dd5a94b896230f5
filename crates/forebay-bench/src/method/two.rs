//! Contests between pairs of threads: a sample counts if the two processors were equally far apart before and after it.

use super::{
    Effort,
    line::Mode,
    processors::pin,
    samples::{Side, Summary},
    table::Cell,
};
use anyhow::{Result, anyhow};
use std::{collections::HashMap, sync::Barrier, thread, time::Instant};

/// Runs every side, a pair of threads by [`run_pair`], once a round, each round beginning with the next one, and once before to warm up.
pub fn contest(
    pairs: &mut [Side<'_>],
    rounds: usize,
    cpus: (usize, usize),
) -> Result<Vec<Samples<f64>>> {
    in_turn(pairs.len(), rounds, cpus, |which| {
        let (elapsed, operations) = (pairs[which].work)()?;
        Ok(elapsed / operations as f64)
    })
}

/// As [`contest`], of `sides` sides whose samples grow until they last as long as they should: `work` gets the
/// side's number and the number of operations, a multiple of 32, and returns the nanoseconds.
pub fn contest_of_operations(
    sides: usize,
    effort: Effort,
    cpus: (usize, usize),
    mut work: impl FnMut(usize, u64) -> Result<f64>,
) -> Result<Vec<Samples<f64>>> {
    let mut operations = vec![20_000; sides];
    in_turn(sides, effort.rounds, cpus, |which| {
        let done = operations[which];
        let elapsed = work(which, done)?;
        operations[which] = next_operations(done, elapsed, effort);
        Ok(elapsed / done as f64)
    })
}

/// What was sampled, apart by how far apart the processors were.
#[derive(Debug)]
pub struct Samples<T> {
    /// Those of each mode.
    pub by_mode: HashMap<Mode, Vec<T>>,
    /// Samples dropped because the processors were moved meanwhile.
    pub flipped: usize,
}

impl Samples<f64> {
    /// Nanoseconds an operation; `None` where the processors never were so far apart.
    pub fn of(&self, mode: Mode) -> Option<Summary> {
        self.by_mode.get(&mode).cloned().and_then(Summary::of)
    }
}

/// The cells of a row in a table with a figure and a quotient for NEAR and for FAR. `both` gives two times for a mode: `shown` makes
/// figures of them. The first one is printed, and the quotient is the first by the second.
pub fn beside(
    both: impl Fn(Mode) -> [Option<Summary>; 2],
    shown: impl Fn(Summary) -> Summary,
    decimals: usize,
) -> Vec<Cell> {
    let cells = [Mode::Near, Mode::Far].into_iter().flat_map(|mode| {
        let [this, other] = both(mode).map(|ns| ns.map(&shown));
        let times = Cell::times(this, other.map(|other| other.median));
        [Cell::spread(this, decimals), times]
    });
    cells.collect()
}

/// What a table's note says of its columns NEAR and FAR, and of samples that are in neither.
pub fn near_and_far<T>(samples: &[Samples<T>]) -> String {
    let flipped: usize = samples.iter().map(|one| one.flipped).sum();
    let in_one_core = samples
        .iter()
        .filter_map(|one| one.by_mode.get(&Mode::OneCore))
        .map(Vec::len)
        .sum::<usize>();
    format!(
        "NEAR and FAR: how far apart the two processors were (–: not sampled); {flipped} samples dropped because that changed, \
         {in_one_core} because they were two threads of one core"
    )
}

/// Takes samples of `sides` sides in alternation, as [`contest`] does; `sample` gets the side's number.
pub fn in_turn<T>(
    sides: usize,
    rounds: usize,
    cpus: (usize, usize),
    mut sample: impl FnMut(usize) -> Result<T>,
) -> Result<Vec<Samples<T>>> {
    let none = |_| Samples {
        by_mode: HashMap::new(),
        flipped: 0,
    };
    let mut results: Vec<_> = (0..sides).map(none).collect();
    for round in 0..=rounds {
        for turn in 0..sides {
            let which = (round + turn) % sides;
            let before = Mode::now(cpus.0, cpus.1)?;
            let got = sample(which)?;
            let after = Mode::now(cpus.0, cpus.1)?;
            if round == 0 {
                continue;
            }
            let Samples { by_mode, flipped } = &mut results[which];
            match before == after {
                true => by_mode.entry(before).or_default().push(got),
                false => *flipped += 1,
            }
        }
    }
    Ok(results)
}

/// Runs both halves at once, each on its processor; the nanoseconds until both are done. What they return is dropped
/// after that, so the time to end something is not counted.
pub fn run_pair<A: Send, B: Send>(
    cpus: (usize, usize),
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> Result<f64> {
    let ready = &Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(move || half(cpus.1, ready, other));
        let one = scope.spawn(move || half(cpus.0, ready, one));
        let panicked = |_| anyhow!("one half of a pair panicked");
        let (begun, done, _kept) = one.join().map_err(panicked)??;
        let (other_begun, other_done, _others) = other.join().map_err(panicked)??;
        let all = done.max(other_done) - begun.min(other_begun);
        Ok(all.as_nanos() as f64)
    })
}

/// One half, on its processor: when it began and was done, and what it gave back.
fn half<T>(cpu: usize, ready: &Barrier, work: impl FnOnce() -> T) -> Result<(Instant, Instant, T)> {
    let pinned = pin(cpu);
    // A half that cannot be pinned still works: the other half may wait for it.
    ready.wait();
    let begun = Instant::now();
    let kept = work();
    let done = Instant::now();
    pinned.map(|()| (begun, done, kept))
}

/// Operations of the next sample, so that it lasts as long as it should: a multiple of 32, whole bursts.
fn next_operations(operations: u64, took_ns: f64, effort: Effort) -> u64 {
    let goal_ns = effort.scaled(30_000_000) as f64;
    let next = (operations as f64 * goal_ns / took_ns) as u64;
    next.clamp(1000, 100 * operations).next_multiple_of(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_made_as_long_as_it_should_be() {
        let effort = Effort {
            rounds: 1,
            quick: true,
        };
        assert_eq!(next_operations(32_000, 3_000_000.0, effort), 32_000);
        assert_eq!(next_operations(32_000, 6_000_000.0, effort), 16_000);
        assert_eq!(next_operations(32_000, 1.0, effort), 3_200_000);
        assert_eq!(next_operations(3200, 1e12, effort), 1024);
    }
}
