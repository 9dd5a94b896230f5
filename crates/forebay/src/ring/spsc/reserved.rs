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

impl<T, W: Wait> Producer<T, W> {
    /// Reserves up to `n` contiguous vacant slots, to be filled in place: as many as are vacant, possibly none; none once the
    /// [consumer is gone](Producer::consumer_is_gone). Never waits.
    ///
    /// Dropping it without a commit changes nothing.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(8)?;
    /// let reserved = producer.reserve(100);
    /// assert_eq!(reserved.len(), 8);
    /// assert_eq!(reserved.fill([1, 2, 3]), 3);
    /// assert_eq!(&*consumer.peek(100), [1, 2, 3]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn reserve(&mut self, n: usize) -> Reserved<'_, T, W> {
        let n = n.min(self.capacity);
        let known = self.vacant_or_refresh(n);
        self.lend(n.min(known))
    }

    /// The next `n` slots, which are known to be vacant, as far as they are contiguous.
    #[inline(always)]
    pub(crate) fn lend(&mut self, n: usize) -> Reserved<'_, T, W> {
        let n = self.place.run(n);
        // Earlier writes of an abandoned reservation through the second view must not be reordered after the writes below.
        self.place.settle();
        self.shared.slots.will_write(self.cursor.position(), n);
        Reserved { producer: self, n }
    }
}

/// Contiguous vacant slots. `fill`, `copy_from_slice` or `commit` publishes a filled prefix.
///
/// If any bytes are a valid element ([`FromBytes`] and [`IntoBytes`]), the slots are also a slice to write to.
#[derive(Debug)]
#[must_use = "slots are only published when they are filled or committed"]
pub struct Reserved<'a, T, W: Wait = Park> {
    producer: &'a mut Producer<T, W>,
    n: usize,
}

impl<T, W: Wait> Reserved<'_, T, W> {
    /// Number of slots in this burst; 0 if the ring is full or the consumer is gone.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there is no slot in it.
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
    /// Publishes the first `k` slots as they are now, or all if there are fewer; returns how many.
    ///
    /// It exists for types for which any bytes are a value, as `zerocopy` defines them. The slots, which can be written in any
    /// order, initially hold old elements, or zeros.
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
    pub fn commit(self, k: usize) -> usize {
        let k = k.min(self.n);
        self.producer.publish_burst(k);
        k
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
