//! The socket beside a lane: it wakes the other side, tells of its end, and is closed with care.
//!
//! A byte over it is a ring. Sending one never blocks, whatever the other side does with its own end, which an eventfd that
//! both hold could not promise: whoever holds it can make writes to it block. It imports `sys`. Read `handshake` next.
//!
//! A socket's queue may hold descriptors that the peer sent, and to close the last descriptor of a thing can take as
//! long as its maker likes. So nothing that holds any is closed by a thread that has a time limit, but by [`close_elsewhere`].

use super::Fault;
use crate::{sync::held, sys::passing};
use std::{
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::Mutex,
    thread,
    time::Duration,
};

/// Our end of the socket.
#[derive(Debug)]
pub(super) struct Link {
    /// There until dropped.
    socket: Option<UnixStream>,
    /// Rings that may still come.
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

    /// One ring more may come.
    pub(super) fn expect_ring(&mut self) {
        self.due += 1;
    }

    /// Takes rings that have come, 64 at most, and notices when the other side is gone. Without waiting.
    ///
    /// # Errors
    /// What came is more than was asked for.
    pub(super) fn hear(&mut self) -> Result<(), Fault> {
        let mut bytes = [0; 64];
        let len = match passing::peek_bytes(self, &mut bytes) {
            Ok((_, true)) => return Err(Fault::Descriptors),
            Ok((len, false)) => len,
            Err(error) if is_nothing_yet(&error) => return Ok(()),
            Err(_) => 0,
        };
        self.has_ended |= len == 0;
        self.due = self.due.checked_sub(len as u64).ok_or(Fault::Noise)?;
        // It was there just now, and nobody else takes it.
        let _ = passing::take(self, &mut bytes[..len]);
        Ok(())
    }

    /// Sleeps until the other side rings or is gone, for `limit` at most; it may return early.
    pub(super) fn sleep(&self, limit: Option<Duration>) {
        passing::wait_readable(self, limit);
    }

    /// Lets nothing in or out any more: for the other side, we are gone.
    pub(super) fn shut(&mut self) {
        self.has_ended = true;
        passing::shut_down(self);
    }

    /// Whether the other side is gone, as far as was noticed.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Notes that the other side is gone.
    pub(super) fn ends(&mut self) {
        self.has_ended = true;
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let socket = self.socket.as_ref();
        socket.expect("it is there until the end").as_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        passing::shut_down(self);
        // Nothing comes in any more: what is in the queue now is all that closing would close.
        let is_empty = matches!(passing::peek_bytes(self, &mut [0]), Ok((0, false)));
        match self.socket.take() {
            Some(socket) if !is_empty => close_elsewhere(socket.into()),
            socket => drop(socket),
        }
    }
}

/// Whether a call on a socket only says that it would have to wait.
pub(super) fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Closes a descriptor of unknown kind without waiting for that: each in a thread of its own, so that one that never closes
/// holds up no other.
pub(super) fn close_elsewhere(descriptor: OwnedFd) {
    // Not handed over by the closure: where no thread can be made, it would be dropped, and so closed, here.
    static DUE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    held(&DUE).push(descriptor);
    let close_what_is_due = || {
        loop {
            let Some(next) = held(&DUE).pop() else { return };
            drop(next);
        }
    };
    let closer = thread::Builder::new().name("forebay-closer".to_owned());
    // What stays here for want of a thread, the next one closes.
    let _ = closer.spawn(close_what_is_due);
}
