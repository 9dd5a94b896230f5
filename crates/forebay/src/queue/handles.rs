//! What all handles of a queue in this process share, and when it ends. It imports `sync`. Read `sender` next.

use super::{Config, WhenFull, core::Core};
use crate::{
    Result,
    sync::atomic::{AtomicUsize, Ordering::AcqRel},
};

/// A queue and how many hold which end of it.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) core: Core,
    pub(super) when_full: WhenFull,
    pub(super) senders: Count,
    pub(super) receivers: Count,
    /// Whether the queue ends with the last handle of a kind: not where other processes may have some.
    closes: bool,
}

impl Handles {
    /// A queue with one sender and one receiver.
    pub(super) fn new(config: &Config) -> Result<Handles> {
        Ok(Handles {
            core: Core::new(config.capacity_bytes, &config.memory())?,
            when_full: config.when_full,
            senders: Count(AtomicUsize::new(1)),
            receivers: Count(AtomicUsize::new(1)),
            closes: true,
        })
    }

    /// A queue that others have, too, without any handle yet.
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

    /// One handle fewer of those that `count` counts; closes the queue with the last one.
    pub(super) fn leave(&self, count: &Count) {
        if count.0.fetch_sub(1, AcqRel) == 1 && self.closes {
            self.core.close();
        }
    }
}

/// Handles of one kind.
#[derive(Debug)]
pub(super) struct Count(AtomicUsize);

impl Count {
    /// One more; whoever asks holds one.
    pub(super) fn join(&self) {
        self.0.fetch_add(1, AcqRel);
    }
}
