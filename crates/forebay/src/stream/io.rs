//! The ends as `std::io` sees them: both wait, for room or for bytes, until the stream ends.
//!
//! It adds nothing of its own to `reader` and `writer`. Read `ready` next, for those who may not wait.
//!
//! ```text
//!   Write:  at least one byte gets in      over? BrokenPipe, or the error that was set
//!   Read:   content ─▶ then: closed? Ok(0)   error set? that   writer vanished? UnexpectedEof
//! ```

use super::{End, Reader, Writer};
use crate::sync::Wait;
use std::io::{self, BufRead, Read, Write};

/// Waits for bytes. In one thread with the writer, that would be for ever: [`pop_slice`](Reader::pop_slice) never waits.
///
/// ```
/// use std::io::{ErrorKind, Read};
/// let (mut writer, mut reader) = forebay::stream::stream(64)?;
/// writer.push(b"half of it");
/// drop(writer); // not closed
/// let mut text = String::new();
/// assert_eq!(reader.read_to_string(&mut text).unwrap_err().kind(), ErrorKind::UnexpectedEof);
/// # Ok::<(), forebay::Error>(())
/// ```
impl<W: Wait> Read for Reader<W> {
    /// # Errors
    /// Behind the content: [`Other`](io::ErrorKind::Other) where an error was set, [`UnexpectedEof`](io::ErrorKind) where
    /// the writer was dropped without closing.
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        match self.pop_slice(target) {
            0 if self.wait_for_bytes()? => Ok(self.pop_slice(target)),
            popped => Ok(popped),
        }
    }
}

/// ```
/// use std::io::BufRead;
/// let (mut writer, reader) = forebay::stream::stream(64)?;
/// writer.push(b"one\ntwo\n");
/// writer.close();
/// let lines: Vec<_> = reader.lines().collect::<Result<_, _>>().unwrap();
/// assert_eq!(lines, ["one", "two"]);
/// # Ok::<(), forebay::Error>(())
/// ```
impl<W: Wait> BufRead for Reader<W> {
    /// What is known to be there, or else all there is: nothing is copied.
    ///
    /// # Errors
    /// As [`read`](Read::read).
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.consumer.known() {
            0 => {
                self.wait_for_bytes()?;
                Ok(self.peek())
            }
            known => Ok(self.consumer.peek_now(known).into_slice()),
        }
    }

    fn consume(&mut self, n: usize) {
        self.pop(n);
    }
}

/// Waits for room. In one thread with the reader, that would be for ever: [`push`](Writer::push) never waits.
///
/// ```
/// use std::io::Write;
/// let (mut writer, mut reader) = forebay::stream::stream(64)?;
/// write!(writer, "{} and {}", 1, 2)?;
/// assert_eq!(reader.peek(), b"1 and 2");
/// drop(reader);
/// assert_eq!(writer.write(b"3").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<W: Wait> Write for Writer<W> {
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) where the stream is closed or the reader gone,
    /// [`Other`](io::ErrorKind::Other) where an error was set.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let pushed = self.push(bytes);
            if pushed > 0 || bytes.is_empty() {
                return Ok(pushed);
            }
            if self.wait_capacity(1, None) == 0 {
                return Err(self.refusal());
            }
        }
    }

    /// Nothing to do: what is pushed is there for the reader.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Wait> Reader<W> {
    /// Waits until there are bytes (true), or the stream has ended well (false).
    fn wait_for_bytes(&self) -> io::Result<bool> {
        let mut finished = false;
        self.consumer.waits_at().wait(None, &mut || {
            finished = self.is_finished();
            finished || self.has(1)
        });
        if !finished {
            return Ok(true);
        }
        self.end_well().map(|()| false)
    }

    /// The error that a reader meets behind the content, if any.
    pub(super) fn end_well(&self) -> io::Result<()> {
        match self.end() {
            Some(End::Failed) => Err(failed()),
            Some(End::WriterGone) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the writer of the stream was dropped without closing it",
            )),
            Some(End::Closed) | None => Ok(()),
        }
    }
}

impl<W: Wait> Writer<W> {
    /// Why it takes nothing any more.
    pub(super) fn refusal(&self) -> io::Error {
        if self.has_error() {
            return failed();
        }
        let text = if self.is_closed() {
            "the stream is closed"
        } else {
            "the reader of the stream is gone"
        };
        io::Error::new(io::ErrorKind::BrokenPipe, text)
    }
}

fn failed() -> io::Error {
    io::Error::other("the stream was ended by an error")
}
