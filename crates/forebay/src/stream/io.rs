//! The ends as `std::io` traits: reads wait for bytes, and writes for room, until the stream ends.
//!
//! Ends that wait as tasks have tokio's traits instead, so that a method such as `read` has one meaning.
//!
//! ```text
//!   Write:  puts in at least one byte      ended? BrokenPipe, or the error that was set
//!   Read:   content ─▶ then: closed? Ok(0)   error set? that error   writer dropped? UnexpectedEof
//! ```

use super::{End, Reader, Writer};
use crate::{
    Error,
    sync::{Block, Wait},
};
use std::io::{self, BufRead, Read, Write};

/// Waits for bytes. If the writer is in the same thread, that is forever: [`pop_slice`](Reader::pop_slice) never waits.
///
/// ```
/// use std::io::{ErrorKind, Read};
/// let (mut writer, mut reader) = forebay::stream::stream(64)?;
/// writer.push_slice(b"half of it");
/// drop(writer); // not closed
/// let mut text = String::new();
/// assert_eq!(reader.read_to_string(&mut text).unwrap_err().kind(), ErrorKind::UnexpectedEof);
/// # Ok::<(), forebay::Error>(())
/// ```
impl<W: Block> Read for Reader<W> {
    /// # Errors
    /// After the content: the [reason](Reader::error) if either end failed the stream, [`Other`](io::ErrorKind::Other) if an error was
    /// set without one, [`UnexpectedEof`](io::ErrorKind) if the writer
    /// was dropped without closing.
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.read_some(target)
    }
}

/// ```
/// use std::io::BufRead;
/// let (mut writer, reader) = forebay::stream::stream(64)?;
/// writer.push_slice(b"one\ntwo\n");
/// writer.close();
/// let lines: Vec<_> = reader.lines().collect::<Result<_, _>>().unwrap();
/// assert_eq!(lines, ["one", "two"]);
/// # Ok::<(), forebay::Error>(())
/// ```
impl<W: Block> BufRead for Reader<W> {
    /// The bytes that are known to be there, or otherwise all there are. Nothing is copied.
    ///
    /// # Errors
    /// Those of [`read`](Read::read).
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.fill_some()
    }

    fn consume(&mut self, n: usize) {
        Reader::consume(self, n);
    }
}

/// Waits for room. If the reader is in the same thread, that is forever: [`push_slice`](Writer::push_slice) never waits.
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
impl<W: Block> Write for Writer<W> {
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the stream is closed or the reader was dropped,
    /// the [reason](Writer::error) or [`Other`](io::ErrorKind::Other) if an error was set.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_some(bytes)
    }

    /// Does nothing: pushed bytes are visible to the reader at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Wait> Reader<W> {
    pub(super) fn read_some(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if target.is_empty() {
            return Ok(0);
        }
        match self.pop_slice(target) {
            0 if self.wait_for_bytes()? => Ok(self.pop_slice(target)),
            popped => Ok(popped),
        }
    }

    pub(super) fn fill_some(&mut self) -> io::Result<&[u8]> {
        match self.consumer.cached_available() {
            0 => {
                self.wait_for_bytes()?;
                Ok(self.peek())
            }
            known => Ok(self.consumer.peek(known).into_slice()),
        }
    }

    /// Waits until there are bytes (true), or the stream was closed and is empty (false).
    fn wait_for_bytes(&mut self) -> io::Result<bool> {
        while self.consumer.wait_filled(1) == 0 {
            if self.is_finished() {
                return self.end_well().map(|()| false);
            }
        }
        Ok(true)
    }

    /// The error that a reader gets after the content, if any.
    pub(super) fn end_well(&self) -> io::Result<()> {
        match self.end() {
            Some(End::Failed) => Err(failed(self.error())),
            Some(End::WriterGone) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the writer of the stream was dropped without closing it",
            )),
            Some(End::Closed) | None => Ok(()),
        }
    }
}

impl<W: Wait> Writer<W> {
    pub(super) fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let pushed = self.push_slice(bytes);
            if pushed > 0 || bytes.is_empty() {
                return Ok(pushed);
            }
            if self.wait_vacant(1) == 0 && self.is_over() {
                return Err(self.refusal());
            }
        }
    }

    /// The error of a write after the end.
    pub(super) fn refusal(&self) -> io::Error {
        if self.has_error() {
            return failed(self.error());
        }
        let text = if self.is_closed() {
            "the stream is closed"
        } else {
            "the reader of the stream is gone"
        };
        io::Error::new(io::ErrorKind::BrokenPipe, text)
    }
}

fn failed(reason: Option<&Error>) -> io::Error {
    match reason {
        Some(reason) => reason.clone().into(),
        None => io::Error::other("the stream was ended by an error"),
    }
}
