//! Where the bytes go: a regular file that we made, or a stream that we were handed.

use crate::{Error, Result, sys::file as sys};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// An output that a store can drain into.
///
/// Write your own to send buffers elsewhere, or to inject faults in a test.
///
/// ```
/// use forebay::store::{Appender, Config, Framing, Sink, Whole};
/// use std::{io, sync::{Arc, Mutex}};
///
/// struct Memory(Arc<Mutex<Vec<u8>>>);
/// impl Sink for Memory {
///     fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
///         let mut memory = self.0.lock().unwrap();
///         assert_eq!(at, memory.len() as u64);
///         memory.extend(bytes);
///         Ok(bytes.len())
///     }
/// }
/// struct Bytes; // every byte is a record
/// impl Framing for Bytes {
///     fn last_whole(&self, bytes: &[u8]) -> Whole {
///         Whole { bytes: bytes.len(), records: bytes.len() as u64 }
///     }
/// }
/// let memory = Arc::default();
/// let sink = Box::new(Memory(Arc::clone(&memory)));
/// let mut store = Appender::new(sink, Arc::new(Bytes), &Config::default())?;
/// let mut slot = store.reserve(5)?.expect("there is room");
/// slot.copy_from_slice(b"hello");
/// slot.commit(5);
/// let end = store.close().wait_to_the_end();
/// assert_eq!((end.totals.written, end.durable), (5, false)); // memory promises nothing
/// assert_eq!(*memory.lock().unwrap(), b"hello");
/// # Ok::<(), forebay::Error>(())
/// ```
pub trait Sink: Send {
    /// Writes some of `bytes`, which belong at offset `at`; says how many were taken.
    /// Offsets come without holes; after an error the rest of the same bytes may be offered again.
    ///
    /// # Errors
    /// As `write(2)`. `WouldBlock` means: [`wait`](Sink::wait), then again.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Waits until [`write`](Sink::write) may take something, for `limit` at most.
    ///
    /// # Errors
    /// As `poll(2)`.
    fn wait(&mut self, _limit: Duration) -> io::Result<()> {
        Ok(())
    }

    /// Whether aligned whole buffers go past the page cache.
    fn is_direct(&self) -> bool {
        false
    }

    /// Cuts the output after `len` bytes; `false` where that cannot be done.
    ///
    /// # Errors
    /// As `ftruncate(2)`.
    fn cut(&mut self, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes all that was written durable; `false` where nothing can be promised.
    ///
    /// # Errors
    /// As `fdatasync(2)`; then what was written is neither known durable nor known lost.
    fn sync(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        (**self).write(bytes, at)
    }
    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        (**self).wait(limit)
    }
    fn is_direct(&self) -> bool {
        (**self).is_direct()
    }
    fn cut(&mut self, len: u64) -> io::Result<bool> {
        (**self).cut(len)
    }
    fn sync(&mut self) -> io::Result<bool> {
        (**self).sync()
    }
}

/// A regular file that we made: written at exact offsets, through two descriptors, one of them
/// past the page cache where the file system says that it can (`STATX_DIOALIGN`).
pub struct FileSink {
    file: File,
    direct: Option<File>,
    path: PathBuf,
}

impl FileSink {
    /// Creates or empties `path` (mode 0600). A FIFO or device that is there already becomes a
    /// [`StreamSink`]. `direct` asks for writes past the page cache.
    ///
    /// ```
    /// use forebay::store::{FileSink, Sink};
    /// let mut sink = FileSink::create("/dev/null".as_ref(), true)?;
    /// assert_eq!(sink.write(b"into the void", 0).unwrap(), 13);
    /// assert!(!sink.is_direct());
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// The path cannot be created or written.
    pub fn create(path: &Path, direct: bool) -> Result<Box<dyn Sink>> {
        let failed = |cause: io::Error| {
            let advice = match cause.kind() {
                io::ErrorKind::NotFound => "Make the folder first",
                io::ErrorKind::PermissionDenied => "Choose a folder that you may write",
                io::ErrorKind::IsADirectory => "Name a file in it",
                _ => "",
            };
            Error::new(path.display().to_string(), "creating the file")
                .because(cause)
                .advise(advice)
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Ok(Box::new(StreamSink::new(file)));
        }
        let direct = (direct && sys::writes_direct(&file, super::buffer::BLOCK))
            .then(|| {
                OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_DIRECT)
                    .open(path)
                    .ok()
            })
            .flatten();
        Ok(Box::new(FileSink {
            file,
            direct,
            // Where a link leads: that is the folder which has to be synced.
            path: path.canonicalize().map_err(failed)?,
        }))
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let aligned = |n: usize| n.is_multiple_of(super::buffer::BLOCK);
        match &self.direct {
            Some(direct)
                if aligned(at as usize)
                    && aligned(bytes.len())
                    && aligned(bytes.as_ptr().addr()) =>
            {
                match direct.write_at(bytes, at) {
                    // The file system changed its mind: the page cache takes it as well.
                    Err(refused) if refused.raw_os_error() == Some(libc::EINVAL) => {
                        self.direct = None;
                        self.file.write_at(bytes, at)
                    }
                    answer => answer,
                }
            }
            _ => self.file.write_at(bytes, at),
        }
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.file.set_len(len)?;
        Ok(true)
    }

    fn sync(&mut self) -> io::Result<bool> {
        self.file.sync_data()?;
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // A folder that may be written but not read cannot be opened, and so not synced.
        match File::open(folder) {
            Ok(folder) => folder.sync_all().map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// A pipe, FIFO, device or inherited descriptor: plain `write(2)` in order, nothing else.
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
/// It never blocks where that can be had, so that a reader who stands still cannot keep a writer
/// from being told to give up.
pub struct StreamSink {
    file: File,
    manner: Manner,
}

/// How not to block.
enum Manner {
    /// A pipe, opened anew without blocking.
    Reopened,
    /// A pipe that cannot be opened anew: a page at a time, when there is room for one.
    PageByPage,
    Socket,
    /// A device, or a regular file that we were handed.
    Plain,
}

/// What a pipe takes whole once it says that it takes anything (`PIPE_BUF`).
const PIPE_PAGE: usize = 4096;

impl StreamSink {
    /// A sink over an open descriptor.
    pub fn new(file: File) -> Self {
        let kind = file.metadata().map(|meta| meta.file_type()).ok();
        if kind.is_some_and(|kind| kind.is_socket()) {
            let manner = Manner::Socket;
            return StreamSink { file, manner };
        }
        if !kind.is_some_and(|kind| kind.is_fifo()) {
            let manner = Manner::Plain;
            return StreamSink { file, manner };
        }
        match sys::reopen_without_blocking(&file) {
            Some(file) => StreamSink {
                file,
                manner: Manner::Reopened,
            },
            None => StreamSink {
                file,
                manner: Manner::PageByPage,
            },
        }
    }
}

impl AsFd for StreamSink {
    /// To poll for room beside other descriptors, not to write.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Sink for StreamSink {
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
}
