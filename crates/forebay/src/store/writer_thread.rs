//! The thread that writes what is handed over and what is due.

use super::{
    buffer::{Buffer, Empty, Piece},
    desk::Due,
    drain::{Drain, Stopped},
    shared::BothSides,
};
use crate::{
    memory::{Filled, Vacant},
    ring::spsc::{Consumer, PopError, Producer},
    sync::Park,
};
use std::time::{Duration, Instant};

/// A closed buffer. The writer thread may hold its filled half, if it took a piece of the buffer before.
pub(super) struct Handed {
    pub vacant: Vacant,
    pub filled: Option<Filled>,
    pub piece: Piece,
}

/// The shortest time that the writer thread waits for a buffer before it takes what is committed. It keeps an idle store
/// nearly free of cost.
const SHORTEST_PERIOD: Duration = match cfg!(test) {
    // Short, so that tests see many pieces of one buffer.
    true => Duration::from_micros(20),
    false => Duration::from_millis(10),
};

/// How soon the thread checks again if a record was being committed.
const SOON_NS: u64 = 100_000;

pub(super) fn period(flush_every: Duration) -> u64 {
    let period = flush_every.max(SHORTEST_PERIOD).as_nanos();
    u64::try_from(period).unwrap_or(u64::MAX)
}

pub(super) fn run(
    mut drain: Drain,
    full: Consumer<Handed, Park>,
    empty: Producer<Option<Empty>, Park>,
    shared: &BothSides,
    period: u64,
    buffers: (usize, usize),
) -> Drain {
    write_all(&mut drain, full, empty, shared, period, buffers);
    shared.close(&mut drain);
    drain
}

/// Writes what is handed over and what is due, until the appender has closed or the store is abandoned. The store began with `first`
/// buffers. If half of `plenty` wait, it no longer bypasses the page cache.
fn write_all(
    drain: &mut Drain,
    mut full: Consumer<Handed, Park>,
    mut empty: Producer<Option<Empty>, Park>,
    shared: &BothSides,
    period: u64,
    (first, plenty): (usize, usize),
) {
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as u64;
    let mut look_at = period;
    // A filled half whose buffer was closed while a piece of it was being written.
    let mut in_hand = None;
    loop {
        let due = drain.sync_due_at().map_or(look_at, |due| due.min(look_at));
        let left = Duration::from_nanos(due.saturating_sub(now()));
        let (mut buffer, from) = match full.pop_timeout(left) {
            Ok(handed) => {
                let bytes = handed.filled.or_else(|| in_hand.take());
                let bytes = bytes.expect("each half is on the desk, in hand, or handed over");
                let piece = handed.piece;
                (Buffer { bytes, piece }, From::Ring(handed.vacant))
            }
            Err(PopError::Empty | PopError::TimedOut) if now() < look_at => {
                drain.keep_time(now());
                shared.tell(drain);
                continue;
            }
            Err(PopError::Empty | PopError::TimedOut) => {
                match shared.desk.take(|| !full.is_empty()) {
                    Due::Piece(buffer, serial) => (buffer, From::Desk(serial)),
                    Due::Nothing => {
                        look_at = now().saturating_add(period);
                        continue;
                    }
                    Due::Unsettled => {
                        look_at = now().saturating_add(SOON_NS);
                        continue;
                    }
                }
            }
            Err(PopError::Closed) => return,
        };
        drain.keep_time(now());
        drain.keep_up(full.len(), plenty);
        let is_written = write(drain, &mut buffer, shared);
        if is_written {
            drain.start_write_back();
        }
        shared.tell(drain);
        if !is_written {
            return;
        }
        buffer.piece.give_back();
        match from {
            From::Ring(vacant) => {
                let back = empty.capacity() - empty.vacant();
                // The ring has a slot for every buffer; a push fails only if the appender is gone, and then needs none back.
                let is_kept = match vacant.is_shared() {
                    true => true,
                    // Records in a private buffer are copied for readers, so no such buffer stays if there are enough others.
                    false if buffer.bytes.is_frozen() => back + 1 < first,
                    false => back < first,
                };
                drop(empty.try_push(is_kept.then_some((vacant, buffer.bytes))));
            }
            From::Desk(serial) => in_hand = shared.desk.put_back(buffer.bytes, serial),
        }
        look_at = now().saturating_add(period);
    }
}

/// Where the writer thread got a buffer from.
enum From {
    Ring(Vacant),
    Desk(u64),
}

/// Writes a buffer, and repeats it on each retry. `false`: it was given up.
fn write(drain: &mut Drain, buffer: &mut Buffer, shared: &BothSides) -> bool {
    let Buffer { bytes, piece } = buffer;
    loop {
        match drain.write(bytes, piece, &shared.abandon) {
            Ok(()) => return true,
            Err(Stopped::Failed(error)) => {
                shared.fail(drain, error);
                if shared.wait_for_answer() {
                    continue;
                }
            }
            Err(Stopped::Abandoned) => {}
        }
        drain.give_up(bytes, piece);
        return false;
    }
}
