//! Reading capture files: the port hands out what other readers find, for every variant of the formats, however the bytes
//! arrive, and wherever the file ends.
//!
//! `oracles` compares with tcpdump and tshark on files of other programs, and `composed` with bytes composed in the test.
//! `streams` reads pipes and compressed files, and `hostile` truncated and garbled ones. `parallel` compares several threads with
//! one, and `copied` what a session then writes. `times` reads the packets of a range of times.

#![allow(missing_docs)] // the helpers of a test

mod blocks;
mod composed;
mod copied;
mod hostile;
mod oracles;
mod parallel;
mod streams;
mod times;

use forebay_net::{
    file::File,
    port::{Direction, Frame, Port, Wake},
};
use proptest::sample::Index;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::MemfdFlags,
};
use std::io::{Seek, Write};

/// A packet that a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub data: Vec<u8>,
    pub wire_len: u32,
    pub time_ns: u64,
    pub link: u16,
    pub interface: u32,
    pub direction: Direction,
    pub dropped_before: u64,
}

impl Packet {
    /// A frame as a packet, except for the link type of its interface.
    pub fn of(frame: &Frame<'_>) -> Self {
        Packet {
            data: frame.data.to_vec(),
            wire_len: frame.wire_len,
            time_ns: frame.time_ns,
            link: 0,
            interface: frame.interface,
            direction: frame.direction,
            dropped_before: frame.dropped_before,
        }
    }
}

/// The result of reading a file to its end.
#[derive(Debug)]
pub struct Reading {
    pub packets: Vec<Packet>,
    pub error: Option<String>,
    /// `None` if it could not be opened.
    pub file: Option<File>,
}

/// Reads like a session, in bursts of `budget`, until the end or an error.
pub fn drain(file: &mut File, budget: usize) -> (Vec<Packet>, Option<String>) {
    let mut packets = Vec::new();
    let received = file.counts().received;
    loop {
        match file.arm().expect("arming a file never fails") {
            Wake::End => return (packets, None),
            Wake::Fd(fd) => {
                poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
            }
            _ => {}
        }
        let before = packets.len();
        let mut failed = None;
        match file.receive(budget) {
            Err(e) => failed = Some(e.to_string()),
            Ok(mut burst) => {
                while let Some(frame) = burst.next_frame() {
                    packets.push(Packet::of(&frame));
                }
            }
        }
        for packet in &mut packets[before..] {
            packet.link = file.interfaces()[packet.interface as usize].link.0;
        }
        assert_eq!(file.counts().received - received, packets.len() as u64);
        if failed.is_some() {
            let is_over = matches!(file.arm(), Ok(Wake::End));
            assert!(is_over, "an error is reported once");
            assert!(file.receive(budget).is_ok());
            return (packets, failed);
        }
    }
}

/// Overwrites some bytes, and possibly an aligned word.
pub fn garble(bytes: &mut [u8], changes: &[(Index, u8)], swap: Option<(Index, u32)>) {
    for (at, value) in changes {
        bytes[at.index(bytes.len())] = *value;
    }
    if let Some((at, word)) = swap {
        let at = at.index(bytes.len() / 4) * 4;
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
}

/// A file with these bytes.
pub fn in_memory(bytes: &[u8]) -> std::fs::File {
    let fd = rustix::fs::memfd_create("capture", MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// Reads a file with these bytes.
pub fn read(bytes: &[u8]) -> Reading {
    open(in_memory(bytes))
}

/// Reads an open file or pipe.
pub fn open(stream: std::fs::File) -> Reading {
    let mut file = File::from_stream(stream, "capture");
    let (packets, error) = match &mut file {
        Ok(file) => drain(file, 7),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Reading {
        packets,
        error,
        file: file.ok(),
    }
}
