//! The producer's end: pushes one element, or reserves a burst, fills it in place and commits it.
//!
//! It writes only vacant slots.
//!
//! ```text
//!  reserve(5) ─▶ │ u u u u u │ ─▶ fill three ─▶ │ 7 8 9 │ published at once; the other two stay vacant
//! ```
#![allow(unsafe_code)]

use super::{Closed, Shared, leave};
use crate::{
    memory::{HugePages, copy_in},
    ring::{
        backoff::NextPause,
        cursor::{Cursor, Edge},
        slots::{ONE_VIEW, Place},
        state::{CONSUMER_GONE, PRODUCER_GONE, State},
    },
    sync::{Arc, Block, Park, Task, Wait},
};
use std::{
    error, fmt,
    future::poll_fn,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Range,
    slice,
    task::{Context, Poll},
    time::{Duration, Instant},
};

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
    cursor: Cursor,
    place: Place<T>,
    capacity: usize,
    shared: ManuallyDrop<Arc<Shared<T, W>>>,
}

// SAFETY: only the producer writes vacant slots and touches its own learned state, and it moves as a whole. The elements that it
// moves in are Send.
unsafe impl<T: Send, W: Wait> Send for Producer<T, W> {}

impl<T, W: Wait> Producer<T, W> {
    pub(super) fn new(shared: Arc<Shared<T, W>>, pause: NextPause) -> Self {
        let capacity = shared.capacity;
        Producer {
            cursor: Cursor::new(0, capacity, pause),
            place: shared.slots.place(0),
            capacity,
            shared: ManuallyDrop::new(shared),
        }
    }

    /// Puts one element into the ring, if a slot is vacant. Never waits. The consumer can see the element at once.
    ///
    /// # Errors
    /// [`Full`](PushError::Full), or [`Closed`](PushError::Closed) if the ring is full and the consumer is gone; both return the
    /// element. As long as a slot is vacant, elements are accepted even if the consumer is gone: they are dropped with the ring.
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
        if self.cursor.cached_available() > 0 {
            self.put_in(value);
            return Ok(());
        }
        if self.refresh() == 0 {
            if !self.shared.state.has(CONSUMER_GONE) {
                return Err(PushError::Full(value));
            }
            // END: the slots that the consumer emptied last are visible to this load.
            let head = &self.shared.head.position;
            if self.cursor.refresh_now(head, self.capacity) == 0 {
                return Err(PushError::Closed(value));
            }
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
            if !ONE_VIEW || filled < room || pushed == 0 || self.cursor.cached_available() == 0 {
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
        let pushed = self.reserve(source.len()).copy_from_slice(source);
        if ONE_VIEW && pushed < source.len() && self.cursor.cached_available() > 0 {
            let rest = &source[pushed..];
            return pushed + self.reserve(rest.len()).copy_from_slice(rest);
        }
        pushed
    }

    /// Reserves up to `n` contiguous vacant slots, to be filled in place: as many as are vacant, possibly none.
    /// Never waits.
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
        let known = self.vacant_or_refresh(n);
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

    /// Like [`push_slice`](Producer::push_slice), without pauses and prefetching.
    #[inline]
    pub(crate) fn put(&mut self, source: &[T]) -> usize
    where
        T: Copy,
    {
        let all = source.len().min(self.refresh_now_for(source.len()));
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
        let known = self.refresh_now_for(n);
        self.lend(n.min(known))
    }

    /// The number of vacant slots. Loads the consumer's position, without a pause, only if fewer than `n` are known.
    #[inline]
    fn refresh_now_for(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            known if known >= n => known,
            _ => self
                .cursor
                .refresh_now(&self.shared.head.position, self.capacity), // CREDIT
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

    /// Blocks the thread until `n` slots (at most the capacity) are vacant, or the consumer is gone. Returns how many are known to
    /// be vacant: fewer only if the consumer is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// assert_eq!(producer.wait_vacant_timeout(2, Duration::from_millis(1)), 1);
    /// consumer.try_pop().unwrap();
    /// assert_eq!(producer.wait_vacant(2), 2);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_vacant(&mut self, n: usize) -> usize {
        self.wait_vacant_until(n, || None)
    }

    /// Like [`wait_vacant`](Producer::wait_vacant), for up to `timeout`. A timeout of zero never waits.
    #[inline]
    pub fn wait_vacant_timeout(&mut self, n: usize, timeout: Duration) -> usize {
        if timeout.is_zero() {
            return self.vacant_or_refresh(n);
        }
        self.wait_vacant_until(n, || Instant::now().checked_add(timeout))
    }

    /// Like [`wait_vacant`](Producer::wait_vacant), until `deadline`.
    #[inline]
    pub fn wait_vacant_deadline(&mut self, n: usize, deadline: Instant) -> usize {
        self.wait_vacant_until(n, || Some(deadline))
    }

    #[inline]
    fn wait_vacant_until(&mut self, n: usize, deadline: impl FnOnce() -> Option<Instant>) -> usize {
        let n = n.min(self.capacity);
        let vacant = self.vacant_or_refresh(n);
        if vacant >= n {
            return vacant;
        }
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_vacant_or_over(cursor, n);
        shared.head.waits.wait(deadline(), &mut ready);
        self.cursor.cached_available()
    }

    /// The number of slots known to be vacant, after a refresh if that is less than `n`.
    #[inline]
    fn vacant_or_refresh(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            vacant if vacant >= n => vacant,
            _ => self.refresh(),
        }
    }

    /// Number of elements put in since the ring was made.
    #[inline]
    pub fn pushed(&self) -> u64 {
        self.cursor.position() as u64
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
            .refresh(theirs, self.capacity, |newly, _| backoff.adapt(newly)) // CREDIT
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

impl<T, W: Block> Producer<T, W> {
    /// Puts one element into the ring, waiting for a vacant slot.
    ///
    /// # Errors
    /// Returns the element: the ring is full and the consumer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::{Closed, PushError};
    /// use std::time::Duration;
    /// let (mut producer, consumer) = forebay::ring::spsc::ring(1)?;
    /// assert_eq!(producer.push(1), Ok(()));
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(producer.push_timeout(2, timeout), Err(PushError::Full(2)));
    /// drop(consumer);
    /// assert_eq!(producer.push(2), Err(Closed(2)));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn push(&mut self, value: T) -> Result<(), Closed<T>> {
        let mut value = value;
        loop {
            match self.push_until(value, || None) {
                Ok(()) => return Ok(()),
                Err(PushError::Closed(value)) => return Err(Closed(value)),
                Err(PushError::Full(back)) => value = back,
            }
        }
    }

    /// Like [`push`](Producer::push), waiting for up to `timeout`.
    ///
    /// # Errors
    /// Returns the element: [`Full`](PushError::Full) if no slot became vacant in time, [`Closed`](PushError::Closed) if the ring
    /// is full and the consumer is gone.
    pub fn push_timeout(&mut self, value: T, timeout: Duration) -> Result<(), PushError<T>> {
        self.push_until(value, || Instant::now().checked_add(timeout))
    }

    /// Like [`push`](Producer::push), waiting until `deadline`.
    ///
    /// # Errors
    /// Those of [`push_timeout`](Producer::push_timeout).
    pub fn push_deadline(&mut self, value: T, deadline: Instant) -> Result<(), PushError<T>> {
        self.push_until(value, || Some(deadline))
    }

    fn push_until(
        &mut self,
        value: T,
        deadline: impl FnOnce() -> Option<Instant>,
    ) -> Result<(), PushError<T>> {
        match self.try_push(value) {
            Err(PushError::Full(value)) => {
                self.wait_vacant_until(1, deadline);
                self.try_push(value)
            }
            done => done,
        }
    }
}

impl<T> Producer<T, Task> {
    /// Puts one element into the ring, waiting for a vacant slot without blocking the thread.
    ///
    /// Cancel safety: a future that is dropped before it is ready has pushed nothing; the element is dropped with it. To keep the
    /// element, await [`until_vacant`](Producer::until_vacant), and then [`try_push`](Producer::try_push).
    ///
    /// # Errors
    /// Returns the element: the ring is full and the consumer is gone.
    ///
    /// ```
    /// use forebay::{ring::spsc::{ring_with, RingConfig}, sync::Task};
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (mut producer, mut consumer) = ring_with::<u64, Task>(&RingConfig::default())?;
    /// let task = tokio::spawn(async move {
    ///     for number in 0..5000 {
    ///         producer.push(number).await.unwrap();
    ///     }
    /// });
    /// let mut sum = 0;
    /// while let Ok(number) = consumer.pop().await {
    ///     sum += number;
    /// }
    /// assert_eq!(sum, 4999 * 5000 / 2);
    /// # task.await.unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// # })?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub async fn push(&mut self, value: T) -> Result<(), Closed<T>> {
        let mut value = value;
        loop {
            match self.try_push(value) {
                Ok(()) => return Ok(()),
                Err(PushError::Closed(value)) => return Err(Closed(value)),
                Err(PushError::Full(back)) => value = back,
            }
            self.until_vacant(1).await;
        }
    }

    /// Waits, without blocking the thread, until `n` slots (at most the capacity) are vacant, or the consumer is gone; returns how
    /// many are vacant. Cancel-safe: nothing changes in the ring, and the slots stay vacant until this end fills them.
    pub async fn until_vacant(&mut self, n: usize) -> usize {
        poll_fn(|context| self.poll_vacant(n, context)).await
    }

    /// Ready with the number of vacant slots once that is `n` (at most the capacity), or once the consumer is gone. While it is
    /// pending, the task of `context` is woken whenever the consumer releases slots.
    pub fn poll_vacant(&mut self, n: usize, context: &mut Context<'_>) -> Poll<usize> {
        let n = n.min(self.capacity);
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_vacant_or_over(cursor, n);
        match shared.head.waits.poll(context, &mut ready) {
            true => Poll::Ready(self.cursor.cached_available()),
            false => Poll::Pending,
        }
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
pub struct Reserved<'a, T, W: Wait = Park> {
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

/// Why a push returned the element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PushError<T> {
    /// No slot was vacant, or none became vacant in time.
    Full(T),
    /// The ring is full and the consumer is gone.
    Closed(T),
}

impl<T> PushError<T> {
    /// The element that was not pushed.
    pub fn into_inner(self) -> T {
        match self {
            PushError::Full(value) | PushError::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "Full(..)",
            PushError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PushError::Full(_) => "the ring is full",
            PushError::Closed(_) => "the ring is full and its consumer is gone",
        })
    }
}

impl<T> error::Error for PushError<T> {}
