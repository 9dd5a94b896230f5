//! Drops elements in place, in spite of panics.
#![allow(unsafe_code)]

use std::ptr;

/// Elements to drop in place, exactly once. If one Drop panics, the elements after it are still dropped.
pub(super) struct DropRun<T>(pub(super) *mut [T]);

impl<T> Drop for DropRun<T> {
    fn drop(&mut self) {
        // SAFETY: the creator owns the elements and never touches them again.
        unsafe { ptr::drop_in_place(self.0) }
    }
}
