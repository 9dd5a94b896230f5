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

/// The list. The thread that has set `locked` owns `ends`.
pub struct PacketList {
    locked: AtomicBool,
    ends: UnsafeCell<Ends>,
}

/// The list itself. It owns its buffers.
pub struct Ends {
    head: *mut RxBuffer,
    tail: *mut RxBuffer,
}

impl Ends {
    pub fn new() -> Ends {
        Ends {
            head: ptr::null_mut(),
            tail: ptr::null_mut(),
        }
    }

    #[inline(always)]
    pub fn push(&mut self, buffer: Buffer) {
        let raw = buffer.into_raw();
        if self.tail.is_null() {
            self.head = raw;
        } else {
            // SAFETY: the last buffer is listed, so it is ours.
            unsafe { (*self.tail).next = raw };
        }
        self.tail = raw;
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Buffer> {
        let first = self.head;
        if !first.is_null() {
            // SAFETY: the first buffer is listed, so it is ours.
            self.head = unsafe { (*first).next };
            if self.head.is_null() {
                self.tail = ptr::null_mut();
            }
        }
        // SAFETY: it was put in by `push`, and is listed no more.
        unsafe { Buffer::from_raw(first) }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

// SAFETY: the buffers belong to no thread, and only the holder of the lock touches them while they are in the list.
unsafe impl Send for PacketList {}
// SAFETY: as above.
unsafe impl Sync for PacketList {}

impl PacketList {
    pub fn new() -> PacketList {
        PacketList {
            locked: AtomicBool::new(false),
            ends: UnsafeCell::new(Ends::new()),
        }
    }

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

    pub fn enqueue(&self, buffer: Buffer) {
        self.locked(|ends| ends.push(buffer));
    }

    pub fn dequeue(&self) -> Option<Buffer> {
        self.locked(Ends::pop)
    }
}

/// Either end: in the source text both are the same queue.
pub struct End(Arc<PacketList>);

impl Path for Listed {
    type Sender = End;
    type Receiver = End;

    fn new() -> Result<(End, End)> {
        let queue = Arc::new(PacketList::new());
        Ok((End(queue.clone()), End(queue)))
    }
}

impl Sender for End {
    fn send(&mut self, frame: &Frame<'_>) -> bool {
        self.0.enqueue(Buffer::holding(frame.data));
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
