//! The experiment of *Device Driver Queues*: a textbook's driver, and the effect of each step away from it.
//!
//! ```text
//!  wire, 1 Gb/s ──▶ card's ring, 1024 ──▶ one thread: interrupt, or poll ──▶ path ──▶ another thread: process
//!                        └─ overruns: lost                                    ▲
//!                                                       list · ring · ring and pool · batches
//! ```
//! The card is the simulated one, so a packet that is not fetched within 688 µs is lost. An interrupt costs the text's 1000
//! cycles of 1.2 GHz, spent spinning. `path` has the ways from one thread to the other, `textbook` the text's own way,
//! `buffer` its memory, `card` the thread that attends the card, `apart` the parts without a card. This file takes the samples.

mod apart;
mod buffer;
mod card;
mod path;
mod textbook;

pub use apart::loops;
pub use card::{Attendance, INTERRUPT, LINE_RATE, Load, REST, on_processor};
pub use path::{Asleep, Gathered};
pub use textbook::Listed;

use crate::method::{
    Effort,
    samples::Summary,
    table::{Cell, Table},
};
use anyhow::Result;
use card::Sample;
use path::{Batched, Path, Pooled, Ringed};
use std::time::Duration;

/// A row: a way of handing over, and of attending the card.
pub struct Step {
    /// What a row calls it.
    pub name: &'static str,
    sample: fn(Attendance, Load) -> Result<Sample>,
    attendance: Attendance,
}

impl Step {
    /// Over the path `P`.
    pub const fn of<P: Path>(name: &'static str, attendance: Attendance) -> Step {
        Step {
            name,
            sample: card::sample::<P>,
            attendance,
        }
    }
}

/// Each step keeps those before it.
const STEPS: [Step; 7] = [
    Step::of::<Listed>(
        "textbook: list, spinlock, malloc, an interrupt a packet",
        Attendance::Interrupts,
    ),
    Step::of::<Ringed>("+ a ring", Attendance::Interrupts),
    Step::of::<Pooled>("+ a pool", Attendance::Interrupts),
    Step::of::<Batched>("+ batches of 32", Attendance::Interrupts),
    Step::of::<Batched>("+ polling with a budget of 64", Attendance::Polling),
    Step::of::<Gathered>("+ packets sent in batches", Attendance::Polling),
    Step {
        name: "the same by forebay's receive driver",
        sample: card::driven,
        attendance: Attendance::Polling,
    },
];

/// The experiment.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let load = Load {
        bits_per_second: LINE_RATE,
        length: Duration::from_millis(effort.scaled(50)),
    };
    let taken = in_turn(&STEPS, load, effort.rounds)?;
    let mut tables = vec![table(&taken, load)];
    tables.extend(apart::run(effort)?);
    Ok(tables)
}

/// A step's samples, and how many were discarded.
#[derive(Default)]
pub struct Taken {
    samples: Vec<Sample>,
    /// Samples in which a thread was off its processor for more than half of the card's ring.
    pub discarded: usize,
}

impl Taken {
    /// How many samples count.
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// What they say; `None` of none.
    pub fn figures(&self) -> Option<Figures> {
        Figures::of(&self.samples)
    }
}

/// Takes `rounds` samples of each step; the steps alternate.
pub fn in_turn(steps: &[Step], load: Load, rounds: usize) -> Result<Vec<Taken>> {
    let mut taken: Vec<_> = steps.iter().map(|_| Taken::default()).collect();
    // Those discarded are taken again, but not for ever.
    for round in 0..10 * rounds {
        for turn in 0..steps.len() {
            let which = (round + turn) % steps.len();
            let of_step = &mut taken[which];
            if of_step.count() == rounds {
                continue;
            }
            let sample = (steps[which].sample)(steps[which].attendance, load)?;
            match sample.away > load.half_ring() {
                true => of_step.discarded += 1,
                false => of_step.samples.push(sample),
            }
        }
    }
    Ok(taken)
}

/// A row's figures.
pub struct Figures {
    /// Percent of the packets.
    pub lost: Summary,
    /// Million packets a second.
    pub rate: Summary,
    /// Percent of one processor, of both threads.
    pub busy: Summary,
    /// Cycles a packet, of both threads; and those that are not interrupts.
    cycles: Option<Summary>,
    work: Option<Summary>,
    /// Nanoseconds a packet, of both threads, without interrupts.
    work_ns: Summary,
    misses: Option<Summary>,
    /// Sleeps a second of the thread that attends the card.
    pub sleeps: Summary,
}

impl Figures {
    /// `None` without samples.
    fn of(samples: &[Sample]) -> Option<Figures> {
        let each = |figure: &dyn Fn(&Sample) -> Option<f64>| {
            Summary::of(samples.iter().filter_map(figure).collect())
        };
        let a_packet = |time: Duration, it: &Sample| time.as_nanos() as f64 / it.processed as f64;
        let all = |it: &Sample| a_packet(it.busy, it);
        let work = |it: &Sample| a_packet(it.busy.saturating_sub(it.interrupts), it);
        Some(Figures {
            lost: each(&|it| Some(100.0 * it.lost as f64 / it.received as f64))?,
            rate: each(&|it| Some(it.processed as f64 / it.elapsed.as_secs_f64() / 1e6))?,
            busy: each(&|it| Some(100.0 * it.busy.as_secs_f64() / it.elapsed.as_secs_f64()))?,
            cycles: each(&|it| Some(all(it) * it.ghz?)),
            work: each(&|it| Some(work(it) * it.ghz?)),
            work_ns: each(&|it| Some(work(it)))?,
            misses: each(&|it| Some(it.misses? as f64 / it.processed as f64)),
            sleeps: each(&|it| Some(it.sleeps as f64 / it.elapsed.as_secs_f64()))?,
        })
    }
}

fn table(taken: &[Taken], load: Load) -> Table {
    let title = format!(
        "driver/1 Gb/s of 64-byte frames, 1.488 million a second: a card's ring of 1024, {} ms a sample",
        load.length.as_millis()
    );
    let columns = [
        "lost %",
        "million/s",
        "gain",
        "CPU %",
        "cycles a packet",
        "interrupts aside",
        "gain",
        "cache misses",
        "samples",
        "discarded",
    ];
    let mut table = Table::new(title, &columns);
    let mut before: Option<Figures> = None;
    for (step, taken) in STEPS.iter().zip(taken) {
        let discarded = taken.discarded;
        let Some(now) = taken.figures() else {
            let why = format!("no sample: {discarded} discarded");
            table.row(step.name, vec![Cell::Text(why)]);
            continue;
        };
        let gain = |of: &dyn Fn(&Figures) -> f64| match &before {
            Some(before) => Cell::number(of(&now) / of(before), 2),
            None => Cell::Unknown,
        };
        table.row(
            step.name,
            vec![
                Cell::spread(Some(now.lost), 2),
                Cell::spread(Some(now.rate), 3),
                gain(&|figures| figures.rate.median),
                Cell::spread(Some(now.busy), 0),
                Cell::spread(now.cycles, 0),
                Cell::spread(now.work, 0),
                gain(&|figures| 1.0 / figures.work_ns.median),
                Cell::spread(now.misses, 2),
                Cell::number(taken.count() as f64, 0),
                Cell::number(discarded as f64, 0),
            ],
        );
        before = Some(now);
    }
    table.note(format!(
        "each row keeps the steps before it, and its gains are over the row before; an interrupt costs {} ns, the text's \
         1000 cycles at 1.2 GHz",
        INTERRUPT.as_nanos()
    ));
    table.note(format!(
        "CPU: of one processor, both threads together, waiting for packets not counted; discarded: a thread was off its \
         processor for more than half of the card's ring, {} µs (malloc that talks to the kernel counts as that, too)",
        load.half_ring().as_micros()
    ));
    let mut samples = taken.iter().flat_map(|taken| &taken.samples);
    if samples.all(|sample| sample.misses.is_none()) {
        table.note("this machine does not let cache misses be counted");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::processors::pair;

    #[test]
    fn every_step_accounts_for_every_packet() {
        let Ok(_) = pair() else {
            return eprintln!("skipped: needs two processors");
        };
        let load = Load {
            bits_per_second: LINE_RATE,
            length: Duration::from_millis(20),
        };
        for step in &STEPS {
            let sample = (step.sample)(step.attendance, load).unwrap();
            assert!(sample.processed > 0, "{}", step.name);
            assert_eq!(sample.received, sample.processed + sample.lost);
        }
    }
}
