//! Writes buffers to a sink, byte for byte. The same code runs on the writer thread and inline.
//!
//! ```text
//!  a buffer:  seal ─▶ write, write, … ─▶ count ─▶ sync, if policy or caller asks     ─▶ next output
//!                      ▲        │ fails                │ fails, under `Always`            │ fails
//!                      └────────┴── retry: the rest    └── retry: all of it again         └── retry: this step
//! ```
//! After a failed sync it is unknown what the device has. Only bytes that are still in memory can then be made durable, by
//! writing them again. Under `Always` these are all the bytes in question. Under the other policies the buffers are already
//! reused, so the drain promises no durability from then on, whatever later syncs return.

use super::{
    abandon::Abandon,
    buffer::Piece,
    config::SyncPolicy,
    counts::{Counts, Progress},
    framing::{Framing, Seal, Whole},
    sink::Sink,
    trouble::{sync_error, write_error},
};
use crate::{Error, memory::Filled};
use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// Writes buffers in order, and always knows where the last whole record ends.
pub(super) struct Drain {
    sink: Box<dyn Sink>,
    framing: Arc<dyn Framing>,
    policy: SyncPolicy,
    /// Bytes of the current piece that are already written.
    done: usize,
    /// Whether the current piece is already counted: it is written, but a later step failed.
    is_counted: bool,
    /// Bytes in the outputs before this one.
    before: u64,
    /// Bytes that this output held at the start.
    held: u64,
    /// The end of the last whole record written, in this output.
    whole: u64,
    records: u64,
    durable: Progress,
    unsynced_bytes: u64,
    /// Too many buffers wait.
    is_behind: bool,
    /// A sync failed: later ones promise nothing.
    is_doubtful: bool,
    /// The time last passed in by the caller.
    now: u64,
    /// When there first was something to sync: bytes, or a new output itself.
    unsynced_since: Option<u64>,
    /// Whether the last sync was a promise; a pipe gives none.
    is_promised: bool,
    syncs: u64,
    failed_syncs: u64,
    slowest_sync: Duration,
    /// An error that did not prevent any write and is still to be reported.
    trouble: Option<Error>,
}

/// Why a buffer was not written completely.
pub(super) enum Stopped {
    Failed(Error),
    Abandoned,
}

impl Drain {
    /// For an output that already holds `held` bytes, which stay.
    pub fn new(
        sink: Box<dyn Sink>,
        framing: Arc<dyn Framing>,
        policy: SyncPolicy,
        held: u64,
    ) -> Self {
        Drain {
            sink,
            framing,
            policy,
            done: 0,
            is_counted: false,
            before: 0,
            held,
            whole: held,
            records: 0,
            durable: Progress::default(),
            unsynced_bytes: 0,
            is_behind: false,
            is_doubtful: false,
            now: 0,
            unsynced_since: Some(0),
            is_promised: false,
            syncs: 0,
            failed_syncs: 0,
            slowest_sync: Duration::ZERO,
            trouble: None,
        }
    }

    /// `waiting` buffers follow the next one; the store started with `first` buffers. Once half of `first` are waiting, and until
    /// none waits, writes that return quickly matter more than cheap ones.
    pub fn keep_up(&mut self, waiting: usize, first: usize) {
        self.is_behind = match self.is_behind {
            true => waiting > 0,
            false => waiting >= (first / 2).max(1),
        };
        self.sink.hurry(self.is_behind);
    }

    /// Keeps the device busy writing what the page cache holds, so that a later sync is short. It may wait for the device, so it
    /// is postponed while buffers wait.
    pub fn start_write_back(&mut self) {
        if !self.is_behind && (self.policy != SyncPolicy::None || self.is_direct()) {
            self.write_back(false);
        }
    }

    /// Writes `piece`, or its rest after an error, unless the store is abandoned. Then carries out its request. `bytes` is the
    /// memory that holds it.
    #[inline(always)]
    pub fn write(
        &mut self,
        bytes: &mut Filled,
        piece: &Piece,
        abandon: &Abandon,
    ) -> Result<(), Stopped> {
        let (is_empty, end) = (piece.all() == 0, piece.end());
        if self.done == 0 && !self.is_counted && !is_empty {
            let seal = Seal {
                first: piece.first,
                records: piece.records,
                padding: piece.padding,
            };
            // Readers may see the bytes of a live store already, so such a store has only framings that change nothing.
            if !bytes.is_frozen() {
                self.framing.seal(piece.own_mut(bytes), &seal);
            }
        }
        match piece.only_part(bytes) {
            Some(all) => self.put_part(all, 0, piece.start, abandon)?,
            None => self.put_parts(bytes, piece, abandon)?,
        }
        if !self.is_counted && !is_empty {
            self.is_counted = true;
            self.whole = end;
            self.records += piece.records;
            self.unsynced_since.get_or_insert(self.now);
        }
        if self.policy == SyncPolicy::Always {
            if let Err(error) = self.sync_if_needed() {
                self.done = 0; // the retry writes it again
                return Err(Stopped::Failed(error));
            }
        } else if piece.then.sync {
            self.sync_or_note();
        }
        if piece.then.next_output {
            self.next_output()?;
        }
        self.done = 0;
        self.is_counted = false;
        Ok(())
    }

    #[cold]
    fn put_parts(
        &mut self,
        bytes: &Filled,
        piece: &Piece,
        abandon: &Abandon,
    ) -> Result<(), Stopped> {
        let mut before = 0;
        for part in piece.parts(bytes) {
            self.put_part(part, before, piece.start, abandon)?;
            before += part.len();
        }
        Ok(())
    }

    /// Writes the unwritten bytes of a part; `before` is the length of the piece's earlier parts.
    #[inline(always)]
    fn put_part(
        &mut self,
        part: &[u8],
        before: usize,
        start: u64,
        abandon: &Abandon,
    ) -> Result<(), Stopped> {
        while self.done < before + part.len() {
            if abandon.is_set() {
                return Err(Stopped::Abandoned);
            }
            let at = start + self.done as u64;
            match self.sink.write(&part[self.done - before..], at) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(taken) => self.done += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waited = self.sink.wait(Duration::from_millis(50));
                    waited.map_err(|error| self.failed(error))?;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    fn failed(&self, cause: io::Error) -> Stopped {
        Stopped::Failed(write_error(cause).about(self.sink.name()))
    }

    fn next_output(&mut self) -> Result<(), Stopped> {
        self.end_output();
        self.sink.next_output().map_err(Stopped::Failed)?;
        self.before += self.whole - self.held;
        self.held = 0;
        self.whole = 0;
        self.unsynced_since = Some(self.now);
        Ok(())
    }

    /// Frees what was allocated ahead, and makes the output durable if the policy says so.
    fn end_output(&mut self) {
        // If the tail cannot be cut off it stays; it holds no data.
        let _ = self.sink.cut(self.whole);
        if self.policy != SyncPolicy::None {
            self.sync_or_note();
        }
    }

    /// `piece` will never be written completely: counts its records that were, and cuts off the rest.
    pub fn give_up(&mut self, bytes: &Filled, piece: &Piece) {
        if !self.is_counted {
            let rest = self.last_whole(bytes, piece);
            self.whole = piece.start + rest.bytes as u64;
            self.records += rest.records;
            if rest.bytes > 0 {
                self.unsynced_since.get_or_insert(self.now);
            }
            if self.done > rest.bytes {
                // If the tail cannot be cut off it stays, torn; readers stop before it.
                let _ = self.sink.cut(self.whole);
            }
        }
        self.done = 0;
        self.is_counted = false;
    }

    /// The written part of `piece`, up to its last whole record.
    fn last_whole(&self, bytes: &Filled, piece: &Piece) -> Whole {
        let mut whole = Whole::default();
        let mut left = self.done;
        for part in piece.parts(bytes) {
            let written = &part[..part.len().min(left)];
            let of_part = self.framing.last_whole(written);
            whole.bytes += of_part.bytes;
            whole.records += of_part.records;
            left -= written.len();
        }
        whole
    }

    /// Completes the last output. `report` is called each time the device has another piece of what the page cache holds. Once
    /// the store is abandoned this waits for nothing more, and the end is then not durable.
    pub fn close(&mut self, abandon: &Abandon, mut report: impl FnMut(&Drain)) {
        // If the tail cannot be cut off it stays; it holds no data.
        let _ = self.sink.cut(self.whole);
        if self.policy != SyncPolicy::None {
            let mut left = self.write_back(false);
            while left > 0 && !abandon.is_set() {
                report(self);
                left = self.write_back(true);
            }
            if !abandon.is_set() {
                self.sync_or_note();
            }
        }
        if let Err(error) = self.sink.complete() {
            self.is_promised = false;
            if self.before == 0 {
                self.durable = Progress::default(); // of this output, and there was no other
            }
            self.trouble.get_or_insert(error);
        }
    }

    /// Starts writeback of the page cache, or `wait`s until the device has the next piece. Returns the bytes left in the cache.
    fn write_back(&mut self, wait: bool) -> u64 {
        match self.sink.write_back(wait) {
            Ok(left) => self.unsynced_bytes = left,
            // The kernel reports the error once, so a later sync may not.
            Err(cause) => {
                self.unsynced_bytes = 0;
                let error = self.sync_failed(cause);
                self.note_failed_sync(error);
            }
        }
        self.unsynced_bytes
    }

    fn sync_if_needed(&mut self) -> Result<(), Error> {
        if self.unsynced_since.is_none() {
            return Ok(());
        }
        let begun = Instant::now();
        let answer = self.sink.sync();
        self.syncs += 1;
        self.slowest_sync = self.slowest_sync.max(begun.elapsed());
        self.is_promised = false;
        let is_promised = answer.map_err(|cause| self.sync_failed(cause))?;
        self.unsynced_since = None;
        self.unsynced_bytes = 0;
        self.is_promised = is_promised && !self.is_doubtful;
        if self.is_promised {
            self.durable = self.written();
        }
        Ok(())
    }

    /// As [`sync_if_needed`](Self::sync_if_needed), when nothing can be written again.
    fn sync_or_note(&mut self) {
        if let Err(error) = self.sync_if_needed() {
            self.unsynced_since = None;
            self.note_failed_sync(error);
        }
    }

    fn sync_failed(&mut self, cause: io::Error) -> Error {
        self.failed_syncs += 1;
        sync_error(cause).about(self.sink.name())
    }

    fn note_failed_sync(&mut self, error: Error) {
        self.is_promised = false;
        self.is_doubtful = true;
        self.trouble.get_or_insert(error);
    }

    /// Called before a wait of unknown length: syncs now what would be due at a later time.
    pub fn sync_ahead(&mut self) {
        if matches!(self.policy, SyncPolicy::Interval(_)) {
            self.sync_or_note();
        }
    }

    /// Syncs if the policy's interval has ended at `now`, in nanoseconds of any monotonic clock.
    pub fn keep_time(&mut self, now: u64) {
        self.now = now;
        if self.sync_due_at().is_some_and(|due| now >= due) {
            self.sync_or_note();
        }
    }

    /// When [`keep_time`](Self::keep_time) has something to do.
    pub fn sync_due_at(&self) -> Option<u64> {
        let SyncPolicy::Interval(interval) = self.policy else {
            return None;
        };
        let ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Some(self.unsynced_since?.saturating_add(ns))
    }

    /// Keeps an error that could not be reported now.
    pub fn tell_later(&mut self, trouble: Error) {
        self.trouble.get_or_insert(trouble);
    }

    /// Whether there is an error that did not prevent any write.
    pub fn has_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Returns an error that did not prevent any write, once.
    pub fn take_trouble(&mut self) -> Option<Error> {
        self.trouble.take()
    }

    /// Whether the output is in memory, which a power cut erases.
    pub fn is_in_memory(&self) -> bool {
        self.sink.is_in_memory()
    }

    /// Whether whole buffers, or all but their first and last page, bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.sink.is_direct()
    }

    /// Whether buffers are padded, so that whole ones bypass it.
    pub fn pads(&self) -> bool {
        self.is_direct() && self.framing.least_padding().is_some()
    }

    /// The records and bytes that are completely written.
    fn written(&self) -> Progress {
        Progress {
            records: self.records,
            bytes: self.before + self.whole - self.held,
        }
    }

    /// Whether everything written is durable.
    pub fn is_durable(&self) -> bool {
        self.unsynced_since.is_none() && self.is_promised
    }

    /// Bytes in the page cache that the device may not have yet.
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes
    }

    /// All that is counted.
    pub fn counts(&self) -> Counts {
        Counts {
            written: self.written(),
            durable: self.durable,
            unsynced_bytes: self.unsynced_bytes,
            is_syncing: false,
            syncs: self.syncs,
            failed_syncs: self.failed_syncs,
            slowest_sync: self.slowest_sync,
        }
    }
}
