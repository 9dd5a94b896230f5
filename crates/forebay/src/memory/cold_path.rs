//! A marker for unlikely branches, so that a choice is predicted instead of computed.
//!
//! The compiler prefers to choose between two numbers without a branch. That is slow if the choice is nearly always the same and
//! the next step depends on it: each step then waits for the choice of the step before. With a branch, a processor that
//! predicts it continues at once.
//!
//! ```text
//!   computed:   compare ─▶ choose ─▶ compare ─▶ choose ─▶ …     one after the other
//!   predicted:  go on ─▶ go on ─▶ …                             and compare in parallel
//! ```
#![allow(unsafe_code)]

/// Marks a branch that is rarely taken, and keeps it a branch. No instruction.
#[inline(always)]
pub(crate) fn cold_path() {
    #[cfg(not(miri))]
    // SAFETY: it is no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
