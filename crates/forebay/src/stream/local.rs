//! The stream of bytes for one thread: [`LocalStream`].
//!
//! ```text
//!                head        head + content
//!   │ . . . . . . a b c d e f g │ a b c …           peek(): the content, one slice, even across the end
//!   │ e f g . . . a b c d │ e f g . . . a b c d │
//! ```
#![allow(unsafe_code)]

use super::{End, StreamConfig};
use crate::{
    Error, Result,
    memory::{HugePages, MapConfig, Mirror, cold_path, copy_in, copy_out, view_barrier},
};
use std::slice;

/// A bounded stream of bytes whose two ends are in one thread, and whose content is always one slice.
///
/// It does what a [`Writer`](super::Writer) and a [`Reader`](super::Reader) do, without waiting and without a second thread.
/// Choose it for bytes that stay in one thread: it is about three times as fast, because nothing has to be ordered.
///
/// - Never more than the capacity is in it, and the capacity is exact to the byte.
/// - [`close`](LocalStream::close) or [`set_error`](LocalStream::set_error) ends it: nothing more goes in. The content can still be
///   read; [`is_finished`](LocalStream::is_finished) is true once it is consumed.
///
/// ```
/// use forebay::stream::{End, LocalStream};
/// let mut stream = LocalStream::new(11)?;
/// assert_eq!(stream.push_slice(b"hello, world"), 11); // as much as fits
/// assert_eq!(stream.peek(), b"hello, worl");
/// assert_eq!(stream.consume(7), 7);
/// assert_eq!(stream.push_slice(b"d!"), 2); // continues at the start of the memory
/// stream.close();
/// assert_eq!(stream.push_slice(b"more"), 0);
/// assert_eq!(stream.peek(), b"world!"); // still one slice
/// assert_eq!(stream.consume(usize::MAX), 6);
/// assert!(stream.is_finished() && stream.end() == Some(End::Closed));
/// assert_eq!((stream.bytes_pushed(), stream.bytes_popped()), (13, 13));
/// # Ok::<(), forebay::Error>(())
/// ```
pub struct LocalStream {
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
    /// Bytes ever put in.
    pushed: u64,
    end: Option<End>,
    /// Of [`End::Failed`].
    reason: Option<Box<Error>>,
    /// Boxed: see docs/performance-notes.md.
    mirror: Box<Mirror>,
}

// SAFETY: it owns its memory, which is not bound to a thread; only a `&mut` can write it.
unsafe impl Send for LocalStream {}
// SAFETY: as above.
unsafe impl Sync for LocalStream {}

impl LocalStream {
    /// A stream of up to `capacity_bytes` bytes, exactly. The capacity is 1 or more.
    ///
    /// # Errors
    /// Capacity 0, or not enough memory or memory maps: see [`Mirror::new`].
    pub fn new(capacity_bytes: usize) -> Result<LocalStream> {
        LocalStream::with_config(&StreamConfig {
            capacity_bytes,
            ..StreamConfig::default()
        })
    }

    /// A stream with these settings.
    ///
    /// # Errors
    /// Those of [`new`](LocalStream::new).
    pub fn with_config(config: &StreamConfig) -> Result<LocalStream> {
        config.validate()?;
        let memory = MapConfig {
            populate: config.populate,
            huge_pages: config.huge_pages,
        };
        let mirror = Box::new(Mirror::new(config.capacity_bytes, &memory)?);
        Ok(LocalStream {
            base: mirror.base().as_ptr(),
            seam: mirror.len(),
            capacity: config.capacity_bytes,
            head: 0,
            len: 0,
            pushed: 0,
            end: None,
            reason: None,
            mirror,
        })
    }

    /// Puts in as much of the start of `bytes` as fits; returns how many bytes: 0 after the end.
    #[inline(always)] // see docs/performance-notes.md
    pub fn push_slice(&mut self, bytes: &[u8]) -> usize {
        let n = bytes.len().min(self.accepts());
        self.put(&bytes[..n]);
        n
    }

    /// Puts all of `bytes` in, or nothing if they do not fit or the stream has ended; returns whether it did. No bytes always fit.
    #[inline(always)]
    pub fn push_exact(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.accepts();
        if fits {
            self.put(bytes);
        }
        fits
    }

    /// Puts bytes in that fit.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.wrap();
        // SAFETY: at most as many vacant bytes as `vacant_mut` returns: both callers have checked. `bytes` cannot overlap them: a
        // slice of our bytes would borrow the stream.
        unsafe { copy_in(bytes.as_ptr(), self.tail(), bytes.len()) };
        self.add(bytes.len());
    }

    /// Moves up to `target.len()` bytes from the front of the content to `target`; returns how many.
    #[inline(always)]
    pub fn pop_slice(&mut self, target: &mut [u8]) -> usize {
        let n = self.up_to(target.len());
        self.get(&mut target[..n]);
        n
    }

    /// Fills `target` from the front of the content, or takes nothing if there is less; returns whether there was enough.
    #[inline(always)]
    pub fn pop_exact(&mut self, target: &mut [u8]) -> bool {
        let has_all = target.len() <= self.len;
        if has_all {
            self.get(target);
        }
        has_all
    }

    /// Fills `target`; there is enough content.
    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) {
        // SAFETY: at most as many bytes of the content as `peek` returns: both callers have checked. `target` is borrowed
        // exclusively, and cannot overlap them.
        unsafe { copy_out(self.first(), target.as_mut_ptr(), target.len()) };
        self.step(target.len());
    }

    /// The whole content as one slice, in place.
    #[inline]
    pub fn peek(&self) -> &[u8] {
        self.front(self.len)
    }

    /// The first `n` bytes of the content, in place, or all of it if there is less.
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
    pub fn consume(&mut self, n: usize) -> usize {
        let n = self.up_to(n);
        self.step(n);
        n
    }

    /// All vacant bytes as one slice, to be written in place and then [committed](LocalStream::commit); none after the end. It
    /// contains earlier data, or zeros.
    ///
    /// ```
    /// let mut stream = forebay::stream::LocalStream::new(8)?;
    /// stream.vacant_mut()[..3].copy_from_slice(b"abc");
    /// stream.commit(3);
    /// assert_eq!((stream.peek(), stream.available_capacity()), (&b"abc"[..], 5));
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[inline]
    pub fn vacant_mut(&mut self) -> &mut [u8] {
        self.wrap();
        // SAFETY: the head is below the seam, and the vacant bytes end at most one capacity after it, so they are in the two
        // views, none of them twice. They were zeroed by the kernel. The borrow of the stream is exclusive.
        unsafe { slice::from_raw_parts_mut(self.tail(), self.accepts()) }
    }

    /// Appends the first `n` vacant bytes to the content, or all if there are fewer; returns how many: 0 after the end.
    #[inline]
    pub fn commit(&mut self, n: usize) -> usize {
        let n = n.min(self.accepts());
        self.wrap();
        self.add(n);
        n
    }

    /// Ends the stream: its content is complete. No effect after an earlier end.
    pub fn close(&mut self) {
        self.end.get_or_insert(End::Closed);
    }

    /// Ends the stream with an error, also if it is closed: data may be missing.
    pub fn set_error(&mut self) {
        self.end = Some(End::Failed);
    }

    /// Ends the stream as [`set_error`](LocalStream::set_error) does, with the reason. The first reason stays.
    pub fn fail(&mut self, reason: impl Into<Error>) {
        self.set_error();
        self.reason.get_or_insert_with(|| Box::new(reason.into()));
    }

    /// The reason for which the stream [failed](LocalStream::fail).
    pub fn error(&self) -> Option<&Error> {
        self.reason.as_deref()
    }

    /// Why nothing more will follow the content; `None` while more may follow. Never [`End::WriterGone`].
    #[inline]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the stream has ended, for any reason, and all of its content is consumed.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.end.is_some() && self.len == 0
    }

    /// Number of bytes of content, 0 to the capacity.
    #[inline]
    pub fn bytes_buffered(&self) -> usize {
        self.len
    }

    /// Number of vacant bytes, also after the end.
    #[inline]
    pub fn available_capacity(&self) -> usize {
        self.capacity - self.len
    }

    /// Number of bytes put in since the stream was made.
    #[inline]
    pub fn bytes_pushed(&self) -> u64 {
        self.pushed
    }

    /// Number of bytes removed since the stream was made.
    #[inline]
    pub fn bytes_popped(&self) -> u64 {
        self.pushed - self.len as u64
    }

    /// Maximum bytes of content: exactly the requested capacity.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Which huge pages the stream has. Reads `/proc/self/smaps`, so it is not for a hot path.
    pub fn huge_pages(&self) -> HugePages {
        self.mirror.huge_pages()
    }

    /// Number of bytes that a push would take.
    #[inline(always)]
    fn accepts(&self) -> usize {
        if self.end.is_some() {
            cold_path();
            return 0;
        }
        self.available_capacity()
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

    /// Adds `n` bytes after the content.
    #[inline(always)]
    fn add(&mut self, n: usize) {
        self.len += n;
        self.pushed += n as u64;
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

debug!([] LocalStream, |this| capacity: this.capacity, bytes_buffered: this.len, bytes_pushed: this.pushed, end: this.end);

#[cfg(all(test, not(any(loom, miri))))] // Miri has no mirrors
mod tests {
    use super::*;
    use forebay_testing::dice::{Dice, rounds, times};
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// What a stream of bytes is, in the simplest words.
    struct Model {
        content: VecDeque<u8>,
        capacity: usize,
        pushed: u64,
        popped: u64,
        end: Option<End>,
    }

    impl Model {
        fn accepts(&self) -> usize {
            let vacant = self.capacity - self.content.len();
            if self.end.is_some() { 0 } else { vacant }
        }

        fn push(&mut self, bytes: &[u8]) {
            self.content.extend(bytes);
            self.pushed += bytes.len() as u64;
        }

        fn pop(&mut self, n: usize) -> Vec<u8> {
            self.popped += n as u64;
            self.content.drain(..n).collect()
        }

        fn agrees(&self, stream: &LocalStream) {
            assert!(self.content.iter().eq(stream.peek()));
            let (len, ended) = (self.content.len(), self.end.is_some());
            assert_eq!(
                (stream.bytes_buffered(), stream.capacity()),
                (len, self.capacity)
            );
            assert_eq!(stream.available_capacity(), self.capacity - len);
            assert_eq!(
                (stream.bytes_pushed(), stream.bytes_popped()),
                (self.pushed, self.popped)
            );
            assert_eq!(
                (stream.end(), stream.is_finished()),
                (self.end, ended && len == 0)
            );
        }
    }

    /// Does something random with the stream and the model.
    fn step(dice: &mut Dice, stream: &mut LocalStream, model: &mut Model) {
        let n = dice.below(model.capacity + 2);
        let first = dice.below(256);
        let bytes: Vec<u8> = (0..n).map(|i| (first + i) as u8).collect();
        let (room, len) = (model.accepts(), model.content.len());
        match dice.below(9) {
            0 => {
                assert_eq!(stream.push_slice(&bytes), n.min(room));
                model.push(&bytes[..n.min(room)]);
            }
            1 | 2 => {
                assert_eq!(stream.push_exact(&bytes), n <= room);
                model.push(if n <= room { &bytes } else { &[] });
            }
            3 => {
                let vacant = stream.vacant_mut();
                assert_eq!(vacant.len(), room);
                let n = n.min(room);
                vacant[..n].copy_from_slice(&bytes[..n]);
                stream.commit(n);
                model.push(&bytes[..n]);
            }
            4 | 5 => {
                let (mut got, mut target) = (0, vec![0; n]);
                if dice.below(2) == 0 {
                    got = stream.pop_slice(&mut target);
                    assert_eq!(got, n.min(len));
                } else if stream.pop_exact(&mut target) {
                    got = n;
                }
                assert_eq!(n <= len, got == n);
                assert_eq!(model.pop(got), target[..got]);
            }
            6 | 7 => {
                assert!(model.content.iter().take(n).eq(stream.front(n)));
                assert_eq!(stream.consume(n), n.min(len));
                model.pop(n.min(len));
            }
            _ => match dice.below(200) {
                0 => {
                    stream.close();
                    model.end = model.end.or(Some(End::Closed));
                }
                1 => {
                    stream.set_error();
                    model.end = Some(End::Failed);
                }
                _ => {}
            },
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(rounds(times(64, 1))))]

        #[test]
        fn a_stream_agrees_with_its_model_whatever_is_done(
            capacity in prop_oneof![1_usize..10, 4000_usize..5000],
            seed in 1_u64..1 << 40,
        ) {
            let (mut stream, mut dice) = (LocalStream::new(capacity).unwrap(), Dice(seed));
            let content = VecDeque::new();
            let mut model = Model { content, capacity, pushed: 0, popped: 0, end: None };
            for _ in 0..500 {
                step(&mut dice, &mut stream, &mut model);
                model.agrees(&stream);
            }
        }
    }

    #[test]
    fn bytes_that_are_committed_unwritten_are_the_earlier_ones() {
        let mut stream = LocalStream::new(4096).unwrap();
        let all: Vec<u8> = (0..4096).map(|i| i as u8).collect();
        assert!(stream.push_exact(&all));
        assert_eq!(stream.consume(usize::MAX), all.len());
        stream.commit(all.len());
        assert_eq!(stream.peek(), all);
    }

    #[test]
    fn more_than_is_vacant_is_not_committed() {
        let mut stream = LocalStream::new(4).unwrap();
        assert_eq!((stream.commit(5), stream.peek().len()), (4, 4));
        stream.consume(1);
        stream.close();
        assert_eq!((stream.commit(1), stream.peek().len()), (0, 3));
    }

    #[test]
    fn a_stream_of_no_bytes_is_an_error_that_says_what_to_do() {
        let error = LocalStream::new(0).unwrap_err().to_string();
        assert!(error.contains("at least 1"), "{error}");
    }
}
