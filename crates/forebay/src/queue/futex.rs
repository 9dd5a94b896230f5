//! A word that threads can sleep on: while it holds a given value, until they are woken.
//!
//! Normally it is the kernel's futex, through `sys`, in the variant that works between processes. For loom it is a lock and a
//! condition variable that behave as the kernel does: no thread falls asleep on a value that has changed, and a sleeping
//! thread takes no steps, so that loom reports a lost wake-up at once as a deadlock.

use crate::sync::mortal::AtomicU32;
use std::{ops::Deref, time::Duration};

/// The word. It gives no ordering by itself.
#[derive(Debug, Default)]
pub(super) struct Futex {
    word: AtomicU32,
    #[cfg(loom)]
    asleep: Asleep,
}

impl Deref for Futex {
    type Target = AtomicU32;
    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(not(loom))]
impl Futex {
    /// Sleeps while the word holds `expected`, until woken or for up to `limit`; it may return early.
    pub(super) fn sleep(&self, expected: u32, limit: Option<Duration>) {
        crate::sys::shared::futex_wait(&self.word, expected, limit);
    }

    /// Wakes one sleeper. Call it after changing the word.
    pub(super) fn wake_one(&self) {
        crate::sys::shared::futex_wake(&self.word);
    }

    /// Wakes all sleepers. Call it after changing the word.
    pub(super) fn wake_all(&self) {
        crate::sys::shared::futex_wake_all(&self.word);
    }
}

#[cfg(loom)]
#[derive(Debug)]
struct Asleep {
    lock: loom::sync::Mutex<()>,
    woken: loom::sync::Condvar,
}

#[cfg(loom)]
impl Default for Asleep {
    fn default() -> Self {
        Asleep {
            lock: loom::sync::Mutex::new(()),
            woken: loom::sync::Condvar::new(),
        }
    }
}

#[cfg(loom)]
impl Futex {
    /// A model has no clock: every limit expires at once, or as soon as all other threads had a turn.
    pub(super) fn sleep(&self, expected: u32, limit: Option<Duration>) {
        let held = self.asleep.lock.lock().unwrap();
        // Relaxed: like the kernel's own check.
        if limit.is_some() {
            drop(held);
            loom::thread::yield_now();
        } else if self.word.load(std::sync::atomic::Ordering::Relaxed) == expected {
            drop(self.asleep.woken.wait(held).unwrap());
        }
    }

    pub(super) fn wake_one(&self) {
        let _held = self.asleep.lock.lock().unwrap();
        self.asleep.woken.notify_one();
    }

    pub(super) fn wake_all(&self) {
        let _held = self.asleep.lock.lock().unwrap();
        self.asleep.woken.notify_all();
    }
}
