//! What else carries bytes within one thread, and ours.

use super::sides::{CAPACITY, READ, Stream};
use bytes::{Buf, BytesMut};
use forebay::{
    stream::{LocalStream, Reader, StreamConfig, Writer, stream_with},
    sync::Wait,
};
use ringbuf::{
    HeapCons, HeapProd, HeapRb,
    traits::{Consumer, Observer, Producer, Split},
};
use rustix::io::{read, write};
use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Waker},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, SimplexStream};

/// The standard library's queue, seen as its two slices.
#[derive(Default)]
pub struct Deque(VecDeque<u8>);

impl Stream for Deque {
    fn vacant(&self) -> usize {
        CAPACITY - self.0.len()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let (front, back) = self.0.as_slices();
        let n = in_two(front, back, n, show);
        self.0.drain(..n);
        n
    }
}

/// Shows `n` bytes of two slices, and says how many there were.
#[inline(always)]
fn in_two(front: &[u8], back: &[u8], n: usize, show: &mut impl FnMut(&[u8])) -> usize {
    let first = n.min(front.len());
    show(&front[..first]);
    let second = (n - first).min(back.len());
    if second > 0 {
        show(&back[..second]);
    }
    first + second
}

/// A buffer that gives its front away.
pub struct Mutable(BytesMut);

impl Default for Mutable {
    fn default() -> Self {
        Mutable(BytesMut::with_capacity(2 * CAPACITY))
    }
}

impl Stream for Mutable {
    fn vacant(&self) -> usize {
        CAPACITY - self.0.len()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let n = n.min(self.0.len());
        show(&self.0[..n]);
        self.0.advance(n);
        n
    }
}

/// ringbuf's ring of bytes.
pub struct Ringbuf(HeapProd<u8>, HeapCons<u8>);

impl Default for Ringbuf {
    fn default() -> Self {
        let (producer, consumer) = HeapRb::new(CAPACITY).split();
        Ringbuf(producer, consumer)
    }
}

impl Stream for Ringbuf {
    fn vacant(&self) -> usize {
        self.0.vacant_len()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.push_slice(bytes);
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let (front, back) = self.1.as_slices();
        let n = in_two(front, back, n, show);
        self.1.skip(n)
    }
}

/// rtrb: written by slices, read in chunks.
pub struct Rtrb(rtrb::Producer<u8>, rtrb::Consumer<u8>);

impl Default for Rtrb {
    fn default() -> Self {
        let (producer, consumer) = rtrb::RingBuffer::new(CAPACITY);
        Rtrb(producer, consumer)
    }
}

impl Stream for Rtrb {
    fn vacant(&self) -> usize {
        self.0.slots()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.push_entire_slice(bytes).expect("there is room");
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let n = n.min(self.1.slots());
        let chunk = self.1.read_chunk(n).expect("the bytes are there");
        let (front, back) = chunk.as_slices();
        in_two(front, back, n, show);
        chunk.commit_all();
        n
    }
}

/// tokio's in-memory stream, polled by hand. It does not show bytes: they are copied out first.
pub struct Simplex {
    stream: SimplexStream,
    len: usize,
}

impl Default for Simplex {
    fn default() -> Self {
        Simplex {
            stream: SimplexStream::new_unsplit(CAPACITY),
            len: 0,
        }
    }
}

impl Stream for Simplex {
    fn vacant(&self) -> usize {
        CAPACITY - self.len
    }
    fn push(&mut self, bytes: &[u8]) {
        let mut context = Context::from_waker(Waker::noop());
        let written = Pin::new(&mut self.stream).poll_write(&mut context, bytes);
        assert!(matches!(written, std::task::Poll::Ready(Ok(n)) if n == bytes.len()));
        self.len += bytes.len();
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut bytes = [0; READ];
        let mut target = ReadBuf::new(&mut bytes[..n.min(READ)]);
        if self.len == 0 {
            return 0;
        }
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut target);
        assert!(read.is_ready());
        let n = target.filled().len();
        show(target.filled());
        self.len -= n;
        n
    }
}

/// The kernel's pipe, of 64 KiB. It does not show bytes either.
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    len: usize,
}

impl Pipe {
    pub fn new() -> Pipe {
        let (reader, writer) = rustix::pipe::pipe().expect("two descriptors are there");
        Pipe {
            reader,
            writer,
            len: 0,
        }
    }
}

impl Stream for Pipe {
    fn vacant(&self) -> usize {
        CAPACITY - self.len
    }
    fn push(&mut self, bytes: &[u8]) {
        let written = write(&self.writer, bytes).expect("there is room");
        assert_eq!(written, bytes.len());
        self.len += written;
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let mut bytes = [0; READ];
        let room = &mut bytes[..n.min(READ)];
        if self.len == 0 {
            return 0;
        }
        let n = read(&self.reader, &mut *room).expect("there is something");
        show(&room[..n]);
        self.len -= n;
        n
    }
}

/// Ours for one thread.
#[inline(always)]
pub fn local() -> LocalStream {
    LocalStream::new(CAPACITY).expect("32 KiB are there")
}

impl Stream for LocalStream {
    #[inline(always)]
    fn vacant(&self) -> usize {
        self.available_capacity()
    }
    #[inline(always)]
    fn push(&mut self, bytes: &[u8]) {
        self.push_slice(bytes);
    }
    #[inline(always)]
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        show(self.front(n));
        self.consume(n)
    }
}

/// Ours, whose ends would wait by `W` if they waited.
pub struct Forebay<W: Wait> {
    pub(super) writer: Writer<W>,
    pub(super) reader: Reader<W>,
}

impl<W: Wait> Forebay<W> {
    #[inline(always)]
    pub fn new() -> Self {
        let config = StreamConfig {
            capacity_bytes: CAPACITY,
            ..StreamConfig::default()
        };
        let (writer, reader) = stream_with(&config).expect("32 KiB are there");
        Forebay { writer, reader }
    }
}

impl<W: Wait> Stream for Forebay<W> {
    #[inline(always)]
    fn vacant(&self) -> usize {
        self.writer.available_capacity()
    }
    #[inline(always)]
    fn push(&mut self, bytes: &[u8]) {
        self.writer.push_slice(bytes);
    }
    #[inline(always)]
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let peeked = self.reader.peek();
        let n = n.min(peeked.len());
        show(&peeked[..n]);
        self.reader.consume(n)
    }
}
