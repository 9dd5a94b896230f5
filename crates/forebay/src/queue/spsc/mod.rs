//! A queue for exactly one sender and one receiver. It has the same calls as [`queue`](super), but no locks.
//!
//! It is a [`ring::spsc`](crate::ring::spsc) of 8-byte words, with a header before each message.
//!
//! ```text
//!  │ len u32, sequence's low u32 │ message, in whole words │ len, sequence │ message … │      one message, one publication
//!    one word                      up to 7 bytes unused
//! ```
//!
//! ```
//! let (mut sender, mut receiver) = forebay::queue::spsc::queue(4096)?;
//! let reader = std::thread::spawn(move || receiver.take().map(|message| message.to_vec()));
//! sender.send("hello").unwrap();
//! assert_eq!(reader.join().unwrap().unwrap(), b"hello");
//! # Ok::<(), forebay::Error>(())
//! ```
//!
//! [`Sender::into_async`] and [`Receiver::into_async`] make ends for tasks; the other end may stay in a thread.
//!
//! For forgotten values, panics, forked children and signal handlers, see [`ring::spsc`](crate::ring::spsc#misuse). A forgotten
//! [`ReservedMessage`] sends nothing; a forgotten [`Message`] counts as taken.

mod task;

pub use task::{AsyncReceiver, AsyncSender};

use super::{QueueConfig, RecvError, SendError, WhenFull, copy::copy, message::Received};
use crate::{
    Error,
    error::Code,
    ring::{
        ONE_VIEW,
        spsc::{self, Consumer, Producer, RingStats, Taken},
    },
    sync::{Deadline, Task, limited},
};

/// The items of the ring: plain bytes, 8 at a time.
type Word = [u8; 8];
const WORD: usize = size_of::<Word>();

/// A length that marks padding up to the end of the memory, and not a message. The other half of the header is the number of
/// words to skip. Only used with one view.
const PADDING: u32 = u32::MAX;

/// The longest message that a header can describe, in bytes.
const LONGEST: usize = PADDING as usize - WORD;

/// Makes a queue of `capacity_bytes`, rounded up to a multiple of 8, between one sender and one receiver.
///
/// It closes when either end is dropped. A message takes its length, rounded up to a multiple of 8, plus 8.
///
/// # Errors
/// Capacity 0, or not enough memory or mappings: see [`Mirror::new`](crate::memory::Mirror::new).
pub fn queue(capacity_bytes: usize) -> crate::Result<(Sender, Receiver)> {
    queue_with(&QueueConfig {
        capacity_bytes,
        ..QueueConfig::default()
    })
}

/// Makes a queue with these settings.
///
/// # Errors
/// As for [`queue`], and for [`WhenFull::DropOldest`]: without locks, a sender cannot remove a message that the receiver may
/// be taking.
///
/// ```
/// use forebay::queue::{QueueConfig, SendError, WhenFull, spsc};
/// let config = QueueConfig { capacity_bytes: 32, when_full: WhenFull::Refuse, ..QueueConfig::default() };
/// let (mut sender, _receiver) = spsc::queue_with(&config)?;
/// assert_eq!(sender.send([0; 24]), Ok(()));
/// assert_eq!(sender.send([]), Err(SendError::Full));
/// # Ok::<(), forebay::Error>(())
/// ```
pub fn queue_with(config: &QueueConfig) -> crate::Result<(Sender, Receiver)> {
    config.validate()?;
    if config.when_full == WhenFull::DropOldest {
        let error = Error::coded(
            Code::Unsupported,
            "queue",
            "dropping the oldest between one sender and one receiver",
        );
        return Err(error.advise("Use `queue::queue_with`, which has locks"));
    }
    let (producer, consumer) = spsc::ring_with::<Word, Task>(&spsc::RingConfig {
        capacity: config.capacity_bytes.div_ceil(WORD),
        populate: config.populate,
        huge_pages: config.huge_pages,
        latency: false,
    })?;
    let sender = Sender {
        producer,
        waits: config.when_full == WhenFull::Wait,
        next: 0,
    };
    let receiver = Receiver { consumer, next: 0 };
    Ok((sender, receiver))
}

/// What has happened in a queue since it was made. [`RingStats`] says what is counted when.
///
/// ```
/// let (mut sender, mut receiver) = forebay::queue::spsc::queue(64)?;
/// sender.send([7; 10]).unwrap();
/// receiver.take().unwrap();
/// let stats = receiver.stats();
/// assert_eq!((stats.messages, stats.max_used_bytes), (1, 24)); // a header, and 10 bytes in two words
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpscStats {
    /// Messages sent or received by the end that reports this.
    pub messages: u64,
    /// High-water mark: the most bytes that were seen in use at once, with headers.
    pub max_used_bytes: usize,
    /// How often the sender was held up by a full queue.
    pub times_full: u64,
    /// How often the receiver ran out of messages.
    pub times_empty: u64,
}

impl SpscStats {
    fn new(messages: u64, ring: &RingStats) -> SpscStats {
        SpscStats {
            messages,
            max_used_bytes: ring.max_len * WORD,
            times_full: ring.times_full,
            times_empty: ring.times_empty,
        }
    }
}

/// Words that a message occupies, header included.
const fn words(len: usize) -> usize {
    1 + len.div_ceil(WORD)
}

fn header(len: u32, other: u32) -> Word {
    (u64::from(other) << 32 | u64::from(len)).to_ne_bytes()
}

/// The length, and the other half.
fn split(header: Word) -> (u32, u32) {
    let word = u64::from_ne_bytes(header);
    (word as u32, (word >> 32) as u32)
}

/// The only sender of a queue. The queue closes when it is dropped.
///
/// It notices that the receiver is gone when it has used the room that it knows of: a look at each send would cost a tenth more.
pub struct Sender {
    producer: Producer<Word, Task>,
    waits: bool,
    next: u64,
}

impl Sender {
    limited! {
        /// Sends a copy of `message`. If the queue is full, waits for room, unless the policy is to refuse.
        ///
        /// # Errors
        /// [`Closed`](SendError::Closed), [`TooLong`](SendError::TooLong), and [`Full`](SendError::Full) if the policy is to refuse.
        fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError>,
        |deadline| self.send_until(message.as_ref(), &deadline),
        no wait: try_send "\n\n# Errors\nThose of `send`, and [`Full`](SendError::Full).",
        for: send_timeout "\n\n# Errors\nThose of `send`, and [`TimedOut`](SendError::TimedOut).",
        until: send_deadline
    }

    #[inline]
    fn send_until(&mut self, message: &[u8], deadline: &Deadline) -> Result<(), SendError> {
        let (n, len) = (words(message.len()), message.len());
        if !ONE_VIEW && len <= LONGEST && self.producer.known_vacant() >= n {
            send_in(self.producer.lend(n), &mut self.next, message);
            return Ok(());
        }
        self.send_later(message, deadline)
    }

    /// Sends if the room that is known is used up, or perhaps not contiguous.
    #[cold]
    fn send_later(&mut self, message: &[u8], deadline: &Deadline) -> Result<(), SendError> {
        let mut reserved = self.reserve_until(message.len(), deadline)?;
        reserved.bytes().copy_from_slice(message);
        reserved.commit();
        Ok(())
    }

    limited! {
        /// Reserves room for a message of `len` bytes in the queue's memory, to be filled in place. Waits like
        /// [`send`](Sender::send).
        ///
        /// # Errors
        /// Those of `send`.
        ///
        /// ```
        /// let (mut sender, mut receiver) = forebay::queue::spsc::queue(4096)?;
        /// drop(sender.reserve(1000).unwrap()); // aborted: nothing is sent
        /// let mut reserved = sender.reserve(3).unwrap();
        /// reserved.bytes().copy_from_slice(b"abc");
        /// reserved.commit();
        /// assert_eq!(receiver.take().unwrap().sequence(), 0);
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn reserve(&mut self, len: usize) -> Result<ReservedMessage<'_>, SendError>,
        |deadline| self.reserve_until(len, &deadline),
        no wait: try_reserve "\n\n# Errors\nThose of `try_send`.",
        for: reserve_timeout "\n\n# Errors\nThose of `send_timeout`.",
        until: reserve_deadline
    }

    #[inline]
    fn reserve_until(
        &mut self,
        len: usize,
        deadline: &Deadline,
    ) -> Result<ReservedMessage<'_>, SendError> {
        self.make_room(len, deadline)?;
        Ok(self.reserved(len))
    }

    /// Waits until there is room in one piece for a message of `len` bytes.
    #[inline]
    fn make_room(&mut self, len: usize, deadline: &Deadline) -> Result<(), SendError> {
        let largest = self.largest();
        if len > largest {
            return Err(SendError::TooLong { largest });
        }
        let now = Deadline::now();
        let deadline = if self.waits { deadline } else { &now };
        let n = words(len);
        loop {
            if self.producer.known_vacant() < n && self.producer.wait_vacant_until(n, deadline) < n
            {
                return Err(self.why_not(deadline));
            }
            if self.is_in_one_piece(n) {
                return Ok(());
            }
        }
    }

    /// Whether the next `n` words, which are vacant, are contiguous. If not, fills the memory up to its end with padding.
    #[inline]
    fn is_in_one_piece(&mut self, n: usize) -> bool {
        if !ONE_VIEW {
            return true; // mapped twice, the room is always contiguous
        }
        let in_one_piece = self.producer.lend(n).len(); // also if the receiver was dropped meanwhile
        if in_one_piece == n {
            return true;
        }
        let padding = header(PADDING, in_one_piece as u32);
        let reserved = self.producer.lend(in_one_piece);
        reserved.fill(std::iter::repeat_n(padding, in_one_piece));
        false
    }

    /// Room for a message of `len` bytes, which is there in one piece.
    #[inline]
    fn reserved(&mut self, len: usize) -> ReservedMessage<'_> {
        let sequence = self.next;
        ReservedMessage {
            slots: self.producer.lend(words(len)), // also if the receiver was dropped meanwhile
            next: &mut self.next,
            sequence,
            len,
        }
    }

    #[cold]
    fn why_not(&self, deadline: &Deadline) -> SendError {
        match self.producer.is_over() {
            true => SendError::Closed,
            false if !deadline.may_wait() => SendError::Full,
            false => SendError::TimedOut,
        }
    }

    /// Counts so far.
    pub fn stats(&self) -> SpscStats {
        SpscStats::new(self.next, &self.producer.stats())
    }

    /// Length in bytes of the longest message that the queue can hold: its capacity less 8.
    #[inline]
    pub fn largest(&self) -> usize {
        ((self.producer.capacity() - 1) * WORD).min(LONGEST)
    }
}

debug!([] Sender, |this| sent: this.next);

/// Reserved room for a message: [bytes](ReservedMessage::bytes) to fill, and then to [commit](ReservedMessage::commit).
///
/// Dropping it without a commit sends nothing. Reserving the same length again then returns the same bytes, as they were left: for
/// callers that cannot hold it, since it borrows the sender.
#[must_use = "a message is sent when it is committed"]
pub struct ReservedMessage<'a> {
    slots: spsc::Reserved<'a, Word, Task>,
    next: &'a mut u64,
    sequence: u64,
    len: usize,
}

impl ReservedMessage<'_> {
    /// The bytes of the message, which initially hold the remains of older ones.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.slots.as_flattened_mut()[WORD..][..self.len]
    }

    /// Sends the message as it is now.
    #[inline]
    pub fn commit(mut self) {
        self.slots[0] = header(self.len as u32, self.sequence as u32);
        *self.next = self.sequence + 1;
        let n = self.slots.len();
        self.slots.commit(n);
    }
}

debug!([] ReservedMessage<'_>, |this| len: this.len);

/// Sends `message` in `slots`, which has exactly the number of words it needs.
#[inline(always)]
fn send_in(slots: spsc::Reserved<'_, Word, Task>, next: &mut u64, message: &[u8]) {
    let (sequence, len) = (*next, message.len());
    let mut reserved = ReservedMessage {
        slots,
        next,
        sequence,
        len,
    };
    copy(message, reserved.bytes());
    reserved.commit();
}

/// The only receiver of a queue. The queue closes when it is dropped.
pub struct Receiver {
    consumer: Consumer<Word, Task>,
    next: u64,
}

impl Receiver {
    limited! {
        /// Copies the next message into `buffer`, waiting for one if the queue is empty.
        ///
        /// # Errors
        /// [`Closed`](RecvError::Closed) once the queue is closed and empty; [`TooSmall`](RecvError::TooSmall): the message stays.
        fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError>,
        |deadline| self.recv_until(buffer, &deadline),
        no wait: try_recv "\n\n# Errors\nThose of `recv`, and [`Empty`](RecvError::Empty).",
        for: recv_timeout "\n\n# Errors\nThose of `recv`, and [`TimedOut`](RecvError::TimedOut).",
        until: recv_deadline
    }

    #[inline]
    fn recv_until(
        &mut self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<Received, RecvError> {
        let needed = self.next_len(deadline)?;
        if needed > buffer.len() {
            return Err(RecvError::TooSmall { needed });
        }
        let message = self.message(needed);
        copy(&message, &mut buffer[..needed]);
        Ok(Received {
            len: needed,
            sequence: message.sequence,
            redelivered: false,
        })
    }

    limited! {
        /// Takes the next message without copying it, waiting for one if the queue is empty.
        ///
        /// A message borrows the receiver, so there is no iterator: write `while let Ok(message) = receiver.take()`.
        ///
        /// # Errors
        /// [`Closed`](RecvError::Closed) once the queue is closed and empty.
        fn take(&mut self) -> Result<Message<'_>, RecvError>,
        |deadline| self.take_until(&deadline),
        no wait: try_take "\n\n# Errors\nThose of `take`, and [`Empty`](RecvError::Empty).",
        for: take_timeout "\n\n# Errors\nThose of `take`, and [`TimedOut`](RecvError::TimedOut).",
        until: take_deadline
    }

    #[inline(always)]
    fn take_until(&mut self, deadline: &Deadline) -> Result<Message<'_>, RecvError> {
        let len = self.next_len(deadline)?;
        Ok(self.message(len))
    }

    limited! {
        /// The next message in place, waiting for one if the queue is empty. It stays the next one until it is taken or
        /// [skipped](Receiver::skip); calls in between return the same bytes at the same address.
        ///
        /// # Errors
        /// Those of [`take`](Receiver::take).
        ///
        /// ```
        /// let (mut sender, mut receiver) = forebay::queue::spsc::queue(4096)?;
        /// sender.send("hello").unwrap();
        /// assert_eq!(receiver.peek(), Ok(&b"hello"[..]));
        /// assert!(receiver.skip() && !receiver.skip());
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn peek(&mut self) -> Result<&[u8], RecvError>,
        |deadline| self.peek_until(&deadline),
        no wait: try_peek "\n\n# Errors\nThose of `try_take`.",
        for: peek_timeout "\n\n# Errors\nThose of `take_timeout`.",
        until: peek_deadline
    }

    fn peek_until(&mut self, deadline: &Deadline) -> Result<&[u8], RecvError> {
        let len = self.next_len(deadline)?;
        let words = self.consumer.peek(words(len)).into_slice();
        Ok(&words.as_flattened()[WORD..][..len])
    }

    /// Removes the next message, if there is one; returns whether there was. Never waits. For callers that cannot hold a
    /// [`Message`], which borrows the receiver: [`peek`](Receiver::peek), and later `skip`.
    pub fn skip(&mut self) -> bool {
        self.try_take().is_ok()
    }

    /// Waits for a message, and returns its length.
    #[inline(always)]
    fn next_len(&mut self, deadline: &Deadline) -> Result<usize, RecvError> {
        if let Some(&header) = self.consumer.peek(1).first() {
            let (len, _) = split(header);
            if !ONE_VIEW || len != PADDING {
                return Ok(len as usize);
            }
        }
        self.next_len_later(deadline)
    }

    /// Like [`next_len`](Receiver::next_len), if there is no message yet, or padding before it.
    #[cold]
    fn next_len_later(&mut self, deadline: &Deadline) -> Result<usize, RecvError> {
        loop {
            if self.consumer.wait_filled_until(1, deadline) == 0 {
                return Err(self.why_not(deadline));
            }
            if let Some(len) = self.len_or_skip() {
                return Ok(len);
            }
        }
    }

    /// The length of the next message, whose header is there; or skips padding.
    fn len_or_skip(&mut self) -> Option<usize> {
        let header = self.consumer.peek(1)[0];
        match split(header) {
            (PADDING, words) => {
                self.consumer.peek(words as usize).release(words as usize);
                None
            }
            (len, _) => Some(len as usize),
        }
    }

    /// The next message, which is there and has `len` bytes.
    #[inline]
    fn message(&mut self, len: usize) -> Message<'_> {
        let sequence = self.next;
        self.next += 1;
        let words = self.consumer.peek(words(len)).take();
        debug_assert_eq!(split(words[0]).1, sequence as u32);
        Message {
            words,
            len,
            sequence,
        }
    }

    /// Counts so far.
    pub fn stats(&self) -> SpscStats {
        SpscStats::new(self.next, &self.consumer.stats())
    }

    #[cold]
    fn why_not(&self, deadline: &Deadline) -> RecvError {
        match self.consumer.producer_is_gone() && self.consumer.is_empty() {
            true => RecvError::Closed,
            false if !deadline.may_wait() => RecvError::Empty,
            false => RecvError::TimedOut,
        }
    }
}

debug!([] Receiver, |this| received: this.next);

/// A received message, borrowed from the queue's memory. Dropping it releases its room.
///
/// A forgotten message ([`std::mem::forget`]) still counts as taken. Its room is released later: with that of the next
/// message, or when the receiver finds the queue empty.
pub struct Message<'a> {
    words: Taken<'a, Word, Task>,
    len: usize,
    sequence: u64,
}

impl Message<'_> {
    /// Number of the message: how many were sent before it.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

derefs!([] Message<'_>, [u8], |this| this.words.as_flattened()[WORD..][..this.len]);

impl AsRef<[u8]> for Message<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

debug!([] Message<'_>, |this| len: this.len, sequence: this.sequence);
