//! Streams of C's library (`FILE *`), which programs also use themselves: nothing is read before it is needed, and nothing is held back.

#![allow(unsafe_code)]

use crate::{
    border::{c_text, has_one_thread, text as text_of},
    packed,
};
use forebay_net::session::Compression;
use std::{
    cell::Cell,
    ffi::{CStr, OsStr, c_int},
    fs::OpenOptions,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
};

unsafe extern "C" {
    static stdin: *mut libc::FILE;
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// The first fields of glibc's `struct _IO_FILE`. Its header has them for the macros `__putc_unlocked_body` and `__ferror_unlocked_body`, so
/// that compiled programs depend on them.
#[repr(C)]
struct Fields {
    flags: c_int,
    read: [*mut u8; 3],
    write_base: *mut u8,
    write_ptr: *mut u8,
    write_end: *mut u8,
}

/// In `Fields::flags`: writing or reading has failed (`_IO_ERR_SEEN`), or each line is written at once (`_IO_LINE_BUF`).
const FAILED_OR_BY_LINES: c_int = 0x20 | 0x200;

/// A stream, closed when it is dropped, unless it is still the program's.
#[derive(Debug)]
pub struct Stdio {
    stream: *mut libc::FILE,
    is_owned: Cell<bool>,
    /// Used by the stream until it is closed.
    #[allow(dead_code)] // Only C's library reads it.
    buffer: Option<Box<[u8]>>,
}

impl Stdio {
    /// Opens a file as `fopen` does.
    pub fn open(path: &CStr, mode: &CStr) -> io::Result<Stdio> {
        // SAFETY: both texts end with a zero.
        let stream = unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) };
        Stdio::adopt(stream).ok_or_else(io::Error::last_os_error)
    }

    /// Opens a file to write this number of bytes at once.
    pub fn buffered(path: &CStr, mode: &CStr, bytes: usize) -> io::Result<Stdio> {
        let mut stream = Stdio::open(path, mode)?;
        let mut buffer = vec![0; bytes].into_boxed_slice();
        let place = buffer.as_mut_ptr().cast();
        // SAFETY: nothing was written to the stream, which is ours, so that it is closed before the buffer is released.
        unsafe { libc::setvbuf(stream.stream, place, libc::_IOFBF, bytes) };
        stream.buffer = Some(buffer);
        Ok(stream)
    }

    /// Opens a file that is compressed while it is written: a new one, or the end of one.
    pub fn compressing(path: &CStr, compression: Compression, appends: bool) -> io::Result<Stdio> {
        let mut options = OpenOptions::new();
        options
            .create(true)
            .append(appends)
            .write(true)
            .truncate(!appends);
        let file = options.open(OsStr::from_bytes(path.to_bytes()))?;
        let (stream, buffer) = packed::stream(file, compression.encoder()?)?;
        let mut stream = Stdio::standard(stream);
        stream.buffer = Some(buffer);
        stream.keep();
        Ok(stream)
    }

    /// Takes a stream of the program. `None`: a null pointer.
    pub fn adopt(stream: *mut libc::FILE) -> Option<Stdio> {
        let lent = Stdio::lent(stream)?;
        lent.keep();
        Some(lent)
    }

    /// Uses a stream that stays the program's. `None`: a null pointer.
    pub fn lent(stream: *mut libc::FILE) -> Option<Stdio> {
        (!stream.is_null()).then(|| Stdio::standard(stream))
    }

    /// Closes the stream with this object, although it was lent. Standard input stays open, as with libpcap.
    pub fn keep(&self) {
        // SAFETY: C's library sets it before the program starts.
        self.is_owned.set(self.stream != unsafe { stdin });
    }

    pub fn standard_input() -> Stdio {
        // SAFETY: C's library sets it before the program starts.
        Stdio::standard(unsafe { stdin })
    }

    pub fn standard_output() -> Stdio {
        // SAFETY: as for `stdin`.
        Stdio::standard(unsafe { stdout })
    }

    pub fn standard_error() -> Stdio {
        // SAFETY: as for `stdin`.
        Stdio::standard(unsafe { stderr })
    }

    fn standard(stream: *mut libc::FILE) -> Stdio {
        Stdio {
            stream,
            is_owned: Cell::new(false),
            buffer: None,
        }
    }

    /// The stream, for the program.
    pub fn stream(&self) -> *mut libc::FILE {
        self.stream
    }

    /// Appends these bytes to those that wait in the stream's buffer, as C's `putc_unlocked` does with one byte. `false`: nothing was
    /// appended, because there is no room, a write has failed, or another thread may use the stream.
    #[inline]
    pub fn append(&self, header: &[u8; 16], data: &[u8]) -> bool {
        if !cfg!(target_env = "gnu") || !has_one_thread() {
            return false;
        }
        // SAFETY: the stream is open, its structure begins with these fields, and this thread is the only one.
        let fields = unsafe { &mut *self.stream.cast::<Fields>() };
        let room = fields
            .write_end
            .addr()
            .wrapping_sub(fields.write_ptr.addr());
        // Both are equal if the stream is being read, or each byte is written at once.
        let fits = fields.write_ptr <= fields.write_end && header.len() + data.len() <= room;
        if !fits || fields.flags & FAILED_OR_BY_LINES != 0 {
            return false;
        }
        let place = fields.write_ptr;
        // SAFETY: there is room for all bytes.
        unsafe { place.cast::<[u8; 16]>().write_unaligned(*header) };
        // SAFETY: as above.
        let place = unsafe { place.add(header.len()) };
        // SAFETY: as above. The bytes are the program's, and not in the buffer.
        unsafe { place.copy_from(data.as_ptr(), data.len()) };
        // SAFETY: as above.
        fields.write_ptr = unsafe { place.add(data.len()) };
        true
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the stream is open, and the bytes are ours during the call.
        let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), self.stream) };
        match written == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        }
    }

    pub fn flush(&self) -> io::Result<()> {
        // SAFETY: the stream is open.
        let failed = unsafe { libc::fflush(self.stream) };
        result(failed)
    }

    /// The place in the file.
    pub fn tell(&self) -> i64 {
        // SAFETY: the stream is open.
        unsafe { libc::ftello(self.stream) }
    }

    pub fn descriptor(&self) -> c_int {
        // SAFETY: the stream is open.
        unsafe { libc::fileno(self.stream) }
    }

    fn is_at_end(&self) -> bool {
        // SAFETY: the stream is open.
        unsafe { libc::feof(self.stream) != 0 }
    }

    pub fn has_failed(&self) -> bool {
        // SAFETY: the stream is open.
        unsafe { libc::ferror(self.stream) != 0 }
    }

    fn clear_failure(&self) {
        // SAFETY: the stream is open.
        unsafe { libc::clearerr(self.stream) };
    }
}

fn result(failed: c_int) -> io::Result<()> {
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Read for Stdio {
    /// Reads as many bytes as there is room for; fewer only before the end, an error, or a signal.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // C's library remembers the end. A program that reads a growing file clears it.
        if into.is_empty() || self.is_at_end() || self.has_failed() {
            return Ok(0);
        }
        // SAFETY: the stream is open, and the room is ours during the call.
        let read = unsafe { libc::fread(into.as_mut_ptr().cast(), 1, into.len(), self.stream) };
        if read == into.len() {
            return Ok(read);
        }
        let error = io::Error::last_os_error();
        if !self.has_failed() {
            return Ok(read);
        }
        // After some bytes, the error returns with the next read, unless it was an interruption.
        if read > 0 || error.kind() == io::ErrorKind::Interrupted {
            self.clear_failure();
        }
        match read {
            0 => Err(error),
            _ => Ok(read),
        }
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        if self.is_owned.get() {
            // SAFETY: the stream is open, and nothing uses it after this.
            unsafe { libc::fclose(self.stream) };
        }
    }
}

/// The text of C's library for an error number.
pub fn error_text(number: c_int) -> std::ffi::CString {
    // SAFETY: any number may be asked for.
    let text = unsafe { libc::strerror(number) };
    // The text belongs to C's library until the next call, and is copied.
    c_text(text_of(text).unwrap_or(c"").to_bytes())
}
