//! The buffers of *Device Driver Queues*: 2048 bytes from malloc, freed by the thread that processed them, with a link for a list.
#![allow(unsafe_code)]

use std::{
    mem::{self, MaybeUninit},
    ptr::{self, NonNull},
};

/// Bytes of a buffer.
pub const BUFFER_BYTES: usize = 2048;

/// As in the source text: malloc clears nothing.
pub struct RxBuffer {
    data: [MaybeUninit<u8>; BUFFER_BYTES],
    len: usize,
    pub next: *mut RxBuffer,
}

/// One that is owned; dropping it frees it.
pub struct Buffer(NonNull<RxBuffer>);

// SAFETY: it owns its memory, which belongs to no thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// A new one with a copy of a frame in it, which is no longer than a buffer.
    pub fn holding(frame: &[u8]) -> Buffer {
        let len = frame.len();
        // SAFETY: asking for memory is always allowed.
        let memory = unsafe { libc::malloc(size_of::<RxBuffer>()) };
        let mut memory =
            NonNull::new(memory.cast::<MaybeUninit<RxBuffer>>()).expect("2 KiB are there");
        // SAFETY: ours alone, and as large as that; it may hold anything.
        let buffer = unsafe { memory.as_mut() }.write(RxBuffer {
            data: [MaybeUninit::uninit(); BUFFER_BYTES],
            len,
            next: ptr::null_mut(),
        });
        for (byte, &from) in buffer.data[..len].iter_mut().zip(frame) {
            byte.write(from);
        }
        Buffer(NonNull::from(buffer))
    }

    /// Copies another frame into it.
    pub fn refill(&mut self, frame: &[u8]) {
        // SAFETY: ours, and whole since it was made.
        let buffer = unsafe { self.0.as_mut() };
        for (byte, &from) in buffer.data.iter_mut().zip(frame) {
            byte.write(from);
        }
        buffer.len = frame.len();
    }

    /// The frame in it.
    pub fn frame(&self) -> &[u8] {
        // SAFETY: ours, and whole since it was made.
        let buffer = unsafe { self.0.as_ref() };
        let frame = ptr::from_ref(&buffer.data[..buffer.len]) as *const [u8];
        // SAFETY: these bytes were written when it was made, and are not written again.
        unsafe { &*frame }
    }

    /// Into a list, which owns it from here on.
    pub fn into_raw(mut self) -> *mut RxBuffer {
        // SAFETY: ours, and whole since it was made.
        unsafe { self.0.as_mut() }.next = ptr::null_mut();
        let raw = self.0.as_ptr();
        mem::forget(self);
        raw
    }

    /// Out of a list.
    ///
    /// # Safety
    /// It came from [`into_raw`](Buffer::into_raw), and the list has let go of it.
    pub unsafe fn from_raw(raw: *mut RxBuffer) -> Option<Buffer> {
        NonNull::new(raw).map(Buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it came from `malloc`, and is ours.
        unsafe { libc::free(self.0.as_ptr().cast()) }
    }
}
