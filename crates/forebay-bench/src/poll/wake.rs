//! How long it takes from one thread's word to the other thread's first instruction, when the other one sleeps.
//!
//! ```text
//!   waker:    wait until it must be asleep ─▶ take the time ─▶ wake
//!   sleeper:                 sleep ─────────────────────────────▶ take the time
//! ```

use crate::method::{
    Effort,
    samples::Side,
    table::Table,
    two::{beside, contest, run_pair},
};
use anyhow::{Result, ensure};
use forebay::{
    poll::{Limit, Poller, Source},
    ring::spsc::{RingConfig, ring_with},
    stream::{Reader, StreamConfig, stream_with},
    sync::{Block, CachePadded, Eventfd, Park},
    time::Clock,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::{Errno, read, write},
    thread::futex,
};
use std::{
    convert::Infallible,
    hint,
    os::fd::AsFd,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Release},
    },
    time::{Duration, Instant},
};

/// How long the waker lets the other one fall asleep: a thread of ours looks for some 6 µs first.
const ASLEEP_AFTER: Duration = Duration::from_micros(100);

/// The table: each way to sleep beside the kernel's eventfd.
pub fn run(effort: Effort, cpus: (usize, usize)) -> Result<Table> {
    let wakes = effort.scaled(300) as usize;
    let mut pairs = [
        Side::timed("bare eventfd", || by_eventfd(cpus, wakes)),
        Side::timed("bare futex", || by_futex(cpus, wakes)),
        Side::timed("bare pipe", || by_pipe(cpus, wakes)),
        Side::timed("crossbeam's channel", || by_channel(cpus, wakes)),
        Side::timed("forebay, a ring that parks", || {
            by_ring::<Park>(cpus, wakes)
        }),
        Side::timed("forebay, a ring with a descriptor", || {
            by_ring::<Eventfd>(cpus, wakes)
        }),
        Side::timed("forebay's poller on a stream's descriptor", || {
            by_poller(cpus, wakes)
        }),
    ];
    let results = contest(&mut pairs, effort.rounds, cpus)?;
    let mut table = Table::new(
        "poll/wake-up: from one thread's word to another that slept, one way",
        &["NEAR µs", "eventfd = 1", "FAR µs", "eventfd = 1"],
    );
    for (pair, result) in pairs.iter().zip(&results) {
        let both = |mode| [result.of(mode), results[0].of(mode)];
        table.row(&pair.name, beside(both, |ns| ns.scaled(1e-3), 2));
    }
    table.note(format!(
        "a sample is the median of {wakes} wake-ups, each {} µs after the sleeper was last awake; {} samples dropped because the \
         processors were moved meanwhile",
        ASLEEP_AFTER.as_micros(),
        results.iter().map(|result| result.flipped).sum::<usize>()
    ));
    Ok(table)
}

/// The median of this number of wake-ups, in nanoseconds. `sleep` returns once for each `wake`.
fn sample(
    cpus: (usize, usize),
    wakes: usize,
    mut wake: impl FnMut() + Send,
    mut sleep: impl FnMut() + Send,
) -> Result<(f64, u64)> {
    let origin = Instant::now();
    let now = || origin.elapsed().as_nanos() as u64;
    let (said, awake) = (
        CachePadded(AtomicU64::new(0)),
        CachePadded(AtomicU32::new(0)),
    );
    let mut took = Vec::with_capacity(wakes);
    let waking = || {
        for number in 0..wakes as u32 {
            while awake.load(Acquire) != number {
                hint::spin_loop();
            }
            let from = Instant::now();
            while from.elapsed() < ASLEEP_AFTER {
                hint::spin_loop();
            }
            said.store(now(), Release);
            wake();
        }
    };
    let sleeping = || {
        for number in 0..wakes as u32 {
            sleep();
            took.push(now().saturating_sub(said.load(Acquire)));
            awake.store(number + 1, Release);
        }
    };
    run_pair(cpus, waking, sleeping)?;
    ensure!(took.len() == wakes, "a thread slept through its wake-ups");
    took.sort_unstable();
    Ok((took[wakes / 2] as f64, 1))
}

fn by_eventfd(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let fd = eventfd(0, EventfdFlags::CLOEXEC)?;
    let wake = || assert_eq!(write(&fd, &1_u64.to_ne_bytes()), Ok(8));
    let sleep = || assert_eq!(read(&fd, &mut [0; 8]), Ok(8));
    sample(cpus, wakes, wake, sleep)
}

fn by_pipe(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let (reader, writer) = rustix::pipe::pipe()?;
    let wake = || assert_eq!(write(&writer, &[1]), Ok(1));
    let sleep = || assert_eq!(read(&reader, &mut [0]), Ok(1));
    sample(cpus, wakes, wake, sleep)
}

fn by_futex(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let word = CachePadded(AtomicU32::new(0));
    let mut seen = 0;
    let wake = || {
        word.fetch_add(1, Release);
        futex::wake(&word.0, futex::Flags::PRIVATE, 1).expect("the word is there");
    };
    let sleep = || {
        while word.load(Acquire) == seen {
            match futex::wait(&word.0, futex::Flags::PRIVATE, seen, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => panic!("waiting on a futex: {error}"),
            }
        }
        seen += 1;
    };
    sample(cpus, wakes, wake, sleep)
}

fn by_channel(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let (sender, receiver) = crossbeam_channel::bounded::<u64>(1);
    let wake = || sender.send(1).expect("the receiver is there");
    let sleep = || assert_eq!(receiver.recv(), Ok(1));
    sample(cpus, wakes, wake, sleep)
}

fn by_ring<W: Block>(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let (mut producer, mut consumer) = ring_with::<u64, W>(&RingConfig {
        capacity: 8,
        latency: true,
        ..RingConfig::default()
    })?;
    let wake = || producer.try_push(1).expect("there is room");
    let sleep = || assert_eq!(consumer.pop(), Ok(1));
    sample(cpus, wakes, wake, sleep)
}

/// A stream as a poller's source: it sleeps as a poll loop does.
struct Incoming(Reader<Eventfd>);

impl Source for Incoming {
    type Error = Infallible;

    fn look(&mut self, budget: usize) -> Result<usize, Infallible> {
        Ok(self.0.consume(budget))
    }

    fn arm(&mut self) -> Result<(), Infallible> {
        self.0.arm();
        Ok(())
    }

    fn sleep(&mut self, _limit: &Limit<'_>) -> Result<(), Infallible> {
        // Whatever ends it, the next look finds something or nothing.
        let _ = poll(
            &mut [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)],
            None,
        );
        Ok(())
    }

    fn disarm(&mut self) {
        self.0.disarm();
    }
}

fn by_poller(cpus: (usize, usize), wakes: usize) -> Result<(f64, u64)> {
    let (mut writer, reader) = stream_with::<Eventfd>(&StreamConfig::default())?;
    let mut poller = Poller::new(64, Clock::real());
    let mut incoming = Incoming(reader);
    let wake = || assert_eq!(writer.push_slice(&[1]), 1);
    let sleep = || while let Ok(0) = poller.turn(&mut incoming) {};
    sample(cpus, wakes, wake, sleep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::processors::pair;

    #[test]
    fn every_sleeper_is_woken_every_time() {
        let Ok(cpus) = pair() else {
            return eprintln!("skipped: needs two processors");
        };
        for way in [
            by_eventfd,
            by_futex,
            by_pipe,
            by_channel,
            by_ring::<Park>,
            by_ring::<Eventfd>,
            by_poller,
        ] {
            let (ns, samples) = way(cpus, 20).unwrap();
            assert!(ns > 0.0 && samples == 1);
        }
    }
}
