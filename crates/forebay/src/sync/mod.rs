//! Ways to wait for the other end of a ring or stream; and the atomics of this crate.
//!
//! | an end that waits with | waits by |
//! |---|---|
//! | [`Park`] (default) | checking for some microseconds, then sleeping |
//! | [`Spin`] | checking in a loop |
//! | [`Eventfd`] | sleeping until a descriptor becomes readable, also in the program's own `poll` or `epoll` loop |
//! | [`Task`] | suspending an async task |
//!
//! The crate takes atomics and threads only from this module. In tests, the model checker loom replaces them, and tries every
//! order of operations that the memory model allows.
//!
//! An end that publishes should make no system call if the other end is awake. So an end that sleeps has a *bell*: a flag that this
//! end arms before it sleeps, and a means to wake it.
//!
//! ```text
//!   producer                 bell                 consumer
//!   publish ──▶ fence ──▶ armed? ◀── fence ◀── arm ──▶ check again ──▶ sleep
//!                            └──────── wake ────────────────────────────▶
//! ```

mod bell;
mod deadline;
mod eventfd;
#[cfg(any(feature = "shared", loom))]
mod follower;
mod futex;
mod limited;
pub(crate) mod mortal;
mod signal;
mod task;
mod wait;

pub(crate) use bell::Bell;
pub(crate) use deadline::Deadline;
pub use eventfd::Eventfd;
#[cfg(all(feature = "shared", not(loom)))]
pub(crate) use follower::Follower;
#[cfg(all(loom, feature = "shared"))]
pub(crate) use futex::Asleep;
pub(crate) use futex::{OwnFutex, SharedFutex};
pub(crate) use limited::limited;
pub use signal::Signal;
pub use task::Task;
#[cfg(test)]
pub(crate) use task::executor;
pub(crate) use wait::spin_then_yield;
pub use wait::{Block, Park, Spin, Wait};

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

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

/// Aligns a value to its own 128 bytes: two cache lines, since x86-64 fetches lines in pairs and some aarch64 lines are 128.
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

derefs!([T] CachePadded<T>, mut T, |this| this.0);

/// Locks, even after a thread panicked with the lock: data under this crate's locks is consistent between any two steps.
pub(crate) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // ThreadSanitizer does not see the hand-over of a lock to a sleeping waiter, which is inside the standard library.
    while cfg!(forebay_one_view) {
        match lock.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the bug of this name is active, so that a test can prove that it would be found.
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

/// Always false: only builds for checkers plant bugs.
#[cfg(not(any(loom, forebay_one_view)))]
#[inline(always)]
pub(crate) const fn planted(_bug: &str) -> bool {
    false
}

/// Runs `body` in every order that loom finds; once in builds without loom.
#[cfg(test)]
pub(crate) fn model(body: impl Fn() + Send + Sync + 'static) {
    // Bugs between two threads show within a few preemptions; with five, most models take seconds.
    model_of(5, body);
}

/// Runs `body` in every order with up to `preemptions` preemptions, or once without loom: for models of many steps.
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

/// Runs `test` of this binary again with the planted `bug`, and requires it to fail; returns its output.
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

/// Runs each test of this binary, `module` and a name, with its planted bug; the checker of this build must find all of them.
#[cfg(all(test, any(loom, forebay_one_view)))]
pub(crate) fn planted_bugs_are_found(module: &str, plants: &[(&str, &str)]) {
    for (bug, test) in plants {
        let child = planted_bug_is_found(bug, &format!("{module}::{test}"));
        let complaint = String::from_utf8_lossy(&child.stderr);
        let is_race = complaint.contains("ThreadSanitizer: data race");
        let place = format!("forebay::{module}");
        assert!(
            cfg!(loom) || is_race && complaint.contains(&place),
            "{complaint}"
        );
    }
}

/// Whether this build cannot find a race: it has one view, but no ThreadSanitizer.
#[cfg(all(test, any(loom, forebay_one_view)))]
pub(crate) fn finds_no_race() -> bool {
    let finds_none = cfg!(not(loom)) && std::env::var_os("TSAN_OPTIONS").is_none();
    if finds_none {
        eprintln!("skipped: one view without ThreadSanitizer (no TSAN_OPTIONS) finds no race");
    }
    finds_none
}
