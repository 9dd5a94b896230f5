//! Where the shared words of a queue are: on the heap of one process, or in memory that several processes have mapped.
#![allow(unsafe_code)]

use super::control::Control;
use crate::sys::Mapping;
use std::{ops::Deref, ptr::NonNull};

/// The words, and the owner of their memory.
#[derive(Debug)]
pub(super) struct ControlMemory {
    control: NonNull<Control>,
    keeper: Keeper,
}

#[derive(Debug)]
enum Keeper {
    Heap,
    #[allow(dead_code)] // held to be dropped
    Mapped(Mapping),
}

// SAFETY: the words are atomics, which any thread may use; `keeper` never touches them.
unsafe impl Send for ControlMemory {}
// SAFETY: as above.
unsafe impl Sync for ControlMemory {}

impl Default for ControlMemory {
    fn default() -> ControlMemory {
        let control = NonNull::from(Box::leak(Box::default()));
        ControlMemory {
            control,
            keeper: Keeper::Heap,
        }
    }
}

impl ControlMemory {
    /// The words at byte `at` of `mapping`, a multiple of 128.
    ///
    /// # Panics
    /// If the words do not fit inside the mapping.
    #[cfg(not(loom))]
    pub(super) fn mapped(mapping: Mapping, at: usize) -> ControlMemory {
        assert!(at.is_multiple_of(align_of::<Control>()));
        assert!(at + size_of::<Control>() <= mapping.len());
        // SAFETY: the address stays inside the mapping, as asserted.
        let control = unsafe { mapping.start().add(at) };
        ControlMemory {
            control: control.cast(),
            keeper: Keeper::Mapped(mapping),
        }
    }
}

impl Deref for ControlMemory {
    type Target = Control;
    #[inline(always)]
    fn deref(&self) -> &Control {
        // SAFETY: the words live as long as `self`, are aligned, and consist of atomic integers, for which all bytes are valid.
        unsafe { self.control.as_ref() }
    }
}

impl Drop for ControlMemory {
    fn drop(&mut self) {
        if let Keeper::Heap = self.keeper {
            // SAFETY: the pointer came out of a box in `default`, and is dropped once.
            drop(unsafe { Box::from_raw(self.control.as_ptr()) });
        }
    }
}
