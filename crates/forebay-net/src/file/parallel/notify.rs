//! How workers wake a port whose owner sleeps in `poll`: a signal that is raised only while a thread waits for it.
//!
//! ```text
//!  port:     arm ─▶ (fence) ─▶ check again ─▶ poll until readable
//!  worker:   publish batches … ─▶ few empty ones left, or ended ─▶ (fence) ─▶ armed? ─▶ write
//! ```
//! Workers do not notify for each batch, because that would wake the port again and again for a few packets. They notify when
//! few empty batches are left, which is before they sleep for want of one, and when they end.
//!
//! | Edge | One side | Other side | What it gives |
//! |---|---|---|---|
//! | WAKE | `arm`: store true, SeqCst fence, then the second check | `notify`: after the publishing store, SeqCst fence, load | At least one of the two sees the other: the worker sees true and writes, or the second check sees what was published |
//!
//! No wake-up is missed. The batch that the port waits for comes from a worker that sooner or later sleeps for want of an empty
//! batch, or ends. (A worker claims a window only with an empty batch in hand, so a worker that waits for the token never waits
//! for the port.) The second check sees everything published before it, and a worker notifies after everything it publishes
//! later.

use forebay::{Result, sync::Signal};
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

/// Clones notify the same port.
#[derive(Clone)]
pub(super) struct Notify(Arc<NotifyState>);

struct NotifyState {
    /// Written by the port (both) and by workers (false). Relaxed: the fences order it.
    is_armed: AtomicBool,
    signal: Signal,
}

impl Notify {
    pub fn new() -> Result<Self> {
        Ok(Notify(Arc::new(NotifyState {
            is_armed: AtomicBool::new(false),
            signal: Signal::new()?,
        })))
    }

    /// The caller checks once more after this, and then waits.
    pub fn arm(&self) {
        self.0.is_armed.store(true, Relaxed);
        fence(SeqCst); // WAKE, the port's side
    }

    pub fn disarm(&self) {
        self.0.is_armed.store(false, Relaxed);
        // A worker that notifies at this moment leaves the signal raised, which shortens the next sleep.
        self.0.signal.clear();
    }

    /// Wakes the port if it waits. Call it after publishing.
    pub fn notify(&self) {
        fence(SeqCst); // WAKE, the worker's side
        if self.0.is_armed.load(Relaxed) && self.0.is_armed.swap(false, Relaxed) {
            self.0.signal.raise();
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.signal.as_fd()
    }
}
