//! The consumer's end: pops one element, or reads a burst in place and releases it.
//!
//! It reads filled slots and empties them. The orderings are in `ring::cursor`.
//!
//! ```text
//!  peek(5) ─▶ │ 4 5 6 7 8 │ one slice ─▶ release(3) drops 4, 5, 6 in place; 7 and 8 stay
//! ```
#![allow(unsafe_code)]

use super::{Closed, DropRun, Shared, leave};
use crate::{
    memory::{HugePages, cold_path, copy_out},
    ring::{
        backoff::NextPause,
        cursor::{Cursor, Edge},
        slots::{ONE_VIEW, Place},
        state::{CONSUMER_GONE, PRODUCER_GONE, State},
    },
    sync::{Arc, Block, Park, Task, Wait, atomic::Ordering::Relaxed},
};
use std::{
    error, fmt,
    future::poll_fn,
    iter::{FusedIterator, from_fn},
    mem::ManuallyDrop,
    ops::Deref,
    ptr, slice,
    task::{Context, Poll},
    time::{Duration, Instant},
};

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
    cursor: Cursor,
    place: Place<T>,
    capacity: usize,
    shared: ManuallyDrop<Arc<Shared<T, W>>>,
}

// SAFETY: only the consumer touches filled slots and its own learned state, and it moves as a whole. The elements that it moves
// out or drops are Send.
unsafe impl<T: Send, W: Wait> Send for Consumer<T, W> {}

impl<T, W: Wait> Consumer<T, W> {
    pub(super) fn new(shared: Arc<Shared<T, W>>, pause: NextPause) -> Self {
        let (capacity, place) = (shared.capacity, shared.slots.place(0));
        Consumer {
            cursor: Cursor::new(0, 0, pause),
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
            if self.cursor.refresh_now(&self.shared.tail.position, 0) == 0 {
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
        let popped = self.peek(target.len()).copy_to_slice(target);
        if ONE_VIEW && popped < target.len() && self.cursor.cached_available() > 0 {
            let rest = &mut target[popped..];
            return popped + self.peek(rest.len()).copy_to_slice(rest);
        }
        popped
    }

    /// Returns up to `n` elements in place, as one slice: as many as are available, possibly none. Never waits.
    ///
    /// They stay in the ring until released; dropping the burst releases nothing.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let burst = consumer.peek(usize::MAX);
    /// assert_eq!(*burst, [1, 2, 3]);
    /// burst.release(2);
    /// assert_eq!(*consumer.peek(8), [3]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn peek(&mut self, n: usize) -> Peeked<'_, T, W> {
        let n = n.min(self.capacity);
        let known = self.filled_or_refresh(n);
        self.lend(n.min(known))
    }

    /// The next `n` elements, which are known to be there, as far as they are contiguous.
    #[inline(always)]
    fn lend(&mut self, n: usize) -> Peeked<'_, T, W> {
        let n = self.place.run(n);
        // On the cached path no Acquire load is between a write through the other view and the slice.
        self.place.settle();
        self.shared.slots.will_read(self.cursor.position(), n);
        Peeked { consumer: self, n }
    }

    /// All available elements, as one slice; never pauses. With a comparison to `n`, a stream would need 10 instructions more.
    #[inline]
    pub(crate) fn peek_all(&mut self) -> Peeked<'_, T, W> {
        let known = self.refresh_now();
        self.lend(known)
    }

    /// Like [`peek`](Consumer::peek), but never pauses.
    #[inline]
    pub(crate) fn peek_now(&mut self, n: usize) -> Peeked<'_, T, W> {
        let known = self.refresh_now_for(n);
        self.lend(n.min(known))
    }

    /// Removes up to `n` elements without reading them; returns how many.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize) -> usize
    where
        T: Copy,
    {
        let n = n.min(self.refresh_now_for(n));
        if n > 0 {
            self.shared.slots.will_write(self.cursor.position(), n);
            self.release(n);
        }
        n
    }

    /// The number of elements. Loads the producer's position, without a pause, only if fewer than `n` are known.
    #[inline]
    fn refresh_now_for(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            known if known >= n => known,
            _ => self.refresh_now(),
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

    /// Blocks the thread until there are `n` elements (at most the capacity), or the producer is gone. Returns how many are known to
    /// be there: fewer only if the producer is gone.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push(1).unwrap();
    /// assert_eq!(consumer.wait_filled_timeout(2, Duration::from_millis(1)), 1);
    /// drop(producer);
    /// assert_eq!(consumer.wait_filled(2), 1);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_filled(&mut self, n: usize) -> usize {
        self.wait_filled_until(n, || None)
    }

    /// Like [`wait_filled`](Consumer::wait_filled), for up to `timeout`. A timeout of zero never waits.
    #[inline]
    pub fn wait_filled_timeout(&mut self, n: usize, timeout: Duration) -> usize {
        if timeout.is_zero() {
            return self.filled_or_refresh(n);
        }
        self.wait_filled_until(n, || Instant::now().checked_add(timeout))
    }

    /// Like [`wait_filled`](Consumer::wait_filled), until `deadline`.
    #[inline]
    pub fn wait_filled_deadline(&mut self, n: usize, deadline: Instant) -> usize {
        self.wait_filled_until(n, || Some(deadline))
    }

    #[inline]
    fn wait_filled_until(&mut self, n: usize, deadline: impl FnOnce() -> Option<Instant>) -> usize {
        let n = n.min(self.capacity);
        let filled = self.filled_or_refresh(n);
        if filled >= n {
            return filled;
        }
        self.place.rewind_to_first_view(); // as in `refresh`: the closure may learn of more elements
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_filled_or_over(cursor, n);
        shared.tail.waits.wait(deadline(), &mut ready);
        self.cursor.cached_available()
    }

    /// The number of elements known to be there, after a refresh if that is less than `n`.
    #[inline]
    fn filled_or_refresh(&mut self, n: usize) -> usize {
        match self.cursor.cached_available() {
            filled if filled >= n => filled,
            _ => self.refresh(),
        }
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

    /// Loads the producer's position and returns the number of elements. May evict lines that were read.
    #[inline]
    fn refresh(&mut self) -> usize {
        self.place.rewind_to_first_view(); // before there may be more elements: see `Place::advance_unwrapped`
        let (shared, place) = (&*self.shared, &self.place);
        // SAFETY: the consumer's alone, and this is the only borrow.
        let learned = unsafe { &mut *shared.consumers.get() };
        let known = self
            .cursor
            .refresh(&shared.tail.position, 0, |newly, received| {
                learned.adapt(newly, received, place.address())
            }); // PUBLISH
        if known == 0 {
            self.credit_forgotten();
        }
        known
    }

    /// Like [`refresh`](Consumer::refresh), without a pause.
    #[inline]
    fn refresh_now(&mut self) -> usize {
        self.place.rewind_to_first_view(); // as in `refresh`
        let known = self.cursor.refresh_now(&self.shared.tail.position, 0); // PUBLISH
        // SAFETY: the consumer's alone, and this is the only borrow.
        let line_flush = unsafe { &mut (*self.shared.consumers.get()).line_flush };
        let received = self.cursor.limit();
        if line_flush.is_due(received) {
            line_flush.step(received, self.place.address());
        }
        if known == 0 {
            self.credit_forgotten();
        }
        known
    }

    /// Returns `n` emptied slots to the producer.
    #[inline(always)]
    fn release(&mut self, n: usize) {
        self.advance(n);
        self.credit();
    }

    /// Advances by `n` slots without publishing that.
    #[inline(always)]
    fn advance(&mut self, n: usize) {
        self.place.advance_unwrapped(n);
        self.cursor.advance(n);
    }

    /// Returns the slots that a forgotten [`Drain`] emptied to the producer, which might otherwise wait for them forever.
    #[inline(always)]
    fn credit_forgotten(&mut self) {
        // Relaxed: only this end stores it.
        if self.shared.head.position.load(Relaxed) != self.cursor.position() {
            cold_path();
            self.credit();
        }
    }

    /// Returns all slots before our position to the producer.
    #[inline(always)]
    fn credit(&mut self) {
        self.place.settle();
        self.cursor
            .publish(&self.shared.head.position, Edge::Credit);
        self.shared.head.waits.wake();
    }
}

impl<T, W: Block> Consumer<T, W> {
    /// Takes the oldest element out, waiting for one.
    ///
    /// # Errors
    /// The ring is empty and the producer is gone: no element will ever arrive.
    ///
    /// ```
    /// use forebay::ring::spsc::{Closed, PopError};
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// assert_eq!(consumer.pop_timeout(Duration::from_millis(1)), Err(PopError::Empty));
    /// producer.push(1).unwrap();
    /// drop(producer);
    /// assert_eq!(consumer.pop(), Ok(1));
    /// assert_eq!(consumer.pop(), Err(Closed(())));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn pop(&mut self) -> Result<T, Closed> {
        loop {
            match self.pop_until(|| None) {
                Ok(value) => return Ok(value),
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::Empty) => {}
            }
        }
    }

    /// Like [`pop`](Consumer::pop), waiting for up to `timeout`.
    ///
    /// # Errors
    /// [`Empty`](PopError::Empty) if no element arrived in time, [`Closed`](PopError::Closed) if the ring is empty and the
    /// producer is gone.
    pub fn pop_timeout(&mut self, timeout: Duration) -> Result<T, PopError> {
        self.pop_until(|| Instant::now().checked_add(timeout))
    }

    /// Like [`pop`](Consumer::pop), waiting until `deadline`.
    ///
    /// # Errors
    /// Those of [`pop_timeout`](Consumer::pop_timeout).
    pub fn pop_deadline(&mut self, deadline: Instant) -> Result<T, PopError> {
        self.pop_until(|| Some(deadline))
    }

    fn pop_until(&mut self, deadline: impl FnOnce() -> Option<Instant>) -> Result<T, PopError> {
        match self.try_pop() {
            Err(PopError::Empty) => {
                self.wait_filled_until(1, deadline);
                self.try_pop()
            }
            done => done,
        }
    }

    /// The elements one by one, waiting for each. It ends when the ring is empty and the producer is gone.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// let thread = std::thread::spawn(move || (0..100).for_each(|number| producer.push(number).unwrap()));
    /// assert_eq!(consumer.iter().take(10).sum::<i32>(), 45);
    /// assert_eq!(consumer.into_iter().count(), 90);
    /// # thread.join().unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn iter(&mut self) -> impl Iterator<Item = T> {
        from_fn(|| self.pop().ok())
    }
}

/// Takes the elements one by one, waiting for each: see [`Consumer::iter`].
#[derive(Debug)]
pub struct IntoIter<T, W: Wait = Park>(Consumer<T, W>);

impl<T, W: Block> Iterator for IntoIter<T, W> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.pop().ok()
    }
}

impl<T, W: Block> IntoIterator for Consumer<T, W> {
    type Item = T;
    type IntoIter = IntoIter<T, W>;

    fn into_iter(self) -> IntoIter<T, W> {
        IntoIter(self)
    }
}

impl<T> Consumer<T, Task> {
    /// Takes the oldest element out, waiting for one without blocking the thread. See [`Producer::push`](super::Producer::push) for
    /// an example.
    ///
    /// Cancel safety: a future that is dropped before it is ready has taken nothing out.
    ///
    /// # Errors
    /// The ring is empty and the producer is gone: no element will ever arrive.
    pub async fn pop(&mut self) -> Result<T, Closed> {
        loop {
            match self.try_pop() {
                Ok(value) => return Ok(value),
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::Empty) => self.until_filled(1).await,
            };
        }
    }

    /// Waits, without blocking the thread, until there are `n` elements (at most the capacity), or the producer is gone; returns
    /// how many there are. Cancel-safe: nothing changes in the ring.
    pub async fn until_filled(&mut self, n: usize) -> usize {
        poll_fn(|context| self.poll_filled(n, context)).await
    }

    /// Ready with the number of elements once that is `n` (at most the capacity), or once the producer is gone. While it is
    /// pending, the task of `context` is woken whenever the producer publishes elements.
    pub fn poll_filled(&mut self, n: usize, context: &mut Context<'_>) -> Poll<usize> {
        let n = n.min(self.capacity);
        self.place.rewind_to_first_view(); // as in `refresh`: the closure may learn of more elements
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_filled_or_over(cursor, n);
        match shared.tail.waits.poll(context, &mut ready) {
            true => Poll::Ready(self.cursor.cached_available()),
            false => Poll::Pending,
        }
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

impl<T, W: Wait> fmt::Debug for Consumer<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (capacity, len) = (self.capacity(), self.len());
        f.debug_struct("Consumer")
            .field("capacity", &capacity)
            .field("len", &len)
            .finish_non_exhaustive()
    }
}

/// The oldest elements, as one slice. They stay in the ring until they are released.
#[derive(Debug)]
pub struct Peeked<'a, T, W: Wait = Park> {
    consumer: &'a mut Consumer<T, W>,
    n: usize,
}

impl<'a, T, W: Wait> Peeked<'a, T, W> {
    /// Drops the first `k` elements in place and returns their slots to the producer.
    ///
    /// If a Drop panics, the other elements of the `k` are still dropped, and the slots are returned.
    ///
    /// # Panics
    /// If `k` is larger than the number of elements in this burst.
    #[inline]
    pub fn release(self, k: usize) {
        /// Declared before the elements, so that it is dropped after them, even if one of them panics.
        struct Credit<'a, T, W: Wait>(&'a mut Consumer<T, W>, usize);
        impl<T, W: Wait> Drop for Credit<'_, T, W> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.release(self.1);
            }
        }
        assert!(k <= self.n, "releasing {k} of {} elements", self.n);
        if k == 0 {
            return;
        }
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position(), k);
        let elements = ptr::slice_from_raw_parts_mut(self.consumer.place.slot(), k);
        let _credit = Credit(self.consumer, k);
        drop(DropRun(elements));
    }

    /// The elements, borrowed for as long as the consumer; they stay in the ring.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let slice: &[u8] = consumer.peek(2).into_slice();
    /// assert_eq!(slice, [1, 2]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn into_slice(self) -> &'a [T] {
        // SAFETY: as in `deref`. Releasing them needs the consumer, which stays borrowed for `'a`.
        unsafe { slice::from_raw_parts(self.consumer.place.slot(), self.n) }
    }

    /// Copies elements into `target`, up to the smaller of both lengths, and releases them; returns how many.
    #[inline]
    pub fn copy_to_slice(self, target: &mut [T]) -> usize
    where
        T: Copy,
    {
        let k = self.n.min(target.len());
        let filled = self.consumer.place.slot();
        // SAFETY: `k` of our filled slots, contiguous, and the same number of elements of `target`. They cannot overlap: a
        // reference to an element in a slot borrows the consumer.
        unsafe { copy_out(filled, target.as_mut_ptr(), k) };
        self.release(k);
        k
    }
}

impl<'a, T: Copy, W: Wait> Peeked<'a, T, W> {
    /// Takes all of the elements at once, to read them in place.
    #[inline(always)]
    pub(crate) fn take(self) -> Taken<'a, T, W> {
        let (first, n) = (self.consumer.place.slot(), self.n);
        // The consumer advances at once, so that a forgotten burst is not taken twice.
        self.consumer.advance(n);
        Taken {
            consumer: self.consumer,
            first,
            n,
        }
    }
}

/// Elements that were taken but are still in their slots. Dropping it returns the slots to the producer; forgetting it has the
/// same effect as forgetting a [`Drain`].
#[derive(Debug)]
pub(crate) struct Taken<'a, T: Copy, W: Wait> {
    consumer: &'a mut Consumer<T, W>,
    first: *const T,
    n: usize,
}

impl<T: Copy, W: Wait> Deref for Taken<'_, T, W> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `n` filled slots, contiguous. They are the consumer's until `drop` returns them, and we borrow the consumer.
        unsafe { slice::from_raw_parts(self.first, self.n) }
    }
}

impl<T: Copy, W: Wait> Drop for Taken<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position().wrapping_sub(self.n), self.n);
        self.consumer.credit();
    }
}

impl<T, W: Wait> Deref for Peeked<'_, T, W> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `n` filled slots, contiguous. They stay ours until they are released, which needs this burst by value.
        unsafe { slice::from_raw_parts(self.consumer.place.slot(), self.n) }
    }
}

impl<'a, T, W: Wait> IntoIterator for Peeked<'a, T, W> {
    type Item = T;
    type IntoIter = Drain<'a, T, W>;

    /// Moves the elements out one by one; the elements that are not taken stay in the ring.
    #[inline]
    fn into_iter(self) -> Drain<'a, T, W> {
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position(), self.n);
        Drain {
            consumer: self.consumer,
            left: self.n,
        }
    }
}

/// Moves the elements of a burst out. Dropping it returns the slots of the taken elements to the producer at once.
///
/// If it is forgotten ([`std::mem::forget`]), the elements that it returned are still taken. The producer gets their slots back
/// later: when the consumer takes another element out, finds the ring empty, or is dropped.
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
/// producer.push_burst(&mut ["a", "b", "c"].map(String::from).into_iter());
/// let two: Vec<String> = consumer.peek(2).into_iter().collect();
/// assert_eq!(two, ["a", "b"]);
/// assert_eq!(consumer.try_pop().as_deref(), Ok("c"));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Drain<'a, T, W: Wait = Park> {
    consumer: &'a mut Consumer<T, W>,
    left: usize,
}

impl<T, W: Wait> Iterator for Drain<'_, T, W> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let slot = self.consumer.place.slot();
        // The consumer advances at once, so that a forgotten Drain cannot make it move this element out again.
        self.consumer.advance(1);
        self.left -= 1;
        // SAFETY: the slot was one of the burst's filled slots, and the consumer has advanced past it. It is read this once,
        // and not returned to the producer before the drain is dropped, or a later release.
        Some(unsafe { slot.read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T, W: Wait> ExactSizeIterator for Drain<'_, T, W> {}
impl<T, W: Wait> FusedIterator for Drain<'_, T, W> {}

impl<T, W: Wait> Drop for Drain<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.consumer.credit();
    }
}

/// Why no element was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PopError {
    /// There was no element, or none arrived in time.
    Empty,
    /// The ring is empty and the producer is gone: no element will ever arrive.
    Closed,
}

impl fmt::Display for PopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PopError::Empty => "the ring is empty",
            PopError::Closed => "the ring is empty and its producer is gone",
        })
    }
}

impl error::Error for PopError {}
