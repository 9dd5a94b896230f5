//! A worker: claims a window and reads it, learns where the first record begins, and filters.
//!
//! ```text
//!  claim ─▶ pread ─▶ take the token ─▶ walk ─▶ pass it on ─▶ filter ─▶ hand over the batch
//!                                        └─▶ filter while holding the token ─▶ pass it on ─▶ hand over the batch
//!                                            (other records than packets, the end, a fault)
//! ```
//! A window is walked by the lengths of its records only. That takes a small part of the time, so the next worker waits little.
//! If the walk finds a record on which packets depend, or cannot continue, the window is read completely with the decoder that
//! travels with the token. Then everything in it is handled in file order, and only one function deals with interfaces,
//! statistics and faults.
//!
//! A malformed record inside a walked window is found after the token was passed on. Windows that other workers read meanwhile
//! are discarded, because the port never reads past an ending.

use super::{
    batch::{Batch, Ending, EventKind},
    buffer_pool::BufferPool,
    decoder_state::{DecoderState, Token},
    filter::{Stop, Wanted, filter_in_order, filter_plain, filter_walked},
    notify::Notify,
    order::Order,
    worker_queue::NOTIFY_BELOW,
};
use crate::{
    file::{TimeRange, eviction::Eviction},
    filter::bpf::{BatchFilter, Program},
    format::read::{Decoder, Zeros},
};
use forebay::{
    ring::spsc::{Consumer, Producer},
    sync::Park,
};
use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
};

/// Bytes that are read beyond a window: normally the rest of its last record.
const READ_AHEAD: usize = 2048;

pub(super) struct Worker {
    pub file: Arc<File>,
    /// Of a very large file, shared by all workers.
    pub eviction: Arc<Mutex<Option<Eviction>>>,
    pub begin: u64,
    pub end: u64,
    pub times: TimeRange,
    pub window_bytes: usize,
    pub order: Arc<Order>,
    pub empty: Consumer<Batch, Park>,
    pub full: Producer<Batch>,
    pub notify: Notify,
    pub buffers: BufferPool,
    pub guess: PlainGuess,
    /// Dropped after `full`, so that the port, once woken, sees that this worker is gone.
    pub _stop_all: StopAll,
}

/// When one worker ends, also by a panic, all workers end, and the port is notified.
pub(super) struct StopAll(pub Arc<Order>, pub Notify);

impl Drop for StopAll {
    fn drop(&mut self) {
        self.0.close();
        self.1.notify();
    }
}

/// Predicts whether the next window is plain. In most files nearly all windows are, or nearly none.
#[derive(Default)]
pub(super) struct PlainGuess {
    /// Windows until the next attempt, and their number before the last one.
    left: u32,
    pause: u32,
}

/// The largest number of windows between two attempts.
const MAX_PAUSE: u32 = 31;

impl PlainGuess {
    fn is_plain(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    fn learn(&mut self, was_plain: bool) {
        self.pause = match was_plain {
            true => 0,
            false => (2 * self.pause + 1).min(MAX_PAUSE),
        };
        self.left = self.pause;
    }
}

/// The bytes of one window, as far as they were read.
struct WorkerWindow {
    bytes: Vec<u8>,
    end: usize,
    /// Its offset in the file.
    base: u64,
    /// The offset at which the file ends, if not before.
    limit: u64,
}

impl WorkerWindow {
    /// Reads until there are `want` bytes; `false`: the file ends before.
    fn fill(&mut self, file: &File, want: usize) -> io::Result<bool> {
        if self.bytes.is_empty() {
            // Zeroed by the system when the pages are first touched.
            self.bytes = vec![0; want];
        } else if self.bytes.len() < want {
            self.bytes.resize(want, 0);
        }
        while self.end < want {
            let place = self.base + self.end as u64;
            let left = usize::try_from(self.limit.saturating_sub(place)).unwrap_or(usize::MAX);
            let until = want.min(self.end.saturating_add(left));
            match file.read_at(&mut self.bytes[self.end..until], place) {
                Ok(0) => return Ok(false),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn from(&self, at: usize) -> &[u8] {
        self.bytes[..self.end].get(at..).unwrap_or(&[])
    }
}

impl Worker {
    /// Runs until the file ends, a record is malformed, or the port is gone.
    pub fn run(mut self) {
        let mut window = WorkerWindow {
            bytes: Vec::new(),
            end: 0,
            base: 0,
            limit: self.end,
        };
        let mut own = None;
        let mut batch_filter = BatchFilter::new();
        while let Some(mut batch) = self.next_batch() {
            batch.clear();
            if batch.bytes.is_empty() {
                batch.bytes = self.buffers.take();
            }
            batch.window = self.order.claim();
            window.base = self.begin + batch.window * self.window_bytes as u64;
            batch.base = window.base;
            window.end = 0;
            // An error is reported when the missing bytes are needed.
            let _ = window.fill(
                &self.file,
                self.window_bytes + READ_AHEAD.min(self.window_bytes),
            );
            self.evict(window.base);
            let Some(token) = self.order.take(batch.window) else {
                return;
            };
            self.window(&mut window, token, &mut own, &mut batch_filter, &mut batch);
            batch.take_bytes(&mut window.bytes);
            window.bytes.truncate(2 * self.window_bytes + READ_AHEAD);
            window.bytes.shrink_to(2 * self.window_bytes + READ_AHEAD);
            let is_last = batch.ending.is_some();
            // The ring has room for all batches.
            if self.full.try_push(batch).is_err() || is_last {
                return;
            }
        }
    }

    /// Removes what precedes `offset` from the page cache. Another worker may still read some of it: it then reads from the disk.
    fn evict(&self, offset: u64) {
        // A worker that finds it in use leaves it to the next window.
        if let Ok(mut eviction) = self.eviction.try_lock()
            && let Some(eviction) = &mut *eviction
        {
            eviction.read_to(&self.file, offset);
        }
    }

    fn next_batch(&mut self) -> Option<Batch> {
        if self.empty.producer_is_gone() {
            return None;
        }
        let batch = self.empty.try_pop().ok();
        // Early enough that the port can return some before none is left.
        if self.empty.len() < NOTIFY_BELOW {
            self.notify.notify();
        }
        if batch.is_some() {
            return batch;
        }
        self.empty.pop().ok()
    }

    /// Reads what begins in this window. `own` is the state with which this worker decoded its last packets, and its copy of the
    /// decoder.
    fn window(
        &mut self,
        window: &mut WorkerWindow,
        mut token: Box<Token>,
        own: &mut Option<(Arc<DecoderState>, Decoder)>,
        batch_filter: &mut BatchFilter,
        batch: &mut Batch,
    ) {
        let begin = (token.next - window.base) as usize;
        if let Some(end) = self.walk(window, begin, &token) {
            let state = token.state.clone();
            token.next = window.base + end as u64;
            self.order.pass(batch.window + 1, token);
            let decoder = match own {
                Some((of, decoder)) if Arc::ptr_eq(of, &state) => decoder,
                _ => &mut own.insert((state.clone(), state.decoder.for_packets())).1,
            };
            let bytes = &window.bytes[..window.end];
            if self.guess.is_plain() {
                let limit = self.window_bytes;
                let wanted = self.wanted(&state.programs);
                let plain = filter_plain(bytes, begin, limit, decoder, wanted, batch_filter, batch);
                self.guess.learn(plain.is_some());
                if plain.is_some() {
                    batch.plain.state = Some(state);
                    return;
                }
                batch.clear();
            }
            let mut at = begin;
            batch.ending = match filter_walked(
                bytes,
                &mut at,
                self.window_bytes,
                decoder,
                self.wanted(&state.programs),
                batch_filter,
                batch,
            ) {
                Stop::Fault(fault) => Some(Ending::Fault(fault, window.base + at as u64)),
                Stop::Done => None,
                Stop::Other | Stop::Described | Stop::Unknown | Stop::More(_) | Stop::Zeros => {
                    unreachable!(
                        "a walk rejects windows with records that packets depend on, and torn ones"
                    )
                }
            };
            return;
        }
        match self.in_order(window, begin, &mut token, batch) {
            Ok(end) => {
                token.next = window.base + end as u64;
                self.order.pass(batch.window + 1, token);
            }
            Err(ending) => batch.ending = Some(ending),
        }
    }

    fn wanted<'a>(&self, programs: &'a [Arc<Program>]) -> Wanted<'a> {
        Wanted {
            times: self.times,
            programs,
        }
    }

    /// The end of the records of this window, if it has only packets and blocks on which no packet depends, all of them complete.
    fn walk(&self, window: &mut WorkerWindow, begin: usize, token: &Token) -> Option<usize> {
        if begin >= self.window_bytes {
            return Some(begin);
        }
        let bytes = window.from(begin);
        let end = begin + token.decoder.walk(bytes, self.window_bytes - begin)?;
        let is_whole = window.end >= end || matches!(window.fill(&self.file, end), Ok(true));
        is_whole.then_some(end)
    }

    /// Determines whether the zeros at `at` are packets.
    fn check_zeros(
        &self,
        window: &mut WorkerWindow,
        at: usize,
        token: &mut Token,
    ) -> Result<(), Ending> {
        let mut is_all = false;
        loop {
            match token.decoder.classify_zeros(window.from(at), is_all) {
                Zeros::Packets => return Ok(()),
                Zeros::End => return Err(Ending::Zeros(window.base + at as u64)),
                Zeros::More(bytes) => {
                    let filled = window.fill(&self.file, at + bytes);
                    is_all = !filled.map_err(Ending::System)?;
                }
            }
        }
    }

    /// Reads the window with the decoder of the token. Returns the end of the records that begin in it.
    fn in_order(
        &mut self,
        window: &mut WorkerWindow,
        begin: usize,
        token: &mut Token,
        batch: &mut Batch,
    ) -> Result<usize, Ending> {
        let mut at = begin;
        while at < self.window_bytes {
            let bytes = &window.bytes[..window.end];
            let (decoder, wanted) = (&mut token.decoder, self.wanted(&token.programs));
            match filter_in_order(bytes, &mut at, self.window_bytes, decoder, wanted, batch) {
                Stop::Done => {}
                Stop::Other => {
                    if let Some((interface, counts)) = token.new_statistics() {
                        batch.note(EventKind::Statistics(interface, counts));
                    }
                    batch.note_blocks(&mut token.decoder);
                }
                Stop::Described => {
                    for interface in token.new_interfaces() {
                        batch.note(EventKind::Interface(interface));
                    }
                }
                Stop::Unknown => token.compile(),
                Stop::Fault(fault) => return Err(Ending::Fault(fault, window.base + at as u64)),
                Stop::Zeros => self.check_zeros(window, at, token)?,
                Stop::More(record) => match window.fill(&self.file, at + record) {
                    Ok(true) => {}
                    Ok(false) if window.end <= at => return Err(Ending::End),
                    Ok(false) => {
                        let place = window.base + at as u64;
                        return Err(Ending::Torn(token.decoder.unit(), place));
                    }
                    Err(e) => return Err(Ending::System(e)),
                },
            }
        }
        token.publish();
        Ok(at)
    }
}
