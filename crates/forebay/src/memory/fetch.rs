//! Asking for a cache line before it is needed: it comes while other things are done.
//!
//! A line that another core has written takes a hundred instructions' time or a thousand to come; whoever knows its address
//! early need not wait for it. It changes nothing but that time, imports nothing, and does nothing where there is no instruction
//! for it. Read `copy` next.
//!
//! ```text
//!   without:  load │ · · · waiting · · · │ use      load │ · · · waiting · · · │ use
//!   with:     ask ask │ other work … │ use use
//! ```
#![allow(unsafe_code)]

/// Asks for the line at `_address`, to read it soon.
#[inline(always)]
pub(crate) fn fetch_to_read<T>(_address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written there
    // SAFETY: prefetching changes nothing and faults nowhere, whatever the address.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) _address, options(nomem, nostack, preserves_flags));
    }
}

/// Asks for the line at `_address`, to write to it soon: nobody else keeps a copy.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(_address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written there
    // SAFETY: prefetching changes nothing and faults nowhere, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) _address, options(nomem, nostack, preserves_flags));
    }
}
