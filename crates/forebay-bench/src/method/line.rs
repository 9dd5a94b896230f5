//! How long a cache line takes between two cores: a guest's processors are moved about, and everything that two
//! threads do is three to ten times slower while they are far apart.

use super::processors::{pin, processors};
use anyhow::Result;
use forebay::sync::CachePadded;
use serde::Serialize;
use std::{
    fmt,
    sync::{
        Barrier,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Release},
        },
    },
    thread,
    time::Instant,
};

/// How far apart two processors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// A line is there and back within 70 ns: they are two threads of one core, and share its first cache. No table has it.
    OneCore,
    /// Within 200 ns: they share a cache.
    Near,
    /// Anything longer.
    Far,
}

impl Mode {
    /// Of a round trip.
    pub fn of(round_trip_ns: f64) -> Mode {
        if round_trip_ns < 70.0 {
            Mode::OneCore
        } else if round_trip_ns < 200.0 {
            Mode::Near
        } else {
            Mode::Far
        }
    }

    /// That of now.
    pub fn now(one: usize, other: usize) -> Result<Mode> {
        round_trip(one, other).map(Mode::of)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::OneCore => "ONE CORE",
            Mode::Near => "NEAR",
            Mode::Far => "FAR",
        })
    }
}

/// How far apart the first two processors were, each time they were looked at: what several processes do on them depends on it.
#[derive(Debug, Default)]
pub struct Seen(Vec<Mode>);

impl Seen {
    /// Looks, if there are two.
    pub fn look(&mut self) {
        if let Ok([first, second, ..]) = processors().as_deref() {
            self.0.extend(Mode::now(*first, *second));
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [Mode::Near, Mode::Far, Mode::OneCore].map(|mode| {
            let times = self.0.iter().filter(|&&seen| seen == mode).count();
            format!("{mode} in {times}")
        });
        write!(
            f,
            "samples by how far apart two processors were: {}",
            counts.join(", ")
        )
    }
}

/// Nanoseconds that a line takes from processor `one` to `other` and back: the median of several tries.
pub fn round_trip(one: usize, other: usize) -> Result<f64> {
    const TRIPS: u32 = 1000;
    const TRIES: usize = 5;
    let there = CachePadded(AtomicU32::new(0));
    let back = CachePadded(AtomicU32::new(0));
    let (ready, pinned) = (Barrier::new(2), AtomicU32::new(0));
    // A thread that cannot be pinned reports that before the other one waits for it.
    let together = |cpu| {
        let done = pin(cpu).map(|()| pinned.fetch_add(1, Release));
        ready.wait();
        done.map(|_| pinned.load(Acquire) == 2)
    };
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            if !together(other)? {
                return Ok(());
            }
            for trip in 1..=TRIPS * TRIES as u32 {
                while there.load(Acquire) != trip {
                    std::hint::spin_loop();
                }
                back.store(trip, Release);
            }
            anyhow::Ok(())
        });
        let caller = scope.spawn(|| {
            if !together(one)? {
                return Ok(0.0);
            }
            let mut tries = [0.0; TRIES];
            for (number, time) in tries.iter_mut().enumerate() {
                let begun = Instant::now();
                for trip in 1..=TRIPS {
                    let trip = trip + number as u32 * TRIPS;
                    there.store(trip, Release);
                    while back.load(Acquire) != trip {
                        std::hint::spin_loop();
                    }
                }
                *time = begun.elapsed().as_nanos() as f64 / f64::from(TRIPS);
            }
            tries.sort_by(f64::total_cmp);
            anyhow::Ok(tries[TRIES / 2])
        });
        let time = caller.join().expect("it does not panic");
        echo.join().expect("it does not panic")?;
        time
    })
}
