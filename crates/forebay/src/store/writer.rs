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
    config::StoreConfig,
    counts::Counts,
    desk::{Current, Desk},
    drain::{Drain, Stopped},
    loan::Loan,
    shared::{BothSides, CLOSE, died},
    writer_thread::{Handed, period, run},
};
use crate::{
    Error, Result,
    memory::{Filled, Vacant},
    ring::spsc::{self, Consumer, PopError, Producer},
    sync::Park,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

/// The writing side as the appender sees it.
pub(super) struct Writer {
    shared: Arc<BothSides>,
    /// Empty buffers on the appender's side: those that were not used yet, and with a thread those put aside.
    spare: VecDeque<Empty>,
    order: Order,
    /// All buffers, wherever they are. One whose memory was freed counts until its place was taken from the ring.
    buffers: usize,
    first: usize,
    max_buffers: usize,
    ahead: Ahead,
    /// Without a thread, what would otherwise lie on the desk.
    own: Option<Current>,
    place: Execution,
}

/// Which empty buffer is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// One that came back. Writes go through the page cache, so the CPU itself has read the buffer, and it is still in the cache.
    Returned,
    /// One of those that came back last, but not the last one. Writes bypass the page cache: the device has just read the buffer, not
    /// through this CPU's caches, and refilling it at once is slower. Taking turns among all buffers would touch memory that is not needed.
    InTurn,
    /// The one that was filled longest ago, so that readers find records as long as possible.
    Oldest,
}

/// How many returned buffers take turns.
const IN_TURN: usize = 2;

enum Execution {
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

impl Execution {
    fn on_a_thread(
        drain: Drain,
        shared: &Arc<BothSides>,
        config: &StoreConfig,
        first: usize,
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
        let period = period(config.flush_every);
        let plenty = config.buffers;
        let thread = std::thread::Builder::new()
            .name("forebay-writer".into())
            .spawn(move || run(drain, to_write, give_back, &shared, period, (first, plenty)))
            .map_err(|e| Error::new("store", "starting the writer thread").because(e))?;
        Ok(Execution::Thread {
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
        is_live: bool,
    ) -> Result<Self> {
        let order = match (is_live, drain.is_direct()) {
            (true, _) => Order::Oldest,
            (false, true) => Order::InTurn,
            (false, false) => Order::Returned,
        };
        let shared = Arc::new(BothSides::new(config.abandon.clone(), Desk::new(layout)));
        let first = spare.len() + 1;
        let max_buffers = config.max_buffers().max(first);
        let place = match config.thread {
            true => Execution::on_a_thread(drain, &shared, config, first, max_buffers)?,
            false => Execution::Inline {
                drain: Box::new(drain),
                stuck: Default::default(),
            },
        };
        Ok(Writer {
            shared,
            spare: spare.into(),
            order,
            buffers: first,
            first,
            max_buffers,
            ahead: Ahead::new(config, is_live),
            own: (!config.thread).then(Current::default),
            place,
        })
    }

    /// Works on the current buffer.
    #[inline]
    fn on_desk<R>(&mut self, work: impl FnOnce(&Desk, &mut Current) -> R) -> R {
        let desk = &self.shared.desk;
        match &mut self.own {
            Some(own) => work(desk, own),
            None => work(desk, &mut desk.current()),
        }
    }

    /// Reads the state of the current buffer.
    fn see_desk<R>(&self, read: impl FnOnce(&Desk, &Current) -> R) -> R {
        let desk = &self.shared.desk;
        match &self.own {
            Some(own) => read(desk, own),
            None => read(desk, &desk.current()),
        }
    }

    /// See [`Desk::open`].
    #[inline]
    pub fn open(&mut self, (mut vacant, filled): Empty, start: u64, first: u64) -> Vacant {
        self.on_desk(|desk, current| desk.open(current, &mut vacant, filled, start, first));
        vacant
    }

    /// Without a thread: writes the current buffer and keeps it as the current one, because it is still in the cache. If the
    /// write failed, there is no current buffer afterwards. Returns the output offset after it, and the number of the next record.
    /// `None`: a thread writes, an earlier buffer waits for a retry, or other buffers are used first (see [`Order`]).
    #[inline(always)]
    pub fn write_in_place(&mut self, current: &mut Option<Vacant>) -> Option<(u64, u64)> {
        let (desk, vacant) = (&self.shared.desk, current.as_mut()?);
        let (Execution::Inline { drain, stuck }, Some(own)) = (&mut self.place, &mut self.own)
        else {
            return None;
        };
        if !stuck.is_empty() || self.order != Order::Returned {
            return None;
        }
        let (bytes, piece) = desk.complete(own, vacant)?;
        let (end, next) = (piece.end(), piece.next());
        match write_inline(drain, bytes, piece, &self.shared) {
            true => desk.reopen(own, vacant, end, next),
            false => stuck.extend(current.take().zip(own.take())),
        }
        Some((end, next))
    }

    /// See [`Current::carry`].
    pub fn carry(&mut self, vacant: &mut Vacant, loan: Loan, records: u64) {
        self.on_desk(|_, current| current.carry(vacant, loan, records));
    }

    /// See [`Desk::close`].
    #[inline]
    pub fn close(&mut self, vacant: &Vacant) -> (Option<Filled>, Piece) {
        self.on_desk(|desk, current| desk.close(current, vacant))
    }

    /// See [`Current::holds`].
    pub fn holds(&self, vacant: &Vacant) -> bool {
        self.see_desk(|_, current| current.holds(vacant))
    }

    /// See [`Desk::taken`].
    pub fn taken(&self) -> usize {
        self.shared.desk.taken()
    }

    /// See [`Desk::end`].
    pub fn end_of(&self, vacant: &Vacant) -> u64 {
        self.see_desk(|desk, current| desk.end(current, vacant))
    }

    /// Hands a closed buffer over. Inline, this writes it, and keeps the empty buffer for later.
    pub fn hand_over(&mut self, vacant: Vacant, filled: Option<Filled>, piece: Piece) {
        match &mut self.place {
            Execution::Thread { full, .. } => {
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
            Execution::Inline { stuck, .. } => {
                // Inline, the filled half is never taken before.
                let Some(bytes) = filled else { return };
                // After a failed write everything waits for the retry.
                let waits = !stuck.is_empty();
                stuck.push_back((vacant, Buffer { bytes, piece }));
                if !waits {
                    self.drain_inline();
                }
            }
            Execution::Over => {}
        }
    }

    /// Keeps an empty buffer for later.
    #[cfg(all(test, not(loom)))]
    pub fn put_aside(&mut self, buffer: Empty) {
        self.spare.push_back(buffer);
    }

    fn drain_inline(&mut self) {
        let Execution::Inline { drain, stuck } = &mut self.place else {
            return;
        };
        while let Some((_, Buffer { bytes, piece })) = stuck.front_mut() {
            if !write_inline(drain, bytes, piece, &self.shared) {
                return;
            }
            let written = stuck.pop_front();
            self.spare
                .extend(written.map(|(vacant, it)| (vacant, it.bytes)));
        }
    }

    /// Inline, this keeps the interval between syncs. A writer thread reads the clock itself.
    pub fn keep_time(&mut self, now: u64) {
        if let Execution::Inline { drain, .. } = &mut self.place {
            drain.keep_time(now);
            self.shared.tell_trouble(drain);
        }
    }

    /// When [`keep_time`](Self::keep_time) has something to do.
    pub fn sync_due_at(&self) -> Option<u64> {
        match &self.place {
            Execution::Inline { drain, .. } => drain.sync_due_at(),
            Execution::Thread { .. } | Execution::Over => None,
        }
    }

    /// Whether it has more buffers than its first ones, the current one, and one that is being written.
    fn has_grown(&self) -> bool {
        self.buffers > self.first + 2
    }

    /// Puts returned buffers aside, all but [`IN_TURN`], and says whether there are fewer.
    fn few_returned(&mut self) -> bool {
        let Execution::Thread { empty, .. } = &mut self.place else {
            return true;
        };
        while empty.len() > IN_TURN {
            match empty.try_pop() {
                Ok(Some(buffer)) => self.spare.push_back(buffer),
                Ok(None) => self.buffers -= 1,
                Err(_) => break,
            }
        }
        empty.len() < IN_TURN
    }

    /// An empty buffer, if there is one.
    pub fn take_empty(&mut self) -> Option<Empty> {
        let first = match self.order {
            Order::Oldest => self.spare.pop_front(),
            // None are put aside, so that the thread finds too many, and frees them.
            _ if self.has_grown() => self.spare.pop_back(),
            Order::Returned => None,
            Order::InTurn => match self.few_returned() {
                true => self.spare.pop_back(),
                false => None,
            },
        };
        let back = || match &mut self.place {
            Execution::Thread { empty, .. } => loop {
                match empty.try_pop() {
                    Ok(Some(buffer)) => break Some(buffer),
                    Ok(None) => self.buffers -= 1,
                    Err(PopError::Empty | PopError::TimedOut) => break None,
                    Err(PopError::Closed) => {
                        // Nothing else would report that the caller's sink or framing panicked.
                        if !self.shared.abandon.is_set() {
                            self.shared.post_death();
                        }
                        break None;
                    }
                }
            },
            Execution::Inline { .. } | Execution::Over => None,
        };
        first.or_else(back).or_else(|| self.spare.pop_back())
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

    /// The largest number of buffers allowed.
    pub fn max_buffers(&self) -> usize {
        self.max_buffers
    }

    /// As [`take_empty`](Self::take_empty), but waits up to `limit` for one.
    pub fn wait_empty(&mut self, limit: Duration) -> Option<Empty> {
        let ready = self.take_empty();
        match &mut self.place {
            Execution::Thread { empty, .. } if ready.is_none() => match empty.pop_timeout(limit) {
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
        if let Execution::Thread { empty, .. } = &mut self.place {
            match empty.pop_timeout(limit) {
                Ok(Some(buffer)) if self.spare.len() < self.first || buffer.0.is_shared() => {
                    self.spare.push_back(buffer);
                }
                Ok(_) => self.buffers -= 1,
                Err(PopError::Empty | PopError::TimedOut) => {}
                Err(PopError::Closed) if self.shared.abandon.is_set() => {}
                Err(PopError::Closed) => self.shared.post_death(),
            }
        }
    }

    /// The number of empty buffers.
    pub fn empties(&mut self) -> usize {
        let back = match &mut self.place {
            Execution::Thread { empty, .. } => empty.len(),
            Execution::Inline { .. } | Execution::Over => 0,
        };
        back + self.spare.len()
    }

    pub fn is_thread(&self) -> bool {
        matches!(self.place, Execution::Thread { .. })
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
        if let Execution::Inline { .. } = self.place {
            self.drain_inline();
        }
    }

    /// The current counts of the writing side.
    pub fn counts(&self) -> Counts {
        match &self.place {
            Execution::Inline { drain, .. } => drain.counts(),
            Execution::Thread { .. } | Execution::Over => self.shared.counts(),
        }
    }

    /// No more buffers follow. The writer ends once it has written what it has, or failed to.
    pub fn end(&mut self) -> Ending {
        let shared = self.shared.clone();
        let ended = match std::mem::replace(&mut self.place, Execution::Over) {
            Execution::Thread { full, thread, .. } => {
                drop(full);
                shared.command(CLOSE);
                Ended::Thread(thread)
            }
            Execution::Inline { mut drain, stuck } => {
                if let Some((_, Buffer { bytes, piece })) = stuck.front() {
                    drain.give_up(bytes, piece);
                }
                shared.close(&mut drain);
                Ended::Inline(drain)
            }
            Execution::Over => Ended::Before,
        };
        Ending { shared, ended }
    }
}

/// Writes a piece. `false`: the write failed, or the store is abandoned.
#[inline(always)]
fn write_inline(
    drain: &mut Drain,
    bytes: &mut Filled,
    piece: &mut Piece,
    shared: &BothSides,
) -> bool {
    match drain.write(bytes, piece, &shared.abandon) {
        Ok(()) => {}
        Err(Stopped::Failed(error)) => {
            shared.fail(drain, error);
            return false;
        }
        Err(Stopped::Abandoned) => return false,
    }
    piece.give_back();
    shared.tell_trouble(drain);
    true
}

/// A writer that gets no more buffers.
pub(super) struct Ending {
    shared: Arc<BothSides>,
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
