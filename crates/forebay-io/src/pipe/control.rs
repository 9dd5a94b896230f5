//! Controls a running pipe from a signal handler's thread, or from any other thread.
//!
//! ```text
//!   stop() ─▶ stopping: the filler's poll returns     stop() again ─▶ abandoned: the drainer's poll returns, too
//!   report() ─▶ reports: the supervisor's poll returns
//! ```

use forebay::{Result, sync::Signal};
use std::sync::Arc;

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
    stopping: Signal,
    abandoned: Signal,
    reports: Signal,
}

impl Control {
    /// Creates a handle.
    ///
    /// # Errors
    /// No file descriptors are available.
    pub fn new() -> Result<Self> {
        Ok(Control(Arc::new(Inner {
            stopping: Signal::new()?,
            abandoned: Signal::new()?,
            reports: Signal::new()?,
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

    pub(super) fn stopping(&self) -> &Signal {
        &self.0.stopping
    }

    pub(super) fn abandoned(&self) -> &Signal {
        &self.0.abandoned
    }

    pub(super) fn reports(&self) -> &Signal {
        &self.0.reports
    }
}
