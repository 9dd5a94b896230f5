//! What the threads that receive from a hub wait on: the sockets of all peers, and the end of the thread that leads.

use super::{Peer, link::Link};
use crate::{
    Error,
    sync::{Deadline, Signal, held},
    sys::passing::{Epoll, Happening},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A number in [`Epoll`] that no peer has.
const CLOSED: u64 = u64::MAX;

/// What the threads of a hub wait on.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Watches all sockets, and `closed`.
    epoll: Epoll,
    /// Raised permanently when the hub closes.
    closed: Signal,
    is_led: Mutex<bool>,
    resigned: Condvar,
}

impl Waiting {
    pub(super) fn new() -> crate::Result<Waiting> {
        let closed = Signal::new()?;
        let make = || -> io::Result<Waiting> {
            let waiting = Waiting {
                epoll: Epoll::new()?,
                closed,
                is_led: Mutex::new(false),
                resigned: Condvar::new(),
            };
            waiting.epoll.add(&waiting.closed, CLOSED)?;
            Ok(waiting)
        };
        make().map_err(|error| {
            Error::new("hub", "making descriptors to wait on")
                .because(error)
                .advise("Too many files are open: close some, or raise `ulimit -n`")
        })
    }

    pub(super) fn watch(&self, link: &Link, peer: Peer) -> io::Result<()> {
        self.epoll.add(link, peer.0)
    }

    pub(super) fn unwatch(&self, link: &Link) {
        self.epoll.remove(link);
    }

    pub(super) fn close(&self) {
        self.closed.raise();
        drop(held(&self.is_led)); // a thread that checked before the store now waits on `resigned`
        self.resigned.notify_all();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_raised()
    }

    /// Waits until no thread leads, then lets the caller lead until it [resigns](Waiting::resign). False if the deadline passes first,
    /// or the hub is closed.
    pub(super) fn lead(&self, deadline: &Deadline) -> bool {
        let mut is_led = held(&self.is_led);
        while *is_led {
            if self.is_closed() {
                return false;
            }
            is_led = match deadline.left() {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    let answer = self.resigned.wait_timeout(is_led, left);
                    answer.unwrap_or_else(PoisonError::into_inner).0
                }
                None => (self.resigned.wait(is_led)).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *is_led = true;
        true
    }

    /// Lets the next thread lead.
    pub(super) fn resign(&self) {
        *held(&self.is_led) = false;
        self.resigned.notify_one();
    }

    /// Sleeps on all sockets for up to `limit`, until a peer rings or is gone.
    pub(super) fn listen(&self, limit: Option<Duration>) -> impl Iterator<Item = Happening> {
        self.epoll.wait(limit)
    }
}

impl AsFd for Waiting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
