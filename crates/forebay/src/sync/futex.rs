//! A word that threads can sleep on: while it holds a given value, until they are woken. All sleeping of this crate that does
//! not wait for a descriptor is here.
//!
//! Normally it is the kernel's futex, through `sys`. For loom it is a lock and a condition variable that behave as the kernel
//! does: no thread falls asleep on a value that has changed, and a sleeping thread takes no steps, so that loom reports a lost
//! wake-up at once as a deadlock.

use super::mortal::AtomicU32;
use std::{ops::Deref, time::Duration};

/// The word. It gives no ordering by itself.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Futex<const BETWEEN_PROCESSES: bool> {
    word: AtomicU32,
    #[cfg(loom)]
    asleep: Asleep,
}

/// For threads of one process; the kernel finds its sleepers faster.
pub(crate) type OwnFutex = Futex<false>;
/// For threads of all processes that have mapped its memory.
pub(crate) type SharedFutex = Futex<true>;

impl<const BETWEEN_PROCESSES: bool> Deref for Futex<BETWEEN_PROCESSES> {
    type Target = AtomicU32;
    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

impl<const BETWEEN_PROCESSES: bool> Futex<BETWEEN_PROCESSES> {
    pub(crate) fn new(value: u32) -> Self {
        let futex = Futex::default();
        futex
            .word
            .store(value, std::sync::atomic::Ordering::Relaxed); // Relaxed: no other thread has it yet
        futex
    }

    /// Sleeps while the word holds `expected`, until woken or for up to `limit`; false only after the limit. It may return
    /// early.
    #[cfg(not(loom))]
    pub(crate) fn sleep(&self, expected: u32, limit: Option<Duration>) -> bool {
        crate::sys::futex_wait(&self.word, expected, limit, BETWEEN_PROCESSES)
    }

    /// Wakes one sleeper. Call it after changing the word.
    #[cfg(not(loom))]
    pub(crate) fn wake_one(&self) {
        crate::sys::futex_wake(&self.word, BETWEEN_PROCESSES);
    }

    /// A model has no clock: every limit expires at once, or as soon as all other threads had a turn.
    #[cfg(loom)]
    pub(crate) fn sleep(&self, expected: u32, limit: Option<Duration>) -> bool {
        let relaxed = std::sync::atomic::Ordering::Relaxed; // like the kernel's own check
        let is_expected = || self.word.load(relaxed) == expected;
        self.asleep.sleep(is_expected, limit)
    }

    #[cfg(loom)]
    pub(crate) fn wake_one(&self) {
        let _held = self.asleep.lock.lock().unwrap();
        self.asleep.woken.notify_one();
    }
}

/// The sleepers of a word.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(crate) struct Asleep {
    lock: loom::sync::Mutex<()>,
    woken: loom::sync::Condvar,
}

#[cfg(loom)]
impl Asleep {
    /// Sleeps if `is_expected`; with a limit, only lets all other threads have a turn, and returns false.
    pub(crate) fn sleep(
        &self,
        is_expected: impl FnOnce() -> bool,
        limit: Option<Duration>,
    ) -> bool {
        let held = self.lock.lock().unwrap();
        if limit.is_some() {
            drop(held);
            loom::thread::yield_now();
        } else if is_expected() {
            drop(self.woken.wait(held).unwrap());
        }
        limit.is_none()
    }

    /// Wakes all sleepers.
    #[cfg_attr(not(feature = "shared"), allow(dead_code))]
    pub(crate) fn wake_all(&self) {
        let _held = self.lock.lock().unwrap();
        self.woken.notify_all();
    }
}
