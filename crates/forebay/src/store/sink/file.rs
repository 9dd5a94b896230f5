//! A regular file that we made.
//!
//! ```text
//!  written                                      │ allocated ahead │
//!  ├── aligned: O_DIRECT ──┼── else: page cache ─┤                 │      cut off at the end
//! ```

use super::{Sink, StreamSink};
use crate::{Error, Result, store::buffer::BLOCK, sys::file as sys};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// How a file is written.
///
/// ```
/// use forebay::store::{FileConfig, FileSink, Sink};
/// let path = std::env::temp_dir().join(format!("forebay-doc-file-{}", std::process::id()));
/// let config = FileConfig { allocate_bytes: 1 << 20, ..FileConfig::default() };
/// let mut sink = FileSink::create_with(&path, &config)?;
/// assert_eq!(sink.write(b"first", 0).unwrap(), 5);
/// assert_eq!(std::fs::metadata(&path).unwrap().len(), 5); // what is allocated ahead is no content
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Whole buffers go past the page cache, where the file system says that it can.
    pub direct: bool,
    /// Bytes that the file system is asked to find room for at a time, ahead of what is written; 0 for none. Fewer and
    /// larger pieces on the disk; what is left of the last one is given back at the end. Where it cannot be had the
    /// file is written without.
    pub allocate_bytes: u64,
}

impl Default for FileConfig {
    /// Past the page cache, with nothing allocated ahead.
    fn default() -> Self {
        FileConfig {
            direct: true,
            allocate_bytes: 0,
        }
    }
}

/// A regular file that we made: written at exact offsets, through two descriptors, one of them
/// past the page cache where the file system says that it can (`STATX_DIOALIGN`).
pub struct FileSink {
    file: File,
    direct: Option<File>,
    /// As it was given, for messages.
    name: PathBuf,
    /// Where a link leads: that is the folder which has to be synced.
    folder: PathBuf,
    is_folder_synced: bool,
    allocate_bytes: u64,
    /// Up to here the file system has found room.
    allocated: u64,
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
        let config = FileConfig {
            direct,
            ..FileConfig::default()
        };
        FileSink::create_with(path, &config)
    }

    /// As [`create`](FileSink::create), with all there is to choose.
    ///
    /// # Errors
    /// The path cannot be created or written.
    pub fn create_with(path: &Path, config: &FileConfig) -> Result<Box<dyn Sink>> {
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
        let direct = (config.direct && sys::writes_direct(&file, BLOCK))
            .then(|| {
                OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_DIRECT)
                    .open(path)
                    .ok()
            })
            .flatten();
        let real = path.canonicalize().map_err(failed)?;
        Ok(Box::new(FileSink {
            file,
            direct,
            name: path.into(),
            folder: real.parent().unwrap_or(Path::new("/")).into(),
            is_folder_synced: false,
            allocate_bytes: config.allocate_bytes,
            allocated: 0,
        }))
    }

    /// Sees to room for what ends at `end`.
    fn allocate(&mut self, end: u64) {
        while self.allocate_bytes > 0 && self.allocated < end {
            match sys::allocate(&self.file, self.allocated, self.allocate_bytes) {
                Ok(()) => self.allocated += self.allocate_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is no room for so much, or no such thing here: the write itself will tell.
                Err(_) => self.allocate_bytes = 0,
            }
        }
    }
}

impl Sink for FileSink {
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.allocate(at + bytes.len() as u64);
        let aligned = |n: usize| n.is_multiple_of(BLOCK);
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

    fn name(&self) -> String {
        self.name.display().to_string()
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn cut(&mut self, len: u64) -> io::Result<bool> {
        self.file.set_len(len)?;
        self.allocated = self.allocated.min(len);
        Ok(true)
    }

    fn sync(&mut self) -> io::Result<bool> {
        self.file.sync_data()?;
        if !self.is_folder_synced {
            // A folder that may be written but not read cannot be opened, and so not synced.
            let Ok(folder) = File::open(&self.folder) else {
                return Ok(false);
            };
            folder.sync_all()?;
            self.is_folder_synced = true;
        }
        Ok(true)
    }
}
