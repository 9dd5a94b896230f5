//! The port that the session sees: batch after batch, in file order.
//!
//! ```text
//!  find_packet: is there a packet in this batch? ─▶ apply the events and losses before it
//!               otherwise return the batch, and take the next worker's
//!  next_frame:  the next matching packet, up to the next event or loss, or to the beginning of a run
//!  next_run:    to copy, the run that a burst begins with; to lend, the whole batch if it is one large run
//! ```
//! Packets are counted when they are handed out: `received` is the position of the last one among all packets of the file.
//! Thus a session that stops there has counted exactly the packets that were rejected before it.

use super::{FileMetadata, ParallelFile, batch::Ending};
use crate::file::{Ahead, READING_ON, failure, torn, zeros};
use crate::port::{
    Block, Burst, Counts, EncodedRun, EncodedRuns, Frame, Frames, Handover, Interface, LentMemory,
    Port, PortInfo, PortReport, Wake,
};
use forebay::{Result, store::Loan};
use std::sync::Arc;

/// Batches without a matching packet after which other ports get their turn.
const MAX_BATCHES: usize = 64;

impl ParallelFile {
    /// Makes the next matching packet available, if that is possible now.
    fn find_packet(&mut self) -> Ahead {
        if self.failure.is_some() {
            return Ahead::Failure;
        }
        if self.has_ended {
            return Ahead::End;
        }
        if let Some(start) = self.start.take()
            && let Err(error) = self.workers.start(start, &self.name)
        {
            self.failure = Some(error);
            return Ahead::Failure;
        }
        for _ in 0..MAX_BATCHES {
            let position = &mut self.position;
            if let Some(ordinal) = position.batch.ordinal(position.next) {
                if ordinal >= position.burst_end {
                    position.apply_until(ordinal, &mut self.metadata);
                }
                return Ahead::Packet;
            }
            position.apply_until(u32::MAX, &mut self.metadata);
            self.counters.received = position.before + u64::from(position.batch.packets);
            if let Some(ending) = position.batch.ending.take() {
                return self.end(ending);
            }
            if let Some((worker, batch)) = position.take_batch() {
                self.workers.give_back(worker, batch);
            }
            match self.workers.next() {
                Ok((worker, batch)) => self.position.begin(worker, batch),
                Err(true) => return Ahead::NotNow,
                Err(false) => return self.fail("a thread that read it is gone", None),
            }
        }
        Ahead::NotYet
    }

    /// Counts the next packets of the batch, all at once.
    fn hand_out(&mut self, frames: usize) {
        self.position.next += frames;
        self.position.last_at = None;
        self.counters.handed_out += frames as u64;
        self.counters.reported_losses = 0;
        if let Some(last) = self.position.batch.ordinal(self.position.next - 1) {
            self.counters.received = self.position.before + u64::from(last) + 1;
        }
    }

    #[cold]
    fn end(&mut self, ending: Ending) -> Ahead {
        self.workers.stop();
        let (what, cause) = match ending {
            Ending::End => {
                self.has_ended = true;
                return Ahead::End;
            }
            Ending::Fault(fault, offset) => (fault.at(offset), None),
            Ending::Zeros(offset) => (zeros(offset), None),
            Ending::Torn(unit, offset) => (torn(unit, offset), None),
            Ending::System(e) => (READING_ON.into(), Some(e)),
        };
        self.fail(&what, cause)
    }

    #[cold]
    fn fail(&mut self, what: &str, cause: Option<std::io::Error>) -> Ahead {
        self.failure = Some(failure(&self.name, what, self.counters.received, cause));
        Ahead::Failure
    }

    /// The whole batch as one run, if it can be lent: nothing of it was handed out, and it is large.
    fn whole_batch(&self) -> Option<EncodedRun<'_>> {
        let plain = &self.position.batch.plain;
        let is_untouched = self.position.next == 0 && self.counters.budget > 0;
        let is_large = (plain.bytes.end - plain.bytes.start) as usize >= self.min_loan;
        if !is_untouched || !is_large || self.metadata.has_pending_losses() {
            return None;
        }
        let run = plain.whole(&self.position.batch.runs)?;
        Some(self.position.show(&run))
    }
}

impl Frames for ParallelFile {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        let (position, counters) = (&mut self.position, &mut self.counters);
        let ordinal = position.batch.ordinal(position.next)?;
        // A burst contains only frames of interfaces that existed when it began.
        if counters.budget == 0 || ordinal >= position.burst_end {
            counters.budget = 0;
            return None;
        }
        counters.budget -= 1;
        counters.handed_out += 1;
        counters.received = position.before + u64::from(ordinal) + 1;
        counters.reported_losses = 0;
        if self.metadata.has_pending_losses() {
            let interface = position.frame().0.interface;
            counters.reported_losses = self.metadata.take_losses(interface);
        }
        let (frame, len) = position.batch.frame(position.next, position.at);
        (position.last_at, position.at) = (Some(position.at), position.at + len);
        position.next += 1;
        Some(Frame {
            dropped_before: frame
                .dropped_before
                .saturating_add(counters.reported_losses),
            ..frame
        })
    }

    fn encoded_runs(&mut self) -> Option<&mut dyn EncodedRuns> {
        Some(self)
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.metadata.offered)
    }

    fn put_back(&mut self) {
        let Some(at) = self.position.last_at.take() else {
            return;
        };
        self.position.next -= 1;
        self.position.at = at;
        self.counters.received -= 1;
        self.counters.handed_out -= 1;
        self.counters.budget = 0;
        if self.counters.reported_losses > 0 {
            let interface = self.position.frame().0.interface;
            let losses = self.counters.reported_losses;
            self.metadata.add_loss(interface, losses);
        }
    }

    fn memory(&self) -> Option<&[u8]> {
        Some(&self.position.batch.bytes)
    }

    fn lend(&mut self) -> Option<LentMemory> {
        let position = &mut self.position;
        if position.batch.ordinal(position.next).is_some() {
            return None;
        }
        position.next_run = position.batch.runs.len();
        position.last_at = None;
        let memory = std::mem::take(&mut position.batch.bytes);
        Some(Arc::new(self.workers.buffers.lent(memory)))
    }

    fn release(&mut self) {
        self.counters.budget = 0;
        self.metadata.offered.clear();
    }
}

impl EncodedRuns for ParallelFile {
    fn next_run(&self, max_frames: usize, handover: Handover) -> Option<EncodedRun<'_>> {
        let position = &self.position;
        if handover == Handover::Lend {
            return self.whole_batch().filter(|run| run.frames <= max_frames);
        }
        let run = position.batch.runs.get(position.next_run)?;
        let frames = run.frames as usize;
        let last = position.batch.ordinal(position.next + frames - 1)?;
        let is_next = run.first as usize == position.next && !self.metadata.has_pending_losses();
        if !is_next || frames > self.counters.budget.min(max_frames) || last >= position.burst_end {
            return None;
        }
        Some(position.show(run))
    }

    fn take_run(&mut self, handover: Handover) -> Option<Loan> {
        let run = self.next_run(usize::MAX, handover)?;
        let frames = run.frames;
        match handover {
            Handover::Copy => {
                self.counters.budget -= frames;
                self.position.at = self.position.batch.runs[self.position.next_run].end as usize;
                self.hand_out(frames);
                None
            }
            Handover::Lend => {
                let range = self.position.batch.plain.bytes.clone();
                self.position.next_run = self.position.batch.runs.len();
                self.counters.budget = 0;
                self.hand_out(frames);
                let memory = std::mem::take(&mut self.position.batch.bytes);
                let range = range.start as usize..range.end as usize;
                Some(self.workers.buffers.lend(memory, range))
            }
        }
    }
}

impl Port for ParallelFile {
    fn interfaces(&self) -> &[Interface] {
        &self.metadata.interfaces
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// A fault of the file is reported once, after all packets before it were taken.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.position.last_at = None;
        self.counters.budget = match self.find_packet() {
            Ahead::Packet => budget,
            _ => 0,
        };
        // Blocks before a fault come first, and the error with the next call.
        if self.metadata.blocks.is_empty()
            && let Some(error) = self.failure.take()
        {
            self.has_ended = true;
            return Err(error);
        }
        let FileMetadata {
            blocks, offered, ..
        } = &mut self.metadata;
        offered.append(blocks);
        Ok(Burst::new(self))
    }

    /// Never fails: a fault makes it return `Ready`, and [`receive`](Port::receive) reports it.
    fn arm(&mut self) -> Result<Wake<'_>> {
        let mut found = self.find_packet();
        if found == Ahead::NotNow {
            self.workers.notify.arm();
            found = self.find_packet();
        }
        Ok(match found {
            Ahead::Packet | Ahead::NotYet | Ahead::Failure => Wake::Ready,
            _ if !self.metadata.blocks.is_empty() => Wake::Ready,
            Ahead::NotNow => Wake::Fd(self.workers.notify.fd()),
            Ahead::End => Wake::End,
        })
    }

    fn disarm(&mut self) {
        self.workers.notify.disarm();
    }

    /// Ends the port at once: packets that were neither handed out nor rejected do not count as received.
    fn stop(&mut self) -> Result<()> {
        self.has_ended = true;
        self.failure = None;
        self.metadata.blocks.clear();
        self.workers.stop();
        Ok(())
    }

    /// Packets handed out, and packets rejected before them. A file loses nothing, whatever losses it records.
    fn counts(&mut self) -> Counts {
        Counts {
            received: self.counters.received,
            dropped: Some(0),
            interface_dropped: Some(0),
            filtered: Some(self.counters.received - self.counters.handed_out),
        }
    }

    fn report(&self) -> PortReport<'_> {
        PortReport {
            file_statistics: self.metadata.statistics(),
            reading: self.workers.reading(),
            unreadable: self.metadata.skipped.report(),
            ..PortReport::default()
        }
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "file",
            copy: self.copy,
            waits: true,
            filters: true,
            in_turn: true,
            reads_ahead: true,
            timestamps: "as recorded",
            ..PortInfo::default()
        }
    }
}
