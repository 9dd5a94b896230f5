//! A fence on every running thread of the process at once, so that whoever passes often needs none of its own.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Whether [`fence_all_threads`] works here; asks the kernel once (Linux 4.14, where no sandbox forbids it).
pub(crate) fn fences_all_threads() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    /// Written by whoever asks first, and the same by all who ask meanwhile.
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed, both: it repeats what the kernel knows of the whole process, and publishes nothing of ours.
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

/// Every other thread of this process has passed a full fence between the call and the return, and so have we.
///
/// # Panics
/// If the kernel refuses what it granted before.
pub(crate) fn fence_all_threads() {
    let answer = membarrier(MembarrierCommand::PrivateExpedited);
    assert!(
        answer.is_ok(),
        "membarrier(2) worked when this process began to wait and is refused now ({answer:?}): allow it in the sandbox, or \
         enter the sandbox first"
    );
}
