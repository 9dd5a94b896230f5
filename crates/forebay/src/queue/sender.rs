//! The sending end: copies a message in, or lends its place to be filled.
//!
//! It says what users may do, and maps what `waiting` answers to what users read. It imports `sync`. Read `receiver` next.
//!
//! ```text
//!  reserve(len) ─▶ Reserved: &mut [u8] of len bytes ─┬─ commit() ─▶ receivers get it, in the order of reservations
//!                  in the memory of the queue        └─ drop ─────▶ receivers pass over it
//! ```

use super::{
    SendError, Stats, StatsError,
    copy::copy,
    core::Frame,
    handles::Handles,
    limit::Limit,
    watch::{For, Watch},
};
use crate::sync::Arc;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    time::Duration,
};

/// Puts messages into a queue. Clones are senders of their own, and one may be shared by threads as well.
///
/// When the last one is dropped, the queue closes.
pub struct Sender {
    handles: Arc<Handles>,
}

impl Sender {
    pub(super) fn new(handles: Arc<Handles>) -> Sender {
        Sender { handles }
    }

    /// Sends a copy of `message`, without waiting.
    ///
    /// # Errors
    /// [`Full`](SendError::Full), [`Closed`](SendError::Closed), [`TooLong`](SendError::TooLong); or
    /// [`TimedOut`](SendError::TimedOut) if another thread holds a lock of the queue for 10 ms, which only one does
    /// that has lost the processor.
    ///
    /// ```
    /// use forebay::queue::SendError;
    /// let (sender, receiver) = forebay::queue::queue(1)?; // a page of 4096 bytes, on most machines
    /// sender.try_send(&vec![7; sender.largest()]).unwrap();
    /// assert_eq!(sender.try_send(b"x"), Err(SendError::Full));
    /// drop(receiver);
    /// assert_eq!(sender.try_send(b"x"), Err(SendError::Closed));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn try_send(&self, message: &[u8]) -> Result<(), SendError> {
        self.send(message, Some(Duration::ZERO))
    }

    /// Sends a copy of `message`, waiting for room for up to `limit` (`None`: for ever) where the queue's policy is to
    /// wait.
    ///
    /// # Errors
    /// [`TimedOut`](SendError::TimedOut), [`Closed`](SendError::Closed), [`TooLong`](SendError::TooLong), and
    /// [`Full`](SendError::Full) where the policy is to refuse.
    ///
    /// ```
    /// use forebay::queue::SendError;
    /// use std::time::Duration;
    /// let (sender, _receiver) = forebay::queue::queue(1)?;
    /// let long = vec![7; sender.largest() / 2 + 1];
    /// let limit = Some(Duration::from_millis(1));
    /// assert_eq!(sender.send(&long, limit), Ok(()));
    /// assert_eq!(sender.send(&long, limit), Err(SendError::TimedOut));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn send(&self, message: &[u8], limit: Option<Duration>) -> Result<(), SendError> {
        let mut reserved = self.reserve(message.len(), limit)?;
        copy(message, &mut reserved);
        reserved.commit();
        Ok(())
    }

    /// Sends copies of as many of `messages` as there is room for, in order and with nothing in between, without
    /// waiting; returns how many. The lock is taken once for all of them.
    ///
    /// `as_ref` is called once on each message, before anything is reserved.
    ///
    /// # Errors
    /// Not even the first one found room: as [`try_send`](Sender::try_send). `TooLong` where any of them is.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// assert_eq!(sender.try_send_burst(&["a", "bc", ""]), Ok(3));
    /// assert!(receiver.take_burst(8, None).unwrap().iter().map(|(_, message)| message.len()).eq([1, 2, 0]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn try_send_burst(&self, messages: &[impl AsRef<[u8]>]) -> Result<usize, SendError> {
        // Each is asked once, before anything is locked: an `as_ref` may panic, use this queue, or answer differently next time.
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
        let limit = Limit::new(Some(Duration::ZERO));
        core.reserve_within(lens, *when_full, &limit, |frame| frames.push(frame))
            .map_err(|no| SendError::from_no(no, false))?;
        let sent = frames.len();
        for (mut frame, message) in frames.into_iter().zip(messages) {
            copy(message, core.fill(&mut frame));
            core.commit(frame);
        }
        core.ring_arrived();
        Ok(sent)
    }

    /// Reserves room for a message of `len` bytes in the queue's memory, without waiting.
    ///
    /// # Errors
    /// As [`try_send`](Sender::try_send).
    pub fn try_reserve(&self, len: usize) -> Result<Reserved<'_>, SendError> {
        self.reserve(len, Some(Duration::ZERO))
    }

    /// Reserves room for a message of `len` bytes in the queue's memory, waiting for up to `limit`.
    ///
    /// Receivers get messages in the order of reservations, so they wait for this one until it is committed or dropped.
    ///
    /// # Errors
    /// As [`send`](Sender::send).
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// let mut reserved = sender.reserve(3, None).unwrap();
    /// reserved.copy_from_slice(b"abc");
    /// drop(sender.reserve(1000, None).unwrap()); // given up
    /// reserved.commit();
    /// assert_eq!(&*receiver.take(None).unwrap(), b"abc");
    /// assert_eq!(receiver.stats(None).unwrap().queued, 1); // nobody has passed the other one yet
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn reserve(&self, len: usize, limit: Option<Duration>) -> Result<Reserved<'_>, SendError> {
        self.check(len)?;
        let Handles {
            core, when_full, ..
        } = &*self.handles;
        let frame = core
            .reserve_one(len, *when_full, &Limit::new(limit))
            .map_err(|no| {
                SendError::from_no(no, limit != Some(Duration::ZERO) && when_full.waits())
            })?;
        Ok(Reserved {
            sender: self,
            frame: Some(frame),
        })
    }

    fn check(&self, len: usize) -> Result<(), SendError> {
        let largest = self.largest();
        match len <= largest {
            true => Ok(()),
            false => Err(SendError::TooLong { largest }),
        }
    }

    /// A descriptor for poll loops that wait for room for a message of `len` bytes, or for the end.
    ///
    /// # Errors
    /// Too many files are open, or the queue is [shared](super::shared) with other processes: they have no descriptor to
    /// signal.
    pub fn watch(&self, len: usize) -> crate::Result<Watch> {
        Watch::new(&self.handles, For::Room(len))
    }

    /// Accepts no message from now on, from any sender: receivers get what is left, and then the end.
    ///
    /// Between processes, it waits while a stopped one holds the senders' lock.
    pub fn close(&self) {
        self.handles.core.close();
    }

    /// Bytes of the longest message that the queue can hold: its capacity less 16.
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

impl Clone for Sender {
    fn clone(&self) -> Sender {
        self.handles.senders.join();
        Sender::new(self.handles.clone())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.handles.leave(&self.handles.senders);
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

/// The place of a message in the queue: bytes to fill, in any order, and then to [commit](Reserved::commit).
///
/// What they hold at first is left over from older messages. Dropped without a commit, the message does not happen.
/// One that is forgotten (`mem::forget`) stops all receivers there: they wait for it.
#[must_use = "a message is sent when it is committed"]
pub struct Reserved<'a> {
    sender: &'a Sender,
    /// There until committed or given up.
    frame: Option<Frame>,
}

impl Reserved<'_> {
    /// Sends the message as it is now.
    #[inline]
    pub fn commit(mut self) {
        let core = &self.sender.handles.core;
        if let Some(frame) = self.frame.take() {
            core.commit(frame);
        }
        core.ring_arrived();
    }

    /// Number of the message: how many were reserved before it, by all senders.
    pub fn sequence(&self) -> u64 {
        self.frame().sequence
    }

    fn frame(&self) -> &Frame {
        self.frame.as_ref().expect("it is there until the end")
    }
}

impl Deref for Reserved<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.sender.handles.core.read(self.frame())
    }
}

impl DerefMut for Reserved<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let frame = self.frame.as_mut().expect("it is there until the end");
        self.sender.handles.core.fill(frame)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            let core = &self.sender.handles.core;
            core.abort(frame);
            core.ring_arrived();
        }
    }
}

impl fmt::Debug for Reserved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reserved")
            .field("len", &self.len())
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}
