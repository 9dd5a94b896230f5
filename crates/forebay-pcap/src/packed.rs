//! A stream of C's library that compresses what is written to it, so that programs can use it as any other, and leave it open when they exit.
//!
//! ```text
//!  fwrite ──▶ buffer of the stream ── full, flushed, or the program exits ──▶ one gzip member or zstd frame ──▶ the file
//! ```

#![allow(unsafe_code)]

use crate::border::guarded;
use forebay_net::session::FrameEncoder;
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fs::File,
    io::{self, Write},
    ptr::null,
};

/// Bytes that are compressed as one frame.
const BUFFER_BYTES: usize = 256 << 10;

/// `cookie_io_functions_t` of C's library.
#[repr(C)]
struct Functions {
    read: *const c_void,
    write: extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: *const c_void,
    close: extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: Functions,
    ) -> *mut libc::FILE;
}

struct Packed {
    file: File,
    encoder: FrameEncoder,
    frame: Vec<u8>,
}

/// A stream that writes to the file, and the buffer that it uses until it is closed.
pub fn stream(file: File, encoder: FrameEncoder) -> io::Result<(*mut libc::FILE, Box<[u8]>)> {
    let packed = Box::new(Packed {
        file,
        encoder,
        frame: Vec::new(),
    });
    let cookie = Box::into_raw(packed).cast();
    let mode: &CStr = c"w";
    let functions = Functions {
        read: null(),
        write,
        seek: null(),
        close,
    };
    // SAFETY: the functions have the types that the stream calls, and the cookie is theirs.
    let stream = unsafe { fopencookie(cookie, mode.as_ptr(), functions) };
    if stream.is_null() {
        let error = io::Error::last_os_error();
        close(cookie);
        return Err(error);
    }
    let mut buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
    // SAFETY: the stream is new, and the caller keeps the buffer until it is closed.
    unsafe {
        libc::setvbuf(
            stream,
            buffer.as_mut_ptr().cast(),
            libc::_IOFBF,
            BUFFER_BYTES,
        )
    };
    Ok((stream, buffer))
}

extern "C" fn write(cookie: *mut c_void, bytes: *const c_char, len: usize) -> isize {
    // SAFETY: the cookie is the box of `stream`, which no other call uses meanwhile.
    let packed = unsafe { &mut *cookie.cast::<Packed>() };
    // SAFETY: the stream has `len` bytes there.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
    // The stream reports 0 as an error.
    guarded(0, || packed.write(bytes).map_or(0, |()| len as isize))
}

extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the cookie is the box of `stream`, and this is its last use.
    let packed = unsafe { Box::from_raw(cookie.cast::<Packed>()) };
    guarded(-1, || {
        drop(packed);
        0
    })
}

impl Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.encoder.append(bytes, &mut self.frame)?;
        self.file.write_all(&self.frame)
    }
}
