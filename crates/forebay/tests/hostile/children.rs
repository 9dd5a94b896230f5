//! The behaviour of the child processes, until their time is up.

use crate::{
    by_hand::{self, Paper},
    lab::Lab,
};
use forebay::queue::lanes::{SendError, Sender};
use forebay_testing::dice::Dice;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::{
    env,
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
        unix::net::{UnixListener, UnixStream},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a test runs.
pub fn seconds() -> Duration {
    let told = env::var("FOREBAY_HOSTILE_SECONDS").ok();
    Duration::from_secs_f64(told.map_or(1.0, |told| told.parse().unwrap()))
}

/// Number of ways in which hostile senders and hubs misbehave.
const WAYS: u64 = 10;
const WAYS_OF_HUBS: u64 = 9;

/// The first bytes of an honest message. A hostile sender does not send these by chance.
const HONEST: [u8; 8] = *b"honestly";

/// The contents of a message of an honest sender.
#[derive(Debug)]
pub struct Honest {
    pub sender: u64,
    pub number: u64,
}

impl Honest {
    pub fn of(bytes: &[u8]) -> Option<Honest> {
        let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        bytes.starts_with(&HONEST).then_some(())?;
        Some(Honest {
            sender: word(8)?,
            number: word(16)?,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let len = 24 + (self.number * 37 + self.sender * 11) % 700;
        let mut bytes = HONEST.to_vec();
        bytes.extend(self.sender.to_ne_bytes());
        bytes.extend(self.number.to_ne_bytes());
        bytes.resize(len as usize, self.sender as u8 ^ self.number as u8);
        bytes
    }

    pub fn check(&self, bytes: &[u8]) {
        assert_eq!(bytes, self.bytes());
    }
}

/// Runs a child process.
pub fn run() {
    let Ok(role) = env::var("FOREBAY_ROLE") else {
        return;
    };
    let number: u64 = env::var("FOREBAY_NUMBER").unwrap().parse().unwrap();
    let child = ChildOf {
        lab: Lab::of_child(),
        number,
        end: Instant::now() + seconds(),
        dice: Dice(number + 100),
    };
    match role.as_str() {
        "sender" => child.sends(),
        "scribbler" => child.scribbles(),
        "knocker" => child.knocks(),
        "hub" => child.accepts_badly(),
        "vandal" => child.overwrites(),
        _ => panic!("{role}"),
    }
}

struct ChildOf {
    lab: Lab,
    number: u64,
    end: Instant,
    dice: Dice,
}

impl ChildOf {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.lab.socket()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
    }

    /// Sends messages that can be checked, as fast as possible.
    fn sends(self) {
        // The hub's time limit for accepting is short, and this process may be stopped meanwhile.
        let mut sender = loop {
            match Sender::attach_timeout(self.connect(), 1 << 14, Duration::from_secs(10)) {
                Ok(sender) => break sender,
                Err(error) => assert!(!self.is_over(), "{error}"),
            }
        };
        let mut number = 0;
        while !self.is_over() {
            let message = Honest {
                sender: self.number,
                number,
            };
            match sender.send_timeout(message.bytes(), Duration::from_millis(50)) {
                Ok(()) => number += 1,
                Err(SendError::TimedOut) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.lab.tell("sender", self.number, number);
    }

    /// Attaches lanes and corrupts them in one way after another, each way at least a few times.
    fn scribbles(mut self) {
        let mut lanes = 0;
        while !self.is_over() || lanes < 3 * WAYS {
            let bytes = 4096 << self.dice.below(6); // some messages are longer than the hub's buffer
            let Some(mut paper) = Paper::attach(self.connect(), bytes) else {
                continue; // the hub is full, or this process was stopped for too long
            };
            for _ in 0..self.dice.below(100) {
                let _ = paper.send(self.dice.below(200)); // it begins like an honest sender
            }
            for deed in 0..500 {
                self.spoil(&mut paper, lanes % WAYS);
                let is_awake = deed > 0 || by_hand::ring(&paper.socket, 1);
                if !is_awake || by_hand::is_gone(&paper.socket) {
                    break;
                }
            }
            lanes += 1;
        }
    }

    /// Misbehaves once.
    fn spoil(&mut self, paper: &mut Paper, way: u64) {
        let dice = &mut self.dice;
        match way {
            0 => {
                for _ in 0..dice.below(1000) {
                    paper.mine.write(dice.any() as usize, nasty(dice));
                }
            }
            1 => paper.mine.write(by_hand::POSITION, nasty(dice)),
            2 => paper.mine.write(by_hand::RINGS, nasty(dice)), // the hub rings all the time
            3 => {
                let word = by_hand::FRONT + dice.below(8);
                paper.mine.write(word, nasty(dice));
                let tail = paper.tail + dice.below(9);
                paper.mine.write(by_hand::POSITION, tail);
            }
            4 => drop(by_hand::ring(&paper.socket, 1 + dice.below(100))),
            5 => {
                let some = [paper.socket.as_fd(); 5];
                let some = &some[..dice.below(6)];
                match dice.below(2) {
                    0 => by_hand::send(&paper.socket, &[1], some),
                    _ => by_hand::send_urgently(&paper.socket, &[1], some),
                };
            }
            6 => {
                by_hand::cannot_change(&paper.mine);
                by_hand::cannot_change(&paper.theirs);
                paper.mine.write(dice.any() as usize, dice.any());
            }
            7 => {
                // The bytes change while they are read; the positions are correct.
                let _ = paper.send(dice.below(90_000));
                for _ in 0..1000 {
                    let word = by_hand::FRONT + 1 + dice.below(100);
                    paper.mine.write(word, nasty(dice));
                }
            }
            8 => paper.send_header((1 << 20) + (dice.any() >> 33), paper.sent),
            _ => paper.send_header(0, paper.sent + 1 + dice.below(1 << 31)),
        }
    }

    /// Greets the hub with all kinds of invalid greetings.
    fn knocks(mut self) {
        let mut silent = Vec::new();
        while !self.is_over() {
            let socket = self.connect();
            let dice = &mut self.dice;
            let page = by_hand::PAGE;
            let note = by_hand::note(1, page as u64);
            let fitting = by_hand::memory(page, MemfdFlags::empty(), by_hand::SEALS);
            let fitting = fitting.unwrap();
            let junk: Vec<u8> = (0..dice.below(100)).map(|_| dice.byte()).collect();
            if dice.below(8) == 0 {
                by_hand::send_urgently(&socket, &[1], &[fitting.as_fd()]);
            }
            match dice.below(10) {
                0 => silent.push(socket),
                1 => drop(by_hand::send(&socket, &junk, &[])),
                2 => drop(by_hand::send(&socket, &note[..dice.below(24)], &[])),
                3 => {
                    let Some(len) = [page / 2, 3 * page, 0].get(dice.below(4)).copied() else {
                        continue;
                    };
                    let note = by_hand::note(1, len as u64);
                    by_hand::send(&socket, &note, &[fitting.as_fd()]);
                }
                4 => {
                    let note = by_hand::note(dice.any() as u32, nasty(dice));
                    by_hand::send(&socket, &note, &[fitting.as_fd()]);
                }
                5 => {
                    let many = vec![fitting.as_fd(); 2 + dice.below(200)];
                    by_hand::send(&socket, &note, &many);
                }
                6 => {
                    let wrong = wrong_descriptor(dice);
                    by_hand::send(&socket, &note, &[wrong.as_fd()]);
                }
                7 => {
                    // Not sealed, or not completely; then it shrinks while the hub checks it.
                    let seals = SealFlags::from_bits_truncate(dice.below(32) as u32);
                    if seals.contains(by_hand::SEALS) {
                        continue;
                    }
                    let weak = by_hand::memory(page, MemfdFlags::empty(), seals).unwrap();
                    by_hand::send(&socket, &note, &[weak.as_fd()]);
                    let holes = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                    let _ = rustix::fs::fallocate(&weak, holes, 0, page as u64);
                    let _ = rustix::fs::ftruncate(&weak, 0);
                }
                8 => {
                    // Sealed, with the right number of blocks, but beyond its end.
                    let hollow = by_hand::hollow_memory(page).unwrap();
                    by_hand::send(&socket, &note, &[hollow.as_fd()]);
                    // If the hub accepted the lane, it would answer with a receipt.
                    assert!(!by_hand::gets_a_receipt(&socket));
                }
                _ => {
                    // A correct greeting, followed by more bytes before the answer.
                    by_hand::send(&socket, &note, &[fitting.as_fd()]);
                    by_hand::send(&socket, &junk, &[]);
                }
            }
            if silent.len() > 5 {
                silent.clear();
            }
        }
    }

    /// Overwrites the words and messages of a shared queue.
    fn overwrites(mut self) {
        let name = env::var("FOREBAY_QUEUE").unwrap();
        let file = File::options()
            .write(true)
            .open(format!("/dev/shm/forebay.{name}"))
            .unwrap();
        while !self.is_over() {
            let dice = &mut self.dice;
            // The first page has the words, after 128 bytes that are not read again; the second one has messages.
            let word = 128 + 8 * dice.below(2 * 4096_u64 / 8 - 16);
            let value = match dice.below(3) {
                0 => nasty(dice),
                1 => dice.below(8192),
                _ => dice.below(1024) * 8,
            };
            file.write_all_at(&value.to_ne_bytes(), word).unwrap();
            if dice.below(50) == 0 {
                thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Runs a hub that breaks the protocol.
    fn accepts_badly(mut self) {
        let listener = UnixListener::bind(self.lab.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut silent = Vec::new();
        let mut accepted = 0;
        while !self.is_over() || accepted < 3 * WAYS_OF_HUBS {
            let Ok((socket, _)) = listener.accept() else {
                thread::sleep(Duration::from_micros(100));
                continue;
            };
            socket.set_nonblocking(false).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            let dice = &mut self.dice;
            let note = by_hand::note(2, by_hand::PAGE as u64);
            accepted += 1;
            match accepted % WAYS_OF_HUBS {
                0 => silent.push(socket),
                1 => drop((&socket).write(b"HTTP/1.0 400 Bad Request\r\n\r\n")),
                2 => {
                    let wrong = wrong_descriptor(dice);
                    by_hand::send(&socket, &note, &[wrong.as_fd()]);
                    silent.push(socket);
                }
                3 => {
                    let note = by_hand::note(dice.below(7) as u32, nasty(dice));
                    by_hand::send(&socket, &note, &[]);
                    silent.push(socket);
                }
                way => {
                    if let Some(paper) = Paper::accept(socket) {
                        by_hand::cannot_change(&paper.theirs);
                        self.spoil_receipt(&paper, way);
                    }
                }
            }
            if silent.len() > 5 {
                silent.clear();
            }
        }
    }

    /// Overwrites a receipt until the sender gives up.
    fn spoil_receipt(&mut self, paper: &Paper, way: u64) {
        let begun = Instant::now();
        // A sender that finds no room gives up after 50 ms.
        while begun.elapsed() < Duration::from_millis(200) && !by_hand::is_gone(&paper.socket) {
            let dice = &mut self.dice;
            match way {
                4 => paper.mine.write(dice.any() as usize, nasty(dice)),
                5 => paper.mine.write(by_hand::RINGS, dice.any()),
                6 => drop(by_hand::ring(&paper.socket, 1 + dice.below(50))),
                7 => {} // it does nothing at all
                _ => paper.mine.write(by_hand::POSITION, dice.below(1 << 20)),
            }
            thread::yield_now();
        }
    }
}

/// A random number that is often near a boundary.
fn nasty(dice: &mut Dice) -> u64 {
    match dice.below(4) {
        0 => dice.any(),
        1 => dice.below(64),
        2 => u64::MAX - dice.below(64),
        _ => (1 << dice.below(64)) - dice.below(2),
    }
}

/// A descriptor that is not memory, or wrong memory.
fn wrong_descriptor(dice: &mut Dice) -> OwnedFd {
    match dice.below(6) {
        0 => File::open("/dev/null").unwrap().into(),
        1 => File::open(env::current_exe().unwrap()).unwrap().into(),
        2 => rustix::pipe::pipe().unwrap().0,
        3 => File::open("/proc/self/maps").unwrap().into(),
        4 => UnixStream::pair().unwrap().0.into(),
        _ => {
            let huge = by_hand::memory(1 << 21, MemfdFlags::HUGETLB, by_hand::SEALS);
            huge.unwrap_or_else(|_| File::open("/").unwrap().into())
        }
    }
}
