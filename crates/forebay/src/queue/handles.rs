//! The state that all handles of a queue in this process share, and the rule for closing it.

use super::{QueueConfig, WhenFull, core::Core};
use crate::{
    Result,
    sync::atomic::{AtomicUsize, Ordering::AcqRel},
};

/// A queue, and the number of handles of each of its ends.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) core: Core,
    pub(super) when_full: WhenFull,
    pub(super) senders: Count,
    pub(super) receivers: Count,
    /// Whether the queue closes with the last handle of a kind. Not if other processes may hold handles.
    closes: bool,
}

impl Handles {
    /// A queue with one sender and one receiver.
    pub(super) fn new(config: &QueueConfig) -> Result<Handles> {
        Ok(Handles {
            core: Core::new(config.capacity_bytes, &config.memory())?,
            when_full: config.when_full,
            senders: Count(AtomicUsize::new(1)),
            receivers: Count(AtomicUsize::new(1)),
            closes: true,
        })
    }

    /// A queue that other processes share, without any handle yet.
    #[cfg(not(loom))]
    pub(super) fn shared(core: Core, when_full: WhenFull) -> Handles {
        Handles {
            core,
            when_full,
            senders: Count(AtomicUsize::new(0)),
            receivers: Count(AtomicUsize::new(0)),
            closes: false,
        }
    }

    /// Removes one of the handles that `count` counts, and closes the queue with the last one.
    pub(super) fn leave(&self, count: &Count) {
        if count.0.fetch_sub(1, AcqRel) == 1 && self.closes {
            self.core.close();
        }
    }
}

/// The number of handles of one kind.
#[derive(Debug)]
pub(super) struct Count(AtomicUsize);

impl Count {
    /// Adds one; the caller already holds one.
    pub(super) fn join(&self) {
        self.0.fetch_add(1, AcqRel);
    }
}

/// What both ends of a queue have: `$end` with its count `$count` in [`Handles`].
macro_rules! handle {
    ($end:ident, $count:ident) => {
        impl $end {
            /// Closes the queue for all senders. Receivers get the messages that are left, and then `Closed`.
            ///
            /// Between processes, it waits while a stopped process holds the senders' lock.
            pub fn close(&self) {
                self.handles.core.close();
            }

            /// The queue's memory in bytes, headers included: the requested capacity, rounded up to whole pages.
            pub fn capacity_bytes(&self) -> usize {
                self.handles.core.capacity()
            }

            /// The counts of the queue so far. Waits for the queue's locks, and stops senders and receivers while it walks over
            /// the messages.
            ///
            /// # Errors
            /// Never in a queue of one process. Between processes, [`Broken`](StatsError::Broken).
            pub fn stats(&self) -> Result<Stats, StatsError> {
                Ok(self.handles.core.stats(&Deadline::never())?)
            }

            /// Like [`stats`](Self::stats), but waits for up to `timeout`, which matters between processes: a stopped one may hold
            /// a lock.
            ///
            /// # Errors
            /// Those of `stats`, and [`Held`](StatsError::Held).
            pub fn stats_timeout(&self, timeout: Duration) -> Result<Stats, StatsError> {
                Ok(self.handles.core.stats(&Deadline::after(timeout))?)
            }
        }

        impl Clone for $end {
            fn clone(&self) -> $end {
                self.handles.$count.join();
                $end::new(self.handles.clone())
            }
        }

        impl Drop for $end {
            fn drop(&mut self) {
                self.handles.leave(&self.handles.$count);
            }
        }

        debug!([] $end, |this| capacity_bytes: this.capacity_bytes());
    };
}
pub(super) use handle;
