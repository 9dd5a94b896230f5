//! Bytes from one process to the next through a program between them: `forebay pipe`, other programs, and the kernel's limits.
//!
//! `through` measures throughput, `bursts` the time until a producer has handed off a burst. `sides` lists the programs, `roles` our
//! processes: the ends of each pipeline, `forebay pipe` as `forebay_io` has it, and the limits.
//!
//! ```text
//!   through   producer ── 8 or 128 KiB a write ──▶ X ──▶ consumer           GB/s from start to end, processor time of X alone
//!   bursts    16 MiB each 50 ms ──▶ X, 64 MiB ──▶ 0.5 GB/s                  how long the producer is kept by a burst
//! ```

mod bursts;
mod roles;
mod sides;
mod through;

pub use roles::play;

use crate::method::{
    Effort,
    process::{program, version},
    table::Table,
};
use anyhow::Result;
use sides::{Between, Side};

/// Bytes that a consumer asks for, and a copy of ours.
const READS: usize = 128 << 10;

/// One table a size of writes, and the bursts.
pub fn run(effort: Effort) -> Vec<Table> {
    let through = through::WRITES.map(|block| through::run(block, effort));
    let mut tables = Vec::from(through);
    tables.push(bursts::run(effort));
    tables
}

/// A figure of each of the sides that ran and are of a kind.
fn figures<T>(
    sides: &[Side],
    results: &[Result<T>],
    is_of_kind: impl Fn(&Side) -> bool,
    figure: impl Fn(&T) -> Option<f64>,
) -> Vec<f64> {
    let those = sides
        .iter()
        .zip(results)
        .filter(|(side, _)| is_of_kind(side));
    let figures = those.filter_map(|(_, result)| figure(result.as_ref().ok()?));
    figures.collect()
}

fn is_rival(side: &Side) -> bool {
    matches!(side.between, Between::Program { .. })
}

/// Which programs of the system's were there.
fn note_versions(table: &mut Table, sides: &[Side]) {
    let mut versions = Vec::new();
    for side in sides {
        if let Between::Program { name, debian, .. } = side.between
            && let Some(version) = program(name, debian).ok().and_then(version)
            && !versions.contains(&version)
        {
            versions.push(version);
        }
    }
    if !versions.is_empty() {
        table.note(versions.join(", "));
    }
}
