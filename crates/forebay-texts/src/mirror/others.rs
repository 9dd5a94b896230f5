//! Rings of other crates, and ours, which also show messages in place.

use super::ring::{CAPACITY, Ring, Shows};
use anyhow::Result;
use forebay::{
    ring::spsc::{self, Consumer, Producer},
    stream::{LocalStream, Reader, Writer, stream},
};
use ringbuf::{
    HeapCons, HeapProd, HeapRb,
    traits::{Consumer as _, Observer, Producer as _, Split},
};
use std::{collections::VecDeque, hint::black_box};

/// The standard library's queue.
pub struct Deque(VecDeque<u8>);

impl Ring for Deque {
    fn new() -> Result<Self> {
        Ok(Deque(VecDeque::with_capacity(CAPACITY)))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let has_room = CAPACITY - self.0.len() >= message.len();
        if has_room {
            self.0.extend(message);
        }
        has_room
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        let len = target.len();
        if self.0.len() < len {
            return false;
        }
        let (front, behind) = self.0.as_slices();
        let first = len.min(front.len());
        target[..first].copy_from_slice(&front[..first]);
        target[first..].copy_from_slice(&behind[..len - first]);
        self.0.drain(..len);
        true
    }
}

/// ringbuf's ring of bytes.
pub struct Ringbuf(HeapProd<u8>, HeapCons<u8>);

impl Ring for Ringbuf {
    fn new() -> Result<Self> {
        let (producer, consumer) = HeapRb::new(CAPACITY).split();
        Ok(Ringbuf(producer, consumer))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let has_room = self.0.vacant_len() >= message.len();
        has_room && self.0.push_slice(message) == message.len()
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        let has_all = self.1.occupied_len() >= target.len();
        has_all && self.1.pop_slice(target) == target.len()
    }
}

/// rtrb's.
pub struct Rtrb(rtrb::Producer<u8>, rtrb::Consumer<u8>);

impl Ring for Rtrb {
    fn new() -> Result<Self> {
        let (producer, consumer) = rtrb::RingBuffer::new(CAPACITY);
        Ok(Rtrb(producer, consumer))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        self.0.push_entire_slice(message).is_ok()
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        self.1.pop_entire_slice(target).is_ok()
    }
}

/// The typed ring, of bytes, spinning.
pub struct OurRing(Producer<u8>, Consumer<u8>);

impl Ring for OurRing {
    #[inline(always)]
    fn new() -> Result<Self> {
        let (producer, consumer) = spsc::ring(CAPACITY)?;
        Ok(OurRing(producer, consumer))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let room = self.0.reserve(message.len());
        room.len() == message.len() && room.copy_from_slice(message) == message.len()
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        let message = self.1.peek(target.len());
        message.len() == target.len() && message.copy_to_slice(target) == target.len()
    }
}

impl Shows for OurRing {
    #[inline(always)]
    fn show(&mut self, len: usize) -> bool {
        let message = self.1.peek(len);
        let is_whole = message.len() == len;
        if is_whole {
            black_box(message.as_ptr());
            message.release(len);
        }
        is_whole
    }
}

/// The stream, whose ends would park.
pub struct OurStream(Writer, Reader);

impl Ring for OurStream {
    #[inline(always)]
    fn new() -> Result<Self> {
        let (writer, reader) = stream(CAPACITY)?;
        Ok(OurStream(writer, reader))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let fits = self.0.available_capacity() >= message.len();
        fits && self.0.push_slice(message) == message.len()
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        let is_whole = self.1.bytes_buffered() >= target.len();
        is_whole && self.1.pop_slice(target) == target.len()
    }
}

impl Shows for OurStream {
    #[inline(always)]
    fn show(&mut self, len: usize) -> bool {
        let is_whole = self.1.peek().len() >= len;
        if is_whole {
            black_box(self.1.peek().as_ptr());
            self.1.consume(len);
        }
        is_whole
    }
}

/// The stream for one thread.
pub struct OurLocal(LocalStream);

impl Ring for OurLocal {
    #[inline(always)]
    fn new() -> Result<Self> {
        Ok(OurLocal(LocalStream::new(CAPACITY)?))
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        self.0.push_exact(message)
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        self.0.pop_exact(target)
    }
}

impl Shows for OurLocal {
    #[inline(always)]
    fn show(&mut self, len: usize) -> bool {
        let is_whole = self.0.bytes_buffered() >= len;
        if is_whole {
            black_box(self.0.peek().as_ptr());
            self.0.consume(len);
        }
        is_whole
    }
}

/// Ours, copied in and read in place.
pub struct Viewed<R>(R);

impl<R: Shows> Ring for Viewed<R> {
    #[inline(always)]
    fn new() -> Result<Self> {
        R::new().map(Viewed)
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        self.0.put(message)
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        self.0.show(target.len())
    }
}

/// A stream whose messages are made where they will lie, not copied there: what making them costs is not counted.
pub struct InPlace(OurStream);

impl Ring for InPlace {
    #[inline(always)]
    fn new() -> Result<Self> {
        OurStream::new().map(InPlace)
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        let mut room = self.0.0.reserve(message.len());
        let fits = room.len() == message.len();
        if fits {
            black_box(room.as_mut_ptr());
            room.commit(message.len());
        }
        fits
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        self.0.show(target.len())
    }
}
