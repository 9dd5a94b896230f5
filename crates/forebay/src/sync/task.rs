//! Waiting as a task of an async runtime: what sleeps is a [`Waker`] in a place of its own, whatever the runtime.
//!
//! It builds on `bell`. Read `stream` next, where it is used.
//!
//! ```text
//!   task:     look ─▶ store waker ─▶ arm ─▶ look again ─▶ Pending
//!   ringer:   publish ─▶ armed? ─▶ quiet the bell, take the waker, wake
//! ```

use super::{Bell, Wait, held, planted, wait::wait_asleep};
use crate::Result;
use std::{
    sync::Mutex,
    task::{Context, Waker},
    time::Duration,
};

/// Wakes the task that waits, and a thread that waits as [`Park`](super::Park) does: an end in a task and an end in a
/// thread can share a stream.
///
/// The other end pays what [`Park`](super::Park) costs.
///
/// ```
/// use forebay::{stream::{stream_with, Config}, sync::Task};
/// use std::{pin::pin, task::{Context, Poll, Waker}};
/// let (mut writer, mut reader) = stream_with::<Task>(&Config::default())?;
/// let mut context = Context::from_waker(Waker::noop()); // your runtime has a better one
/// assert!(reader.poll_peek(&mut context).is_pending());
/// writer.push(b"x"); // wakes the task
/// assert_eq!(reader.poll_peek(&mut context), Poll::Ready(&b"x"[..]));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Task {
    bell: Bell,
    /// Stored by the task before it arms, taken by the ringer that quiets the bell. Neither does anything else while
    /// it holds the lock.
    waker: Mutex<Option<Waker>>,
}

impl Task {
    /// What `ready` says; if that is false, the task of `context` is woken at the next publication.
    pub(crate) fn poll(&self, context: &mut Context<'_>, ready: &mut dyn FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        let waker = context.waker().clone();
        // What it replaces is dropped behind the lock: dropping a waker may run anything.
        let _replaced = self.replace(Some(waker));
        self.bell.arm();
        if !planted("task-without-second-look") && ready() {
            self.bell.disarm();
            return true;
        }
        false
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
        self.bell.ring_by(|| {
            self.bell.wake();
            if let Some(waker) = self.replace(None) {
                waker.wake();
            }
        });
    }

    fn wait(&self, limit: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        let (arm, sleep) = (|| self.bell.arm(), |left| self.bell.sleep(left));
        wait_asleep(limit, ready, &self.bell, arm, sleep)
    }
}
