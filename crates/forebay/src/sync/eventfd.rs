//! Waiting by a descriptor, so that a thread can wait for a ring or a stream together with sockets, timers and signals.
//!
//! ```text
//!   sleeper:  drain ─▶ arm ─▶ check again ─▶ poll(this descriptor and others)
//!   ringer:   publish ─▶ armed? ─▶ disarm the bell, make the descriptor readable
//! ```
//!
//! The sleeper drains the descriptor before it checks. So a drained signal never belongs to a publication that the check missed.

use super::{Bell, Block, Wait, wait::wait_asleep};
use crate::Result;
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// Checks for about 6 µs, then sleeps in `poll(2)`. The descriptor can also be used in your own poll loop.
///
/// The other end's cost is that of [`Park`](super::Park): one load per publication, and a system call only if this end has
/// armed. Each end of a ring or stream has one descriptor.
///
/// ```
/// use forebay::{stream::{stream_with, StreamConfig}, sync::Eventfd};
/// use std::os::fd::AsFd;
/// let (mut writer, mut reader) = stream_with::<Eventfd>(&StreamConfig::default())?;
/// assert!(reader.arm()); // empty: poll reader.as_fd() together with others
/// writer.push_slice(b"x");     // makes it readable
/// assert!(!reader.arm()); // there is something
/// assert_eq!(reader.peek(), b"x");
/// # let _fd = reader.as_fd();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Eventfd {
    bell: Bell,
    signal: Flag,
}

impl Eventfd {
    /// Clears the signal, and requests one at the next publication. The caller checks again.
    pub(crate) fn arm(&self) {
        self.signal.clear();
        self.bell.arm();
    }

    /// The bell's word, for code in another language: not 0 if [`wake`](Wait::wake) has work to do.
    #[cfg(not(any(loom, miri, forebay_one_view)))]
    pub(crate) fn word(&self) -> *const std::sync::atomic::AtomicU32 {
        self.bell.word()
    }

    /// Cancels the request for a signal; one may still be sent.
    pub(crate) fn disarm(&self) {
        self.bell.disarm();
    }

    /// Like [`disarm`](Eventfd::disarm); returns whether a signal was pending, which now will not be sent.
    pub(crate) fn take_down(&self) -> bool {
        self.bell.take_down()
    }

    /// Like [`wake`](Wait::wake), and calls `also` if it signals.
    pub(crate) fn wake_and(&self, also: impl FnOnce()) {
        self.bell.ring_by(|| {
            also();
            self.signal.raise();
        });
    }

    /// Sleeps until the signal, like a poll loop; may return early.
    #[cfg(test)]
    pub(crate) fn sleep(&self) {
        self.signal.wait(None);
    }
}

impl Block for Eventfd {}

impl Wait for Eventfd {
    fn new() -> Result<Self> {
        Ok(Eventfd {
            bell: Bell::default(),
            signal: Flag::new()?,
        })
    }

    #[inline(always)]
    fn wake(&self) {
        self.bell.ring_by(|| {
            self.signal.raise();
        });
    }

    fn wait(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.arm(), |left| self.signal.wait(left));
        wait_asleep(deadline, ready, &self.bell, arm, sleep)
    }
}

#[cfg(not(loom))]
impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

/// The descriptor of this end, or its model.
#[cfg(not(loom))]
pub(super) type Flag = super::Signal;
#[cfg(loom)]
pub(super) type Flag = modelled::Signal;

/// A model of the kernel: a counter under a lock, and its sleepers.
#[cfg(loom)]
mod modelled {
    use crate::Result;
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    #[derive(Debug, Default)]
    pub(in crate::sync) struct Signal {
        is_raised: Mutex<bool>,
        raised: Condvar,
    }

    impl Signal {
        pub(in crate::sync) fn new() -> Result<Signal> {
            Ok(Signal::default())
        }

        pub(in crate::sync) fn raise(&self) {
            *self.is_raised.lock().unwrap() = true;
            self.raised.notify_one();
        }

        pub(in crate::sync) fn clear(&self) {
            *self.is_raised.lock().unwrap() = false;
        }

        /// Every limit expires at once, as in `bell`.
        pub(in crate::sync) fn wait(&self, limit: Option<Duration>) -> bool {
            let mut is_raised = self.is_raised.lock().unwrap();
            while limit.is_none() && !*is_raised {
                is_raised = self.raised.wait(is_raised).unwrap();
            }
            limit.is_none()
        }
    }
}
