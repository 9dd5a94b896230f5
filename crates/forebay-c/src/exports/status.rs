//! Errors and versions.

#![allow(unsafe_code)] // The names are this library's.

use crate::failure::{last, sentence};
use forebay::error::Code;
use std::ffi::{CStr, c_char, c_int};

/// The number of the interface. It grows with each change, also of the layout of a structure.
pub const FOREBAY_INTERFACE: u32 = 1;

/// No time limit.
pub const FOREBAY_FOREVER: i64 = -1;

/// The numbers of errors, which all functions return that can fail. Counts are never negative. The numbers never change.
#[allow(non_camel_case_types)]
#[repr(i32)]
pub enum forebay_code {
    /// No error.
    FOREBAY_OK = 0,
    /// There is no room now.
    FOREBAY_FULL = -1,
    /// There is nothing now.
    FOREBAY_EMPTY = -2,
    /// The time limit was reached.
    FOREBAY_TIMED_OUT = -3,
    /// The other end is gone or closed, or the stream has ended.
    FOREBAY_CLOSED = -4,
    /// An argument is out of its range, a null pointer, or a structure of a wrong size.
    FOREBAY_INVALID = -5,
    /// It never fits.
    FOREBAY_TOO_LONG = -6,
    /// There is no such object.
    FOREBAY_NOT_FOUND = -7,
    /// The object exists already.
    FOREBAY_EXISTS = -8,
    /// The system refused it.
    FOREBAY_PERMISSION = -9,
    /// Not supported here, or by this version.
    FOREBAY_UNSUPPORTED = -10,
    /// Stopped by another thread or a signal.
    FOREBAY_INTERRUPTED = -11,
    /// Not enough memory, or 16 million handles exist.
    FOREBAY_NO_MEMORY = -12,
    /// The bytes of a file or of another process make no sense.
    FOREBAY_DAMAGED = -13,
    /// Another thread uses this end, or it has a second reader.
    FOREBAY_BUSY = -14,
    /// Any other error of the operating system: see `forebay_last_errno`.
    FOREBAY_IO = -15,
    /// The handle is null, closed, of another kind, or from before a fork.
    FOREBAY_MISUSE = -16,
    /// A defect of this library.
    FOREBAY_PANIC = -17,
    /// Messages were overwritten before they were received. The next call continues after them.
    FOREBAY_OVERRUN = -18,
}

/// The same numbers as in Rust.
const _: () = {
    let mut at = 0;
    while at < Code::ALL.len() {
        assert!(Code::ALL[at] as i32 == -1 - at as i32);
        at += 1;
    }
    assert!(forebay_code::FOREBAY_OVERRUN as i32 == Code::Overrun as i32 && Code::ALL.len() == 18);
};

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn forebay_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    const TEXT: &CStr = match CStr::from_bytes_with_nul(VERSION.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    };
    TEXT.as_ptr()
}

/// The number of the interface that the library has: `FOREBAY_INTERFACE` of its header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_interface() -> u32 {
    FOREBAY_INTERFACE
}

/// A sentence for a code. It exists as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_strerror(code: c_int) -> *const c_char {
    sentence(code).as_ptr()
}

/// What failed last in this thread: the object, the attempt, the cause and advice. Valid until a function fails in this thread again.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_error() -> *const c_char {
    last().0
}

/// The `errno` of the last failure in this thread; 0 if the system did not cause it.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_last_errno() -> c_int {
    last().1
}
