//! A choice that is foreseen instead of computed.
//!
//! The compiler likes to choose between two numbers without a branch. Where nearly always the same one is chosen, and the next
//! step needs it, that is the wrong way: each step waits for the last one's choice, where a processor that foresees a branch has
//! long gone on. It imports nothing. Read `fifo` and `ring::slots` next, where it is used.
//!
//! ```text
//!   chosen:    compare ─▶ choose ─▶ compare ─▶ choose ─▶ …     one after the other
//!   foreseen:  go on ─▶ go on ─▶ …                             and compare beside it
//! ```
#![allow(unsafe_code)]

/// Says that whoever gets here seldom does, and makes that a branch. No instruction.
#[inline(always)]
pub(crate) fn seldom() {
    #[cfg(not(miri))]
    // SAFETY: it is no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
