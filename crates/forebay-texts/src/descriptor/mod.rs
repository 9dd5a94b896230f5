//! The loops of *The one with shrinking structure, part II* over its six layouts of a descriptor and ours, in memory far larger than the caches.
//!
//! Ours is also measured by columns (`by_column`), where a loop loads only the fields that it uses.

mod by_column;
mod layouts;
mod pointers;

pub use pointers::virtual_address_bits;

use anyhow::{Context, Result};
use forebay::packet::{Columns, Desc, Facts, Flags};
use forebay_bench::method::{
    Effort,
    samples::{Side, Summary, Times, contest},
    table::{Cell, Table},
};
use layouts::{Assuming, Fields, Layout, Packed, Plain, Reordered, Stamped, Tagged, Values, loops};
use std::{cell::RefCell, hint::black_box};

/// What a loop does with each descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    Trivial,
    Read,
    Write,
    Anywhere,
}

impl Loop {
    const ALL: [Loop; 4] = [Loop::Trivial, Loop::Read, Loop::Write, Loop::Anywhere];

    fn title(self) -> &'static str {
        match self {
            Loop::Trivial => "trivial: the sum of all sizes",
            Loop::Read => {
                "read (RX): sizes of the valid ones, and the number that arrived at port 3"
            }
            Loop::Write => "write (TX): time, port and validity set",
            Loop::Anywhere => "anywhere: size, port, time and validity of scattered descriptors",
        }
    }
}

/// One table a loop, over memory and within the first cache.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let bytes: usize = if effort.quick { 32 << 20 } else { 512 << 20 };
    let mut tables = over(Memory { bytes, passes: 1 }, effort)?;
    // Half of the first cache: what is left is the work on the fields.
    let passes = effort.scaled(2000) as usize;
    let mut cached = over(
        Memory {
            bytes: 16 << 10,
            passes,
        },
        effort,
    )?;
    cached.pop(); // nothing is scattered there
    tables.append(&mut cached);
    tables.push(pointers::run(effort)?);
    Ok(tables)
}

/// Memory that descriptors take, and how often a sample passes over it.
#[derive(Clone, Copy)]
struct Memory {
    bytes: usize,
    passes: usize,
}

impl Memory {
    fn is_cached(self) -> bool {
        self.passes > 1
    }
}

fn over(memory: Memory, effort: Effort) -> Result<Vec<Table>> {
    // One layout is in memory at a time, so that eight of them do not need eight times as much.
    let measured = [
        each::<Plain>("plain", memory, effort, pack)?,
        each::<Reordered>("reordered", memory, effort, pack)?,
        each::<Packed>("packed", memory, effort, pack)?,
        each::<Assuming>("with assumptions", memory, effort, pack)?,
        each::<Tagged>("tagged", memory, effort, pack)?,
        each::<Stamped>("stamped", memory, effort, pack)?,
        each::<Desc>("forebay", memory, effort, describe)?,
        columns(memory, effort)?,
    ];
    let tables = Loop::ALL.iter().enumerate().map(|(number, which)| {
        let title = match memory.is_cached() {
            true => format!("descriptor/cached {}; over {} KiB, one thread", which.title(), memory.bytes >> 10),
            false => format!("descriptor/{}; over {} MiB, one thread", which.title(), memory.bytes >> 20),
        };
        let mut table = Table::new(
            title,
            &[
                "bytes",
                "million a second",
                "cycles",
                "best of six = 1",
            ],
        );
        let others = measured[..OTHERS].iter();
        let best = others.clone().map(|it| rate(&it.times[number]).median);
        let best = best.fold(0.0, f64::max);
        for layout in &measured {
            let times = &layout.times[number];
            let cells = vec![
                Cell::number(layout.bytes as f64, 0),
                Cell::spread(Some(rate(times)), 0),
                Cell::spread(times.cycles, 2),
                Cell::number(rate(times).median / best, 2),
            ];
            table.row(layout.name, cells);
        }
        table.note(
            "only the loops over one layout took turns: the layouts were measured one after another, so the machine may \
             have changed in between",
        );
        table.note(
            "by columns: the same values in a column for each field (packet::Columns): a loop over a few fields loads only these, but \
             one packet's fields are in several places (descriptor/anywhere)",
        );
        table
    });
    Ok(tables.collect())
}

/// Layouts that are not ours.
const OTHERS: usize = 6;

/// Millions a second.
fn rate(times: &Times) -> Summary {
    times.ns.in_each(1e3)
}

struct Measured {
    name: &'static str,
    bytes: usize,
    /// Of each loop.
    times: Vec<Times>,
}

fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut empty = Vec::new();
    let bytes = count * size_of::<T>();
    empty
        .try_reserve_exact(count)
        .with_context(|| format!("reserving {} MiB for descriptors", bytes >> 20))?;
    Ok(empty)
}

fn each<D: Fields>(
    name: &'static str,
    memory: Memory,
    effort: Effort,
    one: fn(u64) -> Result<D>,
) -> Result<Measured> {
    let count = memory.bytes / size_of::<D>();
    let mut descs = reserved(count)?;
    for number in 0..count as u64 {
        descs.push(one(number)?);
    }
    let descs = RefCell::new(descs);
    let reads = |what: fn(&[D])| {
        let descs = &descs;
        move || {
            let descs = descs.borrow();
            (0..memory.passes).for_each(|_| what(black_box(&descs[..])));
            (descs.len() * memory.passes) as u64
        }
    };
    let writes = |what: fn(&mut [D])| {
        let descs = &descs;
        move || {
            let mut descs = descs.borrow_mut();
            (0..memory.passes).for_each(|_| what(black_box(&mut descs[..])));
            (black_box(&mut descs[..]).len() * memory.passes) as u64
        }
    };
    let mut sides = [
        Side::new(
            "trivial",
            reads(|descs| {
                black_box(loops::trivial(descs));
            }),
        ),
        Side::new(
            "read",
            reads(|descs| {
                black_box(loops::rx(descs));
            }),
        ),
        Side::new("write", writes(loops::tx)),
        Side::new("anywhere", || {
            let descs = descs.borrow();
            let visits = visits(descs.len());
            black_box(visits.clone().fold(0, |sum: u64, index| {
                let desc = &descs[index];
                let both = u64::from(desc.port()) + u64::from(desc.is_valid());
                sum.wrapping_add(desc.time_ns() + u64::from(desc.size()) + both)
            }));
            visits.len() as u64
        }),
    ];
    Ok(Measured {
        name,
        bytes: size_of::<D>(),
        times: contest(&mut sides, effort.rounds)?,
    })
}

/// Scattered indices below `count`.
fn visits(count: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
    // Fibonacci hashing: a 32-bit number times 2³² over the golden ratio, and then the upper bits of that times the count.
    let place = move |number: u32| {
        let hash = u64::from(number.wrapping_mul(0x9E37_79B9));
        ((hash * count as u64) >> 32) as usize
    };
    (0..(count / 32) as u32).map(place)
}

/// Ours by columns: the packets whose descriptions take `bytes` bytes.
fn columns(memory: Memory, effort: Effort) -> Result<Measured> {
    const BYTES: usize = 21;
    let count = memory.bytes / BYTES;
    let mut columns = Columns::with_capacity(count);
    for number in 0..count as u64 {
        columns.push(describe(number)?);
    }
    let columns = RefCell::new(columns);
    let mut sides = [
        Side::new("trivial", || {
            let columns = columns.borrow();
            (0..memory.passes).for_each(|_| {
                black_box(by_column::trivial(black_box(&columns)));
            });
            (columns.len() * memory.passes) as u64
        }),
        Side::new("read", || {
            let columns = columns.borrow();
            (0..memory.passes).for_each(|_| {
                black_box(by_column::rx(black_box(&columns)));
            });
            (columns.len() * memory.passes) as u64
        }),
        Side::new("write", || {
            let mut columns = columns.borrow_mut();
            (0..memory.passes).for_each(|_| by_column::tx(black_box(&mut columns)));
            (black_box(&mut *columns).len() * memory.passes) as u64
        }),
        Side::new("anywhere", || {
            let columns = columns.borrow();
            let (visits, view) = (visits(columns.len()), columns.view());
            black_box(visits.clone().fold(0, |sum: u64, index| {
                let sound = view.flags[index].has(Flags::VALID);
                let both = u64::from(view.ports[index]) + u64::from(sound);
                sum.wrapping_add(view.times[index] + u64::from(view.lens[index]) + both)
            }));
            visits.len() as u64
        }),
    ];
    Ok(Measured {
        name: "forebay, by columns",
        bytes: BYTES,
        times: contest(&mut sides, effort.rounds)?,
    })
}

/// Sizes of 60 to 1514.
fn size(number: u64) -> u32 {
    60 + (number.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 1455
}

fn pack<L: Layout>(number: u64) -> Result<L> {
    let values = Values {
        port: number as u8 % 4,
        time_ns: number * 672,
        size: size(number),
        payload: 0x7000_0000_0000 + number % 2048 * 2048,
        valid: !number.is_multiple_of(8),
        hash: number,
        ..Values::default()
    };
    L::pack(&values).with_context(|| format!("{} has no room for {values:?}", L::NAME))
}

fn describe(number: u64) -> Result<Desc> {
    let flags = match number.is_multiple_of(8) {
        true => Flags::default(),
        false => Flags::VALID,
    };
    Ok(Desc::new(&Facts {
        time_ns: number * 672,
        len: size(number),
        slot: number as u32 % 2048,
        port: number as u8 % 4,
        flags,
        hash: number as u16,
        ..Facts::default()
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_layouts_hold_the_same_packets() {
        fn sums<D: Fields>(one: fn(u64) -> Result<D>) -> (u64, (u64, u64)) {
            let mut descs: Vec<D> = (0..1000).map(|number| one(number).unwrap()).collect();
            let sums = (loops::trivial(&descs), loops::rx(&descs));
            loops::tx(&mut descs);
            assert_eq!(descs[5].time_ns(), 500);
            sums
        }
        let expected = sums::<Plain>(pack);
        assert_eq!(sums::<Packed>(pack), expected);
        assert_eq!(sums::<Stamped>(pack), expected);
        assert_eq!(sums::<Desc>(describe), expected);
        assert_eq!(expected.1.1, 250);
        let mut descs: Vec<Desc> = (0..1000).map(|number| describe(number).unwrap()).collect();
        let mut columns: Columns = descs.iter().copied().collect();
        assert_eq!(
            (by_column::trivial(&columns), by_column::rx(&columns)),
            expected
        );
        loops::tx(&mut descs);
        by_column::tx(&mut columns);
        assert_eq!(columns, descs.into_iter().collect());
    }
}
