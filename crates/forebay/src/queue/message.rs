//! Messages that a receiver has taken, in place: borrowed from the receiver, or owned.
//!
//! ```text
//!  take() ─▶ Message ── into_owned() ─▶ OwnedMessage      both release the room when they are dropped
//! ```

use super::{copy::copy, core::Frame, handles::Handles};
use crate::sync::Arc;
use std::{borrow::Borrow, ops::Deref};

/// Frames that were taken from the queue of `handles`. Dropping it releases their room.
struct Frames<H: Borrow<Arc<Handles>>, F: IntoIterator<Item = Frame> + Default> {
    handles: H,
    frames: F,
}

impl<H: Borrow<Arc<Handles>>, F: IntoIterator<Item = Frame> + Default> Frames<H, F> {
    fn into_owned(mut self) -> Frames<Arc<Handles>, F> {
        Frames {
            handles: Arc::clone(self.handles.borrow()),
            frames: std::mem::take(&mut self.frames),
        }
    }

    fn read<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.handles.borrow().core.read(frame)
    }
}

impl<H: Borrow<Arc<Handles>>, F: IntoIterator<Item = Frame> + Default> Drop for Frames<H, F> {
    #[inline]
    fn drop(&mut self) {
        let core = &self.handles.borrow().core;
        let mut released = false;
        for frame in std::mem::take(&mut self.frames) {
            core.release(frame);
            released = true;
        }
        if released {
            core.ring_room();
        }
    }
}

/// Length and number of a message that was copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Length of the message in bytes. It is at the start of the buffer.
    pub len: usize,
    /// Number of the message: how many were reserved before it, by all senders.
    pub sequence: u64,
    /// Whether another process received it before, and died. Never true in a queue of one process.
    pub redelivered: bool,
}

/// A received message, borrowed from the queue's memory. Dropping it releases its room.
///
/// Room is reused in order, so the queue fills up if a message is kept for long or forgotten.
pub struct Message<'a>(Frames<&'a Arc<Handles>, Option<Frame>>);

/// A received message in the queue's memory, which it keeps mapped: it may outlive all ends. Dropping it releases its room.
///
/// ```
/// let (sender, receiver) = forebay::queue::queue(4096)?;
/// sender.send("hello").unwrap();
/// let message = receiver.take().unwrap().into_owned();
/// drop((sender, receiver)); // closes the queue
/// assert_eq!(&*std::thread::spawn(move || message).join().unwrap(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct OwnedMessage(Frames<Arc<Handles>, Option<Frame>>);

impl<'a> Message<'a> {
    #[inline]
    pub(super) fn new(handles: &'a Arc<Handles>, frame: Frame) -> Message<'a> {
        let frames = Some(frame);
        Message(Frames { handles, frames })
    }

    /// Turns it into one that does not borrow the receiver: to keep it in a structure, or to pass it to another thread.
    pub fn into_owned(self) -> OwnedMessage {
        OwnedMessage(self.0.into_owned())
    }

    #[inline]
    pub(super) fn copy_to(self, buffer: &mut [u8]) -> Received {
        let len = self.len();
        copy(&self, &mut buffer[..len]);
        Received {
            len,
            sequence: self.sequence(),
            redelivered: self.is_redelivered(),
        }
    }
}

/// What a message has, however it holds the queue.
macro_rules! message {
    ($message:ty) => {
        impl $message {
            /// Number of the message: how many were reserved before it, by all senders.
            pub fn sequence(&self) -> u64 {
                self.frame().sequence
            }

            /// Whether another process received it before, and died. Never true in a queue of one process.
            pub fn is_redelivered(&self) -> bool {
                self.frame().again
            }

            fn frame(&self) -> &Frame {
                let frame = self.0.frames.as_ref();
                frame.expect("the frame is there until dropped")
            }
        }

        impl Deref for $message {
            type Target = [u8];
            #[inline]
            fn deref(&self) -> &[u8] {
                self.0.read(self.frame())
            }
        }

        impl AsRef<[u8]> for $message {
            fn as_ref(&self) -> &[u8] {
                self
            }
        }

        debug!([] $message, |this| len: this.len(), sequence: this.sequence());
    };
}
message!(Message<'_>);
message!(OwnedMessage);

/// Received messages, borrowed from the queue's memory, in order. Dropping the burst releases their room.
pub struct Burst<'a>(Frames<&'a Arc<Handles>, Vec<Frame>>);

/// Received messages in the queue's memory, which it keeps mapped: see [`OwnedMessage`]. Dropping the burst releases their room.
pub struct OwnedBurst(Frames<Arc<Handles>, Vec<Frame>>);

impl<'a> Burst<'a> {
    pub(super) fn with_capacity(handles: &'a Arc<Handles>, capacity: usize) -> Burst<'a> {
        let frames = Vec::with_capacity(capacity);
        Burst(Frames { handles, frames })
    }

    pub(super) fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.0.frames
    }

    /// Turns it into one that does not borrow the receiver.
    ///
    /// ```
    /// let (sender, receiver) = forebay::queue::queue(4096)?;
    /// sender.try_send_burst(&["a", "bc"]).unwrap();
    /// let burst = receiver.take_burst(8).unwrap().into_owned();
    /// drop((sender, receiver));
    /// assert!(burst.iter().map(|(_, message)| message.len()).eq([1, 2]));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn into_owned(self) -> OwnedBurst {
        OwnedBurst(self.0.into_owned())
    }
}

/// What a burst has, however it holds the queue.
macro_rules! burst {
    ($burst:ty) => {
        impl $burst {
            /// Number of messages in the burst.
            pub fn len(&self) -> usize {
                self.0.frames.len()
            }

            /// Whether there is no message in it: it was asked for none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The messages in order, each with its number.
            pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
                let frames = self.0.frames.iter();
                frames.map(|frame| (frame.sequence, self.0.read(frame)))
            }
        }

        debug!([] $burst, |this| len: this.len());
    };
}
burst!(Burst<'_>);
burst!(OwnedBurst);
