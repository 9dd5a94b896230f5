//! A burst of filled slots: read in place and released, or moved out.
#![allow(unsafe_code)]

use super::{Consumer, drop_run::DropRun};
use crate::{
    memory::copy_out,
    sync::{Park, Wait},
};
use std::{iter::FusedIterator, ops::Deref, ptr, slice};

impl<T, W: Wait> Consumer<T, W> {
    /// Returns up to `n` elements in place, as one slice: as many as are available, possibly none. Never waits.
    ///
    /// They stay in the ring until released; dropping the burst releases nothing.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let burst = consumer.peek(usize::MAX);
    /// assert_eq!(*burst, [1, 2, 3]);
    /// burst.release(2);
    /// assert_eq!(*consumer.peek(8), [3]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline(always)]
    pub fn peek(&mut self, n: usize) -> Peeked<'_, T, W> {
        let n = n.min(self.capacity);
        let known = self.filled_or_refresh(n);
        self.lend(n.min(known))
    }

    /// The next `n` elements, which are known to be there, as far as they are contiguous.
    #[inline(always)]
    pub(super) fn lend(&mut self, n: usize) -> Peeked<'_, T, W> {
        let n = self.place.run(n);
        // On the cached path no Acquire load is between a write through the other view and the slice.
        self.place.settle();
        self.shared.slots.will_read(self.cursor.position(), n);
        Peeked { consumer: self, n }
    }

    /// All available elements, as one slice; never pauses. For streams, which would need 10 instructions more with
    /// [`peek`](Consumer::peek).
    #[inline]
    pub(crate) fn peek_all(&mut self) -> Peeked<'_, T, W> {
        let known = self.refresh_at_once();
        self.lend(known)
    }
}

/// The oldest elements, as one slice. They stay in the ring until they are released.
#[derive(Debug)]
pub struct Peeked<'a, T, W: Wait = Park> {
    consumer: &'a mut Consumer<T, W>,
    n: usize,
}

impl<'a, T, W: Wait> Peeked<'a, T, W> {
    /// Drops the first `k` elements in place, or all if there are fewer, and returns their slots to the producer; returns how many.
    ///
    /// If a Drop panics, the other elements of the `k` are still dropped, and the slots are returned.
    #[inline]
    pub fn release(self, k: usize) -> usize {
        /// Declared before the elements, so that it is dropped after them, even if one of them panics.
        struct Credit<'a, T, W: Wait>(&'a mut Consumer<T, W>, usize);
        impl<T, W: Wait> Drop for Credit<'_, T, W> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.release(self.1);
            }
        }
        let k = k.min(self.n);
        if k == 0 {
            return 0;
        }
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position(), k);
        let elements = ptr::slice_from_raw_parts_mut(self.consumer.place.slot(), k);
        let _credit = Credit(self.consumer, k);
        drop(DropRun(elements));
        k
    }

    /// The elements, borrowed for as long as the consumer; they stay in the ring.
    ///
    /// ```
    /// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
    /// producer.push_slice(&[1, 2, 3]);
    /// let slice: &[u8] = consumer.peek(2).into_slice();
    /// assert_eq!(slice, [1, 2]);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn into_slice(self) -> &'a [T] {
        // SAFETY: as in `deref`. Releasing them needs the consumer, which stays borrowed for `'a`.
        unsafe { slice::from_raw_parts(self.consumer.place.slot(), self.n) }
    }

    /// Copies elements into `target`, up to the smaller of both lengths, and releases them; returns how many.
    #[inline]
    pub fn copy_to_slice(self, target: &mut [T]) -> usize
    where
        T: Copy,
    {
        let k = self.n.min(target.len());
        let filled = self.consumer.place.slot();
        // SAFETY: `k` of our filled slots, contiguous, and the same number of elements of `target`. They cannot overlap: a
        // reference to an element in a slot borrows the consumer.
        unsafe { copy_out(filled, target.as_mut_ptr(), k) };
        self.release(k)
    }
}

impl<'a, T: Copy, W: Wait> Peeked<'a, T, W> {
    /// Takes all of the elements at once, to read them in place.
    #[inline(always)]
    pub(crate) fn take(self) -> Taken<'a, T, W> {
        let (first, n) = (self.consumer.place.slot(), self.n);
        // The consumer advances at once, so that a forgotten burst is not taken twice.
        self.consumer.advance(n);
        Taken {
            consumer: self.consumer,
            first,
            n,
        }
    }
}

/// Elements that were taken but are still in their slots. Dropping it returns the slots to the producer; forgetting it has the
/// same effect as forgetting a [`Drain`].
pub(crate) struct Taken<'a, T: Copy, W: Wait> {
    consumer: &'a mut Consumer<T, W>,
    first: *const T,
    n: usize,
}

// SAFETY: it is the consumer, which is Send, and the elements in some of its slots. So a task may keep it while it awaits.
unsafe impl<T: Copy + Send, W: Wait> Send for Taken<'_, T, W> {}
// SAFETY: a shared reference only reads these elements.
unsafe impl<T: Copy + Sync, W: Wait> Sync for Taken<'_, T, W> {}

impl<T: Copy, W: Wait> Deref for Taken<'_, T, W> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `n` filled slots, contiguous. They are the consumer's until `drop` returns them, and we borrow the consumer.
        unsafe { slice::from_raw_parts(self.first, self.n) }
    }
}

impl<T: Copy, W: Wait> Drop for Taken<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position().wrapping_sub(self.n), self.n);
        self.consumer.credit();
    }
}

impl<T, W: Wait> Deref for Peeked<'_, T, W> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `n` filled slots, contiguous. They stay ours until they are released, which needs this burst by value.
        unsafe { slice::from_raw_parts(self.consumer.place.slot(), self.n) }
    }
}

impl<'a, T, W: Wait> IntoIterator for Peeked<'a, T, W> {
    type Item = T;
    type IntoIter = Drain<'a, T, W>;

    /// Moves the elements out one by one; the elements that are not taken stay in the ring.
    #[inline]
    fn into_iter(self) -> Drain<'a, T, W> {
        self.consumer
            .shared
            .slots
            .will_write(self.consumer.cursor.position(), self.n);
        Drain {
            consumer: self.consumer,
            left: self.n,
        }
    }
}

/// Moves the elements of a burst out. Dropping it returns the slots of the taken elements to the producer at once.
///
/// If it is forgotten ([`std::mem::forget`]), the elements that it returned are still taken. The producer gets their slots back
/// later: when the consumer takes another element out, finds the ring empty, or is dropped.
///
/// ```
/// let (mut producer, mut consumer) = forebay::ring::spsc::ring(4)?;
/// producer.push_burst(&mut ["a", "b", "c"].map(String::from).into_iter());
/// let two: Vec<String> = consumer.peek(2).into_iter().collect();
/// assert_eq!(two, ["a", "b"]);
/// assert_eq!(consumer.try_pop().as_deref(), Ok("c"));
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Debug)]
pub struct Drain<'a, T, W: Wait = Park> {
    consumer: &'a mut Consumer<T, W>,
    left: usize,
}

impl<T, W: Wait> Iterator for Drain<'_, T, W> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.left == 0 {
            return None;
        }
        let slot = self.consumer.place.slot();
        // The consumer advances at once, so that a forgotten Drain cannot make it move this element out again.
        self.consumer.advance(1);
        self.left -= 1;
        // SAFETY: the slot was one of the burst's filled slots, and the consumer has advanced past it. It is read this once,
        // and not returned to the producer before the drain is dropped, or a later release.
        Some(unsafe { slot.read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T, W: Wait> ExactSizeIterator for Drain<'_, T, W> {}
impl<T, W: Wait> FusedIterator for Drain<'_, T, W> {}

impl<T, W: Wait> Drop for Drain<'_, T, W> {
    #[inline]
    fn drop(&mut self) {
        self.consumer.credit();
    }
}
