//! The port's side of one worker: batches that come from it, and the read ones on their way back.
//!
//! ```text
//!  worker ── full ring ──▶ ahead ──▶ the port reads it ──▶ back │ 1 │ 2 │ 3 │ ── empty ring ──▶ worker
//!                                                          several at once
//! ```
//! A worker that sleeps for want of a batch is woken for several windows, not for each. How many batches there are
//! depends on what they hold: few where each takes a window's memory along, which is warm when it comes round again; many
//! where next to nothing passes, so that the port has something to do when it is woken. Where much begins to pass behind a
//! stretch in which nothing did, all of the many may take a window along before they become few again.
//!
//! Nobody waits for what is held back here: the port hands it over before it sleeps. It imports `batch`, and rings. Read `port` next.

use super::batch::Batch;
use forebay::{
    Result,
    ring::spsc::{Consumer, Producer, RingConfig, ring, ring_with},
    sync::Park,
};
use std::thread::JoinHandle;

/// Batches of one worker where they hold much.
const FEW: usize = 8;
/// Batches of one worker.
const MANY: usize = 32;
/// Batches that go back together.
const TOGETHER: usize = FEW / 2;
/// With fewer empty ones left a worker rings: early enough that the port gives some back before there is none.
pub(super) const RING_BELOW: usize = FEW / 2;

pub(super) struct WorkerQueue {
    full: Consumer<Batch>,
    /// From it, and not yet next.
    ahead: Option<Batch>,
    empty: Producer<Batch, Park>,
    /// Read, and not yet handed over.
    back: Vec<Batch>,
    /// Batches there are, wherever they are.
    batches: usize,
    pub thread: JoinHandle<()>,
}

/// The worker's side.
pub(super) struct Rings {
    pub empty: Consumer<Batch, Park>,
    pub full: Producer<Batch>,
}

impl WorkerQueue {
    /// The port's side of the worker that `start` makes a thread of.
    ///
    /// # Errors
    /// No thread or memory is left.
    pub fn new(start: impl FnOnce(Rings) -> Result<JoinHandle<()>>) -> Result<Self> {
        let batches = RingConfig {
            capacity: MANY,
            ..RingConfig::default()
        };
        let (mut empty, theirs) = ring_with(&batches)?;
        let (to_us, full) = ring(MANY)?;
        empty.push_burst(&mut (0..FEW).map(|_| Batch::default()));
        let thread = start(Rings {
            empty: theirs,
            full: to_us,
        })?;
        Ok(WorkerQueue {
            full,
            ahead: None,
            empty,
            back: Vec::with_capacity(2 * TOGETHER),
            batches: FEW,
            thread,
        })
    }

    /// The batch of this window, if it has come; otherwise whether it may still come.
    pub fn take(&mut self, window: u64) -> std::result::Result<Batch, bool> {
        let mut may_come = false;
        if self.ahead.is_none() {
            let is_gone = self.full.producer_is_gone();
            self.ahead = self.full.pop();
            may_come = self.ahead.is_none() && !is_gone;
        }
        let next = self.ahead.take_if(|batch| batch.window == window);
        next.ok_or(may_come)
    }

    /// Takes back a batch that was read, and with it one more or less: `is_light` is whether it holds next to nothing.
    pub fn give_back(&mut self, mut batch: Batch, is_light: bool) {
        if is_light && self.batches < MANY {
            self.batches += 1;
            self.back.push(Batch::default());
        } else if !is_light && self.batches > FEW {
            self.batches -= 1;
            return;
        }
        batch.clear();
        self.back.push(batch);
        if self.back.len() >= TOGETHER {
            self.hand_over();
        }
    }

    /// Gives the worker what it can fill again.
    pub fn hand_over(&mut self) {
        if !self.back.is_empty() {
            // There is room for every batch there is.
            self.empty.push_burst(&mut self.back.drain(..));
        }
    }

    /// From here on it is as if the worker had ended without a word.
    #[cfg(test)]
    pub fn lose(&mut self) {
        self.full = ring(1).unwrap().1;
    }
}
