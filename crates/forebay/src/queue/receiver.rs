//! The receiving end: copies a message out, or lends it where it lies.
//!
//! It says what users may do, and maps what `waiting` answers to what users read. It imports `sync`. Read `spsc` next.
//!
//! ```text
//!  take() ─▶ Message: &[u8] where it lies ── drop ─▶ its room can be used again, once all before it is given back
//!  take_burst(n) ─▶ Burst of up to n of them
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

/// Takes messages out of a queue. Clones are receivers of their own, and one may be shared by threads as well: each
/// message goes to one receiver.
///
/// When the last one is dropped, the queue closes.
pub struct Receiver {
    handles: Arc<Handles>,
}

/// What a message that was copied out was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the message, at the start of the buffer.
    pub len: usize,
    /// Number of the message: how many were reserved before it, by all senders.
    pub sequence: u64,
    /// Whether another receiver had it before, in a process that died. Never in a queue of one process.
    pub redelivered: bool,
}

impl Receiver {
    pub(super) fn new(handles: Arc<Handles>) -> Receiver {
        Receiver { handles }
    }

    /// Copies the next message into `buffer`, without waiting.
    ///
    /// # Errors
    /// [`Empty`](RecvError::Empty), also while the next message is still being filled; [`Closed`](RecvError::Closed);
    /// [`TooSmall`](RecvError::TooSmall); or [`TimedOut`](RecvError::TimedOut) if another thread holds a lock of the
    /// queue for 10 ms, which only one does that has lost the processor.
    #[inline]
    pub fn try_recv(&self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        self.recv(buffer, Some(Duration::ZERO))
    }

    /// Copies the next message into `buffer`, waiting for one for up to `limit` (`None`: for ever).
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut); [`Closed`](RecvError::Closed) once nothing is left; and if the message is
    /// longer than `buffer`, [`TooSmall`](RecvError::TooSmall): it is still there for another receiver, or for this one
    /// with a larger buffer.
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

    /// Copies the next message that fits into `buffer`, waiting for up to `limit`: while the next one is longer, it
    /// waits until another receiver has taken that.
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut), and [`Closed`](RecvError::Closed) once nothing is left.
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

    /// Takes the next message where it lies, without waiting.
    ///
    /// # Errors
    /// As [`try_recv`](Receiver::try_recv), but nothing is too long.
    pub fn try_take(&self) -> Result<Message<'_>, RecvError> {
        self.take(Some(Duration::ZERO))
    }

    /// Takes the next message where it lies, waiting for one for up to `limit` (`None`: for ever).
    ///
    /// # Errors
    /// [`TimedOut`](RecvError::TimedOut), and [`Closed`](RecvError::Closed) once nothing is left.
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

    /// Takes up to `most` messages where they lie, in order: at least one, for which it waits for up to `limit`, and of
    /// the others what is there. The lock is taken once for up to 64 of them.
    ///
    /// # Errors
    /// As [`take`](Receiver::take).
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
            // As many as need no allocation, which would happen under a lock.
            let some = frames.capacity().min(most) - frames.len();
            match core.take_within(some, usize::MAX, &limit_now, |frame| frames.push(frame)) {
                Err(no) if frames.is_empty() => {
                    return Err(RecvError::from_no(no, limit != Some(Duration::ZERO)));
                }
                Ok(()) if frames.len() == frames.capacity() && frames.len() < most => {
                    frames.reserve(frames.len());
                    limit_now = Limit::new(Some(Duration::ZERO)); // what is there
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

    /// A descriptor for poll loops that wait for a message, or for the end.
    ///
    /// # Errors
    /// Too many files are open, or the queue is [shared](super::shared) with other processes: they have no descriptor to
    /// signal.
    pub fn watch(&self) -> crate::Result<Watch> {
        Watch::new(&self.handles, For::Message)
    }

    /// Accepts no message from now on, from any sender: receivers get what is left, and then the end.
    ///
    /// Between processes, it waits while a stopped one holds the senders' lock.
    pub fn close(&self) {
        self.handles.core.close();
    }

    /// Bytes of the longest message that the queue can hold: a buffer for all.
    pub fn largest(&self) -> usize {
        self.handles.core.largest()
    }

    /// Bytes of the queue's memory, headers included: what was asked for, rounded up to whole pages.
    pub fn capacity_bytes(&self) -> usize {
        self.handles.core.capacity()
    }

    /// What happened so far, waiting for the queue's locks for up to `limit` (`None`: for ever). It stops senders and
    /// receivers for as long as it takes to walk over the messages.
    ///
    /// # Errors
    /// In a queue of one process, none. Between processes, [`Held`](StatsError::Held) while a stopped one holds a lock, and
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

/// A message where it lies in the queue. Its room is given back when it is dropped.
///
/// Room is used again in order, so the queue fills up behind a message that is kept for long (or forgotten).
pub struct Message<'a> {
    core: &'a Core,
    /// There until dropped.
    frame: Option<Frame>,
}

impl Message<'_> {
    /// Number of the message: how many were reserved before it, by all senders.
    pub fn sequence(&self) -> u64 {
        self.frame().sequence
    }

    /// Whether another receiver had it before, in a process that died. Never in a queue of one process.
    pub fn is_redelivered(&self) -> bool {
        self.frame().again
    }

    fn frame(&self) -> &Frame {
        self.frame.as_ref().expect("it is there until the end")
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

/// Messages where they lie in the queue, in order; at least one. Their room is given back when the burst is dropped.
pub struct Burst<'a> {
    core: &'a Core,
    frames: Vec<Frame>,
}

impl Burst<'_> {
    /// Messages in the burst.
    #[allow(clippy::len_without_is_empty)] // a burst is never empty
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// The messages in order, each behind its number.
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
