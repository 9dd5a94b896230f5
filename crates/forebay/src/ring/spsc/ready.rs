//! The ends in a poll loop: each has a descriptor, and follows the rule arm, **check once more**, and only then sleep.
//!
//! ```text
//!   loop {  arm() ── false ─▶ there is something: take it, start again
//!             └──── true ──▶ poll(this descriptor, others) ─▶ start again  }
//! ```
//!
//! The models are those of `stream`, which uses these calls.

use super::{Consumer, Producer};
use crate::sync::{Eventfd, planted};
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};

impl<T> Consumer<T, Eventfd> {
    /// Requests a signal at the next element, or when no more elements can arrive.
    ///
    /// - True: there is neither yet. Poll [`as_fd`](AsFd::as_fd) for input, and arm again before the next poll.
    /// - False: there is something to take, or the producer is gone. Nothing was armed.
    ///
    /// A signal may be early or spurious. The descriptor stays readable until the next `arm`.
    ///
    /// ```
    /// use forebay::{ring::spsc::{ring_with, PopError, RingConfig}, sync::Eventfd};
    /// use rustix::event::{poll, PollFd, PollFlags};
    /// let (mut producer, mut consumer) = ring_with::<u64, Eventfd>(&RingConfig::default())?;
    /// std::thread::spawn(move || (0..100).for_each(|number| producer.push(number).unwrap()));
    /// let mut sum = 0;
    /// loop {
    ///     if consumer.arm() {
    ///         poll(&mut [PollFd::new(&consumer, PollFlags::IN)], None).unwrap(); // and others
    ///     }
    ///     match consumer.try_pop() {
    ///         Ok(number) => sum += number,
    ///         Err(PopError::Closed) => break,
    ///         Err(_) => {}
    ///     }
    /// }
    /// assert_eq!(sum, 4950);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.arm_for(1)
    }

    /// Like [`arm`](Consumer::arm), for a caller that needs `n` elements (at most the capacity) to continue. The signal is sent at
    /// the next element, not at the `n`th: arm again, and continue to poll.
    pub fn arm_for(&mut self, n: usize) -> bool {
        let n = n.min(self.capacity);
        self.waits_at().arm();
        // END first, so that the number of elements includes the last ones. The refresh also returns slots of a forgotten drain.
        let is_over = self.state().bits() != 0;
        if !planted("arm-without-second-look") && (self.refresh_at_once() >= n || is_over) {
            self.disarm();
            return false;
        }
        true
    }

    /// Cancels the request for a signal; one may still be sent.
    pub fn disarm(&mut self) {
        self.waits_at().disarm();
    }
}

impl<T> Producer<T, Eventfd> {
    /// Requests a signal when a slot is vacant, or when the consumer is gone. True if there is neither yet: then poll
    /// [`as_fd`](AsFd::as_fd) **for input** (it is an eventfd), and arm again before the next poll.
    ///
    /// ```
    /// use forebay::{ring::spsc::{ring_with, RingConfig}, sync::Eventfd};
    /// let config = RingConfig { capacity: 1, ..RingConfig::default() };
    /// let (mut producer, mut consumer) = ring_with::<u64, Eventfd>(&config)?;
    /// assert!(!producer.arm()); // there is room
    /// producer.try_push(1).unwrap();
    /// assert!(producer.arm());
    /// consumer.try_pop().unwrap(); // makes the descriptor readable
    /// assert!(!producer.arm());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.arm_for(1)
    }

    /// Like [`arm`](Producer::arm), for a caller that needs `n` slots (at most the capacity) to continue. The signal is sent when
    /// the consumer releases a slot: arm again, and continue to poll.
    pub fn arm_for(&mut self, n: usize) -> bool {
        let n = n.min(self.capacity);
        self.waits_at().arm();
        if !planted("arm-without-second-look") && (self.is_over() || self.vacant() >= n) {
            self.disarm();
            return false;
        }
        true
    }

    /// Cancels the request for a signal; one may still be sent.
    pub fn disarm(&mut self) {
        self.waits_at().disarm();
    }
}

#[cfg(not(loom))]
impl<T> AsFd for Consumer<T, Eventfd> {
    /// Becomes readable at some time after [`arm`](Consumer::arm) returned true. Poll it, do not read it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits_at().as_fd()
    }
}

#[cfg(not(loom))]
impl<T> AsFd for Producer<T, Eventfd> {
    /// Becomes readable at some time after [`arm`](Producer::arm) returned true. Poll it, do not read it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waits_at().as_fd()
    }
}
