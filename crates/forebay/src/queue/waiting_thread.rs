//! The thread that waits for other processes in place of a task.

use super::{handles::Handles, watch::For};
use crate::{
    Result,
    sync::{
        Arc, Follower, Task, Wait,
        atomic::{
            AtomicUsize,
            Ordering::{Acquire, Release},
        },
    },
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    thread,
    time::Duration,
};

/// How often a task polls that got no thread.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) struct Processes {
    handles: Arc<Handles>,
    what: For,
    /// The bytes of room that the task waits for. Set by the task before it tries once more, read by the thread each time it looks.
    len: Arc<AtomicUsize>,
    follower: OnceLock<Follower>,
}

impl Processes {
    pub(super) fn new(handles: &Arc<Handles>, what: For) -> Processes {
        Processes {
            handles: handles.clone(),
            what,
            len: Arc::default(),
            follower: OnceLock::new(),
        }
    }

    /// The thread, which wakes `task`. It is started if there is none.
    ///
    /// # Errors
    /// No thread or descriptor is available.
    pub(super) fn follower(&self, task: &Arc<Task>) -> Result<&Follower> {
        if let Some(follower) = self.follower.get() {
            return Ok(follower);
        }
        let (handles, what, len, task) = (
            self.handles.clone(),
            self.what,
            self.len.clone(),
            task.clone(),
        );
        let what = move || match what {
            For::Message => For::Message,
            For::Room(_) => For::Room(len.load(Acquire)),
        };
        let wait = move |is_wanted: &dyn Fn() -> bool| handles.core.follow(&what, is_wanted);
        // A waker that panics must not end the thread that later wakers need.
        let wake = move || drop(catch_unwind(AssertUnwindSafe(|| task.wake())));
        let started = Follower::waking(wait, wake)?;
        Ok(self.follower.get_or_init(|| started))
    }

    /// Wakes the armed task once there may be a message, or room of `len` bytes.
    pub(super) fn arm(&self, task: &Arc<Task>, len: usize) {
        self.len.store(len, Release);
        match self.follower(task) {
            Ok(follower) => follower.arm(),
            Err(_) => {
                thread::sleep(PAUSE);
                task.wake();
            }
        }
    }

    pub(super) fn disarm(&self) {
        if let Some(follower) = self.follower.get() {
            follower.disarm();
        }
    }
}
