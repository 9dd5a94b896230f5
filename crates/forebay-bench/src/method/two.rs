//! Contests between pairs of threads: a sample counts where the two processors were as far apart behind it as before it.

use super::{
    Effort,
    line::Mode,
    machine::pin,
    samples::{Summary, Work},
};
use anyhow::{Result, anyhow};
use std::{collections::HashMap, sync::Barrier, thread, time::Instant};

/// One of those compared.
pub struct Pair<'a> {
    /// What a row calls it.
    pub name: String,
    work: Work<'a>,
}

impl<'a> Pair<'a> {
    /// A pair whose `work` says how many nanoseconds so many operations took, by [`run_pair`].
    pub fn new(name: impl Into<String>, work: impl FnMut() -> Result<(f64, u64)> + 'a) -> Pair<'a> {
        Pair {
            name: name.into(),
            work: Box::new(work),
        }
    }
}

/// What a pair's samples say, apart by how far apart the processors were.
#[derive(Debug, Default)]
pub struct Apart {
    ns: HashMap<Mode, Vec<f64>>,
    /// Samples dropped because the processors were moved meanwhile.
    pub flipped: usize,
}

impl Apart {
    /// Nanoseconds an operation; `None` where the processors never were so far apart.
    pub fn of(&self, mode: Mode) -> Option<Summary> {
        self.ns.get(&mode).cloned().and_then(Summary::of)
    }
}

/// Runs every pair once a round, each round beginning with the next one, and once before to warm up.
///
/// # Errors
/// Those of a pair.
pub fn contest(pairs: &mut [Pair<'_>], rounds: usize, cpus: (usize, usize)) -> Result<Vec<Apart>> {
    let samples = in_turn(pairs.len(), rounds, cpus, |which| (pairs[which].work)())?;
    let apart = |samples: Samples<(f64, u64)>| {
        let each = |(elapsed, operations)| elapsed / operations as f64;
        let of_mode = |(mode, all): (_, Vec<_>)| (mode, all.into_iter().map(each).collect());
        Apart {
            ns: samples.by_mode.into_iter().map(of_mode).collect(),
            flipped: samples.flipped,
        }
    };
    Ok(samples.into_iter().map(apart).collect())
}

/// What was sampled, apart by how far apart the processors were.
#[derive(Debug)]
pub struct Samples<T> {
    /// Those of each mode.
    pub by_mode: HashMap<Mode, Vec<T>>,
    /// Samples dropped because the processors were moved meanwhile.
    pub flipped: usize,
}

/// Takes samples of `sides` sides in turn, as [`contest`] does; `sample` is told which side's.
///
/// # Errors
/// Those of `sample`.
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

/// Runs both halves at once, each on its processor; the nanoseconds until both are done.
///
/// # Errors
/// A thread may not run there.
pub fn run_pair(
    cpus: (usize, usize),
    one: impl FnOnce() + Send,
    other: impl FnOnce() + Send,
) -> Result<f64> {
    let ready = Barrier::new(2);
    let half = |cpu, work: Box<dyn FnOnce() + Send + '_>| {
        let pinned = pin(cpu);
        // Whoever cannot be pinned works all the same: the other half may wait for it.
        ready.wait();
        let begun = Instant::now();
        work();
        pinned.map(|()| (begun, Instant::now()))
    };
    thread::scope(|scope| {
        let half = &half;
        let other = scope.spawn(move || half(cpus.1, Box::new(other)));
        let one = scope.spawn(move || half(cpus.0, Box::new(one)));
        let panicked = |_| anyhow!("one half of a pair panicked");
        let (begun, done) = one.join().map_err(panicked)??;
        let (other_begun, other_done) = other.join().map_err(panicked)??;
        let all = done.max(other_done) - begun.min(other_begun);
        Ok(all.as_nanos() as f64)
    })
}

/// Operations of the next sample, so that it lasts as long as it should: a multiple of 32, whole bursts.
pub fn next_operations(operations: u64, took_ns: f64, effort: Effort) -> u64 {
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
