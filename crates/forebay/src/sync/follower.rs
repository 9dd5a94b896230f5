//! A descriptor for something that can only be waited for by a call that blocks, such as a futex of other processes: a thread makes
//! that call, and raises the descriptor's signal.
//!
//! ```text
//!   owner:   arm: clear the signal ─▶ wanted ─▶ unpark              ─▶ poll(the signal and others)
//!   thread:  parked until wanted ─▶ wait for the event ─▶ take `wanted` ─▶ raise the signal ─▶ park
//! ```
//!
//! The thread checks for the event after it has seen `wanted`. So no event is missed that happens after `arm`, nor one from before.
//!
//! | Edge | Release | Acquire | What becomes visible |
//! |---|---|---|---|
//! | WANTED | the owner sets `wanted`, after it has cleared the signal | the thread takes it | the signal was cleared before it is raised again |

use super::{
    Arc,
    atomic::{
        AtomicBool,
        Ordering::{AcqRel, Acquire, Release},
    },
    eventfd::Flag,
    planted, thread,
};
use crate::{Error, Result};
#[cfg(not(loom))]
use std::os::fd::{AsFd, BorrowedFd};

/// The thread, and its descriptor. The thread ends soon after this is dropped: when its `wait` looks at `is_wanted` next.
#[derive(Debug)]
pub(crate) struct Follower {
    request: Arc<Request>,
    thread: thread::JoinHandle<()>,
}

#[derive(Debug)]
struct Request {
    signal: Flag,
    /// Set by the owner, cleared by both.
    wanted: AtomicBool,
    /// Set by the owner.
    ended: AtomicBool,
}

impl Follower {
    /// `wait` blocks until the event has happened or `is_wanted`, its argument, is false. It checks both before it blocks, and again
    /// every so often.
    ///
    /// # Errors
    /// No descriptor or no thread is available.
    pub(crate) fn start(wait: impl FnMut(&dyn Fn() -> bool) + Send + 'static) -> Result<Follower> {
        Follower::waking(wait, || ())
    }

    /// As [`start`](Follower::start), and calls `wake` after it has raised the signal.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn waking(
        mut wait: impl FnMut(&dyn Fn() -> bool) + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Follower> {
        let request = Arc::new(Request {
            signal: Flag::new()?,
            wanted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let asked = request.clone();
        let body = move || {
            while !asked.ended.load(Acquire) {
                if !asked.is_wanted() {
                    thread::park();
                    continue;
                }
                wait(&|| asked.is_wanted());
                if asked.wanted.swap(false, AcqRel) {
                    asked.signal.raise(); // WANTED
                    wake();
                }
            }
        };
        let thread = thread::Builder::new().name("forebay-watch".into());
        let thread = thread.spawn(body).map_err(|cause| {
            Error::new("watch", "starting the thread that waits").because(cause)
        })?;
        Ok(Follower { request, thread })
    }

    /// Requests that the descriptor becomes readable once the event has happened; it is not readable until then.
    pub(crate) fn arm(&self) {
        if planted("follower-clears-late") {
            self.request.wanted.store(true, Release);
            self.thread.thread().unpark();
            let _ = self.request.signal.clear();
            return;
        }
        let _was_raised = self.request.signal.clear();
        self.request.wanted.store(true, Release); // WANTED
        self.thread.thread().unpark();
    }

    /// Cancels the request; the descriptor may still become readable.
    pub(crate) fn disarm(&self) {
        self.request.wanted.store(false, Release);
    }

    /// Sleeps as a poll loop does.
    #[cfg(all(test, loom))]
    fn poll(&self) {
        self.request.signal.wait(None);
    }
}

impl Request {
    fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire) // WANTED
    }
}

#[cfg(not(loom))]
impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.request.signal.as_fd()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.request.ended.store(true, Release);
        self.disarm();
        self.thread.thread().unpark();
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use crate::sync::{atomic::AtomicU32, model_of, planted_bugs_are_found};

    #[test]
    fn an_armed_owner_is_woken_by_each_event() {
        model_of(3, || {
            let events = Arc::new(AtomicU32::new(0));
            let (counted, published) = (events.clone(), events.clone());
            let seen = Arc::new(AtomicU32::new(0));
            let asked = seen.clone();
            let follower = Follower::start(move |is_wanted| {
                while counted.load(Acquire) == asked.load(Acquire) && is_wanted() {
                    thread::yield_now();
                }
            })
            .unwrap();
            let publisher = thread::spawn(move || published.store(1, Release));
            follower.arm();
            follower.poll();
            while events.load(Acquire) == 0 {
                follower.arm();
                follower.poll();
            }
            publisher.join().unwrap();
        });
    }

    #[test]
    fn the_planted_bug_is_found() {
        let bugs = [(
            "follower-clears-late",
            "an_armed_owner_is_woken_by_each_event",
        )];
        planted_bugs_are_found("sync::follower::tests", &bugs);
    }
}
