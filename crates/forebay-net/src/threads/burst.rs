//! The packets that a session takes, one by one or as a run.

use super::order::Merging;
use crate::port::{EncodedRun, EncodedRuns, Frame, Frames, Handover, LATE_COMMENT, Marks};
use forebay::store::Loan;
use std::cell::Cell;

/// The burst that is being handed out.
#[derive(Default)]
pub(super) struct Bursting {
    pub merging: Merging,
    pub next: usize,
    /// The end of the budget.
    pub end: usize,
    /// The length of the run that was offered last.
    offered: Cell<usize>,
}

impl Bursting {
    /// Whether every packet of it is taken.
    pub fn is_done(&self) -> bool {
        self.next == self.merging.packets.len()
    }
}

impl Frames for Bursting {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        let packet = self.merging.packets[..self.end].get(self.next)?;
        self.next += 1;
        let begin = packet.at as usize + 28; // after the block's header
        let mut frame = Frame {
            data: &self.merging.bytes[begin..begin + packet.caplen as usize],
            wire_len: packet.wire_len,
            time_ns: packet.time_ns,
            direction: packet.direction,
            dropped_before: packet.dropped_before,
            ..Frame::default()
        };
        if packet.is_late {
            (frame.options, frame.marks) = (&LATE_COMMENT, Marks::LATE);
        }
        Some(frame)
    }

    fn put_back(&mut self) {
        self.next = self.next.saturating_sub(1);
        self.end = self.next;
    }

    fn encoded_runs(&mut self) -> Option<&mut dyn EncodedRuns> {
        Some(self)
    }

    fn release(&mut self) {
        self.end = self.next;
    }
}

impl EncodedRuns for Bursting {
    fn next_run(&self, max_frames: usize, handover: Handover) -> Option<EncodedRun<'_>> {
        let left = self.merging.packets.get(self.next..self.end)?;
        let packets = &left[..left.len().min(max_frames)];
        let (first, last) = (packets.first()?, packets.last()?);
        if handover == Handover::Lend || !first.is_plain() {
            return None;
        }
        self.offered.set(packets.len());
        Some(EncodedRun {
            bytes: &self.merging.bytes[first.at as usize..(last.at + last.len) as usize],
            frames: packets.len(),
            interface: 0,
            time_ns: first.time_ns,
            wire_bytes: packets.iter().map(|it| u64::from(it.wire_len)).sum(),
            cut: packets.iter().filter(|it| it.caplen < it.wire_len).count() as u64,
            longest: packets.iter().map(|it| it.caplen).max().unwrap_or(0),
        })
    }

    fn take_run(&mut self, handover: Handover) -> Option<Loan> {
        if handover == Handover::Copy {
            let left = self.end - self.next;
            self.next += self.offered.take().min(left);
        }
        None
    }
}
