//! Waiting as a task of any async runtime: the end stores the task's [`Waker`].
//!
//! ```text
//!   task:     check ─▶ store waker ─▶ arm ─▶ check again ─▶ Pending
//!   ringer:   publish ─▶ armed? ─▶ disarm the bell, take the waker, wake
//! ```

use super::{Bell, Wait, held, planted, wait::wait_asleep};
use crate::Result;
use std::{
    sync::Mutex,
    task::{Context, Waker},
    time::Instant,
};

/// Wakes the waiting task, or a thread that waits as with [`Park`](super::Park): an end in a task and an end in a thread
/// can share a stream.
///
/// The other end's cost is that of [`Park`](super::Park).
///
/// ```
/// use forebay::{stream::{stream_with, StreamConfig}, sync::Task};
/// use std::{pin::pin, task::{Context, Poll, Waker}};
/// let (mut writer, mut reader) = stream_with::<Task>(&StreamConfig::default())?;
/// let mut context = Context::from_waker(Waker::noop()); // your runtime has a better one
/// assert!(reader.poll_peek(&mut context).is_pending());
/// writer.push_slice(b"x"); // wakes the task
/// assert_eq!(reader.poll_peek(&mut context), Poll::Ready(&b"x"[..]));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Task {
    bell: Bell,
    /// Stored by the task before it arms, taken by the ringer that disarms the bell. Neither does anything else while it holds
    /// the lock.
    waker: Mutex<Option<Waker>>,
}

impl Task {
    /// Returns the result of `ready`. If that is false, the task of `context` is woken at the next publication.
    pub(crate) fn poll(&self, context: &mut Context<'_>, ready: &mut dyn FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        self.arm(context);
        if !planted("task-without-second-look") && ready() {
            self.bell.disarm();
            return true;
        }
        false
    }

    /// Requests that the task of `context` is woken at the next publication. The caller checks again.
    pub(crate) fn arm(&self, context: &Context<'_>) {
        let waker = context.waker().clone();
        // The replaced waker is dropped after the lock: dropping a waker may run any code.
        let _replaced = self.replace(Some(waker));
        self.bell.arm();
    }

    /// Cancels the request; returns whether a wake-up was pending, which now will not happen.
    pub(crate) fn take_down(&self) -> bool {
        self.bell.take_down()
    }

    /// Like [`wake`](Wait::wake), and calls `also` if it wakes.
    #[inline(always)]
    pub(crate) fn wake_and(&self, also: impl FnOnce()) {
        self.bell.ring_by(|| {
            also();
            self.bell.wake();
            if let Some(waker) = self.replace(None) {
                waker.wake();
            }
        });
    }

    fn replace(&self, waker: Option<Waker>) -> Option<Waker> {
        let mut place = held(&self.waker);
        std::mem::replace(&mut *place, waker)
    }
}

impl Wait for Task {
    fn new() -> Result<Self> {
        Ok(Task::default())
    }

    #[inline(always)]
    fn wake(&self) {
        self.wake_and(|| ());
    }

    fn wait(&self, deadline: Option<Instant>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.bell.arm(), |left| self.bell.sleep(left));
        wait_asleep(deadline, ready, &self.bell, arm, sleep)
    }
}

/// The executor of one task, for tests.
#[cfg(test)]
pub(crate) mod executor {
    use crate::sync::{
        atomic::{
            AtomicU32,
            Ordering::{AcqRel, Acquire},
        },
        thread,
    };
    use std::{
        sync::Arc,
        task::{Wake, Waker},
    };

    /// Sleeps until the task was woken.
    #[derive(Debug, Default)]
    pub(crate) struct Executor {
        /// Set by the waker, taken by the executor: 0 or 1. Accessed only by swaps, so that loom knows the order of its values.
        woken: AtomicU32,
    }

    impl Executor {
        pub(crate) fn new() -> (Arc<Executor>, Waker) {
            let executor = Arc::new(Executor::default());
            let waker = Waker::from(executor.clone());
            (executor, waker)
        }

        pub(crate) fn sleep(&self) {
            while self.woken.load(Acquire) == 0 {
                thread::yield_now();
            }
            self.woken.swap(0, AcqRel);
        }
    }

    impl Wake for Executor {
        fn wake(self: Arc<Self>) {
            self.woken.swap(1, AcqRel);
        }
    }
}
