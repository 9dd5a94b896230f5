//! Waiting for several things at once: descriptors to poll, wakers of tasks.
//!
//! Both follow the poller's rule: arm, **check once more**, and only then sleep.
//!
//! ```text
//!   loop {  arm() ── false ─▶ there is something: take it, start again
//!             └──── true ──▶ poll(this descriptor, others) ─▶ start again  }
//! ```

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use super::{Reader, Writer};
use crate::sync::{Eventfd, Task};

impl Reader<Eventfd> {
    /// Requests a signal at the next byte, or when no more bytes can arrive.
    ///
    /// - True: there is neither yet. Poll [`as_fd`](AsFd::as_fd) for input, and arm again before the next poll.
    /// - False: there is something to take, or the stream has ended. Nothing was armed.
    ///
    /// A signal may be early or spurious. The descriptor stays readable until the next `arm`.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, StreamConfig}, sync::Eventfd};
    /// use rustix::event::{poll, PollFd, PollFlags};
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&StreamConfig::default())?;
    /// std::thread::spawn(move || { writer.push_slice(b"hello"); writer.close() });
    /// let mut received = Vec::new();
    /// while !reader.is_finished() {
    ///     if reader.arm() {
    ///         poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).unwrap(); // and others
    ///     }
    ///     received.extend_from_slice(reader.peek());
    ///     reader.consume(received.len() - reader.bytes_popped() as usize);
    /// }
    /// assert_eq!(received, b"hello");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.arm_for(1)
    }

    /// Like [`arm`](Reader::arm), for a caller that needs `n` bytes (at most the capacity) to continue: false if there are
    /// that many, or no more can arrive.
    ///
    /// The signal is sent at the next byte, not at the `n`th: arm again, and continue to poll.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, StreamConfig}, sync::Eventfd};
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&StreamConfig::default())?;
    /// writer.push_slice(b"GET");
    /// assert!(reader.arm_for(5)); // not there yet
    /// writer.push_slice(b" /");
    /// assert!(!reader.arm_for(5));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm_for(&mut self, n: usize) -> bool {
        self.consumer.arm_for(n)
    }

    /// Cancels the request for a signal; one may still be sent.
    pub fn disarm(&mut self) {
        self.consumer.disarm();
    }
}

impl Writer<Eventfd> {
    /// Requests a signal when there is room for a byte, or when the stream accepts no more bytes. True if there is neither yet:
    /// then poll [`as_fd`](AsFd::as_fd) **for input** (it is an eventfd), and arm again before the next poll.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, StreamConfig}, sync::Eventfd};
    /// let config = StreamConfig { capacity_bytes: 2, ..StreamConfig::default() };
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&config)?;
    /// assert!(!writer.arm()); // there is room
    /// writer.push_slice(b"ab");
    /// assert!(writer.arm());
    /// reader.consume(1); // makes the descriptor readable
    /// assert!(!writer.arm());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.producer.arm()
    }

    /// Cancels the request for a signal; one may still be sent.
    pub fn disarm(&mut self) {
        self.producer.disarm();
    }
}

#[cfg(not(loom))]
impl AsFd for Reader<Eventfd> {
    /// Becomes readable at some time after [`arm`](Reader::arm) returned true. Poll it, do not read it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.consumer.as_fd()
    }
}

#[cfg(not(loom))]
impl AsFd for Writer<Eventfd> {
    /// Becomes readable at some time after [`arm`](Writer::arm) returned true. Poll it, do not read it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.producer.as_fd()
    }
}

impl Reader<Task> {
    /// Ready with the whole content once there is some, or with an empty slice if no more bytes can arrive. While pending, the
    /// task is woken when that changes.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, StreamConfig}, sync::Task};
    /// use std::future::poll_fn;
    /// async fn sum(mut reader: forebay::stream::Reader<Task>) -> u64 {
    ///     let mut sum = 0;
    ///     loop {
    ///         let consumed = poll_fn(|context| {
    ///             reader.poll_peek(context).map(|content| {
    ///                 sum += content.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    ///                 content.len()
    ///             })
    ///         }).await;
    ///         if reader.consume(consumed) == 0 { return sum }
    ///     }
    /// }
    /// # let (_writer, reader) = stream_with::<Task>(&StreamConfig::default())?;
    /// # let _ = sum(reader);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn poll_peek(&mut self, context: &mut Context<'_>) -> Poll<&[u8]> {
        self.consumer
            .poll_filled(1, context)
            .map(|_| self.consumer.peek_all().into_slice())
    }
}

impl Writer<Task> {
    /// Ready with the number of bytes that a push would accept, once that is at least 1, or with 0 if the stream accepts no more
    /// bytes. While pending, the task is woken when that changes.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, StreamConfig}, sync::Task};
    /// use std::task::{Context, Poll, Waker};
    /// let (mut writer, reader) = stream_with::<Task>(&StreamConfig { capacity_bytes: 2, ..StreamConfig::default() })?;
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(writer.poll_vacant(&mut context), Poll::Ready(2));
    /// writer.push_slice(b"ab");
    /// assert!(writer.poll_vacant(&mut context).is_pending());
    /// drop(reader); // wakes the task
    /// assert_eq!(writer.poll_vacant(&mut context), Poll::Ready(0));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn poll_vacant(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        self.producer.poll_vacant(1, context)
    }
}
