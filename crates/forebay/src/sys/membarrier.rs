//! A fence on every running thread of the process at once, so that whoever passes often needs none of its own.

use rustix::thread::{MembarrierCommand, membarrier};
use std::sync::OnceLock;

/// Whether [`fence_all_threads`] works here; asks the kernel once (Linux 4.14, where no sandbox forbids it).
pub(crate) fn fences_all_threads() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
            && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    })
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
