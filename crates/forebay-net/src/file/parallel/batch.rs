//! What a worker hands over of one window: the packets that pass, and what else the port has to know
//! to tell of the window as if it had read it itself.
//!
//! ```text
//!  packets of the window   0   1   2   3   4   5   6   …       their ordinals
//!  passed                      ●               ●               where each lies in `bytes`
//!  runs                                                        those of them that can be copied together
//!  tales                           ▲                           a rejected one told of a loss
//!  news                                    ▲                   an interface before packet 4
//! ```
//! Ordinals are what makes counts exact wherever the port stops. Batches travel from the worker to
//! the port and back, so little is allocated once they have grown and their number has settled. Read `worker` next.

use super::plain::Plain;
use crate::format::read::{Decoder, Fault};
use crate::port::{Block, Direction, Frame, Interface, Marks, Statistics};
use std::io;

/// A packet that passes. Its bytes are `bytes[begin..][..len]` of the batch.
#[derive(Debug)]
pub(super) struct Passed {
    pub time_ns: u64,
    pub dropped_before: u64,
    pub begin: u32,
    pub len: u32,
    pub wire_len: u32,
    pub interface: u32,
    pub ordinal: u32,
    /// Its record is `bytes[record..record_end]`, as far as that is needed.
    pub record: u32,
    pub record_end: u32,
    /// The output would compose the record just so.
    pub is_as_composed: bool,
    pub direction: Direction,
    pub marks: Marks,
    /// Its options are the last bytes of its record, this many.
    pub options_len: u32,
}

impl Passed {
    #[inline(always)]
    pub fn new(frame: &Frame<'_>, begin: usize, ordinal: u32) -> Self {
        Passed {
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

/// Packets that pass and lie one behind another in `bytes`, as the output would compose them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Which of `passed` is the first, and how many there are.
    pub first: u32,
    pub frames: u32,
    /// Their records are `bytes[begin..end]`.
    pub begin: u32,
    pub end: u32,
    pub interface: u32,
    pub longest: u32,
    pub wire_bytes: u64,
    /// Of the first.
    pub time_ns: u64,
}

/// Fewer packets are not worth a run.
const LEAST_RUN: u32 = 4;
/// What a run may have: not more than a burst, nor than the store composes at once.
pub(super) const MAX_RUN: u32 = 256;
pub(super) const MAX_RUN_BYTES: u32 = 64 << 10;

/// A loss that a rejected packet told of; the next one of its interface that passes tells of it.
#[derive(Debug)]
pub(super) struct Tale {
    pub ordinal: u32,
    pub interface: u32,
    pub dropped: u64,
}

/// What the file says of its interfaces before the packet with this ordinal.
#[derive(Debug)]
pub(super) struct News {
    pub before: u32,
    pub what: Told,
}

#[derive(Debug)]
pub(super) enum Told {
    Interface(Interface),
    Statistics(u32, Statistics),
    /// It belongs into a copy.
    Block(Block),
}

/// Why nothing comes behind a batch.
#[derive(Debug)]
pub(super) enum Ending {
    /// It was the last one.
    End,
    /// The record at this place of the file is broken.
    Fault(Fault, u64),
    /// The record at this place, of this kind, is not all there.
    Torn(&'static str, u64),
    /// From this place of the file on there are zeros in place of packets.
    Zeros(u64),
    /// The system would not read.
    System(io::Error),
}

#[derive(Default)]
pub(super) struct Batch {
    /// Of its window in the file.
    pub window: u64,
    pub bytes: Vec<u8>,
    pub passed: Vec<Passed>,
    /// In the order of `passed`.
    pub runs: Vec<Run>,
    /// Instead of `passed`, where all that pass lie side by side as they were composed.
    pub plain: Plain,
    pub tales: Vec<Tale>,
    pub news: Vec<News>,
    /// Packets in all, rejected ones included.
    pub packets: u32,
    pub ending: Option<Ending>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.passed.clear();
        self.runs.clear();
        self.plain.clear();
        self.tales.clear();
        self.news.clear();
        self.packets = 0;
        self.ending = None;
    }

    /// Takes note of the blocks before the next packet that belong into a copy.
    #[cold]
    pub fn note_blocks(&mut self, decoder: &mut Decoder) {
        let before = self.packets;
        let blocks = decoder.take_blocks().into_iter();
        self.news.extend(blocks.map(|block| News {
            before,
            what: Told::Block(block),
        }));
    }

    /// Bytes that it has for packets, or had before they were lent: what it has once taken it keeps.
    pub fn memory(&self) -> usize {
        self.bytes.len().max(self.plain.bytes.len())
    }

    /// The ordinal of the packet that passes as number `number`.
    #[inline(always)]
    pub fn ordinal(&self, number: usize) -> Option<u32> {
        match self.plain.terms {
            Some(_) => self.plain.ordinals.get(number).copied(),
            None => self.passed.get(number).map(|passed| passed.ordinal),
        }
    }

    /// That packet; in a plain batch the one whose record begins at `at`, and the bytes of the record.
    #[inline(always)]
    pub fn frame(&self, number: usize, at: usize) -> (Frame<'_>, usize) {
        if let Some(terms) = &self.plain.terms {
            let Some(found) = terms.decoder.packet(&self.bytes[at..]) else {
                unreachable!("a decoder says the same of the same bytes");
            };
            return found;
        }
        let passed = &self.passed[number];
        let frame = Frame {
            data: &self.bytes[passed.begin as usize..][..passed.len as usize],
            wire_len: passed.wire_len,
            time_ns: passed.time_ns,
            interface: passed.interface,
            direction: passed.direction,
            dropped_before: passed.dropped_before,
            options: &self.bytes[(passed.record_end - passed.options_len) as usize..]
                [..passed.options_len as usize],
            marks: passed.marks,
        };
        (frame, 0)
    }

    /// Gives the batch the bytes that its packets lie in. Most change places with the window; fewer are copied, so that
    /// the window, which is in this processor's cache, is what is read into next, and the records lie side by side.
    pub fn take_bytes(&mut self, window: &mut Vec<u8>) {
        if self.plain.terms.is_some() {
            let (bytes, runs) = (&mut self.bytes, &mut self.runs);
            return self.plain.take_bytes(bytes, window, runs);
        }
        let of_one = |passed: &Passed| (passed.record_end - passed.record) as usize;
        let many: usize = self.passed.iter().map(of_one).sum();
        if many > window.len() / 4 * 3 {
            std::mem::swap(&mut self.bytes, window);
        } else {
            // It never shrinks: bytes that are not there would have to be zeroed first.
            if self.bytes.len() < many {
                self.bytes.resize(many, 0);
            }
            let mut at = 0;
            for passed in &mut self.passed {
                let record = &window[passed.record as usize..passed.record_end as usize];
                let end = at + record.len();
                self.bytes[at..end].copy_from_slice(record);
                passed.begin = at as u32 + (passed.begin - passed.record);
                (passed.record, passed.record_end) = (at as u32, end as u32);
                at = end;
            }
        }
        self.find_runs();
    }

    fn find_runs(&mut self) {
        let mut last: Option<Run> = None;
        for (number, passed) in self.passed.iter().enumerate() {
            if let Some(run) = &mut last
                && passed.is_as_composed
                && run.end == passed.record
                && run.interface == passed.interface
                && run.frames < MAX_RUN
                && passed.record_end - run.begin <= MAX_RUN_BYTES
            {
                run.frames += 1;
                run.end = passed.record_end;
                run.longest = run.longest.max(passed.len);
                run.wire_bytes += u64::from(passed.wire_len);
                continue;
            }
            let begins = passed.is_as_composed.then(|| Run {
                first: number as u32,
                frames: 1,
                begin: passed.record,
                end: passed.record_end,
                interface: passed.interface,
                longest: passed.len,
                wire_bytes: passed.wire_len.into(),
                time_ns: passed.time_ns,
            });
            let ended = std::mem::replace(&mut last, begins);
            self.runs
                .extend(ended.filter(|run| run.frames >= LEAST_RUN));
        }
        self.runs.extend(last.filter(|run| run.frames >= LEAST_RUN));
    }
}
