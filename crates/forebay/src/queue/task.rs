//! The ends of a queue for tasks of any async runtime.
//!
//! ```text
//!   task:     try ─▶ store waker ─▶ arm ─▶ try again ─▶ Pending        (armed: counts as a sleeper of the event)
//!   ringer:   publish ─▶ fence ─▶ sleepers? ─▶ take down each armed task, wake it
//! ```
//!
//! For a queue between processes, a thread of this one waits in place of the task ([`Processes`]).
//!
//! All armed tasks are woken at once, so a task that is woken and then cancelled takes no wake-up from another.

#[cfg(all(feature = "shared", not(loom)))]
use super::waiting_thread::Processes;
use super::{
    Message, Received, Receiver, RecvError, ReservedMessage, SendError, Sender,
    copy::copy,
    handles::Handles,
    watch::{For, Registration},
    watchers::Alarm,
};
use crate::sync::{Arc, Task, planted};
use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll},
};

/// The place where one end waits. It stays registered while the end lives.
struct Waiting {
    task: Arc<Task>,
    by: By,
    is_armed: bool,
}

/// What wakes the task.
enum By {
    /// Threads of this process.
    Ringers(Registration),
    /// A thread that waits for the other processes.
    #[cfg(all(feature = "shared", not(loom)))]
    Processes(Processes),
}

impl Waiting {
    fn new(handles: &Arc<Handles>, what: For) -> Waiting {
        let task = Arc::new(Task::default());
        let by = match handles.core.peers.may_die() {
            #[cfg(all(feature = "shared", not(loom)))]
            true => By::Processes(Processes::new(handles, what)),
            _ => By::Ringers(Registration::new(handles, Alarm::Task(task.clone()), what)),
        };
        let is_armed = false;
        Waiting { task, by, is_armed }
    }

    /// Does now what may fail.
    fn prepared(self) -> crate::Result<Waiting> {
        #[cfg(all(feature = "shared", not(loom)))]
        if let By::Processes(processes) = &self.by {
            processes.follower(&self.task)?;
        }
        Ok(self)
    }

    fn arm(&self, context: &Context<'_>, _len: usize) {
        match &self.by {
            By::Ringers(registration) => {
                registration.event().join();
                self.task.arm(context);
            }
            #[cfg(all(feature = "shared", not(loom)))]
            By::Processes(processes) => {
                self.task.arm(context);
                processes.arm(&self.task, _len);
            }
        }
    }

    fn disarm(&self) {
        match &self.by {
            By::Ringers(registration) => registration.disarm(),
            #[cfg(all(feature = "shared", not(loom)))]
            By::Processes(processes) => {
                processes.disarm();
                self.task.take_down();
            }
        }
    }

    /// The result of `attempt`, once it has one. It waits for a message, or for room of `len` bytes.
    fn poll<T>(
        &mut self,
        context: &Context<'_>,
        len: usize,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        let mut result = attempt();
        if result.is_none() {
            self.disarm(); // of an earlier poll
            self.arm(context, len);
            self.is_armed = true;
            if !planted("queue-task-without-second-look") {
                result = attempt();
            }
        }
        let Some(result) = result else {
            return Poll::Pending;
        };
        if self.is_armed {
            self.disarm();
            self.is_armed = false;
        }
        Poll::Ready(result)
    }
}

/// Receives messages from a queue in a task: [`Receiver::into_async`].
///
/// All its futures are cancel-safe: a message is taken only when the future is ready, so dropping a pending one loses nothing.
/// A call may block its thread for up to 10 ms if a thread with a lock of the queue is preempted.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
/// # runtime.block_on(async {
/// let (sender, receiver) = forebay::queue::queue(4096)?;
/// let (mut sender, mut receiver) = (sender.into_async()?, receiver.into_async()?);
/// tokio::spawn(async move { sender.send("hello").await }); // and drops the sender, which closes the queue
/// let mut bytes = 0;
/// while let Ok(message) = receiver.take().await {
///     bytes += message.len();
/// }
/// assert_eq!(bytes, 5);
/// # Ok::<(), forebay::Error>(())
/// # }).unwrap();
/// ```
pub struct AsyncReceiver {
    receiver: Receiver,
    waiting: Waiting,
}

impl Receiver {
    /// Turns it into an end for a task of any async runtime.
    ///
    /// The other processes of a [shared](super::shared) queue cannot wake a task. Such an end therefore has a thread, as a
    /// [`Watch`](super::Watch) has; a clone starts one when it waits first, and polls each millisecond if it cannot.
    ///
    /// # Errors
    /// The queue is shared with other processes, and no thread is available.
    pub fn into_async(self) -> crate::Result<AsyncReceiver> {
        let AsyncReceiver { receiver, waiting } = AsyncReceiver::new(self);
        let waiting = waiting.prepared()?;
        Ok(AsyncReceiver { receiver, waiting })
    }
}

impl AsyncReceiver {
    pub(super) fn new(receiver: Receiver) -> AsyncReceiver {
        AsyncReceiver {
            waiting: Waiting::new(&receiver.handles, For::Message),
            receiver,
        }
    }

    /// Takes the next message without copying it.
    ///
    /// # Errors
    /// Those of [`Receiver::take`].
    pub async fn take(&mut self) -> Result<Message<'_>, RecvError> {
        let AsyncReceiver { receiver, waiting } = self;
        let receiver = &*receiver;
        poll_fn(|context| waiting.poll(context, 0, || received(receiver.try_take(), context))).await
    }

    /// Copies the next message into `buffer`.
    ///
    /// # Errors
    /// Those of [`Receiver::recv`].
    pub async fn recv(&mut self, buffer: &mut [u8]) -> Result<Received, RecvError> {
        let AsyncReceiver { receiver, waiting } = self;
        poll_fn(|context| waiting.poll(context, 0, || received(receiver.try_recv(buffer), context)))
            .await
    }

    /// [`take`](AsyncReceiver::take) as a poll function.
    pub fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<Message<'_>, RecvError>> {
        let AsyncReceiver { receiver, waiting } = self;
        let receiver = &*receiver;
        waiting.poll(context, 0, || received(receiver.try_take(), context))
    }

    /// The receiver, for calls that do not wait.
    pub fn get_ref(&self) -> &Receiver {
        &self.receiver
    }
}

impl Clone for AsyncReceiver {
    fn clone(&self) -> AsyncReceiver {
        AsyncReceiver::new(self.receiver.clone())
    }
}

impl fmt::Debug for AsyncReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncReceiver")
            .field(&self.receiver)
            .finish()
    }
}

/// The result of an attempt to receive, unless the task has to wait.
fn received<T>(
    result: Result<T, RecvError>,
    context: &Context<'_>,
) -> Option<Result<T, RecvError>> {
    match result {
        Err(RecvError::Empty) => None,
        Err(RecvError::TimedOut) => {
            context.waker().wake_by_ref(); // a thread with a lock was preempted: try again soon
            None
        }
        result => Some(result),
    }
}

/// Sends messages into a queue from a task: [`Sender::into_async`].
///
/// All its futures are cancel-safe: dropping a pending one sends nothing. If the queue's policy is not to wait, they are ready
/// at once. Tasks and threads may wait for room at the same time. A waiting thread is served first, and tasks in no order. A call
/// may block its thread for up to 10 ms if a thread with a lock of the queue is preempted.
pub struct AsyncSender {
    sender: Sender,
    waiting: Waiting,
}

impl Sender {
    /// Turns it into an end for a task of any async runtime: see [`Receiver::into_async`].
    ///
    /// # Errors
    /// The queue is shared with other processes, and no thread is available.
    pub fn into_async(self) -> crate::Result<AsyncSender> {
        let AsyncSender { sender, waiting } = AsyncSender::new(self);
        let waiting = waiting.prepared()?;
        Ok(AsyncSender { sender, waiting })
    }
}

impl AsyncSender {
    pub(super) fn new(sender: Sender) -> AsyncSender {
        AsyncSender {
            waiting: Waiting::new(&sender.handles, For::Room(0)),
            sender,
        }
    }

    /// Sends a copy of `message`.
    ///
    /// # Errors
    /// Those of [`Sender::send`].
    pub async fn send(&mut self, message: impl AsRef<[u8]>) -> Result<(), SendError> {
        let message = message.as_ref();
        let mut reserved = self.reserve(message.len()).await?;
        copy(message, &mut reserved);
        reserved.commit();
        Ok(())
    }

    /// Reserves room for a message of `len` bytes, to be filled in place. Receivers wait for it until it is committed or dropped.
    ///
    /// # Errors
    /// Those of [`Sender::reserve`].
    pub async fn reserve(&mut self, len: usize) -> Result<ReservedMessage<'_>, SendError> {
        let AsyncSender { sender, waiting } = self;
        let sender = &*sender;
        poll_fn(|context| waiting.poll(context, len, || reserved(sender, len, context))).await
    }

    /// [`reserve`](AsyncSender::reserve) as a poll function.
    pub fn poll_reserve(
        &mut self,
        context: &mut Context<'_>,
        len: usize,
    ) -> Poll<Result<ReservedMessage<'_>, SendError>> {
        let AsyncSender { sender, waiting } = self;
        let sender = &*sender;
        waiting.poll(context, len, || reserved(sender, len, context))
    }

    /// The sender, for calls that do not wait.
    pub fn get_ref(&self) -> &Sender {
        &self.sender
    }
}

impl Clone for AsyncSender {
    fn clone(&self) -> AsyncSender {
        AsyncSender::new(self.sender.clone())
    }
}

impl fmt::Debug for AsyncSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncSender").field(&self.sender).finish()
    }
}

/// The result of an attempt to reserve, unless the task has to wait.
fn reserved<'a>(
    sender: &'a Sender,
    len: usize,
    context: &Context<'_>,
) -> Option<Result<ReservedMessage<'a>, SendError>> {
    match sender.try_reserve(len) {
        Err(SendError::Full) if sender.handles.when_full.waits() => None,
        Err(SendError::TimedOut) => {
            context.waker().wake_by_ref(); // as in `received`
            None
        }
        result => Some(result),
    }
}
