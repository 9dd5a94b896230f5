//! Cache misses by valgrind's simulation, which needs no counters of the processor, and counts the same on a busy machine.
//!
//! ```text
//!   this program again, in a role, under callgrind:   loop, to warm up ─ mark ─ loop ─ mark ─ the next loop …
//!   callgrind:                                        counts inside `counted`; at each mark writes a file, and counts from 0
//! ```
//! callgrind has the simulation of cachegrind, which cannot do either. It knows both functions by their names.

use super::process::{Fate, Running, in_role, program};
use super::processors::processors;
use anyhow::{Context, Result, ensure};
use std::{env, fs, hint::black_box, process::Stdio, time::Duration};

/// A loop of a table.
pub struct Loop {
    /// The table's title up to the colon, which has the loop's times.
    pub table: &'static str,
    pub row: &'static str,
    /// Does this number of operations; what is inside [`counted`] counts.
    pub work: Box<dyn FnMut(u64) -> Result<()>>,
}

/// Misses of data, an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misses {
    pub first_level: f64,
    pub last_level: f64,
}

/// What is simulated, as options and in words: the same on every machine.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];
pub const CACHES_IN_WORDS: &str = "a first level of 32 KiB and a last level of 8 MiB";

/// Valgrind is up to a hundred times slower than the processor, and other programs may be busy.
const LIMIT: Duration = Duration::from_secs(600);

/// Calls `work`. The simulation counts nothing else.
#[inline(never)]
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    work()
}

#[inline(never)]
fn mark_of_loop(which: usize) {
    black_box(which);
}

/// Runs each loop as a simulation needs it.
pub fn run(loops: &mut [Loop], operations: u64) -> Result<()> {
    for (which, one) in loops.iter_mut().enumerate() {
        for _ in 0..2 {
            (one.work)(operations)?;
            mark_of_loop(which);
        }
    }
    Ok(())
}

/// Simulates this program in the role `operations` of a room, which calls [`run`] with this number of loops.
pub fn misses(room: &str, loops: usize, operations: u64) -> Result<Vec<Misses>> {
    let folder = env::temp_dir().join(format!("forebay-bench-simulated-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let out = folder.join("out");
    let simulate = || {
        let ours = in_role(room, &operations)?;
        let mut command = program("valgrind", "valgrind")?;
        command
            .args(["--tool=callgrind", "--cache-sim=yes", "--combine-dumps=no"])
            .args(CACHES)
            .args(["--toggle-collect=*simulated*counted*"])
            .args(["--dump-before=*mark_of_loop*"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(ours.get_program())
            .args(ours.get_args())
            .stdin(Stdio::null());
        let running = Running::start("valgrind", command, None, &processors()?, Fate::Dies)?;
        running.wait(LIMIT)?;
        // The first file of a loop has its warm-up.
        let of = |which: usize| {
            let file = format!("{}.{}", out.display(), 2 * which + 2);
            let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
            found(&text, operations).with_context(|| format!("in {file}"))
        };
        (0..loops).map(of).collect()
    };
    let found = simulate();
    let _ = fs::remove_dir_all(&folder); // a few files in the temporary folder
    found
}

/// What a file of callgrind's says.
fn found(text: &str, operations: u64) -> Result<Misses> {
    let words = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.split_whitespace().collect::<Vec<_>>())
    };
    let names = words("events:").context("no events")?;
    let totals = words("totals:").context("no totals")?;
    let total = |name: &str| {
        let place = names.iter().position(|it| *it == name)?;
        // Zeros at the end are left out.
        totals
            .get(place)
            .map_or(Some(0), |it| it.parse::<u64>().ok())
    };
    let each = |read: &str, written: &str| {
        let all = total(read)? + total(written)?;
        Some(all as f64 / operations as f64)
    };
    ensure!(total("Ir") > Some(operations), "it counted no loop");
    Ok(Misses {
        first_level: each("D1mr", "D1mw").context("no misses")?,
        last_level: each("DLmr", "DLmw").context("no misses")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_found_by_their_names_and_a_run_without_a_loop_is_an_error() {
        let events = "version: 1\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\n";
        let text = format!("{events}totals: 500 0 0 7 20 10 1 5\n");
        let expected = Misses {
            first_level: 3.0,
            last_level: 0.5,
        };
        assert_eq!(found(&text, 10).unwrap(), expected);
        assert!(found(&format!("{events}totals: 0\n"), 10).is_err());
        assert!(found("events: Ir\ntotals: 500\n", 10).is_err());
    }
}
