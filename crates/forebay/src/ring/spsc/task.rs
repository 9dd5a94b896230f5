//! The calls of both ends that wait without blocking the thread.

use super::{Closed, Consumer, PopError, Producer, PushError};
use crate::sync::Task;
use std::{
    future::poll_fn,
    task::{Context, Poll},
};

impl<T> Producer<T, Task> {
    /// Puts one element into the ring, waiting for a vacant slot without blocking the thread.
    ///
    /// Cancel safety: a future that is dropped before it is ready has pushed nothing; the element is dropped with it. To keep the
    /// element, await [`until_vacant`](Producer::until_vacant), and then [`try_push`](Producer::try_push).
    ///
    /// # Errors
    /// Returns the element: the consumer is gone.
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
                Err(PushError::Full(back) | PushError::TimedOut(back)) => value = back,
            }
            self.until_vacant(1).await;
        }
    }

    /// Waits, without blocking the thread, until `n` slots (at most the capacity) are vacant, or the consumer is gone; returns how
    /// many are vacant, or 0 if the consumer is gone. Cancel-safe: nothing changes in the ring, and the slots stay vacant until this end fills them.
    pub async fn until_vacant(&mut self, n: usize) -> usize {
        poll_fn(|context| self.poll_vacant(n, context)).await
    }

    /// Ready with the number of vacant slots once that is `n` (at most the capacity), or with 0 once the consumer is gone. While it is
    /// pending, the task of `context` is woken whenever the consumer releases slots.
    pub fn poll_vacant(&mut self, n: usize, context: &mut Context<'_>) -> Poll<usize> {
        let n = n.min(self.capacity);
        let (shared, cursor) = (&*self.shared, &mut self.cursor);
        let mut ready = || shared.is_vacant_or_over(cursor, n);
        if shared.head.waits.poll(context, &mut ready) {
            return Poll::Ready(self.vacant_unless_over());
        }
        self.shared
            .producers
            .counts
            .record_stop(self.cursor.position());
        Poll::Pending
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
                Err(PopError::Empty | PopError::TimedOut) => self.until_filled(1).await,
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
        if shared.tail.waits.poll(context, &mut ready) {
            return Poll::Ready(self.note(self.cursor.cached_available()));
        }
        self.shared.found(0, self.cursor.position());
        Poll::Pending
    }
}
