//! The source text's rings, each with another way of wrapping at the end, and the ring that experienced programmers write.
//!
//! ```text
//!   head ─▶ bytes_avail ─▶ tail = (head + bytes_avail) mod size
//! ```
#![allow(unsafe_code)]

use super::ring::{CAPACITY, Ring, plain};
use anyhow::Result;
use forebay::memory::{MapConfig, Mirror, Region};

/// The source text's structure.
struct Queue {
    buffer: Region,
    /// As in the source text, known only at run time.
    size: usize,
    head: usize,
    tail: usize,
    avail: usize,
}

impl Queue {
    fn new() -> Result<Queue> {
        Ok(Queue {
            buffer: plain()?,
            size: std::hint::black_box(CAPACITY),
            head: 0,
            tail: 0,
            avail: 0,
        })
    }

    /// A message of `len` bytes at `at`, in two pieces: the offsets of the first, and the length of the second.
    #[inline(always)]
    fn pieces(&self, at: usize, len: usize) -> (std::ops::Range<usize>, usize) {
        let first = len.min(self.size - at);
        (at..at + first, len - first)
    }

    #[inline(always)]
    fn copy_in(&mut self, message: &[u8]) {
        let (first, rest) = self.pieces(self.tail, message.len());
        let (front, behind) = message.split_at(first.len());
        self.buffer[first].copy_from_slice(front);
        self.buffer[..rest].copy_from_slice(behind);
    }

    #[inline(always)]
    fn copy_out(&self, target: &mut [u8]) {
        let (first, rest) = self.pieces(self.head, target.len());
        let (front, behind) = target.split_at_mut(first.len());
        front.copy_from_slice(&self.buffer[first]);
        behind.copy_from_slice(&self.buffer[..rest]);
    }
}

/// A ring of the text's structure: how it copies a message in and out, and where a position wraps.
macro_rules! queue {
    ($(#[$doc:meta])* $name:ident, $copy_in:expr, $copy_out:expr, $wrap:expr) => {
        $(#[$doc])*
        pub struct $name(Queue);

        impl Ring for $name {
            fn new() -> Result<Self> {
                Queue::new().map($name)
            }

            #[inline(always)]
            fn put(&mut self, message: &[u8]) -> bool {
                let q = &mut self.0;
                if q.size - q.avail < message.len() {
                    return false;
                }
                $copy_in(q, message);
                q.tail = $wrap(q.tail + message.len(), q.size);
                q.avail += message.len();
                true
            }

            #[inline(always)]
            fn get(&mut self, target: &mut [u8]) -> bool {
                let q = &mut self.0;
                if q.avail < target.len() {
                    return false;
                }
                $copy_out(q, target);
                q.head = $wrap(q.head + target.len(), q.size);
                q.avail -= target.len();
                true
            }
        }
    };
}

queue!(
    /// Each byte goes to its place by a division.
    ByteByByte,
    |q: &mut Queue, message: &[u8]| {
        for (i, &byte) in message.iter().enumerate() {
            q.buffer[(q.tail + i) % q.size] = byte;
        }
    },
    |q: &mut Queue, target: &mut [u8]| {
        for (i, byte) in target.iter_mut().enumerate() {
            *byte = q.buffer[(q.head + i) % q.size];
        }
    },
    |end, size| end % size
);
queue!(
    /// The parts before and after the end are copied each time, and a division wraps.
    TwoCopies,
    |q: &mut Queue, message| q.copy_in(message),
    |q: &mut Queue, target| q.copy_out(target),
    |end, size| end % size
);
queue!(
    /// The second copy only where there is something to copy, and a mask where the text divides.
    Masked,
    |q: &mut Queue, message: &[u8]| match q.tail + message.len() <= q.size {
        true => q.buffer[q.tail..q.tail + message.len()].copy_from_slice(message),
        false => q.copy_in(message),
    },
    |q: &mut Queue, target: &mut [u8]| match q.head + target.len() <= q.size {
        true => target.copy_from_slice(&q.buffer[q.head..q.head + target.len()]),
        false => q.copy_out(target),
    },
    |end, size| end & (size - 1)
);

/// The text's last: one copy, whatever lies where. Its `get` wraps by `>`, so that a head that has just reached the end goes
/// on through the second view, and with a full ring the tail beyond it; here by `>=`.
pub struct Mirrored {
    buffer: Mirror,
    size: usize,
    head: usize,
    tail: usize,
}

impl Ring for Mirrored {
    fn new() -> Result<Self> {
        let buffer = Mirror::new(CAPACITY, &MapConfig::default())?;
        Ok(Mirrored {
            size: std::hint::black_box(buffer.len()),
            buffer,
            head: 0,
            tail: 0,
        })
    }

    #[inline(always)]
    fn put(&mut self, message: &[u8]) -> bool {
        if self.size - (self.tail - self.head) < message.len() {
            return false;
        }
        let to = self.buffer.base().as_ptr().wrapping_add(self.tail);
        // SAFETY: the head is below `size` and the message ends at most `size` after it, so these bytes lie in the two views,
        // which are ours; the message is not in them, since this ring lends none of its bytes.
        unsafe { to.copy_from_nonoverlapping(message.as_ptr(), message.len()) };
        self.tail += message.len();
        true
    }

    #[inline(always)]
    fn get(&mut self, target: &mut [u8]) -> bool {
        if self.tail - self.head < target.len() {
            return false;
        }
        let from = self.buffer.base().as_ptr().wrapping_add(self.head);
        // SAFETY: it is no instruction. What was written through the other view is read from here on.
        unsafe { std::arch::asm!("/* {0} */", in(reg) from, options(nostack, preserves_flags)) };
        // SAFETY: as in `put`.
        unsafe { from.copy_to_nonoverlapping(target.as_mut_ptr(), target.len()) };
        self.head += target.len();
        if self.head >= self.size {
            self.head -= self.size;
            self.tail -= self.size;
        }
        true
    }
}
