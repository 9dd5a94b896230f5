//! One thread takes buffers, writes to them and sends them; another one looks at each and returns it.
//!
//! ```text
//!   taker:     take ─▶ 64 bytes written ─▶ link ─▶ look ─▶ returned     :returner
//!      ▲                                                      │
//!      └──────────── as each side does it ────────────────────┘
//! ```

use super::{
    ends::{Across, Bare, ByTheBlock, Packets, Returns, Takes, TakesOne},
    link::{Receiver, Sender, Travels, link},
    rivals::{BURST, BYTES, FreeRing, Glibc},
};
use crate::method::{
    Effort,
    line::Mode,
    native::Native,
    processors::{Cpus, pair},
    table::{Cell, Table},
    two::{contest_of_operations, near_and_far, run_pair},
};
use anyhow::Result;
use std::{cell::RefCell, rc::Rc};

/// Bytes of slots that do not lie a power of two apart; DPDK's do not either.
const SPREAD: usize = 2112;

/// Sends this number of buffers; returns the nanoseconds.
type Work<'a> = Box<dyn FnMut(Cpus, u64) -> Result<f64> + 'a>;

/// A side: one by one, if it can, and in bursts.
type BothWays<'a> = (&'static str, Option<Work<'a>>, Work<'a>);

fn side<'a, A: Across + 'a>(name: &'static str) -> BothWays<'a>
where
    A::Taker: TakesOne,
{
    (
        name,
        Some(Box::new(one_by_one::<A>)),
        Box::new(in_bursts::<A>),
    )
}

fn side_in_bursts<'a, A: Across + 'a>(name: &'static str) -> BothWays<'a> {
    (name, None, Box::new(in_bursts::<A>))
}

/// The table, with `natives` among the sides.
pub fn run(effort: Effort, natives: &mut [(&'static str, Result<Native>)]) -> Result<Table> {
    let title = "pool/across: a buffer of 2048 bytes taken and 64 of them written by one thread, returned by another, ns";
    let mut table = Table::new(title, &["NEAR b1", "NEAR b32", "FAR b1", "FAR b32"]);
    let cpus = match pair() {
        Ok(cpus) => cpus,
        Err(why) => {
            table.skipped("all", &why);
            return Ok(table);
        }
    };
    let mut sides = vec![
        side::<Packets<BYTES>>("forebay, dropped"),
        side::<Packets<SPREAD>>("forebay, the same in slots of 2112 bytes"),
        side_in_bursts::<ByTheBlock<BYTES>>("forebay, slots by the block, dropped"),
        side_in_bursts::<ByTheBlock<SPREAD>>(
            "forebay, the same in slots of 2112 bytes, by the block",
        ),
        side::<Glibc>("malloc and free (glibc)"),
        side::<FreeRing>("a ring of free buffers (Device Driver Queues)"),
    ];
    let mut missing = Vec::new();
    for (name, program) in natives {
        let program = match program {
            Ok(program) => RefCell::new(program),
            Err(why) => {
                missing.push((*name, &*why));
                continue;
            }
        };
        let program = Rc::new(program);
        let work = |how: &'static str| -> Work<'_> {
            let program = program.clone();
            Box::new(move |(one, other), buffers| {
                let words = format!("{how} {one} {other}");
                program.borrow_mut().sample(&words, buffers)
            })
        };
        sides.push((name, Some(work("single")), work("many")));
    }
    sides.push(side::<Bare<1>>("the link alone, 8 bytes"));
    sides.push(side::<Bare<2>>("the link alone, 16 bytes"));
    let (mut ways, mut rows) = (Vec::new(), Vec::new());
    for (name, one, many) in sides {
        let one = one.map(|one| {
            ways.push(one);
            ways.len() - 1
        });
        rows.push((name, one, ways.len()));
        ways.push(many);
    }
    let samples = contest_of_operations(ways.len(), effort, cpus, |which, buffers| {
        ways[which](cpus, buffers)
    })?;
    for (name, one, many) in rows {
        let cells = [Mode::Near, Mode::Far].into_iter().flat_map(|mode| {
            let of = |way: usize| samples[way].of(mode);
            [one.and_then(of), of(many)]
        });
        table.row(name, cells.map(|each| Cell::spread(each, 1)).collect());
    }
    for (name, why) in missing {
        table.skipped(name, why);
    }
    table.note(format!(
        "b1: one by one, b32: in bursts of {BURST}; all over the same link with room for 256, which carries an address of 8 bytes, \
         of our packets a description of 16, of our slots a block of 32 in 144 (which are not sent singly); up to 1.2 times is a tie. {}",
        near_and_far(&samples)
    ));
    Ok(table)
}

fn one_by_one<A: Across>(cpus: Cpus, buffers: u64) -> Result<f64>
where
    A::Taker: TakesOne,
{
    let (taker, returner) = A::new()?;
    let (sender, receiver) = link();
    run_pair(
        cpus,
        || taking(taker, sender, buffers),
        || returning(returner, receiver, buffers),
    )
}

fn in_bursts<A: Across>(cpus: Cpus, buffers: u64) -> Result<f64> {
    let (taker, returner) = A::new()?;
    let (sender, receiver) = link();
    run_pair(
        cpus,
        || taking_bursts(taker, sender, buffers),
        || returning_bursts(returner, receiver, buffers),
    )
}

// Never inlined, so that each side's loops are separate; see docs/performance-notes.md.

#[inline(never)]
fn taking<T: TakesOne>(taker: T, sender: Sender<T::Item>, buffers: u64) {
    let (mut taker, mut sender) = (taker, sender);
    for number in 0..buffers {
        sender.send_one(taker.take(number));
    }
}

#[inline(never)]
fn taking_bursts<T: Takes>(taker: T, sender: Sender<T::Item>, buffers: u64) {
    let (mut taker, mut sender) = (taker, sender);
    let mut burst = Vec::with_capacity(BURST);
    for first in (0..buffers).step_by(BURST) {
        taker.take_burst(first, &mut burst);
        sender.send(burst.drain(..));
    }
}

// Checked at the end: the other thread would wait for one that panicked.

#[inline(never)]
fn returning<R: Returns>(returner: R, receiver: Receiver<R::Item>, buffers: u64) {
    let (mut returner, mut receiver) = (returner, receiver);
    let mut right = true;
    for number in 0..buffers {
        right &= returner.put_back(receiver.receive_one(), number);
    }
    assert!(right, "other buffers came than were sent");
}

#[inline(never)]
fn returning_bursts<R: Returns>(returner: R, receiver: Receiver<R::Item>, buffers: u64) {
    let (mut returner, mut receiver) = (returner, receiver);
    let mut right = true;
    let mut burst = Vec::with_capacity(BURST);
    let mut returned = 0;
    while returned < buffers {
        receiver.receive(BURST / R::Item::BUFFERS, &mut burst);
        let received = (burst.len() * R::Item::BUFFERS) as u64;
        right &= returner.put_back_burst(&mut burst, returned);
        returned += received;
    }
    assert!(right, "other buffers came than were sent");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_carries_every_buffer_to_the_other_thread() {
        let Ok(cpus) = pair() else {
            return eprintln!("skipped: needs two processors");
        };
        // The returning thread checks that the buffer is the one that was sent.
        for (_, one, many) in [
            side::<Packets<BYTES>>("packets"),
            side_in_bursts::<ByTheBlock<BYTES>>("blocks"),
            side::<Glibc>("glibc"),
            side::<FreeRing>("ring"),
            side::<Bare<2>>("bare"),
        ] {
            for mut work in one.into_iter().chain([many]) {
                assert!(work(cpus, 6400).unwrap() > 0.0);
            }
        }
    }
}
