//! Inputs of a pipe: one open input after another.

use super::{
    kernel_pipe,
    place::{self, Place},
};
use forebay::standard;
use forebay::{Error, Result, sync::Signal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::Advice,
};
use std::{
    fs::File,
    io::{self, Read as _, Seek as _},
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
};

/// An open input.
#[derive(Debug)]
pub struct Input {
    file: File,
    name: String,
    regular: Option<Regular>,
    pipe: Option<Pipe>,
}

/// A regular file: reading it never waits, and it has a size.
#[derive(Clone, Copy, Debug)]
struct Regular {
    identity: (u64, u64),
    bytes: u64,
}

/// A pipe: its pages may be moved, and if it is large, bytes may gather in it.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    is_large: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// There is something to read, or the input has ended.
    Ready,
    /// Reading has to stop.
    Ended,
    /// The time limit passed.
    NotYet,
}

impl Input {
    /// Opens `place`. A FIFO waits for its writer, a listening address for a connection; `listening` gets its actual address.
    ///
    /// ```
    /// use forebay_io::pipe::{Input, Place};
    /// let place = Place::parse("/etc/hostname".as_ref())?;
    /// # let place = Place::File(std::env::current_exe().unwrap());
    /// let input = Input::open(&place, &mut |address| eprintln!("listening on {address}"))?;
    /// assert!(input.bytes().unwrap() > 0);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// It cannot be opened, or is a folder.
    pub fn open(place: &Place, listening: &mut dyn FnMut(SocketAddr)) -> Result<Self> {
        let name = place.name("standard input");
        let file = match place {
            Place::Standard => standard::input()?,
            Place::File(path) => {
                File::open(path).map_err(|cause| Error::new(&name, "opening it").because(cause))?
            }
            Place::Connect(to) => place::connect(to)?,
            Place::Listen { at, port, only } => {
                place::accept((at.as_deref(), *port), only.as_deref(), &name, listening)?
            }
        };
        Input::new(file, name)
    }

    /// Wraps an open input, which messages call `name`.
    ///
    /// # Errors
    /// It is a folder, or closed.
    pub fn new(mut file: File, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let failed = |cause| Error::new(&name, "opening it").because(cause);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()).advise("Name a file in it"));
        }
        let regular = if metadata.is_file() {
            // Only a hint: the kernel reads further ahead.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
            let position = file.stream_position().map_err(failed)?;
            Some(Regular {
                identity: (metadata.dev(), metadata.ino()),
                bytes: metadata.len().saturating_sub(position),
            })
        } else {
            None
        };
        let is_pipe = metadata.file_type().is_fifo();
        let pipe = is_pipe.then(|| Pipe {
            is_large: kernel_pipe::is_large(&file),
        });
        Ok(Input {
            file,
            name,
            regular,
            pipe,
        })
    }

    /// The remaining bytes of a regular file; `None` for everything else, and for files whose content the kernel generates.
    pub fn bytes(&self) -> Option<u64> {
        self.regular
            .map(|regular| regular.bytes)
            .filter(|&bytes| bytes > 0)
    }

    /// The identity of the file, if it is a regular one.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        self.regular.map(|regular| regular.identity)
    }

    pub(super) fn is_regular(&self) -> bool {
        self.regular.is_some()
    }

    pub(super) fn is_pipe(&self) -> bool {
        self.pipe.is_some()
    }

    /// Enlarges the pipe, if it is one. See [`kernel_pipe::enlarge`] for when that is allowed.
    pub(super) fn enlarge(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            pipe.is_large = kernel_pipe::enlarge(&self.file);
        }
    }

    /// Bytes that wait in a pipe in which more may gather; otherwise `None`.
    pub(super) fn gathered(&self) -> Option<usize> {
        let _ = self.pipe.filter(|pipe| pipe.is_large)?;
        let bytes = rustix::io::ioctl_fionread(&self.file).ok()?;
        Some(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Waits until there is something to read, one of `ends` is raised, or `limit` has passed (`None`: no limit). For a regular
    /// file it returns at once.
    pub(super) fn wait(&self, ends: [&Signal; 2], limit: Option<&Timespec>) -> Result<Waited> {
        while !ends.iter().any(|end| end.is_raised()) {
            if self.regular.is_some() {
                return Ok(Waited::Ready);
            }
            let [first, second] =
                ends.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
            let mut fds = [PollFd::new(&self.file, PollFlags::IN), first, second];
            match poll(&mut fds, limit) {
                Ok(0) => return Ok(Waited::NotYet),
                Ok(_) if fds[0].revents().is_empty() => {}
                Ok(_) => return Ok(Waited::Ready),
                Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(self.error("waiting for bytes", cause)),
            }
        }
        Ok(Waited::Ended)
    }

    /// Reads into `room`. Returns the number of bytes; 0 at the end, `None` if there are none now.
    pub(super) fn read(&mut self, room: &mut [u8]) -> Result<Option<usize>> {
        match self.file.read(room) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(cause) if is_for_now(&cause) => Ok(None),
            Err(cause) => Err(self.error("reading", cause)),
        }
    }

    fn error(&self, tried: &str, cause: impl Into<io::Error>) -> Error {
        Error::new(&self.name, tried).because(cause)
    }
}

impl AsFd for Input {
    /// For moving bytes out of it in the kernel.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the operation only has to be tried again.
pub(super) fn is_for_now(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}
