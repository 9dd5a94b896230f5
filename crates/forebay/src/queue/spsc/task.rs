//! The ends of a queue between one sender and one receiver, for tasks of any async runtime.
//!
//! ```text
//!   sender:    enough room? ─▶ in one piece? ─▶ ReservedMessage      receiver:  a header? ─▶ of a message? ─▶ Message
//!     ▲          │ no: Pending   │ no: padding                  ▲          │ no: Pending  │ no: skip the padding
//!     └──────────┴───────────────┘                              └──────────┴──────────────┘
//! ```
//!
//! A task waits as at a [ring](crate::ring::spsc) in a task.

use super::{Receiver, RecvError, ReservedMessage, SendError, Sender, copy, words};
use crate::{
    queue::{Received, spsc::Message},
    sync::{Deadline, planted},
};
use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};
#[cfg(not(loom))]
use {
    crate::sync::Signal,
    std::{sync::Arc, task::Waker},
};

/// Sends messages into a queue from a task: [`Sender::into_async`]. The queue closes when it is dropped.
///
/// All its futures are cancel-safe: dropping a pending one sends nothing. If the queue's policy is not to wait, they are ready
/// at once.
#[derive(Debug)]
pub struct AsyncSender(pub(super) Sender);

impl Sender {
    /// Turns it into an end for a task of any async runtime. The receiver may stay in a thread.
    pub fn into_async(self) -> AsyncSender {
        AsyncSender(self)
    }
}

impl Sender {
    /// Requests that `signal` is raised when there may be room for a message of `len` bytes, or when the receiver is gone. False if
    /// there is room now, or a send would fail. For poll loops: see [`Receiver::arm`].
    #[cfg(not(loom))]
    pub fn arm(&mut self, len: usize, signal: &Arc<Signal>) -> bool {
        let waker = Waker::from(signal.clone());
        poll_room(self, &mut Context::from_waker(&waker), len).is_pending()
    }
}

impl AsyncSender {
    /// Sends a copy of `message`.
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    pub async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError> {
        let message = message.as_ref();
        let mut reserved = self.reserve(message.len()).await?;
        copy(message, reserved.bytes());
        reserved.commit();
        Ok(())
    }

    /// Reserves room for a message of `len` bytes, to be filled in place.
    ///
    /// # Errors
    /// Those of [`Sender::reserve`].
    pub async fn reserve(&mut self, len: usize) -> Result<ReservedMessage<'_>, SendError> {
        poll_fn(|context| self.poll_room(context, len)).await?;
        Ok(self.0.reserved(len))
    }

    /// [`reserve`](AsyncSender::reserve) as a poll function.
    pub fn poll_reserve(
        &mut self,
        context: &mut Context<'_>,
        len: usize,
    ) -> Poll<Result<ReservedMessage<'_>, SendError>> {
        ready!(self.poll_room(context, len))?;
        Poll::Ready(Ok(self.0.reserved(len)))
    }

    fn poll_room(&mut self, context: &mut Context<'_>, len: usize) -> Poll<Result<(), SendError>> {
        poll_room(&mut self.0, context, len)
    }

    /// The sender, for counts and for calls that do not wait. A call that waits blocks the thread.
    pub fn get_mut(&mut self) -> &mut Sender {
        &mut self.0
    }
}

/// Receives messages from a queue in a task: [`Receiver::into_async`]. The queue closes when it is dropped.
///
/// All its futures are cancel-safe: a message is taken only when the future is ready, so dropping a pending one loses nothing.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
/// # runtime.block_on(async {
/// let (mut sender, receiver) = forebay::queue::spsc::queue(4096)?;
/// let mut receiver = receiver.into_async();
/// std::thread::spawn(move || sender.send("hello")); // in a thread, which then drops it
/// let task = tokio::spawn(async move {
///     let mut bytes = 0;
///     while let Ok(message) = receiver.take().await {
///         bytes += message.len();
///     }
///     bytes
/// });
/// assert_eq!(task.await.unwrap(), 5);
/// # Ok::<(), forebay::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct AsyncReceiver(pub(super) Receiver);

impl Receiver {
    /// Turns it into an end for a task of any async runtime. The sender may stay in a thread.
    pub fn into_async(self) -> AsyncReceiver {
        AsyncReceiver(self)
    }
}

impl Receiver {
    /// Requests that `signal` is raised when a message may be there, or when the queue closes. For poll loops.
    ///
    /// - True: there is neither yet. Poll the signal, and clear and arm again before the next poll.
    /// - False: there is a message, or the queue is closed and empty.
    ///
    /// A signal may be early or spurious. It stays raised until you clear it: do so once, before you arm all ends that it is for.
    ///
    /// ```
    /// use forebay::{queue::spsc, sync::Signal};
    /// let (mut sender, mut receiver) = spsc::queue(4096)?;
    /// let signal = std::sync::Arc::new(Signal::new()?);
    /// std::thread::spawn(move || sender.send("hello"));
    /// loop {
    ///     signal.clear();
    ///     if !receiver.arm(&signal) {
    ///         break;
    ///     }
    ///     signal.wait(None); // or poll it together with other descriptors
    /// }
    /// assert_eq!(receiver.try_take().unwrap().len(), 5);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[cfg(not(loom))]
    pub fn arm(&mut self, signal: &Arc<Signal>) -> bool {
        let waker = Waker::from(signal.clone());
        poll_len(self, &mut Context::from_waker(&waker)).is_pending()
    }
}

impl AsyncReceiver {
    /// Takes the next message without copying it.
    ///
    /// # Errors
    /// Those of [`Receiver::take`].
    pub async fn take(&mut self) -> Result<Message<'_>, RecvError> {
        let len = poll_fn(|context| self.poll_len(context)).await?;
        Ok(self.0.message(len))
    }

    /// Copies the next message into `buffer`.
    ///
    /// # Errors
    /// Those of [`Receiver::recv`].
    pub async fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        poll_fn(|context| self.poll_len(context)).await?;
        self.0.try_recv(buffer)
    }

    /// [`take`](AsyncReceiver::take) as a poll function.
    pub fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<Message<'_>, RecvError>> {
        let len = ready!(self.poll_len(context))?;
        Poll::Ready(Ok(self.0.message(len)))
    }

    fn poll_len(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, RecvError>> {
        poll_len(&mut self.0, context)
    }

    /// The receiver, for counts and for calls that do not wait. A call that waits blocks the thread.
    pub fn get_mut(&mut self) -> &mut Receiver {
        &mut self.0
    }
}

/// Ready with the length of the next message once it is there.
fn poll_len(receiver: &mut Receiver, context: &mut Context<'_>) -> Poll<Result<usize, RecvError>> {
    match receiver.next_len(&Deadline::now()) {
        Err(RecvError::Empty) => {}
        result => return Poll::Ready(result),
    }
    loop {
        if ready!(receiver.consumer.poll_filled(1, context)) == 0 {
            return Poll::Ready(Err(RecvError::Closed));
        }
        if let Some(len) = receiver.len_or_skip() {
            return Poll::Ready(Ok(len));
        }
        if planted("spsc-task-takes-no-further-after-padding") {
            return Poll::Pending;
        }
    }
}

/// Ready once there is room in one piece for a message of `len` bytes.
fn poll_room(
    sender: &mut Sender,
    context: &mut Context<'_>,
    len: usize,
) -> Poll<Result<(), SendError>> {
    match sender.make_room(len, &Deadline::now()) {
        Err(SendError::Full) if sender.waits => {}
        result => return Poll::Ready(result),
    }
    let n = words(len);
    loop {
        if ready!(sender.producer.poll_vacant(n, context)) < n {
            return Poll::Ready(Err(SendError::Closed));
        }
        if sender.is_in_one_piece(n) {
            return Poll::Ready(Ok(()));
        }
        if planted("spsc-task-sends-no-further-after-padding") {
            return Poll::Pending;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queue::spsc::queue;

    #[test]
    fn arming_one_end_keeps_the_signal_of_another() {
        let [(mut first, mut one), (_second, mut other)] = [0, 0].map(|_| queue(64).unwrap());
        let signal = Arc::new(Signal::new().unwrap());
        assert!(one.arm(&signal));
        first.send(b"a").unwrap();
        assert!(other.arm(&signal));
        assert!(signal.clear());
        assert!(!one.arm(&signal));
    }
}
