//! How long a producer is kept by a burst, before a sink that takes its time.

use super::{
    roles::Role,
    sides::{self, figures, is_rival, note_versions},
};
use crate::method::{
    Effort,
    line::Seen,
    samples::{Summary, in_turn},
    table::{Cell, Table},
};
use anyhow::{Context, Result, ensure};
use sides::{Between, Side};
use std::time::Duration;

const BYTES: usize = 16 << 20;
const EVERY: Duration = Duration::from_millis(50);
const SINK_BYTES_PER_SECOND: u64 = 500_000_000;

/// Bursts of a sample: 240 a side in 15 rounds.
const BURSTS: u64 = 16;

const LIMIT: &str = "limit: written to a file in memory";

/// What all samples of a side say.
struct Kept {
    ms: Summary,
    /// 99 of 100 took at most this time.
    late_ms: f64,
    longest_ms: f64,
    /// Seconds of the one between, for a GB.
    cpu: Option<Summary>,
}

/// The table.
pub fn run(effort: Effort) -> Table {
    let rounds = effort.few_rounds();
    let count = effort.scaled(BURSTS).max(4) as usize;
    let produce = |into_memory| Role::Bursts {
        count,
        bytes: BYTES,
        every: EVERY,
        into_memory,
    };
    let sink = |rate| Role::Consume { rate };
    let mut sides = sides::between(&produce(false), &sink(Some(SINK_BYTES_PER_SECOND)));
    sides.push(Side {
        name: LIMIT,
        between: Between::Nothing,
        ends: (produce(true), sink(None)),
    });
    let mut seen = Seen::default();
    let samples = in_turn(sides.len(), rounds, |which| {
        seen.look();
        let ran = sides[which].run()?;
        let came: u64 = ran.consumer.result()?;
        let bytes = match sides[which].name {
            LIMIT => 0,
            _ => (count * BYTES) as u64,
        };
        ensure!(came == bytes, "{came} of {bytes} bytes came out");
        let cpu = ran
            .between
            .map(|it| it.cpu.as_secs_f64() / (bytes as f64 / 1e9));
        Ok((ran.producer.result::<Vec<f64>>()?, cpu))
    });
    let results: Vec<_> = samples.into_iter().map(|it| summed(&it?)).collect();
    let least = |is: fn(&Side) -> bool| {
        let all = figures(&sides, &results, is, |kept| Some(kept.ms.median));
        all.into_iter().reduce(f64::min)
    };
    let best = least(is_rival);
    let limit = least(|side| side.name == LIMIT);
    let title = format!(
        "pipe/bursts: {} MiB each {} ms into a sink of {} GB/s, until the producer has handed off one",
        BYTES >> 20,
        EVERY.as_millis(),
        SINK_BYTES_PER_SECOND as f64 / 1e9
    );
    let columns = [
        "ms",
        "best rival = 1",
        "limit = 1",
        "99 of 100 within",
        "longest",
        "CPU s/GB",
    ];
    let mut table = Table::new(title, &columns);
    table.results(sides.iter().map(|side| side.name), &results, |kept| {
        vec![
            Cell::spread(Some(kept.ms), 2),
            Cell::times(Some(kept.ms), best),
            Cell::times(Some(kept.ms), limit),
            Cell::number(kept.late_ms, 2),
            Cell::number(kept.longest_ms, 2),
            Cell::spread(kept.cpu, 3),
        ]
    });
    table.note(format!(
        "{} bursts a side; buffers of 64 MiB where there is one; a tenth more or less is a tie",
        count * rounds
    ));
    table.note(seen.to_string());
    note_versions(&mut table, &sides);
    table
}

fn summed(samples: &[(Vec<f64>, Option<f64>)]) -> Result<Kept> {
    let cpu = samples.iter().filter_map(|&(_, cpu)| cpu).collect();
    let mut all: Vec<f64> = samples.iter().flat_map(|(ms, _)| ms).copied().collect();
    all.sort_by(f64::total_cmp);
    let last = all.len().checked_sub(1).context("no round, no sample")?;
    Ok(Kept {
        late_ms: all[(all.len() * 99 / 100).min(last)],
        longest_ms: all[last],
        ms: Summary::of(all).context("no round, no sample")?,
        cpu: Summary::of(cpu),
    })
}
