//! The side that the session sees: batch after batch, in the order of the file.
//!
//! ```text
//!  look:        is there a packet in this batch? ─▶ hear the news and tales before it
//!               otherwise give it back, and take the next worker's
//!  next_frame:  the next one that passes, up to the next news or tale, or to where a run begins
//!  next_run:    the run that a burst begins with
//!  next_loan:   the whole batch, if it is one run and large
//! ```
//! Packets are counted as they are handed out: `received` is the place of the last one among all
//! packets, so a session that stops there has counted what was rejected before it and no more.

use super::{
    ParallelFile,
    batch::{Ending, Run as BatchRun, Told},
    worker_queue::WorkerQueue,
};
use crate::file::{READING_ON, torn, zeros};
use crate::format::read::up_to_there;
use crate::port::{
    Block, Burst, Counts, Frame, Frames, Interface, Port, PortInfo, Run, Statistics, Wake,
};
use forebay::{Error, Result, store::Loan};

/// Batches of a look that finds no packet, before others get their turn.
const MAX_BATCHES: usize = 64;

/// What a look found.
#[derive(PartialEq, Eq)]
enum Look {
    Frame,
    /// The next batch has not come.
    NotNow,
    /// Only batches without packets so far, there may be more.
    Again,
    /// The file breaks off here, for the reason in `failure`.
    Failed,
    End,
}

impl ParallelFile {
    /// Makes sure that the next packet is there to be handed out, if that can be had.
    fn look(&mut self) -> Look {
        if self.failure.is_some() {
            return Look::Failed;
        }
        if self.is_over {
            return Look::End;
        }
        if let Some(start) = self.start.take()
            && let Err(error) = self.employ(start)
        {
            self.failure = Some(error);
            return Look::Failed;
        }
        for _ in 0..MAX_BATCHES {
            if let Some(ordinal) = self.batch.ordinal(self.next) {
                if ordinal >= self.attention {
                    self.hear(ordinal);
                }
                return Look::Frame;
            }
            self.hear(u32::MAX);
            self.received = self.base + u64::from(self.batch.packets);
            if let Some(ending) = self.batch.ending.take() {
                return self.end(ending);
            }
            if !self.turn_over() {
                return match self.failure {
                    Some(_) => Look::Failed,
                    None => Look::NotNow,
                };
            }
        }
        Look::Again
    }

    /// Gives the batch back and takes the next one; `false`: it is not there.
    fn turn_over(&mut self) -> bool {
        if let Some(owner) = self.owner.take() {
            self.base += u64::from(self.batch.packets);
            let batch = std::mem::take(&mut self.batch);
            self.next = 0;
            let is_light = batch.memory() <= self.most_light;
            self.workers[owner].give_back(batch, is_light);
        }
        let mut may_come = false;
        for (number, hand) in self.workers.iter_mut().enumerate() {
            match hand.take(self.turn) {
                Ok(batch) => {
                    self.batch = batch;
                    self.owner = Some(number);
                    self.turn += 1;
                    break;
                }
                Err(it_may) => may_come |= it_may,
            }
        }
        if self.owner.is_none() {
            // Before anybody sleeps: what they wait for may be here.
            self.workers.iter_mut().for_each(WorkerQueue::hand_over);
            if !may_come {
                let what = up_to_there("a thread that read it is gone", self.received);
                self.failure = Some(Error::new(self.name.clone(), what));
            }
            return false;
        }
        (self.next, self.next_run, self.next_news, self.next_tale) = (0, 0, 0, 0);
        self.at = self.batch.plain.bytes.start as usize;
        self.note_attention();
        true
    }

    /// Takes note of everything that comes before the packet with this ordinal.
    #[cold]
    fn hear(&mut self, ordinal: u32) {
        while let Some(news) = self.batch.news.get(self.next_news)
            && news.before <= ordinal
        {
            self.next_news += 1;
            match &news.what {
                Told::Interface(interface) => {
                    self.interfaces.push(interface.clone());
                    self.recorded.push(None);
                    self.owed.push(0);
                }
                Told::Statistics(interface, counts) => {
                    self.recorded[*interface as usize] = Some(*counts);
                }
                Told::Block(block) => self.blocks.push(block.clone()),
            }
        }
        while let Some(tale) = self.batch.tales.get(self.next_tale)
            && tale.ordinal < ordinal
        {
            self.next_tale += 1;
            let owed = &mut self.owed[tale.interface as usize];
            *owed = owed.saturating_add(tale.dropped);
            self.owes = true;
        }
        self.note_attention();
    }

    fn note_attention(&mut self) {
        let news = self.batch.news.get(self.next_news).map(|news| news.before);
        let tale = self.batch.tales.get(self.next_tale);
        let tale = tale.map(|tale| tale.ordinal);
        let next = self.next as u32;
        while let Some(run) = self.batch.runs.get(self.next_run)
            && run.first < next
        {
            self.next_run += 1;
        }
        let mut runs = self.batch.runs.iter().skip(self.next_run);
        let run = runs.find(|run| run.first > next);
        let run = run.and_then(|run| self.batch.ordinal(run.first as usize));
        let first = news.into_iter().chain(tale).chain(run).min();
        self.attention = first.unwrap_or(u32::MAX);
    }

    /// A run of the batch, which begins with the next packet.
    fn shown(&self, run: &BatchRun) -> Run<'_> {
        Run {
            bytes: &self.batch.bytes[run.begin as usize..run.end as usize],
            frames: run.frames as usize,
            interface: run.interface,
            time_ns: run.time_ns,
            wire_bytes: run.wire_bytes,
            longest: run.longest,
        }
    }

    /// Counts the next packets, all at once.
    fn hand_out(&mut self, frames: usize) {
        self.next += frames;
        self.handed_out += frames as u64;
        self.told_for_others = 0;
        if let Some(last) = self.batch.ordinal(self.next - 1) {
            self.received = self.base + u64::from(last) + 1;
        }
    }

    #[cold]
    fn end(&mut self, ending: Ending) -> Look {
        self.dismiss();
        let packets = self.received;
        let (what, cause) = match ending {
            Ending::End => {
                self.is_over = true;
                return Look::End;
            }
            Ending::Fault(fault, offset) => (fault.tell(offset, packets), None),
            Ending::Zeros(offset) => (up_to_there(&zeros(offset), packets), None),
            Ending::Torn(unit, offset) => (up_to_there(&torn(unit, offset), packets), None),
            Ending::System(e) => (up_to_there(READING_ON, packets), Some(e)),
        };
        let error = Error::new(self.name.clone(), what);
        self.failure = Some(match cause {
            Some(cause) => error.because(cause),
            None => error,
        });
        Look::Failed
    }

    /// What a frame of `interface` tells on behalf of those that were rejected.
    #[cold]
    fn tell_for_others(&mut self, interface: u32) {
        self.told_for_others = std::mem::take(&mut self.owed[interface as usize]);
        self.owes = self.owed.iter().any(|&owed| owed > 0);
    }
}

impl Frames for ParallelFile {
    #[inline]
    fn next_frame(&mut self) -> Option<Frame<'_>> {
        let ordinal = self.batch.ordinal(self.next)?;
        // A burst has only frames of interfaces that were there when it began.
        if self.left == 0 || ordinal >= self.attention {
            self.left = 0;
            return None;
        }
        self.left -= 1;
        self.handed_out += 1;
        self.received = self.base + u64::from(ordinal) + 1;
        self.told_for_others = 0;
        if self.owes {
            let (frame, _) = self.batch.frame(self.next, self.at);
            let interface = frame.interface;
            self.tell_for_others(interface);
        }
        let (frame, len) = self.batch.frame(self.next, self.at);
        (self.last_at, self.at) = (self.at, self.at + len);
        self.next += 1;
        Some(Frame {
            dropped_before: frame.dropped_before.saturating_add(self.told_for_others),
            ..frame
        })
    }

    fn next_run(&self, most: usize) -> Option<Run<'_>> {
        let run = self.batch.runs.get(self.next_run)?;
        let frames = run.frames as usize;
        let last = self.batch.ordinal(self.next + frames - 1)?;
        let is_next = run.first as usize == self.next && !self.owes;
        if !is_next || frames > self.left.min(most) || last >= self.attention {
            return None;
        }
        Some(self.shown(run))
    }

    fn take_run(&mut self) {
        let Some(run) = self.batch.runs.get(self.next_run) else {
            return;
        };
        let frames = run.frames as usize;
        self.left -= frames;
        self.at = run.end as usize;
        self.hand_out(frames);
    }

    fn next_loan(&self, most: usize) -> Option<Run<'_>> {
        let bytes = &self.batch.plain.bytes;
        let is_whole = self.next == 0 && self.left > 0 && !self.owes;
        if !is_whole || ((bytes.end - bytes.start) as usize) < self.least_loan {
            return None;
        }
        let run = self.batch.plain.whole(&self.batch.runs)?;
        (run.frames as usize <= most).then(|| self.shown(&run))
    }

    fn take_loan(&mut self) -> Option<Loan> {
        self.next_loan(usize::MAX)?;
        let bytes = &self.batch.plain.bytes;
        let range = bytes.start as usize..bytes.end as usize;
        self.next_run = self.batch.runs.len();
        self.left = 0;
        self.hand_out(self.batch.plain.ordinals.len());
        let memory = std::mem::take(&mut self.batch.bytes);
        Some(self.shelf.lend(memory, range))
    }

    fn take_blocks(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.offered)
    }

    fn put_back(&mut self) {
        self.next -= 1;
        self.at = self.last_at;
        self.received -= 1;
        self.handed_out -= 1;
        self.left = 0;
        if self.told_for_others > 0 {
            let (frame, _) = self.batch.frame(self.next, self.at);
            let interface = frame.interface;
            self.owed[interface as usize] = self.told_for_others;
            self.owes = true;
        }
    }

    fn release(&mut self) {
        self.left = 0;
        self.offered.clear();
    }
}

impl Port for ParallelFile {
    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// One look. A file that breaks off says so once everything before was taken, and once only.
    fn receive(&mut self, budget: usize) -> Result<Burst<'_>> {
        self.left = match self.look() {
            Look::Frame => budget,
            _ => 0,
        };
        // Blocks before the place where it breaks off come first, and the error with the next look.
        if self.blocks.is_empty()
            && let Some(error) = self.failure.take()
        {
            self.is_over = true;
            return Err(error);
        }
        self.offered.append(&mut self.blocks);
        Ok(Burst::new(self))
    }

    /// Never an error: that is kept for [`receive`](Port::receive), and `Ready` until then.
    fn arm(&mut self) -> Result<Wake<'_>> {
        let mut found = self.look();
        if found == Look::NotNow {
            self.chime.arm();
            found = self.look();
        }
        Ok(match found {
            Look::Frame | Look::Again | Look::Failed => Wake::Ready,
            _ if !self.blocks.is_empty() => Wake::Ready,
            Look::NotNow => Wake::Fd(self.chime.fd()),
            Look::End => Wake::End,
        })
    }

    fn disarm(&mut self) {
        self.chime.disarm();
    }

    /// The end, at once: what was not handed out or passed over is not received.
    fn stop(&mut self) -> Result<()> {
        self.is_over = true;
        self.failure = None;
        self.blocks.clear();
        self.dismiss();
        Ok(())
    }

    /// What was handed out, and what was rejected before that. A file loses nothing, whatever it records.
    fn counts(&mut self) -> Counts {
        Counts {
            received: self.received,
            dropped: Some(0),
            interface_dropped: Some(0),
            filtered: Some(self.received - self.handed_out),
        }
    }

    fn recorded(&self, interface: u32) -> Option<Statistics> {
        *self.recorded.get(interface as usize)?
    }

    fn info(&self) -> PortInfo {
        PortInfo {
            backend: "file",
            copy: self.copy,
            ring_bytes: 0,
            ring_frames: 0,
            waits: true,
            filters: true,
            in_turn: true,
            reads_ahead: true,
            timestamps: "as recorded",
        }
    }
}
