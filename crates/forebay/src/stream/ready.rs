//! For those who wait for several things at once: descriptors to poll, wakers of tasks.
//!
//! Both follow the poller's rule: arm, **look once more**, and only then sleep. It imports `sync`. Read `sync::eventfd` and
//! `sync::task` next, which arm and signal.
//!
//! ```text
//!   loop {  arm() ── false ─▶ there is something: take it, begin again
//!             └──── true ──▶ poll(this descriptor, others) ─▶ begin again  }
//! ```

#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use super::{Reader, Writer};
use crate::sync::{Eventfd, Task, planted};

impl Reader<Eventfd> {
    /// Asks for a signal at the next byte, or when no more will come; true if there is neither yet: then poll
    /// [`as_fd`](AsFd::as_fd) for input, and arm again before the next poll. False: look, nothing was armed.
    ///
    /// A signal may come early or for nothing. The descriptor stays readable until the next `arm`.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, Config}, sync::Eventfd};
    /// use rustix::event::{poll, PollFd, PollFlags};
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&Config::default())?;
    /// std::thread::spawn(move || { writer.push(b"hello"); writer.close() });
    /// let mut received = Vec::new();
    /// while !reader.is_finished() {
    ///     if reader.arm() {
    ///         poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).unwrap(); // and others
    ///     }
    ///     received.extend_from_slice(reader.peek());
    ///     reader.pop(received.len() - reader.bytes_popped() as usize);
    /// }
    /// assert_eq!(received, b"hello");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.arm_for(1)
    }

    /// As [`arm`](Reader::arm), for one who wants `n` bytes (at most the capacity) before it goes on: false if there are
    /// so many, or no more will come.
    ///
    /// It is signalled at the next byte, not at the `n`th: arm again, and poll on.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, Config}, sync::Eventfd};
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&Config::default())?;
    /// writer.push(b"GET");
    /// assert!(reader.arm_for(5)); // not there yet
    /// writer.push(b" /");
    /// assert!(!reader.arm_for(5));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm_for(&mut self, n: usize) -> bool {
        let n = n.min(self.capacity());
        self.consumer.waits_at().arm();
        if !planted("arm-without-second-look") && (self.has(n) || self.has_ended_short_of(n)) {
            self.disarm();
            return false;
        }
        true
    }

    /// Wants no signal any more; one may come all the same.
    pub fn disarm(&mut self) {
        self.consumer.waits_at().disarm();
    }
}

impl Writer<Eventfd> {
    /// Asks for a signal when there is room for a byte, or when nothing is taken any more; true if there is neither
    /// yet: then poll [`as_fd`](AsFd::as_fd) **for input** (it is an eventfd), and arm again before the next poll.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, Config}, sync::Eventfd};
    /// let config = Config { capacity_bytes: 2, ..Config::default() };
    /// let (mut writer, mut reader) = stream_with::<Eventfd>(&config)?;
    /// assert!(!writer.arm()); // there is room
    /// writer.push(b"ab");
    /// assert!(writer.arm());
    /// reader.pop(1); // makes the descriptor readable
    /// assert!(!writer.arm());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn arm(&mut self) -> bool {
        self.producer.waits_at().arm();
        if !planted("arm-without-second-look") && (self.is_over() || self.available_capacity() > 0)
        {
            self.disarm();
            return false;
        }
        true
    }

    /// Wants no signal any more; one may come all the same.
    pub fn disarm(&mut self) {
        self.producer.waits_at().disarm();
    }
}

#[cfg(not(loom))]
impl AsFd for Reader<Eventfd> {
    /// Readable some time after [`arm`](Reader::arm) said true. To poll, not to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.consumer.waits_at().as_fd()
    }
}

#[cfg(not(loom))]
impl AsFd for Writer<Eventfd> {
    /// Readable some time after [`arm`](Writer::arm) said true. To poll, not to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.producer.waits_at().as_fd()
    }
}

impl Reader<Task> {
    /// The whole content, as soon as there is some; an empty slice when no more will come. Until then the task is
    /// woken when that changes.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, Config}, sync::Task};
    /// use std::future::poll_fn;
    /// async fn sum(mut reader: forebay::stream::Reader<Task>) -> u64 {
    ///     let mut sum = 0;
    ///     loop {
    ///         let popped = poll_fn(|context| {
    ///             reader.poll_peek(context).map(|content| {
    ///                 sum += content.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    ///                 content.len()
    ///             })
    ///         }).await;
    ///         if reader.pop(popped) == 0 { return sum }
    ///     }
    /// }
    /// # let (_writer, reader) = stream_with::<Task>(&Config::default())?;
    /// # let _ = sum(reader);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn poll_peek(&mut self, context: &mut Context<'_>) -> Poll<&[u8]> {
        let mut ready = || self.has(1) || self.is_finished();
        if self.consumer.waits_at().poll(context, &mut ready) {
            Poll::Ready(self.peek())
        } else {
            Poll::Pending
        }
    }
}

impl Writer<Task> {
    /// How many bytes a push would take, as soon as it is more than none; 0 when nothing is taken any more. Until then
    /// the task is woken when that changes.
    ///
    /// ```
    /// use forebay::{stream::{stream_with, Config}, sync::Task};
    /// use std::task::{Context, Poll, Waker};
    /// let (mut writer, reader) = stream_with::<Task>(&Config { capacity_bytes: 2, ..Config::default() })?;
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(writer.poll_capacity(&mut context), Poll::Ready(2));
    /// writer.push(b"ab");
    /// assert!(writer.poll_capacity(&mut context).is_pending());
    /// drop(reader); // wakes the task
    /// assert_eq!(writer.poll_capacity(&mut context), Poll::Ready(0));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn poll_capacity(&mut self, context: &mut Context<'_>) -> Poll<usize> {
        let mut ready = || self.is_over() || self.available_capacity() > 0;
        if !self.producer.waits_at().poll(context, &mut ready) {
            return Poll::Pending;
        }
        Poll::Ready(if self.is_over() {
            0
        } else {
            self.available_capacity()
        })
    }
}
