//! How workers wake a port whose owner sleeps in `poll`: an eventfd that is written to only while
//! somebody waits for it.
//!
//! ```text
//!  port:     arm ─▶ (fence) ─▶ look again ─▶ poll until readable
//!  worker:   publish batches … ─▶ few empty ones left, or gone ─▶ (fence) ─▶ armed? ─▶ write
//! ```
//! Workers do not ring for each batch: the port would be woken for a handful of packets, again and
//! again. They ring when few empty batches are left, before they sleep for want of one, and when they are gone.
//!
//! | Edge | One side | Other side | What it gives |
//! |---|---|---|---|
//! | WAKE | `arm`: store true, SeqCst fence, then the second look | `ring`: after the publishing store, SeqCst fence, load | One of the two sees the other: the worker sees true and writes, or the second look sees what was published. Never neither |
//!
//! So no wake-up is missed: the batch that the port waits for comes from a worker that, sooner or
//! later, sleeps for want of an empty one or is gone. (A window is claimed with an empty batch in
//! hand, so nobody who waits for the baton waits for the port.) Whatever it published before the second look
//! was seen by that, and behind what it publishes later it rings.

use forebay::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
            fence,
        },
    },
};

/// Clones ring and wake the same one.
#[derive(Clone)]
pub(super) struct Notify(Arc<Inner>);

struct Inner {
    /// Written by the port (both) and by workers (false). Relaxed: the fences order it.
    is_armed: AtomicBool,
    fd: OwnedFd,
}

impl Notify {
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let fd = eventfd(0, flags).map_err(|e| Error::new("file", "making an eventfd").because(e));
        Ok(Notify(Arc::new(Inner {
            is_armed: AtomicBool::new(false),
            fd: fd?,
        })))
    }

    /// Who waits looks once more behind this.
    pub fn arm(&self) {
        self.0.is_armed.store(true, Relaxed);
        fence(SeqCst); // WAKE, the port's side
    }

    pub fn disarm(&self) {
        self.0.is_armed.store(false, Relaxed);
        // A worker that rings just now leaves it readable: then the next sleep is a short one.
        let _ = rustix::io::read(&self.0.fd, &mut [0; 8]);
    }

    /// Wakes who waits, behind what was published.
    pub fn ring(&self) {
        fence(SeqCst); // WAKE, the worker's side
        if self.0.is_armed.load(Relaxed) && self.0.is_armed.swap(false, Relaxed) {
            // It fails only when the counter is full, and then it is readable already.
            let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
