//! Text 004's loops over its six layouts of a descriptor and over ours, in memory far beyond the caches.

use crate::method::{
    Effort,
    samples::{Side, Summary, Times, contest},
    table::{Cell, Table},
};
use anyhow::{Context, Result};
use forebay::packet::{
    Desc, Facts, Flags,
    layouts::{Assuming, Fields, Layout, Packed, Plain, Reordered, Stamped, Tagged, Values, loops},
};
use std::hint::black_box;

/// What a loop does with each descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    Trivial,
    Read,
    Write,
}

impl Loop {
    const ALL: [Loop; 3] = [Loop::Trivial, Loop::Read, Loop::Write];

    fn title(self) -> &'static str {
        match self {
            Loop::Trivial => "descriptor/trivial: the sum of all sizes",
            Loop::Read => {
                "descriptor/read (RX): sizes of the sound ones, and how many came in at port 3"
            }
            Loop::Write => "descriptor/write (TX): time, port and soundness set",
        }
    }
}

/// One table a loop.
///
/// # Errors
/// A value that a layout has no room for.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let bytes: usize = if effort.quick { 32 << 20 } else { 512 << 20 };
    // One layout is in memory at a time, so that seven of them do not need seven times as much.
    let measured = [
        each::<Plain>("plain", bytes, effort, pack)?,
        each::<Reordered>("reordered", bytes, effort, pack)?,
        each::<Packed>("packed", bytes, effort, pack)?,
        each::<Assuming>("with assumptions", bytes, effort, pack)?,
        each::<Tagged>("tagged", bytes, effort, pack)?,
        each::<Stamped>("stamped", bytes, effort, pack)?,
        each::<Desc>("forebay", bytes, effort, describe)?,
    ];
    let tables = Loop::ALL.iter().enumerate().map(|(number, which)| {
        let title = format!("{}; over {} MiB, one thread", which.title(), bytes >> 20);
        let mut table = Table::new(
            title,
            &["bytes", "million a second", "cycles", "best of six = 1"],
        );
        let speed = |times: &Times| 1e3 / times.ns.median;
        let best = measured[..measured.len() - 1]
            .iter()
            .map(|layout| speed(&layout.times[number]))
            .fold(0.0, f64::max);
        for layout in &measured {
            let times = &layout.times[number];
            let rate = Summary {
                median: speed(times),
                low: 1e3 / times.ns.high,
                high: 1e3 / times.ns.low,
                samples: times.ns.samples,
            };
            let cells = vec![
                Cell::number(layout.bytes as f64, 0),
                Cell::spread(Some(rate), 0),
                Cell::spread(times.cycles, 2),
                Cell::number(rate.median / best, 2),
            ];
            table.row(layout.name, cells);
        }
        table.note(
            "only the loops over one layout took turns: the layouts were measured one after another, not in the same \
             minute of the machine",
        );
        table
    });
    Ok(tables.collect())
}

struct Measured {
    name: &'static str,
    bytes: usize,
    times: Vec<Times>,
}

fn each<D: Fields>(
    name: &'static str,
    bytes: usize,
    effort: Effort,
    one: fn(u64) -> Result<D>,
) -> Result<Measured> {
    let count = bytes / size_of::<D>();
    let mut descs = Vec::new();
    descs
        .try_reserve_exact(count)
        .with_context(|| format!("reserving {} MiB for descriptors", bytes >> 20))?;
    for number in 0..count as u64 {
        descs.push(one(number)?);
    }
    let descs = std::cell::RefCell::new(descs);
    let mut sides = [
        Side::new("trivial", || {
            let descs = descs.borrow();
            black_box(loops::trivial(&descs[..]));
            descs.len() as u64
        }),
        Side::new("read", || {
            let descs = descs.borrow();
            black_box(loops::rx(&descs[..]));
            descs.len() as u64
        }),
        Side::new("write", || {
            let mut descs = descs.borrow_mut();
            loops::tx(&mut descs[..]);
            black_box(&mut descs[..]).len() as u64
        }),
    ];
    Ok(Measured {
        name,
        bytes: size_of::<D>(),
        times: contest(&mut sides, effort.rounds)?,
    })
}

/// Sizes of 60 to 1514, every eighth not sound, four ports.
fn size(number: u64) -> u32 {
    60 + (number.wrapping_mul(0x9E37_79B9) >> 7) as u32 % 1455
}

fn pack<L: Layout>(number: u64) -> Result<L> {
    Ok(L::pack(&Values {
        port: number as u8 % 4,
        time_ns: number * 672,
        size: size(number),
        payload: 0x7000_0000_0000 + number % 2048 * 2048,
        valid: !number.is_multiple_of(8),
        hash: number,
        ..Values::default()
    })?)
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
    }
}
