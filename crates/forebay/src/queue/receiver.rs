//! The receiving end: copies messages out, or lends them in place.
//!
//! This is the public interface; `waiting` does the work, and its answers become [`RecvError`] here.
//!
//! ```text
//!  take() ─▶ Message: &[u8] in the queue ── drop ─▶ its room can be reused once all room before it is free
//!  take_burst(n) ─▶ Burst of up to n messages
//! ```

use super::{
    Burst, Message, Received, RecvError, Stats, StatsError,
    handles::{Handles, handle},
    watch::{For, Watch},
};
use crate::sync::{Arc, Deadline, limited};
use std::time::Duration;

/// Messages that [`Receiver::take_burst`] takes at a time.
const BURST: usize = 64;

/// Receives messages from a queue. It can be cloned, or shared by threads. Each message goes to one receiver.
///
/// When the last one is dropped, a queue between threads closes. A [shared](super::shared) queue stays open: other processes may
/// have receivers, or attach later. There [`close`](Receiver::close) closes it.
pub struct Receiver {
    pub(super) handles: Arc<Handles>,
}

impl Receiver {
    pub(super) fn new(handles: Arc<Handles>) -> Receiver {
        Receiver { handles }
    }

    limited! {
        /// Copies the next message into `buffer`, waiting for one if the queue is empty.
        ///
        /// # Errors
        /// - [`Closed`](RecvError::Closed) once the queue is closed and empty.
        /// - [`TooSmall`](RecvError::TooSmall) if the message is longer than `buffer`. It stays in the queue for another receiver,
        ///   or for this one with a larger buffer.
        ///
        /// ```
        /// use forebay::queue::RecvError;
        /// let (sender, receiver) = forebay::queue::queue(4096)?;
        /// sender.send("hello").unwrap();
        /// let mut buffer = vec![0; 2];
        /// let Err(RecvError::TooSmall { needed }) = receiver.recv(&mut buffer) else { panic!() };
        /// buffer.resize(needed, 0);
        /// assert_eq!(receiver.recv(&mut buffer).unwrap().len, 5);
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError>,
        |deadline| self.recv_until(buffer, &deadline),
        no wait: try_recv "\n\n# Errors\nThose of `recv`, [`Empty`](RecvError::Empty), also while the next message is still being filled, \
            and [`TimedOut`](RecvError::TimedOut) if another thread holds a lock of the queue for 10 ms, which happens only if that \
            thread is preempted or stopped.",
        for: recv_timeout "\n\n# Errors\nThose of `recv`, and [`TimedOut`](RecvError::TimedOut).",
        until: recv_deadline
    }

    #[inline]
    fn recv_until(&self, buffer: &mut [u8], deadline: &Deadline) -> Result<Received, RecvError> {
        let message = self.next(buffer.len(), deadline)?;
        Ok(message.copy_to(buffer))
    }

    limited! {
        /// Takes the next message without copying it, waiting for one if the queue is empty.
        ///
        /// # Errors
        /// [`Closed`](RecvError::Closed) once the queue is closed and empty.
        ///
        /// ```
        /// let (sender, receiver) = forebay::queue::queue(4096)?;
        /// sender.send("hello").unwrap();
        /// let message = receiver.take().unwrap();
        /// assert_eq!((&*message, message.sequence()), (&b"hello"[..], 0));
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn take(&self) -> Result<Message<'_>, RecvError>,
        |deadline| self.next(usize::MAX, &deadline),
        no wait: try_take "\n\n# Errors\nThose of `take`, and [`Empty`](RecvError::Empty) and [`TimedOut`](RecvError::TimedOut) as for \
            [`try_recv`](Receiver::try_recv).",
        for: take_timeout "\n\n# Errors\nThose of `take`, and [`TimedOut`](RecvError::TimedOut).",
        until: take_deadline
    }

    /// [Takes](Receiver::take) one message after another until the queue is closed and empty (or `Broken`).
    ///
    /// A message keeps its room until it is dropped. Drop each one soon: a caller that collects them waits forever once they
    /// fill the queue.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// std::thread::spawn(move || ["a", "bc"].map(|text| sender.send(text))); // then drops the sender
    /// let mut bytes = 0;
    /// for message in &receiver {
    ///     bytes += message.len();
    /// }
    /// assert_eq!(bytes, 3);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            receiver: self,
            waits: true,
        }
    }

    /// [Takes](Receiver::try_take) one message after another until none is there.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// sender.send("a").unwrap();
    /// assert_eq!(receiver.try_iter().count(), 1);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn try_iter(&self) -> Iter<'_> {
        Iter {
            receiver: self,
            waits: false,
        }
    }

    /// Takes up to `max` messages without copying them, in order. It waits for the first one, and then adds those that are
    /// already there. The lock is taken once for up to 64 messages. With a `max` of 0, the burst is empty.
    ///
    /// # Errors
    /// Those of [`take`](Receiver::take).
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// for number in 0..5_u8 {
    ///     sender.send([number]).unwrap();
    /// }
    /// let burst = receiver.take_burst(3).unwrap();
    /// assert!(burst.iter().eq([(0, &[0][..]), (1, &[1]), (2, &[2])]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn take_burst(&self, max: usize) -> Result<Burst<'_>, RecvError> {
        self.take_burst_until(max, Deadline::never())
    }

    /// Like [`take_burst`](Receiver::take_burst), without waiting for a message.
    ///
    /// # Errors
    /// Those of [`try_take`](Receiver::try_take).
    pub fn try_take_burst(&self, max: usize) -> Result<Burst<'_>, RecvError> {
        self.take_burst_until(max, Deadline::now())
    }

    /// Like [`take_burst`](Receiver::take_burst), but waits for the first message for up to `timeout`.
    ///
    /// # Errors
    /// Those of [`take_timeout`](Receiver::take_timeout).
    pub fn take_burst_timeout(
        &self,
        max: usize,
        timeout: Duration,
    ) -> Result<Burst<'_>, RecvError> {
        self.take_burst_until(max, Deadline::after(timeout))
    }

    fn take_burst_until(&self, max: usize, mut deadline: Deadline) -> Result<Burst<'_>, RecvError> {
        let core = &self.handles.core;
        let mut burst = Burst::with_capacity(&self.handles, max.min(BURST));
        if max == 0 {
            return Ok(burst);
        }
        loop {
            let frames = burst.frames();
            // Only as many as need no allocation, which would happen under a lock.
            let some = frames.capacity().min(max) - frames.len();
            match core.take_within(some, usize::MAX, &deadline, |frame| frames.push(frame)) {
                Err(error) if frames.is_empty() => {
                    return Err(RecvError::new(error, deadline.may_wait()));
                }
                Ok(()) if frames.len() == frames.capacity() && frames.len() < max => {
                    frames.reserve(frames.len());
                    deadline = Deadline::now(); // only messages that are already there
                }
                _ => return Ok(burst),
            }
        }
    }

    #[inline]
    fn next(&self, fits: usize, deadline: &Deadline) -> Result<Message<'_>, RecvError> {
        match self.handles.core.take_one(fits, deadline) {
            Ok(frame) => Ok(Message::new(&self.handles, frame)),
            Err(error) => Err(RecvError::new(error, deadline.may_wait())),
        }
    }

    /// Returns a descriptor for poll loops that wait for a message, or for the end.
    ///
    /// # Errors
    /// Too many files are open, or no thread is available: a watch of a [shared](super::shared) queue has one.
    pub fn watch(&self) -> crate::Result<Watch> {
        Watch::new(&self.handles, For::Message)
    }

    /// Length in bytes of the longest message that the queue can hold. A buffer of this size fits every message.
    pub fn largest(&self) -> usize {
        self.handles.core.largest()
    }
}

handle!(Receiver, receivers);

impl<'a> IntoIterator for &'a Receiver {
    type Item = Message<'a>;
    type IntoIter = Iter<'a>;
    /// [`Receiver::iter`].
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The messages of a queue, one after another: [`Receiver::iter`], [`Receiver::try_iter`].
#[derive(Debug)]
pub struct Iter<'a> {
    receiver: &'a Receiver,
    waits: bool,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Message<'a>;
    fn next(&mut self) -> Option<Message<'a>> {
        match self.waits {
            true => self.receiver.take().ok(),
            false => self.receiver.try_take().ok(),
        }
    }
}
