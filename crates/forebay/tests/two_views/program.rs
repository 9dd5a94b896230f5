//! Writes a byte through one view of a page, then through the other, and reads it through the first.

use std::{arch::asm, ffi::c_int, ptr};

unsafe extern "C" {
    fn memfd_create(name: *const i8, flags: u32) -> c_int;
    fn ftruncate(file: c_int, len: i64) -> c_int;
    fn mmap(at: *mut u8, len: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut u8;
}

/// A multiple of the page size of every supported machine: 4096, 16384 or 65536.
const LEN: usize = 65536;

/// Both pointers are to the same byte of memory; their addresses differ by 64 KiB.
#[inline(never)]
fn without(base: *mut u8) -> u8 {
    // SAFETY: `main` mapped both addresses.
    unsafe {
        *base = 1;
        *base.add(LEN) = 2;
        *base
    }
}

/// The same with the barrier that `forebay::memory` uses after a write and before a read.
#[inline(never)]
fn settled(base: *mut u8) -> u8 {
    // SAFETY: `main` mapped both addresses; the assembly has no instruction.
    unsafe {
        *base = 1;
        *base.add(LEN) = 2;
        asm!("/* {0} */", in(reg) base, options(nostack, preserves_flags));
        *base
    }
}

fn main() {
    const READ_WRITE: c_int = 1 | 2;
    const SHARED: c_int = 1;
    const FIXED: c_int = 16;
    const PRIVATE_ANONYMOUS: c_int = 2 | 32;
    // SAFETY: two views within a new reservation of our own.
    let base = unsafe {
        let file = memfd_create(c"two views".as_ptr().cast(), 0);
        assert_eq!(ftruncate(file, LEN as i64), 0);
        let base = mmap(ptr::null_mut(), 2 * LEN, 0, PRIVATE_ANONYMOUS, -1, 0);
        for view in [base, base.add(LEN)] {
            assert_eq!(mmap(view, LEN, READ_WRITE, SHARED | FIXED, file, 0), view);
        }
        base
    };
    println!("without: {}, settled: {}", without(base), settled(base));
}
