//! The sending end: copies messages in, or lends room in the queue to be filled.
//!
//! This is the public interface; `waiting` does the work, and its answers become [`SendError`] here.
//!
//! ```text
//!  reserve(len) ─▶ ReservedMessage: &mut [u8] of len bytes ─┬─ commit() ─▶ receivers get it, in the order of reservations
//!                  in the memory of the queue        └─ drop ─────▶ receivers pass over it
//! ```

use super::{
    ReservedMessage, SendError, Stats, StatsError,
    copy::copy,
    handles::{Handles, handle},
    watch::{For, Watch},
};
use crate::sync::{Arc, Deadline, limited};
use std::time::Duration;

/// Sends messages into a queue. It can be cloned, or shared by threads.
///
/// When the last one is dropped, a queue between threads closes. A [shared](super::shared) queue stays open: other processes may
/// have senders, or attach later. There [`close`](Sender::close) closes it.
pub struct Sender {
    pub(super) handles: Arc<Handles>,
}

impl Sender {
    pub(super) fn new(handles: Arc<Handles>) -> Sender {
        Sender { handles }
    }

    limited! {
        /// Sends a copy of `message`. If the queue is full, waits for room, unless the policy is not to wait.
        ///
        /// # Errors
        /// - [`Closed`](SendError::Closed), [`TooLong`](SendError::TooLong).
        /// - [`Full`](SendError::Full) if the policy is to refuse.
        ///
        /// ```
        /// let (sender, receiver) = forebay::queue::queue(4096)?;
        /// sender.send("text").unwrap();
        /// sender.send([1, 2]).unwrap();
        /// assert_eq!(receiver.iter().take(2).map(|message| message.len()).sum::<usize>(), 6);
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn send(&self, message: impl AsRef<[u8]>) -> Result<(), SendError>,
        |deadline| self.send_until(message.as_ref(), &deadline),
        no wait: try_send "\n\n# Errors\nThose of `send`, [`Full`](SendError::Full), and [`TimedOut`](SendError::TimedOut) if another thread \
            holds a lock of the queue for 10 ms, which happens only if that thread is preempted or stopped.",
        for: send_timeout "\n\n# Errors\nThose of `send`, and [`TimedOut`](SendError::TimedOut).",
        until: send_deadline
    }

    #[inline]
    fn send_until(&self, message: &[u8], deadline: &Deadline) -> Result<(), SendError> {
        let mut reserved = self.reserve_until(message.len(), deadline)?;
        copy(message, &mut reserved);
        reserved.commit();
        Ok(())
    }

    /// Sends copies of as many of `messages` as there is room for, without waiting; returns how many. They follow each other
    /// without other messages in between. The lock is taken once for all of them.
    ///
    /// `as_ref` is called once on each message, before anything is reserved.
    ///
    /// # Errors
    /// Like [`try_send`](Sender::try_send), if there is no room even for the first one. `TooLong` if any of them is too long.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// assert_eq!(sender.try_send_burst(&["a", "bc", ""]), Ok(3));
    /// assert!(receiver.take_burst(8).unwrap().iter().map(|(_, message)| message.len()).eq([1, 2, 0]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn try_send_burst(&self, messages: &[impl AsRef<[u8]>]) -> Result<usize, SendError> {
        // `as_ref` is called before anything is locked: it may panic, use this queue, or return something else next time.
        let messages: Vec<&[u8]> = messages.iter().map(AsRef::as_ref).collect();
        let lens = messages.iter().map(|message| message.len());
        let Some(longest) = lens.clone().max() else {
            return Ok(0);
        };
        self.check(longest)?;
        let Handles {
            core, when_full, ..
        } = &*self.handles;
        let mut frames = Vec::with_capacity(messages.len());
        let limit = Deadline::now();
        core.reserve_within(lens, *when_full, &limit, |frame| frames.push(frame))
            .map_err(|error| SendError::new(error, false))?;
        let sent = frames.len();
        for (mut frame, message) in frames.into_iter().zip(messages) {
            copy(message, core.fill(&mut frame));
            core.commit(frame);
        }
        core.ring_arrived();
        Ok(sent)
    }

    limited! {
        /// Reserves room for a message of `len` bytes in the queue's memory, to be filled in place. Waits like
        /// [`send`](Sender::send).
        ///
        /// Receivers get messages in the order of reservations, so they wait for this one until it is committed or dropped.
        ///
        /// # Errors
        /// Those of `send`.
        ///
        /// ```
        /// let (sender, receiver) = forebay::queue::queue(4096)?;
        /// let mut reserved = sender.reserve(3).unwrap();
        /// reserved.copy_from_slice(b"abc");
        /// drop(sender.reserve(1000).unwrap()); // aborted
        /// reserved.commit();
        /// assert_eq!(&*receiver.take().unwrap(), b"abc");
        /// assert_eq!(receiver.stats().unwrap().queued, 1); // no receiver has passed over the other one yet
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn reserve(&self, len: usize) -> Result<ReservedMessage<'_>, SendError>,
        |deadline| self.reserve_until(len, &deadline),
        no wait: try_reserve "\n\n# Errors\nThose of `try_send`.",
        for: reserve_timeout "\n\n# Errors\nThose of `send_timeout`.",
        until: reserve_deadline
    }

    #[inline]
    fn reserve_until(
        &self,
        len: usize,
        deadline: &Deadline,
    ) -> Result<ReservedMessage<'_>, SendError> {
        self.check(len)?;
        let Handles {
            core, when_full, ..
        } = &*self.handles;
        match core.reserve_one(len, *when_full, deadline) {
            Ok(frame) => Ok(ReservedMessage::new(&self.handles, frame)),
            Err(error) => Err(SendError::new(
                error,
                deadline.may_wait() && when_full.waits(),
            )),
        }
    }

    fn check(&self, len: usize) -> Result<(), SendError> {
        let largest = self.largest();
        match len <= largest {
            true => Ok(()),
            false => Err(SendError::TooLong { largest }),
        }
    }

    /// Returns a descriptor for poll loops that wait for room for a message of `len` bytes, or for the end.
    ///
    /// # Errors
    /// Too many files are open, or no thread is available: a watch of a [shared](super::shared) queue has one.
    pub fn watch(&self, len: usize) -> crate::Result<Watch> {
        Watch::new(&self.handles, For::Room(len))
    }

    /// Length in bytes of the longest message that the queue can hold: its capacity less 16.
    pub fn largest(&self) -> usize {
        self.handles.core.largest()
    }
}

handle!(Sender, senders);
