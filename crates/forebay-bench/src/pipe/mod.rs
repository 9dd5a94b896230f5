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

use crate::method::{Effort, table::Table};

/// One table a size of writes, and the bursts.
pub fn run(effort: Effort) -> Vec<Table> {
    let through = through::WRITES.map(|block| through::run(block, effort));
    let mut tables = Vec::from(through);
    tables.push(bursts::run(effort));
    tables
}
