//! Room for a message that is being filled: borrowed from the sender, or owned.

use super::{core::Frame, handles::Handles};
use crate::sync::Arc;
use std::{
    borrow::Borrow,
    ops::{Deref, DerefMut},
};

/// A frame of the queue of `handles`; `None` once it is committed or aborted. Dropping it aborts the message.
struct Filling<H: Borrow<Arc<Handles>>> {
    handles: H,
    frame: Option<Frame>,
}

impl<H: Borrow<Arc<Handles>>> Filling<H> {
    #[inline]
    fn commit(mut self) {
        let core = &self.handles.borrow().core;
        if let Some(frame) = self.frame.take() {
            core.commit(frame);
        }
        core.ring_arrived();
    }

    fn frame(&self) -> &Frame {
        let frame = self.frame.as_ref();
        frame.expect("the frame is there until committed")
    }

    #[inline]
    fn fill(&mut self) -> &mut [u8] {
        let frame = self.frame.as_mut();
        let frame = frame.expect("the frame is there until committed");
        self.handles.borrow().core.fill(frame)
    }
}

impl<H: Borrow<Arc<Handles>>> Drop for Filling<H> {
    fn drop(&mut self) {
        if let Some(frame) = self.frame.take() {
            let core = &self.handles.borrow().core;
            core.abort(frame);
            core.ring_arrived();
        }
    }
}

/// Reserved room for a message: bytes to fill in any order, and then to [commit](ReservedMessage::commit).
///
/// The bytes initially hold the remains of older messages. Dropping it without a commit aborts the message. A forgotten one
/// (`mem::forget`) stops all receivers at its place: they wait for it.
#[must_use = "a message is sent when it is committed"]
pub struct ReservedMessage<'a>(Filling<&'a Arc<Handles>>);

/// Reserved room for a message in the queue's memory, which it keeps mapped: it may outlive all ends. Otherwise as
/// [`ReservedMessage`]. A message that is committed after the queue has closed is still delivered.
///
/// ```
/// let (sender, receiver) = forebay::queue::queue(4096)?;
/// let mut reserved = sender.reserve(3).unwrap().into_owned();
/// drop(sender); // closes the queue
/// reserved.copy_from_slice(b"abc");
/// std::thread::spawn(move || reserved.commit());
/// assert_eq!(&*receiver.take().unwrap(), b"abc");
/// # Ok::<(), forebay::Error>(())
/// ```
#[must_use = "a message is sent when it is committed"]
pub struct OwnedReservedMessage(Filling<Arc<Handles>>);

impl<'a> ReservedMessage<'a> {
    #[inline]
    pub(super) fn new(handles: &'a Arc<Handles>, frame: Frame) -> ReservedMessage<'a> {
        let frame = Some(frame);
        ReservedMessage(Filling { handles, frame })
    }

    /// Turns it into one that does not borrow the sender: to keep it in a structure, or to pass it to another thread.
    pub fn into_owned(mut self) -> OwnedReservedMessage {
        OwnedReservedMessage(Filling {
            handles: Arc::clone(self.0.handles),
            frame: self.0.frame.take(),
        })
    }
}

/// What reserved room has, however it holds the queue.
macro_rules! reserved {
    ($reserved:ty) => {
        impl $reserved {
            /// Sends the message as it is now.
            #[inline]
            pub fn commit(self) {
                self.0.commit();
            }

            /// Number of the message: how many were reserved before it, by all senders.
            pub fn sequence(&self) -> u64 {
                self.0.frame().sequence
            }
        }

        impl Deref for $reserved {
            type Target = [u8];
            #[inline]
            fn deref(&self) -> &[u8] {
                self.0.handles.core.read(self.0.frame())
            }
        }

        impl DerefMut for $reserved {
            #[inline]
            fn deref_mut(&mut self) -> &mut [u8] {
                self.0.fill()
            }
        }

        debug!([] $reserved, |this| len: this.len(), sequence: this.sequence());
    };
}
reserved!(ReservedMessage<'_>);
reserved!(OwnedReservedMessage);
