//! Throughput, and the processor time of the program in between.

use super::{
    roles::{READS, Role},
    sides::{self, LENT, NOTHING, figures, is_rival, note_versions},
};
use crate::method::{
    Effort,
    line::Seen,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, ensure};

/// Bytes of a producer's write: as of `head` and about as of `tar`, and as of `cat`.
pub const WRITES: [usize; 2] = [8 << 10, 128 << 10];

/// Bytes that go through in a sample.
const BYTES: u64 = 1 << 30;

/// What all samples of a side say.
struct Passed {
    gb_per_second: Summary,
    /// Seconds of the one between, for a GB.
    cpu: Option<Summary>,
}

/// The table of producers that write `block` bytes at once.
pub fn run(block: usize, effort: Effort) -> Table {
    let bytes = effort.scaled(BYTES).next_multiple_of(1 << 20);
    let produce = Role::Produce {
        bytes,
        block,
        large: false,
    };
    let mut sides = sides::between(&produce, &Role::Consume { rate: None });
    sides.extend(sides::limits(&produce, bytes));
    let gb = bytes as f64 / 1e9;
    let mut seen = Seen::default();
    let samples = in_turn(sides.len(), effort.few_rounds(), |which| {
        seen.look();
        let ran = sides[which].run()?;
        let came: u64 = ran.consumer.result()?;
        ensure!(came == bytes, "{came} of {bytes} bytes came out");
        let cpu = ran.between.map(|it| it.cpu.as_secs_f64() / gb);
        Ok((gb / ran.took.as_secs_f64(), cpu))
    });
    let results: Vec<_> = samples.into_iter().map(|it| summed(&it?)).collect();
    let speed = |passed: &Passed| Some(passed.gb_per_second.median);
    let fastest = |is: fn(&sides::Side) -> bool| {
        let all = figures(&sides, &results, is, speed);
        all.into_iter().reduce(f64::max)
    };
    let best = fastest(is_rival);
    let nothing = fastest(|side| side.name == NOTHING);
    let limit = fastest(|side| side.name == LENT);
    let cost = |passed: &Passed| Some(passed.cpu?.median);
    let least = figures(&sides, &results, is_rival, cost);
    let least = least.into_iter().reduce(f64::min);
    let title = format!(
        "pipe/writes of {} KiB: {} MiB from one process to the next, from the start to the end of all",
        block >> 10,
        bytes >> 20
    );
    let columns = [
        "GB/s",
        "best rival = 1",
        "nothing = 1",
        "limit = 1",
        "CPU s/GB",
        "least of a rival = 1",
    ];
    let mut table = Table::new(title, &columns);
    table.results(sides.iter().map(|side| side.name), &results, |passed| {
        let speed = passed.gb_per_second;
        vec![
            Cell::spread(Some(speed), 2),
            Cell::times(Some(speed), best),
            Cell::times(Some(speed), nothing),
            Cell::times(Some(speed), limit),
            Cell::spread(passed.cpu, 3),
            Cell::times(passed.cpu, least),
        ]
    });
    table.note(format!(
        "reads of {} KiB; buffers of 64 MiB where there is one; rounds: {}; a tenth more or less is a tie",
        READS >> 10,
        effort.few_rounds()
    ));
    table.note(
        "a pipe holds 64 KiB; forebay asks for 1 MiB: the first limit is nothing between in such a one",
    );
    table.note(seen.to_string());
    note_versions(&mut table, &sides);
    table
}

fn summed(samples: &[(f64, Option<f64>)]) -> Result<Passed> {
    let speed = samples.iter().map(|&(speed, _)| speed).collect();
    let cpu = samples.iter().filter_map(|&(_, cpu)| cpu).collect();
    Ok(Passed {
        gb_per_second: Summary::of(speed).context("no round, no sample")?,
        cpu: Summary::of(cpu),
    })
}
