//! What threads share: atomics, padding, and ways to wait.
//!
//! The shim below is the only place where this crate takes atomics and threads from, so that the same code runs on
//! the machine and under loom, which tries every order that the memory model allows. It imports `sys` and `time`.
//! Read [`Wait`] next, then `bell`.
//!
//! ```text
//!   producer                 bell                 consumer
//!   publish ──▶ fence ──▶ armed? ◀── fence ◀── arm ──▶ look again ──▶ sleep
//!                            └──────── wake ────────────────────────────▶
//! ```

mod bell;
mod eventfd;
pub(crate) mod mortal;
mod task;
mod wait;

pub(crate) use bell::Bell;
pub use eventfd::Eventfd;
pub use task::Task;
pub(crate) use wait::Deadline;
pub use wait::{Park, Spin, Wait};

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

#[cfg(loom)]
pub(crate) use loom::{
    hint,
    sync::{Arc, atomic},
    thread,
};
#[cfg(not(loom))]
pub(crate) use std::{
    hint,
    sync::{Arc, atomic},
    thread,
};

/// A value alone on its 128 bytes: two cache lines, since x86-64 fetches lines in pairs and some aarch64 lines are 128.
///
/// ```
/// use forebay::sync::CachePadded;
/// let counts = [CachePadded(1_u32), CachePadded(2)];
/// assert_eq!(size_of_val(&counts), 256);
/// assert_eq!(*counts[1], 2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Locks, also behind a thread that panicked: what this crate's locks guard is whole between any two steps.
pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // ThreadSanitizer does not see who hands a lock to one that sleeps for it, inside the standard library.
    while cfg!(forebay_one_view) {
        match lock.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the bug of this name is to be committed, so that a test can prove that it would be found.
///
/// Bugs are planted only in builds for checkers (loom, one-view slots), by `FOREBAY_PLANT=name`.
#[cfg(any(loom, forebay_one_view))]
pub(crate) fn planted(bug: &str) -> bool {
    static PLANT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    PLANT
        .get_or_init(|| std::env::var("FOREBAY_PLANT").ok())
        .as_deref()
        == Some(bug)
}

/// Never, here: only builds for checkers plant bugs.
#[cfg(not(any(loom, forebay_one_view)))]
#[inline(always)]
pub(crate) const fn planted(_bug: &str) -> bool {
    false
}

/// Runs `body` in every order that loom finds, or once where loom is not.
#[cfg(test)]
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    // Bugs of two threads show within a few preemptions; five keep most models within seconds.
    model_of(5, body);
}

/// Runs `body` in every order with so many `preemptions`, or once where loom is not: for models of many steps.
#[cfg(test)]
pub(crate) fn model_of(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    #[cfg(loom)]
    {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
        builder.max_branches = builder.max_branches.max(20_000);
        builder.check(body);
    }
    #[cfg(not(loom))]
    {
        let _ = preemptions;
        body();
    }
}

/// Runs `test` of this binary again with `bug` planted, and requires it to fail; gives what it said.
#[cfg(all(test, any(loom, forebay_one_view)))]
pub(crate) fn planted_bug_is_found(bug: &str, test: &str) -> std::process::Output {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("FOREBAY_PLANT", bug)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&child.stdout);
    assert!(report.contains("running 1 test"), "no such test: {test}");
    assert!(!child.status.success(), "{bug} was not found by {test}");
    child
}
