//! The writing side of the store: runs the drain, on a separate thread or inline.
//!
//! ```text
//!  Appender ──▶ full ring ──▶ thread: drain.write ──▶ empty ring ──▶ Appender
//!      └───▶ desk, where the thread takes what is committed when the flush period ends
//!                                │ fails
//!                                ▼
//!                     the buffer stays in hand, the error is posted, and the
//!                     thread waits for a command: retry, close or abandon
//! ```
//! Each buffer is owned by exactly one side at a time. The rings have room for the maximum number of buffers, so a push never
//! fails. The empty ring returns empty buffers, or an empty place instead of one. If as many buffers as the store started with
//! are already empty, the thread frees the memory of further ones, and the appender reduces its count when it takes the empty
//! place. Errors and the commands that answer them are rare, and bypass the rings.

use super::{
    ahead::Ahead,
    buffer::{Buffer, Empty, Layout, Piece},
    closing::{Abandon, Counts},
    config::StoreConfig,
    desk::{Desk, Due},
    drain::{Drain, Progress, Stopped},
    loan::Loan,
};
use crate::{
    Error, Result,
    memory::{Filled, Vacant},
    ring::spsc::{self, Consumer, PopError, Producer},
    sync::{Bell, Park, held},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Commands to the writing side, bits of one word: a thread that sees a later command also sees the earlier ones.
const RETRY: u32 = 1;
/// No more buffers follow, and nobody is left to retry.
const CLOSE: u32 = 2;

/// State that both sides see. Everything is Relaxed except for two edges, because each other field publishes only itself. The
/// mutex publishes the error, and with it the flags that there is one and that it needs an answer. The bell orders the commands
/// for a writer that sleeps on them.
///
/// | edge | release | acquire | what is visible |
/// |---|---|---|---|
/// | ANSWERED | `command` | `answer` | that the appender has cleared `stuck`, before the next failure sets it again |
/// | STUCK | `post` | `is_stuck` | that there is an error to take, before a caller treats it as already taken |
#[derive(Default)]
pub(super) struct Shared {
    /// A write failed and its error has not been taken. Written by both sides.
    failed: AtomicBool,
    /// The writing side waits for the answer to a failed write. The writing side sets this, the appender clears it.
    stuck: AtomicBool,
    /// Write nothing more. Any thread may set it at any time.
    abandon: Abandon,
    /// Bits set by the appender; the writer clears [`RETRY`] when it obeys.
    commands: AtomicU32,
    commanded: Bell,
    /// Counters, written by the writing side; exact once it has ended.
    records: AtomicU64,
    bytes: AtomicU64,
    durable_records: AtomicU64,
    durable_bytes: AtomicU64,
    unsynced_bytes: AtomicU64,
    /// Everything is written or given up, and the output is being completed.
    is_closing: AtomicBool,
    syncs: AtomicU64,
    failed_syncs: AtomicU64,
    slowest_sync_ns: AtomicU64,
    desk: Desk,
    error: Mutex<Option<Error>>,
}

impl Shared {
    fn error(&self) -> MutexGuard<'_, Option<Error>> {
        held(&self.error)
    }

    /// Posts that a buffer was not written. Returns an earlier error that was not taken yet; that one has to wait.
    fn post(&self, error: Error) -> Option<Error> {
        // Set all of it under the lock: a caller that takes the error then knows that the writer waits for an answer.
        let mut told = self.error();
        let untold = told.replace(error);
        self.failed.store(true, Relaxed);
        self.stuck.store(true, Release); // STUCK
        untold
    }

    /// The error of a failed write, once.
    fn take_error(&self) -> Option<Error> {
        if !self.failed.load(Relaxed) {
            return None;
        }
        let mut told = self.error();
        self.failed.store(false, Relaxed);
        told.take()
    }

    /// Answers a failed write with a retry. An error that was not taken by now is discarded.
    fn retry(&self) {
        let was_stuck = {
            let mut told = self.error();
            *told = None;
            self.failed.store(false, Relaxed);
            self.stuck.swap(false, Relaxed)
        };
        // Sent to a writer that is not waiting, the command would answer the next error instead.
        if was_stuck {
            self.command(RETRY);
        }
    }

    /// As [`post`](Self::post), for the death of the writer thread: nothing is left to report an earlier error later.
    fn post_death(&self) {
        drop(self.post(died()));
    }

    /// Handles a failed write: syncs what would be due later, before a wait of unknown length, and reports.
    fn fail(&self, drain: &mut Drain, error: Error) {
        drain.sync_ahead();
        self.tell(drain);
        if let Some(untold) = self.post(error) {
            drain.tell_later(untold);
        }
    }

    /// Publishes the counts, and an error that did not prevent any write.
    fn tell(&self, drain: &mut Drain) {
        let counts = Counts::of(drain);
        self.records.store(counts.written.records, Relaxed);
        self.bytes.store(counts.written.bytes, Relaxed);
        self.durable_records.store(counts.durable.records, Relaxed);
        self.durable_bytes.store(counts.durable.bytes, Relaxed);
        self.unsynced_bytes.store(counts.unsynced_bytes, Relaxed);
        self.syncs.store(counts.syncs, Relaxed);
        self.failed_syncs.store(counts.failed_syncs, Relaxed);
        let slowest = counts.slowest_sync.as_nanos() as u64;
        self.slowest_sync_ns.store(slowest, Relaxed);
        if let Some(trouble) = drain.take_trouble() {
            let mut error = self.error();
            match *error {
                Some(_) => drain.tell_later(trouble),
                None => *error = Some(trouble),
            }
            self.failed.store(true, Relaxed);
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            written: Progress {
                records: self.records.load(Relaxed),
                bytes: self.bytes.load(Relaxed),
            },
            durable: Progress {
                records: self.durable_records.load(Relaxed),
                bytes: self.durable_bytes.load(Relaxed),
            },
            unsynced_bytes: self.unsynced_bytes.load(Relaxed),
            is_syncing: self.is_closing.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
            failed_syncs: self.failed_syncs.load(Relaxed),
            slowest_sync: Duration::from_nanos(self.slowest_sync_ns.load(Relaxed)),
        }
    }

    /// Completes the output, and publishes the counts meanwhile.
    fn close(&self, drain: &mut Drain) {
        self.is_closing.store(true, Relaxed);
        drain.close(&self.abandon, |drain| {
            let left = drain.unsynced_bytes();
            self.unsynced_bytes.store(left, Relaxed);
        });
        self.tell(drain);
    }

    fn command(&self, bit: u32) {
        self.commands.fetch_or(bit, Release); // ANSWERED
        self.commanded.ring();
    }

    /// The answer to an error, if there is one: `true` means retry.
    fn answer(&self) -> Option<bool> {
        match self.commands.load(Acquire) {
            // ANSWERED
            _ if self.abandon.is_set() => Some(false),
            commands if commands & RETRY != 0 => {
                self.commands.fetch_and(!RETRY, Relaxed);
                Some(true)
            }
            commands => (commands & CLOSE != 0).then_some(false),
        }
    }

    fn wait_for_answer(&self) -> bool {
        loop {
            self.commanded.arm();
            let answer = self.answer();
            if answer.is_none() {
                self.commanded.sleep(None);
            }
            self.commanded.disarm();
            if let Some(retry) = answer {
                return retry;
            }
        }
    }
}

/// The writing side as the appender sees it.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Empty buffers on the appender's side. With a thread, these are not touched yet.
    spare: Vec<Empty>,
    /// Whether untouched buffers are used before those that came back. This is set if writes bypass the page cache: the device
    /// has just read a returned buffer, not through this CPU's caches, and refilling it at once is slower than taking the one
    /// that was read longest ago. Through the page cache the CPU itself read the buffer, so it is still in the cache.
    spare_first: bool,
    /// All buffers, wherever they are. One whose memory was freed counts until its place was taken from the ring.
    buffers: usize,
    first: usize,
    max_buffers: usize,
    ahead: Ahead,
    place: Place,
}

enum Place {
    Thread {
        full: Producer<Handed, Park>,
        empty: Consumer<Option<Empty>, Park>,
        thread: JoinHandle<Drain>,
    },
    Inline {
        drain: Box<Drain>,
        /// The buffer whose write failed, and those after it.
        stuck: VecDeque<(Vacant, Buffer)>,
    },
    Over,
}

/// A closed buffer. The writer thread may hold its filled half, if it took a piece of the buffer before.
struct Handed {
    vacant: Vacant,
    filled: Option<Filled>,
    piece: Piece,
}

impl Place {
    fn on_a_thread(
        drain: Drain,
        shared: &Arc<Shared>,
        config: &StoreConfig,
        max_buffers: usize,
    ) -> Result<Self> {
        let ring = spsc::RingConfig {
            capacity: max_buffers,
            // Most stores never grow to their limit.
            populate: false,
            ..Default::default()
        };
        let (full, to_write) = spsc::ring_with::<Handed, Park>(&ring)?;
        let (give_back, empty) = spsc::ring_with::<Option<Empty>, Park>(&ring)?;
        let shared = shared.clone();
        let (period, first) = (period(config.flush_every), config.buffers);
        let thread = std::thread::Builder::new()
            .name("forebay-writer".into())
            .spawn(move || run(drain, to_write, give_back, &shared, period, first))
            .map_err(|e| Error::new("store", "starting the writer thread").because(e))?;
        Ok(Place::Thread {
            full,
            empty,
            thread,
        })
    }
}

impl Writer {
    pub fn start(
        drain: Drain,
        spare: Vec<Empty>,
        config: &StoreConfig,
        layout: Layout,
    ) -> Result<Self> {
        let spare_first = drain.is_direct();
        let shared = Arc::new(Shared {
            abandon: config.abandon.clone(),
            desk: Desk::new(layout),
            ..Shared::default()
        });
        let max_buffers = config.max_buffers();
        let place = match config.thread {
            true => Place::on_a_thread(drain, &shared, config, max_buffers)?,
            false => Place::Inline {
                drain: Box::new(drain),
                stuck: Default::default(),
            },
        };
        Ok(Writer {
            shared,
            spare,
            spare_first,
            buffers: config.buffers,
            first: config.buffers,
            max_buffers,
            ahead: Ahead::new(config.whole_buffer_bytes(), config.map(), config.buffers),
            place,
        })
    }

    /// See [`Desk::open`].
    pub fn open(&self, empty: Empty, start: u64, first: u64) -> Vacant {
        self.shared.desk.open(empty, start, first)
    }

    /// See [`Desk::carry`].
    pub fn carry(&self, vacant: &mut Vacant, loan: Loan, records: u64) {
        self.shared.desk.carry(vacant, loan, records);
    }

    /// See [`Desk::close`].
    pub fn close(&self, vacant: &Vacant) -> (Option<Filled>, Piece) {
        self.shared.desk.close(vacant)
    }

    /// See [`Desk::holds`].
    pub fn holds(&self, vacant: &Vacant) -> bool {
        self.shared.desk.holds(vacant)
    }

    /// See [`Desk::taken`].
    pub fn taken(&self) -> usize {
        self.shared.desk.taken()
    }

    /// See [`Desk::end`].
    pub fn end_of(&self, vacant: &Vacant) -> u64 {
        self.shared.desk.end(vacant)
    }

    /// Hands a closed buffer over. Inline, this writes it.
    pub fn hand_over(&mut self, vacant: Vacant, filled: Option<Filled>, piece: Piece) {
        match &mut self.place {
            Place::Thread { full, .. } => {
                let handed = Handed {
                    vacant,
                    filled,
                    piece,
                };
                // The ring has a slot for every buffer, so a push fails only if the writer is gone.
                let is_gone = full.try_push(handed).is_err() || full.consumer_is_gone();
                if is_gone && !self.shared.abandon.is_set() {
                    self.shared.post_death();
                }
            }
            Place::Inline { stuck, .. } => {
                // Inline, the filled half is never taken before.
                stuck.extend(filled.map(|bytes| (vacant, Buffer { bytes, piece })));
                // After a failed write everything waits for the retry.
                if stuck.len() == 1 {
                    self.drain_inline();
                }
            }
            Place::Over => {}
        }
    }

    fn drain_inline(&mut self) {
        let Place::Inline { drain, stuck } = &mut self.place else {
            return;
        };
        while let Some((_, buffer)) = stuck.front_mut() {
            match drain.write(buffer, &self.shared.abandon) {
                Ok(()) => {
                    buffer.give_back();
                    let written = stuck.pop_front();
                    self.spare
                        .extend(written.map(|(vacant, it)| (vacant, it.bytes)));
                }
                Err(Stopped::Failed(error)) => return self.shared.fail(drain, error),
                Err(Stopped::Abandoned) => return,
            }
            self.shared.tell(drain);
        }
    }

    /// Inline, this keeps the interval between syncs. A writer thread reads the clock itself.
    pub fn keep_time(&mut self, now: u64) {
        if let Place::Inline { drain, .. } = &mut self.place {
            drain.keep_time(now);
            self.shared.tell(drain);
        }
    }

    /// When [`keep_time`](Self::keep_time) has something to do.
    pub fn sync_due_at(&self) -> Option<u64> {
        match &self.place {
            Place::Inline { drain, .. } => drain.sync_due_at(),
            Place::Thread { .. } | Place::Over => None,
        }
    }

    /// An empty buffer, if there is one.
    pub fn take_empty(&mut self) -> Option<Empty> {
        let first = if self.spare_first {
            self.spare.pop()
        } else {
            None
        };
        let back = || match &mut self.place {
            Place::Thread { empty, .. } => loop {
                match empty.try_pop().ok()? {
                    Some(buffer) => break Some(buffer),
                    None => self.buffers -= 1,
                }
            },
            Place::Inline { .. } | Place::Over => None,
        };
        first.or_else(back).or_else(|| self.spare.pop())
    }

    /// Adds a buffer, if the limit allows it and the writer is going to write it.
    pub fn grow(&mut self) -> Option<Empty> {
        let is_in_vain = self.shared.stuck.load(Acquire) || self.is_abandoned(); // STUCK
        if self.buffers >= self.max_buffers || is_in_vain || !self.is_thread() {
            return None;
        }
        let buffer = self.ahead.take(self.max_buffers - self.buffers);
        match buffer {
            Some(_) => self.buffers += 1,
            // The system has no more memory, so this is the limit.
            None => self.max_buffers = self.buffers,
        }
        buffer
    }

    /// The number of buffers.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    #[cfg(all(test, not(loom)))]
    pub fn put_aside(&mut self, buffer: Empty) {
        self.spare.push(buffer);
    }

    /// The largest number of buffers allowed.
    pub fn max_buffers(&self) -> usize {
        self.max_buffers
    }

    /// As [`take_empty`](Self::take_empty), but waits up to `limit` for one.
    pub fn wait_empty(&mut self, limit: Duration) -> Option<Empty> {
        let ready = self.take_empty();
        match &mut self.place {
            Place::Thread { empty, .. } if ready.is_none() => match empty.pop_timeout(limit) {
                Ok(Some(buffer)) => Some(buffer),
                Ok(None) => {
                    self.buffers -= 1;
                    self.grow()
                }
                Err(_) => None,
            },
            _ => ready,
        }
    }

    /// Waits up to `limit` for another buffer to come back, and keeps it.
    pub fn wait_one(&mut self, limit: Duration) {
        if let Place::Thread { empty, .. } = &mut self.place {
            match empty.pop_timeout(limit) {
                Ok(Some(buffer)) if self.spare.len() < self.first => self.spare.push(buffer),
                Ok(_) => self.buffers -= 1,
                Err(PopError::Empty) => {}
                Err(PopError::Closed) if self.shared.abandon.is_set() => {}
                Err(PopError::Closed) => self.shared.post_death(),
            }
        }
    }

    /// The number of empty buffers.
    pub fn empties(&mut self) -> usize {
        let back = match &mut self.place {
            Place::Thread { empty, .. } => empty.len(),
            Place::Inline { .. } | Place::Over => 0,
        };
        back + self.spare.len()
    }

    pub fn is_thread(&self) -> bool {
        matches!(self.place, Place::Thread { .. })
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Relaxed)
    }

    /// The error of a failed write, once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.shared.take_error()
    }

    /// Whether the writer waits for the answer to a failed write whose error was taken.
    pub fn is_stuck(&self) -> bool {
        self.shared.stuck.load(Acquire) && !self.has_failed() // STUCK
    }

    pub fn is_abandoned(&self) -> bool {
        self.shared.abandon.is_set()
    }

    /// Retries the failed write from the byte where it stopped.
    pub fn retry(&mut self) {
        self.shared.retry();
        if let Place::Inline { .. } = self.place {
            self.drain_inline();
        }
    }

    /// The current counts of the writing side.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The bytes written, of these counts.
    pub fn written_bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// No more buffers follow. The writer ends once it has written what it has, or failed to.
    pub fn end(&mut self) -> Ending {
        let shared = self.shared.clone();
        let ended = match std::mem::replace(&mut self.place, Place::Over) {
            Place::Thread { full, thread, .. } => {
                drop(full);
                shared.command(CLOSE);
                Ended::Thread(thread)
            }
            Place::Inline { mut drain, stuck } => {
                if let Some((_, first)) = stuck.front() {
                    drain.give_up(first);
                }
                shared.close(&mut drain);
                Ended::Inline(drain)
            }
            Place::Over => Ended::Before,
        };
        Ending { shared, ended }
    }
}

/// A writer that gets no more buffers.
pub(super) struct Ending {
    shared: Arc<Shared>,
    ended: Ended,
}

enum Ended {
    Thread(JoinHandle<Drain>),
    Inline(Box<Drain>),
    /// Ended before: another caller joined it.
    Before,
}

impl Ending {
    /// Whether [`join`](Self::join) would return at once.
    pub fn is_over(&self) -> bool {
        match &self.ended {
            Ended::Thread(thread) => thread.is_finished(),
            Ended::Inline(_) | Ended::Before => true,
        }
    }

    /// Nothing more is written from now on.
    pub fn abandon(&self) {
        self.shared.abandon.set();
        self.shared.commanded.ring();
    }

    /// Waits for the end. Returns the drain, and the error that was not taken yet.
    pub fn join(self) -> (Option<Drain>, Option<Error>) {
        if matches!(self.ended, Ended::Before) {
            // The error goes to the caller that joins the end itself.
            return (None, None);
        }
        let error = self.shared.error().take();
        match self.ended {
            Ended::Thread(thread) => match thread.join() {
                Ok(drain) => (Some(drain), error.or_else(|| self.shared.error().take())),
                Err(_) => (None, Some(died())),
            },
            Ended::Inline(drain) => (Some(*drain), error),
            Ended::Before => (None, None),
        }
    }

    /// The current counts of the writing side.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

fn died() -> Error {
    Error::new("", "the writer thread died")
}

/// The shortest time that the writer thread waits for a buffer before it takes what is committed. It keeps an idle store
/// nearly free of cost.
const SHORTEST_PERIOD: Duration = match cfg!(test) {
    // Short, so that tests see many pieces of one buffer.
    true => Duration::from_micros(20),
    false => Duration::from_millis(10),
};

/// How soon the thread checks again if a record was being committed.
const SOON_NS: u64 = 100_000;

fn period(flush_every: Duration) -> u64 {
    let period = flush_every.max(SHORTEST_PERIOD).as_nanos();
    u64::try_from(period).unwrap_or(u64::MAX)
}

fn run(
    mut drain: Drain,
    full: Consumer<Handed, Park>,
    empty: Producer<Option<Empty>, Park>,
    shared: &Shared,
    period: u64,
    first: usize,
) -> Drain {
    write_all(&mut drain, full, empty, shared, period, first);
    shared.close(&mut drain);
    drain
}

/// Writes what is handed over and what is due, until the appender has closed or the store is abandoned.
fn write_all(
    drain: &mut Drain,
    mut full: Consumer<Handed, Park>,
    mut empty: Producer<Option<Empty>, Park>,
    shared: &Shared,
    period: u64,
    first: usize,
) {
    let began = Instant::now();
    let now = || began.elapsed().as_nanos() as u64;
    let mut look_at = period;
    // A filled half whose buffer was closed while a piece of it was being written.
    let mut in_hand = None;
    loop {
        let due = drain.sync_due_at().map_or(look_at, |due| due.min(look_at));
        let left = Duration::from_nanos(due.saturating_sub(now()));
        let (mut buffer, from) = match full.pop_timeout(left) {
            Ok(handed) => {
                let bytes = handed.filled.or_else(|| in_hand.take());
                let bytes = bytes.expect("each half is on the desk, in hand, or handed over");
                let piece = handed.piece;
                (Buffer { bytes, piece }, From::Ring(handed.vacant))
            }
            Err(PopError::Empty) if now() < look_at => {
                drain.keep_time(now());
                shared.tell(drain);
                continue;
            }
            Err(PopError::Empty) => match shared.desk.take(|| !full.is_empty()) {
                Due::Piece(buffer, serial) => (buffer, From::Desk(serial)),
                Due::Nothing => {
                    look_at = now().saturating_add(period);
                    continue;
                }
                Due::Unsettled => {
                    look_at = now().saturating_add(SOON_NS);
                    continue;
                }
            },
            Err(PopError::Closed) => return,
        };
        drain.keep_time(now());
        drain.keep_up(full.len(), first);
        let is_written = write(drain, &mut buffer, shared);
        if is_written {
            drain.start_write_back();
        }
        shared.tell(drain);
        if !is_written {
            return;
        }
        buffer.give_back();
        match from {
            From::Ring(vacant) => {
                let back = empty.capacity() - empty.vacant();
                // The ring has a slot for every buffer; a push fails only if the appender is gone, and then needs none back.
                drop(empty.try_push((back < first).then_some((vacant, buffer.bytes))));
            }
            From::Desk(serial) => in_hand = shared.desk.put_back(buffer.bytes, serial),
        }
        look_at = now().saturating_add(period);
    }
}

/// Where the writer thread got a buffer from.
enum From {
    Ring(Vacant),
    Desk(u64),
}

/// Writes a buffer, and repeats it on each retry. `false`: it was given up.
fn write(drain: &mut Drain, buffer: &mut Buffer, shared: &Shared) -> bool {
    loop {
        match drain.write(buffer, &shared.abandon) {
            Ok(()) => return true,
            Err(Stopped::Failed(error)) => {
                shared.fail(drain, error);
                if shared.wait_for_answer() {
                    continue;
                }
            }
            Err(Stopped::Abandoned) => {}
        }
        drain.give_up(buffer);
        return false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_error_of_a_failed_write_can_answer_it() {
        const TIMES: usize = 50_000;
        let shared = Shared::default();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..TIMES {
                    drop(shared.post(died()));
                    assert!(shared.wait_for_answer());
                }
            });
            // An error that occurs between another one and its answer is answered together with it.
            while !writer.is_finished() {
                if shared.take_error().is_some() {
                    shared.retry();
                }
            }
            writer.join().unwrap();
        });
        assert!(!shared.stuck.load(Acquire) && !shared.failed.load(Acquire));
    }
}
