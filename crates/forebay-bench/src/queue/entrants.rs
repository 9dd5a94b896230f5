//! The queues that are compared, and passing messages through one.

#[cfg(feature = "iceoryx2")]
use super::iceoryx::Iceoryx;
use super::{
    crew::{self, Kind, Meeting},
    kernel::{Datagrams, Posix},
    rivals::{Crossbeam, Lends, Queue, Receives, Rival, Sends, Shape, Shared, Spsc, Std},
    source_text::SourceText,
    trips::{self, place},
};
use crate::method::{processors::Cpus, table::Table};
use anyhow::{Result, anyhow};
use std::hint::black_box;

/// How iceoryx2's ends wait.
const ICEORYX2: &str = "\
    Receivers of forebay and of iceoryx2 look for a message for about a microsecond, then yield the processor a few times. \
    After that forebay's receiver sleeps, and the next sender wakes it. iceoryx2 waits like that in its event service, but \
    its senders must notify it after every message, because they do not know whether the receiver sleeps; iceoryx2 leaves \
    out the system call while an earlier notification is pending. The row that polls shows iceoryx2 without events: its \
    receiver keeps yielding, and so occupies a processor even while idle. A sender that finds the buffer full sleeps in \
    forebay, and yields in iceoryx2";

/// How messages come into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Copied from elsewhere.
    AsCopies,
    /// Filled where they lie, in room that the queue lends.
    InPlace,
}

/// Sends this number of messages; returns the nanoseconds, and the number sent.
pub type Passed = fn(Kind, &Shape, Cpus, u64) -> Result<(f64, u64)>;

/// One of those compared.
pub struct Entrant {
    pub name: &'static str,
    /// It sends a so manyth part of what a sample could be, for samples of some ten milliseconds.
    pub part: u64,
    attempt: fn(&Shape) -> Result<()>,
    pub sample: Passed,
    pub trips: fn(Kind, Cpus, usize) -> Result<Vec<u64>>,
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

    /// One whose messages are filled where they are sent from.
    fn lending<R: Rival>(name: &'static str, part: u64) -> Entrant
    where
        for<'a> R::Sender<'a>: Lends,
    {
        Entrant {
            sample: pass_filled::<R>,
            ..Entrant::new::<R>(name, part)
        }
    }

    /// Those between processes that lend room for messages; ours first.
    fn all_lending() -> Vec<Entrant> {
        vec![
            Entrant::lending::<Shared>("forebay, queue::shared", 10),
            #[cfg(feature = "iceoryx2")]
            Entrant::lending::<Iceoryx<false>>("iceoryx2, polling", 2),
            #[cfg(feature = "iceoryx2")]
            Entrant::lending::<Iceoryx<true>>("iceoryx2, sleeping in its event service", 20),
        ]
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
                all.push(Entrant::new::<SourceText>(
                    "the queue of \"black magic\"",
                    10,
                ));
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

/// The entrants that can run here. Each other one gets a row that says why it cannot.
pub fn entrants(kind: Kind, shape: &Shape, sent: Sent, table: &mut Table) -> Vec<Entrant> {
    let all = match sent {
        Sent::AsCopies => Entrant::all(kind, (shape.senders, shape.receivers)),
        Sent::InPlace => Entrant::all_lending(),
    };
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

/// Passes copies of a message.
fn pass<R: Rival>(kind: Kind, shape: &Shape, cpus: Cpus, messages: u64) -> Result<(f64, u64)> {
    let message = vec![7; shape.len];
    pass_by::<R>(kind, shape, cpus, messages, |sender| {
        sender.send(black_box(&message));
    })
}

/// Passes messages that are filled in the room that the queue lends.
fn pass_filled<R: Rival>(kind: Kind, shape: &Shape, cpus: Cpus, messages: u64) -> Result<(f64, u64)>
where
    for<'a> R::Sender<'a>: Lends,
{
    pass_by::<R>(kind, shape, cpus, messages, |sender| {
        sender.send_filled(black_box(shape.len), black_box(7));
    })
}

/// Passes about this number of messages from all senders to all receivers, each its share; returns the time and the number.
fn pass_by<R: Rival>(
    kind: Kind,
    shape: &Shape,
    cpus: Cpus,
    messages: u64,
    send: impl Fn(&mut R::Sender<'_>) + Sync,
) -> Result<(f64, u64)> {
    let rival = R::new(shape)?;
    let shares = (shape.senders * shape.receivers) as u64;
    let messages = messages.next_multiple_of(shares);
    let work = |number: usize, meeting: &Meeting<'_>| {
        if number < shape.senders {
            let mut sender = rival.sender()?;
            meeting.begin(|| sender.connect())?;
            send_all(&mut sender, &send, messages / shape.senders as u64);
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
fn send_all<S>(sender: &mut S, send: impl Fn(&mut S), messages: u64) {
    for _ in 0..messages {
        send(sender);
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
