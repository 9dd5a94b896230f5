//! The calls of both ends that block the thread.

use super::{Closed, Consumer, PopError, Producer, PushError, WaitError};
use crate::sync::{Block, Deadline, Park, Wait};
use std::{
    iter::from_fn,
    time::{Duration, Instant},
};

impl<T, W: Wait> Producer<T, W> {
    /// Blocks the thread until `n` slots (at most the capacity) are vacant, or the consumer is gone. Returns how many are known to
    /// be vacant: 0 if the consumer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::WaitError;
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(producer.wait_vacant_timeout(2, timeout), Err(WaitError::TimedOut));
    /// consumer.try_pop().unwrap();
    /// assert_eq!(producer.wait_vacant(2), 2);
    /// drop(consumer);
    /// assert_eq!(producer.wait_vacant_timeout(1, timeout), Err(WaitError::Closed));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_vacant(&mut self, n: usize) -> usize {
        self.wait_vacant_until(n, &Deadline::never())
    }

    /// Like [`wait_vacant`](Producer::wait_vacant), for up to `timeout`. A timeout of zero never waits.
    ///
    /// # Errors
    /// Fewer slots are vacant, and the time has passed or the consumer is gone.
    pub fn wait_vacant_timeout(&mut self, n: usize, timeout: Duration) -> Result<usize, WaitError> {
        self.wait_vacant_within(n, &Deadline::after(timeout))
    }

    /// Like [`wait_vacant`](Producer::wait_vacant), until `deadline`.
    ///
    /// # Errors
    /// Those of [`wait_vacant_timeout`](Producer::wait_vacant_timeout).
    pub fn wait_vacant_deadline(
        &mut self,
        n: usize,
        deadline: Instant,
    ) -> Result<usize, WaitError> {
        self.wait_vacant_within(n, &Deadline::at(deadline))
    }

    fn wait_vacant_within(&mut self, n: usize, deadline: &Deadline) -> Result<usize, WaitError> {
        let vacant = self.wait_vacant_until(n, deadline);
        match vacant >= n.min(self.capacity) {
            _ if self.is_over() => Err(WaitError::Closed),
            true => Ok(vacant),
            false => Err(WaitError::TimedOut),
        }
    }

    /// The number of slots known to be vacant; 0 if nothing more may be put in.
    pub(super) fn vacant_unless_over(&self) -> usize {
        match self.is_over() {
            true => 0,
            false => self.cursor.cached_available(),
        }
    }

    #[inline]
    pub(crate) fn wait_vacant_until(&mut self, n: usize, deadline: &Deadline) -> usize {
        let n = n.min(self.capacity);
        let vacant = self.vacant_or_refresh(n);
        if vacant >= n {
            return vacant;
        }
        if self.is_over() {
            return 0;
        }
        self.shared
            .producers
            .counts
            .record_stop(self.cursor.position());
        if deadline.is_over() {
            return vacant;
        }
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_vacant_or_over(cursor, n);
        shared.head.waits.wait(deadline.end(), &mut ready);
        self.vacant_unless_over()
    }
}

impl<T, W: Block> Producer<T, W> {
    /// Puts one element into the ring, waiting for a vacant slot.
    ///
    /// # Errors
    /// Returns the element: the consumer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::{Closed, PushError};
    /// use std::time::Duration;
    /// let (mut producer, consumer) = forebay::ring::spsc::ring(1)?;
    /// assert_eq!(producer.push(1), Ok(()));
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(producer.push_timeout(2, timeout), Err(PushError::TimedOut(2)));
    /// drop(consumer);
    /// assert_eq!(producer.push(2), Err(Closed(2)));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn push(&mut self, value: T) -> Result<(), Closed<T>> {
        let mut value = value;
        loop {
            match self.push_until(value, &Deadline::never()) {
                Ok(()) => return Ok(()),
                Err(PushError::Closed(value)) => return Err(Closed(value)),
                Err(PushError::Full(back) | PushError::TimedOut(back)) => value = back,
            }
        }
    }

    /// Like [`push`](Producer::push), for up to `timeout`.
    ///
    /// # Errors
    /// Returns the element: [`TimedOut`](PushError::TimedOut) if no slot became vacant in time, [`Closed`](PushError::Closed) if
    /// the consumer is gone.
    pub fn push_timeout(&mut self, value: T, timeout: Duration) -> Result<(), PushError<T>> {
        self.push_until(value, &Deadline::after(timeout))
    }

    /// Like [`push`](Producer::push), until `deadline`.
    ///
    /// # Errors
    /// Those of [`push_timeout`](Producer::push_timeout).
    pub fn push_deadline(&mut self, value: T, deadline: Instant) -> Result<(), PushError<T>> {
        self.push_until(value, &Deadline::at(deadline))
    }

    fn push_until(&mut self, value: T, deadline: &Deadline) -> Result<(), PushError<T>> {
        match self.try_push(value) {
            Err(PushError::Full(value)) => {
                self.wait_vacant_until(1, deadline);
                match self.try_push(value) {
                    Err(PushError::Full(value)) => Err(PushError::TimedOut(value)),
                    done => done,
                }
            }
            done => done,
        }
    }
}

impl<T, W: Wait> Consumer<T, W> {
    /// Blocks the thread until there are `n` elements (at most the capacity), or the producer is gone. Returns how many are known to
    /// be there: fewer only if the producer is gone.
    ///
    /// ```
    /// use forebay::ring::spsc::WaitError;
    /// use std::time::Duration;
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push(1).unwrap();
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(consumer.wait_filled_timeout(2, timeout), Err(WaitError::TimedOut));
    /// drop(producer);
    /// assert_eq!(consumer.wait_filled_timeout(2, timeout), Err(WaitError::Closed));
    /// assert_eq!(consumer.wait_filled(2), 1); // one is left
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_filled(&mut self, n: usize) -> usize {
        self.wait_filled_until(n, &Deadline::never())
    }

    /// Like [`wait_filled`](Consumer::wait_filled), for up to `timeout`. A timeout of zero never waits.
    ///
    /// # Errors
    /// There are fewer elements, and the time has passed or the producer is gone.
    pub fn wait_filled_timeout(&mut self, n: usize, timeout: Duration) -> Result<usize, WaitError> {
        self.wait_filled_within(n, &Deadline::after(timeout))
    }

    /// Like [`wait_filled`](Consumer::wait_filled), until `deadline`.
    ///
    /// # Errors
    /// Those of [`wait_filled_timeout`](Consumer::wait_filled_timeout).
    pub fn wait_filled_deadline(
        &mut self,
        n: usize,
        deadline: Instant,
    ) -> Result<usize, WaitError> {
        self.wait_filled_within(n, &Deadline::at(deadline))
    }

    fn wait_filled_within(&mut self, n: usize, deadline: &Deadline) -> Result<usize, WaitError> {
        let n = n.min(self.capacity);
        let filled = self.wait_filled_until(n, deadline);
        if filled >= n {
            return Ok(filled);
        }
        // END first, so that the last elements are counted.
        match (self.shared.state.bits() != 0, self.refresh_at_once()) {
            (_, filled) if filled >= n => Ok(filled),
            (true, _) => Err(WaitError::Closed),
            (false, _) => Err(WaitError::TimedOut),
        }
    }

    #[inline]
    pub(crate) fn wait_filled_until(&mut self, n: usize, deadline: &Deadline) -> usize {
        let n = n.min(self.capacity);
        let filled = self.filled_or_refresh(n);
        if filled >= n {
            return filled;
        }
        self.shared.found(0, self.cursor.position());
        if deadline.is_over() {
            return filled;
        }
        self.place.rewind_to_first_view(); // as in `refresh`: the closure may learn of more elements
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_filled_or_over(cursor, n);
        shared.tail.waits.wait(deadline.end(), &mut ready);
        self.note(self.cursor.cached_available())
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
    /// assert_eq!(consumer.pop_timeout(Duration::from_millis(1)), Err(PopError::TimedOut));
    /// producer.push(1).unwrap();
    /// drop(producer);
    /// assert_eq!(consumer.pop(), Ok(1));
    /// assert_eq!(consumer.pop(), Err(Closed(())));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn pop(&mut self) -> Result<T, Closed> {
        loop {
            match self.pop_until(&Deadline::never()) {
                Ok(value) => return Ok(value),
                Err(PopError::Closed) => return Err(Closed(())),
                Err(PopError::Empty | PopError::TimedOut) => {}
            }
        }
    }

    /// Like [`pop`](Consumer::pop), for up to `timeout`.
    ///
    /// # Errors
    /// [`TimedOut`](PopError::TimedOut) if no element arrived in time, [`Closed`](PopError::Closed) if the ring is empty and the
    /// producer is gone.
    pub fn pop_timeout(&mut self, timeout: Duration) -> Result<T, PopError> {
        self.pop_until(&Deadline::after(timeout))
    }

    /// Like [`pop`](Consumer::pop), until `deadline`.
    ///
    /// # Errors
    /// Those of [`pop_timeout`](Consumer::pop_timeout).
    pub fn pop_deadline(&mut self, deadline: Instant) -> Result<T, PopError> {
        self.pop_until(&Deadline::at(deadline))
    }

    fn pop_until(&mut self, deadline: &Deadline) -> Result<T, PopError> {
        match self.try_pop() {
            Err(PopError::Empty) => {
                self.wait_filled_until(1, deadline);
                match self.try_pop() {
                    Err(PopError::Empty) => Err(PopError::TimedOut),
                    done => done,
                }
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
