//! Hostile processes attack through the memory, descriptors and socket of a lane: they cause only errors and time-outs.
//!
//! Each test runs this program again as its children, and selects their role by the environment. Honest children use the library,
//! hostile ones use [`by_hand`]. `FOREBAY_HOSTILE_SECONDS` sets the duration; the default is 1.
//!
//! ```text
//!  senders ─────▶ hub here        two that flood, one that is stopped again and again: every message arrives
//!  scribbler ───▶                 attaches a lane, then writes random words, rings, descriptors, holes
//!  knocker ─────▶                 sends invalid greetings
//!
//!  sender here ─▶ hostile hubs
//!  sender, receiver here ─▶ a shared queue that another process overwrites
//! ```
#![cfg(not(forebay_one_view))] // ThreadSanitizer does not see the locks that the threads of a hub share

mod by_hand;
mod children;
mod lab;

use children::{Honest, seconds};
use forebay::queue::{
    lanes::{Ending, Hub, LanesConfig, RecvError, SendError, Sender},
    shared::{self, Shared},
};
use forebay_testing::{children::Mortal, dice::Dice};
use lab::{Descriptors, Lab, promptly};
use std::{
    collections::BTreeMap,
    os::unix::net::{UnixListener, UnixStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// The time limit of all calls.
const LIMIT: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_millis(1);
/// Number of senders that follow the protocol; the last one is stopped now and then.
const HONEST: u64 = 3;

/// The results of the receiving threads.
#[derive(Debug, Default)]
struct Seen {
    /// Messages of each honest sender.
    messages: [u64; HONEST as usize],
    foreign: u64,
    too_long: u64,
    timed_out: u64,
    ends: BTreeMap<String, u64>,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        for (mine, theirs) in self.messages.iter_mut().zip(other.messages) {
            *mine += theirs;
        }
        self.foreign += other.foreign;
        self.too_long += other.too_long;
        self.timed_out += other.timed_out;
        for (end, count) in other.ends {
            *self.ends.entry(end).or_default() += count;
        }
    }
}

/// Accepts all peers until `is_over`; returns how many were refused, and how many accepted.
fn accept(hub: &Hub, listener: &UnixListener, is_over: &AtomicBool) -> [u64; 2] {
    let mut counts = [0, 0];
    while !is_over.load(Relaxed) {
        match listener.accept() {
            Ok((socket, _)) => {
                let answer = promptly(|| hub.accept_timeout(socket, LIMIT));
                counts[usize::from(answer.is_ok())] += 1;
            }
            Err(_) => thread::sleep(Duration::from_millis(1)), // no peer is waiting
        }
    }
    counts
}

/// Receives until the hub is closed. Messages of honest senders are checked to the last byte.
fn receive(hub: &Hub) -> Seen {
    let mut seen = Seen::default();
    let mut last = [None; HONEST as usize];
    let mut buffer = vec![0; 1 << 16];
    loop {
        match promptly(|| hub.recv_timeout(&mut buffer, LIMIT)) {
            Ok(received) => match Honest::of(&buffer[..received.len]) {
                Some(message) => {
                    message.check(&buffer[..received.len]);
                    assert_eq!(message.number, received.sequence);
                    let last = &mut last[message.sender as usize];
                    assert!(*last < Some(message.number), "{message:?} after {last:?}");
                    *last = Some(message.number);
                    seen.messages[message.sender as usize] += 1;
                }
                None => seen.foreign += 1,
            },
            Err(RecvError::TooSmall { peer, .. }) => {
                hub.expel(peer);
                seen.too_long += 1;
            }
            Err(RecvError::TimedOut) => seen.timed_out += 1,
            Err(RecvError::Ended { ending, .. }) => {
                let end = match ending {
                    Ending::Broken(fault) => format!("{fault:?}"),
                    ending => format!("{ending:?}"),
                };
                let kind = end.split([' ', '{']).next().unwrap_or_default().to_owned();
                *seen.ends.entry(kind).or_default() += 1;
            }
            Err(RecvError::Closed) => return seen,
            Err(other) => panic!("a call that waits returned {other}"),
        }
    }
}

#[test]
fn hostile_senders_cost_a_hub_errors_and_honest_ones_nothing() {
    let _alone = lab::alone(seconds());
    let before = Descriptors::now();
    let lab = Lab::new("senders");
    let listener = UnixListener::bind(lab.socket()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let hub = Hub::new(&LanesConfig::default()).unwrap();
    let is_over = AtomicBool::new(false);
    let mut honest: Vec<_> = (0..HONEST)
        .map(|number| lab.child("sender", number))
        .collect();
    let mut hostile: Vec<_> = (0..2)
        .map(|number| lab.child("scribbler", number))
        .collect();
    hostile.push(lab.child("knocker", 0));
    let (seen, counts) = thread::scope(|scope| {
        let accepting = [0; 3].map(|_| scope.spawn(|| accept(&hub, &listener, &is_over)));
        let receiving = [0; 2].map(|_| scope.spawn(|| receive(&hub)));
        stop_and_go(&[&honest[HONEST as usize - 1], &hostile[0]]);
        for child in honest.iter_mut().chain(&mut hostile) {
            child.ends_well();
        }
        // The last messages of the senders still have to be received.
        while promptly(|| hub.stats())
            .iter()
            .any(|lane| lane.queued_bytes > 0)
        {
            thread::yield_now();
        }
        is_over.store(true, Relaxed);
        let mut counts = [0, 0];
        for thread in accepting {
            let [refused, accepted] = thread.join().unwrap();
            counts = [counts[0] + refused, counts[1] + accepted];
        }
        hub.close();
        let mut seen = Seen::default();
        for thread in receiving {
            seen.add(thread.join().unwrap());
        }
        (seen, counts)
    });
    eprintln!("refused and accepted: {counts:?}; {seen:?}");
    for (number, received) in seen.messages.iter().enumerate() {
        assert_eq!(
            *received,
            lab.told_by("sender", number as u64),
            "sender {number}"
        );
        assert!(*received > 0);
    }
    for end in ["Position", "Len", "Number", "Noise", "Descriptors"] {
        assert!(seen.ends.contains_key(end), "no lane ended by {end}");
    }
    assert!(counts[0] > 0 && seen.foreign > 0);
    drop((hub, listener));
    before.come_back();
}

/// Stops processes and lets them continue, one after another, until the time is up.
fn stop_and_go(children: &[&Mortal]) {
    let end = Instant::now() + seconds();
    let mut dice = Dice(7);
    while Instant::now() < end {
        for child in children {
            child.signal(libc::SIGSTOP);
            thread::sleep(Duration::from_millis(dice.below(60)));
            child.signal(libc::SIGCONT);
            thread::sleep(Duration::from_millis(dice.below(20)));
        }
    }
}

#[test]
fn hostile_hubs_cost_a_sender_errors_and_time_limits() {
    let _alone = lab::alone(seconds());
    let before = Descriptors::now();
    let lab = Lab::new("hubs");
    let mut hub = lab.child("hub", 0);
    let mut ends = BTreeMap::new();
    let mut count = |end: String| *ends.entry(end).or_insert(0_u64) += 1;
    let mut dice = Dice(3);
    while !hub.has_ended() {
        let Ok(socket) = UnixStream::connect(lab.socket()) else {
            thread::sleep(Duration::from_millis(1)); // the hub has not started yet, or its backlog is full
            continue;
        };
        let attached = promptly(|| Sender::attach_timeout(socket, 1 << 14, LIMIT));
        let Ok(mut sender) = attached else {
            count("refused".to_owned());
            continue;
        };
        for _ in 0..2000 {
            let message = vec![7; dice.below(2000)];
            match promptly(|| sender.send_timeout(&message, LIMIT)) {
                Ok(()) => {}
                Err(SendError::TimedOut) => {
                    count("timed out".to_owned());
                    break;
                }
                Err(SendError::Ended(ending)) => {
                    count(format!("{ending:?}"));
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    hub.ends_well();
    eprintln!("{ends:?}");
    for end in ["refused", "timed out", "Broken(Position)", "Broken(Noise)"] {
        assert!(ends.contains_key(end), "no sender saw {end}");
    }
    before.come_back();
}

/// Makes all calls that a queue has, with time limits, until the time is up. The test is that they return.
fn use_shared(queue: &Shared) -> BTreeMap<String, u64> {
    let (sender, receiver) = (queue.sender(), queue.receiver());
    let (mut seen, mut bytes, begun) = (BTreeMap::new(), 0, Instant::now());
    let mut count = |end: String| *seen.entry(end).or_insert(0_u64) += 1;
    while begun.elapsed() < seconds() {
        let messages = [&[1; 100][..], &[2; 3000], &[]];
        match promptly(|| {
            sender.send_timeout(messages[begun.elapsed().as_nanos() as usize % 3], SOON)
        }) {
            Ok(()) => count("sent".to_owned()),
            Err(error) => count(format!("send: {error}")),
        }
        let _ = promptly(|| sender.try_send_burst(&messages));
        match promptly(|| receiver.take_burst_timeout(100, SOON)) {
            Ok(burst) => {
                // All bytes must be readable, whatever the header claims.
                bytes += burst
                    .iter()
                    .map(|(_, message)| message.to_vec().len())
                    .sum::<usize>();
                count("received".to_owned());
            }
            Err(error) => count(format!("receive: {error}")),
        }
        let _ = promptly(|| receiver.recv_timeout(&mut [0; 10], SOON));
        let _ = promptly(|| receiver.stats_timeout(SOON));
    }
    eprintln!("{bytes} bytes; {seen:?}");
    seen
}

#[test]
fn a_process_that_overwrites_a_shared_queue_costs_errors_and_time_limits() {
    let _alone = lab::alone(seconds());
    let lab = Lab::new("vandal");
    let name = format!("vandal-{}", std::process::id());
    let config = shared::SharedQueueConfig {
        capacity_bytes: 4096,
        ..shared::SharedQueueConfig::default()
    };
    let queue = shared::create(&name, &config).unwrap();
    let mut vandal = lab.child_with("vandal", 0, "FOREBAY_QUEUE", &name);
    let seen = thread::scope(|scope| {
        let threads = [0; 2].map(|_| scope.spawn(|| use_shared(&queue)));
        threads.map(|thread| thread.join().unwrap())
    });
    vandal.ends_well();
    shared::remove(&name).unwrap();
    let broken = seen
        .iter()
        .flat_map(BTreeMap::keys)
        .any(|end| end.contains("overwritten"));
    assert!(broken, "{seen:?}");
}

/// Runs a child. It is a test only so that the program can be run as a child.
#[test]
#[ignore = "it is what the other tests run as a child"]
fn child() {
    children::run();
}
