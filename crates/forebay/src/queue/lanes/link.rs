//! The socket of a lane: it carries wake-ups, signals the end of the other side, and is closed carefully.
//!
//! A byte over it is a wake-up, called a ring. Sending one never blocks, whatever the other side does with its end. A shared
//! eventfd could not guarantee that: any process that holds it can make writes to it block.
//!
//! A socket's queue may hold descriptors that the peer sent. Closing the last descriptor of a file can take as long as the
//! file's creator chooses. A thread with a time limit therefore never closes them itself; see [`foreign`](crate::foreign).

use super::Fault;
use crate::{foreign::close_elsewhere, sys::passing};
use std::{
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

/// This side's end of the socket.
#[derive(Debug)]
pub(super) struct Link {
    /// `Some` until dropped.
    socket: Option<UnixStream>,
    /// Rings that may still arrive.
    due: u64,
    has_ended: bool,
}

impl Link {
    pub(super) fn new(socket: UnixStream) -> io::Result<Link> {
        let link = Link {
            socket: Some(socket),
            due: 0,
            has_ended: false,
        };
        passing::plainly(&link)?;
        Ok(link)
    }

    /// Wakes the other side; false if it is gone.
    pub(super) fn ring(&mut self) -> bool {
        self.has_ended |= passing::ring(self).is_err();
        !self.has_ended
    }

    /// Allows for one more ring.
    pub(super) fn expect_ring(&mut self) {
        self.due += 1;
    }

    /// Removes up to 64 rings that have arrived, and detects whether the other side is gone. Never waits.
    ///
    /// # Errors
    /// More rings arrived than were requested, or descriptors.
    pub(super) fn drain_rings(&mut self) -> Result<(), Fault> {
        let mut bytes = [0; 64];
        let len = match passing::peek_bytes(self, &mut bytes) {
            Ok((_, true)) => return Err(Fault::Descriptors),
            Ok((len, false)) => len,
            Err(error) if is_nothing_yet(&error) => return Ok(()),
            Err(_) => 0,
        };
        self.has_ended |= len == 0;
        self.due = self.due.checked_sub(len as u64).ok_or(Fault::Noise)?;
        // The bytes were there just now, and no other thread takes them.
        let _ = passing::take(self, &mut bytes[..len]);
        Ok(())
    }

    /// Sleeps until the other side rings or is gone, for up to `limit`; it may return early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        passing::wait_readable(self, limit);
    }

    /// Shuts the socket down in both directions: the other side sees that this one is gone.
    pub(super) fn shut(&mut self) {
        self.has_ended = true;
        passing::shut_down(self);
    }

    /// Whether the other side is known to be gone.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that the other side is gone.
    pub(super) fn ends(&mut self) {
        self.has_ended = true;
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let socket = self.socket.as_ref();
        socket.expect("the socket is there until dropped").as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        passing::shut_down(self);
        // Nothing more arrives after this: closing closes only what is in the queue now.
        let is_empty = matches!(passing::peek_bytes(self, &mut [0]), Ok((0, false)));
        match self.socket.take() {
            Some(socket) if !is_empty => close_elsewhere(socket.into()),
            socket => drop(socket),
        }
    }
}

/// Whether a socket call failed only because it would have to wait.
pub(super) fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
