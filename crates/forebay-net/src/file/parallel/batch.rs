//! What a worker hands over for one window: the matching packets, and everything else that the port needs to report the window
//! as if it had read it itself.
//!
//! ```text
//!  packets of the window   0   1   2   3   4   5   6   …       their ordinals
//!  matches                     ●               ●               where each is in `bytes`
//!  runs                                                        matches that can be copied together
//!  losses                          ▲                           a rejected packet recorded a loss
//!  events                                  ▲                   an interface before packet 4
//! ```
//! Ordinals make counts exact wherever the port stops. Batches travel from the worker to the port and back, so little is allocated
//! once they have grown and their number has settled.

use super::{
    plain::Plain,
    run::{BatchRun, MAX_RUN, MAX_RUN_BYTES},
};
use crate::format::read::{Decoder, Fault};
use crate::port::{Block, Direction, Frame, Interface, Marks, Statistics};
use std::io;

/// A matching packet. Its bytes are `bytes[begin..][..len]` of the batch.
#[derive(Debug)]
pub(super) struct Match {
    pub time_ns: u64,
    pub dropped_before: u64,
    pub begin: u32,
    pub len: u32,
    pub wire_len: u32,
    pub interface: u32,
    pub ordinal: u32,
    /// The needed part of its record is `bytes[record..record_end]`.
    pub record: u32,
    pub record_end: u32,
    /// The output would encode the record identically.
    pub is_as_composed: bool,
    pub direction: Direction,
    pub marks: Marks,
    /// Its options are this number of bytes at the end of its record.
    pub options_len: u32,
}

impl Match {
    #[inline(always)]
    pub fn new(frame: &Frame<'_>, begin: usize, ordinal: u32) -> Self {
        Match {
            time_ns: frame.time_ns,
            dropped_before: frame.dropped_before,
            begin: begin as u32,
            len: frame.data.len() as u32,
            wire_len: frame.wire_len,
            interface: frame.interface,
            ordinal,
            record: begin as u32,
            record_end: match frame.options {
                [] => (begin + frame.data.len()) as u32,
                options => {
                    let from_data = options.as_ptr().addr() - frame.data.as_ptr().addr();
                    (begin + from_data + options.len()) as u32
                }
            },
            is_as_composed: false,
            direction: frame.direction,
            marks: frame.marks,
            options_len: frame.options.len() as u32,
        }
    }
}

/// Runs of fewer packets do not save time.
const MIN_RUN: u32 = 4;
/// A loss that a rejected packet recorded. The next matching packet of its interface reports it.
#[derive(Debug)]
pub(super) struct Loss {
    pub ordinal: u32,
    pub interface: u32,
    pub packets: u64,
}

/// What the file contains before the packet with this ordinal.
#[derive(Debug)]
pub(super) struct Event {
    pub before: u32,
    pub kind: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    Interface(Interface),
    Statistics(u32, Statistics),
    /// A block that belongs in a copy.
    Block(Block),
    /// A packet that cannot be read.
    Skipped(String),
}

/// Why no batch follows this one.
#[derive(Debug)]
pub(super) enum Ending {
    End,
    /// The record at this offset is malformed.
    Fault(Fault, u64),
    /// The record at this offset, of this kind, is incomplete.
    Torn(&'static str, u64),
    /// From this offset on the file has zeros in place of packets.
    Zeros(u64),
    System(io::Error),
}

#[derive(Default)]
pub(super) struct Batch {
    pub window: u64,
    /// The offset of the window in the file.
    pub base: u64,
    pub bytes: Vec<u8>,
    pub matches: Vec<Match>,
    /// In the order of `matches`.
    pub runs: Vec<BatchRun>,
    /// Used instead of `matches` for a plain window.
    pub plain: Plain,
    pub losses: Vec<Loss>,
    pub events: Vec<Event>,
    /// All packets of the window, including rejected ones.
    pub packets: u32,
    pub ending: Option<Ending>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.matches.clear();
        self.runs.clear();
        self.plain.clear();
        self.losses.clear();
        self.events.clear();
        self.packets = 0;
        self.ending = None;
    }

    /// Notes an event before the next packet.
    pub fn note(&mut self, kind: EventKind) {
        let before = self.packets;
        self.events.push(Event { before, kind });
    }

    /// Notes the blocks before the next packet that belong in a copy.
    #[cold]
    pub fn note_blocks(&mut self, decoder: &mut Decoder) {
        for block in decoder.take_blocks() {
            self.note(EventKind::Block(block));
        }
    }

    /// Bytes of memory for packets, also if it has been lent meanwhile.
    pub fn memory(&self) -> usize {
        self.bytes.len().max(self.plain.bytes.len())
    }

    /// The ordinal of the matching packet with this number.
    #[inline(always)]
    pub fn ordinal(&self, number: usize) -> Option<u32> {
        match self.plain.state {
            Some(_) => self.plain.ordinals.get(number).copied(),
            None => self.matches.get(number).map(|found| found.ordinal),
        }
    }

    /// The matching packet with this number, and 0. In a plain batch: the packet whose record begins at `at`, and the length of
    /// the record.
    #[inline(always)]
    pub fn frame(&self, number: usize, at: usize) -> (Frame<'_>, usize) {
        if let Some(state) = &self.plain.state {
            let Some(found) = state.decoder.packet(&self.bytes[at..]) else {
                unreachable!("a decoder finds the same packet in the same bytes");
            };
            return found;
        }
        let found = &self.matches[number];
        let frame = Frame {
            data: &self.bytes[found.begin as usize..][..found.len as usize],
            wire_len: found.wire_len,
            time_ns: found.time_ns,
            interface: found.interface,
            direction: found.direction,
            dropped_before: found.dropped_before,
            options: &self.bytes[(found.record_end - found.options_len) as usize..]
                [..found.options_len as usize],
            marks: found.marks,
            ..Frame::default()
        };
        (frame, 0)
    }

    /// Moves the bytes of the matching packets into the batch. If they are most of the window, the two buffers are swapped.
    /// Otherwise the records are copied side by side, and the window, which is still in the cache, takes the next read.
    pub fn take_bytes(&mut self, window: &mut Vec<u8>) {
        if self.plain.state.is_some() {
            let (bytes, runs) = (&mut self.bytes, &mut self.runs);
            return self.plain.take_bytes(bytes, window, runs);
        }
        let record_len = |found: &Match| (found.record_end - found.record) as usize;
        let total: usize = self.matches.iter().map(record_len).sum();
        if total > window.len() / 4 * 3 {
            std::mem::swap(&mut self.bytes, window);
        } else {
            // Never shrunk, because growing again would zero the bytes.
            if self.bytes.len() < total {
                self.bytes.resize(total, 0);
            }
            let mut at = 0;
            for found in &mut self.matches {
                let record = &window[found.record as usize..found.record_end as usize];
                let end = at + record.len();
                self.bytes[at..end].copy_from_slice(record);
                found.begin = at as u32 + (found.begin - found.record);
                (found.record, found.record_end) = (at as u32, end as u32);
                at = end;
            }
        }
        self.find_runs();
    }

    fn find_runs(&mut self) {
        let mut last: Option<BatchRun> = None;
        for (number, found) in self.matches.iter().enumerate() {
            if let Some(run) = &mut last
                && found.is_as_composed
                && run.end == found.record
                && run.interface == found.interface
                && run.frames < MAX_RUN
                && found.record_end - run.begin <= MAX_RUN_BYTES
            {
                run.frames += 1;
                run.end = found.record_end;
                run.longest = run.longest.max(found.len);
                run.wire_bytes += u64::from(found.wire_len);
                run.cut += u32::from(found.len < found.wire_len);
                continue;
            }
            let begins = found.is_as_composed.then(|| BatchRun {
                first: number as u32,
                frames: 1,
                begin: found.record,
                end: found.record_end,
                interface: found.interface,
                longest: found.len,
                wire_bytes: found.wire_len.into(),
                cut: u32::from(found.len < found.wire_len),
                time_ns: found.time_ns,
            });
            let ended = std::mem::replace(&mut last, begins);
            self.runs.extend(ended.filter(|run| run.frames >= MIN_RUN));
        }
        self.runs.extend(last.filter(|run| run.frames >= MIN_RUN));
    }
}
