//! File descriptors from other processes, which a separate thread closes.
//!
//! The process that created a file can make `close` of its last descriptor block for any time. A TCP socket with `SO_LINGER` waits
//! for its other end, and a file on FUSE waits for the process that serves it. Closing a Unix socket also closes all descriptors
//! that are still in its queue. A thread that has other work must therefore not close such a descriptor or socket itself:
//! dropping a [`Foreign`] hands it to another thread.

use crate::sync::held;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

/// A descriptor that is closed by a separate thread, so that dropping it never blocks.
///
/// If the system has no thread left, the descriptor stays open until the next one is dropped.
///
/// ```
/// use forebay::foreign::Foreign;
/// use std::os::{fd::AsFd, unix::net::UnixStream};
///
/// let (socket, _theirs) = UnixStream::pair()?;
/// let socket = Foreign::new(socket.into());
/// assert!(socket.as_fd().try_clone_to_owned().is_ok());
/// drop(socket); // does not block, whatever the other process has sent
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Foreign(Option<OwnedFd>);

impl Foreign {
    /// Takes over a descriptor.
    pub fn new(descriptor: OwnedFd) -> Foreign {
        Foreign(Some(descriptor))
    }

    /// The descriptor itself, for a caller that has found out that closing it is quick.
    pub fn trusted(mut self) -> OwnedFd {
        self.0.take().expect("it is there until dropped")
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = self.0.as_ref();
        descriptor.expect("it is there until dropped").as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0.take() {
            close_elsewhere(descriptor);
        }
    }
}

/// Descriptors that are being closed. Relaxed: it orders nothing.
static CLOSING: AtomicUsize = AtomicUsize::new(0);

/// How many descriptors of this process are being closed, or wait for a thread that closes them.
///
/// Each one occupies a thread. A process that accepts connections should stop accepting while there are many.
pub fn closing() -> usize {
    CLOSING.load(Relaxed)
}

/// Closes a descriptor of unknown kind without waiting for it. Each one is closed by its own thread, so that one that never
/// closes delays no other.
pub(crate) fn close_elsewhere(descriptor: OwnedFd) {
    // Not moved into the closure: if no thread can be made, the closure is dropped here, which would close the descriptor.
    static DUE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    CLOSING.fetch_add(1, Relaxed);
    held(&DUE).push(descriptor);
    let close_what_is_due = || {
        loop {
            let Some(next) = held(&DUE).pop() else { return };
            drop(next);
            CLOSING.fetch_sub(1, Relaxed);
        }
    };
    let closer = thread::Builder::new().name("forebay-closer".to_owned());
    // A descriptor that stays here for lack of a thread is closed by the next call.
    let _ = closer.spawn(close_what_is_due);
}
