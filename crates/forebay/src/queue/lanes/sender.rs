//! The sending end of a lane. It says what users may do, and waits. It imports nothing of other rooms. Read `hub` next.

use super::{Ending, Fault, SendError, handshake, lane::Outlet, link::Link};
use crate::{Error, queue::limit::Limit};
use std::{os::unix::net::UnixStream, thread, time::Duration};

/// Looks before the first sleep: some behind a pause, then some behind giving the processor away.
const LOOKS: u32 = 40;
const YIELDS: u32 = 4;

/// Puts messages into a lane of its own, for a [`Hub`](super::Hub) that it need not trust.
///
/// Dropped, it says that it closes: the hub's side gets what is left, and then [`Ending::Closed`].
#[derive(Debug)]
pub struct Sender {
    outlet: Outlet,
    link: Link,
    ending: Option<Ending>,
    sent_bytes: u64,
}

/// What happened in a lane so far, by its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Messages that were sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Bytes of the lane that were in use when there was last a look, headers included.
    pub used_bytes: usize,
}

impl Sender {
    /// Makes a lane of at least `capacity_bytes`, rounded up to whole pages with 256 more, and has it accepted by the hub
    /// that gets the other end of `socket`, within `limit` (`None`: for ever).
    ///
    /// A message takes its length, rounded up to a multiple of 8, and 8 more.
    ///
    /// # Errors
    /// A capacity of 0 or one that is absurd; no memory or maps; the hub is gone, refuses (too many peers, too long a
    /// lane), is none, or does not answer in time ([`Error::cause`] is then `TimedOut`).
    pub fn attach(
        socket: UnixStream,
        capacity_bytes: usize,
        limit: Option<Duration>,
    ) -> crate::Result<Sender> {
        let link = Link::new(socket).map_err(|error| {
            Error::new("lane", "preparing the socket")
                .because(error)
                .advise("Hand over a connected socket")
        })?;
        let outlet = handshake::attach(&link, capacity_bytes, &Limit::new(limit))?;
        Ok(Sender {
            outlet,
            link,
            ending: None,
            sent_bytes: 0,
        })
    }

    /// Sends a copy of `message`, without waiting.
    ///
    /// # Errors
    /// [`Full`](SendError::Full), [`TooLong`](SendError::TooLong), [`Ended`](SendError::Ended).
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> Result<(), SendError> {
        self.send(message, Some(Duration::ZERO))
    }

    /// Sends a copy of `message`, waiting for room for up to `limit` (`None`: for ever), whatever the receiver does.
    ///
    /// That the receiver is gone is noticed when it was asleep or the lane is full.
    ///
    /// # Errors
    /// [`TimedOut`](SendError::TimedOut), or [`Full`](SendError::Full) where it does not wait;
    /// [`TooLong`](SendError::TooLong), [`Ended`](SendError::Ended).
    ///
    /// ```
    /// use forebay::queue::lanes::{Config, Hub, SendError, Sender};
    /// use std::{os::unix::net::UnixStream, time::Duration};
    /// let hub = Hub::new(&Config::default())?;
    /// let (ours, theirs) = UnixStream::pair().unwrap();
    /// let attaching = std::thread::spawn(|| Sender::attach(theirs, 1, None));
    /// hub.accept(ours, None)?;
    /// let mut sender = attaching.join().unwrap()?;
    /// let long = vec![7; sender.largest()];
    /// assert_eq!(sender.send(&long, None), Ok(()));
    /// assert_eq!(sender.send(b"", Some(Duration::from_millis(1))), Err(SendError::TimedOut));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Option<Duration>) -> Result<(), SendError> {
        let largest = self.outlet.largest();
        if message.len() > largest {
            return Err(SendError::TooLong { largest });
        }
        if let Some(ending) = self.ending {
            return Err(SendError::Ended(ending));
        }
        if !self.has_room(message.len())? {
            self.wait_for_room(message.len(), limit)?;
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
    fn wait_for_room(&mut self, len: usize, limit: Option<Duration>) -> Result<(), SendError> {
        let waits = limit != Some(Duration::ZERO);
        let limit = Limit::new(limit);
        for look in 0..LOOKS + YIELDS {
            if !waits || self.has_room(len)? {
                break;
            }
            match look < LOOKS {
                true => std::hint::spin_loop(),
                false => thread::yield_now(),
            }
        }
        let answer = loop {
            // Its rings tell of the end, too: a call that does not wait looks for that, and asks for none.
            let link = &mut self.link;
            let has_room = match waits {
                true => self.outlet.arm(len, || {
                    link.expect_ring(); // it may come also where the look finds room
                    link.hear()
                }),
                false => link.hear().and_then(|()| self.outlet.has_room(len)),
            };
            match has_room {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(fault) => break Err(self.broke(fault)),
            }
            if self.link.has_ended() {
                break Err(self.ends());
            }
            match limit.left() {
                Some(Duration::ZERO) if waits => break Err(SendError::TimedOut),
                Some(Duration::ZERO) => break Err(SendError::Full),
                left => self.link.sleep(left),
            }
        };
        self.outlet.disarm();
        answer
    }

    /// The receiver is gone.
    fn ends(&mut self) -> SendError {
        let ending = self.outlet.how_it_left().ending();
        self.ending = Some(ending);
        SendError::Ended(ending)
    }

    /// The receiver broke the protocol.
    fn broke(&mut self, fault: Fault) -> SendError {
        let ending = Ending::Broken(fault);
        self.ending = Some(ending);
        SendError::Ended(ending)
    }

    /// Bytes of the longest message that the lane can hold: its capacity less 8.
    pub fn largest(&self) -> usize {
        self.outlet.largest()
    }

    /// Bytes of the lane for messages, headers included.
    pub fn capacity_bytes(&self) -> usize {
        self.outlet.capacity_bytes()
    }

    /// What happened so far.
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
