//! The reader's end: peeks at the whole content, and consumes the bytes that were processed.
//!
//! ```text
//!  peek() ─▶ │ a b c d e │ ─▶ consume(3) ─▶ │ d e │        the slice borrows the reader: it cannot consume while the slice is in use
//! ```

use super::state::{CLOSED, End, FAILED};
use crate::{
    Error,
    ring::spsc::{self, RingStats, WaitError},
    sync::{Park, Wait, planted},
};
use std::time::{Duration, Instant};

/// The end that takes bytes out. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// ```
/// let (mut writer, mut reader) = forebay::stream::stream(8)?;
/// writer.push_slice(b"abc");
/// assert_eq!(reader.peek(), b"abc");
/// assert_eq!(reader.consume(2), 2);
/// assert_eq!((reader.bytes_popped(), reader.bytes_buffered()), (2, 1));
/// writer.close();
/// assert!(!reader.is_finished()); // a byte is left
/// reader.consume(1);
/// assert!(reader.is_finished());
/// # Ok::<(), forebay::Error>(())
/// ```
///
/// A slice is valid until the reader consumes, which the compiler checks:
///
/// ```compile_fail,E0499
/// # let (mut writer, mut reader) = forebay::stream::stream(8).unwrap();
/// let content = reader.peek();
/// reader.consume(1);
/// println!("{content:?}");
/// ```
pub struct Reader<W: Wait = Park> {
    pub(super) consumer: spsc::Consumer<u8, W>,
}

impl<W: Wait> Reader<W> {
    pub(super) fn new(consumer: spsc::Consumer<u8, W>) -> Self {
        Reader { consumer }
    }

    /// The whole content as one slice, in place; empty if there is none. Never waits.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// for byte in 0..100 {
    ///     writer.push_slice(&[byte, byte]);
    ///     assert_eq!(reader.peek(), [byte, byte]); // at any position in the memory
    ///     reader.consume(2);
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn peek(&mut self) -> &[u8] {
        self.consumer.peek_all().into_slice()
    }

    /// Blocks the thread until there are `n` bytes (at most the capacity), or the stream has ended. Returns how many there are: fewer
    /// than `n` only if [`end`](Reader::end) is `Some`.
    ///
    /// ```
    /// use forebay::stream::WaitError;
    /// use std::time::Duration;
    /// let (mut writer, mut reader) = forebay::stream::stream(64)?;
    /// writer.push_slice(b"GET /");
    /// assert_eq!(reader.wait_filled(3), 5);
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(reader.wait_filled_timeout(6, timeout), Err(WaitError::TimedOut));
    /// writer.close();
    /// assert_eq!(reader.wait_filled_timeout(6, timeout), Err(WaitError::Closed));
    /// assert_eq!(reader.wait_filled(6), 5);
    /// assert_eq!(reader.peek(), b"GET /");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_filled(&mut self, n: usize) -> usize {
        self.consumer.wait_filled(n)
    }

    /// Like [`wait_filled`](Reader::wait_filled), for up to `timeout`. A timeout of zero never waits.
    ///
    /// # Errors
    /// There are fewer bytes, and the time has passed or the stream has ended. [`peek`](Reader::peek) returns those that are there.
    pub fn wait_filled_timeout(&mut self, n: usize, timeout: Duration) -> Result<usize, WaitError> {
        self.consumer.wait_filled_timeout(n, timeout)
    }

    /// Like [`wait_filled`](Reader::wait_filled), until `deadline`.
    ///
    /// # Errors
    /// Those of [`wait_filled_timeout`](Reader::wait_filled_timeout).
    pub fn wait_filled_deadline(
        &mut self,
        n: usize,
        deadline: Instant,
    ) -> Result<usize, WaitError> {
        self.consumer.wait_filled_deadline(n, deadline)
    }

    /// Removes the first `n` bytes, or all if there are fewer; returns how many. Never waits.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// writer.push_slice(b"abc");
    /// assert_eq!((reader.consume(1), reader.consume(9), reader.consume(1)), (1, 2, 0));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn consume(&mut self, n: usize) -> usize {
        self.consumer.skip(n)
    }

    /// Moves up to `target.len()` bytes from the front of the content to `target`; returns how many.
    /// Never waits.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// writer.push_slice(b"abc");
    /// let mut target = [0; 2];
    /// assert_eq!(reader.pop_slice(&mut target), 2);
    /// assert_eq!(&target, b"ab");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn pop_slice(&mut self, target: &mut [u8]) -> usize {
        self.consumer.pop_slice(target)
    }

    /// Whether the stream has ended, for any reason, and all of its content is consumed.
    ///
    /// It is also true after an error or after the writer was dropped, so a loop on it always ends. Check [`end`](Reader::end)
    /// afterwards: only [`End::Closed`] means that all bytes arrived. (For an error set by this end, see
    /// [`set_error`](Reader::set_error).)
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.has_ended_short_of(1)
    }

    /// Why no more bytes will follow the content; `None` while more may follow.
    ///
    /// ```
    /// use forebay::stream::{stream, End};
    /// let (mut writer, mut reader) = stream(4)?;
    /// writer.push_slice(b"abc");
    /// assert_eq!(reader.end(), None);
    /// drop(writer); // without close
    /// assert_eq!(reader.end(), Some(End::WriterGone));
    /// assert_eq!(reader.peek(), b"abc"); // the content is still there
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn end(&self) -> Option<End> {
        End::of(self.consumer.state())
    }

    /// Ends the stream with an error, after which the writer accepts no more bytes. A push in progress, or a commit of bytes that
    /// were already reserved, may still add bytes, even after [`is_finished`](Reader::is_finished) was true here.
    pub fn set_error(&mut self) {
        self.consumer.state().set(FAILED);
        if !planted("end-without-wake") {
            self.consumer.wake_producer();
        }
    }

    /// Ends the stream as [`set_error`](Reader::set_error) does, and gives the writer the reason. The first reason stays.
    pub fn fail(&mut self, reason: impl Into<Error>) {
        self.consumer.state().set_reason(reason.into());
        self.set_error();
    }

    /// The reason for which either end [failed](super::Writer::fail) the stream. Content may be left.
    pub fn error(&self) -> Option<&Error> {
        self.consumer.state().reason()
    }

    /// Whether either end has set an error. Content may be left.
    pub fn has_error(&self) -> bool {
        self.consumer.state().has(FAILED)
    }

    /// Whether the writer has closed the stream. Content may be left.
    pub fn is_closed(&self) -> bool {
        self.consumer.state().has(CLOSED)
    }

    /// Number of bytes in the stream now, 0 to the capacity. It can only grow until this end consumes some.
    #[inline]
    pub fn bytes_buffered(&self) -> usize {
        self.consumer.len()
    }

    /// Number of bytes removed since the stream was made.
    #[inline]
    pub fn bytes_popped(&self) -> u64 {
        self.consumer.popped()
    }

    /// Counts of the whole stream so far, in bytes: see [`RingStats`].
    pub fn stats(&self) -> RingStats {
        self.consumer.stats()
    }

    /// Maximum bytes in the stream at once: exactly the requested capacity.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.consumer.capacity()
    }

    /// Whether no more bytes can arrive.
    #[inline]
    fn is_over(&self) -> bool {
        self.consumer.state().bits() != 0
    }

    /// Whether no more bytes can arrive, and there are fewer than `n`.
    #[inline]
    fn has_ended_short_of(&self, n: usize) -> bool {
        if planted("end-after-look") {
            return self.consumer.len() < n && self.is_over();
        }
        // END first, so that the length includes the last bytes.
        self.is_over() && self.consumer.len() < n
    }
}

debug!([W: Wait] Reader<W>, |this| capacity: this.capacity(), bytes_buffered: this.bytes_buffered(), bytes_popped: this.bytes_popped(), end: this.end());

#[cfg(not(any(loom, miri, forebay_one_view)))]
impl spsc::CatchUp for Reader<crate::sync::Eventfd> {
    fn raw(&mut self) -> spsc::RawEnd {
        self.consumer.raw()
    }

    #[inline]
    fn catch_up(&mut self) {
        self.consumer.catch_up();
    }
}
