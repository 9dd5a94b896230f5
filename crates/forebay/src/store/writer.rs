//! The far side of the store: the same drain, on a thread of its own or inline.
//!
//! ```text
//!  Appender ──▶ full ring ──▶ thread: drain.write ──▶ empty ring ──▶ Appender
//!      └───▶ desk, where the thread takes what is committed when the flush period ends
//!                                │ fails
//!                                ▼
//!                     the buffer stays in hand, the error is posted, and the
//!                     thread waits for a command: retry, close or abandon
//! ```
//! Buffers are owned by exactly one side at a time; the rings have room for as many as there may be, so a push never
//! fails. What comes back is an empty buffer, or nothing in its place: where as many as there were at first lie empty already, the
//! thread gives the memory back to the system, and the appender counts one buffer less when it takes that place. Errors and the commands that answer them are rare, and go beside the rings.

use super::{
    buffer::{Buffer, Empty, Layout, Piece},
    closing::{Abandon, Counts},
    config::Config,
    desk::{Desk, Due},
    drain::{Drain, Progress, Stopped},
    loan::Loan,
};
use crate::{
    Error, Result,
    memory::{Filled, MapConfig, Vacant, halves},
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

/// Commands to the draining side, bits of one word: who sees a later one sees the earlier too.
const RETRY: u32 = 1;
/// No more buffers, and nobody left to retry.
const CLOSE: u32 = 2;

/// What both sides see. Relaxed but for two edges: each other field publishes nothing but itself, the mutex
/// publishes the error and with it that it is there and that it has to be answered, and the bell orders the commands for a writer
/// that sleeps on them.
///
/// | edge | release | acquire | what is visible |
/// |---|---|---|---|
/// | TOLD | `command` | `answer` | that the appender has taken `stuck` back, before the next failure sets it again |
/// | STUCK | `post` | `is_stuck` | that there is an error to take, before anybody calls it an old one |
#[derive(Default)]
pub(super) struct Shared {
    /// A write failed and its error has not been taken. Written by both sides.
    failed: AtomicBool,
    /// The draining side sits on a failed write and nobody has answered. It sets this, the appender takes it back.
    stuck: AtomicBool,
    /// Write nothing more. Anybody may say so, at any time.
    abandon: Abandon,
    /// Bits set by the appender; the writer clears [`RETRY`] when it obeys.
    commands: AtomicU32,
    commanded: Bell,
    /// Counters, written by the draining side; exact once it has ended.
    records: AtomicU64,
    bytes: AtomicU64,
    durable_records: AtomicU64,
    durable_bytes: AtomicU64,
    unsynced_bytes: AtomicU64,
    /// All is written, or given up, and the output is being completed.
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

    /// A buffer was not written. Gives back what was to be told and was not taken yet, which has to wait.
    fn post(&self, error: Error) -> Option<Error> {
        // All of it in the lock: who takes the error knows that the retry is waited for.
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

    /// Answers a failed write with another try; what is not told by now is not going to be.
    fn retry(&self) {
        let was_stuck = {
            let mut told = self.error();
            *told = None;
            self.failed.store(false, Relaxed);
            self.stuck.swap(false, Relaxed)
        };
        // Said to a writer that does not wait for it, it would answer the next error instead.
        if was_stuck {
            self.command(RETRY);
        }
    }

    /// As [`post`](Self::post), of the writer thread itself: nobody is left to tell anything later.
    fn post_death(&self) {
        drop(self.post(died()));
    }

    /// What a failed write comes to: syncs what is due some time, before a wait of unknown length, and tells.
    fn fail(&self, drain: &mut Drain, error: Error) {
        drain.sync_ahead();
        self.tell(drain);
        if let Some(untold) = self.post(error) {
            drain.tell_later(untold);
        }
    }

    /// Tells the counts, and what went wrong without keeping anything from being written.
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

    /// Completes the output, and counts meanwhile.
    fn close(&self, drain: &mut Drain) {
        self.is_closing.store(true, Relaxed);
        drain.close(&self.abandon, |drain| {
            let left = drain.unsynced_bytes();
            self.unsynced_bytes.store(left, Relaxed);
        });
        self.tell(drain);
    }

    fn command(&self, bit: u32) {
        self.commands.fetch_or(bit, Release); // TOLD
        self.commanded.ring();
    }

    /// The answer to an error, if there is one: `true` means retry.
    fn answer(&self) -> Option<bool> {
        match self.commands.load(Acquire) {
            // TOLD
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

/// The draining side as the appender sees it.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Empty buffers on our side, untouched so far where there is a thread.
    spare: Vec<Empty>,
    /// Whether untouched buffers are used before those that came back. Past the page cache they
    /// are: a device has just read what came back, through another cache than ours, and to refill
    /// that at once is slower than to take the one that it read longest ago. Through the page
    /// cache it was our own processor, and what came back is still warm.
    spare_first: bool,
    /// Buffers in all, wherever they are; one whose memory was given back counts until its place was taken.
    buffers: usize,
    first: usize,
    max_buffers: usize,
    /// How one more is made.
    whole_buffer_bytes: usize,
    map: MapConfig,
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
        /// The buffer whose write failed, and those that came after it.
        stuck: VecDeque<(Vacant, Buffer)>,
    },
    Over,
}

/// A buffer that was closed. Its filled half may be in the hands of the writer thread, which took a piece of it before.
struct Handed {
    vacant: Vacant,
    filled: Option<Filled>,
    piece: Piece,
}

impl Place {
    fn on_a_thread(
        drain: Drain,
        shared: &Arc<Shared>,
        config: &Config,
        max_buffers: usize,
    ) -> Result<Self> {
        let ring = spsc::Config {
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
    pub fn start(drain: Drain, spare: Vec<Empty>, config: &Config, layout: Layout) -> Result<Self> {
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
            whole_buffer_bytes: config.whole_buffer_bytes(),
            map: config.map(),
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

    /// Hands a closed buffer over; inline, this writes it.
    pub fn hand_over(&mut self, vacant: Vacant, filled: Option<Filled>, piece: Piece) {
        match &mut self.place {
            Place::Thread { full, .. } => {
                let handed = Handed {
                    vacant,
                    filled,
                    piece,
                };
                // The ring has a slot for every buffer, so only a writer that is gone refuses.
                let is_gone = full.push(handed).is_err() || full.consumer_is_gone();
                if is_gone && !self.shared.abandon.is_set() {
                    self.shared.post_death();
                }
            }
            Place::Inline { stuck, .. } => {
                // Inline, nobody takes the filled half before.
                stuck.extend(filled.map(|bytes| (vacant, Buffer { bytes, piece })));
                // Behind a failed write everything waits for the retry.
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

    /// Inline, this keeps the interval between syncs; a thread has a clock of its own.
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
                match empty.pop()? {
                    Some(buffer) => break Some(buffer),
                    None => self.buffers -= 1,
                }
            },
            Place::Inline { .. } | Place::Over => None,
        };
        first.or_else(back).or_else(|| self.spare.pop())
    }

    /// One more buffer, if there may be more and somebody is going to write it.
    pub fn grow(&mut self) -> Option<Empty> {
        let is_in_vain = self.shared.stuck.load(Acquire) || self.is_abandoned(); // STUCK
        if self.buffers >= self.max_buffers || is_in_vain || !self.is_thread() {
            return None;
        }
        match halves(self.whole_buffer_bytes, &self.map) {
            Ok(buffer) => {
                self.buffers += 1;
                Some(buffer)
            }
            // The system has no more, so this is the limit.
            Err(_) => {
                self.max_buffers = self.buffers;
                None
            }
        }
    }

    /// Buffers in all.
    pub fn buffers(&self) -> usize {
        self.buffers
    }

    #[cfg(all(test, not(loom)))]
    pub fn put_aside(&mut self, buffer: Empty) {
        self.spare.push(buffer);
    }

    /// Buffers that there may be.
    pub fn max_buffers(&self) -> usize {
        self.max_buffers
    }

    /// As [`take_empty`](Self::take_empty), waiting up to `limit` for one.
    pub fn wait_empty(&mut self, limit: Duration) -> Option<Empty> {
        let ready = self.take_empty();
        match &mut self.place {
            Place::Thread { empty, .. } if ready.is_none() => match empty.pop_wait(Some(limit)) {
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
            match empty.pop_wait(Some(limit)) {
                Ok(Some(buffer)) if self.spare.len() < self.first => self.spare.push(buffer),
                Ok(_) => self.buffers -= 1,
                Err(PopError::TimedOut) => {}
                Err(PopError::Closed) if self.shared.abandon.is_set() => {}
                Err(PopError::Closed) => self.shared.post_death(),
            }
        }
    }

    /// Empty buffers.
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

    /// Whether it sits on a failed write whose error was taken, and waits to be told what to do.
    pub fn is_stuck(&self) -> bool {
        self.shared.stuck.load(Acquire) && !self.has_failed() // STUCK
    }

    pub fn is_abandoned(&self) -> bool {
        self.shared.abandon.is_set()
    }

    /// Tries the failed write again, from the byte where it stopped.
    pub fn retry(&mut self) {
        self.shared.retry();
        if let Place::Inline { .. } = self.place {
            self.drain_inline();
        }
    }

    /// What the draining side has counted so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Of these, the bytes written.
    pub fn written_bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// No more buffers will come: the writer ends once it has written what it has, or failed to.
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
    /// It was told to end before, and somebody else joined it.
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

    /// Nothing more is to be written.
    pub fn abandon(&self) {
        self.shared.abandon.set();
        self.shared.commanded.ring();
    }

    /// Waits for the end: the drain, and the error that was not taken yet.
    pub fn join(self) -> (Option<Drain>, Option<Error>) {
        if matches!(self.ended, Ended::Before) {
            // The error belongs to who joins the end itself.
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

    /// What the draining side has counted so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

fn died() -> Error {
    Error::new("", "the writer thread died")
}

/// How long the writer thread waits for a buffer before it takes what is committed: at least this, so that a store where nothing
/// happens costs next to nothing.
const SHORTEST_PERIOD: Duration = match cfg!(test) {
    // So that tests see many pieces of one buffer.
    true => Duration::from_micros(20),
    false => Duration::from_millis(10),
};

/// How soon it looks again where a record was being committed.
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

/// Writes what is handed over, and what is due, until no more will come, or until it is given up.
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
        let (mut buffer, from) = match full.pop_wait(Some(left)) {
            Ok(handed) => {
                let bytes = handed.filled.or_else(|| in_hand.take());
                let bytes = bytes.expect("each half is on the desk, in hand, or handed over");
                let piece = handed.piece;
                (Buffer { bytes, piece }, From::Ring(handed.vacant))
            }
            Err(PopError::TimedOut) if now() < look_at => {
                drain.keep_time(now());
                shared.tell(drain);
                continue;
            }
            Err(PopError::TimedOut) => match shared.desk.take(|| !full.is_empty()) {
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
                // The ring has a slot for every buffer; an appender that is gone needs none back.
                drop(empty.push((back < first).then_some((vacant, buffer.bytes))));
            }
            From::Desk(serial) => in_hand = shared.desk.put_back(buffer.bytes, serial),
        }
        look_at = now().saturating_add(period);
    }
}

/// Where the writer thread has a buffer from.
enum From {
    Ring(Vacant),
    Desk(u64),
}

/// Writes a buffer, as often as somebody retries; `false`: it was given up.
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
            // An error that comes between another one's and its answer is answered with it.
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
