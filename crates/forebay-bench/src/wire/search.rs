//! The search for the highest rate at which a program loses nothing, in the manner of RFC 2544.
//!
//! ```text
//!  trial 1: as fast as the sender can ── nothing lost, twice ──▶ at least that: the sender's limit
//!     │ frames lost
//!     ▼
//!  0 ───────── lossless ───── next trial ───── lossy         halves the interval until it is short enough,
//!                 └── a second trial there must be lossless, too ──▶ the result
//! ```
//! A rate whose second trial loses frames counts as lossy, and the search goes on below it.

use anyhow::Result;

/// Trials without a loss that a rate needs to be a result.
const PASSES: u32 = 2;

/// More trials than a search takes, unless the outcome of a trial depends more on chance than on the rate.
const MAX_TRIALS: u32 = 24;

/// The rate of a trial that the sender does not pace.
pub const TOP: f64 = f64::INFINITY;

/// A search that is under way. All rates are frames per second.
#[derive(Debug)]
pub struct Search {
    /// The search ends when the lossless and the lossy rate differ by at most this part of the lossy one.
    resolution: f64,
    /// The lowest rate to try, as a part of the sender's highest rate.
    floor: f64,
    /// Rates that have lost nothing yet, from the lowest to the highest.
    lossless: Vec<Lossless>,
    /// The lowest rate that lost frames.
    lossy: Option<f64>,
    /// The sender's highest rate, once it is known.
    top: f64,
    trials: u32,
}

#[derive(Debug)]
struct Lossless {
    intended: f64,
    /// What the sender achieved: the least of all trials.
    achieved: f64,
    trials: u32,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Highest {
    /// This rate: at a slightly higher one frames were lost.
    Is(f64),
    /// Nothing was lost at the sender's highest rate, which was this.
    AtLeast(f64),
    /// There is no such rate. Even at this one frames were lost.
    None(f64),
}

impl Search {
    /// One with this resolution and this lowest rate, as parts of the higher rate and of the sender's highest one.
    pub fn new(resolution: f64, floor: f64) -> Search {
        Search {
            resolution,
            floor,
            lossless: Vec::new(),
            lossy: None,
            top: TOP,
            trials: 0,
        }
    }

    /// The rate of the next trial, [`TOP`] for the highest; `None` at the end of the search.
    pub fn next(&self) -> Option<f64> {
        if self.trials == MAX_TRIALS {
            return None;
        }
        let low = self.lossless.last();
        let is_confirmed = |low: &Lossless| low.trials >= PASSES;
        let Some(high) = self.lossy else {
            return (!low.is_some_and(is_confirmed)).then_some(TOP);
        };
        let from = low.map_or(0.0, |low| low.intended);
        let middle = (from + high) / 2.0;
        match low {
            _ if high - from > self.resolution * high => {
                (middle >= self.floor * self.top).then_some(middle)
            }
            Some(low) if !is_confirmed(low) => Some(low.intended),
            _ => None,
        }
    }

    /// Notes a trial at the `intended` rate: the rate that the sender achieved, and whether a frame was lost.
    pub fn note(&mut self, intended: f64, achieved: f64, has_lost: bool) {
        self.trials += 1;
        if intended == TOP {
            self.top = achieved;
        }
        if has_lost {
            let lossy = if intended == TOP { achieved } else { intended };
            self.lossy = Some(self.lossy.map_or(lossy, |before| before.min(lossy)));
            self.lossless.retain(|it| it.intended < intended);
            return;
        }
        match self.lossless.last_mut() {
            Some(last) if last.intended == intended => {
                last.achieved = last.achieved.min(achieved);
                last.trials += 1;
            }
            _ => self.lossless.push(Lossless {
                intended,
                achieved,
                trials: 1,
            }),
        }
    }

    /// The result, when there is no next trial.
    pub fn result(&self) -> Highest {
        let mut confirmed = self.lossless.iter().filter(|it| it.trials >= PASSES);
        match (confirmed.next_back(), self.lossy) {
            (Some(it), Some(_)) => Highest::Is(it.achieved),
            (Some(it), None) => Highest::AtLeast(it.achieved),
            (None, lossy) => Highest::None(lossy.unwrap_or(self.top)),
        }
    }
}

/// `rounds` searches for each of `sides` sides. The sides take turns after each trial, each turn beginning with the next side. `trial`
/// gets the number of the side and the intended rate, and returns the achieved rate and whether frames were lost. A side whose
/// trial fails gets no more of them, and the error is its result.
pub fn in_turn(
    sides: usize,
    rounds: usize,
    begin: impl Fn() -> Search,
    mut trial: impl FnMut(usize, f64) -> Result<(f64, bool)>,
) -> Vec<Result<Vec<Highest>>> {
    let mut results: Vec<Result<Vec<Highest>>> = (0..sides).map(|_| Ok(Vec::new())).collect();
    for _ in 0..rounds {
        let mut searches: Vec<Search> = (0..sides).map(|_| begin()).collect();
        let mut turn = 0;
        loop {
            let mut has_ended = true;
            for which in (0..sides).map(|at| (turn + at) % sides) {
                let (Ok(_), Some(rate)) = (&results[which], searches[which].next()) else {
                    continue;
                };
                has_ended = false;
                match trial(which, rate) {
                    Ok((achieved, has_lost)) => searches[which].note(rate, achieved, has_lost),
                    Err(why) => results[which] = Err(why),
                }
            }
            if has_ended {
                break;
            }
            turn += 1;
        }
        for (result, search) in results.iter_mut().zip(&searches) {
            if let Ok(result) = result {
                result.push(search.result());
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The highest rate of the sender in these tests.
    const SENDER: f64 = 2_000_000.0;

    /// Searches with a program that loses frames at rates for which `loses` holds; the trials, and the result.
    fn search(resolution: f64, mut loses: impl FnMut(f64) -> bool) -> (Vec<f64>, Highest) {
        let mut search = Search::new(resolution, 1.0 / 64.0);
        let mut trials = Vec::new();
        while let Some(rate) = search.next() {
            let achieved = rate.min(SENDER);
            search.note(rate, achieved, loses(achieved));
            trials.push(rate);
        }
        (trials, search.result())
    }

    proptest! {
        #[test]
        fn a_programs_limit_is_found_within_the_resolution(limit in 40_000.0..1_999_999.0, resolution in 0.01..0.5) {
            let (trials, found) = search(resolution, |rate| rate > limit);
            let Highest::Is(rate) = found else {
                panic!("{found:?}");
            };
            prop_assert!(rate <= limit && limit <= rate / (1.0 - resolution), "{rate} for {limit}");
            prop_assert_eq!(trials.iter().filter(|&&it| it == rate).count(), 2, "confirmed");
            prop_assert!(trials.len() < 20, "{trials:?}");
        }

        #[test]
        fn it_ends_whatever_happens(outcomes in prop::collection::vec(any::<bool>(), 30), resolution in 0.01..0.5) {
            let mut outcomes = outcomes.into_iter();
            let (trials, found) = search(resolution, |_| outcomes.next().unwrap());
            prop_assert!(trials.len() <= 24, "{trials:?}");
            if let Highest::Is(rate) | Highest::AtLeast(rate) = found {
                prop_assert!(trials.iter().filter(|it| it.min(SENDER) == rate).count() >= 2, "{trials:?}");
            }
        }
    }

    #[test]
    fn without_a_loss_the_limit_is_the_senders_after_two_trials() {
        let (trials, found) = search(0.1, |_| false);
        assert_eq!(trials, [TOP, TOP]);
        assert_eq!(found, Highest::AtLeast(SENDER));
    }

    #[test]
    fn with_losses_at_every_rate_there_is_no_result_after_few_trials() {
        let (trials, found) = search(0.1, |_| true);
        assert_eq!(trials.len(), 7, "{trials:?}");
        assert_eq!(found, Highest::None(SENDER / 64.0));
    }

    #[test]
    fn a_rate_that_loses_frames_at_its_second_trial_is_no_result() {
        // From 1.5 million on every trial loses frames, and the first one at the rate that would be the result, too.
        let mut seen = Vec::new();
        let (_, found) = search(0.1, |rate| {
            let is_second = seen.contains(&rate);
            seen.push(rate);
            rate > 1_500_000.0 || (rate > 1_000_000.0 && is_second)
        });
        let Highest::Is(rate) = found else {
            panic!("{found:?}");
        };
        assert!((900_000.0..=1_000_000.0).contains(&rate), "{rate}");
        // The same at the sender's limit: one trial without a loss is not enough.
        let mut trials = 0;
        let (_, found) = search(0.1, |rate| {
            trials += 1;
            trials == 2 || rate > 1_000_000.0 && trials > 1
        });
        assert!(
            matches!(found, Highest::Is(rate) if rate <= 1_000_000.0),
            "{found:?}"
        );
    }

    #[test]
    fn searches_take_turns_and_one_that_fails_stops_no_other() {
        let mut order = Vec::new();
        let begin = || Search::new(0.5, 0.25);
        // The first side never loses a frame, the second always does, the third fails at its second trial.
        let found = in_turn(3, 2, begin, |which, rate| {
            order.push(which);
            let trials = order.iter().filter(|&&it| it == which).count();
            anyhow::ensure!(which != 2 || trials < 2, "it ended");
            Ok((rate.min(SENDER), which == 1))
        });
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 1, 0, 1, 1, 0, 1]);
        let [first, second, third] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(*first.as_ref().unwrap(), [Highest::AtLeast(SENDER); 2]);
        assert_eq!(*second.as_ref().unwrap(), [Highest::None(SENDER / 4.0); 2]);
        assert_eq!(third.as_ref().unwrap_err().to_string(), "it ended");
    }

    #[test]
    fn the_result_is_what_the_sender_achieved_not_what_was_intended() {
        let mut search = Search::new(0.5, 0.25);
        search.note(TOP, 1000.0, true);
        assert_eq!(search.next(), Some(500.0));
        search.note(500.0, 490.0, false);
        assert_eq!(search.next(), Some(500.0));
        search.note(500.0, 480.0, false);
        assert_eq!((search.next(), search.result()), (None, Highest::Is(480.0)));
    }
}
