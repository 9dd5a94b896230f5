//! Controls a running capture, or a program that sends, from a signal handler's thread, or from any other thread.

use forebay::{Error, Result, store::Abandon, sync::Signal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long the remaining data may be written after a second stop.
const GRACE: Duration = Duration::from_secs(1);

/// A handle on a running session. Clones control the same session.
///
/// ```
/// let control = forebay_net::control::Control::new()?;
/// let elsewhere = control.clone();
/// std::thread::spawn(move || elsewhere.stop()).join().unwrap();
/// assert!(control.is_stopping() && !control.is_abandoned());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    /// The number of stop requests so far. Written by any thread, read by the session, like the flags below. Relaxed: each value
    /// publishes only itself, and the signal wakes a sleeping session.
    stops: AtomicU32,
    report: AtomicBool,
    flush: AtomicBool,
    rotate: AtomicBool,
    /// A trigger was requested. `takes_triggers`: a recorder takes it.
    trigger: AtomicBool,
    takes_triggers: AtomicBool,
    abandon: Abandon,
    wake: Signal,
}

impl Control {
    /// Creates a handle.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new() -> Result<Self> {
        Ok(Control(Arc::new(Inner {
            stops: AtomicU32::new(0),
            report: AtomicBool::new(false),
            flush: AtomicBool::new(false),
            rotate: AtomicBool::new(false),
            trigger: AtomicBool::new(false),
            takes_triggers: AtomicBool::new(false),
            abandon: Abandon::default(),
            wake: Signal::new()?,
        })))
    }

    /// Requests a stop. A capture that has ended by itself counts as stopped once.
    ///
    /// - The first call ends the capture cleanly.
    /// - The second call gives up: nothing is synced any more. Data is still written for up to a second.
    /// - The third call ends that, too.
    pub fn stop(&self) {
        match self.0.stops.fetch_add(1, Relaxed) {
            0 => {}
            1 => self.0.abandon.set_after(GRACE),
            _ => self.0.abandon.set(),
        }
        self.0.wake.raise();
    }

    /// Requests a clean end. Unlike [`stop`](Control::stop), further calls change nothing, so several programs may call it.
    ///
    /// ```
    /// let control = forebay_net::control::Control::new()?;
    /// control.finish();
    /// control.finish();
    /// assert!(control.is_stopping() && !control.gives_up());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn finish(&self) {
        self.0.stops.fetch_max(1, Relaxed);
        self.0.wake.raise();
    }

    /// Requests a report of the counts now.
    pub fn report(&self) {
        self.0.report.store(true, Relaxed);
        self.0.wake.raise();
    }

    /// Flushes buffered packets to the writer now.
    pub fn flush(&self) {
        self.0.flush.store(true, Relaxed);
        self.0.wake.raise();
    }

    /// Switches to the next file now, if there are several.
    pub fn rotate(&self) {
        self.0.rotate.store(true, Relaxed);
        self.0.wake.raise();
    }

    /// Triggers the recorder of the capture. Triggers that arrive before the recorder takes the first one count as one.
    ///
    /// Returns `false`, and does nothing, if the capture has no recorder.
    ///
    /// ```
    /// let control = forebay_net::control::Control::new()?;
    /// assert!(!control.trigger() && !control.take_trigger());
    /// control.accept_triggers(); // as a recorder does at its start
    /// assert!(control.trigger() && control.take_trigger() && !control.take_trigger());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn trigger(&self) -> bool {
        let is_accepted = self.takes_triggers();
        if is_accepted {
            self.0.trigger.store(true, Relaxed);
            self.0.wake.raise();
        }
        is_accepted
    }

    /// Announces a recorder: from here on [`trigger`](Control::trigger) is accepted.
    pub fn accept_triggers(&self) {
        self.0.takes_triggers.store(true, Relaxed);
    }

    /// Whether the capture has a recorder.
    pub fn takes_triggers(&self) -> bool {
        self.0.takes_triggers.load(Relaxed)
    }

    /// Whether a trigger was requested since the last call. For the recorder.
    pub fn take_trigger(&self) -> bool {
        self.0.trigger.load(Relaxed) && self.0.trigger.swap(false, Relaxed)
    }

    /// Whether a stop was requested.
    pub fn is_stopping(&self) -> bool {
        self.0.stops.load(Relaxed) > 0
    }

    /// The number of stop requests.
    pub(crate) fn stops(&self) -> u32 {
        self.0.stops.load(Relaxed)
    }

    /// Whether a second stop was requested.
    pub fn gives_up(&self) -> bool {
        self.0.stops.load(Relaxed) > 1
    }

    /// Whether writing has to end, too: a second after the second stop, or at the third.
    pub fn is_abandoned(&self) -> bool {
        self.0.abandon.is_set()
    }

    /// The flags for the store.
    pub(crate) fn abandon(&self) -> Abandon {
        self.0.abandon.clone()
    }

    /// Whether a report was requested since the last call.
    pub(crate) fn take_report(&self) -> bool {
        self.0.report.load(Relaxed) && self.0.report.swap(false, Relaxed)
    }

    /// Whether a flush was requested since the last call.
    pub(crate) fn take_flush(&self) -> bool {
        self.0.flush.load(Relaxed) && self.0.flush.swap(false, Relaxed)
    }

    /// Whether the next file was requested since the last call.
    pub(crate) fn take_rotate(&self) -> bool {
        self.0.rotate.load(Relaxed) && self.0.rotate.swap(false, Relaxed)
    }

    /// Readable while there are requests that the session has not processed.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// Sleeps until there is a request, `writable` becomes writable, or `limit` has passed. For programs that send. Several threads
    /// may sleep; a request other than a stop wakes one of them. After a stop was requested, requests no longer end a sleep.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn sleep(&self, writable: Option<BorrowedFd<'_>>, limit: Duration) -> Result<()> {
        let limit = Timespec::try_from(limit).ok();
        let waker = (!self.is_stopping()).then(|| self.wake_fd());
        let mut fds: Vec<_> = writable
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT))
            .into_iter()
            .chain(waker.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
            .collect();
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) if waker.is_none() || fds.last().is_none_or(|fd| fd.revents().is_empty()) => {}
            Ok(_) => {
                self.clear();
                if self.is_stopping() {
                    self.0.wake.raise(); // for all others that sleep
                }
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(Error::new("session", "waiting").because(e)),
        }
        Ok(())
    }

    /// Marks the requests as processed.
    pub(crate) fn clear(&self) {
        self.0.wake.clear();
    }
}
