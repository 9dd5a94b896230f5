//! The batch that the port is reading, and the position in it.

use super::{batch::Batch, metadata::FileMetadata, run::BatchRun};
use crate::port::{EncodedRun, Frame};

/// By default: in an empty batch, before the first one of the file.
#[derive(Default)]
pub(super) struct Position {
    pub batch: Batch,
    /// The worker to which the batch returns.
    worker: Option<usize>,
    /// Packets in the file before this batch.
    pub before: u64,
    /// The next of the batch's packets, runs, events and losses.
    pub next: usize,
    pub next_run: usize,
    next_event: usize,
    next_loss: usize,
    /// In a plain batch: where the records of the next packet and of the last one begin. `None`: there is none to put back.
    pub at: usize,
    pub last_at: Option<usize>,
    /// Bursts end before this ordinal: an event or a loss has to be applied first, or a run begins with it.
    pub burst_end: u32,
}

impl Position {
    /// Before the first batch, after this number of packets.
    pub fn after(packets: u64) -> Self {
        Position {
            before: packets,
            burst_end: u32::MAX,
            ..Position::default()
        }
    }

    /// Ends the batch. Returns it, and the number of its worker.
    pub fn take_batch(&mut self) -> Option<(usize, Batch)> {
        let worker = self.worker.take()?;
        self.before += u64::from(self.batch.packets);
        self.next = 0;
        Some((worker, std::mem::take(&mut self.batch)))
    }

    pub fn begin(&mut self, worker: usize, batch: Batch) {
        (self.next, self.next_run, self.next_event, self.next_loss) = (0, 0, 0, 0);
        self.at = batch.plain.bytes.start as usize;
        (self.batch, self.worker) = (batch, Some(worker));
        self.find_burst_end();
    }

    /// Applies all events and losses that precede the packet with this ordinal.
    #[cold]
    pub fn apply_until(&mut self, ordinal: u32, metadata: &mut FileMetadata) {
        while let Some(event) = self.batch.events.get(self.next_event)
            && event.before <= ordinal
        {
            self.next_event += 1;
            metadata.apply(&event.kind);
        }
        while let Some(loss) = self.batch.losses.get(self.next_loss)
            && loss.ordinal < ordinal
        {
            self.next_loss += 1;
            metadata.add_loss(loss.interface, loss.packets);
        }
        self.find_burst_end();
    }

    fn find_burst_end(&mut self) {
        let event = self.batch.events.get(self.next_event);
        let event = event.map(|event| event.before);
        let loss = self.batch.losses.get(self.next_loss);
        let loss = loss.map(|loss| loss.ordinal);
        let next = self.next as u32;
        while let Some(run) = self.batch.runs.get(self.next_run)
            && run.first < next
        {
            self.next_run += 1;
        }
        let mut runs = self.batch.runs.iter().skip(self.next_run);
        let run = runs.find(|run| run.first > next);
        let run = run.and_then(|run| self.batch.ordinal(run.first as usize));
        let first = event.into_iter().chain(loss).chain(run).min();
        self.burst_end = first.unwrap_or(u32::MAX);
    }

    /// The next packet, and the length of its record if the batch is plain.
    #[inline(always)]
    pub fn frame(&self) -> (Frame<'_>, usize) {
        self.batch.frame(self.next, self.at)
    }

    /// A run of the batch that begins with the next packet.
    pub fn show(&self, run: &BatchRun) -> EncodedRun<'_> {
        EncodedRun {
            bytes: &self.batch.bytes[run.begin as usize..run.end as usize],
            frames: run.frames as usize,
            interface: run.interface,
            time_ns: run.time_ns,
            wire_bytes: run.wire_bytes,
            cut: run.cut.into(),
            longest: run.longest,
        }
    }
}
