//! Bytes in one thread, first in, first out, on a mirror.
//!
//! Two numbers and a mirror: nothing here is shared, so nothing is ordered, and a put or a get is a copy and an addition.
//! It imports nothing but this room. Between two threads, and where content ends, read `stream` next.
//!
//! ```text
//!                head        head + len
//!   │ . . . . . . a b c d e f g │ a b c …           peek(): all of it, one slice, also across the end
//!   │ e f g . . . a b c d │ e f g . . . a b c d │
//! ```
#![allow(unsafe_code)]

use super::{MapConfig, Mirror, copy_in, copy_out, seldom, settle_views};
use crate::Result;
use std::{fmt, slice};

/// A bounded queue of bytes that belongs to one thread at a time, whose content is always one slice.
///
/// Messages go in and come out whole or not at all; what is in it can be read where it lies, and written where it will lie.
///
/// ```
/// use forebay::memory::{Fifo, MapConfig};
/// let mut fifo = Fifo::new(11, &MapConfig::default())?;
/// assert!(fifo.put(b"hello, "));
/// assert!(!fifo.put(b"world")); // 4 bytes are vacant, so none goes in
/// let mut word = [0; 5];
/// assert!(fifo.get(&mut word));
/// assert_eq!(&word, b"hello");
/// assert!(fifo.put(b"world")); // goes on at the front of the memory
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
    /// Where the content begins, in either view: whoever adds to it brings it back into the first. So whoever takes out, which
    /// may be a little at a time, need not ask for the seam, and all of it lies in the two views still.
    head: usize,
    /// Bytes of content, 0 to the capacity.
    len: usize,
    /// Boxed, so that whoever keeps a queue in a local variable has the numbers above in registers: dropping a box takes its
    /// value, not its address.
    _mirror: Box<Mirror>,
}

// SAFETY: it owns its memory, which belongs to no thread; without a `&mut` nobody writes it.
unsafe impl Send for Fifo {}
// SAFETY: as above.
unsafe impl Sync for Fifo {}

impl Fifo {
    /// A queue of up to `capacity_bytes` bytes, exactly: 1 or more.
    ///
    /// # Errors
    /// Capacity 0, or no memory or maps for it: see [`Mirror::new`].
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

    /// Puts all of `bytes` in, or nothing where they do not fit; says whether they did.
    #[inline(always)] // or its numbers go through memory
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.vacant();
        if fits {
            self.wrap();
            // SAFETY: as many vacant bytes as `vacant_mut` shows, or fewer; `bytes` is none of them, since who lends ours has
            // them borrowed.
            unsafe { copy_in(bytes.as_ptr(), self.tail(), bytes.len()) };
            self.len += bytes.len();
        }
        fits
    }

    /// Fills `target` from the front of the content, or takes nothing where there is less; says whether there was enough.
    #[inline(always)] // as above
    pub fn get(&mut self, target: &mut [u8]) -> bool {
        let has_all = target.len() <= self.len;
        if has_all {
            // SAFETY: as many bytes of the content as `peek` shows, or fewer; `target` is borrowed exclusively, and none of
            // them.
            unsafe { copy_out(self.first(), target.as_mut_ptr(), target.len()) };
            self.step(target.len());
        }
        has_all
    }

    /// The whole content as one slice, where it lies.
    #[inline]
    pub fn peek(&self) -> &[u8] {
        self.front(self.len)
    }

    /// The first `n` bytes of the content, where they lie, or all of it where that is less.
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
        // SAFETY: when bytes were last added, the content began in the first view and was no longer than a view; since then
        // only its front went away: so it lies in the two, and `n` is no more than it. Its bytes were
        // written, or zeroed by the kernel; who borrows them keeps whoever would write out.
        unsafe { slice::from_raw_parts(self.first(), n) }
    }

    /// Takes the first `n` bytes out, or all there are if they are fewer; returns how many.
    #[inline]
    pub fn pop(&mut self, n: usize) -> usize {
        let n = self.up_to(n);
        self.step(n);
        n
    }

    /// All that is vacant as one slice, to be written in place and then [committed](Fifo::commit). It holds what was there
    /// before, or zeros.
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
        // SAFETY: the head is below the seam and what is vacant ends at most the capacity behind it, so it lies in the two
        // views, none of it twice; its bytes were zeroed by the kernel; the borrow of the queue is exclusive.
        unsafe { slice::from_raw_parts_mut(self.tail(), self.vacant()) }
    }

    /// Makes the first `n` vacant bytes content.
    ///
    /// # Panics
    /// If fewer are vacant.
    #[inline]
    pub fn commit(&mut self, n: usize) {
        assert!(n <= self.vacant(), "committing {n} of {}", self.vacant());
        self.wrap();
        self.len += n;
    }

    /// Bytes of content.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no content.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that would still fit.
    #[inline]
    pub fn vacant(&self) -> usize {
        self.capacity - self.len
    }

    /// Most bytes of content: exactly what was asked for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where the content begins. What was written through either view is read from here on.
    #[inline(always)]
    fn first(&self) -> *const u8 {
        settle_views(self.base);
        self.base.wrapping_add(self.head)
    }

    /// Where the content ends, in either view.
    #[inline(always)]
    fn tail(&self) -> *mut u8 {
        settle_views(self.base);
        self.base.wrapping_add(self.head + self.len)
    }

    /// `n`, or all that is content where that is less.
    #[inline(always)]
    fn up_to(&self, n: usize) -> usize {
        if n > self.len {
            seldom();
            return self.len;
        }
        n
    }

    /// Goes on by `n`, which is at most the content.
    #[inline(always)]
    fn step(&mut self, n: usize) {
        self.head += n;
        self.len -= n;
    }

    /// Brings the head back into the first view.
    #[inline(always)]
    fn wrap(&mut self) {
        if self.head >= self.seam {
            self.head -= self.seam;
        }
    }
}

impl fmt::Debug for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fifo")
            .field("capacity", &self.capacity)
            .field("len", &self.len)
            .finish()
    }
}
