//! Waiting by a descriptor, so that a thread can wait for a ring or a stream beside sockets, timers and signals.
//!
//! It builds on `bell` and sleeps through `sys`. Read `stream` next, where it is used.
//!
//! ```text
//!   sleeper:  drain ─▶ arm ─▶ look again ─▶ poll(this descriptor and others)
//!   ringer:   publish ─▶ armed? ─▶ quiet the bell, make the descriptor readable
//! ```
//!
//! Drained before the look, a signal is never taken for something that was not looked at.

use super::{Bell, Wait, wait::wait_asleep};
use crate::{Error, Result};
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Looks for about six microseconds, then sleeps in `poll(2)`. The descriptor is there for poll loops of your own.
///
/// The other end pays what [`Park`](super::Park) costs: a load a publication, and a system call only when somebody has
/// armed. Each end of a ring or stream has one descriptor.
///
/// ```
/// use forebay::{stream::{stream_with, Config}, sync::Eventfd};
/// use std::os::fd::AsFd;
/// let (mut writer, mut reader) = stream_with::<Eventfd>(&Config::default())?;
/// assert!(reader.arm()); // nothing there: poll for reader.as_fd(), beside others
/// writer.push(b"x");     // makes it readable
/// assert!(!reader.arm()); // there is something: look instead
/// assert_eq!(reader.peek(), b"x");
/// # let _fd = reader.as_fd();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Eventfd {
    bell: Bell,
    signal: Signal,
}

impl Eventfd {
    /// Takes back what was signalled, and asks for a signal at the next publication; the caller looks again.
    pub(crate) fn arm(&self) {
        self.signal.drain();
        self.bell.arm();
    }

    /// Wants no signal any more; one may come all the same.
    pub(crate) fn disarm(&self) {
        self.bell.disarm();
    }

    /// As [`disarm`](Eventfd::disarm); says whether a signal was still to come, which now will not.
    pub(crate) fn take_down(&self) -> bool {
        self.bell.take_down()
    }

    /// As [`wake`](Wait::wake), and calls `also` if it signals.
    pub(crate) fn wake_and(&self, also: impl FnOnce()) {
        self.bell.ring_by(|| {
            also();
            self.signal.raise();
        });
    }

    /// Sleeps until the signal, as a poll loop does; it may come back early.
    #[cfg(test)]
    pub(crate) fn sleep(&self) {
        self.signal.wait(None);
    }
}

impl Wait for Eventfd {
    fn new() -> Result<Self> {
        let signal = Signal::new().map_err(|error| {
            Error::new("eventfd", "making a descriptor to wait on")
                .because(error)
                .advise("Too many files are open: close some, or raise `ulimit -n`")
        })?;
        Ok(Eventfd {
            bell: Bell::default(),
            signal,
        })
    }

    #[inline(always)]
    fn wake(&self) {
        self.bell.ring_by(|| self.signal.raise());
    }

    fn wait(&self, limit: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.arm(), |left| self.signal.wait(left));
        wait_asleep(limit, ready, &self.bell, arm, sleep)
    }
}

#[cfg(not(loom))]
impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

#[cfg(not(loom))]
use crate::sys::eventfd::Signal;
#[cfg(loom)]
use modelled::Signal;

/// What the kernel does: a counter behind a lock, and sleepers on it.
#[cfg(loom)]
mod modelled {
    use loom::sync::{Condvar, Mutex};
    use std::{io, time::Duration};

    #[derive(Debug, Default)]
    pub(super) struct Signal {
        is_raised: Mutex<bool>,
        raised: Condvar,
    }

    impl Signal {
        pub(super) fn new() -> io::Result<Signal> {
            Ok(Signal::default())
        }

        pub(super) fn raise(&self) {
            *self.is_raised.lock().unwrap() = true;
            self.raised.notify_one();
        }

        pub(super) fn drain(&self) {
            *self.is_raised.lock().unwrap() = false;
        }

        /// Every limit is over at once, as in `bell`.
        pub(super) fn wait(&self, limit: Option<Duration>) -> bool {
            let mut is_raised = self.is_raised.lock().unwrap();
            while limit.is_none() && !*is_raised {
                is_raised = self.raised.wait(is_raised).unwrap();
            }
            limit.is_none()
        }
    }
}
