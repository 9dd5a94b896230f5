//! Prefetching a cache line before it is needed, and evicting it when it is no longer needed.
//!
//! A line that another core has written takes the time of a hundred to a thousand instructions to arrive. A thread that knows its
//! address early can request it and need not wait. A core that has read a line keeps a copy, which must be invalidated before
//! another core can write the line. Evicting the line moves it to memory, where any core gets it without asking other
//! caches. Both affect only speed. On targets without such an instruction they do nothing.
//!
//! ```text
//!   without:  load │ · · · waiting · · · │ use      load │ · · · waiting · · · │ use
//!   with:     request request │ other work … │ use use
//! ```
#![allow(unsafe_code)]

/// Prefetches the line at `_address` for reading.
#[inline(always)]
pub(crate) fn fetch_to_read<T>(_address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written through it
    // SAFETY: prefetching changes nothing and never faults, for any address.
    unsafe {
        std::arch::asm!("prefetcht0 [{}]", in(reg) _address, options(nomem, nostack, preserves_flags));
    }
}

/// Prefetches the line at `_address` for writing: no other core keeps a copy.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(_address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read or written through it
    // SAFETY: prefetching changes nothing and never faults, for any address.
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
        /// Cached: in a guest, the host answers CPUID, which is slow.
        static CLFLUSHOPT: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
            const BIT: u32 = 1 << 23; // of EBX, leaf 7: Intel's manual, volume 2, CPUID
            #[allow(unused_unsafe)] // it was unsafe in older compilers
            // SAFETY: all x86-64 processors have the instruction, and the leaf is requested only if it exists.
            unsafe {
                __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & BIT > 0
            }
        });
        *CLFLUSHOPT
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

/// Evicts the lines from the one that contains `from` up to the last that ends at or below `to` from the caches of all cores.
/// Their contents stay. Returns the start of the first line that was not evicted.
///
/// # Safety
/// [`can_evict`] is true, and the memory from `from` to `to` is mapped. (So is the rest of `from`'s line: no line is in two
/// pages.)
#[inline]
pub(crate) unsafe fn evict(from: usize, to: usize) -> usize {
    let mut line = from & !(LINE - 1);
    while line + LINE <= to {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: by the caller, the instruction exists and the line is mapped. Data written to it stays.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        line += LINE;
    }
    line
}

/// Ticks of the processor's clock, to compare durations; always 0 on targets that cannot evict.
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
