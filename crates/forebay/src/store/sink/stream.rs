//! A pipe, a socket, a device, or an inherited descriptor.

use super::Sink;
use crate::sys::file as sys;
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    time::Duration,
};

/// A pipe, FIFO, device or inherited descriptor: plain `write(2)` in order.
///
/// ```
/// use forebay::store::{Sink, StreamSink};
/// use std::io::Read;
/// let (mut reader, writer) = std::io::pipe().unwrap();
/// let file = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
/// let mut sink = StreamSink::new(file);
/// assert_eq!(sink.write(b"down the pipe", 0).unwrap(), 13);
/// drop(sink);
/// let mut said = String::new();
/// reader.read_to_string(&mut said).unwrap();
/// assert_eq!(said, "down the pipe");
/// ```
///
/// It avoids blocking where possible, so that a writer can still be abandoned while the reader has stopped reading.
pub struct StreamSink {
    file: File,
    manner: Manner,
    name: String,
}

/// How to avoid blocking.
enum Manner {
    /// A pipe, reopened as non-blocking.
    Reopened,
    /// A pipe that cannot be reopened: write one page at a time, when there is room for one.
    PageByPage,
    Socket,
    /// A device, or a regular file that was inherited.
    Plain,
}

/// Bytes that a pipe takes whole once it is writable (`PIPE_BUF`).
const PIPE_PAGE: usize = 4096;

impl StreamSink {
    /// A sink over an open descriptor, without a name.
    pub fn new(file: File) -> Self {
        StreamSink::named(file, String::new())
    }

    /// A sink over an open descriptor, called `name` in messages.
    pub fn named(file: File, name: impl Into<String>) -> Self {
        let name = name.into();
        let kind = file.metadata().map(|meta| meta.file_type()).ok();
        let (file, manner) = match kind {
            Some(kind) if kind.is_socket() => (file, Manner::Socket),
            Some(kind) if kind.is_fifo() => match sys::reopen_without_blocking(&file) {
                Some(file) => (file, Manner::Reopened),
                None => (file, Manner::PageByPage),
            },
            _ => (file, Manner::Plain),
        };
        StreamSink { file, manner, name }
    }
}

impl AsFd for StreamSink {
    /// For polling together with other descriptors, not for writing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Sink for StreamSink {
    fn stream(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn write(&mut self, bytes: &[u8], _at: u64) -> io::Result<usize> {
        match self.manner {
            Manner::Reopened | Manner::Plain => self.file.write(bytes),
            Manner::Socket => sys::send(&self.file, bytes),
            Manner::PageByPage if sys::wait_writable(&self.file, Duration::ZERO)? => {
                self.file.write(&bytes[..bytes.len().min(PIPE_PAGE)])
            }
            Manner::PageByPage => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        sys::wait_writable(&self.file, limit).map(drop)
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
