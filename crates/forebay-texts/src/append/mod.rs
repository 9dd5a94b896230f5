//! The experiment of *A Tale of Two Copies*: 100,000 entries of 28 or 32 bytes, appended to a buffer that is flushed when full,
//! with the text's code, other crates and forebay.
//!
//! ```text
//!  caller's stack ── by value ──▶ callee's copy ── 16 + 16 bytes, overlapping ──▶ buffer     the text's: read back too early
//!  fields ── in place ──▶ buffer                                                             ours
//! ```
//! `entry` has the entries, `textbook` the source text's buffer, `others` what the standard library offers, `target` where all of it
//! goes, `forwarding` the text's machine code with variants, `way` how each is measured. A file is written over from its beginning again for each hundred thousand, as in the text, by every side.

mod copies;
mod entry;
mod forwarding;
mod others;
mod target;
mod textbook;
mod way;

use anyhow::Result;
use forebay_bench::method::{
    Effort, processors,
    table::{Cell, Table},
};
pub use forwarding::ASSEMBLY;

use entry::{ENTRIES, Entry, Entry28, Entry32};
use forebay::{
    records::Records,
    store::{Stage, StoreConfig, SyncPolicy, WhenFull},
};
use std::{hint::black_box, time::Duration};
use target::Target;
use textbook::Textbook;
use way::{FAILED, Way, Work, measured, rounds};

/// Three targets for each size of entry with the source text's buffer, then larger buffers.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut tables = Vec::new();
    for target in Target::ALL {
        tables.push(compare::<Entry28>(target, 16 << 10, effort)?);
        tables.push(compare::<Entry32>(target, 16 << 10, effort)?);
    }
    for buffer_bytes in [64 << 10, 256 << 10] {
        for target in Target::ALL {
            tables.push(compare::<Entry28>(target, buffer_bytes, effort)?);
        }
    }
    tables.extend(forwarding::tables(effort)?);
    Ok(tables)
}

fn compare<T: Entry>(target: Target, buffer_bytes: usize, effort: Effort) -> Result<Table> {
    let iterations = effort.scaled(20);
    let mut ways = textbook_ways::<T>(target, buffer_bytes, iterations)?;
    ways.extend(others::ways::<T>(target, buffer_bytes, iterations)?);
    let first_of_ours = ways.len();
    ways.extend(our_ways::<T>(target, buffer_bytes, iterations)?);
    let mut table = Table::new(
        format!(
            "append/{}/{} bytes, a buffer of {} KiB, to {target}: an entry",
            T::NAME,
            size_of::<T>(),
            buffer_bytes >> 10,
        ),
        &[
            "ns",
            "cycles",
            "flushes in 100,000",
            "blocked",
            "times ours in place",
        ],
    );
    measured(ways, effort, &mut table, |all, time| {
        let ours = all[first_of_ours].ns.median;
        vec![Cell::number(time.ns.median / ours, 2)]
    })?;
    table.note("blocked: store-forwards blocked an entry, by the processor's counter; – where this machine does not let it be read");
    Ok(table)
}

fn textbook_ways<T: Entry>(
    target: Target,
    buffer_bytes: usize,
    iterations: u64,
) -> Result<Vec<Way>> {
    let mut ways = Vec::new();
    let mut way = |name, work: fn(u64, Textbook<T>) -> Work| -> Result<()> {
        let (sink, flushes) = target.open(size_of::<T>())?;
        let work = work(iterations, Textbook::new(sink, buffer_bytes));
        ways.push(Way {
            name,
            work,
            flushes,
        });
        Ok(())
    };
    let hoisted = |n, book| -> Work {
        let entry = black_box(T::new(7));
        let append = move |book: &mut Textbook<T>, _| book.append(entry).expect(FAILED);
        Box::new(rounds(n, book, append, |book| book.flush().expect(FAILED)))
    };
    let built = |n, book| -> Work {
        let append = |book: &mut Textbook<T>, i| book.append(T::new(i)).expect(FAILED);
        Box::new(rounds(n, book, append, |book| book.flush().expect(FAILED)))
    };
    let inlined = |n, book| -> Work {
        let append = |book: &mut Textbook<T>, i| book.append_inlined(T::new(i)).expect(FAILED);
        Box::new(rounds(n, book, append, |book| book.flush().expect(FAILED)))
    };
    way("the source text's, entry hoisted, by value", hoisted)?;
    way("the source text's, built in the loop, by value", built)?;
    way("the source text's, built in the loop, inlined", inlined)?;
    Ok(ways)
}

fn our_ways<T: Entry>(target: Target, buffer_bytes: usize, iterations: u64) -> Result<Vec<Way>> {
    let config = |thread, buffer_bytes| StoreConfig {
        buffers: if thread { 8 } else { 2 },
        buffer_bytes,
        thread,
        sync: SyncPolicy::None,
        when_full: WhenFull::Wait,
        huge_pages: false,
        ..StoreConfig::default()
    };
    let inline = config(false, buffer_bytes);
    let mut ways = Vec::new();
    let mut way =
        |name, blocks, config: &StoreConfig, work: fn(u64, Records<T>) -> Work| -> Result<()> {
            let (sink, flushes) = target.open(size_of::<T>())?;
            let log = match blocks {
                false => Records::<T>::plain(Box::new(sink), config)?,
                true => Records::<T>::in_blocks(Box::new(sink), config)?,
            };
            let work = work(iterations, log);
            ways.push(Way {
                name,
                work,
                flushes,
            });
            Ok(())
        };
    let in_place = |n, log| -> Work {
        let append = |log: &mut Records<T>, i| {
            log.append_with(|slot| slot.build(i)).expect(FAILED);
        };
        Box::new(rounds(n, log, append, |log| log.flush().expect(FAILED)))
    };
    way("ours, built in place", false, &inline, in_place)?;
    let hoisted = |n, log| -> Work {
        let entry = black_box(T::new(7));
        let append = move |log: &mut Records<T>, _| {
            log.append(black_box(&entry)).expect(FAILED);
        };
        Box::new(rounds(n, log, append, |log| log.flush().expect(FAILED)))
    };
    way("ours, entry hoisted, ready bytes", false, &inline, hoisted)?;
    way("ours, a hundred at once", false, &inline, |n, mut log| {
        let many: Vec<T> = (0..100).map(T::new).collect();
        Box::new(move || {
            for _ in 0..n {
                for _ in 0..ENTRIES / 100 {
                    log.append_all(black_box(&many)).expect(FAILED);
                }
                log.flush().expect(FAILED);
            }
            n * ENTRIES
        })
    })?;
    let in_blocks = "ours, built in place, in blocks with check sums";
    way(in_blocks, true, &inline, in_place)?;
    if let [first, second, ..] = processors::processors()?[..] {
        // The writer inherits where its maker may run.
        processors::pin(second)?;
        let made = way(
            "ours, built in place, a writer thread, 8 × 1 MiB",
            false,
            &config(true, 1 << 20),
            |n, mut log| {
                Box::new(move || {
                    for i in 0..n * ENTRIES {
                        log.append_with(|slot| slot.build(i)).expect(FAILED);
                    }
                    // Otherwise it would write the rest in the next side's time.
                    let end = log.wait_for(Stage::Written, Duration::MAX);
                    assert!(end.expect(FAILED) >= Stage::Written);
                    n * ENTRIES
                })
            },
        );
        processors::pin(first)?;
        made?;
    }
    Ok(ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_writes_the_same_entries() {
        fn written<T: Entry>(ways: Vec<Way>, len: usize) {
            for mut way in ways {
                assert_eq!((way.work)(), ENTRIES, "{}", way.name);
                let flushes = way.flushes.get();
                drop(way.work); // a writer thread ends
                let bytes = way.flushes.bytes();
                assert_eq!(bytes, (ENTRIES as usize * len) as u64, "{}", way.name);
                assert!(flushes > 0 || way.name.contains("thread"), "{}", way.name);
            }
        }
        let kib = 16 << 10;
        written::<Entry28>(textbook_ways::<Entry28>(Target::Null, kib, 1).unwrap(), 28);
        written::<Entry28>(others::ways::<Entry28>(Target::Null, kib, 1).unwrap(), 28);
        let ours = our_ways::<Entry32>(Target::Null, kib, 1).unwrap();
        written::<Entry32>(
            ours.into_iter()
                .filter(|way| !way.name.contains("blocks"))
                .collect(),
            32,
        );
    }
}
