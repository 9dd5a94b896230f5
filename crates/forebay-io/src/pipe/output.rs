//! Outputs of a pipe, written without waiting for a slow reader.

use super::{
    input::{Input, is_for_now},
    kernel_pipe,
    place::{self, Place},
    summary::Outcome,
};
use forebay::standard;
use forebay::{
    Error, Result,
    store::{Sink, StreamSink, close, open_existing, open_output, resolve},
};
use std::{
    fs::{File, OpenOptions},
    io,
    net::SocketAddr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// What to do with a regular file that exists and is not empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Leave it unchanged and report an error.
    #[default]
    Refuse,
    /// Empty it first.
    Truncate,
    /// Append to it.
    Append,
}

/// An open output.
pub struct Output {
    sink: StreamSink,
    name: String,
    /// The identity of a regular file.
    identity: Option<(u64, u64)>,
    /// A second descriptor of a regular file, to truncate it and to make it durable.
    file: Option<File>,
    truncate: bool,
    /// The folder with the file's name. The name is durable only when the folder is synced, too.
    folder: Option<PathBuf>,
    /// For a connection, a reader that leaves is an error; the reader of a pipe may leave at any time.
    is_connection: bool,
    is_pipe: bool,
    /// Bytes that it accepted from the buffer.
    pub(super) bytes: u64,
    pub(super) end: Option<End>,
}

/// Why an output takes no more bytes.
#[derive(Debug)]
pub(super) enum End {
    ReaderLeft,
    Refused(io::Error),
    NotDurable(io::Error),
    NotClosed(io::Error),
}

impl Output {
    /// Opens `place`. A FIFO waits for its reader, a listening address for a connection; `listening` gets its actual address.
    ///
    /// ```
    /// use forebay_io::pipe::{Existing, Output, Place};
    /// let place = Place::parse("/dev/null".as_ref())?;
    /// Output::open(&place, Existing::Refuse, &mut |_| {})?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// It cannot be opened, or it exists, is not empty, and `existing` is [`Existing::Refuse`].
    pub fn open(
        place: &Place,
        existing: Existing,
        listening: &mut dyn FnMut(SocketAddr),
    ) -> Result<Self> {
        let name = place.name("standard output");
        match place {
            Place::Standard => Output::new(standard::output()?, name),
            Place::File(path) => {
                let failed = |cause: io::Error| {
                    let advice = match cause.kind() {
                        io::ErrorKind::NotFound if path.is_symlink() => {
                            "It is a link that leads nowhere: remove it, or name the file itself"
                        }
                        io::ErrorKind::NotFound => "Make the folder first",
                        io::ErrorKind::IsADirectory => "Name a file in it",
                        _ => "",
                    };
                    let error = Error::new(&name, "creating the file");
                    error.because(cause).advise(advice)
                };
                let mut options = OpenOptions::new();
                options.write(existing != Existing::Append);
                options.append(existing == Existing::Append);
                let real = resolve(path).map_err(failed)?;
                // No file is created through a symbolic link.
                let file = if real == *path {
                    open_output(path, &options)
                } else {
                    open_existing(&real, &options)
                };
                let file = file.map_err(failed)?;
                let metadata = file.metadata().map_err(failed)?;
                let has_content = metadata.is_file() && metadata.len() > 0;
                if has_content && existing == Existing::Refuse {
                    return Err(Error::invalid(name, "the file already exists")
                        .advise("Choose another name, --truncate or --append"));
                }
                let mut output = Output::new(file, name)?;
                output.truncate = has_content && existing == Existing::Truncate;
                output.folder = Some(folder_of(&real));
                Ok(output)
            }
            Place::Connect(to) => Output::connection(place::connect(to)?, name),
            Place::Listen { at, port, only } => {
                let at = (at.as_deref(), *port);
                let file = place::accept(at, only.as_deref(), &name, listening)?;
                Output::connection(file, name)
            }
        }
    }

    /// Wraps an open output, which messages call `name`.
    ///
    /// # Errors
    /// It is closed.
    pub fn new(file: File, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let failed = |cause| Error::new(&name, "opening it").because(cause);
        let metadata = file.metadata().map_err(failed)?;
        let is_regular = metadata.is_file();
        let is_pipe = metadata.file_type().is_fifo();
        Ok(Output {
            identity: is_regular.then(|| (metadata.dev(), metadata.ino())),
            file: is_regular
                .then(|| file.try_clone())
                .transpose()
                .map_err(failed)?,
            sink: StreamSink::new(file),
            name,
            truncate: false,
            folder: None,
            is_connection: false,
            is_pipe,
            bytes: 0,
            end: None,
        })
    }

    fn connection(file: File, name: String) -> Result<Self> {
        let mut output = Output::new(file, name)?;
        output.is_connection = true;
        Ok(output)
    }

    /// Truncates the file if that was requested, after checking that it is not an input.
    pub(super) fn prepare(&mut self, inputs: &[Input]) -> Result<()> {
        let is_it = |input: &Input| input.identity() == self.identity;
        if self.identity.is_some() && inputs.iter().any(is_it) {
            return Err(Error::new(&self.name, "is also an input")
                .advise("Write to another file: otherwise reading would never end"));
        }
        match &self.file {
            Some(file) if self.truncate => {
                let emptied = file.set_len(0);
                emptied.map_err(|cause| Error::new(&self.name, "emptying it").because(cause))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_pipe(&self) -> bool {
        self.is_pipe
    }

    pub(super) fn is_large_pipe(&self) -> bool {
        self.is_pipe && kernel_pipe::is_large(self)
    }

    pub(super) fn is_regular(&self) -> bool {
        self.identity.is_some()
    }

    /// Enlarges the pipe, if it is one. See [`kernel_pipe::enlarge`] for when that is allowed.
    pub(super) fn enlarge(&self) {
        if self.is_pipe {
            kernel_pipe::enlarge(self);
        }
    }

    /// Whether it still takes bytes.
    pub(super) fn is_open(&self) -> bool {
        self.end.is_none()
    }

    /// Offers `bytes` and returns how many were accepted. An error or a lost reader is stored in [`end`](Output::end).
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        match self.sink.write(bytes, self.bytes) {
            Ok(taken) => {
                self.bytes += taken as u64;
                return taken;
            }
            Err(cause) if is_for_now(&cause) => {}
            Err(cause) => self.fail(cause),
        }
        0
    }

    /// Records that it takes no more bytes, because of `cause`.
    pub(super) fn fail(&mut self, cause: io::Error) {
        let has_left = cause.kind() == io::ErrorKind::BrokenPipe && !self.is_connection;
        self.end = Some(if has_left {
            End::ReaderLeft
        } else {
            End::Refused(cause)
        });
    }

    /// Ends writing. Makes a regular file durable if `sync` is set, and closes it, which reports writes that a network file
    /// system had delayed.
    pub(super) fn finish(&mut self, sync: bool) {
        let Some(file) = self.file.take().filter(|_| self.end.is_none()) else {
            return;
        };
        self.end = match sync.then(|| self.make_durable(&file)) {
            Some(Err(cause)) => Some(End::NotDurable(cause)),
            _ => close(file).err().map(End::NotClosed),
        };
    }

    fn make_durable(&self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        match self.folder.as_deref().map(File::open) {
            // A folder without read permission cannot be opened, and so not synced.
            None | Some(Err(_)) => Ok(()),
            Some(Ok(folder)) => folder.sync_all(),
        }
    }

    /// The outcome of this output; `passed` bytes reached it past the buffer.
    pub(super) fn into_outcome(self, passed: u64) -> Outcome {
        let bytes = passed + self.bytes;
        let failed = |tried, cause| Error::new(&self.name, tried).because(cause);
        let so_far = format!("{bytes} bytes were written before");
        let (reader_left, error) = match self.end {
            None => (false, None),
            Some(End::ReaderLeft) => (true, None),
            Some(End::Refused(cause)) => (false, Some(failed("writing", cause).advise(so_far))),
            Some(End::NotDurable(cause)) => (false, Some(failed("making it durable", cause))),
            Some(End::NotClosed(cause)) => (false, Some(failed("closing it", cause))),
        };
        Outcome {
            name: self.name,
            bytes,
            reader_left,
            error,
        }
    }
}

fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sink.as_fd()
    }
}
