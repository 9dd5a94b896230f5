//! What sleeping costs by itself: a thread that sleeps as often as a poller does, and does nothing else.

use crate::{
    driver::on_processor,
    method::{Effort, samples::Summary, two::run_pair},
};
use anyhow::{Result, anyhow};
use std::{
    hint,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
    thread,
    time::{Duration, Instant},
};

/// Percent of a processor that `a_second` sleeps a second take, each until its time has come; another thread spins beside it,
/// as the processing thread does.
pub fn percent(
    a_second: f64,
    length: Duration,
    effort: Effort,
    cpus: (usize, usize),
) -> Result<Summary> {
    let samples: Result<Vec<_>> = (0..effort.rounds)
        .map(|_| sample(a_second, length, cpus))
        .collect();
    Summary::of(samples?).ok_or_else(|| anyhow!("no rounds"))
}

fn sample(a_second: f64, length: Duration, cpus: (usize, usize)) -> Result<f64> {
    let sleeps = ((a_second * length.as_secs_f64()).round() as u32).max(1);
    let (over, mut percent) = (AtomicBool::new(false), 0.0);
    let sleep = || {
        let (had, begun) = (on_processor(), Instant::now());
        for turn in 1..=sleeps {
            let then = begun + length * turn / sleeps;
            thread::sleep(then.saturating_duration_since(Instant::now()));
        }
        let (had, elapsed) = (on_processor() - had, begun.elapsed());
        percent = 100.0 * had.as_secs_f64() / elapsed.as_secs_f64();
        over.store(true, Release);
    };
    let spin = || {
        while !over.load(Acquire) {
            hint::spin_loop();
        }
    };
    run_pair(cpus, sleep, spin)?;
    Ok(percent)
}
