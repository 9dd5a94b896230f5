//! The parts of the driver by themselves, in one thread: no card, no interrupts, no other processor.
//!
//! `batches` drains a full ring one packet at a time and 32 at a time. `split` passes packets through the text's list, and leaves
//! out one part after another: what the time falls by is what that part costs.

use super::{
    buffer::{BUFFER_BYTES, Buffer},
    card::header_sum,
    path::{BATCH, HELD, pool, processed, ring},
    textbook::{Ends, PacketList},
};
use crate::{
    method::{
        Effort,
        counters::Count,
        samples::{Side, contest},
        simulated::{Loop, counted},
        table::{Cell, Table},
    },
    ring::{Pops, Pushes, Ring, Textbook, TextbookEnd},
};
use anyhow::Result;
use forebay::{
    packet::{Packet, PacketDesc, Pool},
    ring::spsc::{Consumer, Producer},
    sync::Spin,
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Packets that are in the ring, or the list, when it is drained.
const FILLED: usize = 1000;

/// Bytes of a packet.
const PACKET: usize = 64;

/// Both tables.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    Ok(vec![batches(effort)?, split(effort)?])
}

/// A ring and a pool: filled, then drained one by one or 32 at a time, with prefetching or without.
trait Drained: Sized {
    fn new() -> Result<Self>;
    fn fill(&mut self);
    /// Shows every packet, and returns its buffer to the pool.
    fn drain(&mut self, batch: usize, prefetch: bool, process: &mut impl FnMut(&[u8]));
}

/// The source text's ring, and its pool: another such ring with the numbers of free buffers.
struct SourceText {
    buffers: Vec<[u8; BUFFER_BYTES]>,
    freed: (TextbookEnd, TextbookEnd),
    ring: (TextbookEnd, TextbookEnd),
}

impl Drained for SourceText {
    fn new() -> Result<SourceText> {
        let mut freed = Textbook::new(4 * HELD)?;
        let buffers = vec![[0; BUFFER_BYTES]; 2 * HELD];
        (0..buffers.len() as u64).for_each(|number| assert!(freed.0.push(number)));
        let ring = Textbook::new(HELD)?;
        Ok(SourceText {
            buffers,
            freed,
            ring,
        })
    }

    fn fill(&mut self) {
        for number in 0..FILLED {
            let buffer = self.freed.1.pop().expect("all are at home");
            self.buffers[buffer as usize][..PACKET].fill(number as u8);
            assert!(self.ring.0.push(buffer));
        }
    }

    #[inline(always)]
    fn drain(&mut self, most: usize, _prefetch: bool, process: &mut impl FnMut(&[u8])) {
        let mut batch = [0; BATCH];
        loop {
            let mut count = 0;
            while count < most
                && let Some(buffer) = self.ring.1.pop()
            {
                batch[count] = buffer;
                count += 1;
            }
            if count == 0 {
                break;
            }
            for &buffer in &batch[..count] {
                process(&self.buffers[buffer as usize][..PACKET]);
            }
            for &buffer in &batch[..count] {
                self.freed.0.push(buffer);
            }
        }
    }
}

/// Ours.
struct Ours {
    pool: Pool,
    producer: Producer<PacketDesc, Spin>,
    consumer: Consumer<PacketDesc, Spin>,
    packets: Vec<Packet>,
}

impl Drained for Ours {
    fn new() -> Result<Ours> {
        let (producer, consumer) = ring()?;
        let pool = pool()?;
        Ok(Ours {
            pool,
            producer,
            consumer,
            packets: Vec::with_capacity(BATCH),
        })
    }

    fn fill(&mut self) {
        for number in 0..FILLED {
            let mut packet = self.pool.take().expect("all are at home");
            packet
                .put(PACKET as u32)
                .expect("it fits")
                .fill(number as u8);
            let desc = packet.into_desc().expect("it is not shared");
            assert!(self.producer.try_push(desc).is_ok());
        }
    }

    #[inline(always)]
    fn drain(&mut self, batch: usize, prefetch: bool, process: &mut impl FnMut(&[u8])) {
        if batch == 1 {
            while let Ok(desc) = self.consumer.try_pop() {
                process(desc.into_packet().as_slice());
            }
        } else if !prefetch {
            while processed(&mut self.consumer, process) > 0 {}
        } else {
            loop {
                let burst = self.consumer.peek(batch);
                let packets = burst.into_iter().map(PacketDesc::into_packet);
                self.packets.extend(packets);
                if self.packets.is_empty() {
                    break;
                }
                for (packet, next) in self.packets.iter().zip(self.packets.iter().skip(1)) {
                    fetch(next.as_slice());
                    process(packet.as_slice());
                }
                let last = self.packets.last().map(Packet::as_slice);
                process(last.unwrap_or_default());
                self.packets.clear();
            }
        }
    }
}

/// Asks for the first line of a packet, which will be read next.
#[inline(always)]
#[allow(unsafe_code)]
fn fetch(_bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing, and never faults.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) _bytes.as_ptr(), options(nostack, preserves_flags));
    }
}

/// Drains `packets` packets; the nanoseconds of that alone, and the cache misses.
#[inline(never)]
fn drained<D: Drained>(batch: usize, prefetch: bool, packets: u64) -> Result<(f64, Option<u64>)> {
    let mut drained = D::new()?;
    let (mut all, mut seen) = (0, 0);
    let (mut time, mut misses) = (Duration::ZERO, Some(0));
    while seen < packets {
        drained.fill();
        let counter = Count::misses();
        let begun = Instant::now();
        let (sum, count) = counted(|| {
            let (mut sum, mut count) = (0, 0);
            drained.drain(batch, prefetch, &mut |frame| {
                sum += header_sum(frame);
                count += 1;
            });
            (sum, count)
        });
        (all, seen) = (all + sum, seen + count);
        time += begun.elapsed();
        misses = misses.zip(counter.end()).map(|(all, some)| all + some);
    }
    black_box(all);
    Ok((time.as_nanos() as f64, misses))
}

type Way = fn(u64) -> Result<(f64, Option<u64>)>;

const BATCHES: &str = "driver/batches";

const WAYS: [(&str, Way); 5] = [
    ("the source text's ring and pool, one at a time", |n| {
        drained::<SourceText>(1, false, n)
    }),
    ("the source text's ring and pool, 32 at a time", |n| {
        drained::<SourceText>(BATCH, false, n)
    }),
    ("forebay, one at a time", |n| drained::<Ours>(1, false, n)),
    ("forebay, 32 at a time", |n| {
        drained::<Ours>(BATCH, false, n)
    }),
    ("forebay, 32 at a time, the next one prefetched", |n| {
        drained::<Ours>(BATCH, true, n)
    }),
];

/// Those whose cache misses can be simulated.
pub fn loops() -> Vec<Loop> {
    let of = |(row, way): (&'static str, Way)| Loop {
        table: BATCHES,
        row,
        work: Box::new(move |packets| way(packets).map(drop)),
    };
    WAYS.into_iter().map(of).collect()
}

fn batches(effort: Effort) -> Result<Table> {
    let packets = effort.scaled(400_000);
    let side =
        |&(name, way): &(&str, Way)| Side::timed(name, move || Ok((way(packets)?.0, packets)));
    let mut sides: Vec<_> = WAYS.iter().map(side).collect();
    let times = contest(&mut sides, effort.rounds)?;
    let title = format!(
        "{BATCHES}: a ring of {FILLED} packets of {PACKET} bytes drained by one thread, headers summed, a packet"
    );
    let mut table = Table::new(title, &["ns", "cycles", "cache misses"]);
    let misses: Result<Vec<_>> = WAYS.iter().map(|(_, way)| Ok(way(packets)?.1)).collect();
    let misses = misses?;
    table.timed(&sides, &times, |which, _| {
        let each = misses[which].map(|misses| Cell::number(misses as f64 / packets as f64, 2));
        vec![each.unwrap_or(Cell::Unknown)]
    });
    table.note("filling the ring is not counted; one thread, so nothing is waited for");
    Ok(table)
}

/// Passes `packets` packets through the text's list, 1000 in and 1000 out. Without `MALLOC`, buffers are kept; without `COPY`
/// also what is in them; without `LOCK` nothing is locked, and without `PROCESS` no packet is looked at.
#[inline(never)]
fn pass<const MALLOC: bool, const COPY: bool, const LOCK: bool, const PROCESS: bool>(
    packets: u64,
) -> u64 {
    let (queue, mut unlocked) = (PacketList::new(), Ends::new());
    let data = [7; PACKET];
    let mut kept: Vec<_> = (0..FILLED).map(|_| Buffer::holding(&data)).collect();
    let (mut sum, rounds) = (0, packets / FILLED as u64);
    for _ in 0..rounds {
        for _ in 0..FILLED {
            let data = &black_box(&data)[..];
            let buffer = match (MALLOC, kept.pop()) {
                (false, Some(mut buffer)) => {
                    if COPY {
                        buffer.refill(data);
                    }
                    buffer
                }
                _ => Buffer::holding(data),
            };
            match LOCK {
                true => queue.enqueue(buffer),
                false => unlocked.push(buffer),
            }
        }
        let mut next = || match LOCK {
            true => queue.dequeue(),
            false => unlocked.pop(),
        };
        while let Some(buffer) = next() {
            if PROCESS {
                sum += header_sum(buffer.frame());
            }
            if !MALLOC {
                kept.push(buffer);
            }
        }
    }
    black_box(sum);
    rounds * FILLED as u64
}

fn split(effort: Effort) -> Result<Table> {
    type Way = fn(u64) -> u64;
    const WAYS: [(&str, Way); 5] = [
        (
            "list, spinlock, malloc, copy, processing",
            pass::<true, true, true, true>,
        ),
        ("without malloc and free", pass::<false, true, true, true>),
        ("without the copy, too", pass::<false, false, true, true>),
        ("without the lock, too", pass::<false, false, false, true>),
        (
            "without processing, too: the list",
            pass::<false, false, false, false>,
        ),
    ];
    let packets = effort.scaled(400_000);
    let mut sides: Vec<_> = WAYS
        .iter()
        .map(|&(name, way)| Side::new(name, move || way(packets)))
        .collect();
    let times = contest(&mut sides, effort.rounds)?;
    let title = format!(
        "driver/split: packets of {PACKET} bytes through the text's list in one thread, part after part left out, a packet"
    );
    let mut table = Table::new(title, &["ns", "cycles", "ns less than before"]);
    table.timed(&sides, &times, |which, time| {
        let before = which.checked_sub(1).map(|before| times[before].ns.median);
        let less = before.map(|before| Cell::number(before - time.ns.median, 2));
        vec![less.unwrap_or(Cell::Unknown)]
    });
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_drained_once_whatever_the_batch() {
        fn all<D: Drained>(ways: &[(usize, bool)]) {
            let mut drained = D::new().unwrap();
            for &(batch, prefetch) in ways {
                for _ in 0..3 {
                    let mut next = 0;
                    drained.fill();
                    drained.drain(batch, prefetch, &mut |frame| {
                        assert_eq!(frame, [next as u8; PACKET]);
                        next += 1;
                    });
                    assert_eq!(next, FILLED);
                }
            }
        }
        all::<SourceText>(&[(1, false), (BATCH, false)]);
        all::<Ours>(&[(1, false), (BATCH, false), (BATCH, true)]);
        assert_eq!(pass::<true, true, true, true>(3000), 3000);
        assert_eq!(pass::<false, true, true, true>(3000), 3000);
        assert_eq!(pass::<false, false, false, true>(3000), 3000);
    }
}
