//! The producer's end: pushes one element, or reserves a burst, fills it in place and commits it.
//!
//! It writes only vacant slots.
//!
//! ```text
//!  reserve(5) ─▶ │ u u u u u │ ─▶ fill three ─▶ │ 7 8 9 │ published at once; the other two stay vacant
//! ```
#![allow(unsafe_code)]

use super::{
    PushError, RingStats,
    shared::{Shared, leave},
};
use crate::{
    memory::HugePages,
    ring::{
        cursor::{Cursor, Edge},
        slots::{ONE_VIEW, Place},
        state::{CONSUMER_GONE, PRODUCER_GONE, State},
        tuning::{self, NextPause},
    },
    sync::{Arc, Park, Wait},
};
use std::{mem::ManuallyDrop, ops::Range};

/// The end that puts elements in. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// ```
/// let (mut producer, consumer) = forebay::ring::spsc::ring(4)?;
/// assert_eq!(producer.try_push(1), Ok(()));
/// assert_eq!(producer.push_slice(&[2, 3, 4, 5]), 3);
/// assert_eq!((producer.vacant(), consumer.len()), (0, 4));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Producer<T, W: Wait = Park> {
    pub(super) cursor: Cursor,
    pause: NextPause,
    pub(super) place: Place<T>,
    pub(super) capacity: usize,
    pub(super) shared: ManuallyDrop<Arc<Shared<T, W>>>,
}

// SAFETY: only the producer writes vacant slots and touches its own tuning, and it moves as a whole. The elements that it
// moves in are Send.
unsafe impl<T: Send, W: Wait> Send for Producer<T, W> {}

impl<T, W: Wait> Producer<T, W> {
    pub(super) fn new(shared: Arc<Shared<T, W>>, pause: NextPause) -> Self {
        let capacity = shared.capacity;
        Producer {
            cursor: Cursor::new(0, capacity),
            pause,
            place: shared.slots.place(0),
            capacity,
            shared: ManuallyDrop::new(shared),
        }
    }

    /// Puts one element into the ring, if a slot is vacant. Never waits. The consumer can see the element at once.
    ///
    /// # Errors
    /// [`Full`](PushError::Full), or [`Closed`](PushError::Closed) if the consumer is gone; both return the element. A producer
    /// looks at the consumer only when it has used the slots that it knows to be vacant: until then, elements are accepted, and
    /// dropped with the ring.
    ///
    /// ```
    /// use forebay::ring::spsc::PushError;
    /// let (mut producer, _consumer) = forebay::ring::spsc::ring(1)?;
    /// assert!(producer.try_push('a').is_ok());
    /// assert_eq!(producer.try_push('b'), Err(PushError::Full('b')));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn try_push(&mut self, value: T) -> Result<(), PushError<T>> {
        if self.known_vacant() > 0 || self.refresh() > 0 {
            self.put_in(value);
            return Ok(());
        }
        Err(match self.is_over() {
            true => PushError::Closed(value),
            false => PushError::Full(value),
        })
    }

    /// Puts one element into the next slot, which is known to be vacant.
    #[inline(always)]
    fn put_in(&mut self, value: T) {
        self.shared.slots.will_write(self.cursor.position(), 1);
        // SAFETY: the slot is vacant (the cursor may advance), so it is ours until we publish it, and it holds no element.
        unsafe { self.place.slot().write(value) };
        self.place.advance_one();
        self.cursor.advance(1);
        self.publish_position();
    }

    /// Puts elements of `source` into all vacant slots, in one burst, until either ends; returns how many. Never waits.
    /// It takes no element from `source` that has no slot.
    ///
    /// ```
    /// let (mut producer, _consumer) = forebay::ring::spsc::ring(3)?;
    /// let mut numbers = 1..10;
    /// assert_eq!(producer.push_burst(&mut numbers), 3);
    /// assert_eq!(numbers.next(), Some(4));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn push_burst(&mut self, source: &mut impl Iterator<Item = T>) -> usize {
        let mut pushed = 0;
        loop {
            let reserved = self.reserve(usize::MAX);
            let room = reserved.len();
            let filled = if room > 0 {
                reserved.fill(&mut *source)
            } else {
                0
            };
            pushed += filled;
            // With a mirror the burst had all the room there was. With one view the rest may follow the seam.
            if !ONE_VIEW || filled < room || room == 0 || self.cursor.cached_available() == 0 {
                return pushed;
            }
        }
    }

    /// Copies the start of `source` into the vacant slots, as far as they suffice, in one burst; returns how many elements.
    /// Never waits.
    ///
    /// ```
    /// let (mut producer, _consumer) = forebay::ring::spsc::ring(3)?;
    /// assert_eq!(producer.push_slice(&[1, 2, 3, 4]), 3);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn push_slice(&mut self, source: &[T]) -> usize
    where
        T: Copy,
    {
        let n = source.len().min(self.vacant_or_refresh(source.len()));
        let pushed = self.lend(n).copy_from_slice(&source[..n]);
        match ONE_VIEW && pushed < n {
            true => pushed + self.push_slice(&source[pushed..n]), // the rest follows the seam
            false => pushed,
        }
    }

    /// The state word of the ring's end.
    #[inline]
    pub(crate) fn state(&self) -> &State {
        &self.shared.state
    }

    /// The object on which this end waits.
    #[inline]
    pub(crate) fn waits_at(&self) -> &W {
        &self.shared.head.waits
    }

    /// Wakes the consumer, for a reason outside the ring.
    pub(crate) fn wake_consumer(&self) {
        self.shared.tail.waits.wake();
    }

    /// Whether nothing more may be put in: the consumer is gone, or a module that builds on the ring has ended it.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.shared.state.bits() != 0
    }

    /// The number of slots known to be vacant, without a look at the consumer.
    #[inline(always)]
    pub(crate) fn known_vacant(&self) -> usize {
        self.cursor.cached_available()
    }

    /// The number of slots known to be vacant, after a refresh if that is less than `n`; 0 if nothing more may be put in.
    #[inline]
    pub(super) fn vacant_or_refresh(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            vacant if vacant >= n && !self.shared.state.may_be_over() => vacant,
            _ => self.refresh(),
        }
    }

    /// Number of elements put in since the ring was made.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.cursor.position() as u64
    }

    /// Counts of the whole ring so far: see [`RingStats`].
    pub fn stats(&self) -> RingStats {
        self.shared.stats()
    }

    /// Number of vacant slots now, 0 to the capacity. It can only grow until this end puts an element in.
    pub fn vacant(&self) -> usize {
        self.cursor
            .peer_distance(&self.shared.head.position, self.capacity)
    }

    /// Number of slots, filled or not: exactly the requested capacity.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the consumer was dropped: nothing more can be put in.
    pub fn consumer_is_gone(&self) -> bool {
        self.shared.state.has(CONSUMER_GONE)
    }

    /// Faults in the pages of these bytes of the memory, if that was not done at creation.
    pub(crate) fn populate(&self, bytes: Range<usize>) -> crate::Result<()> {
        self.shared.slots.populate(bytes)
    }

    /// Which huge pages the ring has. Reads `/proc/self/smaps`, so it is not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        self.shared.slots.huge_pages()
    }

    /// Loads the consumer's position and returns the number of vacant slots; 0 if nothing more may be put in.
    #[inline]
    fn refresh(&mut self) -> usize {
        if self.is_over() {
            return 0;
        }
        // SAFETY: the producer's alone, and this is the only borrow.
        let backoff = unsafe { &mut *self.shared.producers.tuning.get() };
        let (cursor, theirs) = (&mut self.cursor, &self.shared.head.position);
        let known =
            tuning::refresh_producer::<T>(cursor, theirs, self.capacity, &mut self.pause, backoff); // CREDIT
        if known == 0 {
            self.shared
                .producers
                .counts
                .record_stop(self.cursor.position());
        }
        known
    }

    /// Publishes a burst of `n` filled slots to the consumer.
    #[inline(always)]
    pub(super) fn publish_burst(&mut self, n: usize) {
        if n > 0 {
            self.place.prefetch(n);
            self.publish(n);
        }
    }

    /// Publishes `n` filled slots to the consumer.
    #[inline(always)]
    fn publish(&mut self, n: usize) {
        self.place.advance(n);
        self.cursor.advance(n);
        self.publish_position();
    }

    /// Publishes our position.
    #[inline(always)]
    fn publish_position(&self) {
        self.place.settle();
        self.cursor
            .publish(&self.shared.tail.position, Edge::Publish);
        self.shared.tail.waits.wake();
    }
}

impl<T, W: Wait> Drop for Producer<T, W> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: taken once, and not used afterwards. By value, so that it is dropped even if a waker panics.
        let shared = unsafe { ManuallyDrop::take(&mut self.shared) };
        leave(shared, PRODUCER_GONE, self.place.offset());
    }
}

debug!([T, W: Wait] Producer<T, W>, |this| capacity: this.capacity(), vacant: this.vacant());
