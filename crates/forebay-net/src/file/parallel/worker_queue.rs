//! The port's side of one worker: batches that arrive from it, and batches that return to it.
//!
//! ```text
//!  worker ── full ring ──▶ ahead ──▶ the port reads it ──▶ back │ 1 │ 2 │ 3 │ ── empty ring ──▶ worker
//!                                                          several at once
//! ```
//! Batches return several at once, so that a worker that sleeps for want of one is woken for several windows. The number of
//! batches depends on what they hold. There are few while each carries a window of memory, which is then still in the cache
//! when it is used again. There are many while nearly no packet matches, so that the port has work to do when it is woken. Where
//! many packets begin to match after a stretch without any, all of the many may carry a window until their number shrinks.
//!
//! No worker waits for batches that are held back here: the port hands them over before it sleeps.

use super::batch::Batch;
use forebay::{
    Result,
    ring::spsc::{Consumer, Producer, RingConfig, ring, ring_with},
    sync::Park,
};
use std::thread::JoinHandle;

/// Batches of one worker while they hold many packets.
const MIN_BATCHES: usize = 8;
/// Batches of one worker while they hold few packets.
const MAX_BATCHES: usize = 32;
/// Batches that return together.
const RETURN_TOGETHER: usize = MIN_BATCHES / 2;
/// A worker with fewer empty batches notifies the port, early enough that the port can return some before none is left.
pub(super) const NOTIFY_BELOW: usize = MIN_BATCHES / 2;

pub(super) struct WorkerQueue {
    full: Consumer<Batch>,
    /// A batch that has arrived before its turn.
    ahead: Option<Batch>,
    empty: Producer<Batch, Park>,
    /// Batches that were read and not yet handed over.
    back: Vec<Batch>,
    /// The total number of batches, wherever they are.
    batches: usize,
    pub thread: JoinHandle<()>,
}

/// The worker's side.
pub(super) struct Rings {
    pub empty: Consumer<Batch, Park>,
    pub full: Producer<Batch>,
}

impl WorkerQueue {
    /// Creates the rings, and calls `start` with the worker's ends to start its thread.
    ///
    /// # Errors
    /// No thread or memory is available.
    pub fn new(start: impl FnOnce(Rings) -> Result<JoinHandle<()>>) -> Result<Self> {
        let batches = RingConfig {
            capacity: MAX_BATCHES,
            ..RingConfig::default()
        };
        let (mut empty, theirs) = ring_with(&batches)?;
        let (to_us, full) = ring(MAX_BATCHES)?;
        empty.push_burst(&mut (0..MIN_BATCHES).map(|_| Batch::default()));
        let thread = start(Rings {
            empty: theirs,
            full: to_us,
        })?;
        Ok(WorkerQueue {
            full,
            ahead: None,
            empty,
            back: Vec::with_capacity(2 * RETURN_TOGETHER),
            batches: MIN_BATCHES,
            thread,
        })
    }

    /// The batch of this window. `Err`: it has not arrived; whether it still may.
    pub fn take(&mut self, window: u64) -> std::result::Result<Batch, bool> {
        let mut may_arrive = false;
        if self.ahead.is_none() {
            let is_gone = self.full.producer_is_gone();
            self.ahead = self.full.try_pop().ok();
            may_arrive = self.ahead.is_none() && !is_gone;
        }
        let next = self.ahead.take_if(|batch| batch.window == window);
        next.ok_or(may_arrive)
    }

    /// Takes back a batch that was read, and adjusts the number of batches. `is_light`: it holds few packets or none.
    pub fn give_back(&mut self, mut batch: Batch, is_light: bool) {
        if is_light && self.batches < MAX_BATCHES {
            self.batches += 1;
            self.back.push(Batch::default());
        } else if !is_light && self.batches > MIN_BATCHES {
            self.batches -= 1;
            return;
        }
        batch.clear();
        self.back.push(batch);
        if self.back.len() >= RETURN_TOGETHER {
            self.hand_over();
        }
    }

    /// Hands the worker the batches that it can fill again.
    pub fn hand_over(&mut self) {
        if !self.back.is_empty() {
            // The ring has room for all batches.
            self.empty.push_burst(&mut self.back.drain(..));
        }
    }

    /// Simulates a worker that ended without reporting an end.
    #[cfg(test)]
    pub fn lose(&mut self) {
        self.full = ring(1).unwrap().1;
    }
}
