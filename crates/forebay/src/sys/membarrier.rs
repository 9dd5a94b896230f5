//! A fence on every running thread of the process at once, so that the frequent side of a protocol needs no fence.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether [`fence_all_threads`] works here; asks the kernel once (Linux 4.14, unless a sandbox forbids it).
pub(crate) fn fences_all_threads() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    /// Written by the first thread that asks. Threads that ask at the same time write the same value.
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed, both: it caches a property of the whole process that the kernel knows, and publishes no other data.
    match ANSWER.load(Relaxed) {
        UNKNOWN => {
            let works = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
                && membarrier(MembarrierCommand::PrivateExpedited).is_ok();
            ANSWER.store(if works { YES } else { NO }, Relaxed);
            works
        }
        answer => answer == YES,
    }
}

/// As if every thread of this process executed a full fence between the call and the return.
///
/// # Panics
/// If the kernel refuses although [`fences_all_threads`] returned true.
pub(crate) fn fence_all_threads() {
    let answer = membarrier(MembarrierCommand::PrivateExpedited);
    assert!(
        answer.is_ok(),
        "membarrier(2) worked when this process first used it and is refused now ({answer:?}): allow it in the sandbox, or \
         enter the sandbox first"
    );
}
