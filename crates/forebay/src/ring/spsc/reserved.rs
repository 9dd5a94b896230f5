//! A burst of vacant slots, to be filled in place.
#![allow(unsafe_code)]

use super::Producer;
use crate::{
    memory::copy_in,
    sync::{Park, Wait},
};
use std::{mem::MaybeUninit, slice};

/// Contiguous vacant slots. `fill`, `copy_from_slice` or `commit` publishes a filled prefix.
#[derive(Debug)]
#[must_use = "slots are only published when they are filled or committed"]
pub struct Reserved<'a, T, W: Wait = Park> {
    pub(super) producer: &'a mut Producer<T, W>,
    pub(super) n: usize,
}

impl<T, W: Wait> Reserved<'_, T, W> {
    /// Number of slots in this burst; 0 if the ring is full.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether the ring was full.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Fills slots from `source` until either ends, and publishes them; returns how many.
    ///
    /// If `source` panics, the elements that it returned before are published.
    #[inline]
    pub fn fill(self, source: impl IntoIterator<Item = T>) -> usize {
        struct Publish<'a, T, W: Wait>(&'a mut Producer<T, W>, usize);
        impl<T, W: Wait> Drop for Publish<'_, T, W> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.publish_burst(self.1);
            }
        }
        let first = self.producer.place.slot();
        let mut filled = Publish(self.producer, 0);
        for value in source.into_iter().take(self.n) {
            // SAFETY: slot number `filled.1` is one of our `n` vacant slots: it lies in the memory, and they are contiguous.
            let slot = unsafe { first.add(filled.1) };
            // SAFETY: it is ours until published, and it holds no element.
            unsafe { slot.write(value) };
            filled.1 += 1;
        }
        filled.1
    }

    /// Copies the start of `source` into the slots and publishes them; returns how many, the smaller of both lengths.
    #[inline]
    pub fn copy_from_slice(self, source: &[T]) -> usize
    where
        T: Copy,
    {
        let k = self.n.min(source.len());
        let vacant = self.producer.place.slot();
        // SAFETY: `k` of our vacant slots, contiguous. `source`, which may be borrowed from a consumer, cannot overlap them: we
        // borrow the producer exclusively, and a consumer lends only published slots.
        unsafe { copy_in(source.as_ptr(), vacant, k) };
        self.producer.publish_burst(k);
        k
    }

    /// The slots, to write in any order before [`commit`](Reserved::commit).
    #[inline]
    pub fn as_uninit(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: our `n` vacant slots, contiguous, ours alone through the exclusive borrow; they may be uninitialised.
        unsafe { slice::from_raw_parts_mut(self.producer.place.slot().cast(), self.n) }
    }

    /// The first slot; `len()` slots from there are contiguous.
    #[inline]
    pub(crate) fn first(&self) -> *const T {
        self.producer.place.slot()
    }

    /// Publishes the first `k` slots.
    ///
    /// # Safety
    /// The first `k` slots have been written through [`as_uninit`](Reserved::as_uninit).
    ///
    /// # Panics
    /// If `k` is larger than [`len`](Reserved::len).
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u16>(8)?;
    /// let mut reserved = producer.reserve(2);
    /// reserved.as_uninit()[1].write(20);
    /// reserved.as_uninit()[0].write(10);
    /// // SAFETY: both were written.
    /// unsafe { reserved.commit(2) };
    /// assert_eq!(&*consumer.peek(2), [10, 20]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub unsafe fn commit(self, k: usize) {
        assert!(k <= self.n, "committing {k} of {} slots", self.n);
        self.producer.publish_burst(k);
    }
}
