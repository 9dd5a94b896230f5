//! The writer's end: pushes bytes, or reserves room, writes it in place and commits.
//!
//! ```text
//!  reserve(5) ─▶ │ _ _ _ _ _ │ ─▶ write three ─▶ commit(3) ─▶ │ a b c │ visible at once; the rest stays vacant
//! ```
use super::state::{CLOSED, FAILED};
use crate::{
    Error, Result,
    memory::HugePages,
    ring::{
        spsc::{self, RingStats, WaitError},
        state::CONSUMER_GONE,
    },
    sync::{Deadline, Park, Wait, limited, planted},
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

/// The end that puts bytes in. Belongs to one thread at a time: `Send`, not `Sync`.
///
/// It accepts no more bytes after it was closed, after either end has set an error, or after the reader was dropped. If it is
/// dropped without [`close`](Writer::close) and without an error, the reader sees [`End::WriterGone`](super::End::WriterGone):
/// data may be missing.
///
/// ```
/// let (mut writer, mut reader) = forebay::stream::stream(8)?;
/// assert_eq!(writer.push_slice(b"abc"), 3);
/// assert_eq!((writer.bytes_pushed(), writer.available_capacity()), (3, 5));
/// reader.consume(1);
/// assert_eq!(writer.available_capacity(), 6);
/// writer.close();
/// assert_eq!(writer.push_slice(b"d"), 0);
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct Writer<W: Wait = Park> {
    pub(super) producer: spsc::Producer<u8, W>,
}

impl<W: Wait> Writer<W> {
    pub(super) fn new(producer: spsc::Producer<u8, W>) -> Self {
        Writer { producer }
    }

    /// Puts in as much of the start of `bytes` as fits, visible to the reader at once; returns how many bytes.
    /// Never waits.
    ///
    /// ```
    /// let (mut writer, _reader) = forebay::stream::stream(4)?;
    /// assert_eq!(writer.push_slice(b"abc"), 3);
    /// assert_eq!(writer.push_slice(b"def"), 1);
    /// assert_eq!(writer.push_slice(b"ef"), 0);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn push_slice(&mut self, bytes: &[u8]) -> usize {
        self.producer.push_slice(bytes)
    }

    limited! {
        /// Puts all of `bytes` in, blocking the thread while there is no room; returns how many bytes it put in. That is fewer if the
        /// stream [accepts no more bytes](Writer::is_over).
        ///
        /// It fills the stream whenever there is room for a byte, so it returns as soon as the last byte fits.
        ///
        /// ```
        /// use std::time::Duration;
        /// let (mut writer, reader) = forebay::stream::stream(4)?;
        /// assert_eq!(writer.push_all_timeout(b"abcdef", Duration::from_millis(1)), 4);
        /// drop(reader);
        /// assert_eq!(writer.push_all(b"ef"), 0);
        /// # Ok::<(), forebay::Error>(())
        /// ```
        fn push_all(&mut self, bytes: &[u8]) -> usize,
        |deadline| self.push_all_until(bytes, &deadline),
        for: push_all_timeout " That is the limit of the whole call.",
        until: push_all_deadline
    }

    fn push_all_until(&mut self, bytes: &[u8], deadline: &Deadline) -> usize {
        let mut pushed = self.push_slice(bytes);
        while pushed < bytes.len() && self.producer.wait_vacant_until(1, deadline) > 0 {
            pushed += self.push_slice(&bytes[pushed..]);
        }
        pushed
    }

    /// Blocks the thread until `n` bytes (at most the capacity) are vacant, or the stream accepts no more bytes. Returns how many
    /// bytes a push would accept at least: 0 if the stream accepts no more.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(4)?;
    /// writer.push_slice(b"abcd");
    /// let thread = std::thread::spawn(move || {
    ///     reader.consume(3);
    ///     reader // not dropped yet: that would end the stream
    /// });
    /// assert_eq!(writer.wait_vacant(2), 3);
    /// # thread.join().unwrap();
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn wait_vacant(&mut self, n: usize) -> usize {
        self.producer.wait_vacant(n)
    }

    /// Like [`wait_vacant`](Writer::wait_vacant), for up to `timeout`. A timeout of zero never waits.
    ///
    /// # Errors
    /// Fewer bytes are vacant and the time has passed, or the stream accepts no more bytes.
    pub fn wait_vacant_timeout(
        &mut self,
        n: usize,
        timeout: Duration,
    ) -> std::result::Result<usize, WaitError> {
        self.producer.wait_vacant_timeout(n, timeout)
    }

    /// Like [`wait_vacant`](Writer::wait_vacant), until `deadline`.
    ///
    /// # Errors
    /// Those of [`wait_vacant_timeout`](Writer::wait_vacant_timeout).
    pub fn wait_vacant_deadline(
        &mut self,
        n: usize,
        deadline: Instant,
    ) -> std::result::Result<usize, WaitError> {
        self.producer.wait_vacant_deadline(n, deadline)
    }

    /// Reserves up to `n` contiguous vacant bytes, to be written in place and then [committed](ReservedBytes::commit): as many as
    /// are vacant, possibly none. Never waits.
    ///
    /// They contain earlier data, or zeros. Dropping the reservation without a commit changes nothing.
    ///
    /// ```
    /// let (mut writer, mut reader) = forebay::stream::stream(8)?;
    /// let mut room = writer.reserve(100);
    /// assert_eq!(room.len(), 8);
    /// room[..5].copy_from_slice(b"hello");
    /// room.commit(5);
    /// assert_eq!(reader.peek(), b"hello");
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn reserve(&mut self, n: usize) -> ReservedBytes<'_, W> {
        ReservedBytes(self.producer.reserve(n))
    }

    /// Ends the stream: its content is complete. This cannot be undone; closing it again has no effect.
    pub fn close(&mut self) {
        self.end(CLOSED);
    }

    /// Ends the stream with an error, which the reader gets after the content. [`fail`](Writer::fail) also gives it the reason.
    pub fn set_error(&mut self) {
        self.end(FAILED);
    }

    /// Ends the stream with an error and its reason, which the reader gets after the content. The first reason stays.
    ///
    /// ```
    /// use forebay::{Error, error::Code, stream::stream};
    /// use std::io::{self, Read};
    /// let (mut writer, mut reader) = stream(64)?;
    /// writer.fail(io::Error::from(io::ErrorKind::ConnectionReset)); // or any `Error` or `Code`
    /// assert_eq!(reader.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    /// assert_eq!(reader.error().map(Error::code), Some(Code::Closed));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn fail(&mut self, reason: impl Into<Error>) {
        self.producer.state().set_reason(reason.into());
        self.set_error();
    }

    /// The reason for which either end [failed](Writer::fail) the stream.
    pub fn error(&self) -> Option<&Error> {
        self.producer.state().reason()
    }

    /// Whether [`close`](Writer::close) was called.
    pub fn is_closed(&self) -> bool {
        self.producer.state().has(CLOSED)
    }

    /// Whether either end has set an error.
    pub fn has_error(&self) -> bool {
        self.producer.state().has(FAILED)
    }

    /// Whether the reader was dropped: nothing will read the bytes in the stream.
    pub fn reader_is_gone(&self) -> bool {
        self.producer.state().has(CONSUMER_GONE)
    }

    /// Whether the stream accepts no more bytes: it is closed, has an error, or lost its reader.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.producer.is_over()
    }

    /// Number of bytes vacant now, 0 to the capacity, even if the stream accepts no more bytes. It can only grow until this end
    /// puts bytes in.
    #[inline]
    pub fn available_capacity(&self) -> usize {
        self.producer.vacant()
    }

    /// Number of bytes put in since the stream was made.
    #[inline]
    pub fn bytes_pushed(&self) -> u64 {
        self.producer.pushed()
    }

    /// Counts of the whole stream so far, in bytes: see [`RingStats`].
    pub fn stats(&self) -> RingStats {
        self.producer.stats()
    }

    /// Maximum bytes in the stream at once: exactly the requested capacity.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.producer.capacity()
    }

    /// Faults in the pages of these bytes of the memory, `0..capacity` in total, if [`populate`](super::StreamConfig::populate) was
    /// false: for programs that start at once and have idle time soon after. Pages that are present stay as they are.
    ///
    /// ```
    /// use forebay::{stream::{StreamConfig, stream_with}, sync::Park};
    /// let config = StreamConfig { capacity_bytes: 1 << 20, populate: false, ..StreamConfig::default() };
    /// let (mut writer, _reader) = stream_with::<Park>(&config)?;
    /// writer.push_slice(b"in a hurry");
    /// writer.populate(0..1 << 20)?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// Not enough memory, or the range is not within the capacity.
    pub fn populate(&self, bytes: Range<usize>) -> Result<()> {
        if bytes.start > bytes.end || bytes.end > self.capacity() {
            let what = format!("populating {bytes:?} of {}", self.capacity());
            return Err(Error::invalid("stream", what));
        }
        self.producer.populate(bytes)
    }

    /// Which huge pages the stream has. Reads `/proc/self/smaps`, so it is not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        self.producer.huge_pages()
    }

    fn end(&mut self, bit: u32) {
        self.producer.state().set(bit);
        if !planted("end-without-wake") {
            self.producer.wake_consumer();
        }
    }
}

debug!([W: Wait] Writer<W>, |this| capacity: this.capacity(), available_capacity: this.available_capacity(), bytes_pushed: this.bytes_pushed(), is_over: this.is_over());

/// Contiguous vacant bytes, as a slice to write to. [`commit`](ReservedBytes::commit) publishes a written prefix.
#[derive(Debug)]
#[must_use = "bytes are only published when they are committed"]
pub struct ReservedBytes<'a, W: Wait = Park>(spsc::Reserved<'a, u8, W>);

impl<W: Wait> ReservedBytes<'_, W> {
    /// Publishes the first `k` bytes, or all that were reserved if there are fewer; returns how many.
    #[inline]
    pub fn commit(self, k: usize) -> usize {
        self.0.commit(k)
    }
}

derefs!([W: Wait] ReservedBytes<'_, W>, mut [u8], |this| this.0);

#[cfg(not(any(loom, miri, forebay_one_view)))]
impl spsc::CatchUp for Writer<crate::sync::Eventfd> {
    fn raw(&mut self) -> spsc::RawEnd {
        self.producer.raw()
    }

    #[inline]
    fn catch_up(&mut self) {
        self.producer.catch_up();
    }
}
