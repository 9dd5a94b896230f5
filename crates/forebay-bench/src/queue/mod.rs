//! Queues of messages between threads and between processes: that of *Using black magic to make a fast circular buffer*, channels,
//! the kernel's, and ours.
//!
//! `rivals` has the trait and those in Rust, `source_text` the text's queue, `kernel` sockets and POSIX queues, `iceoryx`
//! iceoryx2's services (with `--features iceoryx2`); `crew` runs members as threads or processes, `entrants` lists those
//! that are compared, `trips` times single messages there and back.
//!
//! ```text
//!   1:1   sender on one processor ───▶ receiver on the other
//!   8:8   16 members, wherever the system puts them on the two ───▶ each sends, or receives, its share
//! ```

mod crew;
mod entrants;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod kernel;
mod rivals;
mod source_text;
mod trips;

use crate::method::{
    Effort,
    line::Mode,
    processors::{Cpus, pair},
    samples::Side,
    table::{Cell, Table},
    two::{self, beside, contest, near_and_far},
};
use anyhow::Result;
use crew::Kind;
use entrants::{Entrant, Sent, entrants};
use rivals::Shape;
use trips::SHAPE;

/// Bytes of a message.
const LENS: [usize; 5] = [8, 256, 4096, 8 << 10, 64 << 10];

/// The reported quantiles of round trips: this part of all trips took at most that time.
const PARTS: [f64; 3] = [0.5, 0.99, 0.999];

/// Senders and receivers.
const ENDS: [(usize, usize); 4] = [(1, 1), (1, 8), (8, 1), (8, 8)];

/// One table for each kind, number of ends and size; and those of round trips.
pub fn run(effort: Effort) -> Result<Vec<Table>> {
    let cpus = pair()?;
    let mut tables = Vec::new();
    for kind in [Kind::Threads, Kind::Processes] {
        for ends in ENDS {
            for len in LENS {
                // The ends of the range do to see that it works.
                if !effort.quick || [LENS[0], LENS[4]].contains(&len) {
                    let (senders, receivers) = ends;
                    let shape = Shape {
                        senders,
                        receivers,
                        len,
                    };
                    tables.push(compare(kind, &shape, Sent::AsCopies, effort, cpus)?);
                }
            }
        }
        tables.push(round_trips(kind, effort, cpus)?);
    }
    for len in LENS.into_iter().filter(|&len| len >= 4096) {
        if !effort.quick || len == LENS[4] {
            let shape = Shape { len, ..SHAPE };
            tables.push(compare(
                Kind::Processes,
                &shape,
                Sent::InPlace,
                effort,
                cpus,
            )?);
        }
    }
    Ok(tables)
}

fn compare(kind: Kind, shape: &Shape, sent: Sent, effort: Effort, cpus: Cpus) -> Result<Table> {
    let Shape {
        senders,
        receivers,
        len,
    } = *shape;
    let title = format!(
        "queue/{}, {senders}:{receivers}: messages of {len}, millions a second, {}",
        kind.name(),
        match sent {
            Sent::AsCopies => "sent as copies",
            Sent::InPlace => "filled in place",
        }
    );
    let mut table = Table::new(title, &["NEAR", "forebay = 1", "FAR", "forebay = 1"]);
    let mut missing = Table::new("", &[]);
    let entrants = entrants(kind, shape, sent, &mut missing);
    let messages = effort
        .scaled(400_000)
        .min(effort.scaled(800_000_000) / len as u64);
    let pair = |one: &Entrant| {
        let (sample, messages) = (one.sample, messages / one.part);
        Side::timed(one.name, move || sample(kind, shape, cpus, messages))
    };
    let mut pairs: Vec<_> = entrants.iter().map(pair).collect();
    let results = contest(&mut pairs, effort.rounds, cpus)?;
    for (pair, result) in pairs.iter().zip(&results) {
        let both = |mode| [result.of(mode), results[0].of(mode)];
        table.row(&pair.name, beside(both, |ns| ns.in_each(1e3), 2));
    }
    table.rows.append(&mut missing.rows);
    table.notes.append(&mut missing.notes);
    table.note(format!(
        "room for {} messages, or {} bytes; POSIX queues and sockets have their own limits. Up to 1.2 times is a tie. {}",
        shape.slots(),
        shape.bytes(),
        near_and_far(&results)
    ));
    Ok(table)
}

/// The table of round trips.
fn round_trips(kind: Kind, effort: Effort, cpus: Cpus) -> Result<Table> {
    let title = format!(
        "queue/{}, round trips: a message of {} there and one back, ns",
        kind.name(),
        SHAPE.len
    );
    let mut table = Table::new(
        title,
        &["NEAR 50 %", "99 %", "99.9 %", "FAR 50 %", "99 %", "99.9 %"],
    );
    let entrants = entrants(kind, &SHAPE, Sent::AsCopies, &mut table);
    let trips = effort.scaled(20_000) as usize;
    let samples = two::in_turn(entrants.len(), effort.rounds, cpus, |which| {
        let Entrant { trips: sample, .. } = entrants[which];
        sample(kind, cpus, trips)
    })?;
    for (one, samples) in entrants.iter().zip(samples) {
        let mut by_mode = samples.by_mode;
        let cells = [Mode::Near, Mode::Far].into_iter().flat_map(|mode| {
            let mut all = by_mode.remove(&mode).unwrap_or_default().concat();
            all.sort_unstable();
            PARTS.map(|part| match all.len().checked_sub(1) {
                Some(last) => Cell::number(all[(part * last as f64) as usize] as f64, 0),
                None => Cell::Unknown,
            })
        });
        table.row(one.name, cells.collect());
    }
    table.note("each trip on a clock that takes some 30 ns of it to read; a sender and a receiver a processor");
    Ok(table)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "iceoryx2")]
    use super::iceoryx::Iceoryx;
    use super::{
        crew::{self, Kind, Meeting},
        kernel::{Datagrams, Posix},
        rivals::{Crossbeam, Queue, Receives, Rival, Sends, Shape, Shared, Spsc, Std},
        source_text::SourceText,
    };
    use crate::method::processors::processors;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Every message arrives once, and those of each sender in order at each receiver.
    fn carries<R: Rival>(kind: Kind, senders: usize, receivers: usize) {
        const EACH: u64 = 400;
        let shape = Shape {
            senders,
            receivers,
            len: 16,
        };
        let rival = R::new(&shape).unwrap();
        let seen = crew::Board::new(senders * EACH as usize).unwrap();
        let cpus = processors().unwrap();
        let work = |number: usize, meeting: &Meeting<'_>| {
            if number < senders {
                let mut sender = rival.sender()?;
                meeting.begin(|| sender.connect())?;
                for which in 0..EACH {
                    let mut message = [0; 16];
                    message[..8].copy_from_slice(&(number as u64).to_ne_bytes());
                    message[8..].copy_from_slice(&which.to_ne_bytes());
                    sender.send(&message);
                }
                meeting.end();
                return Ok(());
            }
            let mut receiver = rival.receiver()?;
            meeting.begin(|| receiver.connect())?;
            let mut next = vec![0; senders];
            for _ in 0..senders as u64 * EACH / receivers as u64 {
                let (from, which) = receiver.receive(|message| {
                    let word = |at: usize| message[at..at + 8].try_into().unwrap();
                    (u64::from_ne_bytes(word(0)), u64::from_ne_bytes(word(8)))
                });
                assert!(which >= next[from as usize]);
                next[from as usize] = which + 1;
                seen[(from * EACH + which) as usize].fetch_add(1, Relaxed);
            }
            meeting.end();
            Ok(())
        };
        let members = senders + receivers;
        crew::run(kind, members, &|_| cpus.clone(), &work).unwrap();
        let once = |word: &AtomicU64| word.load(Relaxed) == 1;
        assert!(seen.iter().all(once), "{}", std::any::type_name::<R>());
    }

    #[test]
    fn every_queue_carries_every_message_once_and_in_order_between_threads() {
        carries::<Spsc>(Kind::Threads, 1, 1);
        for (senders, receivers) in [(1, 1), (1, 4), (4, 1), (4, 4)] {
            carries::<SourceText>(Kind::Threads, senders, receivers);
            carries::<Std>(Kind::Threads, senders, receivers);
            carries::<Crossbeam>(Kind::Threads, senders, receivers);
            carries::<Queue>(Kind::Threads, senders, receivers);
            carries::<Datagrams>(Kind::Threads, senders, receivers);
        }
    }

    #[test]
    fn every_queue_between_processes_does_so_there() {
        carries::<Shared>(Kind::Processes, 4, 4);
        carries::<Datagrams>(Kind::Processes, 4, 4);
        #[cfg(feature = "iceoryx2")]
        for senders in [1, 4] {
            carries::<Iceoryx<false>>(Kind::Processes, senders, 1);
            carries::<Iceoryx<true>>(Kind::Processes, senders, 1);
        }
        let shape = Shape {
            senders: 4,
            receivers: 4,
            len: 16,
        };
        match Posix::new(&shape) {
            Ok(_) => carries::<Posix>(Kind::Processes, 4, 4),
            Err(why) => eprintln!("skipped: {why:#}"),
        }
    }

    /// iceoryx2 drops messages for a receiver that has not connected yet, and says so only in the number of receivers.
    #[test]
    #[cfg(feature = "iceoryx2")]
    fn an_iceoryx2_sender_waits_for_a_receiver_that_has_not_looked_yet() {
        fn outruns<R: Rival>() {
            let shape = Shape {
                senders: 1,
                receivers: 1,
                len: 8,
            };
            let (room, rival) = (shape.slots() as u64, R::new(&shape).unwrap());
            let sent = crew::Board::new(1).unwrap();
            let work = |number: usize, meeting: &Meeting<'_>| {
                if number == 0 {
                    let mut sender = rival.sender()?;
                    meeting.begin(|| sender.connect())?;
                    for which in 0..2 * room {
                        sender.send(&which.to_ne_bytes());
                        sent[0].fetch_add(1, Relaxed);
                    }
                    meeting.end();
                    return Ok(());
                }
                let mut receiver = rival.receiver()?;
                meeting.begin(|| receiver.connect())?;
                while sent[0].load(Relaxed) < room {
                    std::thread::yield_now();
                }
                for which in 0..2 * room {
                    receiver.receive(|message| assert_eq!(message, which.to_ne_bytes()));
                }
                meeting.end();
                Ok(())
            };
            let cpus = processors().unwrap();
            crew::run(Kind::Processes, 2, &|_| cpus.clone(), &work).unwrap();
        }
        outruns::<Iceoryx<false>>();
        outruns::<Iceoryx<true>>();
    }
}
