//! The consumer's end: pops one element, or reads a burst in place and releases it.
//!
//! It reads filled slots and empties them. The orderings are in `ring::cursor`.
//!
//! ```text
//!  peek(5) ─▶ │ 4 5 6 7 8 │ one slice ─▶ release(3) drops 4, 5, 6 in place; 7 and 8 stay
//! ```
#![allow(unsafe_code)]

use super::{
    PopError, RingStats,
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
use std::{iter::from_fn, mem::ManuallyDrop};

/// The end that takes elements out. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
/// producer.push_slice(&[1, 2, 3]);
/// assert_eq!(consumer.try_pop(), Ok(1));
/// assert_eq!(consumer.len(), 2);
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Consumer<T, W: Wait = Park> {
    pub(super) cursor: Cursor,
    pause: NextPause,
    pub(super) place: Place<T>,
    pub(super) capacity: usize,
    pub(super) shared: ManuallyDrop<Arc<Shared<T, W>>>,
}

// SAFETY: only the consumer touches filled slots and its own tuning, and it moves as a whole. The elements that it moves
// out or drops are Send.
unsafe impl<T: Send, W: Wait> Send for Consumer<T, W> {}

impl<T, W: Wait> Consumer<T, W> {
    pub(super) fn new(shared: Arc<Shared<T, W>>, pause: NextPause) -> Self {
        let (capacity, place) = (shared.capacity, shared.slots.place(0));
        Consumer {
            cursor: Cursor::new(0, 0),
            pause,
            place,
            capacity,
            shared: ManuallyDrop::new(shared),
        }
    }

    /// Takes the oldest element out, if there is one. Never waits.
    ///
    /// # Errors
    /// [`Empty`](PopError::Empty), or [`Closed`](PopError::Closed) if the ring is empty and the producer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::PopError;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.try_push('a').unwrap();
    /// assert_eq!((consumer.try_pop(), consumer.try_pop()), (Ok('a'), Err(PopError::Empty)));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn try_pop(&mut self) -> Result<T, PopError> {
        if self.cursor.cached_available() == 0 && self.refresh() == 0 {
            if !self.shared.state.has(PRODUCER_GONE) {
                return Err(PopError::Empty);
            }
            // END: the last elements are visible to this load. The place is in the first view since the refresh.
            let known = self.cursor.refresh(&self.shared.tail.position, 0);
            if self.note(known) == 0 {
                return Err(PopError::Closed);
            }
        }
        self.shared.slots.will_write(self.cursor.position(), 1);
        // SAFETY: the slot is filled (the cursor may advance), lies in the memory (`Place::advance_unwrapped`) and is ours until we release
        // it. The release below makes it vacant, so the element is moved out exactly once.
        let value = unsafe { self.place.slot().read() };
        self.release(1);
        Ok(value)
    }

    /// The elements that are there now, one by one, and those that arrive meanwhile. It ends when the ring is empty; never waits.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// assert_eq!(consumer.try_iter().sum::<i32>(), 6);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn try_iter(&mut self) -> impl Iterator<Item = T> {
        from_fn(|| self.try_pop().ok())
    }

    /// Copies up to `target.len()` elements out, as many as are available, in one burst; returns how many. Never waits.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let mut target = [0; 8];
    /// assert_eq!(consumer.pop_slice(&mut target), 3);
    /// assert_eq!(target[..3], [1, 2, 3]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn pop_slice(&mut self, target: &mut [T]) -> usize
    where
        T: Copy,
    {
        let n = target.len().min(self.filled_or_refresh(target.len()));
        let popped = self.lend(n).copy_to_slice(target);
        match ONE_VIEW && popped < n {
            true => popped + self.pop_slice(&mut target[popped..n]), // the rest follows the seam
            false => popped,
        }
    }

    /// Drops up to `n` elements in place, as [`Peeked::release`](super::Peeked::release) does; returns how many. Never waits.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// assert_eq!((consumer.skip(2), consumer.skip(2)), (2, 1));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn skip(&mut self, n: usize) -> usize {
        let n = match self.cursor.cached_available() {
            known if known >= n => n,
            _ => n.min(self.refresh()),
        };
        let burst = self.lend(n);
        let skipped = burst.len();
        burst.release(skipped);
        match ONE_VIEW && skipped < n {
            true => skipped + self.skip(n - skipped), // the rest follows the seam
            false => skipped,
        }
    }

    /// The number of elements known to be there, without a load.
    #[inline]
    pub(crate) fn cached_available(&self) -> usize {
        self.cursor.cached_available()
    }

    /// Number of elements taken out since the ring was made.
    #[inline]
    pub fn popped(&self) -> u64 {
        self.cursor.position() as u64
    }

    /// The state word of the ring's end.
    #[inline]
    pub(crate) fn state(&self) -> &State {
        &self.shared.state
    }

    /// The object on which this end waits.
    #[inline]
    pub(crate) fn waits_at(&self) -> &W {
        &self.shared.tail.waits
    }

    /// Wakes the producer, for a reason outside the ring.
    pub(crate) fn wake_producer(&self) {
        self.shared.head.waits.wake();
    }

    /// The number of elements known to be there, after a refresh if that is less than `n`.
    #[inline]
    pub(super) fn filled_or_refresh(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            filled if filled >= n => filled,
            _ => self.refresh(),
        }
    }

    /// Counts of the whole ring so far: see [`RingStats`].
    pub fn stats(&self) -> RingStats {
        self.shared.stats()
    }

    /// Number of elements in the ring now, 0 to the capacity. It can only grow until this end takes an element out.
    pub fn len(&self) -> usize {
        self.cursor.peer_distance(&self.shared.tail.position, 0)
    }

    /// Whether the ring is empty now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots, filled or not: exactly the requested capacity.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the producer was dropped. Elements may be left: check this first, then check for elements once more.
    pub fn producer_is_gone(&self) -> bool {
        self.shared.state.has(PRODUCER_GONE)
    }

    /// Which huge pages the ring has. Reads `/proc/self/smaps`, so it is not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        self.shared.slots.huge_pages()
    }

    /// Loads the producer's position and returns the number of elements.
    #[inline]
    fn refresh(&mut self) -> usize {
        self.place.rewind_to_first_view(); // before there may be more elements: see `Place::advance_unwrapped`
        let (cursor, place, shared) = (&mut self.cursor, &self.place, &*self.shared);
        // SAFETY: the consumer's alone, and this is the only borrow.
        let learned = unsafe { &mut *shared.consumers.tuning.get() };
        let theirs = &shared.tail.position;
        let known = tuning::refresh_consumer(cursor, theirs, place, &mut self.pause, learned); // PUBLISH
        self.note(known)
    }

    /// Like [`refresh`](Consumer::refresh), at once.
    #[inline]
    pub(super) fn refresh_at_once(&mut self) -> usize {
        self.place.rewind_to_first_view(); // as in `refresh`
        let (cursor, place, shared) = (&mut self.cursor, &self.place, &*self.shared);
        // SAFETY: the consumer's alone, and this is the only borrow.
        let learned = unsafe { &mut *shared.consumers.tuning.get() };
        let theirs = &shared.tail.position;
        let known = tuning::refresh_consumer_at_once(cursor, theirs, place, learned); // PUBLISH
        self.note(known)
    }

    /// Records a number of elements that a refresh has found, and returns it.
    #[inline(always)]
    pub(super) fn note(&mut self, known: usize) -> usize {
        // One comparison for both: more than ever before, or 0, which wraps.
        if known.wrapping_sub(1) >= self.shared.consumers.counts.max_len() {
            self.shared.found(known, self.cursor.position());
        }
        known
    }

    /// Returns `n` emptied slots to the producer.
    #[inline(always)]
    pub(super) fn release(&mut self, n: usize) {
        self.advance(n);
        self.credit();
    }

    /// Advances by `n` slots without publishing that.
    #[inline(always)]
    pub(super) fn advance(&mut self, n: usize) {
        self.place.advance_unwrapped(n);
        self.cursor.advance(n);
    }

    /// Returns all slots before our position to the producer.
    #[inline(always)]
    pub(super) fn credit(&mut self) {
        self.place.settle();
        self.cursor
            .publish(&self.shared.head.position, Edge::Credit);
        self.shared.head.waits.wake();
    }
}

impl<T, W: Wait> Drop for Consumer<T, W> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: taken once, and not used afterwards. By value, so that it is dropped even if a waker panics.
        let shared = unsafe { ManuallyDrop::take(&mut self.shared) };
        // The last place and the last position must match, even after a drain was forgotten: `Shared` drops the elements from
        // there on.
        self.place.settle();
        self.cursor.publish(&shared.head.position, Edge::Credit);
        leave(shared, CONSUMER_GONE, self.place.offset());
    }
}

debug!([T, W: Wait] Consumer<T, W>, |this| capacity: this.capacity(), len: this.len());
