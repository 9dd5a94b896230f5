//! The source of bytes: a regular file, or a pipe, which is polled before each read.

use super::eviction::Eviction;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Advice,
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read as _, Seek, SeekFrom},
    os::fd::{AsFd, BorrowedFd},
};

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(usize),
    /// Nothing now, more may arrive.
    NotNow,
    End,
}

pub(super) struct ByteSource {
    file: File,
    is_regular: bool,
    /// Of a very large file.
    eviction: Option<Eviction>,
    /// The offset up to which it was read.
    read: u64,
    /// The source ends at this offset.
    limit: u64,
}

impl ByteSource {
    /// A source that ends after `limit` bytes, if not before.
    pub fn new(file: File, limit: u64) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let is_regular = metadata.is_file();
        let mut eviction = None;
        if is_regular {
            eviction = Eviction::of(&file, metadata.len(), 0);
            // Advice only: the kernel reads further ahead.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        }
        Ok(ByteSource {
            file,
            is_regular,
            eviction,
            read: 0,
            limit,
        })
    }

    /// Reads what is available. A pipe is polled first, because the flag that makes `read` return at once is shared with all other
    /// processes that have it open.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        loop {
            if !self.is_regular && !self.poll(Some(&Timespec::default()))? {
                return Ok(Read::NotNow);
            }
            let left = usize::try_from(self.limit.saturating_sub(self.read)).unwrap_or(usize::MAX);
            let room = into.len().min(left);
            return match self.file.read(&mut into[..room]) {
                Ok(0) => {
                    if let Some(eviction) = self.eviction.take() {
                        eviction.finish(&self.file);
                    }
                    Ok(Read::End)
                }
                Ok(n) => {
                    self.read += n as u64;
                    if let Some(eviction) = &mut self.eviction {
                        eviction.read_to(&self.file, self.read);
                    }
                    Ok(Read::Bytes(n))
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Read::NotNow),
                Err(e) => Err(e),
            };
        }
    }

    /// Length of the file in bytes; 0 if it cannot be read at any offset.
    pub fn len(&self) -> u64 {
        let metadata = self.file.metadata().ok();
        metadata.map_or(
            0,
            |metadata| if self.is_regular { metadata.len() } else { 0 },
        )
    }

    /// The file and its length, if it can be read at any offset and was opened at its beginning.
    pub fn regular(&self) -> Option<(&File, u64)> {
        let position = self.is_regular.then(|| (&self.file).stream_position());
        let is_from_start = position?.is_ok_and(|at| at == self.read);
        is_from_start.then(|| (&self.file, self.len()))
    }

    /// Continues at this offset of a regular file.
    pub fn move_to(&mut self, offset: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.read = offset;
        if let Some(eviction) = &mut self.eviction {
            eviction.move_to(&self.file, offset);
        }
        Ok(())
    }

    /// The source ends at this offset, if not before.
    pub fn end_at(&mut self, offset: u64) {
        self.limit = self.limit.min(offset);
    }

    /// The offset at which the source ends, if not before.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Does not remove from the page cache what is read.
    pub fn keep_cached(&mut self) {
        self.eviction = None;
    }

    /// Bytes read so far, or passed over.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// For a regular file: the bytes read so far, and its length.
    pub fn reading(&self) -> Option<(u64, u64)> {
        let len = self.len();
        (len > 0).then_some((self.read.min(len), len))
    }

    /// The file itself, if it can be read at any offset.
    pub fn into_regular(self) -> Option<File> {
        self.is_regular.then_some(self.file)
    }

    /// Waits until bytes are available, or the end.
    ///
    /// # Errors
    /// A signal arrived. It is not retried, because no other code could react to the signal at this point.
    pub fn wait(&self) -> io::Result<()> {
        self.poll(None).map(drop)
    }

    fn poll(&self, timeout: Option<&Timespec>) -> io::Result<bool> {
        let mut asked = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut asked, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) if timeout.is_some() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
