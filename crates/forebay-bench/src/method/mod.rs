//! How everything is measured: on pinned threads, with alternating sides; results are medians and spreads of samples.
//!
//! ```text
//!  round 1:  A B C     a sample = clock speed, side, clock speed
//!  round 2:  B C A     all sides see the same minute of the machine
//!  round 3:  C A B     median of each; ratios of medians
//! ```
//!
//! [`samples`] has the contest, [`two`] the one between pairs of threads, [`cycles`] the speed of the core, [`counters`] what it counts, [`simulated`] what valgrind counts, [`line`](mod@line) the way of a cache line between two cores,
//! [`processors`] where threads run, [`machine`] what all of it ran on, [`table`] how it is shown, [`native`] rivals in C, [`process`] programs of the system's and
//! ourselves in a role.

pub mod counters;
pub mod cycles;
pub mod line;
pub mod machine;
pub mod native;
pub mod process;
pub mod processors;
pub mod samples;
pub mod simulated;
pub mod table;
pub mod two;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples a side.
    pub rounds: usize,
    /// Shorter samples, smaller memory: to see that it works, not to quote.
    pub quick: bool,
}

impl Effort {
    /// `whole`, or a tenth of it where things should be quick.
    pub fn scaled(&self, whole: u64) -> u64 {
        if self.quick { whole / 10 } else { whole }
    }

    /// Samples a side, where one takes half a second even with a tenth of the work; only one where things should be quick.
    pub fn few_rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }
}
