//! One thread takes buffers, writes to them and sends them; another one looks at each and returns it.
//!
//! ```text
//!   taker:     take ─▶ 64 bytes written ─▶ link ─▶ look ─▶ returned     :returner
//!      ▲                                                      │
//!      └──────────── as each side does it ────────────────────┘
//! ```

use super::{
    BURST,
    ends::{Across, Bare, Packets, Returns, Takes},
    link::{Receiver, Sender, link},
    rivals::{BYTES, FreeRing, Glibc},
};
use crate::method::{
    Effort,
    line::Mode,
    machine::processors,
    native::Native,
    table::{Cell, Table},
    two::{contest_of_operations, near_and_far, run_pair},
};
use anyhow::{Result, anyhow};

/// Bytes of slots that do not lie a power of two apart; DPDK's do not either.
const SPREAD: usize = 2112;

/// Two processors.
type Cpus = (usize, usize);

/// Sends so many buffers, in bursts or one by one; the nanoseconds.
type Work<'a> = Box<dyn FnMut(bool, Cpus, u64) -> Result<f64> + 'a>;

fn entrant<'a, A: Across + 'a>(name: &'static str) -> (&'static str, Work<'a>) {
    (name, Box::new(run_across::<A>))
}

/// The table, with `natives` among the sides.
///
/// # Errors
/// No memory for a pool.
pub fn run(effort: Effort, natives: &mut [(&'static str, Result<Native>)]) -> Result<Table> {
    let title = "pool/across: a buffer of 2048 bytes taken and 64 of them written by one thread, returned by another, ns";
    let mut table = Table::new(title, &["NEAR b1", "NEAR b32", "FAR b1", "FAR b32"]);
    let cpus = processors()?;
    let &[first, second, ..] = &cpus[..] else {
        table.skipped("all", &anyhow!("needs two processors"));
        return Ok(table);
    };
    let mut sides = vec![
        entrant::<Packets<BYTES>>("forebay, dropped"),
        entrant::<Packets<SPREAD>>("forebay, the same in slots of 2112 bytes"),
        entrant::<Glibc>("malloc and free (glibc)"),
        entrant::<FreeRing>("a ring of free buffers (text 003)"),
    ];
    let mut missing = Vec::new();
    for (name, program) in natives {
        match program {
            Ok(program) => sides.push((
                name,
                Box::new(|in_bursts, (one, other): Cpus, buffers| {
                    let what = if in_bursts { "many" } else { "single" };
                    program.sample(&format!("{what} {one} {other}"), buffers)
                }),
            )),
            Err(why) => missing.push((*name, &*why)),
        }
    }
    sides.push(entrant::<Bare<1>>("the link alone, 8 bytes"));
    sides.push(entrant::<Bare<2>>("the link alone, 16 bytes"));
    // Of each side two: one by one, and in bursts.
    let halves = 2 * sides.len();
    let samples = contest_of_operations(halves, effort, (first, second), |which, buffers| {
        sides[which / 2].1(which % 2 == 1, (first, second), buffers)
    })?;
    for ((name, _), ways) in sides.iter().zip(samples.chunks_exact(2)) {
        let cells = [Mode::Near, Mode::Far].into_iter().flat_map(|mode| {
            let each = ways.iter().map(move |way| way.of(mode));
            each.map(|each| Cell::spread(each, 1))
        });
        table.row(*name, cells.collect());
    }
    for (name, why) in missing {
        table.skipped(name, why);
    }
    table.note(format!(
        "b1: one by one, b32: in bursts of {BURST}; all over the same link of 256 places, which carries an address of 8 bytes, ours \
         a description of 16; up to 1.2 times is a tie. {}",
        near_and_far(&samples)
    ));
    Ok(table)
}

fn run_across<A: Across>(in_bursts: bool, cpus: Cpus, buffers: u64) -> Result<f64> {
    let (taker, returner) = A::new()?;
    let (sender, receiver) = link();
    run_pair(
        cpus,
        || taking(taker, sender, in_bursts, buffers),
        || returning(returner, receiver, in_bursts, buffers),
    )
}

// Never inlined, so that each side has loops of its own to read; what they work with is first moved into local variables.

#[inline(never)]
fn taking<T: Takes>(taker: T, sender: Sender<T::Buffer>, in_bursts: bool, buffers: u64) {
    let (mut taker, mut sender) = (taker, sender);
    if !in_bursts {
        for number in 0..buffers {
            sender.send_one(taker.take(number));
        }
        return;
    }
    let mut burst = Vec::with_capacity(BURST);
    for first in (0..buffers).step_by(BURST) {
        taker.take_burst(BURST, first, &mut burst);
        sender.send(burst.drain(..));
    }
}

#[inline(never)]
fn returning<R: Returns>(
    returner: R,
    receiver: Receiver<R::Buffer>,
    in_bursts: bool,
    buffers: u64,
) {
    let (mut returner, mut receiver) = (returner, receiver);
    // Told at the end: the other thread would wait for one that panicked.
    let mut right = true;
    if !in_bursts {
        for number in 0..buffers {
            right &= returner.put_back(receiver.receive_one(), number);
        }
    } else {
        let mut burst = Vec::with_capacity(BURST);
        let mut returned = 0;
        while returned < buffers {
            receiver.receive(BURST, &mut burst);
            let received = burst.len() as u64;
            right &= returner.put_back_burst(&mut burst, returned);
            returned += received;
        }
    }
    assert!(right, "other buffers came than were sent");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_carries_every_buffer_to_the_other_thread() {
        let cpus = match processors().unwrap()[..] {
            [first, second, ..] => (first, second),
            _ => return eprintln!("skipped: needs two processors"),
        };
        // Whoever returns a buffer looks whether it is the one that was sent.
        for in_bursts in [false, true] {
            for (_, mut work) in [
                entrant::<Packets<BYTES>>("packets"),
                entrant::<Glibc>("glibc"),
                entrant::<FreeRing>("ring"),
                entrant::<Bare<2>>("bare"),
            ] {
                assert!(work(in_bursts, cpus, 6400).unwrap() > 0.0);
            }
        }
    }
}
