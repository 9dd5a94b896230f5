//! A descriptor that one thread makes readable, and another polls together with others.

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
};
use std::{io, time::Duration};

/// An eventfd: readable after `raise`, until `drain`.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> io::Result<Signal> {
        Ok(Signal(eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
        )?))
    }

    /// Makes it readable.
    pub(crate) fn raise(&self) {
        // It fails only if the counter is full, in which case the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub(crate) fn drain(&self) {
        // It fails only if it was not raised.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Waits until it is readable; false only after the time limit. It may return early, so the caller must check again.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> bool {
        // A limit beyond the kernel's range means no limit.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        poll(&mut [PollFd::new(self, PollFlags::IN)], limit.as_ref()) != Ok(0)
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
