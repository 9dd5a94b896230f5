//! A flag with a descriptor: one thread raises it, and another polls it together with sockets, timers and other signals.
//!
//! | edge | release | acquire | what is visible |
//! |---|---|---|---|
//! | RAISED | `raise` | `is_raised`, `clear` | everything before `raise` |

use crate::{Error, Result};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fd::{AsFd, BorrowedFd, OwnedFd},
};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Acquire},
        },
    },
    task::Wake,
    time::Duration,
};

/// A flag, and a descriptor (an eventfd) that is readable while the flag is raised.
///
/// Any thread may call any method at any time; only [`wait`](Signal::wait) blocks. Each raise costs a system call. The ends of
/// rings, streams and queues have cheaper wake-ups: [`Eventfd`](super::Eventfd) signals only if the other end sleeps.
///
/// ```
/// use forebay::sync::Signal;
/// use std::{sync::Arc, thread, time::Duration};
/// let stop = Arc::new(Signal::new()?);
/// let theirs = stop.clone();
/// let worker = thread::spawn(move || while !theirs.is_raised() {
///     theirs.wait(Some(Duration::from_secs(60))); // or poll it together with other descriptors
/// });
/// stop.raise();
/// worker.join().unwrap();
/// assert!(stop.clear() && !stop.is_raised());
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Signal {
    /// Written by any thread.
    raised: AtomicBool,
    fd: OwnedFd,
}

impl Signal {
    /// Makes one that is not raised.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new() -> Result<Signal> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|cause| {
            Error::new("eventfd", "making a descriptor to wait on")
                .because(cause)
                .advise("Too many files are open: close some, or raise `ulimit -n`")
        })?;
        Ok(Signal {
            raised: AtomicBool::new(false),
            fd,
        })
    }

    /// Raises the flag and makes the descriptor readable. Returns whether the flag was raised before. A signal handler may call it:
    /// it stores a flag and writes to the descriptor, and takes no lock.
    pub fn raise(&self) -> bool {
        let was_raised = self.raised.swap(true, AcqRel); // RAISED
        // The write fails only if the counter is full, in which case the descriptor is readable anyway.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        was_raised
    }

    /// Whether the flag is raised.
    pub fn is_raised(&self) -> bool {
        self.raised.load(Acquire) // RAISED
    }

    /// Clears the flag and the descriptor. Returns whether the flag was raised. After a concurrent [`raise`](Signal::raise) the
    /// descriptor may stay readable without the flag, so a poll may return once for nothing.
    pub fn clear(&self) -> bool {
        // The descriptor first: a flag raised in between is either seen here, or makes the descriptor readable again.
        // The read fails only if the descriptor was not readable.
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.raised.swap(false, AcqRel) // RAISED
    }

    /// Blocks until the descriptor is readable or the timeout has passed (`None`: no timeout); `false` only after the timeout.
    /// It may return early, so the caller must check again.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        // A timeout beyond the kernel's range means none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        poll(&mut [PollFd::new(self, PollFlags::IN)], timeout.as_ref()) != Ok(0)
    }
}

/// A [`Waker`](std::task::Waker) that raises it, for the poll functions of ends for tasks: see
/// [`queue::spsc::Receiver::arm`](crate::queue::spsc::Receiver::arm).
impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_raised_while_it_is_cleared_is_not_lost() {
        const TIMES: u32 = 10_000;
        let signal = Signal::new().unwrap();
        let asked = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..TIMES {
                    asked.fetch_add(1, AcqRel);
                    signal.raise();
                }
            });
            let mut seen = 0;
            while seen < TIMES {
                assert!(
                    signal.wait(Some(Duration::from_secs(60))),
                    "a raise was lost"
                );
                if signal.clear() {
                    seen = asked.load(Acquire);
                }
            }
        });
        signal.clear(); // the last raise follows its number, so it may come after the last look
        assert!(!signal.clear() && !signal.is_raised());
        assert!(!signal.wait(Some(Duration::ZERO)));
    }
}
