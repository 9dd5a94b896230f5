//! The textbook's way: a linked list under a spinlock, without a bound.
//!
//! ```text
//!   head ─▶ │ buffer │ next ─▶ │ buffer │ next ─▶ │ buffer │ null ◀─ tail
//! ```
#![allow(unsafe_code)]

use super::{
    buffer::{Buffer, RxBuffer},
    path::{Path, Receiver, Sender},
};
use anyhow::Result;
use forebay_net::port::Frame;
use std::{
    cell::UnsafeCell,
    hint, ptr,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
};

/// The path of the first driver of *Device Driver Queues*.
pub struct Listed;

/// The list. The thread that has set `locked` owns `ends` and every `next`.
struct Queue {
    locked: AtomicBool,
    ends: UnsafeCell<Ends>,
}

struct Ends {
    head: *mut RxBuffer,
    tail: *mut RxBuffer,
}

// SAFETY: the buffers belong to no thread, and only the holder of the lock touches them while they are in the list.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Does something with the lock held.
    fn locked<T>(&self, what: impl FnOnce(&mut Ends) -> T) -> T {
        while self.locked.swap(true, Acquire) {
            hint::spin_loop();
        }
        // SAFETY: the lock is ours (its last holder released what we acquired), so no other reference exists.
        let done = what(unsafe { &mut *self.ends.get() });
        self.locked.store(false, Release);
        done
    }

    fn enqueue(&self, buffer: Buffer) {
        let raw = buffer.into_raw();
        self.locked(|ends| {
            if ends.tail.is_null() {
                ends.head = raw;
            } else {
                // SAFETY: the last buffer is listed, and the lock is ours.
                unsafe { (*ends.tail).next = raw };
            }
            ends.tail = raw;
        });
    }

    fn dequeue(&self) -> Option<Buffer> {
        let first = self.locked(|ends| {
            let first = ends.head;
            if !first.is_null() {
                // SAFETY: the first buffer is listed, and the lock is ours.
                ends.head = unsafe { (*first).next };
                if ends.head.is_null() {
                    ends.tail = ptr::null_mut();
                }
            }
            first
        });
        // SAFETY: it was put in by `enqueue`, and is listed no more.
        unsafe { Buffer::from_raw(first) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while self.dequeue().is_some() {}
    }
}

/// Either end: in the source text both are the same queue.
pub struct End(Arc<Queue>);

impl Path for Listed {
    type Sender = End;
    type Receiver = End;

    fn new() -> Result<(End, End)> {
        let ends = Ends {
            head: ptr::null_mut(),
            tail: ptr::null_mut(),
        };
        let queue = Arc::new(Queue {
            locked: AtomicBool::new(false),
            ends: UnsafeCell::new(ends),
        });
        Ok((End(queue.clone()), End(queue)))
    }
}

impl Sender for End {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        self.0.enqueue(Buffer::holding(frame));
        true
    }
}

impl Receiver for End {
    fn receive(&mut self, process: &mut impl FnMut(&[u8])) -> usize {
        let Some(buffer) = self.0.dequeue() else {
            return 0;
        };
        process(buffer.frame());
        1
    }
}
