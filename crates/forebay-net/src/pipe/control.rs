//! How the outside talks to a running pipe: from a signal handler's thread, or any other.
//!
//! ```text
//!   stop() ─▶ stopping: the filler's poll returns     stop() again ─▶ abandoned: the drainer's poll returns, too
//!   report() ─▶ reports: whoever supervises the two looks up
//! ```

use forebay::{Error, Result};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A handle on a running pipe; clones talk to the same one.
///
/// ```
/// let control = forebay_net::pipe::Control::new()?;
/// let elsewhere = control.clone();
/// std::thread::spawn(move || elsewhere.stop()).join().unwrap();
/// assert!(control.is_stopping() && !control.is_abandoned());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stopping: Flag,
    abandoned: Flag,
    reports: Flag,
}

impl Control {
    /// A new handle.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> Result<Self> {
        let flag = || Flag::new().map_err(no_descriptor);
        Ok(Control(Arc::new(Inner {
            stopping: flag()?,
            abandoned: flag()?,
            reports: flag()?,
        })))
    }

    /// Stop: the first call ends the reading, and what was read is still written; a second one gives that up.
    pub fn stop(&self) {
        if self.0.stopping.raise() {
            self.0.abandoned.raise();
        }
    }

    /// Report the counts now.
    pub fn report(&self) {
        self.0.reports.raise();
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_raised()
    }

    /// Whether a second stop was asked for.
    pub fn is_abandoned(&self) -> bool {
        self.0.abandoned.is_raised()
    }

    /// Gives up at once, drain and all.
    pub(super) fn abandon(&self) {
        self.0.stopping.raise();
        self.0.abandoned.raise();
    }

    pub(super) fn stopping(&self) -> &Flag {
        &self.0.stopping
    }

    pub(super) fn abandoned(&self) -> &Flag {
        &self.0.abandoned
    }

    pub(super) fn reports(&self) -> &Flag {
        &self.0.reports
    }
}

pub(super) fn no_descriptor(cause: std::io::Error) -> Error {
    Error::new("pipe", "making an eventfd")
        .because(cause)
        .advise("Too many files are open: close some, or raise `ulimit -n`")
}

/// Something that becomes true, and a descriptor that is readable as long as it is.
#[derive(Debug)]
pub(super) struct Flag {
    /// Relaxed: it publishes nothing but itself, and the descriptor wakes who sleeps.
    raised: AtomicBool,
    fd: OwnedFd,
}

impl Flag {
    pub fn new() -> std::io::Result<Self> {
        Ok(Flag {
            raised: AtomicBool::new(false),
            fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Makes it true; says whether it was already.
    pub fn raise(&self) -> bool {
        let was = self.raised.swap(true, Relaxed);
        // It can only fail where the counter is full, and then it is readable.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        was
    }

    pub fn is_raised(&self) -> bool {
        self.raised.load(Relaxed)
    }

    /// Makes it false; says whether it was true.
    pub fn take(&self) -> bool {
        // First the descriptor: who raises it in between is heard now or woken again.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.raised.swap(false, Relaxed)
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
