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
