//! Contests: several sides do the same thing in alternation, and each gets a median and a spread.

use super::{counters::Count, cycles};
use anyhow::Result;
use serde::Serialize;
use std::time::Instant;

/// What many samples say: the median, and where the middle eight tenths lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Half of the samples are at most this.
    pub median: f64,
    /// A tenth is below.
    pub low: f64,
    /// A tenth is above.
    pub high: f64,
    /// How many there were.
    pub samples: usize,
}

impl Summary {
    /// Nanoseconds for one as how many there are in `span` nanoseconds: 1000 gives millions a second.
    pub fn in_each(self, span: f64) -> Summary {
        Summary {
            median: span / self.median,
            low: span / self.high,
            high: span / self.low,
            samples: self.samples,
        }
    }

    /// Every figure times `factor`, which is above 0.
    pub fn scaled(self, factor: f64) -> Summary {
        Summary {
            median: self.median * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// Of samples in any order; `None` of none.
    pub fn of(mut samples: Vec<f64>) -> Option<Summary> {
        samples.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let last = samples.len().checked_sub(1)?;
            samples.get((part * last as f64).round() as usize).copied()
        };
        Some(Summary {
            median: at(0.5)?,
            low: at(0.1)?,
            high: at(0.9)?,
            samples: samples.len(),
        })
    }
}

/// One side's time: nanoseconds an operation, and cycles where they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Nanoseconds an operation.
    pub ns: Summary,
    /// Core cycles an operation.
    pub cycles: Option<Summary>,
    /// Cache misses an operation, where the processor lets this thread's be counted.
    pub misses: Option<Summary>,
}

/// One of those compared.
pub struct Side<'a> {
    /// What a row calls it.
    pub name: String,
    /// Takes one sample; returns the nanoseconds and the number of operations.
    pub work: Box<dyn FnMut() -> Result<(f64, u64)> + 'a>,
}

impl<'a> Side<'a> {
    /// A side whose `work` does as many operations as it returns.
    pub fn new(name: impl Into<String>, mut work: impl FnMut() -> u64 + 'a) -> Side<'a> {
        Side::timed(name, move || {
            let begun = Instant::now();
            let operations = work();
            Ok((begun.elapsed().as_nanos() as f64, operations))
        })
    }

    /// A side that takes its own time, such as another process.
    pub fn timed(
        name: impl Into<String>,
        work: impl FnMut() -> Result<(f64, u64)> + 'a,
    ) -> Side<'a> {
        Side {
            name: name.into(),
            work: Box::new(work),
        }
    }
}

/// Runs every side once a round, each round beginning with the next one, and once before to warm up.
pub fn contest(sides: &mut [Side<'_>], rounds: usize) -> Result<Vec<Times>> {
    let mut ns = vec![Vec::new(); sides.len()];
    let mut in_cycles = vec![Vec::new(); sides.len()];
    let mut misses = vec![Vec::new(); sides.len()];
    for round in 0..=rounds {
        for turn in 0..sides.len() {
            let which = (round + turn) % sides.len();
            let before = cycles::per_ns();
            let counter = Count::misses();
            let (elapsed, operations) = (sides[which].work)()?;
            let missed = counter.end();
            let after = cycles::per_ns();
            if round == 0 {
                continue;
            }
            let each = elapsed / operations as f64;
            misses[which].extend(missed.map(|missed| missed as f64 / operations as f64));
            ns[which].push(each);
            in_cycles[which].extend(cycles::mean(before, after).map(|per_ns| each * per_ns));
        }
    }
    Ok(ns
        .into_iter()
        .zip(in_cycles)
        .zip(misses)
        .filter_map(|((ns, in_cycles), misses)| {
            Some(Times {
                ns: Summary::of(ns)?,
                cycles: Summary::of(in_cycles),
                misses: Summary::of(misses),
            })
        })
        .collect())
}

/// Takes `rounds` samples of each of `sides` sides in alternation, each round beginning with the next side; `sample` gets the
/// side's number. A side that fails gets no more turns, and its error is its result: other programs may fail.
pub fn in_turn<T>(
    sides: usize,
    rounds: usize,
    mut sample: impl FnMut(usize) -> Result<T>,
) -> Vec<Result<Vec<T>>> {
    let mut all: Vec<Result<Vec<T>>> = (0..sides).map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds {
        for turn in 0..sides {
            let which = (round + turn) % sides;
            if let Ok(samples) = &mut all[which] {
                match sample(which) {
                    Ok(got) => samples.push(got),
                    Err(why) => all[which] = Err(why),
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_median_and_the_middle_eight_tenths() {
        let samples = (1..=11).rev().map(f64::from).collect();
        let summary = Summary::of(samples).unwrap();
        assert_eq!(
            (summary.low, summary.median, summary.high),
            (2.0, 6.0, 10.0)
        );
        assert_eq!(Summary::of(Vec::new()), None);
    }

    #[test]
    fn a_side_that_fails_gets_no_more_turns_and_the_others_all() {
        let mut turns = Vec::new();
        let got = in_turn(2, 3, |side| {
            turns.push(side);
            anyhow::ensure!(side == 0, "it fails");
            Ok(turns.len())
        });
        assert_eq!(turns, [0, 1, 0, 0]);
        assert_eq!(got[0].as_ref().unwrap(), &[1, 3, 4]);
        assert_eq!(got[1].as_ref().unwrap_err().to_string(), "it fails");
    }

    #[test]
    fn every_side_gets_every_round_and_begins_some() {
        let (order, first, second) = (std::cell::RefCell::new(Vec::new()), 'a', 'b');
        let note = |side| {
            order.borrow_mut().push(side);
            1
        };
        let mut sides = [
            Side::new("a", || note(first)),
            Side::new("b", || note(second)),
        ];
        let times = contest(&mut sides, 2).unwrap();
        assert_eq!(times.len(), 2);
        assert_eq!(times[0].ns.samples, 2);
        drop(sides);
        assert_eq!(order.into_inner(), ['a', 'b', 'b', 'a', 'a', 'b']);
    }
}
