//! A byte queue for one thread, first in, first out, on a mirror.
//!
//! It is two numbers and a mirror. Nothing is shared between threads, so nothing needs ordering: a put or a get is a copy and
//! an addition. For two threads, or for content that ends, see `stream`.
//!
//! ```text
//!                head        head + len
//!   │ . . . . . . a b c d e f g │ a b c …           peek(): all of it, one slice, even across the end
//!   │ e f g . . . a b c d │ e f g . . . a b c d │
//! ```
#![allow(unsafe_code)]

use super::{MapConfig, Mirror, cold_path, copy_in, copy_out, view_barrier};
use crate::Result;
use std::slice;

/// A bounded queue of bytes that belongs to one thread at a time, whose content is always one slice.
///
/// Choose it over a [`stream`](crate::stream) for bytes that stay in one thread: it is two to three times as fast.
///
/// Messages go in and out as a whole or not at all. The content can be read in place, and new content written in place.
///
/// ```
/// use forebay::memory::{Fifo, MapConfig};
/// let mut fifo = Fifo::new(11, &MapConfig::default())?;
/// assert!(fifo.put(b"hello, "));
/// assert!(!fifo.put(b"world")); // only 4 bytes are vacant, so it puts in none
/// let mut word = [0; 5];
/// assert!(fifo.get(&mut word));
/// assert_eq!(&word, b"hello");
/// assert!(fifo.put(b"world")); // continues at the start of the memory
/// assert_eq!(fifo.peek(), b", world");
/// assert_eq!(fifo.pop(2), 2);
/// assert_eq!(fifo.peek(), b"world");
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Fifo {
    /// The mirror's first byte.
    base: *mut u8,
    /// The mirror's length.
    seam: usize,
    capacity: usize,
    /// Start of the content, in either view. Adding moves it back into the first view. Taking out, which may happen in small
    /// pieces, therefore needs no check for the seam, and all of the content is still in the two views.
    head: usize,
    /// Bytes of content, 0 to the capacity.
    len: usize,
    /// Boxed: see docs/performance-notes.md.
    _mirror: Box<Mirror>,
}

// SAFETY: it owns its memory, which is not bound to a thread; only a `&mut` can write it.
unsafe impl Send for Fifo {}
// SAFETY: as above.
unsafe impl Sync for Fifo {}

impl Fifo {
    /// A queue of up to `capacity_bytes` bytes, exactly. The capacity is 1 or more.
    ///
    /// # Errors
    /// Capacity 0, or not enough memory or memory maps: see [`Mirror::new`].
    pub fn new(capacity_bytes: usize, config: &MapConfig) -> Result<Fifo> {
        let mirror = Box::new(Mirror::new(capacity_bytes, config)?);
        Ok(Fifo {
            base: mirror.base().as_ptr(),
            seam: mirror.len(),
            capacity: capacity_bytes,
            head: 0,
            len: 0,
            _mirror: mirror,
        })
    }

    /// Puts all of `bytes` in, or nothing if they do not fit; returns whether they did.
    #[inline(always)] // see docs/performance-notes.md
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.vacant();
        if fits {
            self.wrap();
            // SAFETY: at most as many vacant bytes as `vacant_mut` returns. `bytes` cannot overlap them: a slice of our bytes
            // would borrow the queue.
            unsafe { copy_in(bytes.as_ptr(), self.tail(), bytes.len()) };
            self.len += bytes.len();
        }
        fits
    }

    /// Fills `target` from the front of the content, or takes nothing if there is less; returns whether there was enough.
    #[inline(always)]
    pub fn get(&mut self, target: &mut [u8]) -> bool {
        let has_all = target.len() <= self.len;
        if has_all {
            // SAFETY: at most as many bytes of the content as `peek` returns. `target` is borrowed exclusively, and cannot
            // overlap them.
            unsafe { copy_out(self.first(), target.as_mut_ptr(), target.len()) };
            self.step(target.len());
        }
        has_all
    }

    /// The whole content as one slice, in place.
    #[inline]
    pub fn peek(&self) -> &[u8] {
        self.front(self.len)
    }

    /// The first `n` bytes of the content, in place, or all of it if there is less.
    ///
    /// ```
    /// use forebay::memory::{Fifo, MapConfig};
    /// let mut fifo = Fifo::new(8, &MapConfig::default())?;
    /// fifo.put(b"abcde");
    /// assert_eq!(fifo.front(3), b"abc");
    /// assert_eq!(fifo.pop(3), 3);
    /// assert_eq!(fifo.front(3), b"de");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn front(&self, n: usize) -> &[u8] {
        let n = self.up_to(n);
        // SAFETY: when bytes were last added, the content began in the first view and was at most one view long. Since then
        // only bytes at its front were removed, so it is in the two views, and `n` is at most its length. Its bytes were written,
        // or zeroed by the kernel. The shared borrow excludes writers.
        unsafe { slice::from_raw_parts(self.first(), n) }
    }

    /// Removes the first `n` bytes, or all if there are fewer; returns how many.
    #[inline]
    pub fn pop(&mut self, n: usize) -> usize {
        let n = self.up_to(n);
        self.step(n);
        n
    }

    /// All vacant bytes as one slice, to be written in place and then [committed](Fifo::commit). It contains earlier data, or
    /// zeros.
    ///
    /// ```
    /// use forebay::memory::{Fifo, MapConfig};
    /// let mut fifo = Fifo::new(8, &MapConfig::default())?;
    /// fifo.vacant_mut()[..3].copy_from_slice(b"abc");
    /// fifo.commit(3);
    /// assert_eq!((fifo.peek(), fifo.vacant()), (&b"abc"[..], 5));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn vacant_mut(&mut self) -> &mut [u8] {
        self.wrap();
        // SAFETY: the head is below the seam, and the vacant bytes end at most one capacity after it, so they are in the two
        // views, none of them twice. They were zeroed by the kernel. The borrow of the queue is exclusive.
        unsafe { slice::from_raw_parts_mut(self.tail(), self.vacant()) }
    }

    /// Appends the first `n` vacant bytes to the content.
    ///
    /// # Panics
    /// If fewer are vacant.
    #[inline]
    pub fn commit(&mut self, n: usize) {
        assert!(n <= self.vacant(), "committing {n} of {}", self.vacant());
        self.wrap();
        self.len += n;
    }

    /// Number of bytes of content.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no content.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes that still fit.
    #[inline]
    pub fn vacant(&self) -> usize {
        self.capacity - self.len
    }

    /// Maximum bytes of content: exactly the requested capacity.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Start of the content. Reads after this call see writes through either view.
    #[inline(always)]
    fn first(&self) -> *const u8 {
        view_barrier(self.base);
        self.base.wrapping_add(self.head)
    }

    /// End of the content, in either view.
    #[inline(always)]
    fn tail(&self) -> *mut u8 {
        view_barrier(self.base);
        self.base.wrapping_add(self.head + self.len)
    }

    /// `n`, or the length of the content if that is less.
    #[inline(always)]
    fn up_to(&self, n: usize) -> usize {
        if n > self.len {
            cold_path();
            return self.len;
        }
        n
    }

    /// Advances by `n`, which is at most the length of the content.
    #[inline(always)]
    fn step(&mut self, n: usize) {
        self.head += n;
        self.len -= n;
    }

    /// Moves the head back into the first view.
    #[inline(always)]
    fn wrap(&mut self) {
        if self.head >= self.seam {
            self.head -= self.seam;
        }
    }
}

debug!([] Fifo, |this| capacity: this.capacity, len: this.len);
