//! What the two sides of a store share besides the rings: errors, the commands that answer them, and counters.

use super::{
    abandon::Abandon,
    counts::{Counts, Progress},
    desk::Desk,
    drain::Drain,
};
use crate::{
    Error,
    sync::{Bell, held},
};
use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

/// Commands to the writing side, bits of one word: a thread that sees a later command also sees the earlier ones.
const RETRY: u32 = 1;
/// No more buffers follow, and nobody is left to retry.
pub(super) const CLOSE: u32 = 2;

/// State that both sides see. Everything is Relaxed except for two edges, because each other field publishes only itself. The
/// mutex publishes the error, and with it the flags that there is one and that it needs an answer. The bell orders the commands
/// for a writer that sleeps on them.
///
/// | edge | release | acquire | what is visible |
/// |---|---|---|---|
/// | ANSWERED | `command` | `answer` | that the appender has cleared `stuck`, before the next failure sets it again |
/// | STUCK | `post` | `is_stuck` | that there is an error to take, before a caller treats it as already taken |
#[derive(Default)]
pub(super) struct BothSides {
    /// A write failed and its error has not been taken. Written by both sides.
    pub failed: AtomicBool,
    /// The writing side waits for the answer to a failed write. The writing side sets this, the appender clears it.
    pub stuck: AtomicBool,
    /// Write nothing more. Any thread may set it at any time.
    pub abandon: Abandon,
    /// Bits set by the appender; the writer clears [`RETRY`] when it obeys.
    commands: AtomicU32,
    pub commanded: Bell,
    /// Counters, written by the writing side; exact once it has ended. Without a thread they are written only then and after a
    /// failed write: before that, the appender asks the drain.
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
    pub desk: Desk,
    error: Mutex<Option<Error>>,
}

impl BothSides {
    pub fn new(abandon: Abandon, desk: Desk) -> Self {
        BothSides {
            abandon,
            desk,
            ..BothSides::default()
        }
    }

    pub fn error(&self) -> MutexGuard<'_, Option<Error>> {
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
    pub fn take_error(&self) -> Option<Error> {
        if !self.failed.load(Relaxed) {
            return None;
        }
        let mut told = self.error();
        self.failed.store(false, Relaxed);
        told.take()
    }

    /// Answers a failed write with a retry. An error that was not taken by now is discarded.
    pub fn retry(&self) {
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
    pub fn post_death(&self) {
        drop(self.post(died()));
    }

    /// Handles a failed write: syncs what would be due later, before a wait of unknown length, and reports.
    pub fn fail(&self, drain: &mut Drain, error: Error) {
        drain.sync_ahead();
        self.tell(drain);
        if let Some(untold) = self.post(error) {
            drain.tell_later(untold);
        }
    }

    /// Publishes the counts, and an error that did not prevent any write.
    pub fn tell(&self, drain: &mut Drain) {
        let counts = drain.counts();
        self.records.store(counts.written.records, Relaxed);
        self.bytes.store(counts.written.bytes, Relaxed);
        self.durable_records.store(counts.durable.records, Relaxed);
        self.durable_bytes.store(counts.durable.bytes, Relaxed);
        self.unsynced_bytes.store(counts.unsynced_bytes, Relaxed);
        self.syncs.store(counts.syncs, Relaxed);
        self.failed_syncs.store(counts.failed_syncs, Relaxed);
        let slowest = counts.slowest_sync.as_nanos() as u64;
        self.slowest_sync_ns.store(slowest, Relaxed);
        self.tell_trouble(drain);
    }

    /// Publishes an error that did not prevent any write.
    #[inline]
    pub fn tell_trouble(&self, drain: &mut Drain) {
        if drain.has_trouble() {
            self.post_trouble(drain);
        }
    }

    #[cold]
    fn post_trouble(&self, drain: &mut Drain) {
        let mut error = self.error();
        if error.is_none() {
            *error = drain.take_trouble();
        }
        self.failed.store(true, Relaxed);
    }

    pub fn counts(&self) -> Counts {
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
    pub fn close(&self, drain: &mut Drain) {
        self.is_closing.store(true, Relaxed);
        drain.close(&self.abandon, |drain| {
            let left = drain.unsynced_bytes();
            self.unsynced_bytes.store(left, Relaxed);
        });
        self.tell(drain);
    }

    pub fn command(&self, bit: u32) {
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

    pub fn wait_for_answer(&self) -> bool {
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

pub(super) fn died() -> Error {
    Error::new("", "the writer thread died")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_error_of_a_failed_write_can_answer_it() {
        const TIMES: usize = 50_000;
        let shared = BothSides::default();
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
