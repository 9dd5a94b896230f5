//! Controls a running pipe from a signal handler's thread, or from any other thread.
//!
//! ```text
//!   stop() ─▶ stopping: the filler's poll returns     stop() again ─▶ abandoned: the drainer's poll returns, too
//!   report() ─▶ reports: the supervisor's poll returns
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

/// A handle on a running pipe. Clones control the same pipe.
///
/// ```
/// let control = forebay_io::pipe::Control::new()?;
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
    /// Creates a handle.
    ///
    /// # Errors
    /// No file descriptors are available.
    pub fn new() -> Result<Self> {
        let flag = || Flag::new().map_err(no_descriptor);
        Ok(Control(Arc::new(Inner {
            stopping: flag()?,
            abandoned: flag()?,
            reports: flag()?,
        })))
    }

    /// Requests a stop. The first call ends reading; bytes already read are still written. The second call discards them.
    pub fn stop(&self) {
        if self.0.stopping.raise() {
            self.0.abandoned.raise();
        }
    }

    /// Requests a report of the counts now.
    pub fn report(&self) {
        self.0.reports.raise();
    }

    /// Whether a stop was requested.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_raised()
    }

    /// Whether a second stop was requested.
    pub fn is_abandoned(&self) -> bool {
        self.0.abandoned.is_raised()
    }

    /// Stops at once, without draining.
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
    Error::new("pipe", "creating an eventfd")
        .because(cause)
        .advise("Too many files are open: close some, or raise `ulimit -n`")
}

/// A flag, and a descriptor that is readable while it is raised.
#[derive(Debug)]
pub(super) struct Flag {
    /// Relaxed: it publishes only itself, and the descriptor wakes a sleeping thread.
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

    /// Raises the flag. Returns whether it was raised before.
    pub fn raise(&self) -> bool {
        let was = self.raised.swap(true, Relaxed);
        // The write can only fail if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        was
    }

    pub fn is_raised(&self) -> bool {
        self.raised.load(Relaxed)
    }

    /// Clears the flag. Returns whether it was raised.
    pub fn take(&self) -> bool {
        // The descriptor first: a flag raised in between is either seen here, or wakes the thread again.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.raised.swap(false, Relaxed)
    }
}

impl AsFd for Flag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
