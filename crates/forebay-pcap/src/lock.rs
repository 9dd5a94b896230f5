//! A lock that a call does not wait for if it is the one that the call itself has interrupted, in a signal handler.

use crate::{border::this_thread, failure::Failure};
use std::{
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a call waits for one of another thread. Only opening a device, and reading a pipe, take longer than some microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct Lock<T> {
    /// The thread that holds it; 0: none.
    holder: AtomicUsize,
    content: Mutex<T>,
}

/// The content, for the time of a part of a call.
pub struct Held<'a, T> {
    holder: &'a AtomicUsize,
    content: MutexGuard<'a, T>,
}

impl<T> Lock<T> {
    pub const fn new(content: T) -> Lock<T> {
        Lock {
            holder: AtomicUsize::new(0),
            content: Mutex::new(content),
        }
    }

    /// The content, once no call of another thread has it.
    ///
    /// # Errors
    /// A call of this thread has it, which a signal handler interrupted; or one of another thread, for long.
    pub fn hold(&self) -> Result<Held<'_, T>, Failure> {
        let mut begun = None;
        loop {
            let content = match self.content.try_lock() {
                Ok(content) => Some(content),
                // After a panic, too, which the function that panicked has reported as an error.
                Err(TryLockError::Poisoned(content)) => Some(content.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            let me = this_thread();
            if let Some(content) = content {
                self.holder.store(me, Relaxed);
                let holder = &self.holder;
                return Ok(Held { holder, content });
            }
            let is_mine = self.holder.load(Relaxed) == me;
            if is_mine || begun.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err("the handle is in use by another call".into());
            }
            thread::yield_now();
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.content
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.content
    }
}

impl<T> Drop for Held<'_, T> {
    /// Before the lock is released.
    fn drop(&mut self) {
        self.holder.store(0, Relaxed);
    }
}
