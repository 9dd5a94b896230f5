//! The reader's end: peek at all there is, pop what is done with.
//!
//! It imports `ring` and `sync`. Read `io` next, for `std::io`.
//!
//! ```text
//!  peek() ─▶ │ a b c d e │ ─▶ pop(3) ─▶ │ d e │        the slice is tied to the borrow: no pop while it is looked at
//! ```

use super::state::{CLOSED, End, FAILED};
use crate::{
    ring::{ONE_VIEW, spsc},
    sync::{Park, Wait, planted},
};
use std::{fmt, time::Duration};

/// The end that takes bytes out. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// ```
/// let (mut writer, mut reader) = forebay::stream::stream(8)?;
/// writer.push(b"abc");
/// assert_eq!(reader.peek(), b"abc");
/// assert_eq!(reader.pop(2), 2);
/// assert_eq!((reader.bytes_popped(), reader.bytes_buffered()), (2, 1));
/// writer.close();
/// assert!(!reader.is_finished()); // a byte is left
/// reader.pop(1);
/// assert!(reader.is_finished());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// A slice dies with the next pop, and the compiler sees to it:
///
/// ```compile_fail,E0499
/// # let (mut writer, mut reader) = forebay::stream::stream(8).unwrap();
/// let content = reader.peek();
/// reader.pop(1);
/// println!("{content:?}");
/// ```
pub struct Reader<W: Wait = Park> {
    pub(super) consumer: spsc::Consumer<u8, W>,
}

impl<W: Wait> Reader<W> {
    pub(super) fn new(consumer: spsc::Consumer<u8, W>) -> Self {
        Reader { consumer }
    }

    /// The whole content as one slice, where it lies; empty if there is none. Never waits.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// for byte in 0..100 {
    ///     writer.push(&[byte, byte]);
    ///     assert_eq!(reader.peek(), [byte, byte]); // wherever it lies in the memory
    ///     reader.pop(2);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn peek(&mut self) -> &[u8] {
        self.consumer.peek_all().into_slice()
    }

    /// Waits until there are `n` bytes (at most the capacity), until no more will come, or for `limit` (`None`: for
    /// ever); then [peeks](Reader::peek).
    ///
    /// Fewer than `n` bytes: ask [`end`](Reader::end) whether it is over, else the time was up.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (mut writer, mut reader) = forebay::stream::stream(64)?;
    /// writer.push(b"GET /");
    /// assert_eq!(reader.peek_wait(3, None), b"GET /");
    /// assert_eq!(reader.peek_wait(6, Some(Duration::from_millis(1))), b"GET /");
    /// writer.close();
    /// assert_eq!(reader.peek_wait(6, None), b"GET /");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn peek_wait(&mut self, n: usize, limit: Option<Duration>) -> &[u8] {
        let n = n.min(self.capacity());
        self.consumer
            .waits_at()
            .wait(limit, &mut || self.has(n) || self.has_ended_short_of(n));
        self.peek()
    }

    /// Takes the first `n` bytes out, or all there are if they are fewer; returns how many.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// writer.push(b"abc");
    /// assert_eq!((reader.pop(1), reader.pop(9), reader.pop(1)), (1, 2, 0));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn pop(&mut self, n: usize) -> usize {
        self.consumer.skip(n)
    }

    /// Copies the first bytes into `target`, as many as there are and fit, and takes them out; returns how many.
    /// Never waits.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// writer.push(b"abc");
    /// let mut target = [0; 2];
    /// assert_eq!(reader.pop_slice(&mut target), 2);
    /// assert_eq!(&target, b"ab");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn pop_slice(&mut self, target: &mut [u8]) -> usize {
        let mut popped = 0;
        loop {
            popped += self
                .consumer
                .peek_now(target.len() - popped)
                .copy_to_slice(&mut target[popped..]);
            // With a mirror there is no more; with one view the rest may lie behind the seam.
            if !ONE_VIEW || popped == target.len() || self.consumer.is_empty() {
                return popped;
            }
        }
    }

    /// Whether the stream has ended, for whatever reason, and all of its content is popped.
    ///
    /// It is true also after an error or a vanished writer, so that a loop until then always ends. Ask [`end`](Reader::end)
    /// afterwards: only [`End::Closed`] means that all bytes arrived. (For an error set by this end, see
    /// [`set_error`](Reader::set_error).)
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.has_ended_short_of(1)
    }

    /// Why no byte will come behind those that are in the stream; `None` while some may.
    ///
    /// ```
    /// use forebay::stream::{stream, End};
    /// let (mut writer, mut reader) = stream(4)?;
    /// writer.push(b"abc");
    /// assert_eq!(reader.end(), None);
    /// drop(writer); // without close
    /// assert_eq!(reader.end(), Some(End::WriterGone));
    /// assert_eq!(reader.peek(), b"abc"); // what came is there
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn end(&self) -> Option<End> {
        End::of(self.consumer.state())
    }

    /// Tells the writer that something went wrong here: it takes nothing any more. What it is just putting in, by a push
    /// or by a commit of what it had reserved, may still come, also when this end was finished already.
    pub fn set_error(&mut self) {
        self.consumer.state().set(FAILED);
        if !planted("end-without-wake") {
            self.consumer.wake_producer();
        }
    }

    /// Whether either end has set an error. Content may be left.
    pub fn has_error(&self) -> bool {
        self.consumer.state().has(FAILED)
    }

    /// Whether the writer has closed the stream. Content may be left.
    pub fn is_closed(&self) -> bool {
        self.consumer.state().has(CLOSED)
    }

    /// Bytes in the stream now, 0 to the capacity. It can only grow until this end pops some.
    #[inline]
    pub fn bytes_buffered(&self) -> usize {
        self.consumer.len()
    }

    /// Bytes taken out since the stream was made.
    #[inline]
    pub fn bytes_popped(&self) -> u64 {
        self.consumer.position() as u64
    }

    /// Most bytes in the stream at once: exactly what was asked for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.consumer.capacity()
    }

    /// Whether no more will come.
    #[inline]
    fn is_over(&self) -> bool {
        self.consumer.state().bits() != 0
    }

    /// Whether there are `n` bytes.
    pub(super) fn has(&self, n: usize) -> bool {
        self.consumer.len() >= n
    }

    /// Whether no more will come, and fewer than `n` bytes have.
    #[inline]
    pub(super) fn has_ended_short_of(&self, n: usize) -> bool {
        if planted("end-after-look") {
            return self.consumer.len() < n && self.is_over();
        }
        // END first, so that the last bytes are seen behind it.
        self.is_over() && self.consumer.len() < n
    }
}

impl<W: Wait> fmt::Debug for Reader<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("capacity", &self.capacity())
            .field("bytes_buffered", &self.bytes_buffered())
            .field("bytes_popped", &self.bytes_popped())
            .field("end", &self.end())
            .finish()
    }
}
