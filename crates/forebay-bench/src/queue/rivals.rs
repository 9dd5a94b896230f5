//! Our queue and its rivals, all with one trait.
//!
//! `source_text` has the source text's queue, `kernel` the kernel's; this file has channels of the standard library and of crossbeam, which
//! move values, so each message is boxed; and ours.

use anyhow::{Context, Result, bail};
use crossbeam_channel as crossbeam;
use forebay::queue::{self, shared, spsc};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

/// Senders, receivers, sizes and memory of one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Ends that send.
    pub senders: usize,
    /// Ends that receive.
    pub receivers: usize,
    /// Bytes of a message.
    pub len: usize,
}

impl Shape {
    /// Messages that find room.
    pub fn slots(&self) -> usize {
        self.bytes() / (self.len + 16)
    }

    /// Bytes that queues of bytes have for them, with 16 for each one's header: 64 KiB, or what 16 of them need.
    pub fn bytes(&self) -> usize {
        (16 * (self.len + 16)).next_multiple_of(4096).max(64 << 10)
    }
}

/// A sending end.
pub trait Sends {
    /// Connects to the receiving ends, which are all open.
    fn connect(&mut self) {}
    /// Sends a copy of `message`, waiting for room.
    fn send(&mut self, message: &[u8]);
}

/// A sending end that lends room for a message, which is filled there.
pub trait Lends: Sends {
    /// Sends `len` bytes, all `byte`, waiting for room.
    fn send_filled(&mut self, len: usize, byte: u8);
}

/// A receiving end.
pub trait Receives {
    /// Connects to the sending ends, which are all open.
    fn connect(&mut self) {}
    /// Waits for a message and shows it, where it lies if that can be.
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T;
}

/// A queue, and its ends, which are opened where they are used.
pub trait Rival: Sync + Sized {
    /// A sending end.
    type Sender<'a>: Sends
    where
        Self: 'a;
    /// A receiving end.
    type Receiver<'a>: Receives
    where
        Self: 'a;

    /// One for this shape.
    fn new(shape: &Shape) -> Result<Self>;
    /// Another sending end.
    fn sender(&self) -> Result<Self::Sender<'_>>;
    /// Another receiving end.
    fn receiver(&self) -> Result<Self::Receiver<'_>>;
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const OPEN: &str = "the other ends are open";

/// The standard library's bounded channel. It has one receiver: several share it in a mutex.
pub struct Std {
    sender: mpsc::SyncSender<Box<[u8]>>,
    receiver: Mutex<mpsc::Receiver<Box<[u8]>>>,
    is_shared: bool,
}

/// Its receiver, for one or in turns.
pub enum StdReceiver<'a> {
    /// Held as long as it is used.
    Alone(MutexGuard<'a, mpsc::Receiver<Box<[u8]>>>),
    /// Held for one message.
    InTurns(&'a Mutex<mpsc::Receiver<Box<[u8]>>>),
}

impl Rival for Std {
    type Sender<'a> = mpsc::SyncSender<Box<[u8]>>;
    type Receiver<'a> = StdReceiver<'a>;

    fn new(shape: &Shape) -> Result<Std> {
        let (sender, receiver) = mpsc::sync_channel(shape.slots());
        Ok(Std {
            sender,
            receiver: Mutex::new(receiver),
            is_shared: shape.receivers > 1,
        })
    }
    fn sender(&self) -> Result<Self::Sender<'_>> {
        Ok(self.sender.clone())
    }
    fn receiver(&self) -> Result<Self::Receiver<'_>> {
        Ok(match self.is_shared {
            true => StdReceiver::InTurns(&self.receiver),
            false => StdReceiver::Alone(hold(&self.receiver)),
        })
    }
}

impl Sends for mpsc::SyncSender<Box<[u8]>> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        mpsc::SyncSender::send(self, message.into()).expect(OPEN);
    }
}

impl Receives for StdReceiver<'_> {
    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        let message = match self {
            StdReceiver::Alone(receiver) => receiver.recv(),
            StdReceiver::InTurns(receiver) => hold(receiver).recv(),
        };
        see(&message.expect(OPEN))
    }
}

/// crossbeam's bounded channel.
pub struct Crossbeam(crossbeam::Sender<Box<[u8]>>, crossbeam::Receiver<Box<[u8]>>);

impl Rival for Crossbeam {
    type Sender<'a> = crossbeam::Sender<Box<[u8]>>;
    type Receiver<'a> = crossbeam::Receiver<Box<[u8]>>;

    fn new(shape: &Shape) -> Result<Crossbeam> {
        let (sender, receiver) = crossbeam::bounded(shape.slots());
        Ok(Crossbeam(sender, receiver))
    }
    fn sender(&self) -> Result<Self::Sender<'_>> {
        Ok(self.0.clone())
    }
    fn receiver(&self) -> Result<Self::Receiver<'_>> {
        Ok(self.1.clone())
    }
}

impl Sends for crossbeam::Sender<Box<[u8]>> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        crossbeam::Sender::send(self, message.into()).expect(OPEN);
    }
}

impl Receives for crossbeam::Receiver<Box<[u8]>> {
    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        see(&self.recv().expect(OPEN))
    }
}

/// Ours between threads.
pub struct Queue(queue::Sender, queue::Receiver);

impl Rival for Queue {
    type Sender<'a> = queue::Sender;
    type Receiver<'a> = queue::Receiver;

    fn new(shape: &Shape) -> Result<Queue> {
        let (sender, receiver) = queue::queue(shape.bytes())?;
        Ok(Queue(sender, receiver))
    }
    fn sender(&self) -> Result<Self::Sender<'_>> {
        Ok(self.0.clone())
    }
    fn receiver(&self) -> Result<Self::Receiver<'_>> {
        Ok(self.1.clone())
    }
}

impl Sends for queue::Sender {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        queue::Sender::send(self, message).expect(OPEN);
    }
}

impl Lends for queue::Sender {
    #[inline(always)]
    fn send_filled(&mut self, len: usize, byte: u8) {
        let mut message = self.reserve(len).expect(OPEN);
        message.fill(byte);
        message.commit();
    }
}

impl Receives for queue::Receiver {
    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        see(&self.take().expect(OPEN))
    }
}

/// Ours between processes.
pub struct Shared(shared::Shared);

impl Rival for Shared {
    type Sender<'a> = queue::Sender;
    type Receiver<'a> = queue::Receiver;

    fn new(shape: &Shape) -> Result<Shared> {
        let config = shared::SharedQueueConfig {
            capacity_bytes: shape.bytes(),
            ..shared::SharedQueueConfig::default()
        };
        Ok(Shared(shared::create_nameless(&config)?))
    }
    fn sender(&self) -> Result<Self::Sender<'_>> {
        self.attach().map(|queue| queue.sender())
    }
    fn receiver(&self) -> Result<Self::Receiver<'_>> {
        self.attach().map(|queue| queue.receiver())
    }
}

impl Shared {
    fn attach(&self) -> Result<shared::Shared> {
        let descriptor = self.0.descriptor().try_clone_to_owned();
        let descriptor = descriptor.context("copying the queue's descriptor")?;
        Ok(shared::Shared::from_descriptor(descriptor)?)
    }
}

/// Ours between one sender and one receiver.
pub struct Spsc(Mutex<Option<spsc::Sender>>, Mutex<Option<spsc::Receiver>>);

impl Rival for Spsc {
    type Sender<'a> = spsc::Sender;
    type Receiver<'a> = spsc::Receiver;

    fn new(shape: &Shape) -> Result<Spsc> {
        if (shape.senders, shape.receivers) != (1, 1) {
            bail!("one sender and one receiver only");
        }
        let (sender, receiver) = spsc::queue(shape.bytes())?;
        Ok(Spsc(Mutex::new(Some(sender)), Mutex::new(Some(receiver))))
    }
    fn sender(&self) -> Result<Self::Sender<'_>> {
        hold(&self.0).take().context("there is one only")
    }
    fn receiver(&self) -> Result<Self::Receiver<'_>> {
        hold(&self.1).take().context("there is one only")
    }
}

impl Sends for spsc::Sender {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        spsc::Sender::send(self, message).expect(OPEN);
    }
}

impl Receives for spsc::Receiver {
    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        see(&self.take().expect(OPEN))
    }
}
