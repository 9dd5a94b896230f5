//! The receiving end: copies messages out, or lends them in place.
//!
//! This is the public interface; `waiting` does the work, and its answers become [`RecvError`] here.
//!
//! ```text
//!  take() ─▶ Message: &[u8] in the queue ── drop ─▶ its room can be reused once all room before it is free
//!  take_burst(n) ─▶ Burst of up to n messages
//! ```

use super::{
    RecvError, Stats, StatsError,
    copy::copy,
    core::{Core, Frame},
    handles::Handles,
    limit::Limit,
    watch::{For, Watch},
};
use crate::sync::Arc;
use std::{fmt, ops::Deref, time::Duration};

/// Messages that [`Receiver::take_burst`] takes at a time.
const BURST: usize = 64;

/// Receives messages from a queue. It can be cloned, or shared by threads. Each message goes to one receiver.
///
/// When the last one is dropped, the queue closes.
pub struct Receiver {
    handles: Arc<Handles>,
}

/// Length and number of a message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Length of the message in bytes. It is at the start of the buffer.
    pub len: usize,
    /// Number of the message: how many were reserved before it, by all senders.
    pub sequence: u64,
    /// Whether another process received it before, and died. Never true in a queue of one process.
    pub redelivered: bool,
}

impl Receiver {
    pub(super) fn new(handles: Arc<Handles>) -> Receiver {
        Receiver { handles }
    }

    /// Copies the next message into `buffer`, without waiting.
    ///
    /// # Errors
    /// - [`Empty`](RecvError::Empty), also while the next message is still being filled.
    /// - [`Closed`](RecvError::Closed).
    /// - [`TooSmall`](RecvError::TooSmall).
    /// - [`TimedOut`](RecvError::TimedOut) if another thread holds a lock of the queue for 10 ms, which happens only if that
    ///   thread was preempted.
    #[inline]
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.recv(buffer, Some(Duration::ZERO))
    }

    /// Copies the next message into `buffer`, waiting for one for up to `limit` (`None`: forever).
    ///
    /// # Errors
    /// - [`TimedOut`](RecvError::TimedOut).
    /// - [`Closed`](RecvError::Closed) once the queue is empty.
    /// - [`TooSmall`](RecvError::TooSmall) if the message is longer than `buffer`. It stays in the queue for another receiver,
    ///   or for this one with a larger buffer.
    ///
    /// ```
    /// use forebay::queue::RecvError;
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// sender.send(b"hello", None).unwrap();
    /// let mut buffer = vec![0; 2];
    /// let Err(RecvError::TooSmall { needed }) = receiver.recv(&mut buffer, None) else { panic!() };
    /// buffer.resize(needed, 0);
    /// assert_eq!(receiver.recv(&mut buffer, None).unwrap().len, 5);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], limit: Option<Duration>) -> Result<Received, RecvError> {
        self.next(buffer.len(), &Limit::new(limit))
            .map(|message| message.copy_to(buffer))
            .map_err(|no| RecvError::from_no(no, limit != Some(Duration::ZERO)))
    }

    /// Copies the next message that fits into `buffer`, waiting for up to `limit`. While the next message is longer, it waits
    /// until another receiver has taken that one.
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut), and [`Closed`](RecvError::Closed) once the queue is empty.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// sender.send(b"a long one", None).unwrap();
    /// sender.send(b"short", None).unwrap();
    /// let modest = receiver.clone();
    /// let thread = std::thread::spawn(move || modest.recv_fitting(&mut [0; 5], None));
    /// assert_eq!(receiver.recv(&mut [0; 10], None).unwrap().sequence, 0);
    /// assert_eq!(thread.join().unwrap().unwrap().sequence, 1);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn recv_fitting(
        &self,
        buffer: &mut [u8],
        limit: Option<Duration>,
    ) -> Result<Received, RecvError> {
        let limit = Limit::new(limit);
        loop {
            let no = match self.next(buffer.len(), &limit) {
                Ok(message) => return Ok(message.copy_to(buffer)),
                Err(no) => RecvError::from_no(no, true),
            };
            if !matches!(no, RecvError::TooSmall { .. }) {
                return Err(no);
            }
            if limit.is_over() {
                return Err(RecvError::TimedOut);
            }
            (self.handles.core.let_others_take(buffer.len(), &limit))
                .map_err(|no| RecvError::from_no(no, true))?;
        }
    }

    /// Takes the next message without copying it and without waiting.
    ///
    /// # Errors
    /// Like [`try_recv`](Receiver::try_recv), but never `TooSmall`.
    pub fn try_take(&self) -> Result<Message<'_>, RecvError> {
        self.take(Some(Duration::ZERO))
    }

    /// Takes the next message without copying it, waiting for one for up to `limit` (`None`: forever).
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut), and [`Closed`](RecvError::Closed) once the queue is empty.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// sender.send(b"hello", None).unwrap();
    /// let message = receiver.take(None).unwrap();
    /// assert_eq!((&*message, message.sequence()), (&b"hello"[..], 0));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn take(&self, limit: Option<Duration>) -> Result<Message<'_>, RecvError> {
        self.next(usize::MAX, &Limit::new(limit))
            .map_err(|no| RecvError::from_no(no, limit != Some(Duration::ZERO)))
    }

    /// Takes up to `most` messages without copying them, in order. It waits for the first one for up to `limit`, and then adds
    /// those that are already there. The lock is taken once for up to 64 messages.
    ///
    /// # Errors
    /// Like [`take`](Receiver::take).
    ///
    /// # Panics
    /// If `most` is 0.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// for number in 0..5_u8 {
    ///     sender.send(&[number], None).unwrap();
    /// }
    /// let burst = receiver.take_burst(3, None).unwrap();
    /// assert!(burst.iter().eq([(0, &[0][..]), (1, &[1]), (2, &[2])]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn take_burst(&self, most: usize, limit: Option<Duration>) -> Result<Burst<'_>, RecvError> {
        assert!(most > 0, "a burst of no messages");
        let core = &self.handles.core;
        let mut burst = Burst {
            core,
            frames: Vec::with_capacity(most.min(BURST)),
        };
        let mut limit_now = Limit::new(limit);
        loop {
            let frames = &mut burst.frames;
            // Only as many as need no allocation, which would happen under a lock.
            let some = frames.capacity().min(most) - frames.len();
            match core.take_within(some, usize::MAX, &limit_now, |frame| frames.push(frame)) {
                Err(no) if frames.is_empty() => {
                    return Err(RecvError::from_no(no, limit != Some(Duration::ZERO)));
                }
                Ok(()) if frames.len() == frames.capacity() && frames.len() < most => {
                    frames.reserve(frames.len());
                    limit_now = Limit::new(Some(Duration::ZERO)); // only messages that are already there
                }
                _ => return Ok(burst),
            }
        }
    }

    #[inline]
    fn next(&self, fits: usize, limit: &Limit) -> super::core::Answer<Message<'_>> {
        let core = &self.handles.core;
        let frame = core.take_one(fits, limit)?;
        Ok(Message {
            core,
            frame: Some(frame),
        })
    }

    /// Returns a descriptor for poll loops that wait for a message, or for the end.
    ///
    /// # Errors
    /// Too many files are open, or the queue is [shared](super::shared) with other processes, which have no descriptor to
    /// signal.
    pub fn watch(&self) -> crate::Result<Watch> {
        Watch::new(&self.handles, For::Message)
    }

    /// Closes the queue for all senders. Receivers get the messages that are left, and then `Closed`.
    ///
    /// Between processes, it waits while a stopped process holds the senders' lock.
    pub fn close(&self) {
        self.handles.core.close();
    }

    /// Length in bytes of the longest message that the queue can hold. A buffer of this size fits every message.
    pub fn largest(&self) -> usize {
        self.handles.core.largest()
    }

    /// The queue's memory in bytes, headers included: the requested capacity, rounded up to whole pages.
    pub fn capacity_bytes(&self) -> usize {
        self.handles.core.capacity()
    }

    /// The counts of the queue so far. Waits for the queue's locks for up to `limit` (`None`: forever), and stops senders and
    /// receivers while it walks over the messages.
    ///
    /// # Errors
    /// Never in a queue of one process. Between processes, [`Held`](StatsError::Held) while a stopped process holds a lock, and
    /// [`Broken`](StatsError::Broken).
    pub fn stats(&self, limit: Option<Duration>) -> Result<Stats, StatsError> {
        let stats = self.handles.core.stats(&Limit::new(limit));
        stats.map_err(StatsError::from_no)
    }
}

impl Clone for Receiver {
    fn clone(&self) -> Receiver {
        self.handles.receivers.join();
        Receiver::new(self.handles.clone())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.handles.leave(&self.handles.receivers);
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

/// A received message, borrowed from the queue's memory. Dropping it releases its room.
///
/// Room is reused in order, so the queue fills up if a message is kept for long or forgotten.
pub struct Message<'a> {
    core: &'a Core,
    /// `Some` until dropped.
    frame: Option<Frame>,
}

impl Message<'_> {
    /// Number of the message: how many were reserved before it, by all senders.
    pub fn sequence(&self) -> u64 {
        self.frame().sequence
    }

    /// Whether another process received it before, and died. Never true in a queue of one process.
    pub fn is_redelivered(&self) -> bool {
        self.frame().again
    }

    fn frame(&self) -> &Frame {
        self.frame
            .as_ref()
            .expect("the frame is there until dropped")
    }

    #[inline]
    fn copy_to(self, buffer: &mut [u8]) -> Received {
        let len = self.len();
        copy(&self, &mut buffer[..len]);
        Received {
            len,
            sequence: self.sequence(),
            redelivered: self.is_redelivered(),
        }
    }
}

impl Deref for Message<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.core.read(self.frame())
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            self.core.release(frame);
            self.core.ring_room();
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("len", &self.len())
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

/// Received messages, borrowed from the queue's memory, in order; at least one. Dropping the burst releases their room.
pub struct Burst<'a> {
    core: &'a Core,
    frames: Vec<Frame>,
}

impl Burst<'_> {
    /// Number of messages in the burst.
    #[allow(clippy::len_without_is_empty)] // a burst is never empty
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// The messages in order, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.frames
            .iter()
            .map(|frame| (frame.sequence, self.core.read(frame)))
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        for frame in self.frames.drain(..) {
            self.core.release(frame);
        }
        self.core.ring_room();
    }
}

impl fmt::Debug for Burst<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
