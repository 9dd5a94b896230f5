//! The producer's end: pushes one element, or reserves a burst, fills it in place and commits it.
//!
//! It writes only vacant slots.
//!
//! ```text
//!  reserve(5) ─▶ │ u u u u u │ ─▶ fill three ─▶ │ 7 8 9 │ published at once; the other two stay vacant
//! ```
#![allow(unsafe_code)]

use super::{Shared, leave};
use crate::{
    memory::{HugePages, copy_in},
    ring::{
        backoff::Pauses,
        cursor::{Cursor, Edge},
        slots::{ONE_VIEW, Place},
        state::{CONSUMER_GONE, PRODUCER_GONE, State},
    },
    sync::{Arc, Spin, Wait},
};
use std::{
    error, fmt,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Range,
    slice,
    time::Duration,
};

/// The end that puts elements in. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// ```
/// let (mut producer, consumer) = forebay::ring::spsc::ring(4)?;
/// assert_eq!(producer.push(1), Ok(()));
/// assert_eq!(producer.push_slice(&[2, 3, 4, 5]), 3);
/// assert_eq!((producer.vacant(), consumer.len()), (0, 4));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Producer<T, W: Wait = Spin> {
    cursor: Cursor,
    place: Place<T>,
    capacity: usize,
    shared: ManuallyDrop<Arc<Shared<T, W>>>,
}

// SAFETY: only the producer writes vacant slots and touches its own learned state, and it moves as a whole. The elements that it
// moves in are Send.
unsafe impl<T: Send, W: Wait> Send for Producer<T, W> {}

impl<T, W: Wait> Producer<T, W> {
    pub(super) fn new(shared: Arc<Shared<T, W>>, pauses: Pauses) -> Self {
        let capacity = shared.capacity;
        Producer {
            cursor: Cursor::new(0, capacity, pauses),
            place: shared.slots.place(0),
            capacity,
            shared: ManuallyDrop::new(shared),
        }
    }

    /// Puts one element into the ring. The consumer can see it at once.
    ///
    /// # Errors
    /// [`Full`] returns the element.
    ///
    /// ```
    /// let (mut producer, _consumer) = forebay::ring::spsc::ring(1)?;
    /// assert!(producer.push('a').is_ok());
    /// assert_eq!(producer.push('b').unwrap_err().0, 'b');
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), Full<T>> {
        if self.cursor.cached_available() > 0 {
            self.put_in(value);
            return Ok(());
        }
        if self.refresh() == 0 {
            return Err(Full(value));
        }
        self.put_in(value);
        Ok(())
    }

    /// Puts one element into the next slot, which is known to be vacant.
    #[inline(always)]
    fn put_in(&mut self, value: T) {
        self.shared.slots.will_write(self.cursor.position(), 1);
        // SAFETY: the slot is vacant (the cursor may advance), so it is ours until we publish it, and it holds no element.
        unsafe { self.place.slot().write(value) };
        self.place.advance_one();
        self.cursor.step(1);
        self.tell();
    }

    /// Puts elements of `source` into all vacant slots, in one burst, until either ends; returns how many.
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
            if !ONE_VIEW || filled < room || pushed == 0 || self.cursor.cached_available() == 0 {
                return pushed;
            }
        }
    }

    /// Copies the start of `source` into the vacant slots, as far as they suffice, in one burst; returns how many elements.
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
        let pushed = self.reserve(source.len()).copy_from_slice(source);
        if ONE_VIEW && pushed < source.len() && self.cursor.cached_available() > 0 {
            let rest = &source[pushed..];
            return pushed + self.reserve(rest.len()).copy_from_slice(rest);
        }
        pushed
    }

    /// Reserves up to `n` contiguous vacant slots, to be filled in place: as many as are vacant, possibly none.
    ///
    /// Dropping it without a commit changes nothing.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(8)?;
    /// let reserved = producer.reserve(100);
    /// assert_eq!(reserved.len(), 8);
    /// assert_eq!(reserved.fill([1, 2, 3]), 3);
    /// assert_eq!(&*consumer.peek(100), [1, 2, 3]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn reserve(&mut self, n: usize) -> Reserved<'_, T, W> {
        let n = n.min(self.capacity);
        let mut known = self.cursor.cached_available();
        if known < n {
            known = self.refresh();
        }
        self.lend(n.min(known))
    }

    /// The next `n` slots, which are known to be vacant, as far as they are contiguous.
    #[inline(always)]
    fn lend(&mut self, n: usize) -> Reserved<'_, T, W> {
        let n = self.place.run(n);
        // Earlier writes of an abandoned reservation through the second view must not be reordered after the writes below.
        self.place.settle();
        self.shared.slots.will_write(self.cursor.position(), n);
        Reserved { producer: self, n }
    }

    /// Puts one element in, waiting for a vacant slot up to `limit` (`None`: forever).
    ///
    /// # Errors
    /// Returns the element: the time limit expired, or the ring is full and the consumer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::PushError;
    /// use std::time::Duration;
    /// let (mut producer, consumer) = forebay::ring::spsc::ring(1)?;
    /// let limit = Some(Duration::from_millis(1));
    /// assert_eq!(producer.push_wait(1, limit), Ok(()));
    /// assert_eq!(producer.push_wait(2, limit), Err(PushError::TimedOut(2)));
    /// drop(consumer);
    /// assert_eq!(producer.push_wait(2, None), Err(PushError::Closed(2)));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn push_wait(&mut self, value: T, limit: Option<Duration>) -> Result<(), PushError<T>> {
        let Err(Full(value)) = self.push(value) else {
            return Ok(());
        };
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let theirs = &shared.head.position;
        shared.head.waits.wait(limit, &mut || {
            // END; loaded first, so that the load of the position below sees a head stored before it.
            let gone = shared.state.has(CONSUMER_GONE);
            cursor.refresh_now(theirs, shared.capacity) > 0 || gone
        });
        if self.cursor.cached_available() == 0 {
            return Err(match self.consumer_is_gone() {
                true => PushError::Closed(value),
                false => PushError::TimedOut(value),
            });
        }
        self.push(value)
            .map_err(|Full(value)| PushError::TimedOut(value))
    }

    /// Like [`push_slice`](Producer::push_slice), without pauses and prefetching.
    #[inline]
    pub(crate) fn put(&mut self, source: &[T]) -> usize
    where
        T: Copy,
    {
        let all = source.len().min(self.glance_for(source.len()));
        let mut put = 0;
        while put < all {
            let n = self.place.run(all - put); // with a mirror all of them
            self.place.settle();
            self.shared.slots.will_write(self.cursor.position(), n);
            let slots = self.place.slot();
            // SAFETY: as in `copy_from_slice`.
            unsafe { copy_in(source[put..].as_ptr(), slots, n) };
            self.publish(n);
            put += n;
        }
        all
    }

    /// Like [`reserve`](Producer::reserve), but never pauses.
    #[inline]
    pub(crate) fn reserve_now(&mut self, n: usize) -> Reserved<'_, T, W> {
        let known = self.glance_for(n);
        self.lend(n.min(known))
    }

    /// The number of vacant slots. Loads the consumer's position only if fewer than `n` are known.
    #[inline]
    fn glance_for(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            known if known >= n => known,
            _ => self
                .cursor
                .refresh_now(&self.shared.head.position, self.capacity), // CREDIT
        }
    }

    /// Number of elements put in so far.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.cursor.position()
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

    /// Waits up to `limit` (`None`: forever) until `n` slots are vacant; returns whether they are.
    ///
    /// It returns early if the consumer is gone, or if `n` is more than the capacity.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// assert!(!producer.wait_vacant(2, Some(Duration::from_millis(1))));
    /// consumer.pop();
    /// assert!(producer.wait_vacant(2, None));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_vacant(&mut self, n: usize, limit: Option<Duration>) -> bool {
        if self.cursor.cached_available() >= n || self.refresh() >= n {
            return true;
        }
        if n > self.capacity || limit == Some(Duration::ZERO) {
            return false;
        }
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let theirs = &shared.head.position;
        shared.head.waits.wait(limit, &mut || {
            // END; loaded first, so that the load of the position below sees a head stored before it.
            let gone = shared.state.has(CONSUMER_GONE);
            cursor.refresh_now(theirs, shared.capacity) >= n || gone
        });
        self.cursor.cached_available() >= n
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

    /// Whether the consumer was dropped. Elements put in after that are dropped with the ring.
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

    /// Loads the consumer's position and returns the number of vacant slots.
    #[inline]
    fn refresh(&mut self) -> usize {
        let theirs = &self.shared.head.position;
        // SAFETY: the producer's alone, and this is the only borrow.
        let backoff = unsafe { &mut *self.shared.producers.get() };
        self.cursor
            .refresh(theirs, self.capacity, |newly, _| backoff.learned(newly)) // CREDIT
    }

    /// Publishes a burst of `n` filled slots to the consumer.
    #[inline(always)]
    fn publish_burst(&mut self, n: usize) {
        if n > 0 {
            self.place.prefetch(n);
            self.publish(n);
        }
    }

    /// Publishes `n` filled slots to the consumer.
    #[inline(always)]
    fn publish(&mut self, n: usize) {
        self.place.advance(n);
        self.cursor.step(n);
        self.tell();
    }

    /// Publishes our position.
    #[inline(always)]
    fn tell(&self) {
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

impl<T, W: Wait> fmt::Debug for Producer<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (capacity, vacant) = (self.capacity(), self.vacant());
        f.debug_struct("Producer")
            .field("capacity", &capacity)
            .field("vacant", &vacant)
            .finish_non_exhaustive()
    }
}

/// Contiguous vacant slots. `fill`, `copy_from_slice` or `commit` publishes a filled prefix.
#[derive(Debug)]
#[must_use = "slots are only published when they are filled or committed"]
pub struct Reserved<'a, T, W: Wait = Spin> {
    producer: &'a mut Producer<T, W>,
    n: usize,
}

impl<T, W: Wait> Reserved<'_, T, W> {
    /// Number of slots in this burst; 0 if the ring is full.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether the ring was full.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Fills slots from `source` until either ends, and publishes them; returns how many.
    ///
    /// If `source` panics, the elements that it returned before are published.
    #[inline]
    pub fn fill(self, source: impl IntoIterator<Item = T>) -> usize {
        struct Publish<'a, T, W: Wait>(&'a mut Producer<T, W>, usize);
        impl<T, W: Wait> Drop for Publish<'_, T, W> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.publish_burst(self.1);
            }
        }
        let first = self.producer.place.slot();
        let mut filled = Publish(self.producer, 0);
        for value in source.into_iter().take(self.n) {
            // SAFETY: slot number `filled.1` is one of our `n` vacant slots: it lies in the memory, and they are contiguous.
            let slot = unsafe { first.add(filled.1) };
            // SAFETY: it is ours until published, and it holds no element.
            unsafe { slot.write(value) };
            filled.1 += 1;
        }
        filled.1
    }

    /// Copies the start of `source` into the slots and publishes them; returns how many, the smaller of both lengths.
    #[inline]
    pub fn copy_from_slice(self, source: &[T]) -> usize
    where
        T: Copy,
    {
        let k = self.n.min(source.len());
        let vacant = self.producer.place.slot();
        // SAFETY: `k` of our vacant slots, contiguous. `source`, which may be borrowed from a consumer, cannot overlap them: we
        // borrow the producer exclusively, and a consumer lends only published slots.
        unsafe { copy_in(source.as_ptr(), vacant, k) };
        self.producer.publish_burst(k);
        k
    }

    /// The slots, to write in any order before [`commit`](Reserved::commit).
    #[inline]
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: our `n` vacant slots, contiguous, ours alone through the exclusive borrow; they may be uninitialised.
        unsafe { slice::from_raw_parts_mut(self.producer.place.slot().cast(), self.n) }
    }

    /// The first slot; `len()` slots from there are contiguous.
    #[inline]
    pub(crate) fn first(&self) -> *const T {
        self.producer.place.slot()
    }

    /// Publishes the first `k` slots.
    ///
    /// # Safety
    /// The first `k` slots have been written through [`as_uninit`](Reserved::as_uninit).
    ///
    /// # Panics
    /// If `k` is larger than [`len`](Reserved::len).
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u16>(8)?;
    /// let mut reserved = producer.reserve(2);
    /// reserved.as_uninit()[1].write(20);
    /// reserved.as_uninit()[0].write(10);
    /// // SAFETY: both were written.
    /// unsafe { reserved.commit(2) };
    /// assert_eq!(&*consumer.peek(2), [10, 20]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub unsafe fn commit(self, k: usize) {
        assert!(k <= self.n, "committing {k} of {} slots", self.n);
        self.producer.publish_burst(k);
    }
}

/// The ring was full; contains the element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

/// Why [`Producer::push_wait`] returned the element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PushError<T> {
    /// No slot became vacant within the time limit.
    TimedOut(T),
    /// The ring is full and the consumer is gone.
    Closed(T),
}

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the ring is full")
    }
}

impl<T> error::Error for Full<T> {}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::TimedOut(_) => "TimedOut(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::TimedOut(_) => "the ring stayed full for the whole time limit",
            PushError::Closed(_) => "the ring is full and its consumer is gone",
        })
    }
}

impl<T> error::Error for PushError<T> {}
