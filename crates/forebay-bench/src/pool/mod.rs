//! Buffers taken and returned, by one thread and by two: ours, three heaps, the ring of free buffers of *Device Driver Queues*, and
//! DPDK's pool.
//!
//! This file has the tables of one thread, and `rivals` the pools in Rust with one trait. `across` has the table of two threads,
//! `ends` their pools, `link` the way between. Those in C are separate programs: `harness.h` does there what is done here.

mod across;
mod ends;
mod link;
mod rivals;

use crate::method::{
    Effort,
    native::{Native, Recipe},
    processors::processors,
    samples::{Side, contest},
    simulated::{Loop, counted},
    table::{Cell, Table},
};
use anyhow::Result;
use rivals::{BURST, Blocks, Buffers, FreeRing, Glibc, Packets};
use std::hint::black_box;

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Taken and returned, never looked into.
    Untouched,
    /// Its first 64 bytes are written.
    Touched,
    /// So too, 32 taken before the first is returned.
    Bursts,
}

impl Shape {
    const ALL: [Shape; 3] = [Shape::Untouched, Shape::Touched, Shape::Bursts];

    /// As an argument of the program in C.
    fn word(self) -> &'static str {
        match self {
            Shape::Untouched => "untouched",
            Shape::Touched => "touched",
            Shape::Bursts => "bursts",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Shape::Untouched => "pool/one by one, not touched",
            Shape::Touched => "pool/one by one, 64 bytes written",
            Shape::Bursts => "pool/bursts of 32, 64 bytes written in each",
        }
    }
}

/// Those in C: what a row calls them, and each as a program.
fn natives() -> Vec<(&'static str, Result<Native>)> {
    let start = |name, recipe: Recipe<'_>| (name, Native::start(&recipe));
    let heap = |name, file, libraries, debian| {
        let recipe = Recipe {
            file,
            source: concat!(include_str!("harness.h"), include_str!("malloc.c")),
            pkg_config: None,
            libraries,
            debian,
        };
        start(name, recipe)
    };
    let dpdk = |name, file, source| {
        let recipe = Recipe {
            file,
            source,
            pkg_config: Some("libdpdk"),
            libraries: &[],
            debian: "libdpdk-dev and pkg-config",
        };
        start(name, recipe)
    };
    macro_rules! behind_dpdk {
        ($file:literal) => {
            concat!(
                include_str!("harness.h"),
                include_str!("dpdk.h"),
                include_str!($file)
            )
        };
    }
    let (mempool, mbuf) = (behind_dpdk!("mempool.c"), behind_dpdk!("mbuf.c"));
    vec![
        heap("jemalloc", "jemalloc.c", &["jemalloc"], "libjemalloc-dev"),
        heap("mimalloc", "mimalloc.c", &["mimalloc"], "libmimalloc-dev"),
        dpdk("rte_mempool, cache 256 (DPDK)", "mempool.c", mempool),
        dpdk("rte_mbuf, packets from one (DPDK)", "mbuf.c", mbuf),
    ]
}

const PUT_BACK: &str = "forebay, put_back";
const DROPPED: &str = "forebay, dropped";
const GLIBC: &str = "malloc and free (glibc)";
const FREE_RING: &str = "a ring of free buffers (Device Driver Queues)";

/// Those whose cache misses can be simulated: a program in C is a process apart.
pub fn loops() -> Result<Vec<Loop>> {
    fn of(row: &'static str, mut buffers: impl Buffers + 'static) -> Loop {
        let shape = Shape::Untouched;
        Loop {
            table: shape.title(),
            row,
            work: Box::new(move |operations| {
                counted(|| go(&mut buffers, shape, operations));
                Ok(())
            }),
        }
    }
    Ok(vec![
        of(PUT_BACK, Packets::<false>::new()?),
        of(DROPPED, Packets::<true>::new()?),
        of(GLIBC, Glibc),
        of(FREE_RING, FreeRing::new()),
    ])
}

/// One table a shape, and one of two threads.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let mut natives = natives();
    let mut tables = Vec::new();
    for shape in Shape::ALL {
        tables.push(compare(shape, effort, &mut natives)?);
    }
    tables.push(across::run(effort, &mut natives)?);
    Ok(tables)
}

fn compare(
    shape: Shape,
    effort: Effort,
    natives: &mut [(&'static str, Result<Native>)],
) -> Result<Table> {
    let operations = effort.scaled(2_000_000);
    let cpu = processors()?.first().copied().unwrap_or(0);
    let what = format!("{} {cpu} {cpu}", shape.word());
    let (mut ours, mut dropped) = (Packets::<false>::new()?, Packets::<true>::new()?);
    let (mut glibc, mut ring, mut blocks) = (Glibc, FreeRing::new(), Blocks::new()?);
    let mut sides = vec![
        Side::new(PUT_BACK, || go(&mut ours, shape, operations)),
        Side::new(DROPPED, || go(&mut dropped, shape, operations)),
        Side::new(GLIBC, || go(&mut glibc, shape, operations)),
        Side::new(FREE_RING, || go(&mut ring, shape, operations)),
    ];
    let mut missing = Vec::new();
    if shape == Shape::Bursts {
        sides.push(Side::new("forebay, slots by the block", || {
            go(&mut blocks, shape, operations)
        }));
    }
    for (name, program) in natives {
        match program {
            Ok(program) => sides.push(Side::timed(*name, || {
                Ok((program.sample(&what, operations)?, operations))
            })),
            Err(why) => missing.push((*name, &*why)),
        }
    }
    let times = contest(&mut sides, effort.rounds)?;
    let mut table = Table::new(
        format!(
            "{}: a buffer of 2048 bytes taken and returned",
            shape.title()
        ),
        &["ns", "cycles", "times ours", "cache misses"],
    );
    let ours = times[0].ns.median;
    table.timed(&sides, &times, |_, time| {
        vec![
            Cell::number(time.ns.median / ours, 2),
            Cell::spread(time.misses, 2),
        ]
    });
    for (name, why) in missing {
        table.skipped(name, why);
    }
    Ok(table)
}

/// Never inlined, so that each side's loop is separate.
#[inline(never)]
fn go<B: Buffers>(buffers: &mut B, shape: Shape, operations: u64) -> u64 {
    match shape {
        Shape::Untouched => {
            for _ in 0..operations {
                let buffer = black_box(buffers.take());
                buffers.put_back(buffer);
            }
        }
        Shape::Touched => {
            for number in 0..operations {
                let mut buffer = buffers.take();
                B::touch(&mut buffer, number);
                buffers.put_back(buffer);
            }
        }
        Shape::Bursts => {
            let mut burst = Vec::with_capacity(BURST);
            for number in 0..operations / BURST as u64 {
                buffers.take_burst(BURST, &mut burst);
                for buffer in &mut burst {
                    B::touch(buffer, number);
                }
                buffers.put_back_burst(&mut burst);
            }
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_returns_what_it_takes() {
        fn whole(buffers: &mut impl Buffers) {
            for shape in Shape::ALL {
                assert_eq!(go(buffers, shape, 10_000), 10_000);
            }
        }
        let (mut ours, mut dropped) = (
            Packets::<false>::new().unwrap(),
            Packets::<true>::new().unwrap(),
        );
        whole(&mut ours);
        whole(&mut dropped);
        whole(&mut Blocks::new().unwrap());
        whole(&mut Glibc);
        whole(&mut FreeRing::new());
        assert!(ours.end() && dropped.end(), "a slot is missing");
    }
}
