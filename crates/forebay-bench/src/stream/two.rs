//! One thread writes, another one reads: ours beside ringbuf and rtrb, each spinning where it finds no room or nothing.

use crate::method::{
    Effort,
    line::Mode,
    machine::processors,
    table::{Cell, Table},
    two::{Pair, contest, near_and_far, run_pair},
};
use anyhow::{Result, anyhow};
use forebay::{
    stream::{Config, stream_with},
    sync::{Park, Spin, Wait},
};
use ringbuf::{
    HeapRb,
    traits::{Consumer, Producer, Split},
};
use std::hint::{self, black_box};

/// Bytes in each of the streams.
const CAPACITY: usize = 256 << 10;

/// Bytes that are read at once, at most.
const READ: usize = 64 << 10;

/// Bytes a write.
const WRITES: [usize; 3] = [64, 1500, 64 << 10];

/// One table a size of writes.
///
/// # Errors
/// No memory for a stream.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    WRITES.iter().map(|&write| compare(write, effort)).collect()
}

fn compare(write: usize, effort: Effort) -> Result<Table> {
    let title = format!("stream/two threads: writes of {write}, Gbit/s, copied in and copied out");
    let mut table = Table::new(title, &["NEAR", "forebay = 1", "FAR", "forebay = 1"]);
    let cpus = processors()?;
    let &[first, second, ..] = &cpus[..] else {
        table.skipped("all", &anyhow!("needs two processors"));
        return Ok(table);
    };
    let writes = effort.scaled(100_000_000) as usize / write;
    let cpus = (first, second);
    let mut pairs = [
        Pair::new("forebay, spinning", || forebay::<Spin>(cpus, write, writes)),
        Pair::new("forebay, parking", || forebay::<Park>(cpus, write, writes)),
        Pair::new("ringbuf", || ringbuf(cpus, write, writes)),
        Pair::new("rtrb", || rtrb(cpus, write, writes)),
    ];
    let results = contest(&mut pairs, effort.rounds, cpus)?;
    let ours = &results[0];
    for (pair, result) in pairs.iter().zip(&results) {
        let mut cells = Vec::new();
        for mode in [Mode::Near, Mode::Far] {
            let (speed, our_speed) = (result.of(mode), ours.of(mode));
            cells.push(Cell::spread(speed.map(|ns| ns.in_each(8.0)), 1));
            cells.push(match speed.zip(our_speed) {
                Some((speed, ours)) => Cell::number(ours.median / speed.median, 2),
                None => Cell::Unknown,
            });
        }
        table.row(&pair.name, cells);
    }
    table.note(format!(
        "capacity {CAPACITY}, reads of up to {READ}; {}",
        near_and_far(&results)
    ));
    Ok(table)
}

fn forebay<W: Wait + 'static>(
    cpus: (usize, usize),
    write: usize,
    writes: usize,
) -> Result<(f64, u64)> {
    let config = Config {
        capacity_bytes: CAPACITY,
        ..Config::default()
    };
    let (mut writer, mut reader) = stream_with::<W>(&config)?;
    let bytes = write * writes;
    let source = vec![7; write];
    let writing = move || {
        for _ in 0..writes {
            writer.push_wait(black_box(&source), None);
        }
        writer.close();
    };
    let reading = move || {
        let mut target = vec![0; READ];
        let mut read = 0;
        while read < bytes {
            reader.peek_wait(1, None);
            read += reader.pop_slice(&mut target);
            black_box(&target[0]);
        }
    };
    Ok((run_pair(cpus, writing, reading)?, bytes as u64))
}

fn ringbuf(cpus: (usize, usize), write: usize, writes: usize) -> Result<(f64, u64)> {
    let (mut producer, mut consumer) = HeapRb::<u8>::new(CAPACITY).split();
    let bytes = write * writes;
    let source = vec![7; write];
    let writing = move || {
        for _ in 0..writes {
            let mut rest = &black_box(&source)[..];
            while !rest.is_empty() {
                match producer.push_slice(rest) {
                    0 => hint::spin_loop(),
                    pushed => rest = &rest[pushed..],
                }
            }
        }
    };
    let reading = move || {
        let mut target = vec![0; READ];
        let mut read = 0;
        while read < bytes {
            match consumer.pop_slice(&mut target) {
                0 => hint::spin_loop(),
                popped => read += popped,
            }
            black_box(&target[0]);
        }
    };
    Ok((run_pair(cpus, writing, reading)?, bytes as u64))
}

fn rtrb(cpus: (usize, usize), write: usize, writes: usize) -> Result<(f64, u64)> {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u8>::new(CAPACITY);
    let bytes = write * writes;
    let source = vec![7; write];
    let writing = move || {
        for _ in 0..writes {
            let mut rest = &black_box(&source)[..];
            while !rest.is_empty() {
                let (pushed, behind) = producer.push_partial_slice(rest);
                if pushed.is_empty() {
                    hint::spin_loop();
                }
                rest = behind;
            }
        }
    };
    let reading = move || {
        let mut target = vec![0; READ];
        let mut read = 0;
        while read < bytes {
            match consumer.pop_partial_slice(&mut target).0.len() {
                0 => hint::spin_loop(),
                popped => read += popped,
            }
            black_box(&target[0]);
        }
    };
    Ok((run_pair(cpus, writing, reading)?, bytes as u64))
}
