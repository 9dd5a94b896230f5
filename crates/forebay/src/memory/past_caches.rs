//! Copies past the caches, for bytes that no processor reads soon, such as those that a disk fetches.
//!
//! A store to a line that is in no cache of this processor first fetches it. In a buffer that the disk has just read, that takes most of the
//! time of a copy, and fills the caches with bytes that are of no use there. The stores of [`copy`] fetch nothing.
//!
//! They are not ordered with later stores, either. The thread that copies sees them in order; before another thread may look, [`fence`] has
//! to be called, by any thread. The documentation of these instructions asks for a fence in the thread that copies. Here the kernel makes every
//! thread of the process execute one: when `membarrier(2)` returns, the accesses of each thread to memory have matched the order of the program
//! at some point since the call. So no fence is needed after each copy, which would take longer than the copy.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod imp {
    use super::super::{LINE, copy_lines};
    pub(crate) use crate::sys::membarrier::{
        fence_all_threads as fence, fences_all_threads as is_possible,
    };
    use std::arch::x86_64::{__m128i, _mm_loadu_si128 as load, _mm_stream_si128 as store};

    /// Copies all of `from` to `to`, which has the same length: whole lines of `to` past the caches.
    ///
    /// # Safety
    /// Before another thread accesses `to`, a call of [`fence`] begins after this call has returned, and returns.
    #[inline(never)]
    pub(crate) unsafe fn copy(from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "the lengths differ");
        let head = to.as_ptr().align_offset(LINE).min(from.len());
        let (first, from) = from.split_at(head);
        let (first_to, to) = to.split_at_mut(head);
        copy_lines(first, first_to);
        let (from, last) = from.as_chunks::<LINE>();
        let (to, last_to) = to.as_chunks_mut::<LINE>();
        for (from, to) in from.iter().zip(to) {
            let from = from.as_ptr().cast::<__m128i>();
            let to = to.as_mut_ptr().cast::<__m128i>();
            for part in 0..LINE / size_of::<__m128i>() {
                // SAFETY: a part of the line.
                let bytes = unsafe { load(from.wrapping_add(part)) };
                // SAFETY: the same part of the other line, which is aligned. The caller fences.
                unsafe { store(to.wrapping_add(part), bytes) };
            }
        }
        copy_lines(last, last_to);
    }
}

/// Where that is not possible.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
mod imp {
    pub(crate) fn is_possible() -> bool {
        false
    }

    pub(crate) fn fence() {}

    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn copy(from: &[u8], to: &mut [u8]) {
        super::super::copy_lines(from, to);
    }
}

pub(crate) use imp::{copy, fence, is_possible};

/// From this length on, a copy past the caches may take less time (decision 96).
pub(crate) const LEAST: usize = 512;

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn all_is_copied_and_nothing_beside_it_is_touched() {
        #[repr(align(64))]
        struct Aligned([u8; 1600]);

        let from: Vec<u8> = (0..1600).map(|i| 1 + (i % 251) as u8).collect();
        for n in (0..=1514).step_by(if cfg!(miri) { 303 } else { 1 }) {
            for at in [0, 4, 63] {
                let mut to = Aligned([0; 1600]);
                // SAFETY: no other thread accesses it.
                unsafe { super::copy(&from[3..][..n], &mut to.0[at..][..n]) };
                assert_eq!(to.0[at..][..n], from[3..][..n]);
                assert_eq!(to.0.iter().filter(|&&byte| byte > 0).count(), n);
            }
        }
    }
}
