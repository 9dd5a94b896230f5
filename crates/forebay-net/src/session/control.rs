//! How the outside talks to a running session: from a signal handler's thread, or any other.

use forebay::{Error, Result, store::Abandon};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

/// How long what is left may be written after a second stop.
const GRACE: Duration = Duration::from_secs(1);

/// A handle on a running session; clones talk to the same one.
///
/// ```
/// let control = forebay_net::session::Control::new()?;
/// let elsewhere = control.clone();
/// std::thread::spawn(move || elsewhere.stop()).join().unwrap();
/// assert!(control.is_stopping() && !control.is_abandoned());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone)]
pub struct Control(Arc<Inner>);

struct Inner {
    /// Requests to stop so far. Written by any thread, read by the session; the flags below too.
    /// Relaxed: each publishes nothing but itself, and the eventfd wakes a session that sleeps.
    stops: AtomicU32,
    report: AtomicBool,
    flush: AtomicBool,
    rotate: AtomicBool,
    abandon: Abandon,
    wake: OwnedFd,
}

impl Control {
    /// A new handle.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake =
            eventfd(0, flags).map_err(|e| Error::new("session", "making an eventfd").because(e))?;
        Ok(Control(Arc::new(Inner {
            stops: AtomicU32::new(0),
            report: AtomicBool::new(false),
            flush: AtomicBool::new(false),
            rotate: AtomicBool::new(false),
            abandon: Abandon::default(),
            wake,
        })))
    }

    fn wake(&self) {
        // It fails only when the counter is full, and then the session is being woken already.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Stop. The first call finishes cleanly. The second one gives up: nothing is synced any more, and what can be written
    /// within a second still is. A third one ends that, too. A capture that has ended by itself counts as stopped once.
    pub fn stop(&self) {
        match self.0.stops.fetch_add(1, Relaxed) {
            0 => {}
            1 => self.0.abandon.set_after(GRACE),
            _ => self.0.abandon.set(),
        }
        self.wake();
    }

    /// Nothing more is to be captured: the next stop gives up.
    pub(super) fn end(&self) {
        self.0.stops.fetch_max(1, Relaxed);
    }

    /// Report the counts now.
    pub fn report(&self) {
        self.0.report.store(true, Relaxed);
        self.wake();
    }

    /// Hand over what is buffered now.
    pub fn flush(&self) {
        self.0.flush.store(true, Relaxed);
        self.wake();
    }

    /// Go on to the next file now, where there are several.
    pub fn rotate(&self) {
        self.0.rotate.store(true, Relaxed);
        self.wake();
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.0.stops.load(Relaxed) > 0
    }

    /// How often a stop was asked for.
    pub(super) fn stops(&self) -> u32 {
        self.0.stops.load(Relaxed)
    }

    /// Whether a second stop was asked for.
    pub fn gives_up(&self) -> bool {
        self.0.stops.load(Relaxed) > 1
    }

    /// Whether nothing more is to be written, either: a second after that, or with a third stop.
    pub fn is_abandoned(&self) -> bool {
        self.0.abandon.is_set()
    }

    /// The store's side of that.
    pub(super) fn abandon(&self) -> Abandon {
        self.0.abandon.clone()
    }

    /// Whether a report was asked for since the last call.
    pub(super) fn take_report(&self) -> bool {
        self.0.report.load(Relaxed) && self.0.report.swap(false, Relaxed)
    }

    /// Whether a flush was asked for since the last call.
    pub(super) fn take_flush(&self) -> bool {
        self.0.flush.load(Relaxed) && self.0.flush.swap(false, Relaxed)
    }

    /// Whether the next file was asked for since the last call.
    pub(super) fn take_rotate(&self) -> bool {
        self.0.rotate.load(Relaxed) && self.0.rotate.swap(false, Relaxed)
    }

    /// Readable while there is something that the session has not looked at.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// The session has looked.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0.wake, &mut [0; 8]);
    }
}
