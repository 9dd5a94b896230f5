//! Where the time of the text's last version goes: push and pop with their copies and without, and the test with its output
//! and without.
//!
//! What a part costs is what the time falls by when the part is left out; the rest of the code stays as it is. Where `perf` is installed,
//! sampled stacks show the same in another way: the share of samples of a process that only pushes, or only pops, in `memcpy`.

use super::{
    course::{self, Flagged, random},
    ladder,
    sides::{Aligned, CAPACITY, READ, WRITE},
};
use crate::method::{
    Effort,
    counters::page_faults,
    process::{Fate, ROLE, Running, program},
    processors::processors,
    samples::{Side, contest},
    table::{Cell, Table},
};
use anyhow::{Context, Result, ensure};
use std::{
    env,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

/// The vector of the text: twice the capacity, moved to the front when the head has passed a half.
const ROOM: usize = 2 * CAPACITY;

/// Pushes writes; at a full stream everything is popped at once, which costs nothing. Nanoseconds and pushes.
#[inline(never)]
fn pushes<const COPY: bool>(writes: u64) -> (f64, u64) {
    let source = Aligned([7_u8; WRITE]);
    let mut buffer = vec![0_u8; ROOM];
    let mut tail = 0;
    let begun = Instant::now();
    for _ in 0..writes {
        if CAPACITY - tail < WRITE {
            tail = 0;
        }
        if COPY {
            buffer[tail..tail + WRITE].copy_from_slice(&black_box(&source).0);
        }
        tail = black_box(tail + WRITE);
    }
    black_box(&mut buffer);
    (begun.elapsed().as_nanos() as f64, writes)
}

/// Pops reads from a stream that is kept as full as writes of 1500 keep it, which are not copied. Nanoseconds and pops.
#[inline(never)]
fn pops<const COPY: bool>(reads: u64) -> (f64, u64) {
    let mut buffer = vec![7_u8; ROOM];
    let (mut head, mut tail) = (0, 0);
    let begun = Instant::now();
    for _ in 0..reads {
        if CAPACITY - (tail - head) >= WRITE {
            tail += WRITE;
        }
        head = black_box(head + READ.min(tail - head));
        if head >= ROOM - CAPACITY {
            if COPY {
                buffer.copy_within(head..tail, 0);
            }
            tail -= head;
            head = 0;
        }
    }
    black_box(&mut buffer);
    (begun.elapsed().as_nanos() as f64, reads)
}

/// The processes whose stacks are sampled, by the name of their row, and the calls that each makes.
const SAMPLED: [(&str, u64); 2] = [("push", 20_000_000), ("pop", 100_000_000)];

/// A process that only pushes or only pops.
pub fn play(role: &str) -> Result<()> {
    let calls = SAMPLED.iter().find(|(name, _)| *name == role);
    let (_, calls) = calls.with_context(|| format!("no such role: {role}"))?;
    match role {
        "push" => pushes::<true>(*calls),
        _ => pops::<true>(*calls),
    };
    Ok(())
}

/// Of the samples of a process in user mode, the share in `memcpy` (glibc's is its `memmove`), and how many samples there are.
fn sampled(role: &str) -> Result<(f64, u64)> {
    const LIMIT: Duration = Duration::from_secs(60);
    let file = env::temp_dir().join(format!("forebay-bench-{}.perf", std::process::id()));
    let run = |command: Command| {
        let running = Running::start("perf", command, None, &processors()?, Fate::Dies)?;
        Ok::<_, anyhow::Error>(running.wait(LIMIT)?.said)
    };
    let mut record = program("perf", "linux-perf")?;
    record.args([
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-g",
        "-F",
        "2000",
        "-o",
    ]);
    record.arg(&file).arg("--").arg(env::current_exe()?);
    record.args([ROLE, "stream", role]);
    let mut report = program("perf", "linux-perf")?;
    report.args(["report", "--stdio", "--no-children", "-g", "none"]);
    report
        .args(["-F", "sample,sym", "-t", ";", "-i"])
        .arg(&file);
    let lines = run(record).and_then(|_| run(report));
    let _ = std::fs::remove_file(&file);
    let (mut copies, mut all) = (0, 0);
    for line in lines?.lines() {
        let Some((samples, symbol)) = line.split_once(';') else {
            continue; // a heading
        };
        let samples: u64 = samples.trim().parse().unwrap_or(0);
        all += samples;
        if symbol.contains("memmove") || symbol.contains("memcpy") {
            copies += samples;
        }
    }
    ensure!(all > 0, "perf has no samples");
    Ok((copies as f64 / all as f64, all))
}

pub fn run(effort: Effort) -> Result<Table> {
    let data = &random(effort.scaled(10_000_000) as usize)[..];
    let calls = effort.scaled(400_000);
    let bytes = data.len() as f64;
    let stream = || Flagged::new(ladder::Sliding::new(2.0));
    let mut sides = [
        Side::timed("push", || Ok(pushes::<true>(calls))),
        Side::timed("push without its copy", || Ok(pushes::<false>(calls))),
        Side::timed("pop", || Ok(pops::<true>(calls))),
        Side::timed("pop without its copy", || Ok(pops::<false>(calls))),
        Side::timed("the text's test, a KB", || {
            let (ns, output) = course::go::<_, true>(stream, data);
            black_box(output);
            Ok((ns, (bytes / 1e3) as u64))
        }),
        Side::timed("the text's test without its output, a KB", || {
            let (ns, _) = course::go::<_, false>(stream, data);
            Ok((ns, (bytes / 1e3) as u64))
        }),
    ];
    let times = contest(&mut sides, effort.rounds)?;
    let title = "stream/profile: the text's vector, 2×, its parts left out, a call; the test for each 1000 bytes";
    let mut table = Table::new(title, &["ns", "share of the copy"]);
    for (number, (side, time)) in sides.iter().zip(&times).enumerate() {
        let without = times.get(number + 1).filter(|_| number % 2 == 0);
        let share = without.map_or(Cell::Unknown, |without| {
            Cell::number(1.0 - without.ns.median / time.ns.median, 2)
        });
        table.row(&side.name, vec![Cell::spread(Some(time.ns), 1), share]);
    }
    drop(sides);
    for (name, output) in [
        ("page faults of the test", true),
        ("page faults without its output", false),
    ] {
        let before = page_faults();
        match output {
            true => drop(course::go::<_, true>(stream, data)),
            false => drop(course::go::<_, false>(stream, data)),
        }
        let faults = (page_faults() - before) as f64;
        table.row(name, vec![Cell::number(faults, 0), Cell::Unknown]);
    }
    for (name, _) in SAMPLED {
        let row = format!("{name}: samples in memcpy");
        match sampled(name) {
            Ok((share, all)) => {
                table.row(&row, vec![Cell::Unknown, Cell::number(share, 2)]);
                table.note(format!("{row}: of {all}, in user mode, by perf"));
            }
            Err(why) => table.skipped(&row, &why),
        }
    }
    table.note("page faults, not times: pages of 4 KiB touched for the first time, by the kernel's counter");
    Ok(table)
}
