//! A burst of vacant slots, to be filled in place.
#![allow(unsafe_code)]

use super::Producer;
use crate::{
    memory::copy_in,
    sync::{Park, Wait},
};
use std::{
    ops::{Deref, DerefMut},
    slice,
};
use zerocopy::{FromBytes, IntoBytes};

/// Contiguous vacant slots. `fill`, `copy_from_slice` or `commit` publishes a filled prefix.
///
/// If any bytes are a valid element ([`FromBytes`] and [`IntoBytes`]), the slots are also a slice to write to.
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
}

impl<T: FromBytes + IntoBytes, W: Wait> Reserved<'_, T, W> {
    /// Publishes the first `k` slots as they are now.
    ///
    /// It exists for types for which any bytes are a value, as `zerocopy` defines them. The slots, which can be written in any
    /// order, initially hold old elements, or zeros.
    ///
    /// # Panics
    /// If `k` is larger than [`len`](Reserved::len).
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring::<u16>(8)?;
    /// let mut reserved = producer.reserve(2);
    /// reserved[1] = 20;
    /// reserved[0] = 10;
    /// reserved.commit(2);
    /// assert_eq!(&*consumer.peek(2), [10, 20]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn commit(self, k: usize) {
        assert!(k <= self.n, "committing {k} of {} slots", self.n);
        self.producer.publish_burst(k);
    }
}

impl<T: FromBytes + IntoBytes, W: Wait> Deref for Reserved<'_, T, W> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: our `n` vacant slots, contiguous, ours through the borrow of the producer. They hold values: the memory was
        // zeroed when it was made, since then only elements without uninitialised bytes (`IntoBytes`) were written into it, and any
        // bytes are an element (`FromBytes`).
        unsafe { slice::from_raw_parts(self.producer.place.slot(), self.n) }
    }
}

impl<T: FromBytes + IntoBytes, W: Wait> DerefMut for Reserved<'_, T, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow of the producer is exclusive.
        unsafe { slice::from_raw_parts_mut(self.producer.place.slot(), self.n) }
    }
}
