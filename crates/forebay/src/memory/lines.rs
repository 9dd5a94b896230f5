//! Asking for a cache line before it is needed, and giving it up when it no longer is.
//!
//! A line that another core has written takes a hundred instructions' time or a thousand to come; whoever knows its address
//! early need not wait for it. And who has read a line keeps a copy, which must be taken away before somebody else may write to
//! it; who evicts it has sent it to memory, where anybody gets it without asking round. Both change nothing but times. It
//! imports nothing, and does nothing where there is no instruction for it. Read `copy` next.
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

/// Bytes of a cache line, on x86-64.
pub(crate) const LINE: usize = 64;

/// Whether this processor can evict a line without waiting for it.
pub(crate) fn can_evict() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        /// Asked once: a guest's question is answered by its host, which takes its time.
        static CLFLUSHOPT: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            const BIT: u32 = 1 << 23; // of EBX, leaf 7: Intel's manual, volume 2, CPUID
            #[allow(unused_unsafe)] // it was unsafe in older compilers
            // SAFETY: all x86-64 processors have the instruction, and the leaf is asked for only where there is one.
            unsafe {
                __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & BIT > 0
            }
        });
        *CLFLUSHOPT
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Evicts the lines at `from` and behind it that end at or below `to` from the caches of all cores; what they hold stays.
/// Returns where the first line begins that was not evicted.
///
/// # Safety
/// [`can_evict`], and the memory from `from` to `to` is mapped. (So is all of the line that `from` lies in: none lies in two pages.)
#[inline]
pub(crate) unsafe fn evict(from: usize, to: usize) -> usize {
    let mut line = from & !(LINE - 1);
    while line + LINE <= to {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the instruction is there and the line is mapped, says the caller; what was written to it stays.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        line += LINE;
    }
    line
}

/// Ticks of the processor's clock, to compare how long this and that took; always 0 where nothing can be evicted either.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(unused_unsafe)] // it was unsafe in older compilers
    // SAFETY: all x86-64 processors have the instruction.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
