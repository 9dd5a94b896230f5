//! The queue of *Using black magic to make a fast circular buffer* as written: a mirror, indices that are reset when the reader
//! leaves the first view, one mutex, two condition variables, and a signal after every message, even without a waiter.
//!
//! It is a reimplementation from the text and its description of the full version: messages of any size after a header of
//! length and number; a reader whose buffer is too small waits until another takes the message. It uses the C library's
//! mutex and condition variables, as the text does.
//!
//! ```text
//!  put: lock ─▶ wait while full ──▶ copy header and message to the tail ─▶ signal readable ──▶ unlock
//!  get: lock ─▶ wait while empty ─▶ copy them from the head ─────────────▶ signal writeable ─▶ unlock
//! ```
#![allow(unsafe_code)]

use super::rivals::{Receives, Rival, Sends, Shape};
use anyhow::{Context, Result, ensure};
use std::{cell::UnsafeCell, io, ptr, slice};

/// Length and number of a message, in front of it.
const HEADER: usize = 16;

/// The queue.
#[derive(Debug)]
pub struct SourceText {
    buffer: *mut u8,
    size: usize,
    longest: usize,
    lock: UnsafeCell<libc::pthread_mutex_t>,
    readable: UnsafeCell<libc::pthread_cond_t>,
    writeable: UnsafeCell<libc::pthread_cond_t>,
    at: UnsafeCell<At>,
}

/// What the lock guards.
#[derive(Debug, Default)]
struct At {
    head: usize,
    tail: usize,
    head_number: u64,
    tail_number: u64,
}

// SAFETY: whatever changes does so under the lock; the lock itself and the conditions are made for several threads.
unsafe impl Sync for SourceText {}
// SAFETY: as above; nothing belongs to a thread while nobody holds the lock.
unsafe impl Send for SourceText {}

/// The lock, held.
struct Held<'a>(&'a SourceText);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

impl Held<'_> {
    /// What the lock guards.
    #[inline(always)]
    fn at(&mut self) -> &mut At {
        // SAFETY: the holder of the lock has exclusive access, and borrows itself for that.
        unsafe { &mut *self.0.at.get() }
    }

    #[inline(always)]
    fn wait(&mut self, condition: &UnsafeCell<libc::pthread_cond_t>) {
        // SAFETY: this thread holds the lock, and holds it again afterwards.
        unsafe { libc::pthread_cond_wait(condition.get(), self.0.lock.get()) };
    }

    #[inline(always)]
    fn signal(&mut self, condition: &UnsafeCell<libc::pthread_cond_t>) {
        // SAFETY: it is initialised, and stays where it is.
        unsafe { libc::pthread_cond_signal(condition.get()) };
    }

    /// `len` bytes from index `at` on, which lies in the first view or up to one message after it.
    #[inline(always)]
    fn bytes(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = self.0.buffer.wrapping_add(at);
        // SAFETY: head and tail never leave the two views: the head is below the size, and the tail at most the size
        // beyond it. The lock keeps everybody else out.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }
}

impl SourceText {
    fn hold(&self) -> Held<'_> {
        // SAFETY: it is initialised, and stays where it is.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        Held(self)
    }

    fn put(&self, message: &[u8]) {
        let mut held = self.hold();
        let needed = HEADER + message.len();
        while self.size - (held.at().tail - held.at().head) < needed {
            held.wait(&self.writeable);
        }
        let (tail, number) = (held.at().tail, held.at().tail_number);
        let header = held.bytes(tail, HEADER);
        header[..8].copy_from_slice(&message.len().to_ne_bytes());
        header[8..].copy_from_slice(&number.to_ne_bytes());
        held.bytes(tail + HEADER, message.len())
            .copy_from_slice(message);
        held.at().tail += needed;
        held.at().tail_number += 1;
        held.signal(&self.readable);
    }

    fn get(&self, buffer: &mut [u8]) -> usize {
        let mut held = self.hold();
        let len = loop {
            while held.at().tail == held.at().head {
                held.wait(&self.readable);
            }
            let head = held.at().head;
            let header = held.bytes(head, HEADER);
            let word = |at: usize| header[at..at + 8].try_into().unwrap_or_default();
            let (len, number) = (usize::from_ne_bytes(word(0)), u64::from_ne_bytes(word(8)));
            if len <= buffer.len() {
                break len;
            }
            while held.at().head_number == number {
                held.wait(&self.writeable);
            }
        };
        let from = held.at().head + HEADER;
        buffer[..len].copy_from_slice(held.bytes(from, len));
        let at = held.at();
        at.head += HEADER + len;
        at.head_number += 1;
        if at.head >= self.size {
            at.head -= self.size;
            at.tail -= self.size;
        }
        held.signal(&self.writeable);
        len
    }
}

impl Rival for SourceText {
    type Sender<'a> = &'a SourceText;
    type Receiver<'a> = Reader<'a>;

    fn new(shape: &Shape) -> Result<SourceText> {
        let failed = || format!("mapping {} bytes twice", shape.bytes());
        // SAFETY: a file of our own; the name is a C string.
        let file = unsafe { libc::memfd_create(c"queue_buffer".as_ptr(), 0) };
        ensure!(file >= 0, io::Error::last_os_error());
        // SAFETY: the descriptor is ours.
        unsafe { libc::ftruncate(file, shape.bytes() as i64) };
        let map = |at: *mut libc::c_void, len, protection, flags, file| {
            // SAFETY: either at an address of the kernel's choice, or over what the first call here reserved.
            let got = unsafe { libc::mmap(at, len, protection, flags, file, 0) };
            match got == libc::MAP_FAILED {
                true => Err(io::Error::last_os_error()),
                false => Ok(got),
            }
        };
        let size = shape.bytes();
        let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let views =
            map(ptr::null_mut(), 2 * size, libc::PROT_NONE, nothing, -1).with_context(failed)?;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        for view in [0, size] {
            let at = views.cast::<u8>().wrapping_add(view).cast();
            let shared = libc::MAP_SHARED | libc::MAP_FIXED;
            map(at, size, both, shared, file).with_context(failed)?;
        }
        // SAFETY: the descriptor is ours, and nobody else has it; the mapping stays.
        unsafe { libc::close(file) };
        Ok(SourceText {
            buffer: views.cast(),
            size,
            longest: shape.len,
            lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            readable: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            writeable: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            at: UnsafeCell::default(),
        })
    }

    fn sender(&self) -> Result<&SourceText> {
        Ok(self)
    }

    fn receiver(&self) -> Result<Reader<'_>> {
        let buffer = vec![0; self.longest];
        Ok(Reader { text: self, buffer })
    }
}

impl Sends for &SourceText {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) {
        self.put(message);
    }
}

/// A reader and its buffer.
pub struct Reader<'a> {
    text: &'a SourceText,
    buffer: Vec<u8>,
}

impl Receives for Reader<'_> {
    #[inline(always)]
    fn receive<T>(&mut self, see: impl FnOnce(&[u8]) -> T) -> T {
        let len = self.text.get(&mut self.buffer);
        see(&self.buffer[..len])
    }
}

impl Drop for SourceText {
    fn drop(&mut self) {
        // SAFETY: both views, which nobody uses any more.
        unsafe { libc::munmap(self.buffer.cast(), 2 * self.size) };
    }
}
