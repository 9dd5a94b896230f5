//! Rings between two threads, eight bytes a number: the list and ring of *Device Driver Queues*, those of Rust, C and C++, ours, and
//! the limit.
//!
//! `ends` has the trait and ours, `source_text` and `rivals` the others in Rust, `lines` the limit, `runs` the tasks. Those in C++ are
//! separate programs: `harness.hpp` does there what `runs` does here.
//!
//! ```text
//!   pass    one processor ── 0 1 2 3 … ──▶ the other          1 Ki and 64 Ki slots, one by one and in bursts of 32
//!   work    the same, and each end multiplies and adds once for each number
//!   trips   one ── 0 ──▶ the other ── 0 ──▶ one, 1 …          two rings
//!   alone   in and out again, one processor
//! ```

mod ends;
mod lines;
mod rivals;
mod runs;
mod source_text;

use crate::method::{
    Effort,
    line::{self, Mode},
    native::{Native, Recipe},
    processors::{Cpus, pair},
    samples::{self, Side, Summary},
    simulated::Loop,
    table::{Cell, Table},
    two::{Samples, beside, contest_of_operations, near_and_far},
};
use anyhow::{Result, bail};
use ends::Forebay;
pub use ends::{Pops, Pushes, Ring};
use rivals::{Crossbeam, Kanal, Nexus, Rigtorp, Ringbuf, Rtrb, Std};
use runs::{BURST, Task, run as run_task};
use source_text::Listed;
pub use source_text::{Textbook, TextbookEnd};

/// Slots of the rings that numbers pass.
const CAPACITIES: [usize; 2] = [1 << 10, 1 << 16];

/// Does a task with this number of numbers, retrying with pauses or without; returns the nanoseconds.
type Work = Box<dyn FnMut(Task, bool, Cpus, u64) -> Result<f64>>;

/// One of those compared.
struct Entrant {
    name: &'static str,
    work: Work,
}

impl Entrant {
    fn new<R: Ring>(name: &'static str) -> Entrant {
        let work = |task, pauses, cpus, numbers| match pauses {
            true => run_task::<R, true>(task, cpus, numbers),
            false => run_task::<R, false>(task, cpus, numbers),
        };
        Entrant {
            name,
            work: Box::new(work),
        }
    }

    fn native(name: &'static str, mut program: Native) -> Entrant {
        let work = move |task: Task, pauses: bool, (one, other): Cpus, numbers| {
            let what = format!("{} {} {one} {other}", task.words(), u8::from(pauses));
            program.sample(&what, numbers)
        };
        Entrant {
            name,
            work: Box::new(work),
        }
    }

    fn limit() -> Entrant {
        // Each side is tried in two ways, and the better counts: others with pauses or without, this in small parts or in
        // large ones.
        let work = |task, small, cpus: Cpus, numbers| match task {
            Task::Pass { works: true, .. } => bail!("the limit does no work"),
            Task::Pass { capacity, .. } if small => lines::pass::<8>(cpus, capacity, numbers),
            Task::Pass { capacity, .. } => lines::pass::<4>(cpus, capacity, numbers),
            Task::Trips => Ok(line::round_trip(cpus.0, cpus.1)? * numbers as f64),
            Task::Alone { .. } => bail!("needs a second thread"),
        };
        Entrant {
            name: "the limit: bare cache lines",
            work: Box::new(work),
        }
    }
}

/// Rivals in C++: what a row calls them, and how to make them.
fn recipes() -> [(&'static str, Recipe<'static>); 4] {
    let header_only = |file, source, debian| Recipe {
        file,
        source,
        pkg_config: None,
        libraries: &[],
        debian,
    };
    [
        (
            "boost's spsc_queue",
            header_only(
                "boost.cpp",
                concat!(include_str!("harness.hpp"), include_str!("boost.cpp")),
                "libboost-dev and g++",
            ),
        ),
        (
            "moodycamel's ReaderWriterQueue",
            header_only(
                "moodycamel.cpp",
                concat!(include_str!("harness.hpp"), include_str!("moodycamel.cpp")),
                "libreaderwriterqueue-dev and g++",
            ),
        ),
        (
            "atomic_queue",
            header_only(
                "atomic_queue.cpp",
                concat!(
                    include_str!("harness.hpp"),
                    include_str!("atomic_queue.cpp")
                ),
                "libatomic-queue-dev and g++",
            ),
        ),
        (
            "DPDK's rte_ring",
            Recipe {
                pkg_config: Some("libdpdk"),
                ..header_only(
                    "rte_ring.cpp",
                    concat!(include_str!("harness.hpp"), include_str!("rte_ring.cpp")),
                    "libdpdk-dev, pkg-config and g++",
                )
            },
        ),
    ]
}

/// Those in Rust, ours first.
fn in_rust() -> Vec<Entrant> {
    vec![
        Entrant::new::<Forebay<false>>("forebay"),
        Entrant::new::<Forebay<true>>("forebay, latency: true"),
        Entrant::new::<Listed>("a list and a spinlock (Device Driver Queues)"),
        Entrant::new::<Textbook>("a ring (Device Driver Queues)"),
        Entrant::new::<Rigtorp>("rigtorp's SPSCQueue"),
        Entrant::new::<Rtrb>("rtrb"),
        Entrant::new::<Ringbuf>("ringbuf"),
        Entrant::new::<Nexus>("nexus-queue"),
        Entrant::new::<Crossbeam>("crossbeam's ArrayQueue"),
        Entrant::new::<Kanal>("kanal's channel"),
        Entrant::new::<Std>("std's sync_channel"),
    ]
}

/// Those whose cache misses can be simulated: a program in C++ is a process apart.
pub fn loops() -> Vec<Loop> {
    let task = Task::Alone { in_bursts: false };
    let of = |Entrant { name, mut work }| Loop {
        table: ALONE,
        row: name,
        work: Box::new(move |numbers| work(task, false, (0, 0), numbers).map(drop)),
    };
    in_rust().into_iter().map(of).collect()
}

/// All of them, ours first, and the unavailable ones with the reason.
fn entrants() -> (Vec<Entrant>, Vec<(&'static str, anyhow::Error)>) {
    let mut here = in_rust();
    let mut missing = Vec::new();
    for (name, recipe) in recipes() {
        match Native::start(&recipe) {
            Ok(program) => here.push(Entrant::native(name, program)),
            Err(why) => missing.push((name, why)),
        }
    }
    here.push(Entrant::limit());
    (here, missing)
}

/// One table for each size and way, one of round trips, one of what it costs within a thread.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let cpus = pair()?;
    let (mut entrants, missing) = entrants();
    let mut tables = Vec::new();
    let rings = entrants.len() - 1; // the limit does no work
    for works in [false, true] {
        for in_bursts in [false, true] {
            for capacity in CAPACITIES {
                let task = Task::Pass {
                    capacity,
                    in_bursts,
                    works,
                };
                let how = if in_bursts {
                    "in bursts of 32"
                } else {
                    "one by one"
                };
                let (name, with) = match works {
                    true => (
                        "work",
                        ", one multiplication and addition for each at both ends",
                    ),
                    false => ("pass", ""),
                };
                let title = format!(
                    "ring/{name}/{capacity} slots, {how}: numbers of 8 bytes from thread to thread{with}, millions a second"
                );
                let of = if works { rings } else { rings + 1 };
                let entrants = &mut entrants[..of];
                tables.push(between_threads(title, task, entrants, effort, cpus)?);
            }
        }
    }
    let title = "ring/trips: a number there and back, 1024 slots each way, ns".into();
    tables.push(between_threads(
        title,
        Task::Trips,
        &mut entrants,
        effort,
        cpus,
    )?);
    tables.push(alone(&mut entrants, effort, cpus)?);
    for table in &mut tables {
        for (name, why) in &missing {
            table.skipped(*name, why);
        }
    }
    Ok(tables)
}

fn between_threads(
    title: String,
    task: Task,
    entrants: &mut [Entrant],
    effort: Effort,
    cpus: Cpus,
) -> Result<Table> {
    // Of each entrant two sides: one that pauses before it tries again, and one that does not.
    let sides = 2 * entrants.len();
    let samples = contest_of_operations(sides, effort, cpus, |side, numbers| {
        (entrants[side / 2].work)(task, side % 2 == 1, cpus, numbers)
    })?;
    let better = |both: &[Samples<f64>], mode: Mode| {
        let all = both.iter().filter_map(|one| one.of(mode));
        all.min_by(|a, b| a.median.total_cmp(&b.median))
    };
    let is_speed = matches!(task, Task::Pass { .. });
    let mut table = Table::new(title, &["NEAR", "forebay = 1", "FAR", "forebay = 1"]);
    for (entrant, both) in entrants.iter().zip(samples.chunks_exact(2)) {
        let both = |mode| [better(both, mode), better(&samples[..2], mode)];
        let shown = |ns: Summary| if is_speed { ns.in_each(1e3) } else { ns };
        table.row(entrant.name, beside(both, shown, 0));
    }
    table.note(format!(
        "each the better of two ways to try again, with a pause instruction and without; up to 1.2 times is a tie. {}",
        near_and_far(&samples)
    ));
    Ok(table)
}

const ALONE: &str = "ring/alone";

fn alone(entrants: &mut [Entrant], effort: Effort, cpus: Cpus) -> Result<Table> {
    let numbers = effort.scaled(1_600_000).next_multiple_of(BURST as u64);
    let mut table = Table::new(
        format!("{ALONE}: a number in and out again by one thread, 1024 slots"),
        &[
            "ns",
            "cycles",
            "cache misses",
            "in bursts of 32: ns",
            "cycles",
            "cache misses",
        ],
    );
    let rings = entrants.len() - 1; // the limit is none
    let mut ways = Vec::new();
    for in_bursts in [false, true] {
        let task = Task::Alone { in_bursts };
        let mut sides = Vec::new();
        for Entrant { name, work } in &mut entrants[..rings] {
            let sample = move || Ok((work(task, false, cpus, numbers)?, numbers));
            sides.push(Side::timed(*name, sample));
        }
        ways.push(samples::contest(&mut sides, effort.rounds)?);
    }
    for (which, entrant) in entrants[..rings].iter().enumerate() {
        let cells = ways.iter().flat_map(|times| {
            [
                Cell::spread(Some(times[which].ns), 2),
                Cell::spread(times[which].cycles, 1),
                Cell::spread(times[which].misses, 3),
            ]
        });
        table.row(entrant.name, cells.collect());
    }
    table.note("up to 1.1 times is a tie");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_carries_every_number_in_every_way() {
        let Ok(cpus) = pair() else {
            return eprintln!("skipped: needs two processors");
        };
        let (mut entrants, missing) = entrants();
        for (name, why) in missing {
            eprintln!("skipped: {name}: {why:#}");
        }
        for Entrant { name, work } in &mut entrants {
            for in_bursts in [false, true] {
                let capacity = 64;
                let pass = |works| Task::Pass {
                    capacity,
                    in_bursts,
                    works,
                };
                let mut tasks = vec![pass(false)];
                if !name.contains("limit") {
                    tasks.extend([pass(true), Task::Trips, Task::Alone { in_bursts }]);
                }
                for task in tasks {
                    for pauses in [false, true] {
                        // The carrying thread checks their sum. They pass each slot ten times. On a busy machine, each wait for the
                        // other thread costs a turn of the scheduler.
                        let ns = work(task, pauses, cpus, 640).unwrap();
                        assert!(ns > 0.0, "{name} {task:?}");
                    }
                }
            }
        }
    }
}
