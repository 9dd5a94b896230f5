//! One thread writes, another one reads: ours, spinning and parking, beside ringbuf and rtrb, which spin.

use crate::method::{
    Effort,
    processors::pair,
    table::Table,
    two::{beside, contest_of_operations, near_and_far, run_pair},
};
use anyhow::Result;
use forebay::{
    stream::{StreamConfig, stream_with},
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

/// Passes `writes` writes of `size` bytes between two processors; returns the nanoseconds.
type Passes = fn((usize, usize), usize, u64) -> Result<f64>;

const SIDES: [(&str, Passes); 4] = [
    ("forebay, spinning", forebay::<Spin>),
    ("forebay, parking", forebay::<Park>),
    ("ringbuf", ringbuf),
    ("rtrb", rtrb),
];

/// One table a size of writes.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    WRITES.iter().map(|&write| compare(write, effort)).collect()
}

fn compare(write: usize, effort: Effort) -> Result<Table> {
    let title = format!("stream/two threads: writes of {write}, Gbit/s, copied in and copied out");
    let mut table = Table::new(title, &["NEAR", "forebay = 1", "FAR", "forebay = 1"]);
    let cpus = match pair() {
        Ok(cpus) => cpus,
        Err(why) => {
            table.skipped("all", &why);
            return Ok(table);
        }
    };
    let results = contest_of_operations(SIDES.len(), effort, cpus, |which, writes| {
        SIDES[which].1(cpus, write, writes)
    })?;
    for ((name, _), result) in SIDES.iter().zip(&results) {
        let both = |mode| [result.of(mode), results[0].of(mode)];
        let bits = 8.0 * write as f64;
        table.row(*name, beside(both, |ns| ns.in_each(bits), 1));
    }
    table.note(format!(
        "capacity {CAPACITY}, reads of up to {READ}; {}",
        near_and_far(&results)
    ));
    Ok(table)
}

fn forebay<W: Wait + 'static>(cpus: (usize, usize), write: usize, writes: u64) -> Result<f64> {
    let config = StreamConfig {
        capacity_bytes: CAPACITY,
        ..StreamConfig::default()
    };
    let (mut writer, mut reader) = stream_with::<W>(&config)?;
    let bytes = write as u64 * writes;
    let source = vec![7; write];
    let writing = move || {
        for _ in 0..writes {
            writer.push_all(black_box(&source));
        }
        writer
    };
    let reading = move || {
        let mut target = vec![0; READ];
        let mut read = 0;
        while read < bytes {
            reader.wait_filled(1);
            read += reader.pop_slice(&mut target) as u64;
            black_box(&target[0]);
        }
        reader
    };
    run_pair(cpus, writing, reading)
}

fn ringbuf(cpus: (usize, usize), write: usize, writes: u64) -> Result<f64> {
    let (mut producer, mut consumer) = HeapRb::<u8>::new(CAPACITY).split();
    let push = move |bytes: &[u8]| producer.push_slice(bytes);
    let pop = move |target: &mut [u8]| consumer.pop_slice(target);
    spinning(cpus, write, writes, push, pop)
}

fn rtrb(cpus: (usize, usize), write: usize, writes: u64) -> Result<f64> {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<u8>::new(CAPACITY);
    let push = move |bytes: &[u8]| producer.push_partial_slice(bytes).0.len();
    let pop = move |target: &mut [u8]| consumer.pop_partial_slice(target).0.len();
    spinning(cpus, write, writes, push, pop)
}

/// Passes the writes through a ring: `push` and `pop`, which own its ends, return how many bytes went in or came out.
fn spinning(
    cpus: (usize, usize),
    write: usize,
    writes: u64,
    mut push: impl FnMut(&[u8]) -> usize + Send,
    mut pop: impl FnMut(&mut [u8]) -> usize + Send,
) -> Result<f64> {
    let bytes = write as u64 * writes;
    let source = vec![7; write];
    let writing = move || {
        for _ in 0..writes {
            let mut rest = &black_box(&source)[..];
            while !rest.is_empty() {
                match push(rest) {
                    0 => hint::spin_loop(),
                    pushed => rest = &rest[pushed..],
                }
            }
        }
        push
    };
    let reading = move || {
        let mut target = vec![0; READ];
        let mut read = 0;
        while read < bytes {
            match pop(&mut target) {
                0 => hint::spin_loop(),
                popped => read += popped as u64,
            }
            black_box(&target[0]);
        }
        pop
    };
    run_pair(cpus, writing, reading)
}
