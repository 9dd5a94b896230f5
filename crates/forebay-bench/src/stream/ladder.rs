//! The versions of *CS 144 Checkpoint 0 – Byte Stream*, each faster than the one before it.

use super::sides::{CAPACITY, Stream};
use std::collections::VecDeque;

/// A queue of characters. Only the first can be seen, so a read takes them one by one into a string.
#[derive(Default)]
pub struct Characters(VecDeque<u8>);

impl Stream for Characters {
    fn vacant(&self) -> usize {
        CAPACITY - self.0.len()
    }
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0.push_back(std::hint::black_box(byte));
        }
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let mut taken = Vec::new();
        while taken.len() < n
            && let Some(byte) = self.0.pop_front()
        {
            taken.push(byte);
        }
        show(&taken);
        taken.len()
    }
}

/// A queue of bytes, copied into a string whenever it is looked at.
#[derive(Default)]
pub struct DequeCopied(VecDeque<u8>);

impl Stream for DequeCopied {
    fn vacant(&self) -> usize {
        CAPACITY - self.0.len()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let peeked: Vec<u8> = self.0.iter().copied().collect();
        let n = n.min(peeked.len());
        show(&peeked[..n]);
        self.0.drain(..n);
        n
    }
}

/// A string, appended to at its end and erased at its front.
#[derive(Default)]
pub struct StringErased(Vec<u8>);

impl Stream for StringErased {
    fn vacant(&self) -> usize {
        CAPACITY - self.0.len()
    }
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let n = n.min(self.0.len());
        show(&self.0[..n]);
        self.0.drain(..n);
        n
    }
}

/// A vector that the content slides along, and is copied back to the front of when the rest would not suffice.
pub struct Sliding {
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
    /// Where the head may be at most.
    mark: usize,
    by_loops: bool,
}

impl Sliding {
    /// With `slack` times the capacity, copied in blocks.
    pub fn new(slack: f64) -> Sliding {
        let bytes = (CAPACITY as f64 * slack) as usize;
        Sliding {
            buffer: vec![0; bytes],
            head: 0,
            tail: 0,
            mark: bytes - CAPACITY,
            by_loops: false,
        }
    }

    /// The same, copied byte by byte.
    pub fn looping(slack: f64) -> Sliding {
        Sliding {
            by_loops: true,
            ..Sliding::new(slack)
        }
    }
}

impl Stream for Sliding {
    #[inline(always)]
    fn vacant(&self) -> usize {
        CAPACITY - (self.tail - self.head)
    }

    #[inline(always)]
    fn push(&mut self, bytes: &[u8]) {
        if self.by_loops {
            for &byte in bytes {
                // What keeps it a loop: the compiler would see a copy.
                self.buffer[self.tail] = std::hint::black_box(byte);
                self.tail += 1;
            }
        } else {
            self.buffer[self.tail..self.tail + bytes.len()].copy_from_slice(bytes);
            self.tail += bytes.len();
        }
    }

    #[inline(always)]
    fn take(&mut self, n: usize, show: &mut impl FnMut(&[u8])) -> usize {
        let n = n.min(self.tail - self.head);
        show(&self.buffer[self.head..self.head + n]);
        self.head += n;
        if self.head >= self.mark {
            let len = self.tail - self.head;
            if self.by_loops {
                for i in 0..len {
                    self.buffer[i] = std::hint::black_box(self.buffer[self.head + i]);
                }
            } else {
                self.buffer.copy_within(self.head..self.tail, 0);
            }
            self.tail = len;
            self.head = 0;
        }
        n
    }
}
