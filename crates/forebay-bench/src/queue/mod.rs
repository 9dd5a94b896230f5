//! Queues of messages between threads and between processes: that of *Using black magic to make a fast circular buffer*, channels,
//! the kernel's, and ours.
//!
//! `rivals` has the trait and those in Rust, `text` the text's queue, `kernel` sockets and POSIX queues, `iceoryx`
//! iceoryx2's services (with `--features iceoryx2`); `crew` runs members as threads or processes, `trips` times single
//! messages there and back.
//!
//! ```text
//!   1:1   sender on one processor ───▶ receiver on the other
//!   8:8   16 members, wherever the system puts them on the two ───▶ each sends, or receives, its share
//! ```

mod crew;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod kernel;
mod rivals;
mod text;
mod trips;

use crate::method::{
    Effort,
    machine::pair,
    samples::Side,
    table::Table,
    two::{beside, contest, near_and_far},
};
use anyhow::{Result, anyhow};
use crew::{Kind, Meeting};
#[cfg(feature = "iceoryx2")]
use iceoryx::Iceoryx;
use kernel::{Datagrams, Posix};
use rivals::{Crossbeam, Queue, Receives, Rival, Sends, Shape, Shared, Spsc, Std};
use std::hint::black_box;
use text::Text;

/// Bytes of a message.
const LENS: [usize; 5] = [8, 256, 4096, 8 << 10, 64 << 10];

/// Senders and receivers.
const ENDS: [(usize, usize); 4] = [(1, 1), (1, 8), (8, 1), (8, 8)];

/// How iceoryx2's ends wait.
const ICEORYX2: &str = "\
    Receivers of forebay and of iceoryx2 look for a message for about a microsecond, then yield the processor a few times. \
    After that forebay's receiver sleeps, and the next sender wakes it. iceoryx2 waits like that in its event service, but \
    its senders must notify it after every message, because they do not know whether the receiver sleeps; iceoryx2 leaves \
    out the system call while an earlier notification is pending. The row that polls shows iceoryx2 without events: its \
    receiver keeps yielding, and so occupies a processor even while idle. A sender that finds the buffer full sleeps in \
    forebay, and yields in iceoryx2";

/// Two processors.
type Cpus = (usize, usize);

/// Sends this number of messages; returns the nanoseconds, and the number sent.
type Sample = fn(Kind, &Shape, Cpus, u64) -> Result<(f64, u64)>;

/// One of those compared.
struct Entrant {
    name: &'static str,
    /// It sends a so manyth part of what a sample could be, for samples of some ten milliseconds.
    part: u64,
    attempt: fn(&Shape) -> Result<()>,
    sample: Sample,
    trips: fn(Kind, Cpus, usize) -> Result<Vec<u64>>,
}

impl Entrant {
    fn new<R: Rival>(name: &'static str, part: u64) -> Entrant {
        Entrant {
            name,
            part,
            attempt: |shape| R::new(shape).map(drop),
            sample: pass::<R>,
            trips: trips::sample::<R>,
        }
    }

    /// Those of a kind; ours first.
    fn all(kind: Kind, ends: (usize, usize)) -> Vec<Entrant> {
        let kernel = [
            Entrant::new::<Datagrams>("a Unix datagram socket", 100),
            Entrant::new::<Posix>("a POSIX message queue", 100),
        ];
        let mut all = Vec::new();
        match kind {
            Kind::Threads => {
                all.push(Entrant::new::<Queue>("forebay, queue", 10));
                if ends == (1, 1) {
                    all.push(Entrant::new::<Spsc>("forebay, queue::spsc", 1));
                }
                all.push(Entrant::new::<Text>("the queue of \"black magic\"", 10));
                all.push(Entrant::new::<Std>(
                    match ends.1 {
                        1 => "std's channel, boxed",
                        _ => "std's channel, boxed, receiver in a mutex",
                    },
                    10,
                ));
                all.push(Entrant::new::<Crossbeam>("crossbeam's channel, boxed", 10));
            }
            Kind::Processes => {
                all.push(Entrant::new::<Shared>("forebay, queue::shared", 10));
                #[cfg(feature = "iceoryx2")]
                all.extend([
                    Entrant::new::<Iceoryx<false>>("iceoryx2, polling", 2),
                    Entrant::new::<Iceoryx<true>>("iceoryx2, sleeping in its event service", 20),
                ]);
            }
        }
        all.extend(kernel);
        all
    }
}

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
                    tables.push(compare(kind, &shape, effort, cpus)?);
                }
            }
        }
        tables.push(trips::compare(kind, effort, cpus)?);
    }
    Ok(tables)
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Threads => "threads",
        Kind::Processes => "processes",
    }
}

/// The entrants that can run here. Each other one gets a row that says why it cannot.
fn entrants(kind: Kind, shape: &Shape, table: &mut Table) -> Vec<Entrant> {
    let all = Entrant::all(kind, (shape.senders, shape.receivers));
    if kind == Kind::Processes {
        let needs = anyhow!("needs --features iceoryx2 and Debian's libclang-14-dev");
        match (cfg!(feature = "iceoryx2"), shape.receivers) {
            (false, _) => table.skipped("iceoryx2", &needs),
            (true, 1) => table.note(ICEORYX2),
            (true, _) => (), // its rows say why they have no figures
        }
    }
    let here = |one: &Entrant| match (one.attempt)(shape) {
        Ok(()) => true,
        Err(why) => {
            table.skipped(one.name, &why);
            false
        }
    };
    all.into_iter().filter(here).collect()
}

fn compare(kind: Kind, shape: &Shape, effort: Effort, cpus: Cpus) -> Result<Table> {
    let Shape {
        senders,
        receivers,
        len,
    } = *shape;
    let title = format!(
        "queue/{}, {senders}:{receivers}: messages of {len}, millions a second, sent as copies",
        name_of(kind)
    );
    let mut table = Table::new(title, &["NEAR", "forebay = 1", "FAR", "forebay = 1"]);
    let mut missing = Table::new("", &[]);
    let entrants = entrants(kind, shape, &mut missing);
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

/// Where member `number` of `senders` and others runs: one of each has its own processor, more share both.
fn place(number: usize, shape: &Shape, cpus: Cpus) -> Vec<usize> {
    match (shape.senders, shape.receivers, number) {
        (1, 1, 0) => vec![cpus.0],
        (1, 1, _) => vec![cpus.1],
        _ => vec![cpus.0, cpus.1],
    }
}

/// Passes about this number of messages from all senders to all receivers, each its share; returns the time and the number.
fn pass<R: Rival>(kind: Kind, shape: &Shape, cpus: Cpus, messages: u64) -> Result<(f64, u64)> {
    let rival = R::new(shape)?;
    let shares = (shape.senders * shape.receivers) as u64;
    let messages = messages.next_multiple_of(shares);
    let work = |number: usize, meeting: &Meeting<'_>| {
        if number < shape.senders {
            let message = vec![7; shape.len];
            let mut sender = rival.sender()?;
            meeting.begin(|| sender.connect())?;
            send_all(&mut sender, &message, messages / shape.senders as u64);
            meeting.end();
        } else {
            let mut receiver = rival.receiver()?;
            meeting.begin(|| receiver.connect())?;
            receive_all(&mut receiver, messages / shape.receivers as u64);
            meeting.end();
        }
        Ok(())
    };
    let members = shape.senders + shape.receivers;
    let ns = crew::run(kind, members, &|number| place(number, shape, cpus), &work)?;
    Ok((ns, messages))
}

#[inline(never)]
fn send_all(sender: &mut impl Sends, message: &[u8], messages: u64) {
    for _ in 0..messages {
        sender.send(black_box(message));
    }
}

#[inline(never)]
fn receive_all(receiver: &mut impl Receives, messages: u64) {
    for _ in 0..messages {
        receiver.receive(|message| {
            black_box(message.first());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::machine::processors;
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
            carries::<Text>(Kind::Threads, senders, receivers);
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
