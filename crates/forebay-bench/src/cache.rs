//! The cache misses of loops that other subjects time, simulated: see [`simulated`]. A loop of two threads is none of them, since
//! the simulation has one cache, and neither is one that must keep up with a card.

use crate::{
    driver,
    method::{
        Effort,
        simulated::{self, CACHES_IN_WORDS, Loop},
        table::{Cell, Table},
    },
    pool, ring,
};
use anyhow::{Context, Result};

/// All of them; those of a table follow each other.
fn loops() -> Result<Vec<Loop>> {
    let mut all = driver::loops();
    all.extend(pool::loops()?);
    all.extend(ring::loops());
    Ok(all)
}

/// Does a number of operations, given as JSON, in each loop.
pub fn play(role: &str) -> Result<()> {
    let operations = serde_json::from_str(role).context("a number of operations")?;
    simulated::run(&mut loops()?, operations)
}

/// A table for each that has loops.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let (loops, operations) = (loops()?, effort.scaled(100_000));
    let misses = simulated::misses("cache", loops.len(), operations);
    let mut tables = Vec::new();
    let mut from = 0;
    for of_table in loops.chunk_by(|one, other| one.table == other.table) {
        let title = format!(
            "cache/{}: data cache misses an operation, simulated by valgrind",
            of_table[0].table
        );
        let mut table = Table::new(title, &["simulated misses", "of the last level"]);
        for (which, one) in (from..).zip(of_table) {
            match &misses {
                Ok(misses) => table.row(
                    one.row,
                    vec![
                        Cell::number(misses[which].first_level, 3),
                        Cell::number(misses[which].last_level, 3),
                    ],
                ),
                Err(why) => table.skipped(one.row, why),
            }
        }
        from += of_table.len();
        table.note(format!(
            "counted, not timed: {CACHES_IN_WORDS}; {operations} operations after as many to warm up"
        ));
        tables.push(table);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_runs() {
        simulated::run(&mut loops().unwrap(), 2_000).unwrap();
    }
}
