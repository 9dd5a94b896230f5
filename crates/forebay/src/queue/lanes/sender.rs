//! The sending end of a lane: the public interface, and waiting.

use super::{Ending, Fault, SendError, handshake, lane::Outlet, link::Link};
use crate::{
    Error,
    sync::{Deadline, limited, spin_then_yield},
};
use std::{os::unix::net::UnixStream, time::Duration};

/// Yields before the first sleep.
pub(super) const YIELDS: u32 = 4;

/// Sends messages through its own lane to a [`Hub`](super::Hub), without trusting it.
///
/// Dropping it closes the lane: the hub receives the messages that are left, and then [`Ending::Closed`].
#[derive(Debug)]
pub struct Sender {
    outlet: Outlet,
    link: Link,
    ending: Option<Ending>,
    sent_bytes: u64,
}

/// Counts of a lane, kept by its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderStats {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of these messages.
    pub sent_bytes: u64,
    /// Bytes of the lane that were in use when the receiver's position was last loaded, headers included.
    pub used_bytes: usize,
}

impl Sender {
    /// Makes a lane, and waits until the hub at the other end of `socket` accepts it.
    ///
    /// The lane has at least `capacity_bytes`; with 256 bytes more, it is rounded up to whole pages. A message takes its length,
    /// rounded up to a multiple of 8, plus 8.
    ///
    /// # Errors
    /// - The capacity is 0 or absurdly large, or there is not enough memory or mappings.
    /// - The hub is gone, or refuses because it has too many peers or the lane is too long.
    /// - The other end is not a hub.
    pub fn attach(socket: UnixStream, capacity_bytes: usize) -> crate::Result<Sender> {
        Sender::attach_until(socket, capacity_bytes, &Deadline::never())
    }

    /// Like [`attach`](Sender::attach), but waits for up to `timeout`.
    ///
    /// # Errors
    /// Those of `attach`; and the hub does not answer in time ([`Error::cause`] is then `TimedOut`).
    pub fn attach_timeout(
        socket: UnixStream,
        capacity_bytes: usize,
        timeout: Duration,
    ) -> crate::Result<Sender> {
        Sender::attach_until(socket, capacity_bytes, &Deadline::after(timeout))
    }

    fn attach_until(
        socket: UnixStream,
        capacity_bytes: usize,
        deadline: &Deadline,
    ) -> crate::Result<Sender> {
        let link = Link::new(socket).map_err(|error| {
            Error::new("lane", "preparing the socket")
                .because(error)
                .advise("Use a connected socket")
        })?;
        let outlet = handshake::attach(&link, capacity_bytes, deadline)?;
        Ok(Sender {
            outlet,
            link,
            ending: None,
            sent_bytes: 0,
        })
    }

    limited! {
        /// Sends a copy of `message`. If the lane is full, waits for room.
        ///
        /// It notices that the receiver is gone only if the receiver was asleep or the lane is full.
        ///
        /// # Errors
        /// [`TooLong`](SendError::TooLong), [`Ended`](SendError::Ended).
        fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError>,
        |deadline| self.send_until(message.as_ref(), &deadline),
        no wait: try_send "\n\n# Errors\nThose of `send`, and [`Full`](SendError::Full).",
        for: send_timeout "\n\n# Errors\nThose of `send`, and [`TimedOut`](SendError::TimedOut).",
        until: send_deadline
    }

    #[inline]
    fn send_until(&mut self, message: &[u8], deadline: &Deadline) -> Result<(), SendError> {
        let largest = self.outlet.largest();
        if message.len() > largest {
            return Err(SendError::TooLong { largest });
        }
        if let Some(ending) = self.ending {
            return Err(SendError::Ended(ending));
        }
        if !self.has_room(message.len())? {
            self.wait_for_room(message.len(), deadline)?;
        }
        let rings = self.outlet.put(message);
        self.sent_bytes += message.len() as u64;
        if rings && !self.link.ring() {
            return Err(self.ends());
        }
        Ok(())
    }

    fn has_room(&mut self, len: usize) -> Result<bool, SendError> {
        (self.outlet.has_room(len)).map_err(|fault| self.broke(fault))
    }

    #[cold]
    fn wait_for_room(&mut self, len: usize, deadline: &Deadline) -> Result<(), SendError> {
        let waits = deadline.may_wait();
        if waits
            && let Some(answer) = spin_then_yield(YIELDS, deadline, || match self.has_room(len) {
                Ok(false) => None,
                answer => Some(answer.map(drop)),
            })
        {
            return answer;
        }
        let answer = loop {
            // Taking rings also detects the end. A call that does not wait checks for that, and requests no ring.
            let link = &mut self.link;
            let has_room = match waits {
                true => self.outlet.arm(len, || {
                    link.expect_ring(); // a ring may also come if there is room now
                    link.drain_rings()
                }),
                false => link.drain_rings().and_then(|()| self.outlet.has_room(len)),
            };
            match has_room {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(fault) => break Err(self.broke(fault)),
            }
            if self.link.has_ended() {
                break Err(self.ends());
            }
            match deadline.left() {
                Some(Duration::ZERO) if waits => break Err(SendError::TimedOut),
                Some(Duration::ZERO) => break Err(SendError::Full),
                left => self.link.sleep(left),
            }
        };
        self.outlet.disarm();
        answer
    }

    /// Ends the lane because the receiver is gone.
    fn ends(&mut self) -> SendError {
        let ending = self.outlet.how_it_left().ending();
        self.ending = Some(ending);
        SendError::Ended(ending)
    }

    /// Ends the lane because the receiver broke the protocol.
    fn broke(&mut self, fault: Fault) -> SendError {
        let ending = Ending::Broken(fault);
        self.ending = Some(ending);
        SendError::Ended(ending)
    }

    /// Length in bytes of the longest message that the lane can hold: its capacity less 8.
    pub fn largest(&self) -> usize {
        self.outlet.largest()
    }

    /// Bytes of the lane for messages, headers included.
    pub fn capacity_bytes(&self) -> usize {
        self.outlet.capacity_bytes()
    }

    /// The counts of the lane so far.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            sent: self.outlet.sent(),
            sent_bytes: self.sent_bytes,
            used_bytes: self.outlet.used_bytes(),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.outlet.leave();
    }
}
