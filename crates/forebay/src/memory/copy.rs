//! Copies without a call, for lengths that are known only at run time and are often short.
//!
//! A call of `memcpy` checks its arguments and jumps; for a few bytes that is most of its time. Here, up to 64 bytes are two
//! moves of at least half the length each, which may overlap:
//!
//! ```text
//!   11 bytes:  │ 0 1 2 3 4 5 6 7 │         the first eight,
//!                    │ 3 4 5 6 7 8 9 10 │   and the last eight
//! ```
//!
//! Elements of 8 bytes or more whose size divides a line are moved line by line, in bursts of up to 1 KiB. If the compiler can
//! move a line with one instruction (`-C target-cpu=native` on a processor with AVX-512), all other copies up to a page are
//! moved that way too. That is at least as fast as `memcpy`.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Bytes of a cache line; also the maximum for two moves.
const LINE: usize = 64;
/// Maximum bytes of such elements that are moved here; longer copies use `memcpy`.
const BURST: usize = 1024;
/// Maximum bytes that are moved here if a line is one move.
const PAGE: usize = 4096;
/// From this length, [`copy_lines`] moves lines.
const FEW: usize = 256;
/// From this length, moving three lines twice costs little.
const MANY: usize = 512;

/// Bytes that may be uninitialised, such as the padding of an element, or parts of pointers, which keep their provenance.
type Chunk<const N: usize> = [MaybeUninit<u8>; N];

/// Copies all of `from` to `to`, which has the same length: from 256 bytes on line by line. On Zen 4, that takes less time than glibc's
/// `memcpy` for frames from 1 to 9 KB.
///
/// ```
/// let mut to = [0; 300];
/// forebay::memory::copy_lines(&[7; 300], &mut to);
/// assert_eq!(to, [7; 300]);
/// ```
///
/// # Panics
/// The lengths differ.
#[inline]
pub fn copy_lines(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "the lengths differ");
    match from.len() {
        // SAFETY: both have this many bytes. A shared and an exclusive borrow do not overlap.
        0..FEW => unsafe { copy_in(from.as_ptr(), to.as_mut_ptr(), from.len()) },
        FEW.. => copy_many_lines(from, to),
    }
}

/// Not inlined, so that short copies do not pay for its registers.
#[inline(never)]
fn copy_many_lines(from: &[u8], to: &mut [u8]) {
    assert!(from.len() == to.len() && from.len() >= LINE);
    // SAFETY: both have this many bytes, a line or more. A shared and an exclusive borrow do not overlap.
    unsafe { lines(from.as_ptr(), to.as_mut_ptr(), from.len()) }
}

/// Copies `n` elements from `from` to `to`, which do not overlap, into a ring. If a line is one move, it uses the ring's lines,
/// so that few stores touch two lines.
///
/// # Safety
/// Those of [`ptr::copy_nonoverlapping`](std::ptr::copy_nonoverlapping).
#[inline(always)]
pub(crate) unsafe fn copy_in<T: Copy>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: by the caller.
    unsafe { copy(from, to, n, to.addr()) }
}

/// The same out of a ring, by the ring's lines again, so that the data of one store is one load, and not halves of two.
///
/// # Safety
/// Those of [`copy_in`].
#[inline(always)]
pub(crate) unsafe fn copy_out<T: Copy>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: by the caller.
    unsafe { copy(from, to, n, from.addr()) }
}

/// The same, by the lines of the memory that contains the address `ours`. It may be any address: it only affects the division
/// into moves.
///
/// # Safety
/// Those of [`copy_in`].
#[inline(always)]
unsafe fn copy<T: Copy>(from: *const T, to: *mut T, n: usize, ours: usize) {
    let bytes = n * size_of::<T>();
    let is_words = size_of::<T>() >= 8 && LINE.is_multiple_of(size_of::<T>());
    let most = if is_words { BURST } else { LINE };
    if size_of::<T>() > LINE || bytes > most {
        if cfg!(target_feature = "avx512f") && (LINE..=PAGE).contains(&bytes) {
            // SAFETY: by the caller, and it is a line or more.
            return unsafe { whole_lines(from.cast(), to.cast(), bytes, ours) };
        }
        // SAFETY: by the caller.
        return unsafe { from.copy_to_nonoverlapping(to, n) };
    }
    let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
    match bytes {
        // SAFETY: by the caller, and it is more than a line.
        65.. => unsafe { lines(from, to, bytes) },
        // A binary search, so that no length needs many comparisons.
        // SAFETY: for each: by the caller, both addresses are valid for `bytes` bytes, and each move has at least half of
        // them, at most all.
        16.. if bytes > 32 => unsafe { ends::<32>(from, to, bytes) },
        // SAFETY: as above.
        16.. => unsafe { ends::<16>(from, to, bytes) },
        // SAFETY: as above.
        4.. if bytes >= 8 => unsafe { ends::<8>(from, to, bytes) },
        // SAFETY: as above.
        4.. => unsafe { ends::<4>(from, to, bytes) },
        // SAFETY: as above.
        2.. => unsafe { ends::<2>(from, to, bytes) },
        // SAFETY: as above.
        1 => unsafe { ends::<1>(from, to, bytes) },
        0 => {}
    }
}

/// Copies line by line. The last move may overlap the one before.
///
/// # Safety
/// `from` is valid for reads of `bytes` bytes, and `to` for writes; there is a line or more, and they do not overlap.
#[inline(always)]
unsafe fn lines(from: *const u8, to: *mut u8, bytes: usize) {
    let (from, to) = (from.cast::<Chunk<LINE>>(), to.cast::<Chunk<LINE>>());
    for line in 0..bytes / LINE {
        let (from, to) = (from.wrapping_add(line), to.wrapping_add(line));
        // SAFETY: a line within the bytes; it needs no alignment.
        unsafe { from.copy_to_nonoverlapping(to, 1) };
        stay_a_loop();
    }
    if !bytes.is_multiple_of(LINE) {
        let last = bytes - LINE;
        let (from, to) = (from.wrapping_byte_add(last), to.wrapping_byte_add(last));
        // SAFETY: the last line of the bytes.
        unsafe { from.copy_to_nonoverlapping(to, 1) };
    }
}

/// Copies line by line, by whole lines of the memory that contains the address `ours`, except the first and the last move. If
/// there are many, it moves four per step, and then three more, which may overlap those before. So an equal number of bytes takes
/// nearly the same number of steps at any alignment. A processor predicts the end of such a loop, but not of one that now and
/// then takes an additional step.
///
/// ```text
///   lines of `ours` ┊      ┊      ┊      ┊      ┊      ┊      ┊      ┊
///   the first          └──────┘
///   four per step          └──────┴──────┴──────┴──────┘
///   three more                           └──────┴──────┴──────┘
///   the last                                               └──────┘
/// ```
///
/// # Safety
/// `from` is valid for reads of `bytes` bytes, and `to` for writes; there is a line or more, and they do not overlap. `ours` may
/// be any address.
#[inline(always)]
unsafe fn whole_lines(from: *const u8, to: *mut u8, bytes: usize, ours: usize) {
    let move_lines = |at: usize, count: usize| {
        for at in (at..at + count * LINE).step_by(LINE) {
            let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
            let (from, to) = (from.cast::<Chunk<LINE>>(), to.cast::<Chunk<LINE>>());
            // SAFETY: a line within the bytes, see the calls; it needs no alignment.
            unsafe { from.copy_to_nonoverlapping(to, 1) };
        }
    };
    move_lines(0, 1); // there is at least one
    let mut at = LINE - ours % LINE;
    if bytes < MANY {
        while at < bytes - LINE {
            move_lines(at, 1); // it begins before the last one
            stay_a_loop();
            at += LINE;
        }
    } else {
        let end = bytes - (ours + bytes) % LINE; // end of the last whole line
        let three = end - 3 * LINE; // not below 0: `MANY` is more
        while at < three {
            move_lines(at, 4); // a multiple of lines before `three`, so they end at or before the end of the three
            stay_a_loop();
            at += 4 * LINE;
        }
        move_lines(three, 3);
    }
    move_lines(bytes - LINE, 1); // the last one
}

/// Keeps a loop a loop: a compiler that recognises it as a copy would insert the call that is to be avoided. No instruction.
#[inline(always)]
fn stay_a_loop() {
    #[cfg(not(miri))]
    // SAFETY: it is no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// Copies the first `N` bytes and the last `N` bytes: all of them, if `bytes` is `N` to `2 * N`.
///
/// # Safety
/// `from` is valid for reads of `bytes` bytes, and `to` for writes; `bytes` is at least `N`.
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
    let last = bytes - N;
    let (from, to) = (from.cast::<Chunk<N>>(), to.cast::<Chunk<N>>());
    // SAFETY: `N` of the bytes; they need no alignment.
    unsafe { from.copy_to_nonoverlapping(to, 1) };
    let (from, to) = (from.wrapping_byte_add(last), to.wrapping_byte_add(last));
    // SAFETY: the last `N` of the bytes.
    unsafe { from.copy_to_nonoverlapping(to, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_any_length_is_copied_whole_and_nothing_beside_it() {
        let from: Vec<u8> = (0..1600).map(|i| 1 + (i % 251) as u8).collect();
        for n in (0..=1514).step_by(if cfg!(miri) { 303 } else { 1 }) {
            let mut to = [0; 1600];
            copy_lines(&from[3..][..n], &mut to[28..][..n]);
            assert_eq!(to[28..][..n], from[3..][..n]);
            assert_eq!(to.iter().filter(|&&byte| byte > 0).count(), n);
        }
    }

    #[test]
    #[should_panic(expected = "the lengths differ")]
    fn a_target_that_is_too_short_is_not_written_to() {
        copy_lines(&[1; 300], &mut [0; 299]);
    }

    #[test]
    fn every_byte_arrives_and_none_beside_them_is_touched() {
        let from: Vec<u8> = (1..=200).collect();
        for n in (0..=190).step_by(if cfg!(miri) { 38 } else { 1 }) {
            for at in [0, 1, 7] {
                let mut to = [0; 200];
                // SAFETY: both have 200 bytes.
                unsafe { copy_in(from[at..].as_ptr(), to[at + 1..].as_mut_ptr(), n) };
                assert_eq!(to[at + 1..][..n], from[at..][..n]);
                assert_eq!(to.iter().filter(|&&byte| byte > 0).count(), n);
            }
        }
    }

    /// For any target.
    #[test]
    fn whole_lines_of_either_side_are_all_of_it() {
        let from: Vec<u8> = (0..900).map(|i| 1 + (i % 251) as u8).collect();
        for n in (64..=330)
            .chain(490..=840)
            .step_by(if cfg!(miri) { 310 } else { 1 })
        {
            for (at, ours) in [0, 1, 31, 63]
                .into_iter()
                .flat_map(|at| [(at, at), (at, 40)])
            {
                let mut to = Aligned([0; 960]);
                // SAFETY: both have enough bytes, and at least a line is copied.
                unsafe { whole_lines(from[1..].as_ptr(), to.0[at..].as_mut_ptr(), n, ours) };
                assert_eq!(to.0[at..][..n], from[1..][..n]);
                let mut beside = to.0[..at].iter().chain(&to.0[at + n..]);
                assert!(beside.all(|&byte| byte == 0), "{n} bytes at {at}");
            }
        }
    }

    #[repr(align(64))]
    struct Aligned([u8; 960]);

    #[test]
    fn elements_may_have_any_size_and_pointers_stay_pointers() {
        let words = ["some", "words", "to", "point", "at", "and more"];
        for n in 0..=words.len() {
            let mut to = [""; 6];
            // SAFETY: both have six elements.
            unsafe { copy_out(words.as_ptr(), to.as_mut_ptr(), n) };
            assert_eq!(to[..n], words[..n]);
        }
        let many: Vec<u64> = (1..=200).collect();
        for n in (0..=200).step_by(if cfg!(miri) { 40 } else { 1 }) {
            let mut to = [0; 200];
            // SAFETY: both have two hundred elements.
            unsafe { copy_out(many.as_ptr(), to.as_mut_ptr(), n) };
            assert_eq!(to[..n], many[..n]);
            assert!(to[n..].iter().all(|&word| word == 0));
        }
        let (large, mut to) = ([[7_u8; 100]; 2], [[0; 100]; 2]);
        // SAFETY: both have two elements.
        unsafe { copy_out(large.as_ptr(), to.as_mut_ptr(), 2) };
        assert_eq!(to, large);
        // SAFETY: nothing is copied.
        unsafe { copy_out([(); 3].as_ptr(), [(); 3].as_mut_ptr(), 3) };
    }
}
